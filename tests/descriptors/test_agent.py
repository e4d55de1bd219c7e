"""Agent registrations: what SDKs really send, and what they should never have sent."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.descriptors.strategies import json_values
from tests.support import requirement

from switchboard.catalog.errors import InvalidDescriptor
from switchboard.catalog.model import Agent
from switchboard.descriptors import agent

EXAMPLES = Path(__file__).parents[2] / "contract" / "examples"


def read(**changes: Any) -> agent.Registration:
    document = {"id": "probe", "base_url": "http://127.0.0.1:8001", **changes}
    return agent.read(json.dumps(document).encode())


@requirement("descriptor:agent:reasoner-fields", "descriptor:agent:skill-fields")
def test_a_registration_of_the_python_sdk_is_read_whole() -> None:
    """Ids, schemas, tags and descriptions of reasoners and skills, and how often it will call."""
    registration = agent.read((EXAMPLES / "register-python-sdk.json").read_bytes())

    probe = registration.agent
    assert (probe.id, probe.base_url, probe.version) == ("probe-agent", "http://127.0.0.1:18101", "2.3.1")
    assert (probe.group_id, probe.deployment_type, probe.health) == ("probe-agent", "long_running", "unknown")
    assert (registration.said, registration.heartbeat_s) == ("starting", 2.0)
    assert registration.problems == ()
    (reasoner,), (skill,) = probe.reasoners, probe.skills
    assert (reasoner.id, reasoner.tags, reasoner.description) == ("deep_research", ("research", "ml"), "Deep research")
    assert json.loads(reasoner.input_schema or b"")["required"] == ["query"]
    assert json.loads(reasoner.output_schema or b"") == {"type": "object"}
    assert (skill.id, skill.kind, skill.tags) == ("web_search", "skill", ("web",))
    assert json.loads(skill.input_schema or b"")["properties"] == {"q": {"type": "string"}}
    assert json.loads(probe.raw)["features"]["experimental"] == {}


def test_a_registration_of_the_go_sdk_is_read_whole() -> None:
    """It has no description, no instance, and says nothing about its life: it is ready."""
    registration = agent.read((EXAMPLES / "register-go-sdk.json").read_bytes())

    assert registration.agent.health == "active"
    assert [item.id for item in registration.agent.capabilities] == ["echo", "add"]
    assert registration.heartbeat_s is None


def test_oddities_are_normalised_and_noted() -> None:
    """Null tags, unknown keys, naive times, wrong types, repeated and nameless capabilities: nothing is refused."""
    registration = read(
        tags=None,
        reasoners=[
            {"id": "a", "tags": None, "proposed_tags": ["x", "", 5, "x"], "input_schema": "text", "description": 7},
            {"id": "a"},
            {"tags": ["lost"]},
            "b",
        ],
        skills=None,
        last_heartbeat="2026-11-15T00:11:56.263994",
        surprise={"deep": [1, 2]},
        version=3,
    )

    assert [(item.id, item.tags, item.input_schema) for item in registration.agent.reasoners] == [
        ("a", ("x",), None),
        ("b", (), None),
    ]
    assert sorted(problem.path for problem in registration.problems) == [
        "$.reasoners[0].description",
        "$.reasoners[0].input_schema",
        "$.reasoners[0].tags",
        "$.reasoners[1]",
        "$.reasoners[2]",
        "$.version",
    ]


def test_descriptions_and_examples_are_also_taken_from_the_metadata() -> None:
    """Older SDKs put them there."""
    custom = {"descriptions": {"a": "Said elsewhere"}, "examples": {"a": [{"input": {"q": 1}}, 5]}, "tags": ["lab"]}
    registration = read(reasoners=[{"id": "a"}], metadata={"custom": custom})

    (reasoner,) = registration.agent.reasoners
    assert reasoner.description == "Said elsewhere"
    assert json.loads(reasoner.examples or b"") == [{"input": {"q": 1}}]
    assert registration.agent.tags == ("lab",)


@pytest.mark.parametrize(
    ("said", "health"),
    [
        ("starting", "unknown"),
        ("ready", "active"),
        ("", "active"),
        ("degraded", "degraded"),
        (" Offline ", "inactive"),
        ("stopping", "inactive"),
        ("pending_approval", "unknown"),
    ],
)
def test_the_first_health_follows_what_the_agent_says(said: str, health: str) -> None:
    """Starting is not known yet; ready, or nothing at all, is active at once."""
    assert read(lifecycle_status=said).agent.health == health


@pytest.mark.parametrize(
    ("given_interval", "seconds"),
    [
        ("2s", 2.0),
        ("500ms", 0.5),
        ("1m", 60.0),
        ("2m0s", 120.0),
        ("30", 30.0),
        (30, 30.0),
        (120_000_000_000, 120.0),
        ("soon", None),
        (0, None),
        (int("9" * 400), None),
        ("9" * 400, None),
    ],
)
def test_the_heartbeat_interval_is_read_in_every_unit(given_interval: object, seconds: float | None) -> None:
    """What cannot be read is left to the server."""
    assert read(communication_config={"heartbeat_interval": given_interval}).heartbeat_s == seconds


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"id": ""}, "$.id"),
        ({"id": None}, "$.id"),
        ({"id": 5}, "$.id"),
        ({"id": "x" * 501}, "$.id"),
        ({"id": "a\nb"}, "$.id"),
        ({"id": "a\x1b[2J"}, "$.id"),
        ({"base_url": None}, "$.base_url"),
        ({"base_url": "127.0.0.1:8001"}, "$.base_url"),
        ({"base_url": "ftp://example.com"}, "$.base_url"),
        ({"base_url": "http://user:secret@example.com"}, "$.base_url"),
        ({"base_url": "http://:80"}, "$.base_url"),
        ({"base_url": "http://[::1"}, "$.base_url"),
        ({"base_url": "http://a\x00b"}, "$.base_url"),
        ({"base_url": "http://a\\b"}, "$.base_url"),
    ],
)
def test_only_an_id_and_an_address_are_needed(changes: dict[str, Any], path: str) -> None:
    """Without them nobody could call the agent."""
    with pytest.raises(InvalidDescriptor) as error:
        read(**changes)

    assert str(error.value.details["problems"]).startswith(f"['{path}: ")
    assert "secret" not in error.value.message


def test_what_stands_in_the_wrong_place_is_noted_where_it_stands() -> None:
    """Paths lead to the value, also inside the metadata."""
    custom: dict[str, Any] = {"description": 5, "descriptions": {"a": []}, "tags": "one"}
    registration = read(reasoners=[{"id": "a"}], metadata={"custom": custom}, lifecycle_status="dancing")

    assert sorted(problem.path for problem in registration.problems) == [
        "$.lifecycle_status",
        "$.metadata.custom.description",
        "$.metadata.custom.descriptions.a",
    ]
    assert registration.agent.tags == ("one",)


def test_a_registration_cannot_flood_the_catalogue() -> None:
    """A thousand reasoners and a hundred tags are plenty; ids that could not be called are left out."""
    many = [f"r{i}" for i in range(5000)]
    registration = read(reasoners=[*many, "x" * 501], skills=[{"id": "s", "tags": [f"t{i}" for i in range(500)]}])

    assert len(registration.agent.reasoners) == 1000
    assert len(registration.agent.skills[0].tags) == 100
    assert len(registration.problems) == 2


def test_what_is_no_json_object_is_refused_with_its_reason() -> None:
    """The same words as for a descriptor."""
    with pytest.raises(InvalidDescriptor, match="ends too early"):
        agent.read(b'{"id": "a"')


keys = st.sampled_from(
    ["id", "base_url", "reasoners", "skills", "tags", "metadata", "communication_config", "lifecycle_status", "version"]
)


@given(st.dictionaries(keys, json_values | st.lists(st.dictionaries(keys, json_values, max_size=3), max_size=3)))
def test_any_object_with_an_id_and_an_address_registers(document: dict[str, Any]) -> None:
    """Whatever else is in it; and what was read survives writing."""
    registration = agent.read(json.dumps({**document, "id": "a", "base_url": "http://a.test"}).encode())

    again = agent.read(agent.write(registration.agent)).agent
    assert facts(again) == facts(registration.agent)


def facts(found: Agent) -> tuple[object, ...]:
    return (found.id, found.base_url, found.version, found.tags, found.health, found.capabilities, found.description)

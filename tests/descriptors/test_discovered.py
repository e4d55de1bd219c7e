"""Answers of discovery and events of a watch, read back into agents: ours, AgentField's, and what nobody sends."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.descriptors.strategies import json_values

from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import InvalidDescriptor
from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query
from switchboard.descriptors import agent as registrations
from switchboard.descriptors import discovered
from switchboard.rest import render_json

EXAMPLES = Path(__file__).parents[2] / "contract" / "examples"
EVERYTHING = Query(input_schema=True, output_schema=True, descriptions=True, examples=True)


def shown(agent: Agent) -> bytes:
    """Return an agent as our own discovery writes it, with everything."""
    head, items = render_json.agent_fragments(agent, EVERYTHING)
    first = agent.reasoner_count
    heartbeat = render_json.agent_heartbeat(b"2026-11-15T10:00:00.000Z")
    return head + heartbeat + render_json.agent_tail(items[:first], items[first:])


def as_shown(agent: Agent) -> Agent:
    """Return an agent without what discovery does not tell: whose it is, and what it registered with."""
    return replace(agent, description="", tags=(), team_id="default", instance_id="", raw=Json(b"{}"))


@pytest.mark.parametrize("name", ["register-python-sdk.json", "register-go-sdk.json"])
def test_what_our_discovery_writes_is_read_back_to_the_same_agent(name: str) -> None:
    """Schemas, tags, descriptions and examples included."""
    agent = registrations.read((EXAMPLES / name).read_bytes()).agent

    assert discovered.read_agent(json.loads(shown(agent))).agent == as_shown(agent)


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=10).filter(str.strip)
items = st.fixed_dictionaries(
    {"id": names},
    optional={
        "description": st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
        "tags": st.lists(names, max_size=2),
        "input_schema": st.dictionaries(names, json_values, max_size=2),
        "examples": st.lists(st.dictionaries(names, json_values, max_size=2), max_size=2),
    },
)


@given(names, st.lists(items, max_size=3), st.lists(items, max_size=3))
def test_every_agent_that_can_register_is_read_back(
    agent_id: str, reasoners: list[dict[str, Any]], skills: list[dict[str, Any]]
) -> None:
    """Whatever it calls itself and its capabilities."""
    document = {"id": agent_id, "base_url": "http://127.0.0.1:1", "reasoners": reasoners, "skills": skills}
    agent = registrations.read(msgspec.json.encode(document)).agent

    assert discovered.read_agent(msgspec.json.decode(shown(agent))).agent == as_shown(agent)


def test_the_golden_answer_is_read_whole() -> None:
    """Three agents, their health, and that there is no further page."""
    page = discovered.read((EXAMPLES / "discovery-json.json").read_bytes())

    assert [(one.agent.id, one.agent.health) for one in page.agents][:2] == [
        ("agent-research-001", "active"),
        ("com.example.mail", "degraded"),
    ]
    assert (page.total, page.has_more, page.problems) == (3, False, ())
    [research] = page.agents[0].agent.reasoners
    assert json.loads(research.input_schema or b"")["required"] == ["query"]
    assert json.loads(research.examples or b"")[0]["name"] == "Basic research query"


def test_an_answer_of_agentfield_is_read() -> None:
    """Empty texts, null for empty lists, the year one for no time."""
    page = discovered.read(
        b'{"total_agents":1,"capabilities":[{"agent_id":"only-skill","group_id":"","base_url":"","version":"",'
        b'"health_status":"","deployment_type":"","last_heartbeat":"0001-01-01T00:00:00Z","reasoners":null,'
        b'"skills":[{"id":"s1","invocation_target":"only-skill:skill:s1"}]}]}'
    )

    [one] = page.agents
    assert (one.agent.id, one.agent.health, one.since) == ("only-skill", "unknown", None)
    assert [(item.kind, item.id) for item in one.agent.capabilities] == [("skill", "s1")]
    assert discovered.read(b'{"total_agents":0,"capabilities":null}').agents == ()


def test_an_inactive_agent_is_so_at_least_since_it_was_last_heard() -> None:
    """An active one is not said to be anything since then: it is heard all the time."""
    document = {"agent_id": "a", "last_heartbeat": "2026-11-15T10:00:00Z"}

    inactive = discovered.read_agent({**document, "health_status": "inactive"})
    active = discovered.read_agent({**document, "health_status": "active"})

    assert (inactive.since, active.since) == (1794736800.0, None)


@pytest.mark.parametrize(
    "heard", ["9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "soon", 5]
)
def test_a_time_that_cannot_be_shown_is_none(heard: object) -> None:
    """Whoever reads a guide of the agent, or calls it, is told the rest."""
    found = discovered.read_agent({"agent_id": "a", "health_status": "inactive", "last_heartbeat": heard})

    assert found.since is None


def test_one_agent_that_cannot_be_read_does_not_hide_the_others() -> None:
    """It is a problem, with its place."""
    deep: Any = {}
    for _ in range(100):
        deep = {"x": deep}
    bad: list[Any] = [
        5,
        {"agent_id": ""},
        {"agent_id": "a\nb"},
        {"agent_id": "x" * 501},
        {"agent_id": "d", "skills": [deep]},
    ]

    page = discovered.read(json.dumps({"capabilities": [*bad, {"agent_id": "good"}]}).encode())

    assert [one.agent.id for one in page.agents] == ["good"]
    assert [problem.path for problem in page.problems] == [f"$.capabilities[{number}]" for number in range(5)]


@pytest.mark.parametrize("raw", [b"", b"no", b"[]", b'{"capabilities": 5}', b"[" * 5000])
def test_what_is_no_answer_is_refused(raw: bytes) -> None:
    """In one kind of error, whatever it is."""
    with pytest.raises(InvalidDescriptor):
        discovered.read(raw)


def test_events_are_read() -> None:
    """Who came, how they are and why, who went, and where a watch begins."""
    agent = {"agent_id": "a", "health_status": "inactive", "skills": [{"id": "s"}]}
    health = {"agent_id": "a", "since": "2026-11-15T10:00:00.000Z", "reason": "silent", "agent": agent}

    came = discovered.read_news("registered", msgspec.json.encode({"agent": agent}))
    ill = discovered.read_news("health", msgspec.json.encode(health))
    gone = discovered.read_news("removed", b'{"agent_id": "a", "reason": "deregistered"}')
    begun = discovered.read_news("snapshot", b'{"store": "abc"}')

    inactive = discovered.read_agent(agent)
    silent = replace(inactive, since=1794736800.0, reason="silent")
    assert came == discovered.News(kind="registered", agent_id="a", agent=inactive)
    assert ill == discovered.News(kind="health", agent_id="a", agent=silent)
    assert gone == discovered.News(kind="removed", agent_id="a")
    assert begun == discovered.News(kind="snapshot", store="abc")
    assert discovered.read_news("invented later", b"{}") is None


@given(st.sampled_from(["snapshot", "resumed", "registered", "changed", "health", "removed", "other"]), json_values)
def test_whatever_an_event_holds_it_is_read_or_refused(kind: str, value: Any) -> None:
    """Nothing else is raised."""
    try:
        discovered.read_news(kind, msgspec.json.encode(value))
        discovered.read_news(kind, msgspec.json.encode({"agent": value, "agent_id": value, "store": value}))
    except InvalidDescriptor:
        return


@pytest.mark.parametrize(
    ("raw", "store"),
    [
        (b'{"store": {"id": "abc"}}', "abc"),
        (b'{"store": "ok"}', ""),
        (b'{"store": {"id": "a b"}}', ""),
        (b'{"store": {"id": 7}}', ""),
        (b"<html>", ""),
    ],
)
def test_the_id_of_a_store_is_taken_only_if_it_can_be_one(raw: bytes, store: str) -> None:
    """It becomes part of what a consent is for."""
    assert discovered.read_health(raw) == store

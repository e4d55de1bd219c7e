"""How complete a list is: as data in every list, in one sentence for models, and in refusals that may be about it."""

import asyncio
import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any, final

import pytest
from msgspec.structs import replace
from tests.builders import agent, app
from tests.mcp.test_server import OneSite, Story, play

from switchboard.actions.collection import Collection
from switchboard.actions.lookup import Lookup
from switchboard.actions.ports import Readiness, Source
from switchboard.catalog.agent_apps import as_app
from switchboard.catalog.errors import StillLoading
from switchboard.catalog.findings import Finding
from switchboard.catalog.model import App, Standing
from switchboard.mcp.guide import line, standing_note

PLANE = "https://plane.example"
AT = 1794736800.0
DOWN = Readiness(source=PLANE, status="down", since=AT, reason="it does not answer")
META = "switchboard/catalogue"


def recorder(**standing: Any) -> App:
    built = agent("recorder", {"think": []}, {"act": [], "think": []})
    return as_app(built, service="agents:s1", origin="agents:s1", standing=Standing(planes=(PLANE,), **standing))


async def listed(it: Story) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a list says about itself, and the descriptions of its tools."""
    result = (await it.ask("tools/list"))["result"]
    return result["_meta"][META], {tool["name"]: tool["description"] for tool in result["tools"]}


def test_a_list_says_how_many_there_are_and_how_far_every_source_is() -> None:
    """While all is well nothing is added to what a model reads."""

    async def story() -> None:
        it = Story(app("com.a.a"), app("com.b.b"))
        await it.collection.load()
        facts, tools = await listed(it)
        resources = (await it.ask("resources/list"))["result"]["_meta"][META]

        assert (facts["total"], facts["shown"]) == (2, 2)
        assert facts["sources"] == [{"name": "given", "status": "ready", "apps": count} for count in (2, 0)]
        assert resources == facts
        assert "incomplete" not in tools["web:discover"]

    play(story)


def test_what_is_down_or_loading_is_said_where_a_model_reads_it_and_told_as_a_change() -> None:
    """Once when it begins and once when it ends; a list that looks the same is not told to be another."""

    async def story() -> None:
        it = Story(app("com.a.a"))
        await it.collection.load()
        await listed(it)
        told: list[list[str]] = []
        it.collection.listen(lambda: told.append(it.server.outdated()))
        it.collection.note(DOWN)
        facts, tools = await listed(it)
        it.collection.note(replace(DOWN, reason="it says 503"))
        it.collection.note(replace(DOWN, status="ready", since=None, reason="", apps=3))
        _, after = await listed(it)

        assert facts["sources"][-1] == {
            "name": PLANE,
            "status": "down",
            "apps": 0,
            "since": "2026-11-15T10:00:00.000Z",
            "reason": "it does not answer",
        }
        assert tools["web:discover"].endswith("The list may be incomplete: plane.example down since 2026-11-15T10:00Z.")
        assert after["web:discover"].endswith("not in list.")
        assert told == [["tools"], [], ["tools"]]

    play(story)


def test_a_list_that_is_cut_says_so() -> None:
    """And how many there are."""

    async def story() -> None:
        it = Story(*(app(f"com.a.a{number}") for number in range(1200)))
        await it.collection.load()
        facts, tools = await listed(it)

        assert (facts["total"], facts["shown"]) == (1200, 998)
        assert "998 of 1200 apps are on this page" in tools["web:discover"]

    play(story)


@pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")  # the package's own
def test_the_fixed_tools_stay_within_their_budget_in_the_worst_case() -> None:
    """Many sources with long names, down and loading, and more apps than a page holds."""
    encode: Any = import_module("bpe_openai").get_encoding("o200k_base").encode

    async def story() -> None:
        it = Story(*(app(f"com.a.a{number}") for number in range(1200)))
        await it.collection.load()
        for number in range(20):
            name = f"https://{number}-{'x' * 200}.example"
            it.collection.note(replace(DOWN, source=name, reason="because " * 100))
        result = (await it.ask("tools/list"))["result"]
        fixed = [tool for tool in result["tools"] if not tool["name"].startswith("app")]

        assert len(fixed) == 2
        assert sum(len(encode(json.dumps(tool))) for tool in fixed) <= 350

    play(story)


def test_an_unknown_app_names_the_sources_that_were_not_ready() -> None:
    """There may be one that nobody could tell of."""

    async def story() -> None:
        it = Story(app("com.a.a"))
        await it.collection.load()
        it.collection.note(DOWN)
        said = (await it.ask("tools/call", name="app:nobody"))["result"]["structuredContent"]

        assert said["code"] == "UNKNOWN_APP"
        assert "plane.example down since 2026-11-15T10:00Z" in said["message"]
        assert said["sources"][0]["since"] == "2026-11-15T10:00:00.000Z"

    play(story)


@final
class Waiting(Source):
    """Asks others, and waits for one of them."""

    async def load(self) -> tuple[Finding, ...]:
        """Know nobody yet."""
        return ()

    def readiness(self) -> Sequence[Readiness]:
        """Still wait."""
        return [Readiness(source=PLANE, status="loading")]


def test_while_a_source_is_waited_for_an_app_is_not_unknown_but_not_known_yet() -> None:
    """And the refusal names the source."""

    async def story() -> None:
        collection = Collection([Waiting()])
        await collection.load()
        with pytest.raises(StillLoading, match=r"plane\.example still loading") as error:
            await Lookup(collection, OneSite(), patience_s=0.01).app("nobody")

        assert not collection.is_complete
        assert error.value.details["sources"] == [{"name": PLANE, "status": "loading", "apps": 0}]

    asyncio.run(story())


def test_an_inactive_agent_is_marked_in_its_line() -> None:
    """Shortly: it is paid for in every conversation."""
    assert line(recorder(health="inactive")).startswith("【recorder】(inactive) Agent: think, act")
    assert "active" not in line(recorder())


@pytest.mark.parametrize(
    ("standing", "notes"),
    [
        ({}, []),
        ({"health": "unknown"}, []),
        ({"health": "degraded", "reason": "slow"}, ["This agent is degraded (slow): calls may fail."]),
        (
            {"health": "inactive", "since": AT, "reason": "silent"},
            ["inactive since 2026-11-15T10:00:00.000Z (silent). A call is refused until it is back."],
        ),
        (
            {"health": "inactive", "stale_since": AT},
            ["inactive. It was so when last heard of.", "does not answer since 2026-11-15T10:00:00.000Z"],
        ),
        ({"stale_since": AT}, ["this is what it said last. A call is tried all the same."]),
    ],
)
def test_a_guide_says_how_an_agent_is(standing: dict[str, Any], notes: list[str]) -> None:
    """Since when, why, and what that means for a call."""
    said = standing_note(recorder(**standing))

    assert all(note in said for note in notes)
    assert bool(said) is bool(notes)


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("recorder:think", "recorder / think"),
        ("recorder:reasoner:think", "recorder / think"),
        ("recorder:skill:think", "recorder / skill:think"),
        ("recorder:act", "recorder / act"),
        ("recorder:skill:act", "recorder / act"),
        ("recorder:reasoner:act", None),
    ],
)
def test_an_agents_capabilities_are_called_as_discovery_prints_them(name: str, called: str | None) -> None:
    """By name, or by kind and name; a kind that is not its own is not it."""

    async def story() -> None:
        it = Story(recorder())
        await it.collection.load()
        said = await it.call(name)

        if called is None:
            assert said.startswith("UNKNOWN_TOOL")
        else:
            assert said == called

    play(story)

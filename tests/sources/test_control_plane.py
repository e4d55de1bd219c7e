"""Agents of control planes: listed, watched, polled, merged, and marked as old when nobody tells of them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import pytest
from tests.actions.fakes import HandClock
from tests.leaks import secret
from tests.planes import DISCOVERY, WATCH, Said, SmallPlane, item

from switchboard.actions.collection import Collection
from switchboard.actions.ports import Plane
from switchboard.catalog.bindings import Registered
from switchboard.catalog.model import App
from switchboard.net.fetch import Fetch
from switchboard.net.guard import is_reachable
from switchboard.sources.control_plane import ControlPlanes, pause
from switchboard.telemetry.logs import Log

LIMIT_S = 20.0
POLL_S = 0.05


class Followed:
    """Control planes, followed as a gateway does."""

    def __init__(self, planes: list[Plane], first_s: float) -> None:
        self.log = BytesIO()
        self.clock = HandClock()
        self._fetch = Fetch(loopback=True, permitted=is_reachable)
        self.source = ControlPlanes(
            planes, lambda: self._fetch, self.clock, Log(self.log), gather_s=0.001, poll_s=POLL_S, first_s=first_s
        )
        self.collection = Collection([self.source])

    @property
    def apps(self) -> dict[str, App]:
        """What is known now."""
        return dict(self.collection.current().apps.items())

    @property
    def statuses(self) -> list[str]:
        """How far every control plane is."""
        return [one.status for one in self.source.readiness()]

    def health(self, agent_id: str) -> str:
        """Return how an agent is."""
        standing = self.apps[agent_id].standing if agent_id in self.apps else None
        return "" if standing is None else standing.health

    def stale_since(self, agent_id: str) -> float | None:
        """Return since when nobody can say how an agent is."""
        standing = self.apps[agent_id].standing
        return None if standing is None else standing.stale_since

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, with a limit."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():  # noqa: ASYNC110 - nobody tells of what a test looks for
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Close what was opened."""
        await self._fetch.close()


@asynccontextmanager
async def following(*planes: SmallPlane | Plane, first_s: float = LIMIT_S) -> AsyncGenerator[Followed]:
    """Follow some control planes for a while."""
    named = [Plane(url=plane.url) if isinstance(plane, SmallPlane) else plane for plane in planes]
    it = Followed(named, first_s)
    await it.collection.load()
    keeping = asyncio.create_task(it.source.keep(lambda: it.collection.load(it.source)))
    try:
        yield it
        assert not keeping.done()
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await it.close()


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 3 * LIMIT_S))


@pytest.mark.parametrize("watch", [True, False])
def test_every_agent_is_an_app_whose_calls_go_through_its_service(watch: bool) -> None:
    """With health, skills as tools, and where people find its control plane."""
    agents = [item("a", "read", "write"), item("b", health="inactive")]

    async def story() -> None:
        with SmallPlane(*agents, store="s1", watch=watch) as plane:
            async with following(plane) as it:
                await it.until(lambda: len(it.apps) == 2)

                a, b = it.apps["a"], it.apps["b"]
                assert [tool.id for tool in a.capabilities] == ["read", "write"]
                assert a.execution == Registered(service="agents:s1", agent_id="a")
                assert (a.origin, a.standing.planes if a.standing else ()) == ("agents:s1", (plane.url,))
                assert (it.health("a"), it.health("b")) == ("active", "inactive")
                assert b.standing is not None
                assert b.standing.since == 1794736800.0
                assert it.collection.is_complete

    play(story)


def test_what_a_watch_tells_is_taken_in_without_asking_again() -> None:
    """Who came, changed, fell ill and went; then everything after a break, from where it was."""

    async def story() -> None:
        with SmallPlane(item("a"), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: "a" in it.apps)
                plane.tell("registered", agent_id="b", agent=item("b"))
                await it.until(lambda: "b" in it.apps)
                plane.tell("changed", agent_id="b", agent=item("b", "new"))
                await it.until(lambda: it.apps["b"].capabilities[0].id == "new")
                ill = {"since": "2026-11-15T11:00:00Z", "reason": "silent", "agent": item("b", health="inactive")}
                plane.tell("health", agent_id="b", health_status="inactive", **ill)
                await it.until(lambda: it.health("b") == "inactive")
                plane.tell("removed", agent_id="a", reason="deregistered")
                await it.until(lambda: "a" not in it.apps)
                plane.cut()
                await it.until(lambda: len(plane.requests(WATCH)) == 2 and plane.watchers == 1)
                plane.tell("registered", agent_id="c", agent=item("c"))
                await it.until(lambda: "c" in it.apps)

                standing = it.apps["b"].standing
                assert standing is not None
                assert (standing.since, standing.reason) == (1794740400.0, "silent")
                assert plane.requests(WATCH)[1].headers["last-event-id"] == "instance-5"
                assert len(plane.requests(DISCOVERY)) == 1
                assert it.statuses == ["ready"]

    play(story)


def test_a_watch_that_cannot_be_resumed_begins_with_everybody() -> None:
    """Who went meanwhile is gone."""

    async def story() -> None:
        with SmallPlane(item("a"), item("b"), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: len(it.apps) == 2)
                plane.agents = [item("b"), item("c")]
                plane.version += 100
                plane.cut()
                await it.until(lambda: sorted(it.apps) == ["b", "c"])

    play(story)


def test_an_event_that_cannot_be_read_leads_to_a_fresh_look() -> None:
    """What it may have said is in the answer to it; nobody is lost."""

    async def story() -> None:
        with SmallPlane(item("a"), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: "a" in it.apps)
                plane.agents.append(item("b"))
                plane.version += 1
                plane.send(b"event: registered\nid: instance-1\ndata: {broken\n\n")
                await it.until(lambda: sorted(it.apps) == ["a", "b"])

                assert "last-event-id" not in plane.requests(WATCH)[1].headers

    play(story)


def test_an_event_that_is_too_large_leads_to_a_fresh_look() -> None:
    """Whoever went on after it would be sent the same again, and hear of nothing else any more."""

    async def story() -> None:
        with SmallPlane(item("a"), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: "a" in it.apps)
                plane.agents.append(item("b"))
                plane.version += 1
                plane.send(b"event: registered\ndata: " + b"x" * 5_000_000 + b"\n\n")
                await it.until(lambda: sorted(it.apps) == ["a", "b"])

                assert "last-event-id" not in plane.requests(WATCH)[1].headers

    play(story)


@pytest.mark.parametrize("identity", ["instance-\u00fc", "x" * 2000, "a\x01b"])
def test_an_id_that_cannot_be_sent_back_is_no_place_to_go_on_from(identity: str) -> None:
    """The control plane is asked anew, and not called down because of what it said."""

    async def story() -> None:
        with SmallPlane(item("a"), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: "a" in it.apps)
                told = json.dumps({"version": 2, "agent_id": "b", "agent": item("b")})
                plane.send(f"event: registered\nid: {identity}\ndata: {told}\n\n".encode())
                await it.until(lambda: "b" in it.apps)
                plane.agents, plane.version = [item("c")], 2
                plane.cut()
                await it.until(lambda: sorted(it.apps) == ["c"])

                assert "last-event-id" not in plane.requests(WATCH)[1].headers
                assert "control_plane.down" not in it.log.getvalue().decode()

    play(story)


def test_a_watch_that_never_says_anything_is_a_control_plane_that_is_down() -> None:
    """A proxy that keeps events back sends signs of life all the same; nobody waits for it for ever."""

    async def story() -> None:
        with SmallPlane(item("a"), store="s1", watch=True, mute=True) as plane:
            async with following(plane, first_s=0.2) as it:
                alive = asyncio.create_task(_signs_of_life(plane))
                await it.until(lambda: it.statuses == ["down"])
                alive.cancel()

                assert "told nothing" in it.source.readiness()[0].reason

    play(story)


async def _signs_of_life(plane: SmallPlane) -> None:
    while True:
        plane.send(b": keep-alive\n\n")
        await asyncio.sleep(0.02)


def test_who_changes_all_the_time_is_told_of_now_and_then() -> None:
    """Every telling makes clients ask for whole lists: the first comes at once, those after it further and further."""
    pauses = [0.05]
    for quiet_s in (9.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.6, 0.1):
        pauses.append(pause(pauses[-1], quiet_s))

    assert pauses[1:] == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.05, 0.1]


@pytest.mark.parametrize(
    "watch", [Said(404, {}), Said(405, {}), Said(200, b"<html></html>", kind="text/html"), Said(400, {})]
)
def test_a_server_without_a_watch_is_asked_again_and_again(watch: Said) -> None:
    """AgentField's own has none; what has not changed is not sent again."""

    async def story() -> None:
        with SmallPlane(item("a")) as plane:
            plane.answers[WATCH] = lambda _: watch
            async with following(plane) as it:
                await it.until(lambda: "a" in it.apps)
                await it.until(lambda: len(plane.requests(DISCOVERY)) > 3)
                asked = plane.requests(DISCOVERY)[1]
                plane.agents, plane.version = [item("b")], 2
                await it.until(lambda: sorted(it.apps) == ["b"])

                assert asked.headers["if-none-match"] == 'W/"instance-1-0-500"'
                assert it.apps["b"].origin == plane.url

    play(story)


def test_pages_are_turned_until_everybody_is_known() -> None:
    """Five hundred at a time."""

    async def story() -> None:
        with SmallPlane(*(item(f"agent-{number:04}") for number in range(1203)), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: len(it.apps) == 1203)

                assert [asked.query["offset"] for asked in plane.requests(DISCOVERY)] == ["0", "500", "1000"]

    play(story)


def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones() -> None:
    """Agents with long descriptions are agents all the same."""
    long: dict[str, Any] = {"skills": [{"id": "s", "description": "x" * 9_000_000}]}

    async def story() -> None:
        with SmallPlane(*(item(name, **long) for name in "abcd"), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: len(it.apps) == 4)

                assert [asked.query["limit"] for asked in plane.requests(DISCOVERY)][:2] == ["500", "62"]

    play(story)


def test_one_that_goes_down_leaves_its_agents_and_since_when() -> None:
    """Marked as old, whether or not it comes back; then they are as new."""

    async def story() -> None:
        plane = SmallPlane(item("a"), store="s1", watch=True)
        port = plane.port
        async with following(plane) as it:
            await it.until(lambda: "a" in it.apps)
            lost_at = it.clock.now()
            plane.close()
            await it.until(lambda: it.statuses == ["down"])
            await it.until(lambda: it.stale_since("a") is not None)
            stale = it.apps["a"].standing
            [readiness] = it.source.readiness()
            with SmallPlane(item("a"), store="s1", watch=True, port=port):
                await it.until(lambda: it.statuses == ["ready"])
                await it.until(lambda: it.stale_since("a") is None)

            assert stale is not None
            assert (stale.stale_since, stale.health) == (lost_at, "active")
            assert (readiness.status, readiness.since, readiness.apps) == ("down", lost_at, 1)
            assert b"control_plane.down" in it.log.getvalue()

    play(story)


def test_one_that_never_answers_hides_nobody() -> None:
    """The catalogue is complete as soon as that is known."""

    async def story() -> None:
        with SmallPlane(item("a"), store="s1", watch=True) as plane:
            async with following(Plane(url="http://127.0.0.1:9"), plane) as it:
                await it.until(lambda: it.statuses == ["down", "ready"])
                await it.until(lambda: "a" in it.apps)

                assert it.collection.is_complete
                assert [one.status for one in it.collection.readiness()] == ["down", "ready"]

    play(story)


def test_control_planes_of_one_store_are_one_service() -> None:
    """Its agents are there once, and stay fresh while one of them tells of them."""

    async def story() -> None:
        first = SmallPlane(item("a"), store="s1", watch=True)
        with SmallPlane(item("a"), store="s1", watch=True) as second:
            async with following(first, second) as it:
                await it.until(lambda: it.statuses == ["ready", "ready"])
                await it.until(lambda: "a" in it.apps)
                before = it.apps["a"]
                first.close()
                await it.until(lambda: it.statuses == ["down", "ready"])

                assert it.apps["a"] == before
                assert [plane.url for plane in it.source.of("agents:s1")] == [second.url, first.url]
                assert [plane.down_since is None for plane in it.source.of("agents:s1")] == [True, False]
                assert [finding.usable for finding in it.collection.findings] == [True]

    play(story)


def test_of_two_services_the_first_named_has_an_id() -> None:
    """The other is shown with the reason; what only it has is there."""

    async def story() -> None:
        with (
            SmallPlane(item("a", "first"), store="s1", watch=True) as first,
            SmallPlane(item("a", "second"), item("b"), store="s2", watch=True) as second,
        ):
            async with following(first, second) as it:
                await it.until(lambda: it.statuses == ["ready", "ready"])
                await it.until(lambda: sorted(it.apps) == ["a", "b"])
                await it.until(lambda: it.apps["a"].capabilities[0].id == "first")

                [lost] = [finding for finding in it.collection.findings if not finding.usable]
                assert lost.location == f"{second.url}/agents/a"
                assert lost.problems[0].kind == "conflict"
                assert it.apps["b"].origin == "agents:s2"

    play(story)


def test_each_key_goes_to_its_own_control_plane() -> None:
    """In every request, and never to another one."""
    ours, theirs = secret("first"), secret("second")

    async def story() -> None:
        with (
            SmallPlane(item("a"), store="s1", watch=True, key=ours) as first,
            SmallPlane(item("b"), key=theirs) as second,
        ):
            planes = [
                Plane(url=first.url, headers=(("X-API-Key", ours),)),
                Plane(url=second.url, headers=(("X-API-Key", theirs),)),
            ]
            async with following(*planes) as it:
                await it.until(lambda: sorted(it.apps) == ["a", "b"])

                assert {asked.headers.get("x-api-key") for asked in first.asked} == {ours}
                assert {asked.headers.get("x-api-key") for asked in second.asked} == {theirs}
                assert "Gehe1m" not in repr(planes)

    play(story)


def test_a_redirect_is_not_followed() -> None:
    """The key stays with whom it is for."""

    async def story() -> None:
        with SmallPlane(item("a")) as other, SmallPlane(key="x") as plane:
            moved = f"<a href='{other.url}'>".encode()
            plane.answers[WATCH] = lambda _: Said(307, moved)
            async with following(Plane(url=plane.url, headers=(("X-API-Key", "x"),))) as it:
                await it.until(lambda: it.statuses == ["down"])

                assert other.asked == []

    play(story)


@pytest.mark.parametrize(("key", "said"), [("wrong", "does not accept the key in"), (None, "wants an API key: set")])
def test_a_wrong_key_is_said_and_not_shown(key: str | None, said: str) -> None:
    """The reason names the variable to set."""
    given = secret(key) if key else None

    async def story() -> None:
        with SmallPlane(item("a"), key="right", watch=True) as plane:
            headers = (("X-API-Key", given),) if given else ()
            async with following(Plane(url=plane.url, headers=headers)) as it:
                await it.until(lambda: it.statuses == ["down"])
                await it.until(lambda: b"control_plane.down" in it.log.getvalue())

                [readiness] = it.source.readiness()
                assert f"{said} AGENTFIELD_API_KEY" in readiness.reason
                assert "Gehe1m" not in readiness.reason
                assert b"Gehe1m" not in it.log.getvalue()

    play(story)


@pytest.mark.parametrize(
    "said",
    [
        Said(200, b"{"),
        Said(200, {"capabilities": "everything"}),
        Said(500, {}),
        Said(None),
        Said(200, b"[" * 10_000),
        Said(200, b"<html></html>", kind="text/html"),
    ],
)
def test_an_answer_that_is_none_is_a_control_plane_that_is_down(said: Said) -> None:
    """And nothing else of the gateway is."""

    async def story() -> None:
        with SmallPlane(item("a"), store="s1", watch=True) as fine, SmallPlane(store="s2", watch=True) as plane:
            plane.answers[DISCOVERY] = lambda _: said
            async with following(plane, fine) as it:
                await it.until(lambda: it.statuses == ["down", "ready"])
                await it.until(lambda: sorted(it.apps) == ["a"])

    play(story)


def test_one_that_lies_about_its_pages_is_not_asked_for_ever() -> None:
    """There is always one page more, with nobody on it; what cannot be read is a finding."""

    async def story() -> None:
        with SmallPlane(store="s1", watch=True) as plane:
            pages = [[item("a"), item("line\nbreak"), 5], []]

            def more(_: Any) -> Said:
                found = pages.pop(0) if len(pages) > 1 else pages[0]
                return Said(200, {"total_agents": 3, "pagination": {"has_more": True}, "capabilities": found})

            plane.answers[DISCOVERY] = more
            async with following(plane) as it:
                await it.until(lambda: it.statuses == ["ready"])
                await it.until(lambda: sorted(it.apps) == ["a"])

                [broken] = [finding for finding in it.collection.findings if not finding.usable]
                assert (len(broken.problems), broken.stands_for) == (2, "")
                assert len(plane.requests(DISCOVERY)) == 2

    play(story)


def test_an_agent_has_a_descriptor_that_can_be_read() -> None:
    """It is JSON, and says what the agent offers."""

    async def story() -> None:
        with SmallPlane(item("a", "read"), store="s1", watch=True) as plane:
            async with following(plane) as it:
                await it.until(lambda: "a" in it.apps)

                document = json.loads(await it.collection.published(it.apps["a"]))
                assert (document["platform"], document["app"]["id"]) == ("agent", "a")
                assert document["execution"]["type"] == "control-plane"
                assert [tool["name"] for tool in document["tools"]] == ["read"]

    play(story)

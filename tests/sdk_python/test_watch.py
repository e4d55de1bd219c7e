"""`app.watch()` against real servers: told as it happens, across broken lines and restarts, and where nobody tells."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane, registration
from tests.watchers import cable, everything

from agentfield import Agent, AgentCapability, Change, InvalidRequest, Unauthorized
from agentfield.discovery import NEVER
from agentfield.events import Event, Reader
from agentfield.watching import differences

ROOT = Path(__file__).parents[2]
SLOWLY = 3600.0
"""So seldom that no poll can be what a test sees."""
Watch = Callable[[Agent, str], Generator[Change]]


def in_turn(app: Agent, pattern: str) -> Generator[Change]:
    return app.watch(every=SLOWLY, agent=pattern)


def on_a_loop(app: Agent, pattern: str) -> Generator[Change]:
    """Read the asyncio twin as if it were the other."""
    runner = asyncio.Runner()
    changes: AsyncIterator[Change] = app.awatch(every=SLOWLY, agent=pattern)

    async def step() -> Change:
        return await anext(changes)

    try:
        while True:
            yield runner.run(step())
    finally:
        runner.close()


@pytest.fixture(params=[in_turn, on_a_loop])
def watch(request: pytest.FixtureRequest) -> Watch:
    return request.param


class Keeper(threading.Thread):
    """Keeps a list by watching, and everything it was told."""

    def __init__(self, url: str, watch: Watch, pattern: str = "a*", pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._app = Agent(agentfield_server=url)
        self._watch = watch
        self._pattern = pattern
        self._pause_s = pause_s
        self._over = threading.Event()
        self.changes: list[Change] = []
        self.known: dict[str, AgentCapability] = {}
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Apply every change; each has to fit what is known."""
        try:
            for change in self._watch(self._app, self._pattern):
                name = change.agent.agent_id
                if name == "azz-the-end":
                    return
                assert (change.kind == "added") == (name not in self.known), change
                assert change.before == self.known.get(name), change
                if change.kind == "removed":
                    del self.known[name]
                else:
                    self.known[name] = change.agent
                self.changes.append(change)
                self._over.wait(self._pause_s)
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.failure = error

    def ends_with(self, plane: ControlPlane) -> None:
        """Tell it to end, and check that it knows what discovery knows."""
        truth = everything(plane.url, agent=self._pattern)
        plane.register(registration("azz-the-end", {"r": []}))
        self.join(60)
        plane.client.delete("/api/v1/nodes/azz-the-end")
        assert not self.is_alive()
        assert self.failure is None, self.failure
        assert {name: agent.version for name, agent in self.known.items()} == {
            name: agent["version"] for name, agent in truth.items()
        }
        assert {name: agent.health_status for name, agent in self.known.items()} == {
            name: agent["health_status"] for name, agent in truth.items()
        }


def change_things(plane: ControlPlane, dice: random.Random, count: int) -> None:
    for _ in range(count):
        name = f"a{dice.randrange(6)}"
        match dice.randrange(4):
            case 0:
                plane.client.delete(f"/api/v1/nodes/{name}")
            case 1:
                plane.client.post(f"/api/v1/nodes/{name}/shutdown")
            case _:
                plane.register(registration(name, {"r": []}, version=str(dice.random())))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path)
    yield plane
    if plane.process.poll() is None:
        plane.stop()


def test_changes_are_told_with_what_was_before_and_why(own: ControlPlane, watch: Watch) -> None:
    """Without a poll: added, health with reason and since, changed, removed."""
    own.register(registration("a1", {"r": []}))
    with Agent(agentfield_server=own.url) as app:
        changes = watch(app, "a*")
        first = next(changes)
        own.client.post("/api/v1/nodes/a1/shutdown")
        worse = next(changes)
        own.register(registration("a1", {"r": [], "more": []}))
        other = next(changes)
        own.client.delete("/api/v1/nodes/a1")
        gone = next(changes)
        changes.close()

    assert [change.kind for change in (first, worse, other, gone)] == ["added", "health", "changed", "removed"]
    assert (worse.agent.health_status, worse.before and worse.before.health_status) == ("inactive", "active")
    assert (worse.reason, worse.since.year >= 2026, gone.reason) == ("shut down", True, "deregistered")


def test_a_line_that_is_cut_for_a_while_loses_nothing(own: ControlPlane, watch: Watch) -> None:
    """Changes while it is cut are told afterwards, each once: no second asking of discovery, no difference in it."""
    dice = random.Random(1)  # noqa: S311 - the same every time
    with cable(own.url) as line:
        keeper = Keeper(line.url, watch)
        for _ in range(3):
            change_things(own, dice, 10)
            line.cut()
            change_things(own, dice, 10)
            line.mend()
        keeper.ends_with(own)
    assert len(keeper.changes) > 10


def test_a_restart_in_between_is_bridged(tmp_path: Path, watch: Watch) -> None:
    """What changed meanwhile is told as changes; what did not is not told again."""
    plane = ControlPlane(tmp_path)
    port = plane.url.rpartition(":")[2]
    plane.register(registration("a1", {"r": []}), registration("a2", {"r": []}))
    keeper = Keeper(plane.url, watch)
    wait_until(lambda: len(keeper.changes) == 2)
    plane.kill()
    plane = ControlPlane(tmp_path, "--port", port)
    plane.client.delete("/api/v1/nodes/a1")
    plane.register(registration("a3", {"r": []}))
    wait_until(lambda: {change.agent.agent_id for change in keeper.changes[2:]} == {"a1", "a3"})

    keeper.ends_with(plane)
    assert [change.kind for change in keeper.changes[:2]] == ["added", "added"]
    plane.stop()


def test_one_who_is_slow_over_each_change_gets_all_of_them(own: ControlPlane, watch: Watch) -> None:
    """The server goes on meanwhile."""
    keeper = Keeper(own.url, watch, pause_s=0.02)
    for number in range(60):
        own.register(registration("a1", {"r": []}, version=str(number)))

    keeper.ends_with(own)
    assert keeper.known["a1"].version == "59"


def test_more_agents_than_a_page_has_are_all_there(own: ControlPlane) -> None:
    """Pages overlap, so that nobody falls between two of them."""
    documents = [registration(f"a{number:04}", {"r": []}) for number in range(503)]
    own.register(*documents)
    keeper = Keeper(own.url, in_turn)
    wait_until(lambda: len(keeper.changes) == 503)

    assert [change.agent.agent_id for change in keeper.changes] == [document["id"] for document in documents]


class Old(BaseHTTPRequestHandler):
    """A server that has discovery and no watch, like others there are."""

    plane_url = ""
    missing: tuple[int, str] = (404, "application/json")

    def do_GET(self) -> None:
        """Pass discovery on; there is nothing else."""
        if "/watch" in self.path:
            self._answer(self.missing[0], self.missing[1], b"<html>" if "html" in self.missing[1] else b"{}")
            return
        import httpx2  # noqa: PLC0415 - only here

        found = httpx2.get(self.plane_url + self.path, trust_env=False)
        self._answer(found.status_code, "application/json", found.content)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - theirs
        """Say nothing."""


@pytest.mark.parametrize("missing", [(404, "application/json"), (405, "text/plain"), (200, "text/html")])
def test_a_server_without_a_watch_is_asked_again_and_again(own: ControlPlane, missing: tuple[int, str]) -> None:
    """Also one that answers everything it does not know with a page."""
    handler = type("Old", (Old,), {"plane_url": own.url, "missing": missing})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        own.register(registration("a1", {"r": []}))
        with Agent(agentfield_server=f"http://127.0.0.1:{server.server_port}") as app:
            changes = app.watch(every=0.02, agent="a*")
            kinds = [next(changes).kind]
            own.client.post("/api/v1/nodes/a1/shutdown")
            kinds.append(next(changes).kind)
            own.client.delete("/api/v1/nodes/a1")
            kinds.append(next(changes).kind)
        server.shutdown()

    assert kinds == ["added", "health", "removed"]


def test_a_question_that_is_refused_ends_the_watch(tmp_path: Path) -> None:
    """With the server's words; so does a key that is wrong."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_API_KEY="k")
    with Agent(agentfield_server=plane.url, api_key="k") as app, pytest.raises(InvalidRequest, match="health_status"):
        next(app.watch(health_status="well"))
    with Agent(agentfield_server=plane.url, api_key="wrong") as app, pytest.raises(Unauthorized):
        next(app.watch())
    plane.stop()


def test_the_golden_example_is_read_whatever_pieces_it_comes_in() -> None:
    """`contract/examples/watch-events.txt`: kinds, ids and the wish to wait."""
    text = (ROOT / "contract/examples/watch-events.txt").read_bytes()
    for size in (1, 7, 100, len(text)):
        reader = Reader()
        events = [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]

        assert [event.kind for event in events] == ["snapshot", "registered", "changed", "health", "removed"]
        assert [event.id.partition("-")[2] for event in events] == ["0", "1", "2", "3", "5"]
        assert reader.retry_s == 1.0


@given(st.lists(st.sampled_from(["data: x", "event: e", "id: 7", ":", "retry: 5", "other: 1", "", "data"])), st.data())
def test_line_ends_of_any_kind_mean_the_same(lines: list[str], data: st.DataObject) -> None:
    """As the standard has it, also where a piece ends between a carriage return and its line feed."""
    read: list[tuple[list[Event], str, float | None]] = []
    for end in ("\n", "\r\n", "\r"):
        text = "".join(line + end for line in lines).encode()
        cut = data.draw(st.integers(0, len(text)))
        reader = Reader()
        found = [*reader.feed(text[:cut]), *reader.feed(text[cut:]), *reader.feed(b":\n")]
        read.append((found, reader.last_id, reader.retry_s))

    assert read[0] == read[1] == read[2]


def test_a_sign_of_life_is_no_change() -> None:
    """And what is the same is none either."""
    one = AgentCapability("a", health_status="active")
    later = AgentCapability("a", health_status="active", last_heartbeat=NEVER.replace(year=9))

    assert differences({"a": one}, {"a": later}) == []

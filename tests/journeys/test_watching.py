"""Whoever watches knows what discovery knows: under load, across broken lines, on any instance."""

import random
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest
from tests.databases import Postgres
from tests.instances import running, until
from tests.servers import ControlPlane, registration
from tests.watchers import Cable, Follower, Stream, cable, everything

FILTERS: tuple[dict[str, str], ...] = (
    {},
    {"agent": "a1*"},
    {"reasoner": "think*", "include_input_schema": "true"},
    {"tags": "even", "health_status": "active"},
    {"skill": "s", "include_descriptions": "false"},
)
BUSY = 60
"""How many changes each of those makes who change things."""


class Busy(threading.Thread):
    """Registers, changes, ends and removes agents, as fast as it can; several of them meet in the same agents."""

    def __init__(self, urls: Sequence[str], seed: int, changes: int = BUSY) -> None:
        super().__init__(daemon=True)
        self._urls = urls
        self._dice = random.Random(seed)  # noqa: S311 - the same changes every time
        self._changes = changes
        self.done = 0

    def run(self) -> None:
        """Change things."""
        with httpx2.Client(timeout=30, trust_env=False) as client:
            for _ in range(self._changes):
                self._change(client, self._dice.choice(self._urls), f"a{self._dice.randrange(15)}")
                self.done += 1

    def _change(self, client: httpx2.Client, url: str, agent_id: str) -> None:
        dice = self._dice
        match dice.randrange(6):
            case 0:
                client.delete(f"{url}/api/v1/nodes/{agent_id}")
            case 1:
                client.post(f"{url}/api/v1/nodes/{agent_id}/shutdown")
            case 2:
                said = {"status": dice.choice(["degraded", "ready"])}
                client.post(f"{url}/api/v1/nodes/{agent_id}/heartbeat", json=said)
            case _:
                reasoners = {f"think{dice.randrange(3)}": dice.choice([["even"], ["odd"], []])}
                skills: dict[str, list[str]] = {"s": []} if dice.random() < 0.5 else {}
                document = registration(agent_id, reasoners, skills, version=str(dice.random()))
                assert client.post(f"{url}/api/v1/nodes/register", json=document).status_code == 201


@contextmanager
def followers(url: str) -> Generator[list[Follower]]:
    """Have one follower for each question."""
    found = [Follower(url, **filters) for filters in FILTERS]
    try:
        yield found
    finally:
        for follower in found:
            follower.close()


def agree(found: Sequence[Follower], url: str) -> None:
    """Wait until everybody knows exactly what discovery says."""
    until(lambda: all(follower.knows(everything(url, **follower.parameters)) for follower in found))
    for follower in found:
        for (instance, version), (next_instance, next_version) in pairwise(follower.versions):
            assert instance != next_instance or version < next_version


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    running_plane = ControlPlane(tmp_path)
    yield running_plane
    running_plane.stop()


def test_events_applied_to_the_first_answer_give_the_last_one(plane: ControlPlane) -> None:
    """While four change the same agents at once; each event comes once, in order, and nobody has to begin anew."""
    plane.register(*(registration(f"a{number}", {"think0": ["even"]}) for number in range(5)))
    with followers(plane.url) as found:
        until(lambda: all(follower.snapshots for follower in found))
        busy = [Busy([plane.url], seed) for seed in range(4)]
        for one in busy:
            one.start()
        for one in busy:
            one.join()

        agree(found, plane.url)
        assert [follower.snapshots for follower in found] == [["new"]] * len(FILTERS)
    assert [one.done for one in busy] == [BUSY] * 4


def test_a_line_that_breaks_again_and_again_loses_nothing(plane: ControlPlane) -> None:
    """Everybody goes on exactly where he was: no second snapshot, no event twice, none missing."""
    with cable(plane.url) as line, followers(line.url) as found:
        until(lambda: all(follower.snapshots for follower in found))
        busy = Busy([plane.url], 1, 4 * BUSY)
        busy.start()
        while busy.is_alive():
            _break(line, busy)
        busy.join()

        agree(found, plane.url)
        assert line.cuts > 2
        assert all(follower.resumes > 0 for follower in found)
        assert [set(follower.snapshots) for follower in found] == [{"new"}] * len(FILTERS)


def _break(line: Cable, busy: Busy) -> None:
    """Cut the line, let some changes pass, and mend it."""
    before = busy.done
    line.cut()
    until(lambda: busy.done > before + 10 or not busy.is_alive())
    line.mend()
    before = busy.done
    until(lambda: busy.done > before + 20 or not busy.is_alive())


def test_a_restart_in_between_is_a_fresh_start_and_nothing_is_lost(tmp_path: Path) -> None:
    """Versions belong to a process: everybody asks again, and knows the same."""
    plane = ControlPlane(tmp_path)
    port = plane.url.rpartition(":")[2]
    with followers(plane.url) as found:
        until(lambda: all(follower.snapshots for follower in found))
        plane.register(registration("a1", {"think": ["even"]}), registration("a2", {"think": []}))
        plane.kill()
        plane = ControlPlane(tmp_path, "--port", port)
        plane.register(registration("a3", {"think": ["even"]}))

        until(lambda: all(len(follower.snapshots) > 1 for follower in found))
        agree(found, plane.url)
        assert [follower.snapshots for follower in found] == [["new", "unknown_instance"]] * len(FILTERS)
    plane.stop()


def test_two_instances_on_one_database_tell_the_same(tmp_path: Path, postgres: Postgres) -> None:
    """Changes are made on both; whoever watches either of them, through lines that break, ends with one catalogue."""
    with running(tmp_path, postgres.new(), 2) as two, ExitStack() as stack:
        line = stack.enter_context(cable(two.urls[1]))
        left = stack.enter_context(followers(two.urls[0]))
        right = stack.enter_context(followers(line.url))
        until(lambda: all(follower.snapshots for follower in (*left, *right)))
        busy = [Busy(two.urls, seed, BUSY) for seed in range(3)]
        for one in busy:
            one.start()
        while any(one.is_alive() for one in busy):
            _break(line, busy[0])
        for one in busy:
            one.join()

        until(lambda: everything(two.urls[0]) == everything(two.urls[1]))
        agree(left, two.urls[0])
        agree(right, two.urls[1])
        for one, other in zip(left, right, strict=True):
            assert one.agents == other.agents
        assert [follower.snapshots for follower in left] == [["new"]] * len(FILTERS)


def test_going_on_at_another_instance_is_a_fresh_start_there(tmp_path: Path, postgres: Postgres) -> None:
    """It shares the store and says so, but counts its own versions; a change on one is told on the other."""
    with running(tmp_path, postgres.new(), 2) as two:
        here = Stream(two.urls[0])
        first = here.next()
        elsewhere = Stream(two.urls[1], first.id)
        second = elsewhere.next()

        assert (second.kind, second.data["reason"]) == ("snapshot", "unknown_instance")
        assert second.data["store"] == first.data["store"]
        two[0].register(registration("a", {"think": []}))
        assert here.kinds(1) == elsewhere.kinds(1) == [("registered", "a")]
        two[1].client.post("/api/v1/nodes/a/shutdown")
        told = [stream.next().data for stream in (here, elsewhere)]
        assert [(one["health_status"], one["previous"], one["reason"]) for one in told] == [
            ("inactive", "active", "shut down")
        ] * 2
        assert told[0]["since"] == told[1]["since"]
        here.close()
        elsewhere.close()

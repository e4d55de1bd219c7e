"""A standby takes over for a PostgreSQL that is lost, under instances that go on: real servers, real replication.

With synchronous replication nothing that was acknowledged is lost. Without it the newest changes may be; then the
instances believe the database that is there, and agents that it does not know are told so.
"""

import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Self

import httpx2
import pytest
from tests.databases import Postgres
from tests.databases import running as postgres_running
from tests.instances import Instances, agents_of, health_of, running, until
from tests.journeys.recording_agent import AGENT
from tests.journeys.test_executions import Recorder
from tests.journeys.test_instance_faults import (
    assert_it_reads_and_refuses_to_write,
    assert_it_recovers,
    is_stale,
)
from tests.journeys.test_instances import execution, ids, submit
from tests.servers import registration

PACE_S = 0.03


@pytest.fixture
def leader() -> Generator[Postgres]:
    with postgres_running() as server:
        yield server


class Pair:
    """A server, its standby, and an address that leads to the one or the other."""

    def __init__(self, leader: Postgres, link: Path, *, synchronous: bool) -> None:
        self.leader = leader
        self._link = link
        self._link.symlink_to(leader.folder)
        self._name = leader.new().partition("?")[0].rpartition("/")[2]
        self.standby = leader.standby(synchronous=synchronous)

    @property
    def both(self) -> str:
        """The address that names both servers."""
        return self._to(f"{self.leader.folder},{self.standby.folder}")

    @property
    def moved(self) -> str:
        """The address that somebody points elsewhere, as with a name or an address that moves."""
        return self._to(str(self._link))

    @property
    def second(self) -> str:
        """The address of the standby."""
        return self._to(str(self.standby.folder))

    def move(self) -> None:
        """Point the address to the standby."""
        self._link.unlink()
        self._link.symlink_to(self.standby.folder)

    def cut(self) -> None:
        """Let the standby receive nothing after what is there now."""
        [(written,)] = self.leader.execute("SELECT pg_current_wal_lsn()::text")
        until(lambda: self.standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{written}'") == [(True,)])
        self.standby.disconnect()

    def _to(self, host: str) -> str:
        return f"postgresql://postgres:hush-hush@/{self._name}?host={host}"


@pytest.fixture
def pair(tmp_path: Path, leader: Postgres) -> Generator[Pair]:
    found = Pair(leader, tmp_path / "to", synchronous=True)
    yield found
    found.standby.close()


class Callers:
    """People who register, execute and discover all the time on every instance, and note what they were answered."""

    def __init__(self, instances: Instances) -> None:
        self.registered: list[str] = []
        self.accepted: dict[str, str] = {}
        self.answers: Counter[str] = Counter()
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._call, args=(plane.url, number))
            for number, plane in enumerate(instances.planes)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def more(self, answer: str, count: int = 5) -> None:
        """Wait until so many more have got an answer."""
        enough = self.answers[answer] + count
        until(lambda: self.answers[answer] >= enough)

    def _call(self, url: str, number: int) -> None:
        turn = 0
        with httpx2.Client(base_url=url, timeout=30, trust_env=False) as client:
            while not self._done.wait(PACE_S):
                turn += 1
                self._call_once(client, f"c{number}-{turn}")

    def _call_once(self, client: httpx2.Client, mark: str) -> None:
        document = registration(mark, {"think": []})
        if self._noted("register", client.post("/api/v1/nodes/register", json=document)) == 201:
            self.registered.append(mark)
        path = f"/api/v1/execute/async/{AGENT}.{('at_once', 'later')[len(mark) % 2]}"
        answer = client.post(path, json={"input": {"mark": mark}})
        if self._noted("execute", answer) == 202:
            self.accepted[mark] = answer.json()["execution_id"]
        self._noted("discover", client.get("/api/v1/discovery/capabilities?agent=before"))

    def _noted(self, what: str, answer: httpx2.Response) -> int:
        again = f" after {answer.headers['retry-after']}" if answer.status_code == 503 else ""
        stale = f" {answer.headers['warning'][:3]}" if "warning" in answer.headers else ""
        self.answers[f"{what} {answer.status_code}{again}{stale}"] += 1
        return answer.status_code


@pytest.fixture(params=["both", "moved"])
def two(request: pytest.FixtureRequest, tmp_path: Path, pair: Pair) -> Generator[Instances]:
    with running(tmp_path, getattr(pair, request.param), 2, SWITCHBOARD_DATABASE_TIMEOUT="3") as found:
        found[0].register(registration("before", {"think": []}))
        until(lambda: ids(found[1]) == ["before"])
        yield found


@pytest.fixture
def recorded(tmp_path: Path, two: Instances) -> Generator[Recorder]:
    agent = Recorder(tmp_path, ",".join(two.urls))
    until(lambda: all(health_of(plane, AGENT) == "active" for plane in two.planes))
    yield agent
    agent.kill()


def test_a_standby_that_takes_over_has_everything_that_was_acknowledged(
    two: Instances, pair: Pair, recorded: Recorder
) -> None:
    """The server crashes under load. Its standby is reached because the address names both, or because it moves."""
    with Callers(two) as callers:
        callers.more("register 201")
        callers.more("execute 202")
        pair.leader.stop()
        for answer in ("register 503 after 1", "execute 503 after 1", "discover 200 110"):
            callers.more(answer)
        assert all(is_stale(plane) for plane in two.planes)
        pair.standby.promote()
        pair.move()
        for answer in ("register 201", "execute 202", "discover 200"):
            callers.more(answer)

    assert_it_recovers(two)
    assert callers.answers.keys() == {
        *("register 201", "register 503 after 1", "execute 202", "execute 503 after 1"),
        *("discover 200", "discover 200 110"),
    }
    until(lambda: agents_of(two[0]).keys() == agents_of(two[1]).keys())
    assert set(callers.registered) <= agents_of(two[0]).keys()
    ends = [execution(two[1], key, 30) for key in callers.accepted.values()]
    assert {(end["status"], end.get("status_reason")) for end in ends} == {("succeeded", None)}
    calls = Counter(call.execution_id for call in recorded.calls)
    assert {calls[key] for key in callers.accepted.values()} == {1}
    assert max(calls.values()) == 1


@pytest.mark.parametrize("two", ["both"], indirect=True)
def test_a_server_that_only_hangs_does_not_keep_anybody_from_its_standby(two: Instances, pair: Pair) -> None:
    """It takes connections and says nothing; the next server in the address has its share of the time."""
    pair.leader.pause()
    for plane in two.planes:
        until(lambda plane=plane: is_stale(plane))
    pair.standby.promote()

    assert_it_recovers(two)
    pair.leader.vanish()
    assert_it_recovers(two, "after-the-end")


@pytest.mark.parametrize("two", ["both"], indirect=True)
def test_what_the_standby_has_not_confirmed_is_not_acknowledged(two: Instances, pair: Pair) -> None:
    """It would be lost with the server. When the standby is back, everything goes on."""
    pair.standby.pause()
    for plane in two.planes:
        assert_it_reads_and_refuses_to_write(plane)
    pair.standby.wake()

    assert_it_recovers(two)


def test_after_a_standby_that_was_behind_the_database_is_believed(tmp_path: Path, leader: Postgres) -> None:
    """It has made other changes under the same numbers before anybody looked: everything is read anew."""
    pair = Pair(leader, tmp_path / "to", synchronous=False)
    with running(tmp_path, pair.moved, 2, SWITCHBOARD_DATABASE_TIMEOUT="3") as two:
        agent = Recorder(tmp_path, two[0].url)
        try:
            _fall_behind_and_believe(two, pair, agent)
        finally:
            agent.kill()
            pair.standby.close()


def _fall_behind_and_believe(two: Instances, pair: Pair, agent: Recorder) -> None:
    two[0].register(registration("before", {"think": []}))
    until(lambda: all(health_of(plane, AGENT) == "active" for plane in two.planes))
    busy = [submit(two[0], "hold") for _ in range(15)]
    until(lambda: len(agent.calls) == 15)
    pair.cut()
    sent = submit(two[0], "hold")
    until(lambda: len(agent.calls) == 16)
    two[0].register(registration("before", {"plan": []}), registration("lost", {"think": []}))
    lost = submit(two[0], "at_once", "lost")
    until(lambda: two[1].discover(reasoner="plan")["total_reasoners"] == 1)
    pair.leader.stop()
    until(lambda: all(is_stale(plane) for plane in two.planes))
    assert "lost" in ids(two[0])

    pair.standby.promote()
    third = two.start(2, url=pair.second)
    two.planes.append(third)
    third.register(*(registration(f"new-{number}", {"think": []}) for number in range(9)))
    pair.move()

    wanted = sorted(["before", AGENT, *(f"new-{number}" for number in range(9))])
    until(lambda: all(ids(plane) == wanted for plane in two.planes))
    assert [plane.discover(reasoner="plan")["total_reasoners"] for plane in two.planes] == [0, 0, 0]
    for plane in two.planes:
        assert plane.client.post("/api/v1/nodes/lost/heartbeat", json={}).status_code == 404
    assert_it_recovers(two, "lost")
    until(lambda: "lost" in ids(third))
    assert {third.client.get(f"/api/v1/executions/{key}").status_code for key in (lost, sent)} == {404}
    assert two[0].client.post(f"/api/v1/executions/{sent}/cancel", json={}).status_code == 200
    until(lambda: execution(third, sent).get("status") == "cancelled")
    for key in busy:
        third.client.post(f"/api/v1/executions/{key}/cancel", json={})
    assert execution(two[0], lost, 30)["status"] == "failed"
    again = submit(third, "at_once", "again")
    assert execution(two[0], again, 30)["status"] == "succeeded"
    assert "lost" not in [call.mark for call in agent.calls]

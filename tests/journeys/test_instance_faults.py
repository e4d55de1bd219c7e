"""Everything that can happen to instances and their database, each with real processes: nobody who asks gets nothing.

Discovery answers through all of it; what cannot be written is refused with 503 and `Retry-After`; nothing that was
acknowledged is lost, and everything comes back by itself.
"""

import asyncio
import sys
import time
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.databases import Postgres
from tests.databases import running as postgres_running
from tests.instances import Instances, agents_of, health_of, running, until
from tests.journeys.recording_agent import AGENT
from tests.journeys.test_executions import Recorder
from tests.journeys.test_instances import execution, ids, submit
from tests.servers import ControlPlane, registration

asyncpg: Any = import_module("asyncpg")


@pytest.fixture(scope="module")
def fragile() -> Generator[Postgres]:
    """A server that tests stop, start and disturb."""
    with postgres_running() as server:
        yield server


@pytest.fixture
def two(tmp_path: Path, fragile: Postgres) -> Generator[Instances]:
    with running(tmp_path, fragile.new(), 2, SWITCHBOARD_DATABASE_TIMEOUT="1") as found:
        found[0].register(registration("before", {"think": []}))
        until(lambda: ids(found[1]) == ["before"])
        yield found


@pytest.fixture
def recorded(tmp_path: Path, two: Instances) -> Generator[Recorder]:
    agent = Recorder(tmp_path, two[0].url)
    until(lambda: all(health_of(plane, AGENT) == "active" for plane in two.planes))
    yield agent
    agent.kill()


def is_stale(plane: ControlPlane) -> bool:
    answer = plane.raw()
    assert answer.status_code == 200
    return answer.headers.get("warning", "").startswith("110")


def assert_it_reads_and_refuses_to_write(plane: ControlPlane) -> None:
    """As the contract says: stale answers say so, writes are refused for now, `/health` and the metric say why."""
    until(lambda: is_stale(plane))
    assert "before" in ids(plane)
    refused = plane.client.post("/api/v1/nodes/register", json=registration("during", {"think": []}))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "hush" not in refused.text
    health = plane.client.get("/health").json()
    assert (health["status"], health["store"]["status"]) == ("degraded", "unavailable")
    assert plane.metric("switchboard_store_up") == 0


def assert_it_recovers(two: Instances, name: str = "after") -> None:
    def registered() -> bool:
        return two[0].client.post("/api/v1/nodes/register", json=registration(name, {"think": []})).status_code == 201

    until(registered)
    until(lambda: name in ids(two[1]))
    until(lambda: not any(is_stale(plane) for plane in two.planes))
    assert all(plane.metric("switchboard_store_up") == 1 for plane in two.planes)
    assert all(plane.process.poll() is None for plane in two.planes)


def test_a_database_that_is_gone_and_comes_back(two: Instances, fragile: Postgres) -> None:
    """Stopped as by a crash, on both instances; nothing has to be started again."""
    fragile.stop()
    try:
        for plane in two.planes:
            assert_it_reads_and_refuses_to_write(plane)
            beat = plane.client.post("/api/v1/nodes/before/heartbeat", json={})
            assert beat.status_code == 200
    finally:
        fragile.start()

    assert_it_recovers(two)
    assert "during" not in ids(two[0])
    assert "hush" not in (two[0].log_text() + two[1].log_text())


def test_what_runs_while_the_database_is_gone_is_not_lost(
    two: Instances, fragile: Postgres, recorded: Recorder
) -> None:
    """An accepted execution that an agent works on ends with its report, though that could not be written at first."""
    accepted = submit(two[0], "later", "kept")
    until(lambda: recorded.has(accepted, "later"))
    fragile.stop()
    try:
        until(lambda: is_stale(two[0]))
        answer = two[0].client.post(f"/api/v1/execute/async/{AGENT}.at_once", json={"input": {}})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        sync = two[0].client.post(f"/api/v1/execute/{AGENT}.at_once", json={"input": {"mark": "sync"}})
        assert (sync.status_code, sync.json()["result"]) == (200, {"mark": "sync"})
    finally:
        fragile.start()

    until(lambda: execution(two[1], accepted).get("status") == "succeeded")
    until(lambda: execution(two[1], sync.json()["execution_id"]).get("status") == "succeeded")
    assert [call.execution_id for call in recorded.calls].count(accepted) == 1


def test_connections_that_are_cut(two: Instances, fragile: Postgres) -> None:
    """By an administrator or a failover: the next request works, and what was told meanwhile is caught up with."""
    fragile.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'switchboard'")

    assert_it_recovers(two, "after-cut")


def test_a_database_that_is_slow(two: Instances, fragile: Postgres) -> None:
    """Somebody holds a lock: writers are sent away after the time limit, readers do not even notice."""

    async def story() -> None:
        holder = await asyncpg.connect(two.database_url)
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("LOCK TABLE switchboard.agents, switchboard.instances IN EXCLUSIVE MODE")
        await asyncio.to_thread(_slow, two)
        await transaction.rollback()
        await holder.close()

    asyncio.run(story())
    assert_it_recovers(two, "after-slow")
    del fragile


def _slow(two: Instances) -> None:
    begin = time.monotonic()
    refused = two[0].client.post("/api/v1/nodes/register", json=registration("during", {"think": []}))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert time.monotonic() - begin < 15
    assert "before" in ids(two[0])


def test_a_database_that_cannot_be_written(two: Instances, fragile: Postgres) -> None:
    """Read-only after a failover to a standby, or because its disk is full."""
    name = two.database_url.partition("?")[0].rpartition("/")[2]
    fragile.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    _cut(fragile)
    try:
        for plane in two.planes:
            assert_it_reads_and_refuses_to_write(plane)
    finally:
        fragile.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        _cut(fragile)

    assert_it_recovers(two, "after-read-only")


def test_an_instance_that_is_killed_leaves_its_work_to_the_others(two: Instances, recorded: Recorder) -> None:
    """What waited is sent by another instance; what was sent is not sent again, and its report is taken."""
    busy = [submit(two[0], "hold") for _ in range(16)]
    until(lambda: len(recorded.calls) == 16)
    waiting = [submit(two[0], "at_once", f"w{number}") for number in range(10)]

    two[0].kill()

    until(lambda: all(execution(two[1], key).get("status") == "succeeded" for key in waiting))
    ends = [execution(two[1], key, 30) for key in busy]
    assert {(end["status"], end["status_reason"]) for end in ends} == {("failed", "outcome_unknown")}
    calls = [call.execution_id for call in recorded.calls]
    assert len(calls) == len(set(calls)) == 26


def test_an_instance_that_sleeps_and_wakes_up_sends_nothing_that_was_taken_over(
    two: Instances, recorded: Recorder
) -> None:
    """It knows nothing of its sleep; the database does."""
    busy = [submit(two[0], "hold") for _ in range(16)]
    until(lambda: len(recorded.calls) == 16)
    waiting = [submit(two[0], "at_once", f"w{number}") for number in range(20)]
    two[0].pause()
    until(lambda: all(execution(two[1], key).get("status") == "succeeded" for key in waiting))

    two[0].wake()
    for key in busy:
        two[1].client.post(f"/api/v1/executions/{key}/cancel", json={})

    for key in waiting:
        assert execution(two[0], key, 20)["status"] == "succeeded"
    again = submit(two[0], "at_once", "awake")
    assert execution(two[1], again, 20)["status"] == "succeeded"
    calls = [call.execution_id for call in recorded.calls]
    assert len(calls) == len(set(calls)) == 37
    assert ids(two[0]) == ids(two[1])


def test_clocks_that_are_wrong_do_not_matter(two: Instances, tmp_path: Path) -> None:
    """An hour ahead and an hour behind: who is alive, who decides, and what is shown stay the same."""
    program = (sys.executable, str(Path(__file__).parents[1] / "skewed_plane.py"))
    ahead, behind = (two.start(number, command=(*program, str(skew))) for number, skew in ((7, 3600), (8, -3600)))
    planes = [*two.planes, ahead, behind]
    try:
        quick: dict[str, Any] = {"communication_config": {"heartbeat_interval": "500ms"}}
        behind.register(registration("heard", **quick), registration("silent", **quick))
        turn = 0

        def beat() -> bool:
            nonlocal turn
            turn += 1
            planes[turn % 4].client.post("/api/v1/nodes/heard/heartbeat", json={})
            return all(health_of(plane, "silent") == "degraded" for plane in planes)

        until(lambda: all("heard" in agents_of(plane) for plane in planes))
        until(beat)
        assert {health_of(plane, "heard") for plane in planes} == {"active"}
        ahead.client.post("/api/v1/nodes/heard/shutdown", json={})
        until(lambda: {health_of(plane, "heard") for plane in planes} == {"inactive"})
        behind.register(registration("heard", **quick))
        until(lambda: {health_of(plane, "heard") for plane in planes} == {"active"})
        since = {agents_of(plane)["heard"]["health_since"][:13] for plane in planes}
        assert since == {time.strftime("%Y-%m-%dT%H", time.gmtime())}
    finally:
        ahead.kill()
        behind.kill()
    del tmp_path


def test_a_dead_network_to_the_database_is_noticed(two: Instances, fragile: Postgres) -> None:
    """The server is there and says nothing, as behind a cable that was pulled: stale answers, and back by itself."""
    fragile.pause()
    try:
        for plane in two.planes:
            until(lambda plane=plane: is_stale(plane))
            assert "before" in ids(plane)
        refused = two[0].client.post("/api/v1/nodes/register", json=registration("during", {"think": []}), timeout=30)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    finally:
        fragile.wake()

    assert_it_recovers(two, "after-silence")


def _cut(server: Postgres) -> None:
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'switchboard'")

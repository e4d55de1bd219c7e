"""A database whose disk is full: discovery answers, what does not fit is refused for now, and nothing taken is lost.

The disk is full because the system lets no file grow past a limit; this needs no rights, and the errors are those of a
full disk: PostgreSQL calls it 53100.
"""

import resource
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from random import Random

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
from tests.servers import ControlPlane, registration

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")

FULL = 2_000_000
"""More than every file has at the beginning, and than a part of the write-ahead log; it is no multiple of a block."""
FULL_LOG = 300_000
"""Less than a part of the write-ahead log."""
LARGE = 20_000
MOST = 2 * FULL // LARGE


@pytest.fixture
def small() -> Generator[Postgres]:
    with postgres_running(wal_mb=1) as server:
        yield server


@pytest.fixture
def two(tmp_path: Path, small: Postgres) -> Generator[Instances]:
    with running(tmp_path, small.new(), 2, SWITCHBOARD_DATABASE_TIMEOUT="3") as found:
        found[0].register(registration("before", {"think": []}))
        until(lambda: ids(found[1]) == ["before"])
        yield found


def large(agent_id: str) -> dict[str, object]:
    """Return a registration that cannot be made smaller."""
    text = "".join(chr(number) for number in Random(agent_id).choices(range(0x4E00, 0x9F00), k=LARGE // 2))  # noqa: S311
    return registration(agent_id, {"think": []}, description=text)


def registered_until_refused(plane: ControlPlane, because: str = "") -> list[str]:
    """Register large agents until one does not fit, and return those that did."""
    taken: list[str] = []
    for number in range(MOST):
        answer = plane.client.post("/api/v1/nodes/register", json=large(f"large-{number}"))
        if answer.status_code == 503:
            assert answer.headers["retry-after"] == "1"
            assert because in answer.json()["message"]
            return taken
        assert answer.status_code == 201, answer.text
        taken.append(f"large-{number}")
    raise AssertionError("the disk was never full")


def accepted_until_refused(plane: ControlPlane, because: str = "") -> list[str]:
    """Have large executions accepted until one does not fit, and return those that did."""
    taken: list[str] = []
    for number in range(MOST):
        given = {"mark": f"m{number}", "text": Random(number).randbytes(LARGE).hex()}  # noqa: S311
        answer = plane.client.post(f"/api/v1/execute/async/{AGENT}.at_once", json={"input": given})
        if answer.status_code == 503:
            assert answer.headers["retry-after"] == "1"
            assert because in answer.json()["message"]
            return taken
        assert answer.status_code == 202, answer.text
        taken.append(answer.json()["execution_id"])
    raise AssertionError("the disk was never full")


@pytest.fixture
def recorded(tmp_path: Path, two: Instances) -> Generator[Recorder]:
    agent = Recorder(tmp_path, two[0].url)
    until(lambda: all(health_of(plane, AGENT) == "active" for plane in two.planes))
    yield agent
    agent.kill()


def test_no_room_for_more_in_postgres(two: Instances, small: Postgres, recorded: Recorder) -> None:
    """What needs room is refused; everything taken before is known on all instances, and ends."""
    small.fill_up(FULL)
    taken = registered_until_refused(two[0], because="53100")
    accepted = accepted_until_refused(two[1], because="53100")
    # What ended with a large result has no room for that either: its agent's answer is kept in memory.
    for plane in two.planes:
        until(lambda plane=plane: {"before", *taken} <= agents_of(plane).keys())
        assert plane.raw("agent=before").status_code == 200
    small.make_room()

    assert_it_recovers(two)
    assert {execution(two[0], key, 30)["status"] for key in accepted} == {"succeeded"}
    calls = [call.execution_id for call in recorded.calls]
    assert len(calls) == len(set(calls))
    assert set(accepted) <= set(calls)
    assert {"before", *taken} <= agents_of(two[1]).keys()


def test_no_room_for_the_write_ahead_log_of_postgres(two: Instances, small: Postgres) -> None:
    """The server gives up and ends. Somebody makes room and starts it; the instances were there all the time."""
    small.fill_up(FULL_LOG)
    taken = registered_until_refused(two[0])
    for plane in two.planes:
        assert_it_reads_and_refuses_to_write(plane)
    small.stop()
    small.start()

    assert_it_recovers(two)
    for plane in two.planes:
        assert {"before", *taken} <= agents_of(plane).keys()


def test_no_room_for_more_in_sqlite(tmp_path: Path) -> None:
    """The same on one instance, which goes on by itself when there is room, and has everything after a crash."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_LOG_LEVEL="error", SWITCHBOARD_AGENT_CONCURRENCY="16")
    plane.register(registration("before", {"think": []}))
    agent = Recorder(tmp_path, plane.url)
    until(lambda: health_of(plane, AGENT) == "active")
    first = submit(plane, "later", "kept")
    limited = _limited(plane)
    limited(FULL // 2)

    taken, accepted = registered_until_refused(plane), accepted_until_refused(plane)
    until(lambda: is_stale(plane))
    assert plane.client.get("/health").json()["status"] == "degraded"
    assert plane.metric("switchboard_store_up") == 0
    assert {"before", *taken} <= agents_of(plane).keys()
    limited(resource.RLIM_INFINITY)
    until(lambda: not is_stale(plane))
    plane.register(registration("after", {"think": []}))
    ends = {execution(plane, key, 30)["status"] for key in (first, *accepted)}
    plane.kill()
    agent.kill()
    again = ControlPlane(tmp_path)

    assert ends == {"succeeded"}
    assert {"before", "after", *taken} <= agents_of(again).keys()
    assert {execution(again, key)["status"] for key in (first, *accepted)} == {"succeeded"}
    again.stop()


def _limited(plane: ControlPlane) -> Callable[[int], None]:
    process, hard = plane.process.pid, resource.prlimit(plane.process.pid, resource.RLIMIT_FSIZE)[1]
    return lambda size: resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard)) and None

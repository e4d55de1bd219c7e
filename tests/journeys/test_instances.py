"""Several instances on one PostgreSQL: what happens on one is known on all, and nobody notices which one he asks."""

import asyncio
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.databases import Postgres, migrations
from tests.instances import Instances, health_of, running, until
from tests.journeys.recording_agent import AGENT
from tests.journeys.test_executions import Recorder
from tests.servers import ControlPlane, registration
from tests.support import requirement

QUICK: dict[str, Any] = {"communication_config": {"heartbeat_interval": "500ms"}}


@pytest.fixture
def three(tmp_path: Path, postgres: Postgres) -> Generator[Instances]:
    with running(tmp_path, postgres.new(), 3) as found:
        yield found


def ids(plane: ControlPlane) -> list[str]:
    return [agent["agent_id"] for agent in plane.discover()["capabilities"]]


def execution(plane: ControlPlane, execution_id: str, wait_s: float = 0) -> dict[str, Any]:
    return plane.client.get(f"/api/v1/executions/{execution_id}", params={"wait": wait_s}, timeout=90).json()


def submit(plane: ControlPlane, capability: str, mark: str = "-", **headers: str) -> str:
    answer = plane.client.post(
        f"/api/v1/execute/async/{AGENT}.{capability}", json={"input": {"mark": mark}}, headers=headers
    )
    assert answer.status_code == 202, answer.text
    return answer.json()["execution_id"]


@requirement("perf:scale:instances")
def test_what_happens_on_one_instance_is_known_on_all(three: Instances) -> None:
    """Registrations, other versions, goodbyes and removals; those who started later know as much."""
    first, second, third = three.planes
    first.register(registration("a", {"think": ["ml"]}))
    until(lambda: ids(second) == ids(third) == ["a"])
    second.register(registration("a", {"think": ["ml"], "plan": []}), registration("b", {"c": []}))
    until(lambda: first.discover(reasoner="plan")["total_reasoners"] == 1)
    third.client.post("/api/v1/nodes/a/shutdown", json={"reason": "done"})
    until(lambda: health_of(first, "a") == health_of(second, "a") == "inactive")
    until(lambda: ids(first) == ids(third) == ["a", "b"])
    third.client.delete("/api/v1/nodes/b")
    until(lambda: ids(first) == ids(second) == ["a"])

    late = three.start(3)
    assert (ids(late), health_of(late, "a")) == (["a"], "inactive")
    late.kill()


def test_instances_that_start_at_once_on_a_new_database_all_work(tmp_path: Path, postgres: Postgres) -> None:
    """One of them makes the tables; the others wait for that."""
    url = postgres.new()
    with running(tmp_path, url, 0) as found, ThreadPoolExecutor(4) as together:
        found.planes = list(together.map(found.start, range(4)))
        found[3].register(registration("a", {"think": []}))
        until(lambda: all(ids(plane) == ["a"] for plane in found.planes))

    assert postgres.execute("SELECT count(*) FROM switchboard.migrations", url) == [(migrations(),)]


def test_one_instance_decides_who_is_silent_and_all_of_them_listen(three: Instances) -> None:
    """Heartbeats that reach ever other instances keep an agent alive; without them it is gone on all."""
    three[0].register(registration("heard", **QUICK), registration("silent", **QUICK))
    until(lambda: all(health_of(plane, "silent") == "active" for plane in three.planes))
    beats = 0

    def beat_until_the_other_is_degraded() -> bool:
        nonlocal beats
        beats += 1
        plane = three[beats % 3]
        assert plane.client.post("/api/v1/nodes/heard/heartbeat", json={}).status_code == 200
        assert health_of(plane, "heard") == "active"
        return all(health_of(each, "silent") == "degraded" for each in three.planes)

    until(beat_until_the_other_is_degraded)
    seen = {health_of(plane, "heard") for plane in three.planes}
    assert seen == {"active"}


def test_any_instance_answers_for_an_execution_of_another(three: Instances, tmp_path: Path) -> None:
    """Waiting, reports, cancellations, keys, batches and notes."""
    agent = Recorder(tmp_path, three[0].url)
    try:
        until(lambda: all(health_of(plane, AGENT) == "active" for plane in three.planes))
        asyncio.run(_answers(three, agent))
    finally:
        agent.kill()


async def _answers(three: Instances, agent: Recorder) -> None:
    clients = [httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False) for url in three.urls]
    first, second, third = clients

    async def submitted(capability: str, **headers: str) -> str:
        path = f"/api/v1/execute/async/{AGENT}.{capability}"
        return (await first.post(path, json={"input": {"mark": "m"}}, headers=headers)).json()["execution_id"]

    async def waiting(client: httpx2.AsyncClient, key: str) -> dict[str, Any]:
        return (await client.get(f"/api/v1/executions/{key}?wait=30")).json()

    async def called(key: str) -> None:
        await asyncio.to_thread(until, lambda: any(call.execution_id == key for call in agent.calls))

    done, keyed = await submitted("slowly"), await submitted("at_once", **{"Idempotency-Key": "k"})
    ends = await asyncio.gather(*(waiting(client, done) for client in clients))
    assert [end["status"] for end in ends] == ["succeeded"] * 3
    again = await second.post(
        f"/api/v1/execute/async/{AGENT}.at_once", json={"input": {"mark": "m"}}, headers={"Idempotency-Key": "k"}
    )
    assert again.json()["execution_id"] == keyed

    reported, cancelled = await submitted("never"), await submitted("hold")
    await asyncio.gather(called(reported), called(cancelled))
    tasks = [asyncio.create_task(waiting(client, key)) for key in (reported, cancelled) for client in clients]
    await third.post(f"/api/v1/executions/{reported}/status", json={"status": "succeeded", "result": 7})
    await second.post(f"/api/v1/executions/{cancelled}/cancel", json={"reason": "enough"})
    ends = await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert [end["status"] for end in ends] == ["succeeded"] * 3 + ["cancelled"] * 3
    await asyncio.to_thread(until, lambda: agent.has(cancelled, "cancel"))

    sync = asyncio.create_task(second.post(f"/api/v1/execute/{AGENT}.never", json={"input": {}}))
    await asyncio.to_thread(until, lambda: len(agent.calls) == 5)
    key = agent.calls[-1].execution_id
    report = await third.post(f"/api/v1/executions/{key}/status", json={"status": "succeeded", "result": "by another"})
    assert report.status_code == 200
    assert (await asyncio.wait_for(sync, 10)).json()["result"] == "by another"

    await third.post("/api/v1/executions/note", json={"text": "x"}, headers={"X-Execution-ID": done})
    assert (await first.get(f"/api/v1/executions/{done}/notes")).json()["total"] == 1
    body = {"execution_ids": [done, reported, cancelled, key]}
    batch = (await second.post("/api/v1/executions/batch-status", json=body)).json()
    assert [batch[each]["status"] for each in body["execution_ids"]] == ["succeeded"] * 2 + ["cancelled", "succeeded"]
    for client in clients:
        await client.aclose()

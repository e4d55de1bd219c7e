"""Executions through crashes: a control plane that is killed and stopped under load, and agents that die.

The normal suite kills it five times; `SWITCHBOARD_ROUNDS=200` does it two hundred times, in minutes.
"""

import asyncio
import atexit
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.journeys.recording_agent import AGENT
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane

PROGRAM = Path(__file__).with_name("recording_agent.py")
ROUNDS = int(os.environ.get("SWITCHBOARD_ROUNDS", "5"))
AT_ONCE = 50
END_WITHIN_S = 30.0
MOST_IDS = 500
KINDS = ("at_once", "later", "slowly")


class Recorded(NamedTuple):
    """One line of what the agent wrote down."""

    what: str
    execution_id: str
    mark: str


class Recorder:
    """The recording agent in a process of its own."""

    def __init__(self, folder: Path, server: str) -> None:
        self.file = folder / "calls.txt"
        self.file.touch()
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(PROGRAM), server, str(self.file)], stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.process.kill)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("http://")
        self.process.stdout.close()

    @property
    def lines(self) -> list[Recorded]:
        """What it wrote down so far."""
        return [Recorded(*line.split()) for line in self.file.read_text().splitlines()]

    @property
    def calls(self) -> list[Recorded]:
        """The calls among it, also those whose body never came because the control plane was killed."""
        return [line for line in self.lines if line.what not in ("cancel", "promised", "unheard")]

    def has(self, execution_id: str, what: str) -> bool:
        """Tell whether it wrote that down about an execution."""
        return any(line.execution_id == execution_id and line.what == what for line in self.lines)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(30)


class Place:
    """A control plane that comes back where it was, and its agent, which stays."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.plane = self._started("0")
        self._port = self.plane.url.rpartition(":")[2]
        self.agent = self.new_agent()

    def new_agent(self) -> Recorder:
        """Start the agent, and wait until it is known."""
        before = self._instance()
        agent = Recorder(self._folder, self.plane.url)
        wait_until(lambda: self._instance() not in ("", before))
        return agent

    def restart(self) -> None:
        """Start again after an end, with the same database at the same address."""
        self.plane = self._started(self._port)

    def submit(self, capability: str, mark: str = "-") -> str:
        """Have something accepted, and return its id."""
        answer = self.plane.client.post(f"/api/v1/execute/async/{AGENT}.{capability}", json={"input": {"mark": mark}})
        assert answer.status_code == 202, answer.text
        return answer.json()["execution_id"]

    def execution(self, execution_id: str, wait_s: float = 0) -> dict[str, Any]:
        """Return what is known of an execution."""
        answer = self.plane.client.get(f"/api/v1/executions/{execution_id}", params={"wait": wait_s}, timeout=90)
        return answer.json()

    def executions(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return what is known of many."""
        wanted = list(ids)
        found: dict[str, dict[str, Any]] = {}
        for first in range(0, len(wanted), MOST_IDS):
            body = {"execution_ids": wanted[first : first + MOST_IDS]}
            found |= self.plane.client.post("/api/v1/executions/batch-status", json=body).json()
        return found

    def ends(self, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Wait until all of them have an end, and return them."""
        left, found = set(ids), dict[str, dict[str, Any]]()

        def all_ended() -> bool:
            ended = {key: item for key, item in self.executions(left).items() if "completed_at" in item}
            found.update(ended)
            left.difference_update(ended)
            return not left

        wait_until(all_ended, END_WITHIN_S)
        return found

    def close(self) -> None:
        """End both, whatever state they are in."""
        self.agent.kill()
        if self.plane.process.poll() is None:
            self.plane.kill()

    def _started(self, port: str) -> ControlPlane:
        return ControlPlane(
            self._folder,
            "--port",
            port,
            XDG_DATA_HOME=str(self._folder),
            SWITCHBOARD_AGENT_CONCURRENCY="16",
            SWITCHBOARD_REPORT_TIMEOUT="5",
            SWITCHBOARD_AGENT_LOST_AFTER="1",
        )

    def _instance(self) -> str:
        nodes = self.plane.client.get("/api/v1/nodes", params={"show_all": "true"}).json()["nodes"]
        return next((node["instance_id"] for node in nodes), "")


class Crowd:
    """Fifty callers at once. Every second one has a key, and asks again with it until it has its answer."""

    def __init__(self, url: str, round_: int) -> None:
        self.accepted: dict[str, str] = {}
        """Ids by the mark in their input, of those whose caller has seen a 202."""
        self.back = asyncio.Event()
        self._url = url
        self._round = round_

    async def submit(self) -> None:
        """Submit everything, and end when everybody has an answer or knows that there will be none."""
        async with httpx2.AsyncClient(base_url=self._url, timeout=20, trust_env=False) as client:
            await asyncio.gather(*(self._submit_one(client, number) for number in range(AT_ONCE)))

    async def _submit_one(self, client: httpx2.AsyncClient, number: int) -> None:
        capability, mark = KINDS[number % len(KINDS)], f"{self._round}-{number}"
        headers = {"Idempotency-Key": mark} if number % 2 else {}
        while True:
            try:
                answer = await client.post(
                    f"/api/v1/execute/async/{AGENT}.{capability}", json={"input": {"mark": mark}}, headers=headers
                )
            except httpx2.HTTPError:
                if not headers:
                    return
                await asyncio.wait_for(self.back.wait(), 60)
                continue
            assert answer.status_code == 202, answer.text
            self.accepted[mark] = answer.json()["execution_id"]
            return


@pytest.fixture
def place(tmp_path: Path) -> Generator[Place]:
    found = Place(tmp_path)
    yield found
    found.close()


@pytest.mark.timeout(90 + 10 * ROUNDS)
def test_no_crash_loses_or_doubles_an_execution(place: Place) -> None:
    """Whoever saw a 202 gets an end; the agent is never called twice for one; what it reports is believed."""
    dice = random.Random(ROUNDS)  # noqa: S311 - the same moments every time, as far as there is such a thing
    accepted: dict[str, str] = {}
    for round_ in range(ROUNDS):
        crowd = Crowd(place.plane.url, round_)
        asyncio.run(_crash(place, crowd, _some_moment(dice, crowd, place.agent)))
        accepted |= crowd.accepted
        known = place.executions(crowd.accepted.values())
        assert [key for key, item in known.items() if item["status"] == "not_found"] == []

    ends = place.ends(accepted.values())
    calls = place.agent.calls
    succeeded = {key for key, end in ends.items() if end["status"] == "succeeded"}
    statuses = Counter(f"{end['status']} {end.get('status_reason') or ''}".strip() for end in ends.values())
    never_sent = len(ends.keys() - {call.execution_id for call in calls})
    # For whoever runs many rounds, with `pytest -s`.
    print(f"{len(accepted)} accepted, {ROUNDS} kills, {len(calls)} calls, {dict(statuses)}, {never_sent} never sent")  # noqa: T201
    assert _doubled(call.execution_id for call in calls) == []
    assert _doubled(call.mark for call in calls if call.mark != "-") == []
    assert _doubled(accepted.values()) == []
    assert set(statuses) <= {"succeeded", "failed outcome_unknown"}
    assert succeeded <= {call.execution_id for call in calls if call.what != "cut"}
    assert {call.execution_id for call in calls if call.what == "later"} & ends.keys() <= succeeded
    assert all(ends[key]["result"] == {"mark": mark} for mark, key in accepted.items() if key in succeeded)
    assert not any(line.what == "unheard" for line in place.agent.lines)


def test_a_control_plane_that_is_told_to_stop_loses_nothing(place: Place) -> None:
    """What it began it finishes; what waited begins after the next start; everything accepted succeeds."""
    crowd = Crowd(place.plane.url, 0)

    async def story() -> None:
        submitting = asyncio.create_task(crowd.submit())
        await _until(lambda: len(crowd.accepted) >= AT_ONCE // 2)
        assert await asyncio.to_thread(place.plane.stop) == 0
        await asyncio.to_thread(place.restart)
        crowd.back.set()
        await submitting

    asyncio.run(story())

    ends = place.ends(crowd.accepted.values())
    assert {end["status"] for end in ends.values()} == {"succeeded"}
    assert len(place.agent.calls) == len({call.execution_id for call in place.agent.calls})


def test_a_call_to_an_agent_that_dies_has_failed_at_once(place: Place) -> None:
    """It had answered nothing, so the broken connection says it all; the agent's next process is not asked again."""
    execution_id = place.submit("hold")
    wait_until(lambda: place.agent.has(execution_id, "hold"))

    place.agent.kill()

    end = place.execution(execution_id, 30)
    assert (end["status"], end["status_reason"]) == ("failed", "agent_unreachable")
    place.agent = place.new_agent()
    assert [call.execution_id for call in place.agent.calls] == [execution_id]


def test_what_a_restarted_agent_was_working_on_has_failed(place: Place) -> None:
    """It had promised to report; its next process knows nothing of that."""
    execution_id = place.submit("never")
    wait_until(lambda: place.agent.has(execution_id, "promised"))
    place.agent.kill()

    place.agent = place.new_agent()

    end = place.execution(execution_id, 30)
    assert (end["status"], end["status_reason"]) == ("failed", "agent_restarted")
    assert end["error"] == "the agent was restarted while it worked on this"


def test_what_an_agent_that_stays_away_was_working_on_has_failed(place: Place) -> None:
    """It had promised to report, and left without doing so."""
    execution_id = place.submit("never")
    wait_until(lambda: place.agent.has(execution_id, "promised"))

    place.agent.kill()
    place.plane.client.post(f"/api/v1/nodes/{AGENT}/shutdown", json={"reason": "signal"})

    end = place.execution(execution_id, 60)
    assert (end["status"], end["status_reason"]) == ("failed", "agent_gone")
    assert end["error"] == "the agent is gone and has not said how this ended"


def test_whoever_waits_is_answered_by_the_report(place: Place) -> None:
    """A minute was allowed; the report of somebody else's request ends the waiting, and so does a cancellation."""
    reported, cancelled = place.submit("never"), place.submit("never")
    wait_until(lambda: place.agent.has(reported, "never") and place.agent.has(cancelled, "never"))

    async def story() -> list[dict[str, Any]]:
        async with httpx2.AsyncClient(base_url=place.plane.url, timeout=60, trust_env=False) as client:
            waiting = [
                asyncio.create_task(client.get(f"/api/v1/executions/{key}?wait=60")) for key in (reported, cancelled)
            ]
            await client.get("/health")
            await client.post(f"/api/v1/executions/{reported}/status", json={"status": "completed", "result": ["a", 1]})
            await client.post(f"/api/v1/executions/{cancelled}/cancel", json={"reason": "no longer needed"})
            return [(await answer).json() for answer in waiting]

    first, second = asyncio.run(story())

    assert (first["status"], first["result"]) == ("succeeded", ["a", 1])
    assert (second["status"], second["status_reason"]) == ("cancelled", "no longer needed")
    wait_until(lambda: place.agent.has(cancelled, "cancel"))


async def _crash(place: Place, crowd: Crowd, moment: Callable[[], bool]) -> None:
    """Submit, kill the control plane at that moment, start it again, and see the callers through."""
    submitting = asyncio.create_task(crowd.submit())
    await _until(moment)
    place.plane.kill()
    await asyncio.to_thread(place.restart)
    crowd.back.set()
    await submitting


def _some_moment(dice: random.Random, crowd: Crowd, agent: Recorder) -> Callable[[], bool]:
    """Return when to kill: after so many answers, or so many calls that reached the agent."""
    before = len(agent.calls)
    if dice.random() < 0.5:
        enough = dice.randrange(AT_ONCE + 1)
        return lambda: len(crowd.accepted) >= enough
    enough = dice.randrange(1, AT_ONCE + 1)
    return lambda: len(agent.calls) - before >= enough


def _doubled(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


async def _until(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - what it waits for is often in a file
            await asyncio.sleep(0.001)


def test_a_caller_that_waits_is_told_where_to_ask_when_the_control_plane_stops(place: Place) -> None:
    """The agent has promised to report; its report finds the execution after the next start."""

    async def story() -> httpx2.Response:
        async with httpx2.AsyncClient(base_url=place.plane.url, timeout=60, trust_env=False) as client:
            calling = asyncio.create_task(client.post(f"/api/v1/execute/{AGENT}.never", json={"input": {}}))
            await _until(lambda: place.agent.calls != [])
            assert await asyncio.to_thread(place.plane.stop) == 0
            return await calling

    answer = asyncio.run(story())
    place.restart()

    (call,) = place.agent.calls
    assert (answer.status_code, answer.json()["details"]["execution_id"]) == (503, call.execution_id)
    report = {"status": "succeeded", "result": "late"}
    place.plane.client.post(f"/api/v1/executions/{call.execution_id}/status", json=report)
    assert place.execution(call.execution_id)["result"] == "late"


def test_a_caller_whose_agent_takes_longer_than_the_stop_gets_an_answer_too(place: Place) -> None:
    """As does one whose request never became complete. What was sent is known after the next start, and has an end."""

    async def story() -> tuple[httpx2.Response, bytes]:
        async with httpx2.AsyncClient(base_url=place.plane.url, timeout=60, trust_env=False) as client:
            calling = asyncio.create_task(client.post(f"/api/v1/execute/{AGENT}.hold", json={"input": {}}))
            await _until(lambda: place.agent.calls != [])
            host, port = place.plane.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /api/v1/nodes/register HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
            await writer.drain()
            assert (await client.get("/ready")).status_code == 200
            assert await asyncio.to_thread(place.plane.stop, 60) == 0
            incomplete = await reader.read()
            writer.close()
            return await calling, incomplete

    answer, incomplete = asyncio.run(story())
    place.restart()

    (call,) = place.agent.calls
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"] == "service_unavailable"
    assert answer.json()["details"]["execution_id"] == call.execution_id
    head, _, body = incomplete.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in head
    assert json.loads(body)["error"] == "service_unavailable"
    assert place.execution(call.execution_id, END_WITHIN_S)["status_reason"] == "outcome_unknown"

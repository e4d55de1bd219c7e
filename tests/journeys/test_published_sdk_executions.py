"""Agents and callers of the published AgentField SDK, unmodified, executing through our control plane.

Three agents in processes of their own: a writer and an editor that call each other, and a worker that is failed,
cancelled, stopped and killed. One caller takes every way to execute that the SDK has; the tests look at what it got.
"""

import json
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.test_published_sdk import PROGRAMS, PYTHON, environment, free_port
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane
from tests.support import requirement

Told = dict[str, Any]


class Team:
    """A control plane, and agents of the published SDK that come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plane = ControlPlane(folder, SWITCHBOARD_API_KEY="k-123", XDG_DATA_HOME=str(folder))
        self.plane.client.headers["X-API-Key"] = "k-123"
        self._agents: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        """Start agents, and wait until they are ready."""
        for name in names:
            port = free_port()
            with (self.folder / f"{name}.log").open("ab") as log:
                self._agents[name] = subprocess.Popen(  # noqa: S603 - our own programs
                    [str(PYTHON), str(PROGRAMS / f"team_{name}.py")],
                    env=environment(self.plane, port),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        for name in names:
            wait_until(lambda name=name: self._is_ready(name), 60)

    def tell(self, name: str, number: signal.Signals) -> None:
        """Send an agent a signal."""
        self._agents[name].send_signal(number)

    def end(self, name: str) -> int:
        """Wait for an agent's end, and return its exit code."""
        return self._agents.pop(name).wait(60)

    def ask_everything(self) -> Told:
        """Run the caller, and return what it tells."""
        caller = subprocess.run(  # noqa: S603 - our own program
            [str(PYTHON), str(PROGRAMS / "published_execute.py")],
            env=environment(self.plane),
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert caller.returncode == 0, caller.stderr[-3000:]
        return json.loads(caller.stdout.strip().splitlines()[-1])

    def begin_work(self, name: str) -> tuple[str, Path]:
        """Have the worker work on something, and return the id and the file it tells its progress in."""
        file = self.folder / name
        answer = self.plane.client.post("/api/v1/execute/async/worker.work", json={"input": {"file": str(file)}})
        assert answer.status_code == 202, answer.text
        wait_until(lambda: file.exists() and file.read_text() == "begun")
        return answer.json()["execution_id"], file

    def end_of(self, execution_id: str) -> Told:
        """Wait for an end."""
        return self.plane.client.get(f"/api/v1/executions/{execution_id}", params={"wait": 25}).json()

    def close(self) -> None:
        """End everybody; they are not asked."""
        for agent in self._agents.values():
            agent.kill()
            agent.wait(30)
        self.plane.stop()

    def _is_ready(self, name: str) -> bool:
        assert self._agents[name].poll() is None, (self.folder / f"{name}.log").read_text()[-3000:]
        answer = self.plane.client.get(f"/api/v1/nodes/{name}")
        return answer.status_code == 200 and answer.json()["health_status"] == "active"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Generator[Team]:
    if not PYTHON.exists() and not os.environ.get("CI"):
        pytest.skip("the published SDK is not installed; `make setup` does it")
    found = Team(tmp_path_factory.mktemp("team"))
    try:
        found.start("writer", "editor", "worker")
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def told(team: Team) -> Told:
    """What the caller got, asked once for all tests."""
    return team.ask_everything()


def test_agents_call_each_other_through_three_levels(team: Team, told: Told) -> None:
    """The writer's reasoner calls the editor's, which calls the writer's skill."""
    answer = told["nested"]

    assert answer["result"] == {"edited": {"headline": "TEA", "length": 3}, "found": ["tea", "aet"]}
    execution = team.plane.client.get(f"/api/v1/executions/{answer['execution_id']}").json()
    assert (execution["status"], execution["run_id"]) == ("succeeded", answer["run_id"])


def test_a_nested_call_belongs_to_the_run_of_its_parent(told: Told) -> None:
    """As the called agent sees it."""
    answer = told["traced"]

    assert answer["result"] == {
        "run": answer["run_id"],
        "id": answer["execution_id"],
        "called": {"run": answer["run_id"], "parent": answer["execution_id"]},
    }


@requirement("execute:input:result")
def test_a_caller_gets_texts_and_lists_as_they_are(told: Told) -> None:
    """From reasoners, which report later, and from skills, which answer at once."""
    assert told["results"] == ["Green Tea", ["green", "tea"], ["tea", "aet"], "TEA"]


def test_a_caller_may_submit_first_and_wait_later(told: Told) -> None:
    """With `execute_async` and `wait_for_execution_result`."""
    assert told["waited"] == ["Black Tea", ["abc", "cba"]]


def test_an_exception_in_a_reasoner_reaches_the_caller_with_its_text(told: Told) -> None:
    """`execute` tells of it, `call` raises it in the calling agent."""
    assert (told["failed"]["status"], told["failed"]["error_message"]) == ("failed", "the kettle is empty")
    assert told["raised"].endswith("the pot is broken")


def test_an_input_that_does_not_fit_is_refused_before_anything_runs(told: Told) -> None:
    """With 422 and what is missing, not after a failed execution."""
    assert told["misfit"]["status"] == 422
    assert "text" in told["misfit"]["text"]


def test_an_unknown_target_is_refused_at_once_with_the_nearest_name(told: Told) -> None:
    """A caller that were answered 202 would ask for hours."""
    assert told["unknown"]["status"] == told["nobody"]["status"] == 404
    assert "title" in told["unknown"]["text"]


@requirement("execute:target:discovered")
def test_every_target_that_discovery_prints_can_be_executed_as_it_is_printed(told: Told) -> None:
    """By the SDK's own `discover()` and `execute()`."""
    assert told["discovered"] == {
        "editor:count": 3,
        "editor:edit": {"headline": "TEA", "length": 3},
        "editor:skill:look_up": ["tea", "aet"],
        "editor:title": "Tea",
        "editor:words": ["tea"],
        "writer:article": {"edited": {"headline": "TEA", "length": 3}, "found": ["tea", "aet"]},
        "writer:skill:headline": "TEA",
    }


def test_thirty_callers_at_once_each_get_their_own_answer(told: Told) -> None:
    """In the order they asked."""
    assert told["many"] == list(range(30))


def test_a_cancellation_reaches_the_running_coroutine(team: Team) -> None:
    """The reasoner sees CancelledError; what it reports afterwards changes nothing."""
    execution_id, file = team.begin_work("cancelled")

    answer = team.plane.client.post(f"/api/v1/executions/{execution_id}/cancel", json={"reason": "enough"})

    assert (answer.status_code, answer.json()["previous_status"]) == (200, "running")
    wait_until(lambda: file.read_text() == "cancelled")
    assert team.end_of(execution_id)["status"] == "cancelled"
    again = team.plane.client.post(f"/api/v1/executions/{execution_id}/cancel", json={})
    assert (again.status_code, again.json()["error"]) == (409, "invalid_state")


def test_an_agent_that_is_told_to_stop_reports_what_it_was_working_on(team: Team) -> None:
    """SIGTERM while it works: it ends its work, reports, says goodbye, and goes."""
    execution_id, file = team.begin_work("drained")

    team.tell("worker", signal.SIGTERM)
    wait_until(lambda: not _is_active(team, "worker"))
    file.with_name("drained.end").touch()

    assert team.end("worker") in (0, -signal.SIGTERM)
    end = team.end_of(execution_id)
    assert (end["status"], end.get("result")) == ("succeeded", "done")
    team.start("worker")


def test_what_a_killed_and_restarted_agent_was_working_on_has_failed(team: Team) -> None:
    """The new process has another instance id; the reason says so."""
    execution_id, _ = team.begin_work("killed")
    team.tell("worker", signal.SIGKILL)
    team.end("worker")

    team.start("worker")

    end = team.end_of(execution_id)
    assert (end["status"], end["status_reason"]) == ("failed", "agent_restarted")


def _is_active(team: Team, name: str) -> bool:
    return team.plane.client.get(f"/api/v1/nodes/{name}").json()["health_status"] == "active"

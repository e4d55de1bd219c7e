"""Agents written in Go: found, executed, nested, cancelled, drained, and there again after a crash of the server."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.journeys.waiting import wait_until
from tests.sdk_go.golang import HERE, Agent, Asker, Told, run
from tests.servers import ControlPlane

AT_ONCE = 64
"""As many executions as an agent works on at once."""
WAITING = 16


class Team:
    """A control plane that comes back where it was, an agent in Go, and one in Python."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.programs = programs
        self.plane = ControlPlane(folder, SWITCHBOARD_API_KEY="open-sesame")
        self._port = self.plane.url.rpartition(":")[2]
        self._open()
        self.calls = folder / "calls.txt"
        self.calls.touch()
        self.go = self.start("go-agent")
        self.ask = Asker(programs / "ask", self.plane.url, AGENTFIELD_API_KEY="open-sesame")

    def start(self, name: str) -> Agent:
        """Start an agent in Go, and wait until it is well."""
        command = (str(self.programs / "team"), name, str(self.calls))
        return Agent(self.folder, self.plane.url, name, *command, AGENTFIELD_API_KEY="open-sesame").ready(self.plane)

    def start_python(self, name: str) -> Agent:
        """Start an agent in Python, and wait until it is well."""
        command = (sys.executable, str(HERE / "programs/python_agent.py"), name)
        return Agent(self.folder, self.plane.url, name, *command, AGENTFIELD_API_KEY="open-sesame").ready(self.plane)

    def crash(self) -> None:
        """Kill the server."""
        self.plane.kill()

    def restart(self) -> None:
        """Start the server again, with the same database at the same address."""
        self.plane = ControlPlane(self.folder, "--port", self._port, SWITCHBOARD_API_KEY="open-sesame")
        self._open()

    def submit(self, agent_target: str, **given: Any) -> str:
        """Have something accepted, and return its id."""
        answer = self.plane.client.post(f"/api/v1/execute/async/{agent_target}", json={"input": given})
        assert answer.status_code == 202, answer.text
        return answer.json()["execution_id"]

    def end_of(self, execution_id: str) -> Told:
        """Wait for an end."""
        return self.plane.client.get(f"/api/v1/executions/{execution_id}", params={"wait": 40}, timeout=60).json()

    def called(self, among: list[str]) -> list[str]:
        """Return for which of these executions the agent was called, once for each call."""
        return [line for line in self.calls.read_text().split() if line in among]

    def begin_work(self, agent: str, name: str) -> tuple[str, Path]:
        """Have an agent work, and return the id and the file in which it says how far it is."""
        file = self.folder / name
        execution_id = self.submit(f"{agent}:work", file=str(file))
        wait_until(lambda: file.exists() and file.read_text() == "begun")
        return execution_id, file

    def close(self) -> None:
        """End both."""
        self.go.kill()
        if self.plane.process.poll() is None:
            self.plane.stop()

    def _open(self) -> None:
        self.plane.client.headers["X-API-Key"] = "open-sesame"


@pytest.fixture(scope="module")
def team(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    made = Team(tmp_path_factory.mktemp("team"), programs)
    yield made
    made.close()


def test_every_target_of_an_agent_in_go_is_executed_as_discovery_prints_it(team: Team) -> None:
    """Reasoners, which report, and skills, which answer; through the REST API, without any SDK."""
    found = team.plane.discover(agent="go-agent", tags="")
    printed = {
        one["invocation_target"] for agent in found["capabilities"] for one in (*agent["reasoners"], *agent["skills"])
    }
    given = {"go-agent:later": {"mark": "x"}, "go-agent:skill:shout": {"mark": "x"}, "go-agent:trace": {}}

    answers = [
        team.plane.client.post(f"/api/v1/execute/{target}", json={"input": wanted}) for target, wanted in given.items()
    ]

    assert given.keys() <= printed
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert [answer.json()["result"] for answer in answers[:2]] == ["x", "X"]
    assert answers[2].json()["result"]["id"] == answers[2].json()["execution_id"]


def test_a_caller_may_wait_or_submit_first(team: Team) -> None:
    """`Execute`, and `Submit` with `Wait`."""
    waited = team.ask.execute("go-agent:skill:shout", {"mark": "tea"})
    submitted = team.ask.execute("go-agent:later", {"mark": "later"}, submit=True)

    assert (waited["execution"]["result"], submitted["execution"]["result"]) == ("TEA", "later")


def test_the_same_key_is_the_same_execution(team: Team) -> None:
    """However often it is sent."""
    wish = {"target": "go-agent:later", "input": {"mark": "once"}, "key": "order-17"}

    first, again = team.ask(execute=wish), team.ask(execute=wish, submit=True)

    assert first["execution"]["execution_id"] == again["execution"]["execution_id"]
    assert len(team.called([first["execution"]["execution_id"]])) == 1


@pytest.mark.parametrize("submit", [False, True])
def test_what_went_wrong_in_an_agent_reaches_the_caller(team: Team, submit: bool) -> None:
    """An error, a refusal with its status, and a panic, which the agent survives."""
    failed, refused, panicked = (
        team.ask.execute(f"go-agent:{name}", submit=submit)["refused"] for name in ("fail", "refuse", "panics")
    )

    assert (failed["Status"], failed["Message"]) == (502, "the kettle is empty")
    assert refused["Message"] == "not now"
    assert submit or refused["Status"] == 409
    assert panicked["Message"] == "it panicked: oh"
    assert panicked["ExecutionID"].startswith("exec_")


def test_an_input_that_does_not_fit_the_struct_is_refused_before_anything_runs(team: Team) -> None:
    """By the schema that was made from it."""
    refused = team.ask.execute("go-agent:later", {"mark": 7})["refused"]

    assert (refused["Status"], refused["Code"]) == (422, "invalid_input")
    assert refused["Details"]["schema"]["required"] == ["mark"]


def test_nested_calls_belong_to_the_run_of_their_parent(team: Team) -> None:
    """Three levels deep, with the session of the first caller."""
    wish = {"target": "go-agent:relay", "input": {"target": "go-agent:trace_skill"}}
    errand = {"target": "go-agent:relay", "input": wish, "session": "s-1"}

    told = team.ask(execute=errand)["execution"]

    outer, inner = told["result"]["here"], told["result"]["there"]["here"]
    innermost = told["result"]["there"]["there"]
    assert {call["run"] for call in (outer, inner, innermost)} == {told["run_id"]}
    assert [call["session"] for call in (outer, inner, innermost)] == ["s-1"] * 3
    assert (outer["id"], inner["parent"], innermost["parent"]) == (told["execution_id"], outer["id"], inner["id"])
    assert inner["caller"] == innermost["caller"] == "go-agent"


def test_agents_in_go_and_in_python_call_each_other_both_ways(team: Team) -> None:
    """Go, Python, Go; and Python, Go, Python; each with the SDK of its language."""
    python = team.start_python("py-agent")
    ways = {
        "go-agent:relay": {"target": "py-agent:relay", "input": {"target": "go-agent:trace"}},
        "py-agent:relay": {"target": "go-agent:relay", "input": {"target": "py-agent:skill:trace"}},
    }

    for target, given in ways.items():
        told = team.ask.execute(target, given)["execution"]
        chain = [told["result"]["here"], told["result"]["there"]["here"], told["result"]["there"]["there"]]
        assert {call["run"] for call in chain} == {told["run_id"]}
        assert [call["parent"] for call in chain[1:]] == [call["id"] for call in chain[:2]]

    assert python.stop() == 0, python.log()


def test_each_sdk_discovers_and_executes_the_agents_of_the_other(team: Team) -> None:
    """By what discovery prints."""
    python = team.start_python("py-other")
    code = (
        "from agentfield import Agent\n"
        "app = Agent()\n"
        "found = app.discover(agent='go-agent', skill='shout')\n"
        "target = found.capabilities[0].skills[0].invocation_target\n"
        "print(app.execute(target=target, input={'mark': 'tea'}))\n"
    )

    from_python = run(Path(sys.executable), team.plane.url, "-c", code, AGENTFIELD_API_KEY="open-sesame")
    (agent,) = team.ask.discover(WithAgent="py-other", WithSkillPattern="*")["capabilities"]
    from_go = team.ask.execute(agent["skills"][0]["invocation_target"])["execution"]

    assert from_python.strip() == "TEA"
    assert from_go["result"]["id"] == from_go["execution_id"]
    assert python.stop() == 0, python.log()


def test_a_cancellation_reaches_the_running_function(team: Team) -> None:
    """Its context ends."""
    execution_id, file = team.begin_work("go-agent", "cancelled")

    told = team.ask(cancel=execution_id)

    assert told == {}
    wait_until(lambda: file.read_text() == "cancelled")
    assert team.end_of(execution_id)["status"] == "cancelled"
    assert team.ask(cancel=execution_id)["refused"]["Code"] == "invalid_state"


def test_a_cancellation_reaches_what_was_called_inside(team: Team) -> None:
    """The nested execution is cancelled with its parent."""
    file = team.folder / "inside"
    parent = team.submit("go-agent:relay", target="go-agent:work", input={"file": str(file)})
    wait_until(lambda: file.exists() and file.read_text() == "begun")

    team.ask(cancel=parent)

    wait_until(lambda: file.read_text() == "cancelled")
    assert team.end_of(parent)["status"] == "cancelled"


def test_an_agent_that_is_told_to_stop_finishes_its_work_and_says_goodbye(team: Team) -> None:
    """SIGTERM while it works: inactive at once, the result reported, a clean end."""
    agent = team.start("drained")
    execution_id, file = team.begin_work("drained", "drained")

    agent.process.send_signal(signal.SIGTERM)
    wait_until(lambda: agent.health(team.plane) == "inactive")
    file.with_name("drained.end").touch()

    assert agent.process.wait(60) == 0, agent.log()
    end = team.end_of(execution_id)
    assert (end["status"], end.get("result")) == ("succeeded", "done")
    assert "ended well" in agent.log()


def test_an_agent_that_is_told_twice_ends_at_once(team: Team) -> None:
    """The second signal does not wait for the work."""
    agent = team.start("hurried")
    team.begin_work("hurried", "hurried")

    agent.process.send_signal(signal.SIGINT)
    wait_until(lambda: agent.health(team.plane) == "inactive")
    agent.process.send_signal(signal.SIGINT)

    assert agent.process.wait(15) == -signal.SIGINT, agent.log()


def test_a_second_process_may_take_an_agents_place(team: Team) -> None:
    """The first one, told to stop, does not say goodbye in the name of the second."""
    first = team.start("twice")
    second = team.start("twice")
    wait_until(lambda: second.log().count("agent.registered") == 2)

    assert first.stop() == 0
    assert second.health(team.plane) == "active"
    assert second.stop() == 0


def test_an_agent_that_was_removed_is_back_by_itself(team: Team) -> None:
    """It learns of it from its next heartbeat."""
    assert team.plane.client.delete("/api/v1/nodes/go-agent").status_code == 200

    team.go.ready(team.plane)


def test_no_accepted_call_is_lost_when_the_server_is_killed(team: Team) -> None:
    """What the agent was working on, and what still waited for it, all of it succeeds, each called once.

    Half of them are skills, whose caller is gone when they are done: the agent reports them in the place of answering.
    """
    gate = team.folder / "gate"
    accepted = [
        team.submit(f"go-agent:{name}", mark=name, gate=str(gate))
        for _ in range((AT_ONCE + WAITING) // 2)
        for name in ("later", "skill:slowly")
    ]
    wait_until(lambda: len(team.called(accepted)) == AT_ONCE)

    team.crash()
    gate.touch()
    team.restart()

    ends = [team.end_of(key) for key in accepted]
    assert Counter((end["status"], end.get("result")) for end in ends) == {
        ("succeeded", "later"): len(accepted) // 2,
        ("succeeded", "skill:slowly"): len(accepted) // 2,
    }
    assert sorted(team.called(accepted)) == sorted(accepted)
    team.go.ready(team.plane)


def test_a_nested_call_survives_a_crash_of_the_server(team: Team) -> None:
    """The inner one is reported, and the outer one waits for it, while the server is away."""
    file = team.folder / "nested"
    parent = team.submit("go-agent:relay", target="go-agent:work", input={"file": str(file)})
    wait_until(lambda: file.exists() and file.read_text() == "begun")

    team.crash()
    file.with_name("nested.end").touch()
    team.restart()

    end = team.end_of(parent)
    assert (end["status"], end["result"]["there"]) == ("succeeded", "done")


@pytest.mark.parametrize("submit", [False, True])
def test_a_caller_that_waits_gets_its_answer_through_a_crash(team: Team, submit: bool) -> None:
    """`Execute`, or `Submit` and `Wait`, while the server is killed and started again."""
    file = team.folder / f"waited-{submit}"
    wish = json.dumps({"submit": submit, "execute": {"target": "go-agent:work", "input": {"file": str(file)}}})
    with subprocess.Popen(  # noqa: S603 - our own program
        [str(team.programs / "ask"), wish],
        env={"AGENTFIELD_SERVER": team.plane.url, "AGENTFIELD_API_KEY": "open-sesame"},
        stdout=subprocess.PIPE,
    ) as caller:
        wait_until(lambda: file.exists() and file.read_text() == "begun")
        team.crash()
        file.with_name(f"{file.name}.end").touch()
        team.restart()
        told = caller.communicate(timeout=60)[0]

    assert b'"result":"done"' in told


def test_an_agent_that_is_there_before_the_server_registers_when_it_comes(team: Team) -> None:
    """It goes on trying."""
    team.crash()
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(team.plane.url, trust_env=False)
    command = (str(team.programs / "team"), "early", str(team.calls))
    agent = Agent(team.folder, team.plane.url, "early", *command, AGENTFIELD_API_KEY="open-sesame")
    wait_until(lambda: "agent.unheard" in agent.log())

    team.restart()

    agent.ready(team.plane)
    assert agent.stop() == 0


def test_no_log_and_no_error_has_the_key(team: Team) -> None:
    """Of an agent that lived through all this, and of a caller with a wrong one."""
    wrong = Asker(team.programs / "ask", team.plane.url, AGENTFIELD_API_KEY="wrong-sesame")(options={})

    assert wrong["refused"]["Status"] == 401
    assert "sesame" not in str(wrong) + team.go.log()

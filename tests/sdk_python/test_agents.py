"""Agents written with the SDK: contexts, threads, cancellation, and a control plane that comes, goes and forgets."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.journeys.waiting import wait_until
from tests.sdk_python.running import Program, environment
from tests.servers import ControlPlane

from agentfield import Agent, ExecutionFailed, Unauthorized


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def homeless(folder: Path, port: int) -> Iterator[Program]:
    """Start a worker whose control plane is not there yet."""
    program = Program(folder, "worker", environment(None, AGENTFIELD_SERVER=f"http://127.0.0.1:{port}"))
    yield program
    if program.process.poll() is None:
        program.kill()


def serve(folder: Path, port: int) -> ControlPlane:
    return ControlPlane(folder, "--port", str(port))


def begun(handle_file: Path) -> None:
    wait_until(lambda: handle_file.exists() and handle_file.read_text() == "begun")


@pytest.mark.parametrize("name", ["nested", "nested_blocking"])
def test_nested_calls_belong_to_the_run_of_their_parent(worker: Program, app: Agent, name: str) -> None:
    """Three levels of coroutines, or of threads that wait for each other in one agent."""
    assert worker.process.pid
    handle = app.submit(f"worker:{name}")
    result = handle.wait()

    top, middle, bottom = result, result["child"], result["child"]["child"]
    leaf = bottom["child"]
    assert top["id"] == handle.execution_id
    assert (leaf["parent"], leaf["run"], leaf["caller"]) == (bottom["id"], handle.state().run_id, "worker")
    assert len({top["id"], middle["id"], bottom["id"], leaf["id"]}) == 4


def test_a_function_that_blocks_does_not_keep_the_others_waiting(worker: Program, app: Agent, folder: Path) -> None:
    """It has a thread of its own."""
    assert worker.process.pid
    file = folder / "block"
    handle = app.submit("worker:skill:block", {"file": str(file)})
    begun(file)

    assert app.execute("worker:skill:echo", {"value": "tea"}) == "tea"
    file.with_suffix(".end").touch()
    assert handle.wait() == "done block"


@pytest.mark.parametrize("name", ["work", "skill:block"])
def test_a_cancellation_reaches_coroutines_and_functions_that_look(
    worker: Program, app: Agent, folder: Path, name: str
) -> None:
    """As CancelledError, or in `app.context.cancelled`."""
    assert worker.process.pid
    file = folder / "work"
    handle = app.submit(f"worker:{name}", {"file": str(file)})
    begun(file)

    handle.cancel()

    wait_until(lambda: file.read_text() == "cancelled")
    assert handle.state().status == "cancelled"


def test_a_cancellation_reaches_what_was_called_inside(worker: Program, app: Agent, folder: Path) -> None:
    """The nested execution is cancelled with its parent."""
    assert worker.process.pid
    file = folder / "inside"
    handle = app.submit("worker:relay", {"target": "worker:work", "given": {"file": str(file)}})
    begun(file)

    handle.cancel()

    wait_until(lambda: file.read_text() == "cancelled")


def test_an_agent_comes_before_its_control_plane(homeless: Program, folder: Path, port: int) -> None:
    """It waits, and registers when there is somebody to register with."""
    wait_until(lambda: "not registered yet" in homeless.log())
    plane = serve(folder, port)
    homeless.wait_for(plane, "worker")

    with Agent(agentfield_server=plane.url) as app:
        assert app.execute("worker:skill:echo", {"value": 1}) == 1
    assert homeless.stop() == 0
    assert plane.client.get("/api/v1/nodes/worker").json()["health_status"] == "inactive"
    plane.stop()


def test_an_agent_that_was_forgotten_registers_again(homeless: Program, folder: Path, port: int) -> None:
    """The control plane says 404 to its next heartbeat."""
    plane = serve(folder, port)
    homeless.wait_for(plane, "worker")

    plane.client.delete("/api/v1/nodes/worker")

    homeless.wait_for(plane, "worker")
    assert "forgotten" in homeless.log()
    plane.stop()


def test_no_accepted_call_is_lost_when_the_server_is_killed_and_comes_back(
    homeless: Program, folder: Path, port: int
) -> None:
    """What was under way and what ended meanwhile is reported; who waited gets the result."""
    plane = serve(folder, port)
    homeless.wait_for(plane, "worker")
    app = Agent(agentfield_server=plane.url)
    files = [folder / f"work-{number}" for number in range(6)]
    handles = [
        app.submit("worker:work" if number % 2 else "worker:skill:block", {"file": str(file)})
        for number, file in enumerate(files)
    ]
    for file in files:
        begun(file)

    plane.kill()
    for file in files[:3]:
        file.with_suffix(".end").touch()
    wait_until(lambda: files[1].read_text() == "done")
    plane = serve(folder, port)
    for file in files[3:]:
        file.with_suffix(".end").touch()

    assert [handle.wait(timeout=60) for handle in handles] == [f"done work-{number}" for number in range(6)]
    app.close()
    assert homeless.stop() == 0
    plane.stop()


def test_a_caller_that_waits_through_a_crash_of_the_server_gets_its_result(
    homeless: Program, folder: Path, port: int
) -> None:
    """`execute` finds its execution again by its key."""
    plane = serve(folder, port)
    homeless.wait_for(plane, "worker")
    file = folder / "work"
    caller = Program(folder, "caller", environment(plane, WORK_FILE=str(file)))
    begun(file)

    plane.kill()
    wait_until(lambda: "away" in homeless.log())
    plane = serve(folder, port)
    file.with_suffix(".end").touch()

    assert caller.process.wait(60) == 0, caller.log()
    assert caller.log().strip() == "done work"
    assert homeless.stop() == 0
    plane.stop()


def test_an_agent_that_is_told_to_stop_finishes_and_reports_first(homeless: Program, folder: Path, port: int) -> None:
    """SIGTERM while it works: goodbye at once, the end when the work is done."""
    plane = serve(folder, port)
    homeless.wait_for(plane, "worker")
    file = folder / "work"
    with Agent(agentfield_server=plane.url) as app:
        handle = app.submit("worker:work", {"file": str(file)})
        begun(file)

        homeless.process.send_signal(signal.SIGTERM)
        wait_until(lambda: app.discover(agent="worker").capabilities[0].health_status == "inactive")
        file.with_suffix(".end").touch()

        assert homeless.process.wait(30) == 0
        assert handle.wait() == "done work"
    plane.stop()


def test_an_agent_that_is_told_twice_ends_now_and_says_what_it_left(homeless: Program, folder: Path, port: int) -> None:
    """The second signal does not wait for the work."""
    plane = serve(folder, port)
    homeless.wait_for(plane, "worker")
    file = folder / "work"
    with Agent(agentfield_server=plane.url) as app:
        handle = app.submit("worker:work", {"file": str(file)})
        begun(file)

        homeless.process.send_signal(signal.SIGINT)
        wait_until(lambda: app.discover(agent="worker").capabilities[0].health_status == "inactive")
        homeless.process.send_signal(signal.SIGINT)

        assert homeless.process.wait(30) == 0
        assert file.read_text() == "cancelled"
        with pytest.raises(ExecutionFailed, match="The agent stopped"):
            handle.wait()
    plane.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_two_agents_in_one_process_both_end_when_it_is_told_to(
    plane: ControlPlane, app: Agent, folder: Path, number: signal.Signals
) -> None:
    """Neither takes the signal away from the other."""
    program = Program(folder, "pair", environment(plane))
    program.wait_for(plane, "pair-one", "pair-two")
    assert app.execute("pair-one:skill:echo", {"value": "tea"}) == "tea"

    program.process.send_signal(number)

    assert program.process.wait(30) == 0, program.log()
    found = app.discover(agent="pair-*").capabilities
    assert [agent.health_status for agent in found] == ["inactive", "inactive"]


def test_one_whose_place_was_taken_does_not_say_goodbye(plane: ControlPlane, app: Agent, folder: Path) -> None:
    """As when a new version is started before the old one is stopped."""
    first = Program(folder, "worker", environment(plane, WORKER_ID="rolling"))
    first.wait_for(plane, "rolling")
    (folder / "second").mkdir()
    second = Program(folder / "second", "worker", environment(plane, WORKER_ID="rolling"))
    wait_until(lambda: ": registered" in second.log())

    assert first.stop() == 0

    assert app.discover(agent="rolling").capabilities[0].health_status == "active"
    assert app.execute("rolling:skill:echo", {"value": "tea"}) == "tea"
    assert second.stop() == 0
    assert app.discover(agent="rolling").capabilities[0].health_status == "inactive"


@pytest.mark.parametrize(
    ("target", "how", "said"),
    [
        ("skill:end_strangely", "mute", "failed: Mute"),
        ("skill:end_strangely", "ending", "failed: the end"),
        ("skill:end_strangely", "unruly", "failed: 'json'"),
        ("end_strangely_awaited", "mute", "failed: Mute"),
        ("end_strangely_awaited", "ending", "failed: the end"),
        ("end_strangely_awaited", "cancelled", "It awaited something that was cancelled"),
    ],
)
def test_however_an_execution_ends_its_caller_learns_of_it(
    worker: Program, app: Agent, target: str, how: str, said: str
) -> None:
    """Nobody waits for ever, and the agent goes on."""
    with pytest.raises(ExecutionFailed, match=said):
        app.execute(f"worker:{target}", {"how": how}, timeout=20)

    assert worker.process.poll() is None
    assert app.execute("worker:skill:decorated", {"value": "tea"}) == "tea"


def test_an_agent_with_the_wrong_key_ends_and_says_why(folder: Path) -> None:
    """There is no use in trying again, and the key is not in what it says."""
    plane = ControlPlane(folder, SWITCHBOARD_API_KEY="open-sesame")
    program = Program(folder, "worker", environment(plane, AGENTFIELD_API_KEY="wr0ng"))

    assert program.process.wait(30) == 1
    assert "Unauthorized" in program.log()
    assert "AGENTFIELD_API_KEY" in program.log()
    assert "wr0ng" not in program.log()
    plane.stop()


def test_what_an_agent_answers_to_whoever_calls_it_directly(worker: Program, plane: ControlPlane) -> None:
    """Without an execution it answers at once; what does not fit is refused with the place."""
    assert worker.process.pid
    url = plane.client.get("/api/v1/nodes/worker").json()["base_url"]
    with httpx2.Client(base_url=url, trust_env=False) as client:
        asked = [
            client.post("/skills/echo", json={"value": [1]}),
            client.post("/skills/fail", json={"message": 3}),
            client.post("/skills/fail", json={"message": "no tea"}),
            client.post("/skills/unknown", json={}),
            client.post("/skills/echo", content=b"{", headers={"Content-Type": "application/json"}),
            client.post("/skills/echo", content=b"{}", headers={"Content-Type": "text/plain"}),
            client.post("/_internal/executions/none/cancel", json={}),
            client.get("/health"),
            client.get("/nothing"),
            client.put("/skills/echo", json={}),
        ]

    assert [answer.status_code for answer in asked] == [200, 422, 500, 404, 422, 415, 200, 200, 404, 405]
    assert asked[0].json() == [1]
    assert asked[1].json()["detail"] == "The input does not fit: Expected `str`, got `int` - at `$.message`"
    assert asked[6].json() == {"cancelled": False, "execution_id": "none", "reason": "execution_not_active"}
    assert json.loads(asked[7].text)["node_id"] == "worker"


def test_one_execution_that_is_sent_twice_runs_once(worker: Program, plane: ControlPlane, folder: Path) -> None:
    """The second time it is being worked on already."""
    assert worker.process.pid
    url = plane.client.get("/api/v1/nodes/worker").json()["base_url"]
    file = folder / "work"
    headers = {"X-Execution-ID": "exec_twice"}
    with httpx2.Client(base_url=url, trust_env=False, headers=headers) as client:
        one = client.post("/reasoners/work", json={"file": str(file)})
        begun(file)
        file.write_text("seen")
        two = client.post("/reasoners/work", json={"file": str(file)})
        still = file.read_text()
        client.post("/_internal/executions/exec_twice/cancel", json={})

    assert (one.status_code, two.status_code, still) == (202, 202, "seen")


def test_half_a_request_is_none(worker: Program, plane: ControlPlane, app: Agent) -> None:
    """A control plane that dies while it asks must not have something run with half of its input."""
    url = httpx2.URL(plane.client.get("/api/v1/nodes/worker").json()["base_url"])
    head = "POST /skills/echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n"
    with socket.create_connection((url.host, url.port or 80)) as connection:
        connection.sendall(f"{head}X-Execution-ID: exec_half\r\n\r\n".encode())

    assert app.execute("worker:skill:echo", {"value": "whole"}) == "whole"
    assert "exec_half" not in worker.log()


def test_an_agent_needs_an_id_and_something_to_offer() -> None:
    """To serve; not to ask."""
    with pytest.raises(ValueError, match="needs an id"):
        Agent().run()
    with pytest.raises(ValueError, match="nothing to serve"):
        Agent("empty").run()


def test_two_functions_of_one_name_are_a_mistake() -> None:
    """A reasoner and a skill may share one."""
    app = Agent("twice")

    @app.skill
    def look() -> None: ...

    @app.reasoner(name="look")
    def look_again() -> None: ...

    with pytest.raises(ValueError, match="a skill 'look' already"):
        app.skill(look)
    assert (look(), look_again()) == (None, None)


def test_an_agent_may_be_refused_while_it_runs_in_a_program(folder: Path) -> None:
    """`run` raises what the control plane said."""
    plane = ControlPlane(folder, SWITCHBOARD_API_KEY="open-sesame")
    app = Agent("refused", agentfield_server=plane.url)
    app.skill(test_an_agent_needs_an_id_and_something_to_offer)

    with pytest.raises(Unauthorized):
        app.run(port=0)
    plane.stop()

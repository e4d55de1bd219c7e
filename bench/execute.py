"""What it costs to have something executed for you, over calling it yourself on a connection that is kept.

    control plane  `POST /execute/…` against the agent's own address; and how many executions a second are accepted
                   for good, on SQLite, while the agent works on them, and while they wait for it
    gateway        `aai:exec` over MCP on stdio against the backend's own address; consent is remembered
    consent        the same against a gateway whose user says yes to everything without being asked

Both sides take turns, a hundred calls each; promised are differences of their medians within one run. The agent and
the backend are one small server, `python -m bench.execute`, which answers every request with the same bytes.
"""

import asyncio
import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.gateways import ALLOWED, GATEWAY, environment_of, install

from bench.figures import Figure, figure
from bench.http_servers import Process, post, running
from bench.load import Job, LoadGenerator

TARGETS = {"control plane": 3.0, "accepted": 500.0, "gateway": 1.0, "consent": 1.0}
"""Milliseconds over a direct call, or over one that nobody is asked about; accepted a second."""
_CONNECTIONS = 32
_LIMIT_S = 120.0
_IDLE_S = 0.05
"""CPU that a server with nothing to do may use in a second."""
_GIVEN = {"text": "x" * 500}
_RESULT = b'{"summary":"' + b"y" * 300 + b'"}'
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + str(len(_RESULT)).encode() + b"\r\n\r\n"
) + _RESULT
_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

Call = Callable[[], None]


class Plan(NamedTuple):
    """How much is measured."""

    rounds: int = 9
    calls: int = 100
    """Of each side in a round."""
    warm_up: int = 200
    accepted: int = 1500
    paces: int = 5


QUICK = Plan(rounds=1, calls=3, warm_up=2, accepted=20, paces=1)
"""Enough to see that measuring works; the figures mean nothing."""
_USUAL = Plan()


def figures(plan: Plan = _USUAL) -> list[Figure]:
    """Measure on servers that are made for the purpose."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name, ExitStack() as stack:
        folder = Path(name)
        callee = stack.enter_context(running([sys.executable, "-m", "bench.execute"], int, folder / "callee.log"))
        direct = stack.enter_context(_direct(callee))
        return [*_control_plane(folder, callee, direct, plan), *_gateway(folder, callee, direct, plan)]


def _control_plane(folder: Path, callee: Process, direct: Call, plan: Plan) -> list[Figure]:
    with ExitStack() as stack:
        plane = stack.enter_context(_plane(folder / "one.db"))
        _register(plane, callee)
        through = stack.enter_context(_through(plane))
        found = against("execute: control plane, sync", direct, through, TARGETS["control plane"], plan=plan)
        load = stack.enter_context(LoadGenerator())
        before = plane.cpu()
        worked_on = _accepted(load, plane, plan)
        _wait_until_idle(plane)
        cpu = (plane.cpu() - before) / (plan.accepted * len(worked_on))
    with ExitStack() as stack:
        # One that is never answered keeps the others waiting.
        plane = stack.enter_context(_plane(folder / "two.db", SWITCHBOARD_AGENT_CONCURRENCY="1"))
        _register(plane, Process(0, stack.enter_context(_deaf())))
        load = stack.enter_context(LoadGenerator())
        waiting = _accepted(load, plane, plan)
    return [
        *found,
        _paced("execute: accepted durably while the agent works on them", worked_on),
        Figure("execute: CPU to accept one, run it and note its end", cpu * 1e6, "µs"),
        _paced("execute: accepted durably while they wait for the agent", waiting),
    ]


def _gateway(folder: Path, callee: Process, direct: Call, plan: Plan) -> list[Figure]:
    home = folder / "home"
    install(
        home,
        "com.example.bench",
        platform="web",
        execution={"type": "http", "baseUrl": f"http://127.0.0.1:{callee.port}"},
        tools=[
            {
                "name": "summarise",
                "description": "Summarise a text",
                "parameters": _SCHEMA,
                "execution": {"path": "/summarise", "method": "POST"},
            }
        ],
    )
    around = _agreed(home)
    with _exec(home, (*GATEWAY, "--dev"), around) as through, _exec(home, ALLOWED, around) as unasked:
        label = "execute: gateway, HTTP app over MCP on stdio"
        return [
            *against(label, direct, through, TARGETS["gateway"], plan=plan),
            *against(
                "consent: a remembered decision", unasked, through, TARGETS["consent"], over="no question", plan=plan
            )[:1],
        ]


def _agreed(home: Path) -> dict[str, str]:
    """Let the user allow everything beforehand; return the environment in which that is known."""
    key = home / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    around = {**environment_of(home), "SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(key)}
    command = [str(Path(sys.executable).with_name("switchboard")), "consent", "grant", "com.example.bench"]
    subprocess.run([*command, "--caller", "bench", "--dev", "--yes"], env=around, check=True, capture_output=True)  # noqa: S603 - our own command
    return around


def against(  # noqa: PLR0913 - two sides, and how they are compared
    label: str, direct: Call, through: Call, target: float, *, over: str = "a direct call", plan: Plan = _USUAL
) -> list[Figure]:
    """Let both take turns, and compare their medians."""
    for _ in range(plan.warm_up):
        direct()
        through()
    pairs = [_medians(direct, through, plan.calls) for _ in range(plan.rounds)]
    return [
        figure(f"{label}: over {over}", [ours - theirs for theirs, ours in pairs], "ms", target, scale=1e3),
        figure(f"{label}: the direct call", [theirs for theirs, _ in pairs], "ms", scale=1e3),
    ]


def _medians(direct: Call, through: Call, calls: int) -> tuple[float, float]:
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(calls):
        theirs.append(_seconds(direct))
        ours.append(_seconds(through))
    return statistics.median(theirs), statistics.median(ours)


def _seconds(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _accepted(load: LoadGenerator, plane: Process, plan: Plan) -> list[float]:
    """Return how many executions a second are accepted, each run."""
    request = post("/api/v1/execute/async/bench.summarise", msgspec.json.encode({"input": _GIVEN}))
    paces: list[float] = []
    for _ in range(plan.paces):
        job = Job(
            port=plane.port,
            requests=[request],
            connections=_CONNECTIONS,
            count=plan.accepted,
            expected=(202,),
            seconds=_LIMIT_S,
        )
        result = load.run(job)
        if result.errors:
            raise RuntimeError(f"{result.errors} of {result.sent} executions were not accepted")
        paces.append(result.rate)
    return paces


def _wait_until_idle(process: Process) -> None:
    """Wait until everything that was accepted has been run."""
    end, before = time.monotonic() + _LIMIT_S, -1.0
    while process.cpu() - before > _IDLE_S:
        if time.monotonic() > end:
            raise RuntimeError("what was accepted was not run in time")
        before = process.cpu()
        time.sleep(1.0)


def _paced(name: str, paces: list[float]) -> Figure:
    return figure(name, paces, "/s", TARGETS["accepted"], "at least")


def _plane(database: Path, **environment: str) -> AbstractContextManager[Process]:
    command = str(Path(sys.executable).with_name("switchboard"))
    arguments = ["serve", "--port", "0", "--database-url", f"sqlite:///{database}"]
    log = database.with_suffix(".log")
    own = {"XDG_DATA_HOME": str(database.parent), **environment}
    return running([command, *arguments], lambda line: int(line.rpartition(":")[2]), log, **own)


def _register(plane: Process, agent: Process) -> None:
    document = {
        "id": "bench",
        "base_url": f"http://127.0.0.1:{agent.port}",
        "version": "1.0.0",
        "reasoners": [],
        "skills": [{"id": "summarise", "input_schema": _SCHEMA}],
    }
    if plane.post("/api/v1/nodes/register", document) != 201:
        raise RuntimeError("the agent was not registered")


@contextmanager
def _direct(callee: Process) -> Generator[Call]:
    with _kept(callee.port, "/skills/summarise", _GIVEN) as call:
        yield call


@contextmanager
def _through(plane: Process) -> Generator[Call]:
    with _kept(plane.port, "/api/v1/execute/bench.summarise", {"input": _GIVEN}) as call:
        yield call


@contextmanager
def _kept(port: int, path: str, document: Any) -> Generator[Call]:
    """Yield a call over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body, headers = json.dumps(document).encode(), {"Content-Type": "application/json"}

    def call() -> None:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200 or b"yyy" not in text:
            raise RuntimeError(f"{path} answers {answer.status}: {text.decode()}")

    try:
        yield call
    finally:
        connection.close()


@contextmanager
def _exec(home: Path, command: Sequence[str], around: Mapping[str, str]) -> Generator[Call]:
    """Yield a call of `aai:exec`, over one gateway."""
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(around), cwd=home
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the gateway has no input or no output")
        stdin, stdout = process.stdin, process.stdout

        def ask(method: str, params: dict[str, Any]) -> bytes:
            stdin.write(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + b"\n")
            stdin.flush()
            while True:
                line = stdout.readline()
                if not line or b'"id":1' in line:
                    return line

        def call() -> None:
            arguments = {"app": "com.example.bench", "tool": "summarise", "args": _GIVEN}
            line = ask("tools/call", {"name": "aai:exec", "arguments": arguments})
            if b"yyy" not in line or b'"isError":true' in line:
                raise RuntimeError(f"the gateway answers {line.decode()}")

        ask(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
        )
        stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        try:
            yield call
        finally:
            stdin.close()
            process.wait(30)


@contextmanager
def _deaf() -> Generator[int]:
    """Yield the port of somebody who accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


class _Callee(asyncio.Protocol):
    """Answers every request on one connection, as fast as it can be done here."""

    _transport: asyncio.Transport
    _buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = transport  # pyright: ignore[reportAttributeAccessIssue] - it is one, for a socket

    def data_received(self, data: bytes) -> None:
        """Answer when a request is complete; nobody sends the next before that."""
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if separator and len(body) >= _length(head):
            self._buffer = b""
            self._transport.write(_ANSWER)


def _length(head: bytes) -> int:
    line = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), b":0")
    return int(line.partition(b":")[2])


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Callee, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())

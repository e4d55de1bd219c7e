"""One change, and who hears of it when: two instances on one PostgreSQL, and a gateway that knows both.

    now and then   an agent registers on the one instance, and the next one only after a pause
    all the time   the next one as soon as everybody has heard of the last: a gateway tells less often then

Each time counts from the answer to the registration. What came before the answer counts as nothing.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO

from tests.databases import running as postgres_running

from bench.figures import Figure
from bench.http_servers import PATH, Process, asked, kept, running

TARGET_MS = 1000.0
FACES = ("a watcher of this instance", "a watcher of another", "discovery of another", "a gateway")
_WATCH = "/api/v1/discovery/watch"
_CHANGED = b"notifications/tools/list_changed"
_NOW_AND_THEN, _ALL_THE_TIME = 100, 50
_PAUSE_S = 0.6
"""After this a gateway takes a change for the first one again."""
_LOOK_S = 0.002
_LIMIT_S = 30.0


class _Hearing:
    """Notes when a stream says something, in a thread of its own: a line, and the moment it came."""

    def __init__(self, stream: IO[bytes], word: bytes) -> None:
        self._heard: Queue[tuple[float, bytes]] = Queue()
        self._stream = stream
        self._word = word
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def next(self, word: bytes = b"") -> float:
        """Return when the next line came that has this word in it, too."""
        while True:
            at, line = self._heard.get(timeout=_LIMIT_S)
            if word in line:
                return at

    def end(self) -> None:
        """Wait until there is nothing more to hear."""
        self._thread.join(_LIMIT_S)

    def _read(self) -> None:
        for line in self._stream:
            if self._word in line:
                self._heard.put((time.perf_counter(), line))


def figures() -> list[Figure]:
    """Measure everything on a PostgreSQL, servers and a gateway that are made for the purpose."""
    with tempfile.TemporaryDirectory() as name, postgres_running(fsync="on") as database, ExitStack() as stack:
        folder, url = Path(name), database.new()
        here, there = (stack.enter_context(_plane(folder / word, url)) for word in ("here", "there"))
        watchers = [stack.enter_context(_watching(plane)) for plane in (here, there)]
        gateway = stack.enter_context(_gateway(folder, here, there))
        hearing: dict[str, _Hearing] = dict(zip((FACES[0], FACES[1], FACES[3]), (*watchers, gateway), strict=True))
        return [
            *_measured("now and then", here, there, hearing, range(_NOW_AND_THEN), _PAUSE_S),
            *_measured("all the time", here, there, hearing, range(1000, 1000 + _ALL_THE_TIME), 0.0),
        ]


def _measured(  # noqa: PLR0913, PLR0917 - what a measurement is
    label: str, here: Process, there: Process, hearing: Mapping[str, _Hearing], numbers: Sequence[int], pause_s: float
) -> list[Figure]:
    took: dict[str, list[float]] = {face: [] for face in FACES}
    with kept(here.port) as registering, kept(there.port) as looking:
        for number in numbers:
            for face, seconds in _one(f"new-{number}", registering, looking, hearing).items():
                took[face].append(seconds)
            time.sleep(pause_s)
    return [
        figure
        for face, values in took.items()
        for figure in _two(f"watch: a registration {label}, known to {face}", sorted(values))
    ]


def _one(
    agent_id: str,
    registering: http.client.HTTPConnection,
    looking: http.client.HTTPConnection,
    hearing: Mapping[str, _Hearing],
) -> dict[str, float]:
    """Register somebody new, and return after how long everybody knew."""
    document = {"id": agent_id, "base_url": "http://127.0.0.1:1", "version": "1", "skills": [{"id": "act"}]}
    status, _ = asked(registering, "POST", "/api/v1/nodes/register", document)
    answered = time.perf_counter()
    if status != http.client.CREATED:
        raise RuntimeError(f"a registration was answered {status}")
    found = {FACES[2]: _seen(looking, agent_id) - answered}
    for face, heard in hearing.items():
        is_gateway = face == FACES[3]
        found[face] = heard.next(b"" if is_gateway else f'"{agent_id}"'.encode()) - answered
    return {face: max(0.0, seconds) for face, seconds in found.items()}


def _seen(looking: http.client.HTTPConnection, agent_id: str) -> float:
    end = time.perf_counter() + _LIMIT_S
    while time.perf_counter() < end:
        if f'"{agent_id}"'.encode() in asked(looking, "GET", f"{PATH}?agent={agent_id}")[1]:
            return time.perf_counter()
        time.sleep(_LOOK_S)
    raise RuntimeError("a registration was not seen on the other instance")


def _two(name: str, values: Sequence[float]) -> list[Figure]:
    return [
        Figure(f"{name}, p50", values[len(values) // 2] * 1e3, "ms"),
        Figure(f"{name}, p99", values[int(len(values) * 0.99)] * 1e3, "ms", target=TARGET_MS),
    ]


@contextmanager
def _plane(folder: Path, url: str) -> Generator[Process]:
    folder.mkdir()
    command = [str(Path(sys.executable).with_name("switchboard")), "serve", "--port", "0", "--database-url", url]
    settings = {"XDG_DATA_HOME": str(folder), "SWITCHBOARD_LOG_LEVEL": "warning"}
    with running(command, lambda line: int(line.rpartition(":")[2]), folder / "log.txt", **settings) as process:
        yield process


@contextmanager
def _watching(plane: Process) -> Generator[_Hearing]:
    """Watch everything of an instance; return once the watch has begun."""
    with socket.create_connection(("127.0.0.1", plane.port)) as connection, connection.makefile("rb") as lines:
        connection.sendall(f"GET {_WATCH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        while b"snapshot" not in (line := lines.readline()):
            if not line:
                raise RuntimeError("nobody could watch")
        hearing = _Hearing(lines, b"data: ")
        yield hearing
        connection.shutdown(socket.SHUT_RDWR)
        hearing.end()


@contextmanager
def _gateway(folder: Path, *planes: Process) -> Generator[_Hearing]:
    """Run a gateway whose client has seen its list."""
    named = [part for plane in planes for part in ("--control-plane", f"http://127.0.0.1:{plane.port}")]
    command = [str(Path(sys.executable).with_name("aai-gateway")), "--consent", "deny", *named]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    environment = {**own, "AAI_HOME": str(folder), "HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    with (
        (folder / "gateway.txt").open("ab") as errors,
        subprocess.Popen(  # noqa: S603 - our own command
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the gateway has no pipes")
        try:
            client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}
            for message in (
                {"id": 1, "method": "initialize", "params": client},
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/list"},
            ):
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            while b'"id":2' not in (line := process.stdout.readline()):
                if not line:
                    raise RuntimeError("the gateway has ended")
            hearing = _Hearing(process.stdout, _CHANGED)
            yield hearing
            process.kill()
            hearing.end()
        finally:
            process.kill()

"""Thousands of watchers on one process: how soon they hear of a change, and what they cost.

    one question    everybody watches everything; an agent registers anew once a second. A delivery counts from the
                    moment the registration was sent, so it has the store's disk in it
    own questions   everybody watches an agent of his own: nearly every change is nothing to nearly everybody
    others          discovery meanwhile, as somebody else feels it
    everywhere      from the answer to a registration until everybody else knows, see `everywhere`

The watchers are sockets in a process of their own (`python -m bench.watch`), which only looks for the time of sending
in what it reads.
"""

import gc
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from bench import agents, everywhere
from bench.figures import Figure
from bench.http_servers import Process, allow_files, running
from bench.load import Job, LoadGenerator

PATH = "/api/v1/discovery/watch"
WATCHERS = 5000
TARGETS = {"p99": 250.0, "memory": 15.0}
"""Milliseconds; kilobytes for each watcher."""
_CHANGES = 20
_OTHERS = 5
_PAUSE_S = 1.0
_LIMIT_S = 60.0
_SETTLE_S = 2.0
_SENT = b'"version":"sent-'
_LARGEST_READ = 256 * 1024


class Crowd(Struct, frozen=True, kw_only=True):
    """Who shall watch: so many, each with one of the queries in turn; `deliveries` is when they have heard it all."""

    port: int
    watchers: int
    queries: list[str]
    deliveries: int


class Heard(Struct, frozen=True, kw_only=True):
    """What came of it, in seconds; `busy` near 1 would mean that the crowd itself was measured."""

    deliveries: int
    p50: float
    p99: float
    slowest: float
    busy: float


def figures() -> list[Figure]:
    """Measure everything on a server that is made for the purpose."""
    allow_files(4 * WATCHERS)
    own = [f"agent={agents.agent_id(number)}" for number in range(agents.AGENTS)]
    return [
        *_measured("one question", [""], _CHANGES * WATCHERS, TARGETS["p99"]),
        *_measured("own questions", own, _CHANGES * WATCHERS // agents.AGENTS, None),
        *everywhere.figures(),
    ]


def _measured(label: str, queries: list[str], deliveries: int, p99: float | None) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name, _server(Path(name)) as server:
        documents = agents.registrations()
        for document in documents:
            server.post("/api/v1/nodes/register", document)
        time.sleep(_SETTLE_S)
        return _watched(label, server, documents, queries, deliveries, p99)


def _watched(  # noqa: PLR0913, PLR0917 - what a measurement is
    label: str, server: Process, documents: list[dict[str, Any]], queries: list[str], deliveries: int, p99: float | None
) -> list[Figure]:
    before_mb = server.resident_mb()
    job = Crowd(port=server.port, watchers=WATCHERS, queries=queries, deliveries=deliveries)
    with _crowd(job) as crowd, LoadGenerator() as load:
        time.sleep(_SETTLE_S)
        memory = (server.resident_mb() - before_mb) * 1024 / WATCHERS
        idle = server.cpu()
        time.sleep(_SETTLE_S)
        idle = (server.cpu() - idle) / _SETTLE_S
        begun, cpu = time.perf_counter(), server.cpu()
        _change(server, documents, _CHANGES, "sent")
        heard = _heard(crowd)
        cpu = server.cpu() - cpu - idle * (time.perf_counter() - begun)
        seconds = _OTHERS * _PAUSE_S
        load.begin(Job(port=server.port, requests=[_LOOKUP], kind="open", connections=8, rate=50.0, seconds=seconds))
        _change(server, documents, _OTHERS, "again")
        other = load.results()[0]
        after_mb = server.resident_mb()
    name = f"watch: {WATCHERS} with {label}"
    missing = deliveries - heard.deliveries
    return [
        Figure(f"{name}, delivery p50", heard.p50 * 1e3, "ms"),
        Figure(f"{name}, delivery p99", heard.p99 * 1e3, "ms", target=p99),
        Figure(f"{name}, slowest", heard.slowest * 1e3, "ms"),
        Figure(f"{name}, missed", missing, "", target=0),
        Figure(f"{name}, server CPU per watcher and change", cpu / _CHANGES / WATCHERS * 1e6, "µs"),
        Figure(f"{name}, memory per watcher", memory, "KB", target=TARGETS["memory"]),
        Figure(f"{name}, memory of the server at the end", after_mb, "MB"),
        Figure(f"{name}, how busy the crowd was", heard.busy, ""),
        Figure(f"{name}, discovery (q6) of others p99", other.p99 * 1e3, "ms"),
    ]


def _change(server: Process, documents: list[dict[str, Any]], count: int, word: str) -> None:
    for number in range(count):
        changed = {**documents[number], "version": f"{word}-{time.perf_counter():.6f}"}
        server.post("/api/v1/nodes/register", changed)
        time.sleep(_PAUSE_S)


_LOOKUP = b"GET /api/v1/discovery/capabilities?agent=agent-0500 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def _server(folder: Path) -> AbstractContextManager[Process]:
    command = [str(Path(sys.executable).with_name("switchboard")), "serve", "--port", "0"]
    command += ["--database-url", f"sqlite:///{folder}/plane.db", "--log-level", "error"]
    return running(command, lambda line: int(line.rpartition(":")[2]), folder / "log.txt", XDG_DATA_HOME=str(folder))


@contextmanager
def _crowd(job: Crowd) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.watch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as crowd:  # noqa: S603 - ourselves
        try:
            if crowd.stdin is None or crowd.stdout is None:
                raise RuntimeError("the crowd has no pipes")
            crowd.stdin.write(msgspec.json.encode(job) + b"\n")
            crowd.stdin.flush()
            if crowd.stdout.readline() != b"all watch\n":
                raise RuntimeError("not everybody could watch")
            yield crowd
        finally:
            crowd.kill()


def _heard(crowd: subprocess.Popen[bytes]) -> Heard:
    if crowd.stdout is None:
        raise RuntimeError("the crowd has no output")
    return msgspec.json.decode(crowd.stdout.readline(), type=Heard)


class _Sockets:
    """The watchers, in the process of the crowd."""

    def __init__(self, job: Crowd) -> None:
        self._job = job
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._ends: dict[int, bytes] = {}
        self._buffer = bytearray(_LARGEST_READ)

    def connect(self) -> None:
        """Have everybody watch, and wait until each has heard so."""
        for number in range(self._job.watchers):
            query = self._job.queries[number % len(self._job.queries)]
            opened = socket.create_connection(("127.0.0.1", self._job.port))
            opened.sendall(f"GET {PATH}?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            opened.setblocking(False)
            self._sockets[opened.fileno()] = opened
            self._poll.register(opened.fileno(), select.EPOLLIN)
        greeted: set[int] = set()
        end = time.perf_counter() + _LIMIT_S
        while len(greeted) < self._job.watchers and time.perf_counter() < end:
            greeted |= {number for number, text in self._texts(0.1) if b"event: snapshot" in text}
        if len(greeted) < self._job.watchers:
            raise RuntimeError(f"only {len(greeted)} could watch")

    def listen(self) -> list[float]:
        """Return how long each delivery took, until there are as many as expected."""
        took: list[float] = []
        end = time.perf_counter() + _CHANGES * _PAUSE_S + _LIMIT_S
        while len(took) < self._job.deliveries and time.perf_counter() < end:
            for _, text in self._texts(0.1):
                now, place = time.perf_counter(), text.find(_SENT)
                while place >= 0:
                    begin = place + len(_SENT)
                    took.append(now - float(text[begin : text.index(b'"', begin)]))
                    place = text.find(_SENT, begin)
        return took

    def drain(self) -> None:
        """Read on."""
        for _ in self._texts(0.1):
            pass

    def _texts(self, seconds: float) -> Iterator[tuple[int, bytes]]:
        for number, _ in self._poll.poll(seconds):
            size = self._sockets[number].recv_into(self._buffer)
            if not size:
                raise RuntimeError("a watcher was sent away")
            # A piece may end in the middle of a time: what stands at its end comes again with the next one.
            text = self._ends.pop(number, b"") + bytes(self._buffer[:size])
            cut = text.rfind(b"\n") + 1
            if cut < len(text):
                self._ends[number] = text[cut:]
            yield number, text[:cut]


def main() -> None:
    """Be a crowd."""
    gc.disable()
    allow_files(4 * WATCHERS)
    crowd = _Sockets(msgspec.json.decode(sys.stdin.buffer.readline(), type=Crowd))
    crowd.connect()
    print("all watch", flush=True)
    begun, computing = time.perf_counter(), time.process_time()
    took = sorted(crowd.listen()) or [0.0]
    heard = Heard(
        deliveries=len(took),
        p50=took[len(took) // 2],
        p99=took[int(len(took) * 0.99)],
        slowest=took[-1],
        busy=(time.process_time() - computing) / (time.perf_counter() - begun),
    )
    print(msgspec.json.encode(heard).decode(), flush=True)
    while True:  # until the process is ended: whoever does not read is another kind of watcher
        crowd.drain()


if __name__ == "__main__":
    main()

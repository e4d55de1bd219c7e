"""A load generator in a process of its own: cheap, bounded in requests and in time, for servers on this machine only.

It sends bytes that were built before, reads answers framed by Content-Length, and does nothing else, so that it is
rarely what is measured. It speaks only to 127.0.0.1. Three kinds of load:

    closed  a fixed number of requests over some connections, each connection sending the next when it has its answer
    waves   everybody connects and asks at once; when all have their answers, everybody asks at once again
    open    requests arrive as they do in life, at random at a given rate, whether or not the server keeps up; a
            latency counts from the moment the request should have been sent

`LoadGenerator` starts the process and gives it jobs; `python -m bench.load` is the process.
"""

import gc
import random
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

import msgspec
from msgspec import Struct

_HOST = "127.0.0.1"
_LARGEST_READ = 1024 * 1024
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length: "
_LARGEST_HEAD = 4096
_POLL_S = 0.05
_NAP_S = 0.0001


class Job(Struct, frozen=True, kw_only=True):
    """One measurement."""

    port: int
    requests: list[bytes]
    """Sent in turn, from the one numbered `first` on, over and over; an open load draws from them at random."""
    kind: Literal["closed", "waves", "open"] = "closed"
    connections: int = 64
    count: int = 1000
    """How many requests in all; an open load goes by `rate` and `seconds` instead."""
    first: int = 0
    rate: float = 0.0
    seconds: float = 20.0
    """How long an open load goes on; when any other is given up."""
    seed: int = 1
    expected: tuple[int, ...] = (200,)


class Result(Struct, frozen=True, kw_only=True):
    """What came of it. An answer with another status, a broken connection and a missing answer are errors."""

    sent: int
    errors: int
    seconds: float
    received: int
    busy: float
    """The share of the time that the generator itself was computing: near 1, it is the generator that is measured."""
    p50: float
    p95: float
    p99: float
    slowest: float

    @property
    def rate(self) -> float:
        """Right answers per second."""
        return (self.sent - self.errors) / self.seconds


class LoadGenerator:
    """The process, as seen from a benchmark."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, job: Job) -> None:
        """Start a job; `results` waits for its end."""
        if self._process.stdin is None:
            raise RuntimeError("the load generator has no input")
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()

    def results(self) -> list[Result]:
        """Return what came of the job that was begun: one result, or one for each wave."""
        if self._process.stdout is None:
            raise RuntimeError("the load generator has no output")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load generator ended; nobody listens on that port, or see above")
        return msgspec.json.decode(line, type=list[Result])

    def run(self, job: Job) -> Result:
        """Do a job with one result."""
        self.begin(job)
        return self.results()[0]


class _Connection:
    """One connection with at most one request under way."""

    __slots__ = ("_head", "_missing", "asked", "began", "received", "socket")

    def __init__(self, port: int, *, wait: bool) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(wait)
        with suppress(BlockingIOError):
            self.socket.connect((_HOST, port))
        self.socket.setblocking(False)
        self.asked = False
        self.began = 0.0
        self.received = 0
        self._head = b""
        self._missing = 0

    def send(self, request: bytes, began: float) -> bool:
        """Send a request; False if it did not go out at once and whole."""
        self.asked, self.began = True, began
        self._head, self._missing = b"", 0
        try:
            return self.socket.send(request) == len(request)
        except OSError:
            return False

    def receive(self, buffer: bytearray) -> int:
        """Read what is there; return the status of the answer when it is complete, 0 before, -1 when it never will."""
        try:
            size = self.socket.recv_into(buffer)
        except BlockingIOError:
            return 0
        except OSError:
            return -1
        if size == 0:
            return -1
        self.received += size
        if self._missing:
            self._missing -= size
            return 0 if self._missing > 0 else _status(self._head)
        self._head += buffer[: min(size, _LARGEST_HEAD)]
        end = self._head.find(_HEAD_END)
        if end < 0:
            return 0
        known = len(self._head)
        self._head = self._head[: end + 2].lower()
        self._missing = end + 4 + _length(self._head) - known - max(0, size - _LARGEST_HEAD)
        return 0 if self._missing > 0 else _status(self._head)


class _Tally:
    """Latencies and errors of one stretch of load."""

    def __init__(self, expected: tuple[int, ...]) -> None:
        self._expected = expected
        self._latencies: list[float] = []
        self._begin = time.perf_counter()
        self._computing = time.process_time()
        self.sent = 0
        self.done = 0
        self._wrong = 0

    def note(self, connection: _Connection, status: int) -> None:
        """Take an answer in; a connection that ends without having been asked anything is an error, too."""
        if connection.asked:
            connection.asked = False
            self.done += 1
            self._latencies.append(time.perf_counter() - connection.began)
        if status not in self._expected:
            self._wrong += 1

    def result(self, received: int) -> Result:
        seconds = time.perf_counter() - self._begin
        ordered = sorted(self._latencies) or [0.0]

        def share(part: float) -> float:
            return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

        return Result(
            sent=self.sent,
            errors=self._wrong + self.sent - self.done,
            seconds=seconds,
            received=received,
            busy=(time.process_time() - self._computing) / seconds,
            p50=share(0.5),
            p95=share(0.95),
            p99=share(0.99),
            slowest=ordered[-1],
        )


class _Run:
    """One job under way."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._buffer = bytearray(_LARGEST_READ)
        self._poll = select.epoll()
        self._connections: dict[int, _Connection] = {}
        self._next = job.first
        self._deadline = time.perf_counter() + job.seconds + 5.0

    def results(self) -> list[Result]:
        """Do the job."""
        try:
            match self._job.kind:
                case "closed":
                    return [self._closed()]
                case "waves":
                    return self._waves()
                case "open":
                    return [self._open()]
        finally:
            for connection in self._connections.values():
                connection.socket.close()
            self._poll.close()

    def _closed(self) -> Result:
        self._connect()
        tally = _Tally(self._job.expected)
        for connection in list(self._connections.values())[: self._job.count]:
            self._send(connection, tally, time.perf_counter())
        while tally.done < tally.sent and time.perf_counter() < self._deadline:
            for connection, status in self._answers(_POLL_S):
                tally.note(connection, status)
                if tally.sent < self._job.count and status > 0:
                    self._send(connection, tally, time.perf_counter())
        return tally.result(self._received())

    def _waves(self) -> list[Result]:
        """The first wave counts from before its connection is made."""
        first = _Tally(self._job.expected)
        for _ in range(self._job.connections):
            connection = _Connection(self._job.port, wait=False)
            connection.began = time.perf_counter()
            self._connections[connection.socket.fileno()] = connection
            self._poll.register(connection.socket.fileno(), select.EPOLLOUT)
        waiting = len(self._connections)
        while (waiting or first.done < first.sent) and time.perf_counter() < self._deadline:
            for number, event in self._poll.poll(_POLL_S):
                connection = self._connections[number]
                if event & select.EPOLLOUT:
                    self._poll.modify(number, select.EPOLLIN)
                    waiting -= 1
                    self._send(connection, first, connection.began)
                elif status := self._received_by(connection):
                    first.note(connection, status)
        first.sent += waiting
        results = [first.result(self._received())]
        second = _Tally(self._job.expected)
        for connection in self._connections.values():
            self._send(connection, second, time.perf_counter())
        while second.done < second.sent and time.perf_counter() < self._deadline:
            for connection, status in self._answers(_POLL_S):
                second.note(connection, status)
        return [*results, second.result(self._received() - results[0].received)]

    def _open(self) -> Result:
        dice = random.Random(self._job.seed)  # noqa: S311 - the same arrivals every time
        self._connect()
        idle, late = list(self._connections.values()), deque[float]()
        tally = _Tally(self._job.expected)
        begin = time.perf_counter()
        arrival, end = begin + dice.expovariate(self._job.rate), begin + self._job.seconds
        while (arrival < end or late or tally.done < tally.sent) and time.perf_counter() < self._deadline:
            now = time.perf_counter()
            while arrival < end and arrival <= now:
                late.append(arrival)
                arrival += dice.expovariate(self._job.rate)
            while late and idle:
                self._next = dice.randrange(len(self._job.requests))
                self._send(idle.pop(), tally, late.popleft())
            found = False
            for connection, status in self._answers(0):
                found = True
                tally.note(connection, status)
                if status > 0:
                    idle.append(connection)
            if not found:
                time.sleep(max(0.0, min(_NAP_S, arrival - time.perf_counter())) if arrival < end else _NAP_S)
        tally.sent += len(late)
        return tally.result(self._received())

    def _connect(self) -> None:
        for _ in range(self._job.connections):
            connection = _Connection(self._job.port, wait=True)
            self._connections[connection.socket.fileno()] = connection
            self._poll.register(connection.socket.fileno(), select.EPOLLIN)

    def _send(self, connection: _Connection, tally: _Tally, began: float) -> None:
        tally.sent += 1
        request = self._job.requests[self._next % len(self._job.requests)]
        self._next += 1
        if not connection.send(request, began):
            tally.note(connection, -1)

    def _answers(self, timeout: float) -> Iterator[tuple[_Connection, int]]:
        for number, _ in self._poll.poll(timeout):
            connection = self._connections[number]
            status = self._received_by(connection)
            if status:
                yield connection, status

    def _received_by(self, connection: _Connection) -> int:
        status = connection.receive(self._buffer)
        if status < 0:
            with suppress(OSError):
                self._poll.unregister(connection.socket.fileno())
        return status

    def _received(self) -> int:
        return sum(connection.received for connection in self._connections.values())


def _status(head: bytes) -> int:
    return int(head[9:12])


def _length(head: bytes) -> int:
    place = head.find(_LENGTH)
    if place < 0:
        return 0
    begin = place + len(_LENGTH)
    return int(head[begin : head.index(b"\r", begin)])


def main() -> None:
    """Do the jobs that come in, one a line."""
    gc.disable()
    jobs = msgspec.json.Decoder(Job)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(msgspec.json.encode(_Run(jobs.decode(line)).results()) + b"\n")
        sys.stdout.buffer.flush()
        gc.collect()


if __name__ == "__main__":
    main()

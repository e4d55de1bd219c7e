"""HTTP servers in processes of their own, as the benchmarks start them, ask them, and read what they cost.

CPU and memory are those of the server process alone, from /proc, so this needs Linux.
"""

import http.client
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.floor import Answer

PATH = "/api/v1/discovery/capabilities"
_FILES = 8192


class Process(NamedTuple):
    """A server process that listens on a port."""

    pid: int
    port: int

    def cpu(self) -> float:
        """Return the CPU seconds that its threads have used, to the nanosecond."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def resident_mb(self) -> float:
        """Return the memory it holds."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def ask(self, query: str = "", path: str = PATH) -> Answer:
        """Ask once, with a client that knows HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"{path}?{query}")
            answer = connection.getresponse()
            skipped = ("date", "connection")
            headers = [
                (name.lower().encode(), value.encode())
                for name, value in answer.getheaders()
                if name.lower() not in skipped
            ]
            return Answer(query.encode(), answer.status, headers, answer.read())
        finally:
            connection.close()

    def post(self, path: str, document: object) -> int:
        """Send a document, and return the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()


def itself() -> Process:
    """Return this process, for what it holds itself."""
    return Process(os.getpid(), 0)


def get(query: str, **headers: str) -> bytes:
    """Build a request."""
    lines = [f"GET {PATH}?{query} HTTP/1.1", "Host: 127.0.0.1", "Accept: */*"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(path: str, body: bytes) -> bytes:
    """Build a request with a JSON body."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


@contextmanager
def running(command: list[str], port_of: Callable[[str], int], log: Path, **environment: str) -> Generator[Process]:
    """Run a server that prints where it listens on its first line."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    with (
        log.open("ab") as errors,
        subprocess.Popen(  # noqa: S603 - our own commands
            command, env={**own, **environment}, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError(f"{command[0]} did not start:\n{log.read_text()}")
            yield Process(process.pid, port_of(line))
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def control_plane(folder: Path, database_url: str = "", **environment: str) -> AbstractContextManager[Process]:
    """Run a control plane that keeps everything in a folder; by default its store, too."""
    folder.mkdir(exist_ok=True)
    command = str(Path(sys.executable).with_name("switchboard"))
    arguments = ["serve", "--port", "0", "--database-url", database_url or f"sqlite:///{folder}/plane.db"]
    own = {"XDG_DATA_HOME": str(folder), **environment}
    return running([command, *arguments], lambda line: int(line.rpartition(":")[2]), folder / "server.log", **own)


def allow_files(count: int = _FILES) -> None:
    """Let this process and its children hold as many connections as a crowd needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


@contextmanager
def kept(port: int) -> Generator[http.client.HTTPConnection]:
    """Have a connection that is kept between questions."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        yield connection
    finally:
        connection.close()


def asked(
    connection: http.client.HTTPConnection, method: str, path: str, document: dict[str, Any] | None = None
) -> tuple[int, bytes]:
    """Ask once, and return the status and the body."""
    body = None if document is None else json.dumps(document)
    connection.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()

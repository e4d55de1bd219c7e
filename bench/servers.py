"""Servers on standard streams, and homes for a gateway, as `bench/gateway.py` measures them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.scan import descriptor

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
GATEWAY = (str(Path(sys.executable).with_name("aai-gateway")),)
FIXED = 2
"""Tools of a gateway that are no apps."""
_LOOK_S = 0.1
_LOOKS = 100


class Process:
    """A server on standard streams, asked one request at a time."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.began = time.perf_counter()
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._next = 0

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def ask(self, method: str, params: object = None) -> bytes:
        """Send a request, and return the line that comes back, whatever it is."""
        self._next += 1
        self._send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params or {}})
        return self.line()

    def line(self) -> bytes:
        """Return the next line."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        return self._process.stdout.readline()

    def shake_hands(self) -> float:
        """Begin the conversation, and return how long that took from the start of the process."""
        self.ask("initialize", HANDSHAKE)
        took = time.perf_counter() - self.began
        self.tell("notifications/initialized")
        return took

    def tools(self, count: int) -> bytes:
        """Return a list of that many tools: the first one, or the one after a change was told."""
        while (answer := self.ask("tools/list")).count(b'"inputSchema"') < count:
            self.line()
        return answer

    def cpu(self) -> float:
        """Return the CPU seconds that its threads have used, to the nanosecond."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def resident_mb(self) -> float:
        """Return the memory it holds, once that has come to rest."""
        before = 0.0
        for _ in range(_LOOKS):
            lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
            now = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
            if now == before:
                break
            before = now
            time.sleep(_LOOK_S)
        return before

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


class Homes:
    """Homes with so many apps each, and nothing of this machine."""

    def __init__(self, folder: Path, counts: Iterable[int]) -> None:
        self._folder = folder
        for count in counts:
            self.make(count)

    def make(self, count: int) -> None:
        """Make one, if it is not there."""
        home = self._folder / str(count)
        if not home.exists():
            home.mkdir()
            for number in range(count):
                file = home / ".aai" / f"com.example.app{number}" / "aai.json"
                file.parent.mkdir(parents=True)
                file.write_bytes(descriptor(number))

    def environment(self, count: int) -> dict[str, str]:
        """Return the environment of a gateway in one of them."""
        home = str(self._folder / str(count))
        return {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "AAI_HOME": f"{home}/.aai",
            "XDG_DATA_DIRS": f"{home}/share",
            "LANG": "C.UTF-8",
        }


def gateway(homes: Homes, count: int) -> Process:
    """Start a gateway in the home with so many apps."""
    return Process(GATEWAY, homes.environment(count))


@contextmanager
def running(process: Process) -> Generator[Process]:
    """End a process when this block ends."""
    try:
        yield process
    finally:
        process.close()

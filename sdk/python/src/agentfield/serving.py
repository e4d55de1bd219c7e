"""The life of an agent that serves: from the first connection, through registering and staying, to the goodbye."""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from typing import Any

import uvicorn

from agentfield.endpoints import Endpoints, Profile
from agentfield.links import AsyncLink
from agentfield.reports import goodbye, stay
from agentfield.runs import Outbox, Runs

LOG = logging.getLogger("agentfield")
_GOODBYE_S = 5.0


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """The wish to end: once to finish what is under way, twice to end now. Any thread may say it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self._over = False
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()

    def __call__(self) -> None:
        """Ask."""
        self._loop.call_soon_threadsafe(self._ask)

    def _ask(self) -> None:
        (self.hurry if self.asked.is_set() else self.asked).set()

    @contextlib.contextmanager
    def on_signals(self) -> Generator[None]:
        """Ask on SIGTERM and SIGINT, where this thread gets them.

        Several agents may serve in one process, and begin and end in any order: each hands a signal on to the one that
        was there before. A loop's own `add_signal_handler` knows one only.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number in _SIGNALS:
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, self._beneath(number))
            self._over = True

    def _on_signal(self, number: int, frame: object) -> None:
        if not self._over:
            self()
        beneath = self._beneath(number)
        if _stop_of(beneath) is not None:
            beneath(number, frame)

    def _beneath(self, number: int) -> Any:
        """Return who got a signal before us and still wants it."""
        before = self._before[number]
        stop = _stop_of(before)
        return stop._beneath(number) if stop is not None and stop._over else before  # noqa: SLF001 - of this class


def _stop_of(found: Any) -> Stop | None:
    owner = getattr(found, "__self__", None)
    return owner if isinstance(owner, Stop) else None


class Quiet(uvicorn.Server):
    """uvicorn without its own ideas about signals: we have to say goodbye first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


async def serve(described: Profile, link: AsyncLink, opened: socket.socket, base_url: str, stop: Stop) -> None:
    """Serve, register and stay registered until asked to stop; then say goodbye, finish, report, and return.

    Raises:
        APIError: The control plane refuses to register this agent.
    """
    outbox = Outbox(link)
    runs = Runs(outbox.put)
    server = Quiet(uvicorn.Config(Endpoints(described, runs), **_SETTINGS))
    serving = asyncio.create_task(server.serve(sockets=[opened]))
    told = _tell(described, base_url)
    plan = stay(described.node_id, described.registration(base_url), described.heartbeat_s, told)
    present = asyncio.create_task(link.run(plan))
    asked = asyncio.create_task(stop.asked.wait())
    try:
        await asyncio.wait({serving, present, asked}, return_when=asyncio.FIRST_COMPLETED)
        if present.done():
            present.result()
    finally:
        asked.cancel()
        present.cancel()
        await _leave(described, link, runs, outbox, stop)
        server.should_exit = True
        await serving


async def _leave(described: Profile, link: AsyncLink, runs: Runs, outbox: Outbox, stop: Stop) -> None:
    hurry = asyncio.create_task(stop.hurry.wait())
    work = asyncio.create_task(_finish(described, link, runs, outbox))
    await asyncio.wait({hurry, work}, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    work.cancel()
    await runs.drain(0.0)
    await outbox.flush(_GOODBYE_S if stop.hurry.is_set() else 0.0)


async def _finish(described: Profile, link: AsyncLink, runs: Runs, outbox: Outbox) -> None:
    """Say goodbye first, so that nobody sends new work; then end the old."""
    await link.run(goodbye(described.node_id, described.instance_id, "shutdown", _GOODBYE_S))
    await runs.drain(described.drain_s)
    if not await outbox.flush(described.drain_s):
        LOG.error("%s ends with reports that nobody took in", described.node_id)


def _tell(described: Profile, base_url: str) -> Callable[[str], None]:
    def tell(what: str) -> None:
        LOG.info("%s at %s: %s", described.node_id, base_url, what)

    return tell


_SETTINGS: dict[str, Any] = {
    "lifespan": "off",
    "access_log": False,
    "log_config": None,
    "log_level": "warning",
    "ws": "none",
    "server_header": False,
    "timeout_graceful_shutdown": 2,
}

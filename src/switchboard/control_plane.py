"""Wires and runs the control plane: `switchboard serve`, and the commands that ask one."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from switchboard import __version__
from switchboard.actions.browse import Browse
from switchboard.actions.directory import Directory
from switchboard.actions.life import FLUSH_S, TICK_S, Life
from switchboard.actions.ports import Clock, StoredAgent
from switchboard.actions.register import Register
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import InvalidDescriptor, ServiceUnavailable
from switchboard.catalog.health import State
from switchboard.catalog.model import Agent
from switchboard.descriptors import agent as agents
from switchboard.rest.app import App
from switchboard.rest.discovery import PATH, Discovery
from switchboard.rest.nodes import Nodes
from switchboard.rest.pages import Pages
from switchboard.rest.server import Server, bind
from switchboard.settings import ServeSettings, database_path
from switchboard.store.sqlite import SqliteStore
from switchboard.telemetry.clock import SystemClock
from switchboard.telemetry.logs import Log, ToLog
from switchboard.telemetry.metrics import Metrics

_LOG_FLUSH_S = 0.25
_GIVE_BACK_S = 10.0


class ControlPlane:
    """Every part of one instance, built once."""

    def __init__(self, settings: ServeSettings, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.log = Log(level=settings.log_level)
        logging.getLogger("uvicorn").addHandler(ToLog(self.log))
        self.store = SqliteStore(database_path(settings.database_url))
        self.directory = Directory(self.store, self.clock, self._read, settings.cache_ttl)
        self.life = Life(self.directory, self.store, self.clock, self._health_changed)
        self.directory.listen(self.life.remember)
        register = Register(self.store, self.directory, self.life, self.clock)
        browse = Browse(self.directory)
        metrics = Metrics()
        discovery = Discovery(browse, self.clock, metrics, self.log, instance=os.urandom(4).hex())
        self.pages = Pages(browse, discovery, metrics, self.clock, __version__, contract("openapi.json"))
        nodes = Nodes(register, browse, self.life, self.clock, metrics)
        routes = [*nodes.routes(), *self.pages.routes()]
        self.app = App(discovery, routes, self.clock, self.log, settings.api_key)

    async def start(self) -> None:
        """Open the store and take everything in.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        await self.store.open()
        await self.directory.catch_up()
        # What was loaded stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        give_back_memory()
        self.pages.ready = True

    async def stop(self) -> None:
        """Write what is in memory only, and close."""
        try:
            await self.life.flush()
        except ServiceUnavailable as error:
            self.log.event("error", "heartbeats not saved", self.clock.now(), error=error.message)
        await self.store.close()
        self.log.flush()

    async def keep(self) -> None:
        """Notice silence, save heartbeats and write logs, until cancelled."""
        await asyncio.gather(
            self._every(_LOG_FLUSH_S, self._write_log),
            self._every(TICK_S, self._tick),
            self._every(FLUSH_S, self._flush),
            self._every(_GIVE_BACK_S, self._give_back),
        )

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - one failure must not end the watch; it is in the log
                self.log.event("error", "background work failed", self.clock.now(), error=repr(error))

    async def _write_log(self) -> None:
        self.log.flush()

    async def _give_back(self) -> None:
        give_back_memory()

    async def _tick(self) -> None:
        self.life.tick()

    def say_goodbye_for(self, agent_ids: Iterable[str]) -> None:
        """End agents that end with this server, and can no longer tell it."""
        for agent_id in agent_ids:
            self.life.goodbye(agent_id, "ended with its control plane")

    async def _flush(self) -> None:
        try:
            await self.life.flush()
        except ServiceUnavailable as error:
            self.log.event("warning", "heartbeats not saved yet", self.clock.now(), error=error.message)

    def _read(self, stored: StoredAgent) -> Agent | None:
        agent = read_stored(stored)
        if agent is None:
            self.log.event("error", "stored agent cannot be read", self.clock.now(), agent=stored.id)
        return agent

    def _health_changed(self, agent_id: str, state: State) -> None:
        self.log.event(
            "info", "agent health changed", self.clock.now(), agent=agent_id, health=state.health, reason=state.reason
        )


def read_stored(stored: StoredAgent) -> Agent | None:
    """Return a remembered agent as the catalogue has it: with its health, without the text it sent.

    None where the text cannot be read: rules may have become stricter since it was taken in.
    """
    try:
        agent = agents.read(stored.registration or b"").agent
    except InvalidDescriptor:
        return None
    health = stored.state.health if stored.state else agent.health
    return replace(agent, health=health, raw=Json(b""))


def give_back_memory() -> None:
    """Return to the system what answers and registrations of the past have left behind.

    The C library keeps freed memory for later; an instance that has answered large pages once would look as large for
    ever. Takes about a millisecond. Where there is no such call, nothing happens.
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - only where it helps

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def contract(name: str) -> Path:
    """Return a file of the contract: inside the installed package, or beside the sources."""
    packaged = Path(str(files("switchboard"))) / "contract" / name
    return packaged if packaged.exists() else Path(__file__).parents[2] / "contract" / name


def serve(settings: ServeSettings) -> int:
    """Run a control plane until it is told to stop; return the exit code."""
    try:
        listener = bind(settings.host, settings.port)
    except OSError as error:
        print(
            f"switchboard: cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. "
            "Choose another with --port.",
            file=sys.stderr,
        )
        return 1
    host, port = listener.getsockname()[:2]
    with listener:
        return _run(_serve(settings, listener, f"http://{'[' + host + ']' if ':' in host else host}:{port}"))


async def _serve(settings: ServeSettings, listener: Any, url: str) -> int:
    plane = ControlPlane(settings)
    try:
        await plane.start()
    except ServiceUnavailable as error:
        print(f"switchboard: {error.message}", file=sys.stderr)
        return 1

    demo: asyncio.Task[asyncio.subprocess.Process] | None = None

    def begun() -> None:
        nonlocal demo
        if settings.demo:
            demo = asyncio.create_task(_start_demo(url, settings.api_key))
        print(f"Switchboard control plane on {url}", flush=True)
        print(f"  discover:  {url}{PATH}\n  docs:      {url}/docs", flush=True)

    def ending() -> None:
        plane.pages.ready = False

    server = Server(plane.app, begun, ending)
    keeping = asyncio.create_task(plane.keep())
    try:
        await server.serve(sockets=[listener])
    finally:
        if demo is not None:
            from switchboard.demo import AGENTS  # noqa: PLC0415 - only a demo needs a client

            await _stop_demo(await demo)
            plane.say_goodbye_for(AGENTS)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await plane.stop()
    return 0


async def _stop_demo(demo: asyncio.subprocess.Process) -> None:
    if demo.returncode is None:
        demo.send_signal(signal.SIGTERM)
        await demo.wait()


async def _start_demo(url: str, api_key: str | None) -> asyncio.subprocess.Process:
    environment = {**os.environ, "AGENTFIELD_SERVER": url}
    if api_key:
        environment["AGENTFIELD_API_KEY"] = api_key
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "switchboard.demo", env=environment)


def _run(main: Any) -> int:
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop  # noqa: PLC0415 - not there on Windows

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def ask(url: str, path: str, parameters: Sequence[tuple[str, str]], api_key: str | None) -> bytes:
    """Ask a running control plane, for the commands.

    Raises:
        AskError: nobody answers there, or it refused; the message says which, and what to do.
    """
    from switchboard.net.client import request  # noqa: PLC0415 - 120 ms that `serve` need not pay

    try:
        status, body = request("GET", url.rstrip("/") + path, api_key=api_key, parameters=list(parameters))
    except ServiceUnavailable as error:
        hint = "Start one with `switchboard serve`, or name another with --server."
        raise AskError(f"No control plane answers at {url}. {hint}") from error
    if status == 200:  # noqa: PLR2004 - what the status means
        return body
    try:
        message = str(msgspec.json.decode(body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        message = f"{url} answered {status}; is a control plane there?"
    raise AskError(message)


class AskError(Exception):
    """A control plane could not be asked, or refused; the message says why."""

"""Runs a control plane: `switchboard serve`, from its address to its last answer."""

import asyncio
import sys
from errno import EADDRINUSE
from typing import TYPE_CHECKING, Any

from switchboard.actions.ports import Clock
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.control_plane import ControlPlane
from switchboard.progress import waiting
from switchboard.rest.connections import MOST_HEADS
from switchboard.rest.discovery import PATH
from switchboard.rest.server import Server, bind
from switchboard.settings import ServeSettings

if TYPE_CHECKING:
    from switchboard.showcase import Showcase


class NotServing(Exception):
    """A control plane cannot begin; the message says why, and what to do."""


def allow_connections() -> None:
    """Let this process hold as many connections as the system lets it: each watcher is one, for ever."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - not there on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve(settings: ServeSettings, clock: Clock | None = None) -> int:
    """Run a control plane until it is told to stop; return the exit code.

    Raises:
        NotServing: it cannot begin.
    """
    try:
        listener = bind(settings.host, settings.port)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        taken = "Choose another port with --port or SWITCHBOARD_PORT, as in `SWITCHBOARD_PORT=8081 make run`."
        other = taken if error.errno == EADDRINUSE else "Choose another address with --host or SWITCHBOARD_HOST."
        raise NotServing(f"Cannot listen on {where}: {error.strerror or error}. {other}") from error
    allow_connections()
    host, port = listener.getsockname()[:2]
    with listener:
        return _run(_serve(settings, clock, listener, f"http://{'[' + host + ']' if ':' in host else host}:{port}"))


async def _serve(settings: ServeSettings, clock: Clock | None, listener: Any, url: str) -> int:
    plane = ControlPlane(settings, clock)
    try:
        with waiting("Opening the database, and taking in who is registered"):
            await plane.start()
    except ServiceUnavailable as error:
        raise NotServing(error.message) from error

    showcase: Showcase | None = None
    opening: asyncio.Task[None] | None = None

    def begun() -> None:
        nonlocal showcase, opening
        print(f"Switchboard control plane on {url}", flush=True)
        print(f"  discover:  {url}{PATH}\n  docs:      {url}/docs", flush=True)
        if settings.demo:
            from switchboard.showcase import Showcase  # noqa: PLC0415 - only a demo needs a client

            showcase = Showcase(url, next(iter(settings.callers.values()), None), plane.knows)
            opening = asyncio.create_task(showcase.open())

    loop = asyncio.get_running_loop()

    def leaving() -> None:
        plane.pages.ready = False
        loop.call_soon_threadsafe(plane.watch.end)
        if plane.mcp is not None:
            loop.call_soon_threadsafe(plane.mcp.close)

    def ending() -> None:
        loop.call_soon_threadsafe(plane.life.stop_listening)
        loop.call_soon_threadsafe(plane.executions.stop_waiting)

    server = Server(
        plane.app,
        begun=begun,
        leaving=leaving,
        ending=ending,
        closing=plane.executions.send_away,
        drain_s=settings.drain_seconds,
        at_once=plane.app,
        most_heads=plane.caches.most(MOST_HEADS),
    )
    keeping = asyncio.create_task(plane.keep())
    try:
        await server.serve(sockets=[listener])
    finally:
        if showcase is not None and opening is not None:
            from switchboard.demo import AGENTS  # noqa: PLC0415 - as above

            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await showcase.close()
            plane.say_goodbye_for(AGENTS)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await plane.stop()
    return 0


def _run(main: Any) -> int:
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop  # noqa: PLC0415 - not there on Windows

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)

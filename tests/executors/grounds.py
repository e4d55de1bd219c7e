"""The ground every executor is tried on: one app with the same habits, reached in each way there is.

To add a way, write a context manager that yields a `Ground`, and put it into `GROUNDS` with `@ground("name")`.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.executors.app import FLOOD
from tests.net.web import Asked, Reply, Site, hang_up, reply, silence

from switchboard.actions.ports import Call, Executor, Secret
from switchboard.catalog.bindings import AppleEvents, Binding, Com, Dbus, Execution, Http, Json, Route, Stdio
from switchboard.catalog.model import App, Caller, Capability, Names
from switchboard.executors.apple_events import AppleEventsExecutor
from switchboard.executors.com import ComExecutor
from switchboard.executors.dbus import DbusExecutor
from switchboard.executors.http import HttpExecutor
from switchboard.executors.stdio import StdioExecutor
from switchboard.net.fetch import Fetch

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "tests/executors/app.py"
PATIENCE_S = 30.0
SERVICE = "com.example.habits"


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has to happen."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - files and processes tell nobody
            await asyncio.sleep(0.01)


def owner(execution: Execution, *, origin: str = "") -> App:
    return App(
        id="com.example.habits",
        version="1.0.0",
        platform="linux",
        names=Names((("en", "Habits"),), "en"),
        description="An app with habits",
        execution=execution,
        origin=origin,
    )


def tool_call(  # noqa: PLR0913 - what makes one call differ from another
    execution: Execution,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    route: Route | None = None,
    schema: dict[str, Any] | None = None,
    call_id: str = "call-1",
    origin: str = "",
) -> Call:
    """Build a call as the action hands it over."""
    return Call(
        id=call_id,
        caller=Caller("a test"),
        owner=owner(execution, origin=origin),
        capability=Capability(
            kind="tool",
            id=tool,
            binding=Binding(execution, route or Route()),
            input_schema=Json(json.dumps(schema or {"type": "object"}).encode()),
        ),
        arguments=arguments or {},
    )


@dataclass(frozen=True)
class Ground:
    """One way to the app: how it is called, and what can be seen of it from outside."""

    executor: Executor
    execution: Execution
    folder: Path
    at_rest: Callable[[], Awaitable[None]]
    """Wait until nothing is left of the calls that were given up."""
    secret: Secret | None = None

    def call(self, tool: str, arguments: dict[str, Any] | None = None, *, number: int = 1, limit_ms: int = 0) -> Call:
        """Build a call of one of the app's habits."""
        route = Route(path=f"/{tool}", method="POST", timeout_ms=limit_ms or None)
        if not isinstance(self.execution, Http):
            route = Route(timeout_ms=limit_ms or None)
        return tool_call(self.execution, tool, arguments, route=route, call_id=f"call-{number}")

    def taken(self) -> list[str]:
        """Return the tools that the app was asked for, in order."""
        return [line.partition(" ")[0] for line in lines(self.folder / "taken")]


Way = Callable[[Path], AbstractAsyncContextManager[Ground]]
GROUNDS: dict[str, Way] = {}


def ground(name: str) -> Callable[[Way], Way]:
    """Add a way to those that every executor's tests run over."""

    def add(way: Way) -> Way:
        GROUNDS[name] = way
        return way

    return add


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def alive(folder: Path) -> list[int]:
    """Return the processes that noted themselves and still run; one that only waits to be collected does not."""
    return [pid for pid in map(int, lines(folder / "pids")) if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def _gone(folder: Path) -> Callable[[], Awaitable[None]]:
    return lambda: until(lambda: not alive(folder))


def stdio_execution(folder: Path, *, keep_alive: bool) -> Stdio:
    return Stdio(command=sys.executable, args=("-IS", str(APP), str(folder)), keep_alive=keep_alive)


@asynccontextmanager
async def _stdio(folder: Path, *, keep_alive: bool) -> AsyncGenerator[Ground]:
    executor = StdioExecutor()
    try:
        yield Ground(executor, stdio_execution(folder, keep_alive=keep_alive), folder, _gone(folder))
    finally:
        await executor.close()
    assert alive(folder) == []


@ground("stdio")
def once(folder: Path) -> AbstractAsyncContextManager[Ground]:
    return _stdio(folder, keep_alive=False)


@ground("stdio kept")
def kept(folder: Path) -> AbstractAsyncContextManager[Ground]:
    return _stdio(folder, keep_alive=True)


def stand_in(folder: Path, program: str, habit: str) -> dict[str, str]:
    """Put a program of that name on a PATH of its own, and return an environment with it."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    file = programs / program
    file.write_text(
        f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.executors.app import {habit}\n{habit}({str(folder)!r})\n",
        encoding="utf-8",
    )
    file.chmod(0o755)
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "SECRET_OF_SOMEBODY": "hunter2"}


@ground("apple-events")
@asynccontextmanager
async def apple_events(folder: Path) -> AsyncGenerator[Ground]:
    executor = AppleEventsExecutor(stand_in(folder, "osascript", "osascript"))
    try:
        yield Ground(executor, AppleEvents(bundle_id="com.example.habits"), folder, _gone(folder))
    finally:
        await executor.close()
    assert alive(folder) == []


@ground("com")
@asynccontextmanager
async def com(folder: Path) -> AsyncGenerator[Ground]:
    executor = ComExecutor(stand_in(folder, "powershell", "powershell"))
    try:
        yield Ground(executor, Com(prog_id="Example.Habits"), folder, _gone(folder))
    finally:
        await executor.close()
    assert alive(folder) == []


def require_bus() -> None:
    """Skip where there is no dbus-daemon; where CI has none, that is a failure and no excuse."""
    if shutil.which("dbus-daemon") is None:
        reason = "no dbus-daemon on this machine: nothing was called on a bus"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


BUS_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={folder}/bus</listen><servicedir>{folder}</servicedir>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/>
<deny send_path="/forbidden"/></policy><pidfile>{folder}/pid</pidfile></busconfig>
"""


@contextmanager
def message_bus() -> Generator[tuple[Path, dict[str, str]]]:
    """Run a bus of our own; yield its folder, where service files may be put, and an environment that leads to it."""
    require_bus()
    # A socket has a short name, and the folders of tests have long ones.
    with tempfile.TemporaryDirectory(prefix="bus") as name:
        folder = Path(name)
        (folder / "bus.conf").write_text(BUS_CONFIG.format(folder=folder), encoding="utf-8")
        command = ["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--print-address"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as daemon:  # noqa: S603
            try:
                assert daemon.stdout is not None
                address = daemon.stdout.readline().strip()
                assert address, "the bus does not start"
                yield folder, {**os.environ, "DBUS_SESSION_BUS_ADDRESS": address}
            finally:
                daemon.terminate()


@contextmanager
def on_the_bus(folder: Path, environment: dict[str, str]) -> Generator["subprocess.Popen[str]"]:
    """Run the app on a bus, in a process of its own."""
    command = [sys.executable, "-m", "tests.executors.bus_app", str(folder)]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@ground("dbus")
@asynccontextmanager
async def dbus(folder: Path) -> AsyncGenerator[Ground]:
    async def at_rest() -> None:
        """An app on a bus is not ours to end."""

    with message_bus() as (_, environment), on_the_bus(folder, environment):
        executor = DbusExecutor(environment)
        try:
            yield Ground(executor, Dbus(service=SERVICE), folder, at_rest)
        finally:
            await executor.close()


def pages(folder: Path) -> dict[str, Reply]:
    """Return the same habits as a web server has them."""

    def noted(answer: Reply) -> Reply:
        async def noting(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with (folder / "taken").open("a", encoding="utf-8") as file:
                file.write(f"{asked.path.strip('/')} {asked.turn}\n")
            await answer(asked, reader, writer)

        return noting

    async def echo(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reply(200, asked.body, "Content-Type: application/json")(asked, reader, writer)

    failure = json.dumps({"code": "QUOTA_FULL", "message": "The disk\u202e is full."}, ensure_ascii=False).encode()
    habits = {
        "echo": echo,
        "fail": reply(409, failure, "Content-Type: application/json"),
        "hang": silence,
        "flood": reply(200, b"x" * FLOOD),
        "crash": hang_up,
    }
    return {f"/{name}": noted(habit) for name, habit in habits.items()}


@ground("http")
@asynccontextmanager
async def http(folder: Path) -> AsyncGenerator[Ground]:
    fetch = Fetch(loopback=True)
    async with Site(pages(folder)) as site:

        async def at_rest() -> None:
            await asyncio.wait_for(site.left.wait(), PATIENCE_S)

        try:
            yield Ground(HttpExecutor(lambda: fetch), Http(base_url=site.url("", "127.0.0.1")), folder, at_rest)
        finally:
            with suppress(asyncio.CancelledError):
                await fetch.close()

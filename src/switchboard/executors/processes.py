"""A program as a child of ours: no shell, little of our environment, a session of its own, ended with all its children.

What a program starts belongs to its group and ends with it; what shall live on has to leave the group (setsid). Knows
nothing of what is said to a program.
"""

import os
import sys
from asyncio import (
    Event,
    SubprocessProtocol,
    SubprocessTransport,
    Task,
    WriteTransport,
    gather,
    get_running_loop,
    shield,
    sleep,
    timeout,
    wait_for,
)
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from signal import SIGTERM, Signals
from typing import cast, final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from switchboard.actions.ports import Call
from switchboard.catalog.bindings import Pairs
from switchboard.catalog.errors import EFFECT_UNKNOWN, AnswerTooLarge, CallTimeout, ServiceUnavailable
from switchboard.catalog.model import App
from switchboard.catalog.text import clean

# The whole of what a child gets from us. Everything else of our environment may be somebody's secret.
_BASE = frozenset({"PATH", "HOME", "USER", "LANG", "LANGUAGE", "TMPDIR"})
_BASE_WINDOWS = frozenset(
    {"PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
    | {"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "OS"}
)
_WINDOWS = sys.platform == "win32"
# CREATE_NEW_PROCESS_GROUP and CREATE_NO_WINDOW, which only Windows knows.
_WINDOWS_FLAGS = 0x0800_0200
_KILL = SIGTERM if _WINDOWS else Signals["SIGKILL"]
_MOMENT_S = 1.0
_LOOK_S = 0.01
_KEPT_ERRORS = 4096
_SHOWN_ERRORS = 300


def environment(ours: Mapping[str, str], declared: Pairs = ()) -> dict[str, str]:
    """Return the environment of a child: a minimal base, and what its descriptor declares."""
    allowed = _BASE_WINDOWS if _WINDOWS else _BASE
    base = {name: value for name, value in ours.items() if name.upper() in allowed or name.startswith("LC_")}
    return {**base, **dict(declared)}


def folder_of(call: Call) -> str | None:
    """Return where the descriptor of an app lies: relative commands and arguments are meant from there."""
    parts = urlsplit(call.owner.origin) if isinstance(call.owner, App) else urlsplit("")
    if parts.scheme != "file":
        return None
    path = unquote(parts.path)
    folder = os.path.dirname(path.removeprefix("/") if _WINDOWS else path)  # noqa: PTH120 - text in, text out
    return folder if os.path.isdir(folder) else None  # noqa: PTH112


@final
class Child(SubprocessProtocol):
    """One running program. `heard` gets its output as it comes; `over` is called once, when no more can come."""

    def __init__(self, name: str, heard: Callable[[bytes], None], over: Callable[[], None]) -> None:
        self.name = name
        self._heard = heard
        self._over: Callable[[], None] | None = over
        self._transport: SubprocessTransport | None = None
        self._errors = bytearray()
        self._open = {1, 2}
        self._exited, self._silent, self._hurried = Event(), Event(), Event()
        self._ending: Task[None] | None = None

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Write to its input, and close that after the last word. A program that is gone hears nothing."""
        writer = cast("WriteTransport | None", self._transport.get_pipe_transport(0)) if self._transport else None
        if writer is not None and not writer.is_closing():
            writer.write(data)
            if last:
                writer.close()

    def end(self, patience_s: float = 0.0) -> "Task[None]":
        """End it with everything it started: asked at once, or after `patience_s`; forced a moment later."""
        if not patience_s:
            self._hurried.set()
        if self._ending is None:
            self._ending = get_running_loop().create_task(self._end(patience_s))
        return self._ending

    @property
    def gone(self) -> bool:
        """Tell whether nothing is left of it."""
        return self._ending is not None and self._ending.done()

    @property
    def code(self) -> int | None:
        """Return its exit code, if it has ended."""
        return self._transport.get_returncode() if self._transport else None

    @property
    def errors(self) -> str:
        """Return the last lines of what it wrote to its standard error, made safe to show."""
        lines = self._errors[-_KEPT_ERRORS:].decode(errors="replace").strip().splitlines()
        return clean(" / ".join(lines[-3:]), _KEPT_ERRORS)[-_SHOWN_ERRORS:]

    @property
    def fate(self) -> str:
        """Say how it ended and what it complained about last, for a message."""
        code = self.code
        how = "closed its output" if code is None else f"ended with exit code {code}"
        how = f"was ended by signal {-code}" if code is not None and code < 0 else how
        return f"{how}, saying: {self.errors}" if self.errors else how

    def connection_made(self, transport: object) -> None:
        """Keep the way to it."""
        self._transport = cast("SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Hand on its output, and keep the end of its complaints."""
        if fd == 1:
            self._heard(data)
        else:
            self._errors += data
            if len(self._errors) > 16 * _KEPT_ERRORS:
                del self._errors[:-_KEPT_ERRORS]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Notice that no more output will come."""
        del exc
        self._open.discard(fd)
        if not self._open:
            self._silent.set()
        if fd == 1:
            self._finish()

    def process_exited(self) -> None:
        """End what it left behind: its output stays open for as long as a child of it holds it."""
        self._exited.set()
        self.end()

    async def _end(self, patience_s: float) -> None:
        ended = False
        try:
            self.send(b"", last=True)
            if patience_s:
                await _within(self._hurried, patience_s)
            self._signal(SIGTERM)
            if not await self._gone():
                self._signal(_KILL)
                await self._gone()
            ended = True
            # What it said last may still be on its way to us.
            await _within(self._silent, _MOMENT_S)
        finally:
            if not ended:
                self._signal(_KILL)
            self._finish()
            if self._transport is not None:
                self._transport.close()

    def _finish(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            over()

    async def _gone(self) -> bool:
        """Wait a moment until it and all of its group have ended, and tell whether they have."""
        loop = get_running_loop()
        limit = loop.time() + _MOMENT_S
        await _within(self._exited, _MOMENT_S)
        while self._signal(0):
            if loop.time() >= limit:
                return False
            await sleep(_LOOK_S)
        return True

    def _signal(self, number: int) -> bool:
        """Signal the whole group, and tell whether anybody was there."""
        if self._transport is None:
            return False
        if _WINDOWS:
            return _signal_tree(self._transport, number)
        try:
            os.killpg(self._transport.get_pid(), number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


@final
class Children:
    """Every program that one executor has started; none of them outlives `close`."""

    def __init__(self, ours: Mapping[str, str]) -> None:
        self._ours = ours
        self._running: set[Child] = set()
        self._closed = False

    async def start(
        self,
        command: Sequence[str],
        *,
        env: Pairs = (),
        folder: str | None,
        heard: Callable[[bytes], None],
        over: Callable[[], None],
    ) -> Child:
        """Start a program.

        Raises:
            ServiceUnavailable: it is not there, or cannot be started.
        """
        program, *arguments = command
        name = clean(program, 200)
        if folder is not None and os.path.dirname(program):  # noqa: PTH120 - text in, text out
            program = os.path.join(folder, program)  # noqa: PTH118
        try:
            _, child = await get_running_loop().subprocess_exec(
                lambda: Child(name, heard, over),
                program,
                *arguments,
                env=environment(self._ours, env),
                cwd=folder,
                start_new_session=not _WINDOWS,
                creationflags=_WINDOWS_FLAGS if _WINDOWS else 0,
            )
        except FileNotFoundError as error:
            message = f"The program {name!r} was not found. Install it, or correct the command in the descriptor."
            raise ServiceUnavailable(message, command=name) from error
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or "its command cannot be used"
            message = f"The program {name!r} cannot be started: {why}. Correct that, or the command in the descriptor."
            raise ServiceUnavailable(message, command=name) from error
        self._running = {each for each in self._running if not each.gone} | {child}
        if self._closed:
            child.end()
        return child

    async def run(self, command: Sequence[str], given: bytes, *, seconds: float, largest: int) -> "Finished":
        """Run a program once with something on its input, and return all it says.

        Raises:
            ServiceUnavailable: it cannot be started.
            AnswerTooLarge: it says more than `largest` bytes.
            CallTimeout: it has not ended in time.
        """
        output, over = bytearray(), Event()

        def heard(data: bytes) -> None:
            if len(output) <= largest:
                output.extend(data)
            if len(output) > largest:
                over.set()

        child = await self.start(command, folder=None, heard=heard, over=over.set)
        try:
            async with timeout(seconds):
                child.send(given, last=True)
                await over.wait()
                await shield(child.end(_MOMENT_S if len(output) <= largest else 0))
        except TimeoutError as error:
            raise CallTimeout(f"{child.name} gave no answer within {seconds:g} seconds. {EFFECT_UNKNOWN}") from error
        finally:
            child.end()
        if len(output) > largest:
            raise AnswerTooLarge(f"{child.name} says more than {largest} bytes. Ask it for less.")
        return Finished(code=child.code, output=bytes(output), errors=child.errors, fate=child.fate)

    async def close(self) -> None:
        """End them all, and wait until they are gone."""
        self._closed = True
        await gather(*(child.end() for child in self._running), return_exceptions=True)


class Finished(Struct, frozen=True, kw_only=True):
    """How a program ran to its end, and what it said."""

    code: int | None
    output: bytes
    errors: str
    fate: str


async def _within(event: Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await wait_for(event.wait(), seconds)


def _signal_tree(transport: SubprocessTransport, number: int) -> bool:
    """Windows knows no groups: its own program ends a process with everything below it."""
    running = transport.get_returncode() is None
    if running and number:
        from subprocess import DEVNULL, Popen  # noqa: PLC0415 - Windows only

        Popen(  # noqa: S603 - a number
            ["taskkill", "/T", "/F", "/PID", str(transport.get_pid())],  # noqa: S607 - wherever Windows is
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
    return running

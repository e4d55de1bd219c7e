"""Ask with a window of the operating system, shown by a program that comes with it.

The program gets the form as data, little of our environment, and a session of its own; it answers through a pipe, and
ends with the question. Nothing is logged: what a person fills in passes through here.
"""

import os
import sys
from asyncio import Future, Task, create_subprocess_exec, create_task, gather, get_running_loop, shield, wait_for
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from shutil import which
from signal import SIGTERM, Signals
from typing import Literal, assert_never, final

from switchboard.prompts.dialogs_linux import kdialog, zenity
from switchboard.prompts.dialogs_macos import osascript
from switchboard.prompts.dialogs_talk import Ended, NotShown, Step, Talk
from switchboard.prompts.dialogs_windows import powershell
from switchboard.prompts.forms import Form, Prompt, Reply, Shown

System = Literal["macos", "linux", "windows"]

TOO_SOON_S = 0.8
"""Nobody has read a window after that: what was pressed so soon was meant for another one, and it is shown again."""
_MOST_TOO_SOON = 10
_SETTLED_S = 1.0
"""A program that finds no display ends within that; one that is still there shows the form."""
_MOMENT_S = 1.0
_LARGEST = 65536
_WINDOWS = sys.platform == "win32"
# CREATE_NO_WINDOW, which only Windows knows: of the console, not of the form.
_WINDOWS_FLAGS = 0x0800_0000

# The whole of what a program gets from us: where the display is, how windows look and how Chinese is typed there.
# Everything else of our environment may be somebody's secret.
_NAMES = frozenset(
    {"PATH", "HOME", "USER", "LANG", "LANGUAGE", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"}
    | {"XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "XDG_CURRENT_DESKTOP", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"}
    | {"XDG_DATA_HOME", "XDG_DATA_DIRS", "DESKTOP_SESSION", "DBUS_SESSION_BUS_ADDRESS", "XMODIFIERS"}
    | {"GTK_THEME", "GTK_IM_MODULE", "GDK_BACKEND", "GDK_SCALE", "GDK_DPI_SCALE", "XCURSOR_THEME", "XCURSOR_SIZE"}
    | {"QT_IM_MODULE", "QT_QPA_PLATFORM", "QT_QPA_PLATFORMTHEME", "QT_SCALE_FACTOR", "QT_AUTO_SCREEN_SCALE_FACTOR"}
    | {"KDE_FULL_SESSION", "KDE_SESSION_VERSION"}
    | {"PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
    | {"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "OS"}
)
_REMOTE = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")


@final
class Dialogs(Prompt):
    """Shows forms in windows: zenity or kdialog on Linux, osascript on macOS, PowerShell on Windows."""

    def __init__(self, system: System, environment: Mapping[str, str], *, too_soon_s: float = TOO_SOON_S) -> None:
        self._system: System = system
        self._ours = environment
        self._too_soon_s = too_soon_s
        self._open: set[Task[Reply | None]] = set()
        self._ending: set[Task[None]] = set()

    async def show(self, form: Form) -> Shown | None:
        """Open a window; None where this machine, or this session, cannot show one."""
        talks = self._talks(form)
        if not talks:
            return None
        loop = get_running_loop()
        reply, settled = loop.create_future(), loop.create_future()
        task = create_task(self._ask(talks, settled))
        self._open.add(task)
        task.add_done_callback(lambda _: self._end(task, reply, settled))
        reply.add_done_callback(lambda _: task.cancel())
        timer = loop.call_later(_SETTLED_S, _settle, settled, True)
        try:
            return Shown(reply) if await settled else None
        except BaseException:
            task.cancel()
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Take every window away, and wait until it is gone."""
        open_now = list(self._open)
        for task in open_now:
            task.cancel()
        await gather(*open_now, return_exceptions=True)
        await gather(*self._ending, return_exceptions=True)

    def program(self) -> str | None:
        """Return the program that shows forms here; None where this machine, or this session, cannot show one."""
        return next((program for program, _ in self._ways()), None)

    def _talks(self, form: Form) -> list[Talk]:
        return [talk(program, form) for program, talk in self._ways()]

    def _ways(self) -> list[tuple[str, Callable[[str, Form], Talk]]]:
        """Return the programs that can show a form here, and how to talk to each, best first."""
        match self._system:
            case "linux":
                seen = self._ours.get("DISPLAY") or self._ours.get("WAYLAND_DISPLAY")
                ways = (("zenity", zenity), ("kdialog", kdialog)) if seen else ()
            case "macos":
                ways = () if self._remote() else (("osascript", osascript),)
            case "windows":
                ways = () if self._remote() else (("powershell", powershell),)
            case _:
                assert_never(self._system)
        found = ((self._program(name), talk) for name, talk in ways)
        return [(program, talk) for program, talk in found if program]

    def _remote(self) -> bool:
        """A window would open on the machine's own screen, where nobody may sit; X forwards it to the person."""
        return any(self._ours.get(name) for name in _REMOTE)

    def _program(self, name: str) -> str | None:
        """Find a program. Windows would look into the current folder first, which may be anybody's."""
        root = self._ours.get("SYSTEMROOT") or self._ours.get("SystemRoot")
        if name == "powershell" and root:
            return which("powershell.exe", path=rf"{root}\System32\WindowsPowerShell\v1.0")
        return which(name, path=self._ours.get("PATH", ""))

    async def _ask(self, talks: list[Talk], settled: "Future[bool]") -> Reply | None:
        """Try one program after the other, until one has shown the form; one that breaks after that has no reply."""
        for talk in talks:
            with suppress(NotShown):
                return await self._follow(talk, lambda: _settle(settled, shown=True))
            if settled.done():
                return None
        raise NotShown

    async def _follow(self, talk: Talk, heard: Callable[[], None]) -> Reply | None:
        """Run what a talk wants to have run, until it knows the reply."""
        try:
            step = next(talk)
            while True:
                step = talk.send(await self._run(step, heard))
        except StopIteration as end:
            return end.value
        finally:
            talk.close()

    async def _run(self, step: Step, heard: Callable[[], None]) -> Ended:
        """Run a program to its end, and again where it was answered before anybody can have read the question."""
        loop = get_running_loop()
        for _ in range(_MOST_TOO_SOON):
            started = loop.time()
            ended = await self._run_once(step, heard)
            if not ended.output.strip() or loop.time() - started >= self._too_soon_s:
                return ended
        raise NotShown  # nobody is that quick so often: the program is broken

    async def _run_once(self, step: Step, heard: Callable[[], None]) -> Ended:
        try:
            process = await create_subprocess_exec(
                *step.command,
                stdin=PIPE if step.given else DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
                env=_environment(self._ours, step.environment),
                start_new_session=not _WINDOWS,
                creationflags=_WINDOWS_FLAGS if _WINDOWS else 0,
            )
        except (OSError, ValueError) as error:
            raise NotShown from error
        try:
            output = await _exchange(process, step.given, heard)
            return Ended(await process.wait(), output)
        finally:
            # Whoever cancels this twice does not wait for it; `close` does.
            ending = create_task(_gone(process))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await shield(ending)

    def _end(self, task: "Task[Reply | None]", reply: "Future[Reply | None]", settled: "Future[bool]") -> None:
        self._open.discard(task)
        failed = task.cancelled() or task.exception() is not None
        if not reply.done():
            reply.set_result(None if failed else task.result())
        _settle(settled, shown=not failed)


def _settle(settled: "Future[bool]", shown: bool) -> None:
    if not settled.done():
        settled.set_result(shown)


def _environment(ours: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    base = {name: value for name, value in ours.items() if name.upper() in _NAMES or name.startswith("LC_")}
    return {**base, **more}


async def _exchange(process: Process, given: bytes, heard: Callable[[], None]) -> bytes:
    """Write what it reads, and read what it says, up to some length."""
    if process.stdin is not None:
        process.stdin.write(given)
        with suppress(OSError):  # it may be gone before it has read everything
            await process.stdin.drain()
        process.stdin.close()
    output = bytearray()
    assert process.stdout is not None  # noqa: S101 - it was asked for
    while len(output) <= _LARGEST and (data := await process.stdout.read(_LARGEST)):
        output += data
        heard()
    return bytes(output[:_LARGEST])


async def _gone(process: Process) -> None:
    """End a program with everything it started, and its pipes: asked at first, forced a moment later."""
    for number in (SIGTERM, SIGTERM if _WINDOWS else Signals["SIGKILL"]):
        _signal(process, number)
        with suppress(TimeoutError):
            await wait_for(process.communicate(), _MOMENT_S)
            return


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if _WINDOWS:
            process.kill()
        else:
            os.killpg(process.pid, number)

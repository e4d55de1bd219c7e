"""A screen of our own, with nobody at it but the tests: windows are found, read, typed into, clicked and photographed.

What a window shows is read as a screen reader reads it (AT-SPI), and not from its pixels.
"""

import asyncio
import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from typing import Any, TypeVar

import pytest
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus
from tests.processes import contents, running

T = TypeVar("T")

PATIENCE_S = 30.0
_NEEDED = ("Xvfb", "xdotool", "zenity", "dbus-daemon")
_SCREEN_READER = Path("/usr/share/dbus-1/services/org.a11y.Bus.service")
_ACCESSIBLE = "org.a11y.atspi.Accessible"
_ROOT = "/org/a11y/atspi/accessible/root"


@dataclass(frozen=True)
class Part:
    """One thing in a window: what it is, what it says, and where its middle lies on the screen."""

    role: str
    text: str
    x: int
    y: int


class Display:
    """One screen. A window is known by its number, as X has it."""

    def __init__(self, name: str, folder: Path, bus: str) -> None:
        self._frame = folder / "Xvfb_screen0"
        self.environment = {
            "DISPLAY": name,
            "DBUS_SESSION_BUS_ADDRESS": bus,
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
        }

    async def windows(self) -> list[str]:
        """Return the windows that can be seen."""
        found = (await self._xdotool("search", "--onlyvisible", "--class", "zenity")).split()
        # Of each program X has small helpers too, that are on no screen.
        return [window for window in found if await self._shown(window)]

    async def window(self, title: str = "") -> str:
        """Wait until there is a window with this in its title."""

        async def look() -> str | None:
            for window in await self.windows():
                if title in await self._xdotool("getwindowname", window):
                    return window
            return None

        return await eventually(look)

    async def no_window(self) -> None:
        """Wait until nothing is shown."""

        async def look() -> bool:
            return not await self.windows()

        await eventually(look)

    async def keys(self, window: str, *keys: str) -> None:
        """Give a window the keyboard, and press keys one after the other."""
        await self._focus(window)
        await self._xdotool("key", *keys)

    async def type(self, window: str, text: str) -> None:
        """Give a window the keyboard, and type; what is typed stands on no command line."""
        await self._focus(window)
        await self._xdotool("type", "--file", "-", given=text)

    async def click(self, part: Part) -> None:
        """Press the mouse on something."""
        await self._xdotool("mousemove", str(part.x), str(part.y), "click", "1")

    async def dismiss(self, window: str) -> None:
        """Close a window as the cross in its corner does; no window manager is here to draw one."""
        await asyncio.to_thread(_ask_to_close, self.environment["DISPLAY"], int(window))

    async def parts(self, title: str = "", *, has: str = "") -> list[Part]:
        """Wait until a screen reader finds a window with `title` in its title and `has` in it; return its parts."""

        async def look() -> list[Part] | None:
            found = await self._read(title)
            return found if found and any(has in part.text for part in found) else None

        return await eventually(look)

    async def button(self, label: str, title: str = "") -> Part:
        """Return the button that says this."""
        parts = await self.parts(title, has=label)
        return next(part for part in parts if part.role == "push button" and part.text == label)

    async def screenshot(self, path: Path) -> None:
        """Write what is on the screen, as PNG."""
        await asyncio.to_thread(lambda: path.write_bytes(_png(self._frame.read_bytes())))

    def programs(self) -> list[int]:
        """Return the programs that show something here, or are about to."""
        mark = f"DISPLAY={self.environment['DISPLAY']}".encode()
        return [
            int(process.name)
            for process in running()
            if contents(process / "cmdline").split(b"\0")[0].endswith(b"zenity")
            and mark in contents(process / "environ").split(b"\0")
        ]

    async def no_programs(self) -> None:
        """Wait until none of them is left."""

        async def look() -> bool:
            return not await asyncio.to_thread(self.programs)

        await eventually(look)

    async def _focus(self, window: str) -> None:
        await self._xdotool("windowfocus", "--sync", window)

    async def _shown(self, window: str) -> bool:
        geometry = await self._xdotool("getwindowgeometry", "--shell", window)
        sizes = dict(line.split("=") for line in geometry.split())
        return int(sizes.get("WIDTH", "0")) > 1

    async def _xdotool(self, *arguments: str, given: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            "xdotool",
            *arguments,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        output, _ = await process.communicate(given.encode())
        return output.decode()

    async def _read(self, title: str) -> list[Part]:
        session = await MessageBus(bus_address=self.environment["DBUS_SESSION_BUS_ADDRESS"]).connect()
        try:
            (address,) = await _call(session, "org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress")
        finally:
            session.disconnect()
        bus = await MessageBus(bus_address=address).connect()
        try:
            programs = await _children(bus, "org.a11y.atspi.Registry", _ROOT)
            windows = [window for program in programs for window in await _children(bus, *program)]
            for window in windows:
                if title in await _name(bus, *window):
                    return await _parts(bus, *window)
        except (LookupError, ValueError):
            return []  # the window went away while it was read, or is not complete
        finally:
            bus.disconnect()
        return []


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """Wait until something is found."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await look()):  # noqa: ASYNC110 - another program's windows tell nobody
            await asyncio.sleep(0.02)
    return found


@contextmanager
def display(*, width: int = 1280, height: int = 900) -> Generator[Display]:
    """Run a screen, and a bus for the screen reader; both end with everything they started."""
    require_programs()
    with tempfile.TemporaryDirectory(prefix="screen") as name:
        folder = Path(name)
        # Without `-noreset` it begins anew whenever the last program leaves, and turns away who comes meanwhile.
        screen = ("Xvfb", "-noreset", "-displayfd", "1", "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp")
        with (
            _running(*screen, "-fbdir", name) as number,
            _running("dbus-daemon", "--session", "--nofork", "--print-address", DISPLAY=f":{number}") as bus,
        ):
            yield Display(f":{number}", folder, bus)


def require_programs() -> None:
    """Skip where there is no screen to be had; where CI has none, that is a failure and no excuse."""
    missing = [program for program in _NEEDED if shutil.which(program) is None]
    missing += [] if _SCREEN_READER.exists() else ["at-spi2-core"]
    if missing:
        reason = f"no {', '.join(missing)} on this machine: no real window was shown"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@contextmanager
def _running(*command: str, **environment: str) -> Generator[str]:
    """Run a program that says one line when it is ready, and yield that line."""
    with subprocess.Popen(  # noqa: S603 - programs of ours
        command,
        env={"PATH": os.environ["PATH"], **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert line, f"{command[0]} does not start"
            yield line
        finally:
            os.killpg(process.pid, SIGTERM)


async def _call(bus: MessageBus, name: str, path: str, interface: str, member: str, *arguments: Any) -> list[Any]:
    signature = "".join({str: "s", int: "i"}[type(argument)] for argument in arguments)
    signature = "u" if member == "GetExtents" else signature
    message = Message(name, path, interface, member, signature=signature, body=list(arguments))
    reply = await bus.call(message)
    if reply.message_type is MessageType.ERROR:
        raise LookupError(member)
    return reply.body


async def _children(bus: MessageBus, name: str, path: str) -> list[tuple[str, str]]:
    (children,) = await _call(bus, name, path, _ACCESSIBLE, "GetChildren")
    return [(child[0], child[1]) for child in children]


async def _name(bus: MessageBus, name: str, path: str) -> str:
    (value,) = await _call(bus, name, path, "org.freedesktop.DBus.Properties", "Get", _ACCESSIBLE, "Name")
    return value.value


async def _parts(bus: MessageBus, name: str, path: str) -> list[Part]:
    (role,) = await _call(bus, name, path, _ACCESSIBLE, "GetRoleName")
    (interfaces,) = await _call(bus, name, path, _ACCESSIBLE, "GetInterfaces")
    text = await _name(bus, name, path)
    if "org.a11y.atspi.Text" in interfaces and role != "push button":
        (text,) = await _call(bus, name, path, "org.a11y.atspi.Text", "GetText", 0, -1)
    ((x, y, width, height),) = await _call(bus, name, path, "org.a11y.atspi.Component", "GetExtents", 0)
    here = Part(role, text, x + width // 2, y + height // 2)
    below = [part for child in await _children(bus, name, path) for part in await _parts(bus, *child)]
    return [here, *below]


def _ask_to_close(display_name: str, window: int) -> None:
    """Send the message that a window manager sends (ICCCM 4.2.8.1); xdotool can only tear a window down."""
    x11 = ctypes.CDLL("libX11.so.6")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    x11.XInternAtom.restype = ctypes.c_ulong
    connection = ctypes.c_void_p(x11.XOpenDisplay(display_name.encode()))
    protocols, delete = (x11.XInternAtom(connection, atom, 0) for atom in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
    client_message = 33
    event = struct.pack(
        "iLiPLLi4xlllll", client_message, 0, 1, connection.value, window, protocols, 32, delete, *[0] * 4
    )
    x11.XSendEvent(connection, ctypes.c_ulong(window), 0, ctypes.c_long(0), event.ljust(192, b"\0"))
    x11.XCloseDisplay(connection)


def _png(frame: bytes) -> bytes:
    """Turn the frame that Xvfb keeps (X window dump, 32 bits a pixel) into a picture."""
    header = struct.unpack(">25I", frame[:100])
    start, width, height, stride = header[0] + 12 * header[19], header[4], header[5], header[12]
    rows = bytearray()
    for offset in range(start, start + height * stride, stride):
        row = frame[offset : offset + 4 * width]
        pixels = bytearray(3 * width)
        pixels[0::3], pixels[1::3], pixels[2::3] = row[2::4], row[1::4], row[0::4]
        rows += b"\0" + pixels
    size = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(bytes(rows))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )

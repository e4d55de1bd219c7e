"""Opens an address in the person's browser, without a shell and without waiting for the browser to end.

An address that is a secret, because it holds a one-time token, does not go into the arguments of a program, where every
user of the machine could read it: the program is given a file that only this user can read, and that leads on.
"""

import os
import shlex
import shutil
import stat
from asyncio import to_thread
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from secrets import token_hex
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired, run
from threading import Thread
from time import time
from typing import Literal, final
from urllib.parse import urlsplit

System = Literal["macos", "linux", "windows"]
Commands = tuple[tuple[str, ...], ...]

_FAILS_WITHIN_S = 1.0
_QUERY_S = 2.0
_A_DAY_S = 86_400
_MACOS: Commands = (("open",),)
_WINDOWS: Commands = (("rundll32", "url.dll,FileProtocolHandler"),)
_WSL: Commands = (("wslview",),)
_LINUX: Commands = (
    ("xdg-open",),
    ("gio", "open"),
    ("x-www-browser",),
    ("sensible-browser",),
    ("firefox",),
    ("google-chrome",),
    ("chromium",),
    ("chromium-browser",),
    ("brave-browser",),
    ("microsoft-edge",),
    ("epiphany",),
    ("konqueror",),
)
_KEPT = frozenset(
    """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TERM DISPLAY WAYLAND_DISPLAY XAUTHORITY SESSION_MANAGER
    DBUS_SESSION_BUS_ADDRESS DESKTOP_SESSION DESKTOP_STARTUP_ID BROWSER HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    WSL_DISTRO_NAME WSL_INTEROP WSLENV VSCODE_IPC_HOOK_CLI KDE_FULL_SESSION KDE_SESSION_VERSION
    SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT TEMP TMP USERNAME USERPROFILE APPDATA LOCALAPPDATA PROGRAMDATA
    """.split()  # noqa: SIM905 - forty quoted names read worse
)
"""What a browser and the programs that find it need; a key or a setting of ours is none of it."""
_KEPT_FAMILIES = ("LC_", "XDG_", "GTK_", "QT_", "GDK_", "MOZ_", "GNOME_")
_PAGE = """<!doctype html>
<html><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Switchboard</title>
<meta http-equiv="refresh" content="0; url={address}"></head>
<body><p><a href="{address}">Switchboard</a></p></body></html>
"""


async def open_page(address: str, system: System, environment: Mapping[str, str]) -> bool:
    """Open an address that anybody may know; return whether a program took it.

    Raises:
        ValueError: the address is neither ours nor one of the secure web.
    """
    return await to_thread(_open, _checked(address), system, environment)


def program(system: System, environment: Mapping[str, str]) -> str | None:
    """Return the program that opens addresses here; None where none does."""
    return next((command[0] for command in _commands(system, environment)), None)


@final
class PrivateDoor:
    """Opens addresses that nobody else may know; one file each, until `forget` or `close`."""

    def __init__(self, system: System, environment: Mapping[str, str]) -> None:
        self._system: System = system
        self._environment = environment
        self._files: dict[str, Path] = {}

    async def open(self, address: str) -> bool:
        """Open an address; return whether a program took it.

        Raises:
            ValueError: the address is neither ours nor one of the secure web.
        """
        return await to_thread(self._open, _checked(address))

    def forget(self, address: str) -> None:
        """Remove what was kept to open an address."""
        file = self._files.pop(address, None)
        if file is not None:
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove what is left."""
        for address in list(self._files):
            self.forget(address)

    def _open(self, address: str) -> bool:
        if not _is_seen_by_others(self._system, self._environment):
            return _open(address, self._system, self._environment)
        if next(_commands(self._system, self._environment), None) is None:
            return False
        try:
            file = self._files[address] = _leading_to(address, _folder(self._system, self._environment))
        except OSError:  # not secret enough, so not at all: somebody else has to give the person the address
            return False
        opened = _open(file.as_uri(), self._system, self._environment)
        if not opened:
            self.forget(address)
        return opened


def _checked(address: str) -> str:
    plain = address.isascii() and address.isprintable() and " " not in address
    parts = urlsplit(address)
    ours = parts.scheme == "http" and parts.hostname == "127.0.0.1" and parts.port is not None
    secure = parts.scheme == "https" and bool(parts.hostname)
    if not plain or not (ours or secure) or "@" in parts.netloc:
        raise ValueError("not an address to open in a browser")
    return address


def _is_seen_by_others(system: System, environment: Mapping[str, str]) -> bool:
    """Whether other users can read a program's arguments, and the browser can read a file of this machine.

    Windows shows arguments to their owner only. Inside WSL and in a remote session of Visual Studio Code the browser
    runs on another system, for one person.
    """
    return system != "windows" and not _is_wsl(environment) and "VSCODE_IPC_HOOK_CLI" not in environment


def _is_wsl(environment: Mapping[str, str]) -> bool:
    return "WSL_DISTRO_NAME" in environment or "WSL_INTEROP" in environment


def _open(target: str, system: System, environment: Mapping[str, str]) -> bool:
    return any(_launch(_with(command, target), environment) for command in _commands(system, environment))


def _commands(system: System, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield what to try, in order, as far as it is installed."""
    for program, *arguments in _wished(system, environment):
        found = shutil.which(program, path=environment.get("PATH", os.defpath))
        if found:
            yield [found, *arguments]


def _wished(system: System, environment: Mapping[str, str]) -> Iterator[Sequence[str]]:
    if system == "windows":
        yield from _WINDOWS
        return
    yield from _of_variable(environment.get("BROWSER", ""))
    if system == "macos":
        # Through SSH, a window would open where nobody sits.
        yield from () if "SSH_CONNECTION" in environment else _MACOS
        return
    if _is_wsl(environment):
        yield from _WSL
    if environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        yield from _LINUX


def _of_variable(value: str) -> Iterator[Sequence[str]]:
    """Yield the commands of `BROWSER`: several are parted by colons, and each is words, never a script."""
    for part in value.split(":"):
        with suppress(ValueError):  # a quotation that does not end
            if words := shlex.split(part):
                yield words


def _with(command: list[str], target: str) -> list[str]:
    if any("%s" in word for word in command):
        return [word.replace("%s", target) for word in command]
    return [*command, target]


def _launch(command: list[str], environment: Mapping[str, str]) -> bool:
    """Start a program, and return whether it works, or still ran when it could have failed.

    Not asyncio's: that one ends its programs with the event loop, and this may be the person's browser.
    """
    try:
        program = Popen(  # noqa: S603 - a list of arguments, of a program that the person has installed
            command, env=_minimal(environment), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
        )
    except OSError:
        return False
    try:
        return program.wait(_FAILS_WITHIN_S) == 0
    except TimeoutExpired:
        Thread(target=program.wait, daemon=True).start()  # so that nothing is left of it when it ends
        return True


def _minimal(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.upper() in _KEPT or name.upper().startswith(_KEPT_FAMILIES)
    }


def _folder(system: System, environment: Mapping[str, str]) -> Path:
    """Return a folder that only this user can look into, and the browser can.

    Raises:
        OSError: there is none, and none can be made.
    """
    folder = _place(system, environment) / "switchboard-pages"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError("not a private folder")
    for file in folder.glob("*.html"):  # of a process that was killed; their addresses are long dead
        if file.stat().st_mtime < time() - _A_DAY_S:
            file.unlink(missing_ok=True)
    return folder


def _place(system: System, environment: Mapping[str, str]) -> Path:
    home = Path(environment.get("HOME") or Path.home())
    if system == "macos":
        return home / "Library" / "Caches"
    own = _snap(home, environment)
    if own is not None:
        return own
    return Path(environment.get("XDG_RUNTIME_DIR") or environment.get("XDG_CACHE_HOME") or home / ".cache")


def _snap(home: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the own folder of a browser that came as a snap, as Ubuntu's does: it sees no other hidden one."""
    query = shutil.which("xdg-mime", path=environment.get("PATH", os.defpath))
    if query is None or not (home / "snap").is_dir():
        return None
    try:
        answer = run(  # noqa: S603 - as above
            [query, "query", "default", "text/html"],
            env=_minimal(environment),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            timeout=_QUERY_S,
            check=False,
        ).stdout
    except (OSError, TimeoutExpired):
        return None
    name, parted, _ = answer.decode(errors="replace").strip().partition("_")
    folder = home / "snap" / name / "common"
    return folder if parted and name.replace("-", "").isalnum() and folder.is_dir() else None


def _leading_to(address: str, folder: Path) -> Path:
    """Write a page that leads to an address at once, for this user's eyes only."""
    file = folder / f"{token_hex(16)}.html"
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as page:
        page.write(_PAGE.format(address=escape(address)))
    return file

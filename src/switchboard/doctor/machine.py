"""This machine and this installation: Python, our own command, folders, the clock, the disk."""

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from switchboard import __version__
from switchboard.clients.place import gateway_command
from switchboard.clients.refusals import NotFound
from switchboard.doctor.checks import Finding

_OLDEST = (3, 11)
_VERSION_S = 4.0
_LITTLE, _FEW = 50 * 1024**2, 500 * 1024**2
_MOST_FILES = 2000
_AGAIN = "Install Switchboard again."
_LATEST_YEAR = 2100


def python(version: tuple[int, ...]) -> Iterator[Finding]:
    """Say which Python this is."""
    shown = ".".join(map(str, version[:3]))
    if version[:2] < _OLDEST:
        yield Finding(
            "python", "problem", f"Python {shown} is too old", "Install Switchboard with Python 3.11 or newer."
        )
    else:
        yield Finding("python", "ok", f"Python {shown}, {sys.executable}")


def installation() -> Iterator[Finding]:
    """Start our own command, as a client does."""
    try:
        command = gateway_command()
    except NotFound as error:
        yield Finding("installation", "problem", str(error), _AGAIN)
        return
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            [command, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("installation", "problem", f"{command} does not start ({type(error).__name__})", _AGAIN)
        return
    if done.returncode or done.stdout.strip() != f"aai-gateway {__version__}".encode():
        yield Finding(
            "installation", "problem", f"{command} is not of version {__version__}, as this command is", _AGAIN
        )
    else:
        yield Finding("installation", "ok", f"{__version__}, {command}")


def folder(name: str, path: Path) -> Iterator[Finding]:
    """Say whether a folder can be written by this user, and looked into by nobody else."""
    there = existing(path)
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        own = f"Make it yours: chown -R $(id -u) {shlex.quote(str(there))}"
        yield Finding(name, "problem", f"{path} cannot be written", own)
    elif there != path:
        yield Finding(name, "ok", f"{path} is made when it is needed")
    else:
        yield _private(name, path)


def _private(name: str, path: Path) -> Finding:
    close = f"Close it: chmod -R go= {shlex.quote(str(path))}"
    if sys.platform == "win32":  # where the access list of the profile says it
        return Finding(name, "ok", str(path))
    if path.stat().st_mode & 0o022:
        return Finding(name, "problem", f"others can write into {path}", close)
    seen = next(_seen_by_others(path), None)
    if seen is not None:
        return Finding(name, "warning", f"others can read {seen}", close)
    return Finding(name, "ok", str(path))


def _seen_by_others(path: Path) -> Iterator[Path]:
    """Yield the files below a folder that others can come to and read."""
    count = 0
    for here, folders, names in os.walk(path):
        if not Path(here).stat().st_mode & 0o011:
            folders.clear()
            continue
        for file in (Path(here, name) for name in names):
            count += 1
            if count > _MOST_FILES:
                return
            status = file.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mode & 0o044:
                yield file


def clock(now: float, built: float) -> Iterator[Finding]:
    """Say whether the clock can be right: this program cannot have been written after now."""
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < built - 86_400 or datetime.fromtimestamp(now, UTC).year >= _LATEST_YEAR:
        remedy = (
            "Set the clock, or let the system do it (timedatectl set-ntp true): certificates and sign-ins depend on it."
        )
        yield Finding("clock", "problem", f"{shown} cannot be right", remedy)
    else:
        yield Finding("clock", "ok", shown)


def disk(path: Path, free: int | None = None) -> Iterator[Finding]:
    """Say whether there is room for what is kept."""
    left = shutil.disk_usage(existing(path)).free if free is None else free
    shown = f"{left / 1024**3:.1f} GB free for {path}" if left >= 1024**3 else f"{left // 1024**2} MB free for {path}"
    if left < _FEW:
        yield Finding("disk", "problem" if left < _LITTLE else "warning", shown, "Make room on that disk.")
    else:
        yield Finding("disk", "ok", shown)


def existing(path: Path) -> Path:
    """Return the folder itself, or the nearest around it that is there."""
    return next((one for one in (path, *path.parents) if one.exists()), path)

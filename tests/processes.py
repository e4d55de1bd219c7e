"""What this machine shows of every process that runs on it, where the system shows it at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_ALL = Path("/proc")


def running() -> Iterator[Path]:
    """Yield the folder of every process; it may be gone by the time one looks into it.

    Never with a pattern that goes on below the folder: ``glob`` asks whether the file is there, and
    of a process that has just ended Linux says "no such process", which ``glob`` raises.
    """
    return (entry for entry in _ALL.iterdir() if entry.name.isdigit())


def contents(path: Path) -> bytes:
    """Return what stands in a file of a process; nothing when the process has ended or is not ours to see."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def command_lines() -> list[bytes]:
    """Return what everybody on this machine can see of every program."""
    return [contents(process / "cmdline") for process in running()]

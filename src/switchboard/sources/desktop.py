"""Descriptors in the folders of this machine.

A broken file is reported, never fatal, and never keeps the scan: nothing is read that is not a regular file of a
sensible size, and no folder is walked deeper than its layout says. Knows nothing of which folders there are.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import final

from switchboard.actions.ports import Source
from switchboard.catalog.findings import Finding, Problem
from switchboard.catalog.model import App, Platform
from switchboard.descriptors import aai
from switchboard.descriptors.document import LARGEST
from switchboard.sources.places import Place

_NAME = "aai.json"
_ENTRY_KEY = "X-AAI-Config="
_LARGEST_ENTRY = 64 * 1024


@final
class Desktop(Source):
    """Every descriptor in the given places, in their order; the same file is reported once."""

    def __init__(self, places: Iterable[Place], system: Platform) -> None:
        self._places = tuple(places)
        self._system: Platform = system

    async def load(self) -> tuple[Finding, ...]:
        """Scan in a thread: file systems can be slow."""
        from asyncio import to_thread  # noqa: PLC0415 - `--scan` without a loop need not load asyncio

        return await to_thread(self.scan)

    def scan(self) -> tuple[Finding, ...]:
        """Look into every place now."""
        seen: set[tuple[int, int]] = set()
        return tuple(finding for place in self._places for finding in self._in_place(place, seen))

    def _in_place(self, place: Place, seen: set[tuple[int, int]]) -> Iterator[Finding]:
        try:
            candidates = _candidates(place)
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                yield _unreadable(place, place.path, error)
            return
        for path, folder in candidates:
            finding = self._at(place, path, folder, seen)
            if finding is not None:
                yield finding

    def _at(self, place: Place, path: Path, folder: str, seen: set[tuple[int, int]]) -> Finding | None:
        try:
            raw, identity = read_regular(path, LARGEST)
        except (FileNotFoundError, NotADirectoryError) as error:
            # Most folders have no descriptor, which is no problem; a link or an entry that leads nowhere is one.
            promised = path.is_symlink() or place.shape == "entries"
            return _unreadable(place, path, error) if promised else None
        except OSError as error:
            return _unreadable(place, path, error)
        if identity in seen:
            return None
        seen.add(identity)
        reading = aai.read(raw, system=self._system, folder=folder, origin=path.as_uri())
        problems = (*reading.problems, *self._foreign(reading.app))
        return Finding(source=place.label, location=str(path), app=reading.app, problems=problems)

    def _foreign(self, app: App | None) -> Iterator[Problem]:
        if app is not None and app.platform not in (self._system, "web"):
            message = f"is for {app.platform}; its tools cannot be called on {self._system}"
            yield Problem("warning", "value", "$.platform", message)


def read_regular(path: Path, largest: int) -> tuple[bytes, tuple[int, int]]:
    """Return at most one byte more than `largest` of a regular file, and which file it is.

    Opened without waiting: a pipe or device under this name must not hold the scan.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a regular file")
        return file.read(largest + 1), (status.st_dev, status.st_ino)


def _candidates(place: Place) -> list[tuple[Path, str]]:
    """Return the paths to try, by name, each with the name that stands for an id where the document has none."""
    if place.shape == "file":
        return [(place.path, place.path.resolve().parent.name)]
    folder = place.path
    names = sorted({entry.name for entry in folder.iterdir()} - place.skip)
    match place.shape:
        case "apps":
            return [(folder / name / _NAME, name) for name in names]
        case "files":
            return [(folder / name, name.removesuffix(".json")) for name in names if name.endswith(".json")]
        case "bundles":
            return [(folder / name / "Contents" / "Resources" / _NAME, name.removesuffix(".app")) for name in names]
        case "entries":
            entries = (folder / name for name in names if name.endswith(".desktop"))
            return [(target, entry.stem) for entry in entries if (target := _entry_target(entry))]


def _entry_target(entry: Path) -> Path | None:
    """Return the descriptor a desktop entry points to with `X-AAI-Config=`; an entry we cannot read has none."""
    try:
        text, _ = read_regular(entry, _LARGEST_ENTRY)
    except OSError:
        return None
    for line in text.decode(errors="replace").splitlines():
        if line.startswith(_ENTRY_KEY):
            target = Path(line.removeprefix(_ENTRY_KEY).strip()).expanduser()
            return target if target.is_absolute() else None
    return None


def _unreadable(place: Place, path: Path, error: OSError) -> Finding:
    reason = error.strerror or str(error)
    problem = Problem("error", "unreadable", "$", f"cannot be read: {reason}")
    return Finding(source=place.label, location=str(path), problems=(problem,))

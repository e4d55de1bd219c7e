"""Descriptors in the folders of this machine.

A broken file is reported, never fatal, and never keeps the scan: nothing is read that is not a regular file of a
sensible size, and no folder is walked deeper than its layout says. Knows nothing of which folders there are.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import NamedTuple, final

from msgspec.structs import replace

from switchboard.actions.ports import Source
from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.findings import Finding, Problem
from switchboard.catalog.model import App, Platform
from switchboard.descriptors import aai
from switchboard.descriptors.document import LARGEST
from switchboard.descriptors.web import read_web
from switchboard.sources import copies
from switchboard.sources.files import read_regular, shown
from switchboard.sources.places import Place

_NAME = "aai.json"
_ENTRY_LINE = re.compile(r"X-AAI-Config\s*=\s*(.*)")
_LARGEST_ENTRY = 64 * 1024


@final
class Desktop(Source):
    """Every descriptor in the given places, in their order; the same file is reported once.

    What a file said is remembered with a digest of its bytes, so that looking again costs little where little changed;
    the bytes themselves stay in the file.
    """

    def __init__(self, places: Iterable[Place], system: Platform, caches: Caches = USUAL) -> None:
        self._places = tuple(places)
        self._system: Platform = system
        self._caches = caches
        self._known: dict[Path, _Known] = {}
        self._reusable: dict[Path, _Known] = {}

    async def load(self) -> tuple[Finding, ...]:
        """Scan in a thread: file systems can be slow."""
        from asyncio import to_thread  # noqa: PLC0415 - `--scan` without a loop need not load asyncio

        return await to_thread(self.scan)

    async def published(self, app: App) -> bytes | None:
        """Return the file of an app that this source has found, as it is now."""
        from asyncio import to_thread  # noqa: PLC0415 - as above

        path = next((path for path, known in self._known.items() if known.finding.app == app), None)
        if path is None:
            return None
        try:
            raw, _ = await to_thread(read_regular, path, LARGEST)
        except OSError:
            return None
        return raw

    def scan(self) -> tuple[Finding, ...]:
        """Look into every place now."""
        look = _Look(seen=set(), known={})
        found = tuple(finding for place in self._places for finding in self._in_place(place, look))
        self._known = look.known
        self._reusable = dict(islice(look.known.items(), self._caches.most(len(look.known))))
        return found

    def _in_place(self, place: Place, look: "_Look") -> Iterator[Finding]:
        try:
            found = candidates(place)
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                yield _unreadable(place, place.path, error)
            return
        for candidate in found:
            finding = self._at(place, candidate, look)
            if finding is not None:
                yield finding

    def _at(self, place: Place, candidate: "Candidate", look: "_Look") -> Finding | None:
        path = candidate.path
        if candidate.complaint:
            return _broken(place, path, candidate.complaint)
        try:
            raw, identity = read_regular(path, LARGEST)
        except (FileNotFoundError, NotADirectoryError) as error:
            # Most folders have no descriptor, which is no problem; a link or an entry that leads nowhere is one.
            promised = path.is_symlink() or place.shape == "entries"
            return _unreadable(place, path, error) if promised else None
        except OSError as error:
            return _unreadable(place, path, error)
        if identity in look.seen:
            return None
        look.seen.add(identity)
        site = _site(path) if place.holds_copies else None
        if site == "":
            return _broken(place, path, "is a copy without its note: aai.json.meta cannot be read, or names no site")
        known = self._reusable.get(path)
        digest = blake2b(raw, digest_size=16).digest()
        if known is None or (known.digest, known.site, known.finding.source) != (digest, site, place.label):
            known = _Known(digest, site, self._read(place, candidate, raw, site))
        look.known[path] = known
        return known.finding

    def _read(self, place: Place, candidate: "Candidate", raw: bytes, site: str | None) -> Finding:
        origin = candidate.path.as_uri() if site is None else site
        # Whatever lies among the copies may have come over the network, also where nothing says so any more.
        if place.holds_copies:
            folder = candidate.folder if site is None else ""
            reading = read_web(raw, system=self._system, origin=origin, folder=folder)
        else:
            reading = aai.read(raw, system=self._system, folder=candidate.folder, origin=origin)
        problems = (*reading.problems, *self._foreign(reading.app))
        app = None if reading.app is None else replace(reading.app, raw=b"")
        return Finding(source=place.label, location=shown(candidate.path), app=app, problems=problems)

    def _foreign(self, app: App | None) -> Iterator[Problem]:
        if app is not None and app.platform not in (self._system, "web"):
            message = f"is for {app.platform}; its tools cannot be called on {self._system}"
            yield Problem("warning", "value", "$.platform", message)


class _Known(NamedTuple):
    """What a file said, a digest of the bytes it said it with, and the site they came from if they did."""

    digest: bytes
    site: str | None
    finding: Finding


class _Look(NamedTuple):
    """What one scan has seen so far: files by their identity, and what each path said."""

    seen: set[tuple[int, int]]
    known: dict[Path, _Known]


class Candidate(NamedTuple):
    """A path to try, the name that stands for an id where the document has none, and what is wrong before reading."""

    path: Path
    folder: str
    complaint: str = ""


def _site(path: Path) -> str | None:
    """Return the site a copy was fetched from; None where a person has put the file there, "" where nobody knows."""
    meta = copies.read_meta(path.parent)
    if meta is None:
        return "" if copies.has_note(path.parent) else None
    return copies.origin_of(meta.source_url) or ""


def candidates(place: Place) -> list[Candidate]:
    """Return the paths to try, by name."""
    folder = place.path
    if place.shape == "file":
        return [Candidate(folder, folder.parent.name)]
    names = sorted(entry.name for entry in folder.iterdir() if place.holds(entry.name))
    match place.shape:
        case "apps":
            return [Candidate(folder / name / _NAME, name) for name in names]
        case "files":
            return [Candidate(folder / name, name.removesuffix(".json")) for name in names if name.endswith(".json")]
        case "bundles":
            inside = Path("Contents", "Resources", _NAME)
            return [Candidate(folder / name / inside, name.removesuffix(".app")) for name in names]
        case "entries":
            entries = (_pointed(folder / name) for name in names if name.endswith(".desktop"))
            return [candidate for candidate in entries if candidate is not None]


def _pointed(entry: Path) -> Candidate | None:
    """Return the descriptor a desktop entry points to with `X-AAI-Config=`; most entries have none."""
    try:
        text, _ = read_regular(entry, _LARGEST_ENTRY)
    except OSError:
        return None
    for line in text.decode(errors="replace").splitlines():
        match = _ENTRY_LINE.fullmatch(line)
        if match is not None:
            target = match[1].strip()
            if not target.startswith("/") or "\0" in target:
                return Candidate(entry, entry.stem, "X-AAI-Config is not an absolute path")
            return Candidate(Path(target), entry.stem)
    return None


def _unreadable(place: Place, path: Path, error: OSError) -> Finding:
    return _broken(place, path, f"cannot be read: {error.strerror or error}")


def _broken(place: Place, path: Path, message: str) -> Finding:
    problem = Problem("error", "unreadable", "$", message)
    return Finding(source=place.label, location=shown(path), problems=(problem,))

"""Copies of descriptors that came over the network: where they lie, and what is noted beside them.

`aai.json` is what was published, byte for byte; `aai.json.meta` says when and from where (seed 002, "Cache Metadata
Format"), and with which ETag. A copy without its note, or with a broken one, is no copy. Writing replaces whole files,
so nobody ever reads half of one.

Notes are files that anybody may have written: nothing in one is trusted further than to be asked about again.
"""

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from threading import get_ident
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from switchboard.catalog.errors import InvalidDescriptor, RefusedAddress
from switchboard.catalog.model import App, Platform
from switchboard.catalog.names import is_folder_name
from switchboard.descriptors.document import LARGEST
from switchboard.descriptors.web import read_web
from switchboard.sources.files import read_regular

TTL_S = 24 * 60 * 60
NAME = "aai.json"
_META = ".meta"
_LARGEST_META = 16 * 1024
LONGEST_SOURCE = 2000
"""How long an address may be that is noted: a note that were too long to be read would be none."""
_SENDABLE = re.compile(r"[\x20-\x7e]{1,1000}")
_LEFTOVER = re.compile(r"\..+\.\d+\.\d+")
_PORTS = {"https": 443, "http": 80}


class Meta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is noted beside a copy."""

    fetched_at: str
    ttl_seconds: int
    source_url: str
    etag: str | None = None
    registry: str | None = None
    """Which registry it came through, where it did."""
    asked_url: str | None = None
    """What was asked for, where that redirected to `source_url`."""

    @property
    def asked(self) -> str:
        """The address that has to be asked for the next version."""
        return self.asked_url or self.source_url

    @property
    def validator(self) -> str | None:
        """The ETag, where it can be sent back: a site may have given one that no request can carry."""
        return self.etag if self.etag and _SENDABLE.fullmatch(self.etag) else None

    def age_s(self, now: float) -> float:
        """Return for how long the copy has been here; forever where nobody can tell."""
        try:
            fetched = datetime.fromisoformat(self.fetched_at)
        except ValueError:
            return float("inf")
        age = now - fetched.replace(tzinfo=fetched.tzinfo or UTC).timestamp()
        return age if age >= 0 else float("inf")  # from the future: a clock was wrong

    def is_fresh(self, now: float) -> bool:
        """Tell whether nobody need be asked yet; no note can say that for longer than a day."""
        return self.age_s(now) < min(self.ttl_seconds, TTL_S)


class Copy(Struct, frozen=True):
    """A descriptor as it was published, and the note beside it."""

    raw: bytes
    meta: Meta


def note(
    now: float,
    source_url: str,
    etag: str | None = None,
    registry: str | None = None,
    asked_url: str | None = None,
) -> Meta:
    """Return the note for a copy that was fetched now."""
    at = datetime.fromtimestamp(int(now), UTC).isoformat().replace("+00:00", "Z")
    kept = etag if etag and _SENDABLE.fullmatch(etag) else None
    asked = None if asked_url == source_url else asked_url
    return Meta(fetched_at=at, ttl_seconds=TTL_S, source_url=source_url, etag=kept, registry=registry, asked_url=asked)


def read(folder: Path) -> Copy | None:
    """Return the copy in a folder, if there is one."""
    try:
        raw, _ = read_regular(folder / NAME, LARGEST)
    except OSError:
        return None
    meta = read_meta(folder)
    return None if meta is None else Copy(raw, meta)


def read_meta(folder: Path) -> Meta | None:
    """Return what is noted beside the copy in a folder."""
    try:
        text, _ = read_regular(folder / (NAME + _META), _LARGEST_META)
        return msgspec.json.decode(text, type=Meta)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def has_note(folder: Path) -> bool:
    """Tell whether there is a note beside a descriptor, also one that cannot be read."""
    return os.path.lexists(folder / (NAME + _META))


def signature(folder: Path) -> tuple[int, ...] | None:
    """Return what changes when a copy or its note does; None where one of them is missing."""
    try:
        found = [os.stat(folder / name) for name in (NAME + _META, NAME)]  # noqa: PTH116 - five hundred in a row
    except OSError:
        return None
    return tuple(number for one in found for number in (one.st_mtime_ns, one.st_size, one.st_ino))


def write(folder: Path, copy: Copy) -> None:
    """Put a copy into a folder of its own.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(folder / NAME, copy.raw)
    write_meta(folder, copy.meta)


def place(folder: Path, copy: Copy) -> bool:
    """Put a copy where nothing is yet, whole and at once; False where something is, also if it came meanwhile.

    Raises:
        OSError: the folder cannot be written.
    """
    unfinished = _unfinished(folder)
    try:
        write(unfinished, copy)
        unfinished.rename(folder)  # which no system does onto a folder that holds something
    except OSError:
        with suppress(OSError):
            remove(unfinished)
        if folder.is_dir() and any(folder.iterdir()):
            return False
        raise
    return True


def write_meta(folder: Path, meta: Meta) -> None:
    """Note something new beside a copy.

    Raises:
        OSError: the folder cannot be written.
    """
    _replace(folder / (NAME + _META), msgspec.json.format(msgspec.json.encode(meta), indent=2))


def remove(folder: Path) -> None:
    """Remove a copy, and its folder if nothing else is in it.

    The note goes last: whoever looks meanwhile must not take the copy for a file that somebody put there.
    """
    for name in (NAME, NAME + _META):
        with suppress(FileNotFoundError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()


def sweep(parent: Path, before: float) -> None:
    """Remove what was being written when a gateway ended, and has not changed since `before`."""
    from shutil import rmtree  # noqa: PLC0415 - a scan needs it not

    try:
        left = [entry for entry in os.scandir(parent) if _LEFTOVER.fullmatch(entry.name)]
    except OSError:
        return
    for entry in left:
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < before:
                rmtree(entry.path)


def safe_folder(parent: Path, name: str) -> Path | None:
    """Return the folder of that name inside `parent`; None where the name could lead anywhere else."""
    return parent / name if is_folder_name(name) else None


def host_folder(parent: Path, origin: str) -> Path | None:
    """Return the folder for a site: its host, and its port where that is not the one of https.

    None where there can be none, because no folder may have such a name.
    """
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = _file_name(parts.hostname or "")
    return safe_folder(parent, host if port == _PORTS["https"] and parts.scheme == "https" else f"{host}_{port}")


def spelled(url: str) -> str:
    """Return an address in its one spelling, so that one site has one copy and one origin.

    Raises:
        RefusedAddress: it is none that could ever be called.
    """
    from switchboard.net.guard import Guard  # noqa: PLC0415 - a scan needs no addresses

    return Guard(loopback=True, permitted=lambda _: True).target(url).url


def origin_of(url: str) -> str | None:
    """Return `scheme://host[:port]` of an address that is in its one spelling; None if it is no address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.scheme in _PORTS and parts.netloc else None


def shown_address(url: str) -> str:
    """Return what a message or a log may show of an address: no query, no user name, no password."""
    from switchboard.net.guard import Guard  # noqa: PLC0415 - a scan needs no addresses

    try:
        return Guard(loopback=True, plain=True, permitted=lambda _: True).target(url).shown
    except RefusedAddress as error:
        return str(error.details["url"])


def web_app(raw: bytes, *, system: Platform, origin: str, source: str) -> App:
    """Return the app of a descriptor that a stranger sent.

    Raises:
        InvalidDescriptor: it cannot be used, or describes something that is not on the web.
    """
    reading = read_web(raw, system=system, origin=origin)
    if reading.app is None:
        problems = [str(problem) for problem in reading.problems if problem.severity == "error"]
        raise InvalidDescriptor(
            f"The descriptor at {source} cannot be used: {problems[0]}. Tell the developer of the site.",
            problems=problems,
        )
    return reading.app


def _file_name(host: str) -> str:
    """Return a host as part of a file name, where `:` means something else on some systems."""
    try:
        return ip_address(host).exploded.replace(":", "-")
    except ValueError:
        return host


def _replace(path: Path, content: bytes) -> None:
    unfinished = _unfinished(path)
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _unfinished(path: Path) -> Path:
    """Return a name beside a path that nobody else uses now."""
    return path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")

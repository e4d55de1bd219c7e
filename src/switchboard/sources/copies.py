"""Copies of descriptors that came over the network: where they lie, and what is noted beside them.

`aai.json` is what was published, byte for byte; `aai.json.meta` says when and from where (seed 002, "Cache Metadata
Format"), and with which ETag. A copy without its note, or with a broken one, is no copy. Writing replaces whole files,
so nobody ever reads half of one.
"""

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import Http, McpHttp, Skill
from switchboard.catalog.errors import InvalidDescriptor
from switchboard.catalog.model import App, Platform
from switchboard.descriptors import aai
from switchboard.descriptors.document import LARGEST
from switchboard.sources.files import read_regular

TTL_S = 24 * 60 * 60
NAME = "aai.json"
_META = ".meta"
_LARGEST_META = 16 * 1024
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_FORBIDDEN = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_PORTS = {"https": 443}


class Meta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is noted beside a copy."""

    fetched_at: str
    ttl_seconds: int
    source_url: str
    etag: str | None = None
    registry: str | None = None
    """Which registry it came through, where it did."""

    def age_s(self, now: float) -> float:
        """Return for how long the copy has been here; forever where nobody can tell."""
        try:
            fetched = datetime.fromisoformat(self.fetched_at)
        except ValueError:
            return float("inf")
        age = now - fetched.replace(tzinfo=fetched.tzinfo or UTC).timestamp()
        return age if age >= 0 else float("inf")  # from the future: a clock was wrong

    def is_fresh(self, now: float) -> bool:
        """Tell whether nobody need be asked yet."""
        return self.age_s(now) < self.ttl_seconds


class Copy(Struct, frozen=True):
    """A descriptor as it was published, and the note beside it."""

    raw: bytes
    meta: Meta


def note(now: float, source_url: str, etag: str | None = None, registry: str | None = None) -> Meta:
    """Return the note for a copy that was fetched now."""
    at = datetime.fromtimestamp(int(now), UTC).isoformat().replace("+00:00", "Z")
    return Meta(fetched_at=at, ttl_seconds=TTL_S, source_url=source_url, etag=etag, registry=registry)


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
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write(folder: Path, copy: Copy) -> None:
    """Put a copy into a folder of its own.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _replace(folder / NAME, copy.raw)
    write_meta(folder, copy.meta)


def write_meta(folder: Path, meta: Meta) -> None:
    """Note something new beside a copy.

    Raises:
        OSError: the folder cannot be written.
    """
    _replace(folder / (NAME + _META), msgspec.json.format(msgspec.json.encode(meta), indent=2))


def remove(folder: Path) -> None:
    """Remove a copy, and its folder if nothing else is in it."""
    for name in (NAME + _META, NAME):
        with suppress(FileNotFoundError):
            (folder / name).unlink()
    with suppress(OSError):
        folder.rmdir()


def safe_folder(parent: Path, name: str) -> Path | None:
    """Return the folder of that name inside `parent`; None where the name could lead anywhere else."""
    if not _SAFE.fullmatch(name) or name.endswith(".") or _FORBIDDEN.fullmatch(name):
        return None
    return parent / name


def host_folder(parent: Path, origin: str) -> Path | None:
    """Return the folder for a site: its host, and its port where that is not the usual one."""
    parts = urlsplit(origin)
    host = (parts.hostname or "").replace(":", "-").replace("%", "-").strip("-")
    with suppress(UnicodeError):
        host = host.encode("idna").decode()
    port = parts.port or {"http": 80}.get(parts.scheme)
    usual = port is None or port == _PORTS.get(parts.scheme)
    return safe_folder(parent, host if usual else f"{host}_{port}")


def origin_of(url: str) -> str:
    """Return `scheme://host[:port]` of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def web_app(raw: bytes, *, system: Platform, origin: str, source: str) -> App:
    """Read a descriptor that a stranger sent.

    Raises:
        InvalidDescriptor: it cannot be used, or describes something that is not on the web: a site must not make this
            machine run programs.
    """
    reading = aai.read(raw, system=system, origin=origin)
    problems = [str(problem) for problem in reading.problems if problem.severity == "error"]
    if reading.app is not None and not isinstance(reading.app.execution, Http | McpHttp | Skill):
        kind = reading.app.execution.kind
        problems.append(f"$.execution.type: {kind} runs on this machine, which a web site cannot ask for; use http")
    if reading.app is None or problems:
        raise InvalidDescriptor(f"The descriptor at {source} cannot be used: {problems[0]}.", problems=problems)
    return reading.app


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise

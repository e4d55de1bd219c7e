"""Registries: directories of web apps, whose descriptors are copied into the user's folder.

Both shapes of the seeds are read: `/v1/apps` with `id`, `/api/v1/apps` with `appId`; a descriptor stands in the entry
itself or at its address. A registry that does not answer leaves the copies as they are, and one bad entry is one line
in the log. What a registry no longer lists is removed, and nothing that came from elsewhere is touched: an id belongs
to the site that served it first, until that copy is gone.

A registry the user named may be inside their own network; the addresses it hands out may not.
"""

import os
from asyncio import Semaphore, gather, to_thread
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from switchboard.actions.ports import Clock
from switchboard.catalog.errors import (
    AnswerTooLarge,
    InvalidRequest,
    NotFound,
    ServiceUnavailable,
    SwitchboardError,
    UnknownHost,
)
from switchboard.catalog.model import Platform
from switchboard.catalog.text import clean
from switchboard.sources import copies
from switchboard.sources.copies import Copy, Meta
from switchboard.sources.files import shown
from switchboard.telemetry.logs import Log

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch, Limits

_SHAPES = ("/api/v1/apps", "/v1/apps")
_AT_ONCE = 8
_MOST_APPS = 5000
_LARGEST_DIRECTORY = 16 * 1024 * 1024
_OK, _NOT_MODIFIED = 200, 304
_ABSENT = frozenset({404, 405, 410})


class Fetches(Struct, frozen=True):
    """Two clients: one for the registry that the user named, one for addresses that it hands out."""

    named: "Fetch"
    strangers: "Fetch"


class Synced(Struct, frozen=True, kw_only=True):
    """What became of one look at a registry."""

    registry: str
    listed: int = 0
    copied: int = 0
    removed: int = 0
    refused: int = 0


class _Entry(Struct):
    """One app of a directory, in every spelling that was ever used."""

    id: str | UnsetType = UNSET
    app_id: str | UnsetType = field(default=UNSET, name="appId")
    app_id_snake: str | UnsetType = field(default=UNSET, name="app_id")
    descriptor_url: str | None = None
    descriptor_url_camel: str | None = field(default=None, name="descriptorUrl")
    aai_url: str | None = None
    descriptor: Raw | UnsetType = UNSET
    descriptor_json: Raw | UnsetType = field(default=UNSET, name="descriptorJson")

    @property
    def key(self) -> str:
        return next((key for key in (self.app_id, self.id, self.app_id_snake) if key is not UNSET), "")

    @property
    def url(self) -> str | None:
        return self.descriptor_url or self.descriptor_url_camel or self.aai_url

    @property
    def inline(self) -> bytes | None:
        """The descriptor itself, as an object or as a text with one in it."""
        for raw in (self.descriptor, self.descriptor_json):
            if raw is not UNSET and bytes(raw) != b"null":
                return msgspec.json.decode(raw, type=str).encode() if bytes(raw)[:1] == b'"' else bytes(raw)
        return None


class _Directory(Struct):
    apps: list[Raw]


class Registry:
    """Keeps the copies of one registry's apps in step with it."""

    def __init__(  # noqa: PLR0913 - one address, one folder, and what they need
        self,
        base: str,
        folder: Path,
        *,
        fetches: Callable[[], Fetches],
        clock: Clock,
        system: Platform,
        log: Log,
    ) -> None:
        self._base = base.rstrip("/")
        self._folder = folder
        self._fetches = fetches
        self._clock = clock
        self._system: Platform = system
        self._log = log

    async def sync(self) -> Synced:
        """Look at the registry once, and copy what is new.

        Raises:
            SwitchboardError: the registry does not answer, or answers something else; the copies stay as they are.
        """
        url, listed = await self._directory()
        read = [self._entry(url, raw) for raw in listed]
        entries = self._different(url, (entry for entry in read if entry is not None))
        slots = Semaphore(_AT_ONCE)

        async def one(entry: _Entry) -> bool | None:
            async with slots:
                return await self._copy(entry, url)

        outcomes = await gather(*(one(entry) for entry in entries))
        # What cannot be read may be any of the apps, so none is taken for withdrawn.
        removed = 0 if None in read else await to_thread(self._forget, {entry.key for entry in entries}, url)
        return Synced(
            registry=self._base,
            listed=len(read),
            copied=outcomes.count(True),
            removed=removed,
            refused=outcomes.count(None) + len(read) - len(entries),
        )

    async def _directory(self) -> tuple[str, list[Raw]]:
        for address in self._addresses():
            url = copies.spelled(address)
            answer = await self._get(url, named=True, size=_LARGEST_DIRECTORY)
            if answer.status not in _ABSENT and not _is_page(answer):
                return url, self._listed(url, answer)
        raise NotFound(f"{self._base} is no AAI registry: it has neither {' nor '.join(_SHAPES)}.", registry=self._base)

    def _addresses(self) -> Sequence[str]:
        path = self._base.partition("://")[2]
        if path.endswith("/apps"):
            return (self._base,)
        if path.endswith("/v1"):
            return (f"{self._base}/apps",)
        return tuple(self._base + shape for shape in _SHAPES)

    def _listed(self, url: str, answer: "Answer") -> list[Raw]:
        if answer.status != _OK:
            raise ServiceUnavailable(f"The registry {url} answers {answer.status}.", registry=url, status=answer.status)
        try:
            listed = msgspec.json.decode(answer.body, type=_Directory).apps
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequest(f"The registry {url} answers something else than apps: {error}.") from error
        if len(listed) > _MOST_APPS:
            self._complain("*", f"{len(listed)} apps are listed, of which the first {_MOST_APPS} are taken", url)
        return listed[:_MOST_APPS]

    def _entry(self, url: str, raw: Raw) -> _Entry | None:
        try:
            return msgspec.json.decode(raw, type=_Entry)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._complain("?", f"the entry cannot be read: {error}", url)
            return None

    def _different(self, url: str, entries: Iterable[_Entry]) -> list[_Entry]:
        """Return the first entry of each id; folders do not tell `A` from `a` everywhere."""
        first: dict[str, _Entry] = {}
        for entry in entries:
            if first.setdefault(entry.key.casefold(), entry) is not entry:
                self._complain(entry.key, "it is listed more than once", url)
        return list(first.values())

    async def _copy(self, entry: _Entry, directory: str) -> bool | None:
        """Bring one app's copy up to date: True if it is new, False if nothing was to do, None if it is refused."""
        try:
            folder = copies.safe_folder(self._folder, entry.key)
            if folder is None:
                raise InvalidRequest("its id cannot be the name of a folder")
            url = _source(entry, directory)
            copy = await to_thread(self._bound, folder, url)
            fresh = await self._fetched(entry, directory, url, copy)
            if fresh is None:
                return False
            origin = copies.origin_of(url) or ""
            app = copies.web_app(fresh.raw, system=self._system, origin=origin, source=url)
            if app.id != entry.key:
                raise InvalidRequest(f"its descriptor is of {app.id}")
            await to_thread(self._keep, folder, fresh, copy)
        # ValueError: addresses and texts that Python itself refuses to take apart.
        except (SwitchboardError, OSError, ValueError, msgspec.DecodeError, RecursionError) as error:
            self._complain(entry.key, str(error), directory)
            return None
        return copy is None or copy.raw != fresh.raw

    def _bound(self, folder: Path, url: str) -> Copy | None:
        """Return the copy that is there, if this registry may bring its next version from `url`.

        Raises:
            InvalidRequest: the id belongs to somebody else.
        """
        copy = copies.read(folder)
        if copy is not None and copy.meta.registry is not None:
            before = copy.meta.source_url
            moved = copy.meta.registry == self._base and copies.origin_of(before) == copies.origin_of(url)
            if before == url or moved:
                return copy
            raise InvalidRequest(f"{before} served this id first; to have it from {url}, remove {shown(folder)}")
        if os.path.lexists(folder / copies.NAME):
            raise InvalidRequest(f"somebody has put an app there; to have it from {url}, remove {shown(folder)}")
        return None

    async def _fetched(self, entry: _Entry, directory: str, url: str, copy: Copy | None) -> Copy | None:
        """Return the entry's descriptor; None where the copy is as good."""
        inline = entry.inline
        now = self._clock.now()
        known = copy if copy is not None and copy.meta.source_url == url else None
        if inline is not None:
            return None if known and known.raw == inline else Copy(inline, self._note(now, url))
        if known is not None and known.meta.is_fresh(now):
            return None
        named = copies.origin_of(url) == copies.origin_of(directory)
        answer = await self._get(url, named=named, etag=known.meta.validator if known else None)
        if answer.status == _NOT_MODIFIED and known is not None:
            return Copy(known.raw, self._note(now, url, known.meta.etag))
        if answer.status != _OK:
            raise ServiceUnavailable(f"{url} answers {answer.status}.")
        return Copy(answer.body, self._note(now, url, answer.header("etag")))

    def _note(self, now: float, url: str, etag: str | None = None) -> Meta:
        return copies.note(now, url, etag, registry=self._base)

    def _keep(self, folder: Path, fresh: Copy, before: Copy | None) -> None:
        if before is not None and before.raw == fresh.raw:
            copies.write_meta(folder, fresh.meta)
        elif before is not None:
            copies.write(folder, fresh)
        elif not copies.place(folder, fresh):
            self._bound(folder, fresh.meta.source_url)  # another registry, or another gateway, was faster

    async def _get(self, url: str, *, named: bool, etag: str | None = None, size: int | None = None) -> "Answer":
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - only a gateway with a registry needs a client

        headers = [("Accept", "application/json"), *([("If-None-Match", etag)] if etag else [])]
        limits = Limits(size=size) if size is not None else Limits()
        if named:
            return await self._get_named(url, headers, limits)
        return await self._fetches().strangers.send("GET", url, headers=headers, limits=limits)

    async def _get_named(self, url: str, headers: Sequence[tuple[str, str]], limits: "Limits") -> "Answer":
        """Ask the registry itself. Where it redirects to is nobody the user named, and is asked as a stranger."""
        fetches = self._fetches()
        try:
            return await fetches.named.send("GET", url, headers=headers, limits=replace(limits, redirects=0))
        except (UnknownHost, AnswerTooLarge):
            raise
        except ServiceUnavailable as error:
            try:
                return await fetches.strangers.send("GET", url, headers=headers, limits=limits)
            except SwitchboardError:
                raise error from None

    def _forget(self, listed: set[str], directory: str) -> int:
        """Remove the copies that came through this registry and are in it no more."""
        removed = 0
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            meta = copies.read_meta(folder) if folder.name not in listed else None
            if meta is not None and meta.registry == self._base:
                try:
                    copies.remove(folder)
                    removed += 1
                except OSError as error:
                    self._complain(folder.name, f"it is withdrawn, and cannot be removed: {error}", directory)
        return removed

    def _complain(self, app_id: str, why: str, directory: str) -> None:
        said: dict[str, Any] = {"app": clean(app_id), "registry": directory, "reason": clean(why)}
        self._log.event("warning", "registry.entry.refused", self._clock.now(), **said)


def _source(entry: _Entry, directory: str) -> str:
    """Return where an entry's descriptor is published."""
    if entry.inline is not None:
        return directory
    if entry.url is None:
        raise InvalidRequest("the entry has neither a descriptor nor an address of one")
    return copies.spelled(urljoin(directory, entry.url))


def _is_page(answer: "Answer") -> bool:
    """Tell a page for people from a directory: many sites answer every address with their front page."""
    kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
    return answer.status == _OK and kind == "text/html"

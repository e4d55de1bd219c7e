"""Registries: directories of web apps, whose descriptors are copied into the user's folder.

Both shapes of the seeds are read: `/v1/apps` with `id`, `/api/v1/apps` with `appId`; a descriptor stands in the entry
itself or at its address. A registry that does not answer leaves the copies as they are, and one bad entry is one line
in the log. What a registry no longer lists is removed, and nothing that came from elsewhere is touched: an id belongs
to the site that served it first, until that copy is gone; that is where a redirect ended, not where it began.

One look has a limit in time. What could not be fetched in it, or lies on a host that does not answer, stays as it is
until the next. No query, user name or password of an address is ever logged.

A registry the user named may be inside their own network; the addresses it hands out may not.
"""

import os
from asyncio import Semaphore, create_task, gather, get_running_loop, to_thread, wait
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from switchboard.actions.ports import Clock
from switchboard.catalog.errors import (
    AnswerTooLarge,
    AuthRequired,
    CallTimeout,
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
    from asyncio import Task

    from switchboard.net.fetch import Answer, Fetch, Limits

_SHAPES = ("/api/v1/apps", "/v1/apps")
_AT_ONCE = 8
_MOST_APPS = 5000
_LARGEST_DIRECTORY = 16 * 1024 * 1024
_PATIENCE_S = 120.0
_MOST_TIMEOUTS = 3
_SHOWN_IDS = 5
_LEFTOVER_S = 60 * 60
_OK, _NOT_MODIFIED = 200, 304
_WANTS_KEY = (401, 403)
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
    postponed: int = 0
    """What there was no time for, or no answer."""


class _Entry(Struct):
    """One app of a directory, in every spelling that was ever used."""

    id: str | UnsetType = UNSET
    app_id: str | UnsetType = field(default=UNSET, name="appId")
    app_id_snake: str | UnsetType = field(default=UNSET, name="app_id")
    version: Any = None
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


class _Versioned(Struct):
    version: Any = None


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
        key: str | None = None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Build it; `key` opens this registry, and is sent to its own origin only."""
        self._key = key
        self._base = base.rstrip("/")
        self._folder = folder
        self._fetches = fetches
        self._clock = clock
        self._system: Platform = system
        self._log = log
        self._patience_s = patience_s

    async def sync(self) -> Synced:
        """Look at the registry once, and copy what is new.

        Raises:
            SwitchboardError: the registry does not answer, or answers something else; the copies stay as they are.
        """
        end = get_running_loop().time() + self._patience_s
        await to_thread(copies.sweep, self._folder, self._clock.now() - _LEFTOVER_S)
        listing = await self._directory()
        look = _Look(listing, Semaphore(_AT_ONCE), Counter(), [])
        tasks = {create_task(self._in_turn(entry, look)): entry for entry in listing.entries}
        outcomes = await self._until(end, tasks, look)
        removed = await to_thread(self._forget, listing)
        return Synced(
            registry=copies.shown_address(self._base).rstrip("/"),
            listed=listing.listed,
            copied=outcomes.count(True),
            removed=removed,
            refused=outcomes.count(None) + listing.listed - len(listing.entries) - len(look.silent),
            postponed=len(listing.entries) - len(outcomes) + len(look.silent),
        )

    async def _until(self, end: float, tasks: "dict[Task[bool | None], _Entry]", look: "_Look") -> list[bool | None]:
        """Return what became of those that were ready in time; the others are given up."""
        late: set[Task[bool | None]] = set()
        try:
            if tasks:
                _, late = await wait(tasks, timeout=max(0.0, end - get_running_loop().time()))
        finally:
            for task in tasks:
                task.cancel()
        await gather(*late, return_exceptions=True)
        self._postpone([tasks[task] for task in late], f"not fetched within {self._patience_s:g} seconds", look)
        self._postpone(look.silent, "on hosts that do not answer", look)
        return [task.result() for task in tasks if task not in late]

    async def _in_turn(self, entry: _Entry, look: "_Look") -> bool | None:
        async with look.slots:
            return await self._copy(entry, look)

    async def _directory(self) -> "_Listing":
        for address in self._addresses():
            url = copies.spelled(address)
            answer = await self._get(url, named=True, size=_LARGEST_DIRECTORY)
            if answer.status not in _ABSENT and not _is_page(answer):
                return await to_thread(self._listed, url, answer)
        shown_base = copies.shown_address(self._base).rstrip("/")
        raise NotFound(f"{shown_base} is no AAI registry: it has neither {' nor '.join(_SHAPES)}.", registry=shown_base)

    def _addresses(self) -> Sequence[str]:
        path = self._base.partition("://")[2]
        if path.endswith("/apps"):
            return (self._base,)
        if path.endswith("/v1"):
            return (f"{self._base}/apps",)
        return tuple(self._base + shape for shape in _SHAPES)

    def _listed(self, url: str, answer: "Answer") -> "_Listing":
        where = copies.shown_address(url)
        if answer.status in _WANTS_KEY:
            given = "does not take the key" if self._key else "wants a key"
            raise AuthRequired(f"The registry {where} {given} (AAI_REGISTRY_KEY).", registry=where)
        if answer.status != _OK:
            raise ServiceUnavailable(
                f"The registry {where} answers {answer.status}.", registry=where, status=answer.status
            )
        try:
            listed = msgspec.json.decode(answer.body, type=_Directory).apps
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidRequest(f"The registry {where} answers something else than apps: {error}.") from error
        if len(listed) > _MOST_APPS:
            self._complain("*", f"{len(listed)} apps are listed, of which the first {_MOST_APPS} are taken", url)
        taken, doubtful = listed[:_MOST_APPS], [bytes(raw) for raw in listed[_MOST_APPS:]]
        read: list[_Entry] = []
        for raw in taken:
            entry = self._entry(url, raw)
            if entry is None:
                doubtful.append(bytes(raw))
            else:
                read.append(entry)
        different = self._different(url, read)
        ids = frozenset(entry.key for entry in different)
        return _Listing(url, answer.url, len(taken), different, ids, b"\n".join(doubtful).lower())

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

    async def _copy(self, entry: _Entry, look: "_Look") -> bool | None:
        """Bring one app's copy up to date: True if it is new, False if nothing was to do, None if it is refused."""
        try:
            folder = copies.safe_folder(self._folder, entry.key)
            if folder is None:
                raise InvalidRequest("its id cannot be the name of a folder")
            url = _source(entry, look.listing)
            copy = await to_thread(self._bound, folder, url)
            fresh = await self._fetched(entry, look, url, copy)
            if fresh is None:
                return False
            return await to_thread(self._take, entry, folder, fresh, copy)
        except _Postponed:
            look.silent.append(entry)
        # ValueError: addresses and texts that Python itself refuses to take apart.
        except (SwitchboardError, OSError, ValueError, msgspec.DecodeError, RecursionError) as error:
            self._complain(entry.key, str(error), look.listing.url)
        return None

    def _take(self, entry: _Entry, folder: Path, fresh: Copy, copy: Copy | None) -> bool:
        """Put a descriptor into its folder, if it is what the entry says; tell whether it is new."""
        source = _checked(fresh.meta.source_url)
        if copy is not None and copies.origin_of(source) != copies.origin_of(copy.meta.source_url):
            raise _taken(copy, source, folder)
        origin = copies.origin_of(source) or ""
        where = copies.shown_address(source)
        app = copies.web_app(fresh.raw, system=self._system, origin=origin, source=where)
        if app.id != entry.key:
            raise InvalidRequest(f"its descriptor is of {app.id}")
        self._keep(folder, fresh, copy)
        return copy is None or copy.raw != fresh.raw

    def _bound(self, folder: Path, url: str) -> Copy | None:
        """Return the copy that is there, if this registry may bring its next version from `url`.

        Raises:
            InvalidRequest: the id belongs to somebody else.
        """
        copy = copies.read(folder)
        if copy is not None and copy.meta.registry is not None:
            before = (copy.meta.asked, copy.meta.source_url)
            origins = [copies.origin_of(one) for one in before]
            moved = copy.meta.registry == self._base and copies.origin_of(url) in origins
            if url in before or moved:
                return copy
            raise _taken(copy, url, folder)
        if os.path.lexists(folder / copies.NAME):
            where = copies.shown_address(url)
            raise InvalidRequest(f"somebody has put an app there; to have it from {where}, remove {shown(folder)}")
        return None

    async def _fetched(self, entry: _Entry, look: "_Look", url: str, copy: Copy | None) -> Copy | None:
        """Return the entry's descriptor; None where the copy is as good."""
        inline = entry.inline
        now = self._clock.now()
        known = copy if copy is not None and copy.meta.asked == url else None
        if inline is not None:
            return None if known and known.raw == inline else Copy(inline, self._note(now, url, url))
        if known is not None and known.meta.is_fresh(now) and not _is_newer(entry, known):
            return None
        answer = await self._patiently(url, look, known)
        ended = answer.url
        if answer.status == _NOT_MODIFIED and known is not None:
            return Copy(known.raw, self._note(now, url, ended, known.meta.etag))
        if answer.status != _OK:
            raise ServiceUnavailable(f"{copies.shown_address(url)} answers {answer.status}.")
        return Copy(answer.body, self._note(now, url, ended, answer.header("etag")))

    async def _patiently(self, url: str, look: "_Look", known: Copy | None) -> "Answer":
        """Ask for a descriptor, unless its host has kept others waiting too often."""
        host = copies.origin_of(url) or ""
        if look.timeouts[host] >= _MOST_TIMEOUTS:
            raise _Postponed
        named = host == copies.origin_of(look.listing.url)
        try:
            return await self._get(url, named=named, etag=known.meta.validator if known else None)
        except CallTimeout:
            look.timeouts[host] += 1
            raise

    def _note(self, now: float, asked: str, ended: str, etag: str | None = None) -> Meta:
        return copies.note(now, ended, etag, registry=self._base, asked_url=asked)

    def _keep(self, folder: Path, fresh: Copy, before: Copy | None) -> None:
        if before is not None and before.raw == fresh.raw:
            copies.write_meta(folder, fresh.meta)
        elif before is not None:
            copies.write(folder, fresh)
        elif not copies.place(folder, fresh):
            self._bound(folder, fresh.meta.asked)  # another registry, or another gateway, was faster

    async def _get(self, url: str, *, named: bool, etag: str | None = None, size: int | None = None) -> "Answer":
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - only a gateway with a registry needs a client

        headers = [("Accept", "application/json"), *([("If-None-Match", etag)] if etag else [])]
        limits = Limits(size=size) if size is not None else Limits()
        if named:
            # The client drops it where a redirect leads elsewhere.
            key = [("Authorization", f"Bearer {self._key}")] if self._key else []
            return await self._get_named(url, [*headers, *key], limits)
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
            except CallTimeout:
                raise
            except SwitchboardError:
                raise error from None

    def _forget(self, listing: "_Listing") -> int:
        """Remove the copies that came through this registry and are in it no more."""
        removed = 0
        for folder in self._folder.iterdir() if self._folder.is_dir() else ():
            meta = copies.read_meta(folder) if not listing.may_hold(folder.name) else None
            if meta is not None and meta.registry == self._base:
                try:
                    copies.remove(folder)
                    removed += 1
                except OSError as error:
                    self._complain(folder.name, f"it is withdrawn, and cannot be removed: {error}", listing.url)
        return removed

    def _complain(self, app_id: str, why: str, directory: str) -> None:
        where = copies.shown_address(directory)
        said: dict[str, Any] = {"app": clean(app_id), "registry": where, "reason": clean(why)}
        self._log.event("warning", "registry.entry.refused", self._clock.now(), **said)

    def _postpone(self, entries: Sequence[_Entry], why: str, look: "_Look") -> None:
        if entries:
            first = [clean(entry.key) for entry in entries[:_SHOWN_IDS]]
            said: dict[str, Any] = {"registry": copies.shown_address(look.listing.url), "count": len(entries)}
            reason = f"{why}; tried again next time"
            self._log.event("warning", "registry.postponed", self._clock.now(), **said, first=first, reason=reason)


class _Listing(NamedTuple):
    """A directory that was read: what was asked, where that ended, and who is in it."""

    url: str
    ended: str
    listed: int
    entries: list[_Entry]
    ids: frozenset[str]
    doubtful: bytes
    """The text of what could not be read or was too much, in small letters: it may be about any app it names."""

    def may_hold(self, app_id: str) -> bool:
        """Tell whether an app is listed, or may be."""
        if app_id in self.ids:
            return True
        # With escapes in it, a text names what cannot be found in it.
        return app_id.lower().encode() in self.doubtful or b"\\u" in self.doubtful


class _Look(NamedTuple):
    """One sync on its way: who may ask now, which hosts kept us waiting how often, and who was left out for that."""

    listing: _Listing
    slots: Semaphore
    timeouts: Counter[str]
    silent: list[_Entry]


class _Postponed(Exception):
    """An app is not asked for in this look."""


def _source(entry: _Entry, listing: _Listing) -> str:
    """Return where an entry's descriptor is published."""
    if entry.inline is not None:
        return listing.ended
    if entry.url is None:
        raise InvalidRequest("the entry has neither a descriptor nor an address of one")
    return _checked(copies.spelled(urljoin(listing.url, entry.url)))


def _is_newer(entry: _Entry, copy: Copy) -> bool:
    """Tell whether a registry lists another version than the one that was copied, however fresh that is."""
    if not isinstance(entry.version, str):
        return False
    try:
        return msgspec.json.decode(copy.raw, type=_Versioned).version != entry.version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True


def _checked(url: str) -> str:
    """Return an address that can be noted."""
    if len(url) > copies.LONGEST_SOURCE:
        raise InvalidRequest(f"its address is longer than {copies.LONGEST_SOURCE} characters")
    return url


def _taken(copy: Copy, url: str, folder: Path) -> InvalidRequest:
    first, other = copies.shown_address(copy.meta.source_url), copies.shown_address(url)
    return InvalidRequest(f"{first} served this id first; to have it from {other}, remove {shown(folder)}")


def _is_page(answer: "Answer") -> bool:
    """Tell a page for people from a directory: many sites answer every address with their front page."""
    kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
    return answer.status == _OK and kind == "text/html"

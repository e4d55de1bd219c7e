"""Descriptors that web sites publish at `/.well-known/aai.json`, fetched when asked for and kept for a day.

A copy is asked about again after its time, by its ETag where it has one. When the site does not answer, an old copy is
better than none, and says that it is old. That nothing can be kept is never a reason to fail. However many sites are
asked, memory and the time for a look stay small: few apps are kept whole, and of the others what they are called.
"""

import os
from asyncio import Lock, to_thread
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock as ThreadLock
from typing import TYPE_CHECKING, NamedTuple, final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from switchboard.actions.ports import Clock, Web, WebApp
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.catalog.errors import (
    CallTimeout,
    InvalidDescriptor,
    ServiceUnavailable,
    SwitchboardError,
    UnknownApp,
    UnknownHost,
)
from switchboard.catalog.model import App, Platform
from switchboard.sources import copies
from switchboard.sources.copies import Copy

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch

PATH = "/.well-known/aai.json"
_OK, _NOT_MODIFIED, _MANY, _FAILING = 200, 304, 429, 500
_GONE = frozenset({404, 410})
_WHOLE = 64
"""How many apps are kept in memory as a whole."""
_MOST_SITES = 500
_REST_S = 30.0
"""For how long a site that did not answer in time is left alone: everybody who waits would wait as long again."""


class _Known(NamedTuple):
    """A copy that can be used, and what it says."""

    copy: Copy
    app: App


class _Listed(NamedTuple):
    """What a copy's app is called, as of some signature of its files; None where it is no site's copy."""

    signature: tuple[int, ...]
    found: WebApp | None


@final
class WellKnown(Web):
    """Asks sites, through the guarded client, and remembers what they said in a folder per host.

    The client is made when the first site is asked: what is remembered costs no network, and no import of it.
    """

    def __init__(  # noqa: PLR0913 - collaborators, and two limits that tests make small
        self,
        folder: Path,
        fetch: "Callable[[], Fetch]",
        clock: Clock,
        system: Platform,
        *,
        patience_s: float = 10.0,
        most_sites: int = _MOST_SITES,
        caches: Caches = USUAL,
    ) -> None:
        self._folder = folder
        self._fetch = fetch
        self._clock = clock
        self._patience_s = patience_s
        self._most_sites = most_sites
        self._locks: WeakValueDictionary[str, Lock] = WeakValueDictionary()
        self._caches = caches
        self._apps = LastRead(system, caches.most(_WHOLE))
        self._index: dict[str, _Listed] = {}
        self._silent: dict[str, tuple[float, str]] = {}
        """Until when a site is left alone, and why."""
        self._unwritten: dict[str, Copy] = {}
        """What no folder could take, by site. Replaced, never changed: threads look at it."""

    async def at(self, origin: str) -> WebApp:
        """Return the app of a site, from its copy while that is fresh."""
        site = copies.spelled(origin + PATH).removesuffix(PATH)
        lock = self._locks.setdefault(site, Lock())
        async with lock:
            known = await to_thread(self._known, site)
            # A site on this machine is being worked on: its author wants to see the last change, not yesterday's.
            if known is not None and known.copy.meta.is_fresh(self._clock.now()) and not site.startswith("http:"):
                return WebApp(app=known.app, origin=site)
            return await self._ask(site, known)

    async def remembered(self) -> Sequence[WebApp]:
        """Return every site's app that is in the folder, or could not be put there, with no more than its names."""
        return await to_thread(self._look)

    async def _ask(self, origin: str, known: _Known | None) -> WebApp:
        try:
            answer = await self._get(origin, known)
        except UnknownHost as error:
            if known is None:
                raise UnknownApp(origin, because="its host cannot be found") from error
            return _old(origin, known, error.message)
        except (CallTimeout, ServiceUnavailable) as error:
            if known is None:
                raise
            return _old(origin, known, error.message)
        return await self._understood(origin, known, answer)

    async def _get(self, origin: str, known: _Known | None) -> "Answer":
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - see above

        until, why = self._silent.get(origin, (0.0, ""))
        if self._clock.passed() < until:
            raise CallTimeout(why)
        headers = [("Accept", "application/json, application/aai+json")]
        if known is not None and known.copy.meta.validator:
            headers.append(("If-None-Match", known.copy.meta.validator))
        limits = Limits(seconds=self._patience_s)
        try:
            answer = await self._fetch().send("GET", origin + PATH, headers=headers, limits=limits)
        except CallTimeout as error:
            self._leave_alone(origin, error)
            raise
        if answer.status == _MANY or answer.status >= _FAILING:
            raise ServiceUnavailable(
                f"{origin} answers {answer.status}. Try again later.", origin=origin, status=answer.status
            )
        return answer

    def _leave_alone(self, origin: str, error: SwitchboardError) -> None:
        now = self._clock.passed()
        still = {site: noted for site, noted in self._silent.items() if noted[0] > now}
        self._silent = still | {origin: (now + _REST_S, error.message)}

    async def _understood(self, origin: str, known: _Known | None, answer: "Answer") -> WebApp:
        elsewhere = copies.origin_of(answer.url)
        if elsewhere != origin and not is_same_site(origin, elsewhere or ""):
            # What another site says is its own word: under the first one's name it would have its consents and secrets.
            raise UnknownApp(origin, because=f"it redirects to {elsewhere}; ask for that address instead")
        url = origin + PATH
        if answer.status == _NOT_MODIFIED and known is not None:
            meta = copies.note(self._clock.now(), url, answer.header("etag") or known.copy.meta.etag)
            await to_thread(self._keep, origin, Copy(known.copy.raw, meta))
            return WebApp(app=known.app, origin=origin)
        if answer.status in _GONE or (answer.status == _OK and is_page(answer)):
            await to_thread(self._forget, origin)
            raise UnknownApp(origin, because=f"it publishes no descriptor at {PATH}")
        if answer.status != _OK:
            if known is None:
                raise UnknownApp(origin, because=f"it answers {answer.status} at {PATH}")
            return _old(origin, known, f"{origin} answers {answer.status}. Try again later.")
        app = await to_thread(self._apps.read, answer.body, origin)
        meta = copies.note(self._clock.now(), url, answer.header("etag"))
        await to_thread(self._keep, origin, Copy(answer.body, meta))
        return WebApp(app=app, origin=origin)

    def _known(self, origin: str) -> _Known | None:
        """Return what is kept of this very site, if it can be used."""
        copy = self._copy_of(origin)
        if copy is None:
            return None
        try:
            return _Known(copy, self._apps.read(copy.raw, origin))
        except InvalidDescriptor:  # damaged, written by an older version, or by hand
            return None

    def _copy_of(self, origin: str) -> Copy | None:
        folder = copies.host_folder(self._folder, origin)
        copy = self._unwritten.get(origin) or (None if folder is None else copies.read(folder))
        return copy if copy is not None and copy.meta.source_url == origin + PATH else None

    def _keep(self, origin: str, copy: Copy) -> None:
        folder = copies.host_folder(self._folder, origin)
        if folder is not None:
            with suppress(OSError):
                is_new = not folder.exists()
                copies.write(folder, copy)
                self._unwritten = _without(origin, self._unwritten)
                if is_new:
                    self._make_room()
                return
        others = [*_without(origin, self._unwritten).items()]
        self._unwritten = dict([*others[1 - _WHOLE :], (origin, copy)])

    def _make_room(self) -> None:
        """Remove the oldest copies of sites that are too many; nothing is touched that is no such copy."""
        for folder, _ in self._by_age()[self._most_sites :]:
            if _site_of(self._folder, folder) is not None:
                with suppress(OSError):
                    copies.remove(folder)

    def _forget(self, origin: str) -> None:
        folder = copies.host_folder(self._folder, origin)
        self._unwritten = _without(origin, self._unwritten)
        if folder is not None:
            with suppress(OSError):
                copies.remove(folder)

    def _look(self) -> list[WebApp]:
        """Return who is there; only what has changed since the last look is read."""
        before, now = self._index, dict[str, _Listed]()
        for folder, signature in sorted(self._by_age()[: self._most_sites]):
            known = before.get(folder.name)
            fresh = known is not None and known.signature == signature
            now[folder.name] = known if known and fresh else _Listed(signature, self._listed(folder))
        self._index = dict(islice(now.items(), self._caches.most(len(now))))
        unwritten = self._unwritten
        kept = [one.found for one in now.values() if one.found is not None and one.found.origin not in unwritten]
        return [*kept, *self._others(unwritten)]

    def _by_age(self) -> list[tuple[Path, tuple[int, ...]]]:
        """Return the folders that hold a copy with a note, the latest first."""
        try:
            folders = [self._folder / name for name in os.listdir(self._folder)]  # noqa: PTH208 - names are enough
        except OSError:
            return []
        found = [(folder, signature) for folder in folders if (signature := copies.signature(folder)) is not None]
        return sorted(found, key=lambda one: one[1], reverse=True)

    def _listed(self, folder: Path) -> WebApp | None:
        origin = _site_of(self._folder, folder)
        copy = None if origin is None else copies.read(folder)
        if origin is None or copy is None or copy.meta.source_url != origin + PATH:
            return None
        try:
            app = self._apps.parsed(copy.raw, origin)
        except InvalidDescriptor:
            return None
        return WebApp(app=replace(app, capabilities=(), auth=None, raw=b""), origin=origin)

    def _others(self, unwritten: dict[str, Copy]) -> Iterable[WebApp]:
        for site, copy in unwritten.items():
            yield WebApp(app=self._apps.read(copy.raw, site), origin=site)


@final
class LastRead:
    """The apps that were read last, whole; the same bytes of the same site are read once. For use from any thread."""

    def __init__(self, system: Platform, most: int = _WHOLE) -> None:
        self._system: Platform = system
        self._lock = ThreadLock()
        self._last: Cache[str, tuple[bytes, App]] = Cache(most)

    def read(self, raw: bytes, origin: str) -> App:
        """Return the app of a descriptor, and remember it.

        Raises:
            InvalidDescriptor: it cannot be used.
        """
        with self._lock:
            known = self._last.get(origin)
        app = known[1] if known is not None and known[0] == raw else self.parsed(raw, origin)
        with self._lock:
            self._last.keep(origin, (raw, app))
        return app

    def parsed(self, raw: bytes, origin: str) -> App:
        """Return the app of a descriptor.

        Raises:
            InvalidDescriptor: it cannot be used.
        """
        return copies.web_app(raw, system=self._system, origin=origin, source=origin + PATH)


def _without(origin: str, unwritten: dict[str, Copy]) -> dict[str, Copy]:
    return {site: copy for site, copy in unwritten.items() if site != origin}


def _old(origin: str, known: _Known, why: str) -> WebApp:
    stale = f"This is a copy from {known.copy.meta.fetched_at}, because the site cannot be asked now: {why}"
    return WebApp(app=known.app, origin=origin, stale=stale)


def _site_of(parent: Path, folder: Path) -> str | None:
    """Return the site whose copy a folder holds, if it is the folder of that site."""
    meta = copies.read_meta(folder)
    origin = None if meta is None else copies.origin_of(meta.source_url)
    return origin if origin is not None and copies.host_folder(parent, origin) == folder else None


def is_same_site(one: str, other: str) -> bool:
    """Tell whether two origins differ by no more than a `www.`, which whoever has the one has as well."""
    scheme, _, host = one.partition("://")
    return other in (f"{scheme}://www.{host}", f"{scheme}://{host.removeprefix('www.')}")


def is_page(answer: "Answer") -> bool:
    """Tell a page from a descriptor: many sites answer every address with their front page."""
    kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
    return kind == "text/html" or answer.body.lstrip()[:1] == b"<"

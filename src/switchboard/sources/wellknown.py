"""Descriptors that web sites publish at `/.well-known/aai.json`, fetched when asked for and kept for a day.

A copy is asked about again after its time, by its ETag where it has one. When the site does not answer, an old copy is
better than none, and says that it is old. That nothing can be kept is never a reason to fail.
"""

from asyncio import Lock, to_thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, final

from switchboard.actions.ports import Clock, Web, WebApp
from switchboard.catalog.errors import (
    CallTimeout,
    InvalidDescriptor,
    ServiceUnavailable,
    UnknownApp,
    UnknownHost,
)
from switchboard.catalog.model import App, Platform
from switchboard.sources import copies
from switchboard.sources.copies import Copy

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch

_PATH = "/.well-known/aai.json"
_OK, _NOT_MODIFIED, _MANY, _FAILING = 200, 304, 429, 500


@final
class WellKnown(Web):
    """Asks sites, through the guarded client, and remembers what they said in a folder per host.

    The client is made when the first site is asked: what is remembered costs no network, and no import of it.
    """

    def __init__(
        self, folder: Path, fetch: "Callable[[], Fetch]", clock: Clock, system: Platform, *, patience_s: float = 10.0
    ) -> None:
        self._folder = folder
        self._fetch = fetch
        self._clock = clock
        self._system: Platform = system
        self._patience_s = patience_s
        self._locks: dict[str, Lock] = {}
        self._read: dict[str, tuple[bytes, App]] = {}
        self._unwritten: dict[str, Copy] = {}
        """What no folder could take, by site."""

    async def at(self, origin: str) -> WebApp:
        """Return the app of a site, from its copy while that is fresh."""
        site = copies.spelled(origin + _PATH).removesuffix(_PATH)
        async with self._locks.setdefault(site, Lock()):
            copy = await to_thread(self._copy_of, site)
            # A site on this machine is being worked on: its author wants to see the last change, not yesterday's.
            if copy is not None and copy.meta.is_fresh(self._clock.now()) and not site.startswith("http:"):
                return WebApp(app=self._app(copy.raw, site), origin=site)
            return await self._ask(site, copy)

    async def remembered(self) -> Sequence[WebApp]:
        """Return every site's app that is in the folder, or could not be put there."""
        kept = await to_thread(self._look)
        others = list(self._unwritten.items())
        return [*kept, *(WebApp(app=self._app(copy.raw, site), origin=site) for site, copy in others)]

    async def _ask(self, origin: str, copy: Copy | None) -> WebApp:
        try:
            answer = await self._get(origin, copy)
        except UnknownHost as error:
            if copy is None:
                raise UnknownApp(origin, because="its host cannot be found") from error
            return self._old(origin, copy, error.message)
        except (CallTimeout, ServiceUnavailable) as error:
            if copy is None:
                raise
            return self._old(origin, copy, error.message)
        return await self._understood(origin, copy, answer)

    async def _get(self, origin: str, copy: Copy | None) -> "Answer":
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - see above

        headers = [("Accept", "application/json, application/aai+json")]
        if copy is not None and copy.meta.validator:
            headers.append(("If-None-Match", copy.meta.validator))
        limits = Limits(seconds=self._patience_s)
        answer = await self._fetch().send("GET", origin + _PATH, headers=headers, limits=limits)
        if answer.status == _MANY or answer.status >= _FAILING:
            raise ServiceUnavailable(f"{origin} answers {answer.status}.", origin=origin, status=answer.status)
        return answer

    async def _understood(self, origin: str, copy: Copy | None, answer: "Answer") -> WebApp:
        url = origin + _PATH
        if answer.status == _NOT_MODIFIED and copy is not None:
            meta = copies.note(self._clock.now(), url, answer.header("etag") or copy.meta.etag)
            await to_thread(self._keep, origin, Copy(copy.raw, meta))
            return WebApp(app=self._app(copy.raw, origin), origin=origin)
        if answer.status != _OK or _is_page(answer):
            await to_thread(self._forget, origin)
            raise UnknownApp(origin, because=f"it publishes no descriptor at {_PATH}")
        app = self._app(answer.body, origin)
        meta = copies.note(self._clock.now(), url, answer.header("etag"))
        await to_thread(self._keep, origin, Copy(answer.body, meta))
        return WebApp(app=app, origin=origin)

    def _old(self, origin: str, copy: Copy, why: str) -> WebApp:
        stale = f"This is a copy from {copy.meta.fetched_at}, because the site cannot be asked now: {why}"
        return WebApp(app=self._app(copy.raw, origin), origin=origin, stale=stale)

    def _app(self, raw: bytes, origin: str) -> App:
        """Read a descriptor; the same bytes of the same site are read once."""
        known = self._read.get(origin)
        if known is None or known[0] != raw:
            app = copies.web_app(raw, system=self._system, origin=origin, source=origin + _PATH)
            known = self._read[origin] = (raw, app)
        return known[1]

    def _copy_of(self, origin: str) -> Copy | None:
        """Return what is kept of this very site, if it can be used."""
        folder = copies.host_folder(self._folder, origin)
        copy = self._unwritten.get(origin) or (None if folder is None else copies.read(folder))
        if copy is None or copy.meta.source_url != origin + _PATH:
            return None
        try:
            self._app(copy.raw, origin)
        except InvalidDescriptor:  # damaged, written by an older version, or by hand
            return None
        return copy

    def _keep(self, origin: str, copy: Copy) -> None:
        folder = copies.host_folder(self._folder, origin)
        if folder is not None:
            with suppress(OSError):
                copies.write(folder, copy)
                self._unwritten.pop(origin, None)
                return
        self._unwritten[origin] = copy

    def _forget(self, origin: str) -> None:
        folder = copies.host_folder(self._folder, origin)
        self._unwritten.pop(origin, None)
        if folder is not None:
            with suppress(OSError):
                copies.remove(folder)

    def _look(self) -> list[WebApp]:
        try:
            folders = sorted(self._folder.iterdir())
        except OSError:
            return []
        return [found for folder in folders if (found := self._remembered_in(folder)) is not None]

    def _remembered_in(self, folder: Path) -> WebApp | None:
        meta = copies.read_meta(folder)
        origin = None if meta is None else copies.origin_of(meta.source_url)
        if origin is None or origin in self._unwritten or copies.host_folder(self._folder, origin) != folder:
            return None
        copy = self._copy_of(origin)
        return None if copy is None else WebApp(app=self._app(copy.raw, origin), origin=origin)


def _is_page(answer: "Answer") -> bool:
    """Tell a page from a descriptor: many sites answer every address with their front page."""
    kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
    return kind == "text/html" or answer.body.lstrip()[:1] == b"<"

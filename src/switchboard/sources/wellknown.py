"""Descriptors that web sites publish at `/.well-known/aai.json`, fetched when asked for and kept for a day.

A copy is asked about again after its time, by its ETag where it has one. When the site does not answer, an old copy is
better than none, and says that it is old.
"""

from asyncio import Lock, to_thread
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

from switchboard.actions.ports import Clock, Web, WebApp
from switchboard.catalog.errors import (
    CallTimeout,
    InvalidDescriptor,
    RefusedAddress,
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

    def __init__(self, folder: Path, fetch: "Callable[[], Fetch]", clock: Clock, system: Platform) -> None:
        self._folder = folder
        self._fetch = fetch
        self._clock = clock
        self._system: Platform = system
        self._locks: dict[str, Lock] = {}
        self._read: dict[str, tuple[bytes, App]] = {}

    async def at(self, origin: str) -> WebApp:
        """Return the app of a site, from its copy while that is fresh."""
        async with self._locks.setdefault(origin, Lock()):
            folder = copies.host_folder(self._folder, origin)
            if folder is None:
                raise RefusedAddress(origin, "that is not the name of a host")
            copy = await to_thread(_copy_of, folder, origin + _PATH)
            if copy is not None and copy.meta.is_fresh(self._clock.now()):
                return WebApp(app=self._app(copy.raw, origin), origin=origin)
            return await self._ask(origin, folder, copy)

    async def remembered(self) -> Sequence[WebApp]:
        """Return every site's app that is in the folder."""
        return [found for found in await to_thread(self._look) if found is not None]

    async def _ask(self, origin: str, folder: Path, copy: Copy | None) -> WebApp:
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
        return await self._understood(origin, folder, copy, answer)

    async def _get(self, origin: str, copy: Copy | None) -> "Answer":
        headers = [("Accept", "application/json, application/aai+json")]
        if copy is not None and copy.meta.etag:
            headers.append(("If-None-Match", copy.meta.etag))
        answer = await self._fetch().send("GET", origin + _PATH, headers=headers)
        if answer.status == _MANY or answer.status >= _FAILING:
            raise ServiceUnavailable(f"{origin} answers {answer.status}.", origin=origin, status=answer.status)
        return answer

    async def _understood(self, origin: str, folder: Path, copy: Copy | None, answer: "Answer") -> WebApp:
        url = origin + _PATH
        if answer.status == _NOT_MODIFIED and copy is not None:
            meta = copies.note(self._clock.now(), url, answer.header("etag") or copy.meta.etag)
            await to_thread(copies.write_meta, folder, meta)
            return WebApp(app=self._app(copy.raw, origin), origin=origin)
        if answer.status != _OK or _is_page(answer):
            await to_thread(copies.remove, folder)
            raise UnknownApp(origin, because=f"it publishes no descriptor at {_PATH}")
        app = self._app(answer.body, origin)
        meta = copies.note(self._clock.now(), url, answer.header("etag"))
        await to_thread(copies.write, folder, Copy(answer.body, meta))
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

    def _look(self) -> list[WebApp | None]:
        try:
            folders = sorted(self._folder.iterdir())
        except OSError:
            return []
        return [self._remembered_in(folder) for folder in folders]

    def _remembered_in(self, folder: Path) -> WebApp | None:
        copy = copies.read(folder)
        if copy is None:
            return None
        origin = copies.origin_of(copy.meta.source_url)
        if copies.host_folder(self._folder, origin) != folder:
            return None
        try:
            return WebApp(app=self._app(copy.raw, origin), origin=origin)
        except InvalidDescriptor:  # written by an older version, or by hand; asking for it says what is wrong
            return None


def _copy_of(folder: Path, url: str) -> Copy | None:
    """Return the copy in a folder if it is of this very address."""
    copy = copies.read(folder)
    return copy if copy is not None and copy.meta.source_url == url else None


def _is_page(answer: "Answer") -> bool:
    """Tell a page from a descriptor: many sites answer every address with their front page."""
    kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
    return kind == "text/html" or answer.body.lstrip()[:1] == b"<"

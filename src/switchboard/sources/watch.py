"""Notices when something changes in the scanned places.

The operating system tells (through watchfiles), so that an idle gateway costs next to nothing. A folder that does not
exist is noticed by its nearest parent that does; only the folders of the layout are watched, and those that links and
desktop entries lead to, never the trees below them. What exactly changed is not said: whoever is told looks again, and
a look costs little where little changed.
"""

import os
from asyncio import Event, get_running_loop, sleep, to_thread
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Self

from switchboard.sources.desktop import candidates
from switchboard.sources.places import Place

_TOGETHER_MS = 800
_POLL_MS = 1000
_RETRY_S = 1.0
_STEP_MS = 300
"""How often the watcher looks at what it was told: a change is passed on after one or two of these."""


async def watch(places: Iterable[Place], changed: Callable[[], Awaitable[None]]) -> None:
    """Call `changed` once as soon as watching has begun, and after every change from then on, for ever.

    After each change everything is watched anew: a folder that was deleted and made again has the same name, and often
    the same number too, and nobody watches it any more.
    """
    wanted = tuple(places)
    while True:
        watched = await to_thread(folders, wanted)
        try:
            watcher = _Watcher(watched)
        except FileNotFoundError:  # a folder went while we looked
            await sleep(_RETRY_S)
            continue
        async with watcher:
            if await to_thread(folders, wanted) != watched:  # one came while we looked
                continue
            await changed()  # what happened before anybody watched
            await watcher.news()
        if watcher.failed:
            await sleep(_RETRY_S)


def folders(places: Iterable[Place]) -> tuple[Path, ...]:
    """Return the folders in which a change can mean a change of an app."""
    found: dict[Path, None] = {}
    for place in places:
        base = place.path.parent if place.shape == "file" else place.path
        existing = _nearest(base, *base.parents)
        if existing is not None:
            found[existing] = None
        if place.shape in ("apps", "bundles") and existing == base:
            found.update(dict.fromkeys(_inner(place)))
        found.update(dict.fromkeys(_pointed(place)))
    return tuple(found)


def _inner(place: Place) -> Iterator[Path]:
    """Yield the folder of each app; in one that is just being installed, as much of the way as there is."""
    inside = ("Contents/Resources", "Contents") if place.shape == "bundles" else ()
    try:
        children = sorted(child for child in place.path.iterdir() if place.holds(child.name))
    except OSError:
        return
    for child in children:
        folder = _nearest(*(child / way for way in inside), child)
        if folder is not None:
            yield folder


def _pointed(place: Place) -> Iterator[Path]:
    """Yield the folders of descriptors that lie elsewhere: where an entry points to, where a link leads."""
    try:
        found = candidates(place)
    except OSError:
        return
    for candidate in found:
        path = candidate.path
        ways = [path] if place.shape == "entries" else []
        if path.is_symlink():
            ways.append(Path(os.path.realpath(path)))
        for way in ways:
            # No further up: the next folder that is there may be one in which something changes all the time.
            folder = _nearest(way.parent, way.parent.parent)
            if folder is not None and os.access(folder, os.R_OK | os.X_OK):
                yield folder


def _nearest(*ways: Path) -> Path | None:
    """Return the first that is a folder; what may not be looked at is none, which `Path.is_dir` does not say."""
    return next((folder for folder in ways if os.path.isdir(folder)), None)  # noqa: PTH112


class _Watcher:
    """Watches some folders from a thread of its own, from `__init__` on, so that nothing between two looks is lost."""

    def __init__(self, watched: Iterable[Path]) -> None:
        # The documented way to the library's engine: its asynchronous shell needs anyio, and says not when it began.
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 - a start must not wait for it

        names = [str(folder) for folder in watched]
        try:
            self._engine = RustNotify(names, False, False, _POLL_MS, False, True)
        except (OSError, RuntimeError):  # no more watches to be had, or a file system without
            self._engine = RustNotify(names, False, True, _POLL_MS, False, True)
        self._loop = get_running_loop()
        self._news = Event()
        self._stop = Flag()
        self.failed = False
        """Whether the watching itself came to an end."""

    async def __aenter__(self) -> Self:
        Thread(target=self._listen, daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()

    async def news(self) -> None:
        """Wait until something has changed."""
        await self._news.wait()

    def _listen(self) -> None:
        try:
            with self._engine:
                while not isinstance(self._engine.watch(_TOGETHER_MS, _STEP_MS, 0, self._stop), set):
                    if self._stop.is_set():
                        return
        except (OSError, RuntimeError):
            self.failed = True
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know
            self._loop.call_soon_threadsafe(self._news.set)

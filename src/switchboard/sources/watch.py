"""Notices when something changes in the scanned places.

The operating system tells (through watchfiles), so that an idle gateway costs next to nothing. A folder that does not
exist is noticed by its nearest parent that does; only the folders of the layout are watched, never the trees below
them. What exactly changed is not said: whoever is told looks again, and a look costs little where little changed.
"""

from asyncio import Event, get_running_loop, sleep, to_thread
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Self

from switchboard.sources.places import Place

_TOGETHER_MS = 800
_POLL_MS = 1000
_RETRY_S = 1.0
_STEP_MS = 300
"""How often the watcher looks at what it was told: a change is passed on after one or two of these."""


async def watch(places: Iterable[Place], changed: Callable[[], Awaitable[None]]) -> None:
    """Call `changed` once as soon as watching has begun, and after every change from then on, for ever."""
    wanted = tuple(places)
    while True:
        watched = await to_thread(folders, wanted)
        try:
            watcher = _Watcher(watched)
        except FileNotFoundError:  # a folder went while we looked
            await sleep(_RETRY_S)
            continue
        async with watcher:
            await changed()  # what happened before anybody watched
            while await to_thread(folders, wanted) == watched:
                await watcher.news()
                await changed()


def folders(places: Iterable[Place]) -> tuple[Path, ...]:
    """Return the folders in which a change can mean a change of an app."""
    found: dict[Path, None] = {}
    for place in places:
        base = place.path.parent if place.shape == "file" else place.path
        existing = next((folder for folder in (base, *base.parents) if folder.is_dir()), None)
        if existing is not None:
            found[existing] = None
        if place.shape in ("apps", "bundles") and base.is_dir():
            found.update(dict.fromkeys(_inner(place)))
    return tuple(found)


def _inner(place: Place) -> Iterable[Path]:
    inside = Path("Contents", "Resources") if place.shape == "bundles" else Path()
    try:
        children = sorted(child for child in place.path.iterdir() if child.name not in place.skip)
    except OSError:
        return
    yield from (child / inside for child in children if (child / inside).is_dir())


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

    async def __aenter__(self) -> Self:
        Thread(target=self._listen, daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()

    async def news(self) -> None:
        """Wait until something has changed since this was last asked."""
        await self._news.wait()
        self._news.clear()

    def _listen(self) -> None:
        with self._engine:
            while not self._stop.is_set():
                if isinstance(self._engine.watch(_TOGETHER_MS, _STEP_MS, 0, self._stop), set):
                    self._loop.call_soon_threadsafe(self._news.set)

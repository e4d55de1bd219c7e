"""The published apps of this instance, in memory: taken from the store at the start, and kept in step with it.

A read costs no I/O while the shelf is fresh. Changes come as the store tells of them; after thirty seconds without news
the next reader asks once, and everybody who comes meanwhile waits for that one answer, though not for long. While the
store does not answer, everything is served as it was last known, and says since when.
"""

from asyncio import Lock, Task, create_task, shield, wait_for
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.app_ports import AppStore, Edition, Reading, Record, StoredApp
from switchboard.actions.ports import Clock
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.model import App

FRESH_S = 30.0
RETRY_S = 1.0
PATIENCE_S = 1.0


class Published(Struct, frozen=True, kw_only=True):
    """An app that is published now: what it is, its descriptor to the byte, and what is known of its versions."""

    app: App
    raw: bytes
    record: Record

    @property
    def edition(self) -> Edition:
        """The version that is published: which one, when, by whom."""
        return self.record.newest


def published(app: App, raw: bytes, record: Record) -> Published:
    """Return an app as it stands on the shelf: whose id it is decides what an equal id means elsewhere."""
    return Published(app=replace(app, origin=f"published:{record.owner}"), raw=raw, record=record)


class Shelf:
    """Holds what is published; `version` grows whenever that changes."""

    def __init__(
        self, store: AppStore, clock: Clock, read: Callable[[bytes], Reading], fresh_s: float = FRESH_S
    ) -> None:
        self._store = store
        self._clock = clock
        self._read = read
        self._fresh_s = fresh_s
        self._apps: dict[str, Published] = {}
        self._withdrawn: dict[str, Record] = {}
        self._revision = 0
        self._revisions: dict[str, int] = {}
        self._fresh_until = 0.0
        self._refresh: Task[None] | None = None
        self._catching_up = Lock()
        self._listeners: list[Callable[[], None]] = []
        self.version = 0
        self.stale_since: float | None = None

    def apps(self) -> Mapping[str, Published]:
        """Return every published app by its id; the mapping never changes under a reader."""
        return MappingProxyType(self._apps)

    def withdrawn(self) -> Mapping[str, Record]:
        """Return what is known of apps that were published once, and are not now."""
        return MappingProxyType(self._withdrawn)

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back after every change, with the new apps in place; it must not raise."""
        self._listeners.append(callback)

    async def look(self) -> None:
        """Ask the store for news if it was not heard of for too long; silence is noted, and not an error."""
        if self._clock.passed() >= self._fresh_until:
            await self.look_again()

    async def look_again(self) -> None:
        """Ask the store for news now, together with everybody who does."""
        if self._refresh is None:
            self._refresh = create_task(self._catch_up_or_note())
        try:
            await wait_for(shield(self._refresh), PATIENCE_S)
        except TimeoutError:
            self.note_silence()
            self._fresh_until = self._clock.passed() + RETRY_S

    async def catch_up(self) -> None:
        """Take in everything the store has that this instance has not.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        # One after the other: what was read before the store lost something must not be taken in after that is known.
        async with self._catching_up:
            revision, changes = await self._store.changes(self._revision)
            if revision < self._revision:
                # A backup, or a standby that was behind: what this instance knows is from a past that did not happen.
                revision, changes = await self._store.changes(0)
                self._revisions, self._revision = {}, 0
                self._place({}, {})
            self._take([stored for stored in changes if stored.revision > self._revisions.get(stored.id, 0)])
            self._revision = max(self._revision, revision)
        self._fresh_until = self._clock.passed() + self._fresh_s
        self.stale_since = None

    def apply(self, stored: StoredApp) -> None:
        """Take one change in, unless a newer one of the same app is in already."""
        if stored.revision > self._revisions.get(stored.id, 0):
            self._take([stored])

    def note_silence(self) -> None:
        """Note that the store did not answer; the next reader asks it again."""
        if self.stale_since is None:
            self.stale_since = self._clock.now()
        self._fresh_until = 0.0

    def _take(self, changes: list[StoredApp]) -> None:
        if not changes:
            return
        apps, withdrawn = dict(self._apps), dict(self._withdrawn)
        for stored in changes:
            self._revisions[stored.id] = stored.revision
            apps.pop(stored.id, None)
            withdrawn.pop(stored.id, None)
            app = None if stored.descriptor is None else self._read(stored.descriptor).app
            if stored.descriptor is None:
                withdrawn[stored.id] = stored.record
            elif app is not None:
                apps[stored.id] = published(app, stored.descriptor, stored.record)
        self._place(apps, withdrawn)

    def _place(self, apps: dict[str, Published], withdrawn: dict[str, Record]) -> None:
        self._apps, self._withdrawn = dict(sorted(apps.items())), withdrawn
        self.version += 1
        for callback in self._listeners:
            callback()

    async def _catch_up_or_note(self) -> None:
        try:
            await self.catch_up()
        except ServiceUnavailable:
            self.note_silence()
            self._fresh_until = self._clock.passed() + RETRY_S
        finally:
            self._refresh = None

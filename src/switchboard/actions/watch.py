"""Follow the catalogue: whoever watches is told every change that is something to the question he asked.

The last changes are kept in one log for all. A watcher is a place in it and nothing else: no queue grows behind one who
reads slowly, and one who comes back goes on where he was, as long as the log reaches back so far. What a change is to a
question is written once, for all who ask the same. Knows no wire: a `Teller` has the words.
"""

from asyncio import Event, Future, get_running_loop, sleep
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, Protocol, final

from msgspec import Struct

from switchboard.actions.directory import Directory
from switchboard.catalog.changes import Change, Gap, Sides
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.query import Query

_WOKEN_AT_ONCE = 50
_WORK_AT_ONCE = 20
_LOOKS_PER_SILENCE = 10

Reason = Literal["new", "unknown_instance", "too_old", "too_slow"]


class Limits(Struct, frozen=True, kw_only=True):
    """How much a watch may take."""

    watchers: int = 20_000
    changes: int = 10_000
    """How many changes the log reaches back."""
    changes_bytes: int = 16 * 1024 * 1024
    """What the log may keep alive of agents that are no longer so: the instance has to stay below 100 MB."""
    told_bytes: int = 4 * 1024 * 1024
    """What was put into words last, for all questions together."""
    at_once_bytes: int = 64 * 1024
    """What one watcher is sent in one piece."""
    silence_s: float = 15.0
    """After how long a watcher who hears nothing is told that all is well."""


class Teller(Protocol):
    """Puts into words what watchers are told."""

    def snapshot(self, version: int, total_agents: int, reason: Reason) -> bytes:
        """Say: ask discovery now, and go on from this version."""
        ...

    def resumed(self, version: int, missed: int) -> bytes:
        """Say: what was missed since this version follows."""
        ...

    def change(self, query: Query, sides: Sides) -> bytes:
        """Say what a change is to a question; nothing where it is nothing to it."""
        ...


class Place(Struct, frozen=True):
    """Where somebody was who comes back: on which instance, after which version."""

    instance: str
    version: int


class Watcher:
    """One who watches: where he is, and what wakes him."""

    __slots__ = ("_next", "channel", "cursor", "events", "first", "quiet_since")

    def __init__(self, channel: "Channel", cursor: int) -> None:
        self.channel = channel
        self.cursor = cursor
        self.first: bytes = b""
        self.events = 0
        self.quiet_since = 0.0
        self._next: Future[bool] | None = None

    @property
    def waits(self) -> bool:
        """Whether he has everything, and is asleep."""
        return self._next is not None

    async def woken(self) -> bool:
        """Sleep until there is news; False where there is none and he should know that all is well.

        A future for each, because a task that is cancelled takes along what it waits for: not everybody's.
        """
        self._next = get_running_loop().create_future()
        try:
            return await self._next
        finally:
            self._next = None

    def wake(self, *, news: bool) -> None:
        """Wake him, if he sleeps."""
        if self._next is not None and not self._next.done():
            self._next.set_result(news)


class Channel:
    """All who ask one question, and what they were told last."""

    __slots__ = ("dropped", "query", "told", "total", "version", "watchers")

    def __init__(self, query: Query, version: int) -> None:
        self.query = query
        self.version = version
        """Up to here every change was looked at."""
        self.dropped = version
        """What was told up to here is not here any more."""
        self.told: deque[tuple[int, bytes]] = deque()
        self.watchers: dict[Watcher, None] = {}
        self.total: tuple[int, int] = (-1, 0)

    def after(self, version: int) -> Iterator[tuple[int, bytes]]:
        """Return what was told after a version that is not older than what was dropped."""
        newer = 0
        for told, _ in reversed(self.told):
            if told <= version:
                break
            newer += 1
        return islice(self.told, len(self.told) - newer, None)


@final
class Watch:
    """Everybody who watches on this instance."""

    def __init__(self, directory: Directory, teller: Teller, instance: str, limits: Limits | None = None) -> None:
        """Begin to note changes."""
        self._directory = directory
        self._teller = teller
        self._instance = instance
        self._limits = limits or Limits()
        self._log: deque[Change] = deque()
        self._log_bytes = 0
        self._forgotten = 0
        """Changes up to this version are not in the log any more."""
        self._gap = 0
        """What came before this version is not what it became."""
        self._channels: dict[Query, Channel] = {}
        self._told: deque[tuple[Channel, int]] = deque()
        self._told_bytes = 0
        self._news = Event()
        self._ended = False
        self.watchers = 0
        """How many watch."""
        directory.follow(self._note)

    async def begin(self, query: Query, place: Place | None) -> Watcher:
        """Let somebody watch: from now on, or from where he was.

        Raises:
            ServiceUnavailable: too many watch already, or this instance is about to stop.
        """
        await self._directory.view()  # whoever asks for the first time in a while is not told of an old catalogue
        if self._ended:
            raise ServiceUnavailable("This instance is about to stop. Watch another one.")
        if self.watchers >= self._limits.watchers:
            message = f"{self._limits.watchers} watch here already. Try again later, or another instance."
            raise ServiceUnavailable(message)
        version = self._directory.current().version
        channel = self._channels.get(query)
        if channel is None:
            channel = self._channels[query] = Channel(query, version)
        watcher = Watcher(channel, version)
        channel.watchers[watcher] = None
        self.watchers += 1
        reason = self._why_not(place, version)
        if reason is not None or place is None:
            watcher.first = self._fresh_start(watcher, reason or "new")
            return watcher
        watcher.cursor = place.version
        try:
            watcher.first = self._teller.resumed(place.version, await self._missed(watcher))
        except BaseException:
            self.leave(watcher)
            raise
        return watcher

    async def next(self, watcher: Watcher) -> Sequence[bytes] | None:
        """Return what to tell next, nothing where somebody should hear that all is well, None at the end."""
        if watcher.first:
            first, watcher.first = watcher.first, b""
            return self._counted(watcher, [first])
        while not self._ended and watcher in watcher.channel.watchers:
            found = self._found(watcher)
            if found:
                return self._counted(watcher, found)
            if found is None:
                await sleep(0)  # others are served meanwhile
            elif not await watcher.woken():
                watcher.quiet_since = get_running_loop().time()
                return ()
        return None

    def leave(self, watcher: Watcher) -> None:
        """Forget somebody; one who sleeps is woken, and finds that it is over."""
        channel = watcher.channel
        if watcher not in channel.watchers:
            return
        del channel.watchers[watcher]
        self.watchers -= 1
        watcher.wake(news=True)
        if not channel.watchers:
            del self._channels[channel.query]

    def end(self) -> None:
        """Send everybody away, and let nobody in any more."""
        self._ended = True
        for watcher in self._everybody():
            watcher.wake(news=True)

    async def deliver(self) -> None:
        """Wait for changes, then put them into words and wake whoever they are for."""
        await self._news.wait()
        self._news.clear()
        latest = self._directory.current().version
        try:
            await self._tell(latest)
        except BaseException:
            # Nobody may go on as if there had been nothing; what came meanwhile goes with it.
            self._note(Gap(self._directory.current().version))
            raise

    async def reassure(self) -> None:
        """Wait a little, then let everybody hear something who has not for a while."""
        pause_s = self._limits.silence_s / _LOOKS_PER_SILENCE
        await sleep(pause_s)
        quiet = get_running_loop().time() - self._limits.silence_s + pause_s
        silent = [watcher for watcher in self._everybody() if watcher.waits and watcher.quiet_since < quiet]
        await _wake(silent, news=False)

    def _note(self, change: Change | Gap) -> None:
        if isinstance(change, Gap):
            self._log.clear()
            self._log_bytes = 0
            self._forgotten = self._gap = change.version
        else:
            self._log.append(change)
            self._log_bytes += change.kept_bytes
            while len(self._log) > self._limits.changes or self._log_bytes > self._limits.changes_bytes:
                oldest = self._log.popleft()
                self._log_bytes -= oldest.kept_bytes
                self._forgotten = oldest.version
        self._news.set()

    async def _tell(self, latest: int) -> None:
        """Let every question look at every change up to a version, and wake those who have something to hear."""
        channels, work = list(self._channels.values()), 0
        stirred = {channel for channel in channels if self._has_lost(channel)}
        for change in self._after(min(map(_version, channels), default=latest), latest):
            sides = Sides(change)
            for channel in channels:
                event = self._teller.change(channel.query, sides) if change.version > channel.version else b""
                if event:
                    self._keep(channel, change.version, event)
                    stirred.add(channel)
                work += 1
                if work % _WORK_AT_ONCE == 0:
                    await sleep(0)  # others are served meanwhile
        for channel in channels:
            watchers = list(channel.watchers) if channel in stirred else []
            for watcher in watchers:
                if watcher.waits:  # so he has everything up to where his question was
                    watcher.cursor = max(watcher.cursor, channel.version)
            channel.version = max(channel.version, latest)
            await _wake(watchers, news=True)

    def _has_lost(self, channel: Channel) -> bool:
        """Tell whether changes were forgotten before a question could look at them."""
        if channel.version >= self._forgotten:
            return False
        channel.dropped = max(channel.dropped, self._forgotten)
        return True

    def _keep(self, channel: Channel, version: int, event: bytes) -> None:
        """Keep what is told for all who ask the same, within a limit for all questions together."""
        channel.told.append((version, event))
        self._told.append((channel, len(event)))
        self._told_bytes += len(event)
        while self._told_bytes > self._limits.told_bytes:
            oldest, size = self._told.popleft()
            self._told_bytes -= size
            oldest.dropped = max(oldest.dropped, oldest.told.popleft()[0])

    def _found(self, watcher: Watcher) -> Sequence[bytes] | None:
        """Return what comes after a watcher's place, as much as is sent at once, and move him on.

        None where there was nothing so far, and more is to be looked at.
        """
        channel, most = watcher.channel, self._limits.at_once_bytes
        if watcher.cursor < self._gap:
            return [self._fresh_start(watcher, "too_old")]
        if watcher.cursor >= channel.dropped:
            return _taken(watcher, channel.after(watcher.cursor), most)
        if watcher.cursor < self._forgotten:
            return [self._fresh_start(watcher, "too_slow")]
        found = _taken(watcher, self._told_again(watcher), most)
        return found or (None if watcher.cursor < channel.version else ())

    def _told_again(self, watcher: Watcher) -> Iterator[tuple[int, bytes]]:
        """Put into words once more what is not kept, for one who was away or slow; only a few changes at a time."""
        channel = watcher.channel
        changes = self._after(watcher.cursor, channel.version)
        for change in changes[:_WORK_AT_ONCE]:
            event = self._teller.change(channel.query, Sides(change))
            watcher.cursor = change.version
            if event:
                yield change.version, event
        if len(changes) <= _WORK_AT_ONCE:
            watcher.cursor = channel.version

    async def _missed(self, watcher: Watcher) -> int:
        """Count what somebody missed who comes back."""
        channel, count = watcher.channel, 0
        for number, change in enumerate(self._after(watcher.cursor, channel.version), 1):
            count += bool(self._teller.change(channel.query, Sides(change)))
            if number % _WORK_AT_ONCE == 0:
                await sleep(0)
        return count

    def _after(self, version: int, latest: int) -> list[Change]:
        newer: list[Change] = []
        for change in reversed(self._log):
            if change.version <= version:
                break
            if change.version <= latest:
                newer.append(change)
        newer.reverse()
        return newer

    def _fresh_start(self, watcher: Watcher, reason: Reason) -> bytes:
        snapshot, channel = self._directory.current(), watcher.channel
        if channel.total[0] != snapshot.version:
            channel.total = (snapshot.version, snapshot.select(channel.query).total_agents)
        watcher.cursor = snapshot.version
        return self._teller.snapshot(snapshot.version, channel.total[1], reason)

    def _why_not(self, place: Place | None, version: int) -> Reason | None:
        if place is None:
            return "new"
        if place.instance != self._instance:
            return "unknown_instance"
        return None if self._forgotten <= place.version <= version else "too_old"

    def _counted(self, watcher: Watcher, events: Sequence[bytes]) -> Sequence[bytes]:
        watcher.events += len(events)
        watcher.quiet_since = get_running_loop().time()
        return events

    def _everybody(self) -> list[Watcher]:
        return [watcher for channel in self._channels.values() for watcher in channel.watchers]


def _version(channel: Channel) -> int:
    return channel.version


async def _wake(watchers: Sequence[Watcher], *, news: bool) -> None:
    """Wake many, some at a time: requests are answered in between."""
    for begin in range(0, len(watchers), _WOKEN_AT_ONCE):
        for watcher in watchers[begin : begin + _WOKEN_AT_ONCE]:
            watcher.wake(news=news)
        await sleep(0)


def _taken(watcher: Watcher, events: Iterator[tuple[int, bytes]], most: int) -> Sequence[bytes]:
    found: list[bytes] = []
    size = 0
    for version, event in events:
        found.append(event)
        watcher.cursor = version
        size += len(event)
        if size >= most:
            break
    return found

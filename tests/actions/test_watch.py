"""Following the catalogue, with a log that tests make short and words that tests can count."""

import asyncio
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.actions.fakes import MemoryStore
from tests.actions.test_directory import Plane

from switchboard.actions.watch import Limits, Place, Reason, Teller, Watch, Watcher
from switchboard.catalog.changes import Change, Gap, Sides
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.query import Query

LIMIT_S = 10.0


@final
class Words(Teller):
    """Says things in few words, and counts how often a change was put into any."""

    def __init__(self, size: int = 0) -> None:
        self.made = 0
        self.fails = False
        self._padding = "." * size

    def snapshot(self, version: int, total_agents: int, reason: Reason) -> bytes:
        """Name the version, how many match, and why."""
        return f"snapshot {version} {total_agents} {reason}".encode()

    def resumed(self, version: int, missed: int) -> bytes:
        """Name the version and how much was missed."""
        return f"resumed {version} {missed}".encode()

    def change(self, query: Query, sides: Sides) -> bytes:
        """Name the version and the agent, if the question sees it on either side."""
        if self.fails:
            raise ZeroDivisionError("a bug")
        self.made += 1
        seen, change = sides.seen_by(query), sides.change
        if seen.before is None and seen.after is None:
            return b""
        return f"{'+' if seen.after else '-'}{change.agent_id} {change.version}{self._padding}".encode()


class Ground:
    """One instance whose watchers hear of changes when the test lets them."""

    def __init__(self, words: Words | None = None, limits: Limits | None = None) -> None:
        self.words = words or Words()
        self.plane = Plane(MemoryStore())
        self.watch = Watch(self.plane.directory, self.words, "here", limits)
        self._delivered = 0

    @property
    def version(self) -> int:
        """Where the catalogue is."""
        return self.plane.directory.current().version

    async def begin(self, query: Query | None = None, version: int | None = None) -> Watcher:
        """Watch, and take the first word."""
        watcher = await self.watch.begin(query or Query(), None if version is None else Place("here", version))
        self.first = (await self.told(watcher))[0]
        return watcher

    async def told(self, watcher: Watcher) -> Sequence[str]:
        """Return what is told next."""
        found = await asyncio.wait_for(self.watch.next(watcher), LIMIT_S)
        assert found is not None
        return [word.decode().rstrip(".") for word in found]

    async def add(self, *agents: str) -> None:
        """Register agents, and let everybody hear of it."""
        for agent in agents:
            await self.plane.add(agent)
        await self.deliver()

    async def deliver(self) -> None:
        """Let everybody hear of what has changed, if anything has."""
        if self.version != self._delivered:
            self._delivered = self.version
            await self.watch.deliver()


def test_what_many_ask_is_put_into_words_once() -> None:
    """A hundred watchers of one question cost one encoding for each change; another question costs another."""

    async def story() -> None:
        ground = Ground()
        same = [await ground.begin() for _ in range(100)]
        other = await ground.begin(Query(agents=("b*",)))
        waiting = [asyncio.create_task(ground.told(one)) for one in same]
        await asyncio.sleep(0)
        await ground.add("a", "b")

        assert await asyncio.gather(*waiting) == [["+a 1", "+b 2"]] * 100
        assert await ground.told(other) == ["+b 2"]
        assert ground.words.made == 4

    asyncio.run(story())


def test_a_place_that_the_log_has_forgotten_is_too_old() -> None:
    """One change later it would have been."""

    async def story() -> None:
        ground = Ground(limits=Limits(changes=5))
        await ground.plane.add("first")
        await ground.add(*"abcdefg")

        await ground.begin(version=2)
        assert ground.first == "snapshot 8 8 too_old"
        oldest = await ground.begin(version=3)
        assert ground.first == "resumed 3 5"
        assert await ground.told(oldest) == ["+c 4", "+d 5", "+e 6", "+f 7", "+g 8"]

    asyncio.run(story())


def test_one_who_falls_behind_the_log_begins_anew() -> None:
    """He did not read while more happened than is kept; others who read have everything."""

    async def story() -> None:
        ground = Ground(Words(size=400), Limits(changes=5, told_bytes=1000))
        slow, quick = await ground.begin(), await ground.begin()
        heard: list[str] = []
        for number in range(12):
            await ground.add(f"a{number:02}")
            heard += await ground.told(quick)

        assert heard == [f"+a{number:02} {number + 1}" for number in range(12)]
        assert await ground.told(slow) == ["snapshot 12 12 too_slow"]
        await ground.add("z")
        assert await ground.told(slow) == ["+z 13"]

    asyncio.run(story())


def test_one_who_only_heard_of_nothing_is_not_slow() -> None:
    """His question sees none of ten thousand changes; then it sees one."""

    async def story() -> None:
        ground = Ground(limits=Limits(changes=5))
        patient = await ground.begin(Query(agents=("rare",)))
        waiting = asyncio.create_task(ground.told(patient))
        for number in range(20):
            await ground.add(f"a{number}")
        await ground.add("rare")

        assert await waiting == ["+rare 21"]

    asyncio.run(story())


def test_changes_that_were_forgotten_before_anybody_looked_lead_to_a_fresh_start() -> None:
    """More at once than the log keeps."""

    async def story() -> None:
        ground = Ground(limits=Limits(changes=5))
        watcher = await ground.begin()
        waiting = asyncio.create_task(ground.told(watcher))
        await asyncio.sleep(0)
        await ground.add(*(f"a{number}" for number in range(9)))

        assert await waiting == ["snapshot 9 9 too_slow"]

    asyncio.run(story())


def test_large_agents_that_are_gone_do_not_fill_the_memory() -> None:
    """The log is limited by what it keeps alive, too, and says so to whoever comes back too late."""

    async def story() -> None:
        ground = Ground(limits=Limits(changes_bytes=5000))
        for number in range(100):
            await ground.plane.add("a", f"name-{number}")

        await ground.begin(version=1)
        assert ground.first == "snapshot 100 1 too_old"
        await ground.begin(version=98)
        assert ground.first == "resumed 98 2"

    asyncio.run(story())


def test_a_store_that_went_back_in_time_is_a_fresh_start_for_everybody() -> None:
    """A backup was put back: nobody can tell what changed."""

    async def story() -> None:
        ground = Ground()
        await ground.plane.add("a")
        await ground.plane.directory.catch_up()
        watcher = await ground.begin()
        waiting = asyncio.create_task(ground.told(watcher))
        await asyncio.sleep(0)
        ground.plane.store.agents.clear()
        ground.plane.store.revision = 0
        await ground.plane.directory.catch_up()
        await ground.watch.deliver()

        assert await waiting == ["snapshot 2 0 too_old"]
        await ground.begin(version=1)
        assert ground.first == "snapshot 2 0 too_old"

    asyncio.run(story())


def test_agents_that_come_from_the_store_are_told_one_by_one_unless_there_are_very_many() -> None:
    """Where there were none, a few are changes, and a whole catalogue is a new beginning."""

    async def story() -> None:
        for count, kinds in ((3, [Change] * 3), (200, [Gap])):
            store = MemoryStore()
            first, second = Plane(store), Plane(store)
            heard: list[Change | Gap] = []
            second.directory.follow(heard.append)
            await second.directory.catch_up()
            for number in range(count):
                await first.add(f"a{number}")
            await second.directory.catch_up()

            assert [type(one) for one in heard] == kinds

    asyncio.run(story())


def test_every_change_of_the_snapshot_is_told_with_its_reason() -> None:
    """Registrations, health in all its ways, removals; what comes again as it was is none."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        heard: list[Change | Gap] = []
        plane.directory.follow(heard.append)
        await plane.add("a")
        await plane.add("a")
        plane.register.beat("a", "degraded")
        plane.clock.time += 500
        plane.life.tick()
        await plane.add("a")
        await plane.register.goodbye("a", "had enough")
        await plane.register.remove("a")

        changes = [change for change in heard if isinstance(change, Change)]
        assert [(change.version, change.state.reason if change.state else None) for change in changes] == [
            (1, "registered"),
            (2, "says it is degraded"),
            (3, "silent for its lease of 10 s"),
            (4, "registered"),
            (5, "had enough"),
            (6, None),
        ]
        for one, next_one in pairwise(changes):
            assert one.after is next_one.before

    asyncio.run(story())


def test_somebody_who_hears_nothing_for_a_while_is_reassured() -> None:
    """With nothing, which a face turns into a comment; one who has just heard something is left alone."""

    async def story() -> None:
        ground = Ground(limits=Limits(silence_s=0.02))
        watcher = await ground.begin()
        waiting = asyncio.create_task(ground.told(watcher))
        while not waiting.done():
            await ground.watch.reassure()

        assert await waiting == []

    asyncio.run(story())


def test_no_more_may_watch_than_there_is_room_for() -> None:
    """Until somebody leaves."""

    async def story() -> None:
        ground = Ground(limits=Limits(watchers=2))
        first, _ = await ground.begin(), await ground.begin()
        with pytest.raises(ServiceUnavailable, match="2 watch here already"):
            await ground.begin()
        ground.watch.leave(first)
        ground.watch.leave(first)
        await ground.begin()

        assert ground.watch.watchers == 2

    asyncio.run(story())


def test_at_the_end_everybody_is_sent_away_and_nobody_let_in() -> None:
    """Sleeping or not."""

    async def story() -> None:
        ground = Ground()
        asleep, awake = await ground.begin(), await ground.begin()
        waiting = asyncio.create_task(ground.watch.next(asleep))
        await asyncio.sleep(0)
        ground.watch.end()

        assert (await waiting, await ground.watch.next(awake)) == (None, None)
        with pytest.raises(ServiceUnavailable, match="about to stop"):
            await ground.begin()

    asyncio.run(story())


def test_one_who_is_cancelled_takes_nobody_along() -> None:
    """Each sleeps for himself."""

    async def story() -> None:
        ground = Ground()
        one, other = await ground.begin(), await ground.begin()
        cancelled, waiting = (asyncio.create_task(ground.told(watcher)) for watcher in (one, other))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        await ground.add("a")

        assert await waiting == ["+a 1"]

    asyncio.run(story())


def test_a_failure_to_find_words_is_a_fresh_start_and_not_a_gap() -> None:
    """Nobody goes on as if there had been nothing."""

    async def story() -> None:
        ground = Ground()
        watcher = await ground.begin()
        ground.words.fails = True
        await ground.plane.add("a")
        with pytest.raises(ZeroDivisionError):
            await ground.watch.deliver()
        ground.words.fails = False
        waiting = asyncio.create_task(ground.told(watcher))
        await ground.watch.deliver()

        assert await waiting == ["snapshot 1 1 too_old"]

    asyncio.run(story())


def test_what_came_while_words_failed_is_not_passed_over() -> None:
    """Somebody who begins in that moment is not told less than happened after it."""

    async def story() -> None:
        ground = Ground()
        await ground.begin(Query(agents=("a*",)))
        for number in range(500):
            await ground.plane.add(f"a{number:02}")
        failing = asyncio.create_task(ground.watch.deliver())
        await asyncio.sleep(0)
        late = await ground.begin()
        ground.words.fails = True
        await ground.plane.add("z")
        with pytest.raises(ZeroDivisionError):
            await failing
        ground.words.fails = False
        await ground.watch.deliver()

        assert ground.first == "snapshot 500 500 new"
        assert await ground.told(late) == ["snapshot 501 501 too_old"]

    asyncio.run(story())


def test_one_who_comes_back_from_long_ago_lets_others_be_served() -> None:
    """All that he missed is looked at, little by little: much of it may be nothing to him."""

    async def story() -> None:
        ground = Ground()
        await ground.begin()
        for number in range(500):
            await ground.plane.add(f"a{number:03}")
        await ground.add("z")
        back = await ground.begin(Query(agents=("z",)), version=0)
        before = ground.words.made
        waiting = asyncio.create_task(ground.told(back))
        most, seen = 0, before
        while not waiting.done():
            await asyncio.sleep(0)
            most, seen = max(most, ground.words.made - seen), ground.words.made

        assert (ground.first, await waiting) == ("resumed 0 1", ["+z 501"])
        assert (ground.words.made - before, most) == (501, 20)

    asyncio.run(story())


QUERIES = (Query(), Query(agents=("a*",)), Query(reasoner="r1"), Query(health="active"), Query(agents=("zz",)))


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 30), st.integers(0, 1500))
def test_whoever_applies_what_he_is_told_knows_what_discovery_knows(seed: int, kept: int, told_bytes: int) -> None:
    """Whatever happens in whatever order, with breaks and resumptions, slow and quick readers, and short memories."""
    dice = random.Random(seed)  # noqa: S311 - the same story for the same seed

    async def story() -> None:
        ground = Ground(Words(size=100), Limits(changes=kept, told_bytes=told_bytes, at_once_bytes=300))
        readers = [_Reader(ground, query, dice) for query in QUERIES * 2]
        for _ in range(60):
            match dice.randrange(5):
                case 0 | 1:
                    await ground.plane.add(dice.choice(["a", "ab", "b", "c"]), dice.choice(["r1", "r2"]))
                case 2:
                    agent = dice.choice(["a", "ab", "b", "c"])
                    if agent in ground.plane.directory.current().agents:
                        await ground.plane.register.remove(agent)
                case 3:
                    ground.plane.life.beat(dice.choice(["a", "ab", "b", "c"]), dice.choice(["ready", "degraded"]))
                case _:
                    await dice.choice(readers).step()
            if dice.random() < 0.3:
                await ground.deliver()
        await ground.deliver()
        for reader in readers:
            await reader.catch_up()
            assert reader.known == reader.truth()

    asyncio.run(story())


class _Reader:
    """Reads now and then, hangs up now and then, and keeps the ids of what matches."""

    def __init__(self, ground: Ground, query: Query, dice: random.Random) -> None:
        self._ground = ground
        self._query = query
        self._dice = dice
        self._watcher: Watcher | None = None
        self._last: int | None = None
        self.known: set[str] = set()

    def truth(self) -> set[str]:
        """Return the ids that discovery has."""
        return {match.agent.id for match in self._ground.plane.directory.current().matches(self._query)}

    async def step(self) -> None:
        """Come, hang up, or read something."""
        if self._watcher is None:
            place = None if self._last is None else Place("here", self._last)
            self._watcher = await self._ground.watch.begin(self._query, place)
        elif self._dice.random() < 0.3:
            self._ground.watch.leave(self._watcher)
            self._watcher = None
        else:
            await self._read()

    async def catch_up(self) -> None:
        """Read all there is."""
        if self._watcher is None:
            await self.step()
        while await self._read():
            pass

    async def _read(self) -> bool:
        assert self._watcher is not None
        reading = asyncio.create_task(self._ground.watch.next(self._watcher))
        for _ in range(3):
            await asyncio.sleep(0)
        if not reading.done():
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            return False
        for word in reading.result() or ():
            self._apply(word.decode())
        return True

    def _apply(self, word: str) -> None:
        name, version, *_ = word.rstrip(".").split(" ")
        match name[0], name:
            case _, "snapshot":
                self.known = self.truth()
                self._last = int(version)
            case _, "resumed":
                assert int(version) == self._last
            case "+", _:
                assert self._last is not None
                assert int(version) > self._last
                self.known.add(name[1:])
                self._last = int(version)
            case _:
                self.known.discard(name[1:])
                self._last = int(version)

"""Life on several instances: who knows what better, and what becomes of what another has decided meanwhile."""

import asyncio
import json

from msgspec.structs import replace
from tests.actions.fakes import HandClock, MemoryStore
from tests.servers import registration

from switchboard.actions.cluster import News
from switchboard.actions.directory import Directory
from switchboard.actions.life import Life
from switchboard.actions.register import Newcomer, Register
from switchboard.actions.store_ports import StoredAgent
from switchboard.catalog.health import State
from switchboard.control_plane import read_stored
from switchboard.descriptors import agent as agents


class Instance:
    """One instance over a store that others share."""

    def __init__(self, store: MemoryStore, clock: HandClock) -> None:
        self.store = store
        self.clock = clock
        self.news = News()
        self.directory = Directory(store, clock, read_stored)
        self.life = Life(self.directory, store, clock, unsaved=self.news.states_changed.set)
        self.directory.listen(self.life.remember)
        self.register = Register(store, self.directory, self.life, clock, shared=True)

    async def add(self, agent_id: str) -> None:
        """Register an agent that beats every two seconds."""
        found = agents.read(json.dumps(registration(agent_id, {"r": []})).encode())
        await self.register.register(Newcomer(agent=found.agent, said="ready", heartbeat_s=2.0))

    def health(self, agent_id: str = "a") -> tuple[str, str]:
        """Return what is shown, and what is known."""
        state = self.life.state(agent_id)
        return self.directory.current().agents[agent_id].health, state.health if state else ""


async def two() -> tuple[Instance, Instance, HandClock]:
    store, clock = MemoryStore(), HandClock()
    here, there = Instance(store, clock), Instance(store, clock)
    await here.add("a")
    await there.directory.catch_up()
    return here, there, clock


def test_a_heartbeat_to_an_instance_that_has_not_heard_of_the_agent_yet_is_taken() -> None:
    """It asks before it refuses: a proxy may send the first heartbeat elsewhere than the registration."""

    async def story() -> None:
        here, there, _ = await two()
        await here.add("b")
        await there.register.look_for("b")

        assert there.register.beat("b", "ready").health == "active"

    asyncio.run(story())


def test_what_this_instance_heard_and_has_not_written_stays() -> None:
    """What another wrote meanwhile does not undo a goodbye; after it is written, the newer of the two counts."""

    async def story() -> None:
        here, there, clock = await two()
        clock.time += 1
        there.life.goodbye("a", "shut down")
        assert there.news.states_changed.is_set()
        here.life.beat("a", "degraded")
        await here.life.flush()
        await there.directory.catch_up()
        assert there.health() == ("inactive", "inactive")
        await there.life.flush()
        await here.directory.catch_up()

        assert here.health() == there.health() == ("inactive", "inactive")

    asyncio.run(story())


def test_what_another_wrote_later_counts_though_it_was_heard_first() -> None:
    """It is put off while this instance writes, and taken in after that."""

    async def story() -> None:
        _, there, clock = await two()
        clock.time += 1
        there.life.beat("a", "degraded")
        later = State(health="inactive", reason="shut down", since=clock.time, ended=True)
        stored = there.store.agents["a"]
        there.life.remember(replace(stored, state=later, revision=99))
        assert there.health()[1] == "degraded"
        await there.life.flush()

        assert there.health() == ("inactive", "inactive")

    asyncio.run(story())


def test_silence_is_counted_from_the_last_sign_of_life_that_anybody_heard() -> None:
    """And only what was agreed on is shown."""

    async def story() -> None:
        here, there, clock = await two()
        clock.time += 6
        assert set(here.life.silences()) == {"a"}
        assert here.life.silences(3.0) == {}
        here.life.heard_elsewhere("a", clock.time - 1)
        assert here.life.silences() == {}
        assert here.directory.seen_at["a"] == clock.time - 1
        clock.time += 2
        silences = there.life.silences()
        assert there.health() == ("active", "active")
        there.life.decided(silences, 7)
        assert there.health() == ("degraded", "degraded")
        there.life.decided({"unknown": silences["a"]}, 8)

    asyncio.run(story())


def test_a_sign_of_life_of_somebody_unknown_is_nothing() -> None:
    """It may have been removed a moment ago."""

    async def story() -> None:
        here, _, clock = await two()
        here.life.heard_elsewhere("unknown", clock.time)
        here.life.remember(StoredAgent(id="a", registration=None, revision=9))

        assert here.life.state("a") is None
        assert "unknown" not in here.directory.seen_at

    asyncio.run(story())


def test_ends_are_taken_once_and_in_their_order() -> None:
    """What was taken is told; what comes meanwhile waits for the next time."""

    async def story() -> None:
        news = News()
        for key in ("a", "b", "a", "c"):
            news.ended(key)

        assert (news.take(2), news.some_ended.is_set()) == (["a", "b"], True)
        assert (news.take(2), news.some_ended.is_set()) == (["c"], False)

    asyncio.run(story())

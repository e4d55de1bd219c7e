"""The live snapshot: fresh, read-through, single flight, and right under races."""

import asyncio
import json

import msgspec
import pytest
from msgspec.structs import replace
from tests.actions.fakes import HandClock, MemoryStore
from tests.servers import registration
from tests.support import requirement

from switchboard.actions.directory import Directory
from switchboard.actions.life import Life
from switchboard.actions.register import Newcomer, Register
from switchboard.actions.store_ports import StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.changes import Change, Gap
from switchboard.catalog.errors import NotFound, ServiceUnavailable
from switchboard.catalog.query import Query
from switchboard.control_plane import read_stored
from switchboard.descriptors import agent as agents


class Plane:
    """The actions of one instance over a store that tests hold in hand."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.clock = HandClock()
        self.directory = Directory(store, self.clock, read_stored)
        self.life = Life(self.directory, store, self.clock)
        self.directory.listen(self.life.remember)
        self.register = Register(store, self.directory, self.life, self.clock)

    async def add(self, agent_id: str, name: str = "r") -> None:
        """Register an agent with one reasoner."""
        found = agents.read(json.dumps(registration(agent_id, {name: []})).encode())
        await self.register.register(Newcomer(agent=found.agent, said="ready", heartbeat_s=2.0))

    async def names(self) -> list[str]:
        """Say who is there, and what they can do."""
        page = (await self.directory.view()).snapshot.select(Query())
        return [f"{match.agent.id}:{item.id}" for match in page.matches for item in match.reasoners]


@requirement("cache:filters:in-memory")
def test_a_fresh_snapshot_answers_without_a_question_to_the_store() -> None:
    """One question when it is old, whatever is asked for; none until it is old again."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        await plane.directory.view()
        asked = plane.store.questions
        for query in (Query(), Query(reasoner="*"), Query(tags=("x",)), Query(health="active")):
            (await plane.directory.view()).snapshot.select(query)
        assert plane.store.questions == asked
        plane.clock.time += 31
        assert not (await plane.directory.view()).hit
        assert (await plane.directory.view()).hit
        assert plane.store.questions == asked + 1

    asyncio.run(story())


def test_a_thousand_readers_of_an_old_snapshot_ask_once() -> None:
    """Single flight."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        plane.store.gate.clear()
        readers = [asyncio.create_task(plane.directory.view()) for _ in range(1000)]
        await asyncio.sleep(0)
        plane.store.gate.set()
        await asyncio.gather(*readers)
        assert plane.store.questions == 1

    asyncio.run(story())


def test_a_load_that_began_before_a_change_does_not_undo_it() -> None:
    """Registered, changed and removed while the store was slow."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("changed", "old")
        await plane.add("removed")
        other = Plane(plane.store)
        await other.add("elsewhere")
        plane.store.gate.clear()
        slow = asyncio.create_task(plane.names())
        await plane.store.asked.wait()  # the load has looked, and waits with what it saw
        await plane.add("changed", "new")
        await plane.add("added")
        await plane.register.remove("removed")
        plane.store.gate.set()

        assert await slow == ["added:r", "changed:new", "elsewhere:r"]

    asyncio.run(story())


def test_an_agent_that_comes_back_while_it_is_removed_is_alive() -> None:
    """The removal was first; its end must not take the newcomer's life."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        plane.store.slow_removal.clear()
        removing = asyncio.create_task(plane.register.remove("a"))
        await asyncio.sleep(0)
        await plane.add("a", "again")
        plane.store.slow_removal.set()
        await removing

        assert await plane.names() == ["a:again"]
        assert plane.register.beat("a", "ready").health == "active"

    asyncio.run(story())


def test_what_another_instance_did_is_seen_after_the_time_to_live() -> None:
    """New, changed and removed agents, and their life."""

    async def story() -> None:
        store = MemoryStore()
        one, two = Plane(store), Plane(store)
        await one.add("a")
        await one.add("b")
        assert await two.names() == ["a:r", "b:r"]
        await one.add("a", "changed")
        await one.register.remove("b")
        two.clock.time += 31
        assert await two.names() == ["a:changed"]
        assert two.life.state("a") is not None
        assert two.life.state("b") is None

    asyncio.run(story())


def test_when_the_store_is_down_answers_go_on_from_memory_and_say_so() -> None:
    """And the store is asked again every second, not by every request."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        await plane.directory.view()
        plane.store.down = True
        plane.clock.time += 31
        view = await plane.directory.view()
        assert (view.stale_since, view.snapshot.agents.get("a") is not None) == (1031.0, True)
        asked = plane.store.questions
        await plane.directory.view()
        assert plane.store.questions == asked
        plane.clock.time += 1.5
        plane.store.down = False
        assert (await plane.directory.view()).stale_since is None

    asyncio.run(story())


def test_the_own_change_of_health_does_not_come_back_from_the_store() -> None:
    """A state saved earlier does not overwrite a newer one."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        await plane.directory.view()
        plane.life.goodbye("a", "shut down")
        await plane.life.flush()
        await plane.add("a", "back")
        plane.clock.time += 31
        view = await plane.directory.view()
        found = view.snapshot.agents.get("a")
        assert found is not None
        assert found.health == "active"

    asyncio.run(story())


def test_a_store_that_takes_its_time_does_not_make_readers_wait() -> None:
    """After a second they get what is in memory, and are told so."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        plane.store.gate.clear()
        view = await plane.directory.view()
        assert (view.snapshot.agents.get("a") is not None, view.stale_since) == (True, 1000.0)
        plane.store.gate.set()
        plane.clock.time += 2
        await plane.directory.view()
        assert (await plane.directory.view()).stale_since is None

    asyncio.run(story())


def test_a_write_that_fails_is_told_to_readers() -> None:
    """Health and headers say that the store does not answer, before the time to live is over."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        await plane.directory.view()
        plane.store.down = True
        with pytest.raises(ServiceUnavailable):
            await plane.add("b")
        assert (await plane.directory.view()).stale_since == 1000.0
        await plane.register.goodbye("a", "shut down")
        plane.store.down = False
        await plane.life.flush()
        state = plane.store.agents["a"].state
        assert state is not None
        assert state.ended

    asyncio.run(story())


def test_a_stored_agent_that_cannot_be_read_does_not_hide_the_others() -> None:
    """Rules may have become stricter since it was taken in."""

    async def story() -> None:
        store = MemoryStore()
        await store.save(StoredAgent(id="odd", registration=Json(b'{"id": ""}')))
        plane = Plane(store)
        await plane.add("a")
        other = Plane(store)
        assert await other.names() == ["a:r"]
        await store.save(StoredAgent(id="odder", registration=Json(b"not json")))
        other.clock.time += 31
        assert await other.names() == ["a:r"]

    asyncio.run(story())


def test_agents_that_are_gone_are_forgotten_in_time() -> None:
    """Thousands that come and go leave nothing behind."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        for number in range(1200):
            await plane.add(f"agent-{number}")
            await plane.register.remove(f"agent-{number}")
        plane.clock.time += 31
        await plane.directory.view()
        assert plane.directory.remembered == 0
        assert plane.directory.seen_at == {}

    asyncio.run(story())


def test_a_stored_agent_is_read_without_the_text_it_sent() -> None:
    """Memory holds what questions are about."""
    text = json.dumps(registration("a", {"r": ["t"]})).encode()
    found = read_stored(StoredAgent(id="a", registration=agents.read(text).agent.raw))

    assert found is not None
    assert found.raw == b""
    assert msgspec.json.decode(agents.write(found))["reasoners"][0]["id"] == "r"


def test_a_store_that_lost_its_newest_changes_is_believed() -> None:
    """A backup, or a standby that was behind: what came after is shown no longer, and what comes next is seen."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        for name in ("a", "b", "c"):
            await plane.add(name)
        await plane.directory.catch_up()
        del plane.store.agents["c"]
        plane.store.revision = 2
        await plane.directory.catch_up()
        assert await plane.names() == ["a:r", "b:r"]
        other = Plane(plane.store)
        await other.add("d")
        await plane.directory.catch_up()
        assert await plane.names() == ["a:r", "b:r", "d:r"]

    asyncio.run(story())


def test_an_agent_that_the_store_has_lost_is_told_so_and_can_come_back() -> None:
    """Not a thing is left of it that would make it believe that it is known; a new registration counts at once."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        for name in ("a", "b", "c"):
            await plane.add(name)
        await plane.directory.catch_up()
        del plane.store.agents["c"]
        plane.store.revision = 1
        plane.store.agents["b"] = replace(plane.store.agents["b"], revision=1)
        await plane.directory.catch_up()
        with pytest.raises(NotFound):
            plane.register.beat("c", "ready")
        plane.register.beat("b", "ready")
        await plane.add("c", "again")
        assert await plane.names() == ["a:r", "b:r", "c:again"]
        await plane.directory.catch_up()
        assert await plane.names() == ["a:r", "b:r", "c:again"]

    asyncio.run(story())


def test_two_questions_at_once_are_not_taken_for_a_store_that_went_back() -> None:
    """One waits for the other: nothing is loaded anew, and nothing is lost."""

    async def story() -> None:
        store = MemoryStore()
        one, two = Plane(store), Plane(store)
        heard: list[Change | Gap] = []
        two.directory.follow(heard.append)
        await one.add("a")
        await two.directory.catch_up()
        await one.add("b")
        store.gate.clear()
        slow = asyncio.create_task(two.directory.catch_up())
        await asyncio.sleep(0)
        await one.add("c")
        other = asyncio.create_task(two.directory.catch_up())
        await asyncio.sleep(0)
        store.gate.set()
        await asyncio.gather(slow, other)

        assert [type(change) for change in heard] == [Change] * 3
        assert await two.names() == ["a:r", "b:r", "c:r"]

    asyncio.run(story())


def test_a_state_that_is_written_does_not_hide_what_was_registered_elsewhere_before_it() -> None:
    """The other instance was first, and this one had not heard of it: a row has the newest of both."""

    async def story() -> None:
        store = MemoryStore()
        here, there = Plane(store), Plane(store)
        await here.add("a", "old")
        await there.add("a", "new")
        here.register.beat("a", "degraded")
        await here.life.flush()
        await here.directory.catch_up()

        assert await here.names() == ["a:new"]
        assert here.directory.current().agents["a"].health == "degraded"

    asyncio.run(story())


def test_a_state_that_the_store_leaves_out_does_not_hide_what_was_registered_elsewhere_after_it() -> None:
    """The agent registered on the other instance after this one had heard how it feels, and before that was written."""

    async def story() -> None:
        store = MemoryStore()
        here, there = Plane(store), Plane(store)
        await here.add("a", "old")
        here.register.beat("a", "degraded")
        there.clock.time += 1
        await there.add("a", "new")
        await here.life.flush()
        await here.directory.catch_up()

        assert await here.names() == ["a:new"]
        assert here.directory.current().agents["a"].health == "active"

    asyncio.run(story())

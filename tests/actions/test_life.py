"""Signs of life: what they cost, and what silence means."""

import asyncio
from pathlib import Path

from tests.actions.fakes import HandClock, MemoryStore
from tests.actions.test_directory import Plane

from switchboard.actions.directory import Directory
from switchboard.actions.life import Life
from switchboard.actions.register import Newcomer, Register
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.health import leasing
from switchboard.control_plane import read_stored
from switchboard.descriptors import agent as agents
from switchboard.store.sqlite import SqliteStore


def healths(plane: Plane) -> dict[str, str]:
    return {agent.id: agent.health for agent in plane.directory.current().agents.values()}


def test_silence_degrades_and_then_ends_an_agent_in_the_next_answer() -> None:
    """A heartbeat of two seconds: degraded after five, inactive after ten."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        seen: list[str] = []
        for _ in range(24):
            plane.clock.time += 0.5
            plane.life.tick()
            seen.append(healths(plane)["a"])
        assert [seen.index("degraded"), seen.index("inactive")] == [10, 20]

    asyncio.run(story())


def test_a_lease_lets_an_agent_be_silent_for_minutes() -> None:
    """Both ways of staying alive, side by side."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("beats")
        await plane.add("leases")
        plane.register.beat("leases", "ready", leasing())
        for _ in range(240):
            plane.clock.time += 1
            plane.register.beat("beats", "ready")
            plane.life.tick()
        assert healths(plane) == {"beats": "active", "leases": "active"}
        await plane.life.flush()
        saved = plane.store.agents["leases"].state
        assert saved is not None
        assert saved.rhythm.lease_s == 300

    asyncio.run(story())


def test_heartbeats_reach_the_store_in_batches_and_change_no_version() -> None:
    """A thousand beats are one write; a failed write is not lost."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        version = plane.directory.current().version
        for _ in range(1000):
            plane.clock.time += 0.01
            plane.register.beat("a", "ready")
        assert plane.directory.current().version == version
        plane.store.down = True
        try:
            await plane.life.flush()
        except ServiceUnavailable:
            plane.store.down = False
        await plane.life.flush()
        assert plane.store.agents["a"].seen_at == plane.clock.time

    asyncio.run(story())


def test_a_server_that_slept_does_not_declare_everybody_dead() -> None:
    """It could not listen; the agents get the time back."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        plane.life.tick()
        plane.clock.time += 3600
        plane.life.tick()
        assert healths(plane) == {"a": "active"}
        for _ in range(11):
            plane.clock.time += 1
            plane.life.tick()
        assert healths(plane) == {"a": "inactive"}

    asyncio.run(story())


def folder_size(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.iterdir())


def test_a_beat_during_a_long_pause_is_not_moved_into_the_future() -> None:
    """An agent that dies while the server is held up is noticed in time."""

    async def story() -> None:
        plane = Plane(MemoryStore())
        await plane.add("a")
        plane.life.tick()
        plane.clock.time += 58
        plane.register.beat("a", "ready")
        plane.clock.time += 2
        plane.life.tick()
        seen: list[str] = []
        for _ in range(12):
            plane.clock.time += 1
            plane.life.tick()
            seen.append(healths(plane)["a"])
        assert seen[-1] == "inactive"

    asyncio.run(story())


def test_after_a_restart_silence_is_counted_from_the_start() -> None:
    """Nobody was listening before."""

    async def story() -> None:
        store = MemoryStore()
        first = Plane(store)
        await first.add("a")
        second = Plane(store)
        second.clock.time += 5000
        await second.directory.view()
        second.life.tick()
        assert healths(second) == {"a": "active"}

    asyncio.run(story())


def test_a_day_of_heartbeats_leaves_the_database_as_large_as_it_was(tmp_path: Path) -> None:
    """A thousand agents, a beat every thirty seconds, a fast clock, a real file."""

    async def story() -> tuple[int, int]:
        clock, file = HandClock(), tmp_path / "plane.db"
        store = SqliteStore(str(file))
        await store.open()
        directory = Directory(store, clock, read_stored)
        life = Life(directory, store, clock)
        register = Register(store, directory, life, clock)
        ids = [f"agent-{i}" for i in range(1000)]
        for agent_id in ids:
            found = agents.read(b'{"id":"%b","base_url":"http://a"}' % agent_id.encode())
            await register.register(Newcomer(agent=found.agent, said="ready", heartbeat_s=30.0))
        sizes: list[int] = []
        for beat in range(24 * 60 * 2):
            clock.time += 30
            for agent_id in ids:
                register.beat(agent_id, "ready")
            life.tick()
            await life.flush()
            if beat in (10, 24 * 60 * 2 - 1):
                sizes.append(folder_size(tmp_path))
        await store.close()
        return sizes[0], sizes[1]

    early, late = asyncio.run(story())
    assert late <= early * 1.1

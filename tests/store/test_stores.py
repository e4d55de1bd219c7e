"""What every store promises: the same suite runs over all of them."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from tests.store.stores import KINDS, Make, Store, maker

from switchboard.actions.store_ports import StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.health import State, beating, leasing
from switchboard.store.sqlite import SqliteStore

Result = TypeVar("Result")
STATE = State(health="active", reason="registered", since=1.5, rhythm=beating(2.0))


def stored(agent_id: str, text: bytes = b"{}") -> StoredAgent:
    return StoredAgent(id=agent_id, registration=Json(text), state=STATE, registered_at=10.0, seen_at=11.0)


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Return what makes stores of each kind."""
    return maker(request.param, request, tmp_path)


def with_store(make: Make, work: Callable[[Store], Awaitable[Result]]) -> Result:
    """Open, work, close, in a loop of its own."""

    async def run() -> Result:
        store = make()
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


def test_what_was_saved_is_there_after_opening_again(make: Make) -> None:
    """Whole: text, state, times, revision."""

    async def save(store: Store) -> int:
        await store.save(stored("a", b'{"x":1}'))
        return await store.save(stored("a", b'{"x":2}'))

    revision = with_store(make, save)
    newest, agents = with_store(make, lambda store: store.changes(0))

    assert newest == revision == 2
    (agent,) = agents
    assert agent == StoredAgent(
        id="a", registration=Json(b'{"x":2}'), state=STATE, registered_at=10.0, seen_at=11.0, revision=2
    )


def test_changes_are_those_after_a_revision_removals_included(make: Make) -> None:
    """So that an instance that was away catches up exactly."""

    async def work(store: Store) -> list[tuple[str, bool]]:
        for name in ("a", "b", "c"):
            await store.save(stored(name))
        await store.remove("b")
        await store.save(stored("a"))
        _, agents = await store.changes(3)
        return [(agent.id, agent.registration is None) for agent in agents]

    assert with_store(make, work) == [("b", True), ("a", False)]


def test_signs_of_life_are_saved_without_a_change(make: Make) -> None:
    """Only a changed state is news; an agent that is gone is not revived by one."""
    inactive = State(health="inactive", reason="silent", since=50.0, rhythm=leasing())

    async def work(store: Store) -> tuple[int, float, str, int]:
        await store.save(stored("a"))
        await store.save(stored("b"))
        await store.remove("b")
        await store.save_life({}, {"a": 42.0})
        quiet, _ = await store.changes(3)
        await store.save_life({"a": inactive, "b": inactive}, {})
        _, agents = await store.changes(0)
        found = {agent.id: agent for agent in agents}
        state = found["a"].state
        return quiet, found["a"].seen_at, state.health if state else "", len([x for x in agents if x.registration])

    assert with_store(make, work) == (3, 42.0, "inactive", 1)


def test_a_state_from_before_a_registration_does_not_overwrite_it(make: Make) -> None:
    """An old goodbye that is written late does not end the agent's next life."""
    old = State(health="inactive", reason="shut down", since=9.0, rhythm=leasing())

    async def work(store: Store) -> str:
        await store.save(stored("a"))
        await store.save_life({"a": old}, {})
        _, agents = await store.changes(0)
        state = agents[0].state
        return state.health if state else ""

    assert with_store(make, work) == "active"


def test_nothing_is_left_of_the_removed(tmp_path: Path) -> None:
    """A late heartbeat leaves no trace, and after the next start the row is gone."""

    async def remove(store: Store) -> None:
        await store.save(stored("a"))
        await store.remove("a")
        await store.save_life({}, {"a": 42.0})

    make = partial(SqliteStore, str(tmp_path / "folder/plane.db"))
    with_store(make, remove)
    _, agents = with_store(make, lambda store: store.changes(0))
    with closing(sqlite3.connect(tmp_path / "folder/plane.db")) as connection:
        beats = connection.execute("SELECT count(*) FROM beats").fetchone()

    assert (list(agents), beats) == ([], (0,))


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    """They would quarrel about who is alive."""

    async def story() -> None:
        first, second = SqliteStore(str(tmp_path / "plane.db")), SqliteStore(str(tmp_path / "plane.db"))
        await first.open()
        with pytest.raises(ServiceUnavailable, match="another control plane uses it"):
            await second.open()
        await first.close()
        await second.open()
        await second.close()

    asyncio.run(story())


def test_a_reader_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    """While somebody holds the file for writing, changes are still read."""

    async def story() -> None:
        store = SqliteStore(str(tmp_path / "plane.db"))
        await store.open()
        await store.save(stored("a"))
        holder = sqlite3.connect(tmp_path / "plane.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.save(stored("b")))
        _, agents = await asyncio.wait_for(store.changes(0), 2)
        assert [agent.id for agent in agents] == ["a"]
        holder.execute("ROLLBACK")
        holder.close()
        await writing
        await store.close()

    asyncio.run(story())


def test_a_store_that_cannot_answer_says_so_in_our_words(tmp_path: Path) -> None:
    """Closed, locked by somebody else, or not a database."""

    async def closed(store: SqliteStore) -> None:
        await store.close()
        with pytest.raises(ServiceUnavailable):
            await store.changes(0)

    async def not_a_database() -> None:
        (tmp_path / "text.db").write_text("this is not a database, but long enough to look like one" * 50)
        store = SqliteStore(str(tmp_path / "text.db"))
        with pytest.raises(ServiceUnavailable, match="does not answer"):
            await store.open()

    async def run() -> None:
        store = SqliteStore(str(tmp_path / "plane.db"))
        await store.open()
        await closed(store)
        await not_a_database()

    asyncio.run(run())


def test_a_newer_version_of_the_tables_is_left_alone(tmp_path: Path) -> None:
    """Migrations run once, in order, each with its number."""
    make = partial(SqliteStore, str(tmp_path / "folder/plane.db"))
    with_store(make, lambda store: store.changes(0))
    with closing(sqlite3.connect(tmp_path / "folder/plane.db")) as connection:
        before = connection.execute("PRAGMA user_version").fetchone()

    with_store(make, lambda store: store.save(stored("a")))
    with closing(sqlite3.connect(tmp_path / "folder/plane.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == before
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_store_has_an_id_that_stays(make: Make) -> None:
    """Everybody who opens it has the same one, and no other store has it."""

    async def its_id(store: Store) -> str:
        return store.id

    first, again = with_store(make, its_id), with_store(make, its_id)

    assert first == again
    assert len(first) == 32
    assert make().id == ""


def test_two_stores_have_two_ids(tmp_path: Path) -> None:
    """Also where both are empty."""

    async def its_id(store: Store) -> str:
        return store.id

    found = {with_store(partial(SqliteStore, str(tmp_path / name)), its_id) for name in ("a.db", "b.db")}

    assert len(found) == 2

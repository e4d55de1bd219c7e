"""Agents in a SQLite file: write-ahead log, every change on disk before it is answered, one thread that writes.

One connection in one thread: SQLite has one writer at a time anyway, and the event loop never waits for a disk.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import TypeVar, final

import msgspec

from switchboard.actions.ports import AgentStore, StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.health import State

Result = TypeVar("Result")

_BUSY_MS = 5000


@final
class SqliteStore(AgentStore):
    """A file, or `:memory:`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file and bring its tables up to date.

        Raises:
            ServiceUnavailable: it cannot be opened or written.
        """
        await self._run(self._open)

    async def close(self) -> None:
        """Close the file; what was answered is in it."""
        await self._run(self._close)
        self._thread.shutdown(wait=True)

    async def save(self, agent: StoredAgent) -> int:
        """Remember an agent for good."""

        def write(connection: sqlite3.Connection) -> int:
            revision = _next_revision(connection)
            connection.execute(
                "INSERT INTO agents (id, registration, state, registered_at, revision) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET registration = excluded.registration, state = excluded.state,"
                " registered_at = excluded.registered_at, revision = excluded.revision",
                (agent.id, agent.registration, _encoded(agent.state), agent.registered_at, revision),
            )
            _write_beats(connection, {agent.id: agent.seen_at})
            return revision

        return await self._transaction(write)

    async def remove(self, agent_id: str) -> int:
        """Forget an agent."""

        def write(connection: sqlite3.Connection) -> int:
            revision = _next_revision(connection)
            connection.execute(
                "UPDATE agents SET registration = NULL, state = NULL, revision = ? WHERE id = ?", (revision, agent_id)
            )
            connection.execute("DELETE FROM beats WHERE id = ?", (agent_id,))
            return revision

        return await self._transaction(write)

    async def changes(self, since: int) -> tuple[int, Sequence[StoredAgent]]:
        """Return what changed after a revision."""

        def read(connection: sqlite3.Connection) -> tuple[int, Sequence[StoredAgent]]:
            rows = connection.execute(
                "SELECT a.id, a.registration, a.state, a.registered_at,"
                " COALESCE(b.seen_at, a.registered_at), a.revision"
                " FROM agents a LEFT JOIN beats b USING (id) WHERE a.revision > ? ORDER BY a.revision",
                (since,),
            )
            changed = [_stored(*row) for row in rows]
            return (changed[-1].revision if changed else since), changed

        return await self._transaction(read)

    async def save_life(self, states: Mapping[str, State], seen: Mapping[str, float]) -> int:
        """Remember changed states and last signs of life in one transaction."""

        def write(connection: sqlite3.Connection) -> int:
            revision = _next_revision(connection) if states else 0
            # A state from before a newer registration says nothing about it.
            connection.executemany(
                "UPDATE agents SET state = ?, revision = ?"
                " WHERE id = ? AND registration IS NOT NULL AND registered_at <= ?",
                [(_encoded(state), revision, agent_id, state.since) for agent_id, state in states.items()],
            )
            _write_beats(connection, seen)
            return revision

        return await self._transaction(write)

    async def _transaction(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        def inside() -> Result:
            connection = self._connection
            if connection is None:
                raise ServiceUnavailable("The database is not open.")
            with connection:
                connection.execute("BEGIN")
                return work(connection)

        return await self._run(inside)

    async def _run(self, work: Callable[[], Result]) -> Result:
        from asyncio import get_running_loop  # noqa: PLC0415 - the store is wired before there is a loop

        try:
            return await get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError, RuntimeError) as error:
            raise ServiceUnavailable(f"The database does not answer: {error}.") from error

    def _open(self) -> None:
        if self._path != ":memory:":
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            Path(self._path).touch(mode=0o600)  # what agents say is nobody else's business
        # autocommit by hand: every transaction here begins and ends in `_transaction`
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _migrate(connection)
        self._connection = connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _migrate(connection: sqlite3.Connection) -> None:
    """Run every migration the file has not seen, each in one transaction with its number."""
    scripts = sorted(
        (entry for entry in files("switchboard.store").joinpath("migrations").iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    known: int = connection.execute("PRAGMA user_version").fetchone()[0]
    for number, script in enumerate(scripts, 1):
        if number > known:
            connection.executescript(f"BEGIN IMMEDIATE; {script.read_text()} PRAGMA user_version = {number}; COMMIT;")


def _next_revision(connection: sqlite3.Connection) -> int:
    revision: int = connection.execute("UPDATE revision SET value = value + 1 RETURNING value").fetchone()[0]
    return revision


def _write_beats(connection: sqlite3.Connection, seen: Mapping[str, float]) -> None:
    connection.executemany(
        "INSERT INTO beats (id, seen_at) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
        seen.items(),
    )


def _encoded(state: State | None) -> bytes | None:
    return None if state is None else msgspec.json.encode(state)


def _stored(  # noqa: PLR0913, PLR0917 - one per column
    agent_id: str,
    registration: bytes | None,
    state: bytes | None,
    registered_at: float,
    seen_at: float,
    revision: int,
) -> StoredAgent:
    return StoredAgent(
        id=agent_id,
        registration=None if registration is None else Json(registration),
        state=None if state is None else msgspec.json.decode(state, type=State),
        registered_at=registered_at,
        seen_at=seen_at,
        revision=revision,
    )

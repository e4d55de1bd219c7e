"""Agents in a SQLite file: write-ahead log, every change on disk before it is answered.

One connection writes and one reads, each in a thread of its own: a reader never waits for a writer, and the event loop
never for a disk.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO, TypeVar, final

import msgspec

from switchboard.actions.ports import AgentStore, StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.health import State

try:
    import fcntl
except ImportError:  # Windows has no flock; there, one instance per file is a matter of care
    fcntl = None

Result = TypeVar("Result")

_BUSY_MS = 5000


@final
class SqliteStore(AgentStore):
    """A file, which this process has for itself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite-write")
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite-read")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._lock: BinaryIO | None = None

    async def open(self) -> None:
        """Open the file and bring its tables up to date.

        Raises:
            ServiceUnavailable: it cannot be opened or written.
        """
        await self._run(self._writing, self._open)
        await self._run(self._reading, self._open_reader)

    async def close(self) -> None:
        """Close the file; what was answered is in it."""
        await self._run(self._reading, self._close_reader)
        await self._run(self._writing, self._close)
        self._reading.shutdown(wait=True)
        self._writing.shutdown(wait=True)

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

        return await self._run(self._reading, lambda: _inside(self._reader, read))

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
        return await self._run(self._writing, lambda: _inside(self._writer, work))

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
        from asyncio import get_running_loop  # noqa: PLC0415 - the store is wired before there is a loop

        try:
            return await get_running_loop().run_in_executor(thread, work)
        except (sqlite3.Error, OSError, RuntimeError) as error:
            raise ServiceUnavailable(f"The database does not answer: {error}.") from error

    def _open(self) -> None:
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # what agents say is nobody else's business
        self._lock = _locked(path.with_name(f"{path.name}.lock"))
        self._writer = _connected(self._path)
        try:
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            _migrate(self._writer)
            # Nobody else uses this file, so nobody has to learn any more that these are gone.
            self._writer.execute("DELETE FROM agents WHERE registration IS NULL")
        except BaseException:
            self._close()
            raise

    def _open_reader(self) -> None:
        self._reader = _connected(self._path)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def _connected(path: str) -> sqlite3.Connection:
    # Transactions begin and end in `_inside`, nowhere else.
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


def _inside(connection: sqlite3.Connection | None, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """Do the work in one transaction."""
    if connection is None:
        raise ServiceUnavailable("The database is not open.")
    with connection:
        connection.execute("BEGIN")
        return work(connection)


def _locked(path: Path) -> BinaryIO:
    """Hold the file for this process alone: two that decide about health would quarrel."""
    path.touch(mode=0o600)
    file = path.open("ab")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise OSError("another control plane uses it") from error
    return file


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
        "INSERT INTO beats (id, seen_at) SELECT id, ? FROM agents WHERE id = ? AND registration IS NOT NULL"
        " ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
        [(at, agent_id) for agent_id, at in seen.items()],
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

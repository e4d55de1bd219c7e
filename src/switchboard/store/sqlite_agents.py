"""Agents in a SQLite file."""

import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from switchboard.actions.store_ports import AgentStore, StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.health import State
from switchboard.store.sqlite_database import Database, next_revision


class SqliteAgents(AgentStore):
    """The agents of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def forget_removed(self) -> None:
        """Drop the rows of removed agents: at a start nobody has to learn any more that these are gone."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM agents WHERE registration IS NULL")

        await self._database.write(write)

    async def save(self, agent: StoredAgent) -> int:
        """Remember an agent for good."""

        def write(connection: sqlite3.Connection) -> int:
            revision = next_revision(connection)
            connection.execute(
                "INSERT INTO agents (id, registration, state, registered_at, revision) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET registration = excluded.registration, state = excluded.state,"
                " registered_at = excluded.registered_at, revision = excluded.revision",
                (agent.id, agent.registration, _encoded(agent.state), agent.registered_at, revision),
            )
            _write_beats(connection, {agent.id: agent.seen_at})
            return revision

        return await self._database.write(write)

    async def remove(self, agent_id: str) -> int:
        """Forget an agent."""

        def write(connection: sqlite3.Connection) -> int:
            revision = next_revision(connection)
            connection.execute(
                "UPDATE agents SET registration = NULL, state = NULL, revision = ? WHERE id = ?", (revision, agent_id)
            )
            connection.execute("DELETE FROM beats WHERE id = ?", (agent_id,))
            return revision

        return await self._database.write(write)

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

        return await self._database.read(read)

    async def save_life(self, states: Mapping[str, State], seen: Mapping[str, float]) -> int:
        """Remember changed states and last signs of life in one transaction."""

        def write(connection: sqlite3.Connection) -> int:
            revision = next_revision(connection) if states else 0
            # A state from before a newer registration says nothing about it.
            connection.executemany(
                "UPDATE agents SET state = ?, revision = ?"
                " WHERE id = ? AND registration IS NOT NULL AND registered_at <= ?",
                [(_encoded(state), revision, agent_id, state.since) for agent_id, state in states.items()],
            )
            _write_beats(connection, seen)
            return revision

        return await self._database.write(write)


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

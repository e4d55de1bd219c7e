"""Agents in a PostgreSQL database: registrations compressed, life and signs of life in narrow tables of their own.

Every change takes the next revision before it touches anything else, so changes never wait for each other in a circle.
"""

from collections.abc import Mapping, Sequence

import msgspec
import zstandard

from switchboard.actions.store_ports import AgentStore, StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.health import State
from switchboard.store.postgres_database import Connection, Database, Row, original, written

_LEVEL = 3
_LARGEST = 64 * 1024 * 1024
_LOAD_S = 120.0
# Everything may take longer than any other statement may; it is asked for once, at the start. A few changes are found
# by their revision: without fresh statistics the planner takes a third of all agents for changed, and reads every one.
_ALL = f"SET LOCAL statement_timeout = {int(_LOAD_S * 1000)}"
_FEW = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
_KEEP_REMOVED_S = 7 * 24 * 3600.0
_NEXT = "WITH next AS (UPDATE revision SET value = value + 1 RETURNING value)"
_SAVE = f"""{_NEXT}, saved AS (
  INSERT INTO agents (id, registration, registered_at, revision) SELECT $1, $2, $3, value FROM next
  ON CONFLICT (id) DO UPDATE SET registration = excluded.registration, registered_at = excluded.registered_at,
    revision = excluded.revision RETURNING revision
), lives AS (
  INSERT INTO life (id, state, revision) SELECT $1, $4, revision FROM saved
  ON CONFLICT (id) DO UPDATE SET state = excluded.state, revision = excluded.revision
), beaten AS (
  INSERT INTO beats (id, seen_at, noted_at) SELECT $1, $5, moment() FROM saved
  ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, noted_at = excluded.noted_at
) SELECT revision FROM saved"""  # noqa: S608 - our own words
_REMOVE = f"""{_NEXT}, removed AS (
  UPDATE agents SET registration = NULL, registered_at = moment(), revision = value FROM next WHERE id = $1
), lives AS (DELETE FROM life USING next WHERE id = $1), beaten AS (DELETE FROM beats USING next WHERE id = $1)
SELECT value FROM next"""  # noqa: S608 - our own words
# A standby that took over may have lost the last changes, and may have made others of the same revisions since. Within
# the life of one server that cannot be; of another one nothing is known.
NEWEST = "SELECT value, pg_postmaster_start_time()::text FROM revision"
_CHANGES = """SELECT a.id, a.registration, l.state, a.registered_at, COALESCE(b.seen_at, a.registered_at),
  GREATEST(a.revision, COALESCE(l.revision, 0)) AS newest
FROM agents a LEFT JOIN life l USING (id) LEFT JOIN beats b USING (id)
WHERE a.id IN (SELECT id FROM agents WHERE revision > $1 UNION ALL SELECT id FROM life WHERE revision > $1)
ORDER BY newest"""
TAKE = "UPDATE revision SET value = value + 1 RETURNING value"
# A state from before a newer registration says nothing about it. Not in one statement with the revision: that would
# look at agents as they were before it waited for its turn.
_SAVE_STATES = """UPDATE life SET state = given.state, revision = $4
FROM agents a, unnest($1::text[], $2::bytea[], $3::float8[]) AS given (id, state, since)
WHERE life.id = given.id AND a.id = given.id AND a.registration IS NOT NULL AND a.registered_at <= given.since"""
# Only who still decides may, and only about who was not heard of since: a decider that slept is neither.
_SAVE_SILENCES = """UPDATE life SET state = given.state, revision = $4
FROM agents a, beats b, unnest($1::text[], $2::bytea[], $3::float8[]) AS given (id, state, heard)
WHERE life.id = given.id AND a.id = given.id AND b.id = given.id
  AND a.registration IS NOT NULL AND a.registered_at <= given.heard + 1 AND b.seen_at <= given.heard + 1
  AND EXISTS (SELECT 1 FROM leases WHERE name = 'life' AND holder = $5 AND until > moment())
RETURNING life.id"""
SAVE_BEATS = """INSERT INTO beats (id, seen_at, noted_at)
SELECT given.id, given.seen_at, moment() FROM unnest($1::text[], $2::float8[]) AS given (id, seen_at)
JOIN agents a ON a.id = given.id AND a.registration IS NOT NULL ORDER BY given.id
ON CONFLICT (id) DO UPDATE SET seen_at = GREATEST(excluded.seen_at, beats.seen_at), noted_at = excluded.noted_at"""


class PostgresAgents(AgentStore):
    """The agents of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._server = ""

    async def forget_removed(self) -> None:
        """Drop the rows of agents that were removed so long ago that every instance has learnt of it."""
        statement = "DELETE FROM agents WHERE registration IS NULL AND registered_at < moment() - $1::float8"
        await self._database.do(lambda connection: connection.execute(statement, _KEEP_REMOVED_S))

    async def save(self, agent: StoredAgent) -> int:
        """Remember an agent for good."""
        registration = None if agent.registration is None else compressed(agent.registration)
        values = (written(agent.id), registration, agent.registered_at, encoded(agent.state), agent.seen_at)
        return await self._database.do(lambda connection: connection.fetchval(_SAVE, *values))

    async def remove(self, agent_id: str) -> int:
        """Forget an agent."""
        return await self._database.do(lambda connection: connection.fetchval(_REMOVE, written(agent_id)))

    async def changes(self, since: int) -> tuple[int, Sequence[StoredAgent]]:
        """Return what changed after a revision; everything is new on another server, or on one that began anew."""

        async def look(connection: Connection) -> tuple[int, Sequence[Row]]:
            newest, server = await connection.fetchrow(NEWEST) or (0, "")
            if since > 0 and self._server not in ("", server):
                return 0, []
            self._server = server
            if newest <= since:
                return newest, []
            async with connection.transaction():
                await connection.execute(_ALL if since == 0 else _FEW)
                return newest, await connection.fetch(_CHANGES, since, timeout=_LOAD_S if since == 0 else None)

        newest, rows = await self._database.read(look)
        unpack = zstandard.ZstdDecompressor()
        changed = [_stored(row, unpack) for row in rows]
        return (max(newest, changed[-1].revision) if changed else newest), changed

    async def save_life(self, states: Mapping[str, State], seen: Mapping[str, float]) -> int:
        """Remember changed states and last signs of life in one transaction."""

        async def write(connection: Connection) -> int:
            revision = await save_states(connection, states) if states else 0
            if seen:
                await save_beats(connection, seen)
            return revision

        return await self._database.write(write)


async def save_states(connection: Connection, states: Mapping[str, State]) -> int:
    """Write states under one new revision, and return that."""
    revision: int = await connection.fetchval(TAKE)
    ids = [written(agent_id) for agent_id in states]
    texts = [encoded(state) for state in states.values()]
    await connection.execute(_SAVE_STATES, ids, texts, [state.since for state in states.values()], revision)
    return revision


async def save_silences(
    connection: Connection, states: Mapping[str, State], heard: Mapping[str, float], decider: str
) -> tuple[int, list[str]]:
    """Write what somebody decided about who is silent; return the revision, and whom it holds for."""
    revision: int = await connection.fetchval(TAKE)
    ids = [written(agent_id) for agent_id in states]
    texts = [encoded(state) for state in states.values()]
    since = [heard[agent_id] for agent_id in states]
    rows = await connection.fetch(_SAVE_SILENCES, ids, texts, since, revision, decider)
    return revision, [original(row[0]) for row in rows]


async def save_beats(connection: Connection, seen: Mapping[str, float]) -> None:
    """Write signs of life, in an order that everybody keeps: two who write the same ones wait for each other once."""
    await connection.execute(SAVE_BEATS, [written(agent_id) for agent_id in seen], list(seen.values()))


def compressed(registration: bytes) -> bytes:
    """Return a registration as it is stored; a compressor is not shared, because threads and tasks are many."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(registration)


def encoded(state: State | None) -> bytes | None:
    """Return a state as it is stored."""
    return None if state is None else msgspec.json.encode(state)


def _stored(row: Row, unpack: zstandard.ZstdDecompressor) -> StoredAgent:
    agent_id, registration, state, registered_at, seen_at, revision = row
    text = None if registration is None else Json(unpack.decompress(registration, max_output_size=_LARGEST))
    return StoredAgent(
        id=original(agent_id),
        registration=text,
        state=None if state is None else msgspec.json.decode(state, type=State),
        registered_at=registered_at,
        seen_at=seen_at,
        revision=revision,
    )

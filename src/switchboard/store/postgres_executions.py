"""Executions in a PostgreSQL database, and what agents said about them.

Each execution has an owner, the instance that looks after it. Only the owner may hand it over, which the database
decides in one statement: an instance that slept while others took over its work can send nothing of it any more. An end
may be noted by anybody; the first wins.
"""

from collections.abc import Mapping, Sequence
from typing import Any, final

import msgspec

from switchboard.actions.store_ports import ExecutionStore, Note
from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.executions import Ended, Execution, Webhook
from switchboard.store.notes import MOST_NOTES, fitting
from switchboard.store.postgres_database import Connection, Database, Row, original, written

SELECT = (
    "SELECT e.id, r.run_id, r.parent_id, r.agent_id, r.kind, r.capability, e.caller, r.input, r.context, r.webhook,"
    " e.idempotency_key, e.status, e.created_at, e.handed_at, e.acknowledged_at, e.instance_id,"
    " e.ended_at, x.result, x.error, x.error_details, x.reason, x.http_status"
    " FROM executions e JOIN execution_requests r USING (number) LEFT JOIN execution_ends x USING (number) "
)
_INSERT = """WITH made AS (
  INSERT INTO executions (id, caller, idempotency_key, status, created_at, handed_at, acknowledged_at, instance_id,
    ended_at, owner) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING number
), asked AS (
  INSERT INTO execution_requests (number, run_id, parent_id, agent_id, kind, capability, context, webhook, input)
  SELECT number, $11, $12, $13, $14, $15, $16, $17, $18 FROM made
), ended AS (
  INSERT INTO execution_ends (number, error, reason, http_status, error_details, result)
  SELECT number, $19, $20, $21, $22, $23 FROM made WHERE $9::float8 IS NOT NULL
) SELECT number FROM made"""
# The same without waiting for the disk, said inside the one statement that it is about.
_INSERT_RELAXED = f"{_INSERT} WHERE set_config('synchronous_commit', 'off', true) IS NOT NULL"
_HAND = (
    "UPDATE executions SET status = 'running', handed_at = $2, instance_id = $3"
    " WHERE id = $1 AND owner = $4 AND (status = 'queued' OR status = 'running' AND handed_at = $2) RETURNING number"
)
_SETTLE = """WITH done AS (
  UPDATE executions SET status = $2, ended_at = $3 WHERE id = $1 AND ended_at IS NULL RETURNING number
) INSERT INTO execution_ends (number, error, reason, http_status, error_details, result)
SELECT number, $4, $5, $6, $7, $8 FROM done RETURNING number"""
_BY_ID = SELECT + "WHERE e.id = ANY($1::text[])"
_BY_KEY = SELECT + "WHERE e.caller = $1 AND e.idempotency_key = $2"


@final
class PostgresExecutions(ExecutionStore):
    """The executions of one database, as one instance sees to them."""

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner

    async def accept(self, execution: Execution) -> Execution:
        """Remember a new execution; one whose key or id is known is returned as it is."""
        values = _values(execution, self._owner)
        # One that is on its way already is nobody's promise: its caller waits, and would learn of a crash at once.
        insert = _INSERT_RELAXED if execution.status == "running" else _INSERT

        async def write(connection: Connection) -> Execution:
            while await connection.fetchval(insert, *values) is None:
                known = await _known(connection, execution)
                if known is not None:
                    return known
            return execution

        return await self._database.do(write)

    async def hand(self, execution_id: str, at: float, instance_id: str) -> bool:
        """Move it from queued to running, once, and only if it is still ours."""
        values = (written(execution_id), at, written(instance_id), self._owner)
        return await self._database.do(lambda connection: connection.fetchval(_HAND, *values)) is not None

    async def is_ours(self, execution_id: str) -> bool:
        """Tell whether this instance looks after it."""
        statement = "SELECT 1 FROM executions WHERE id = $1 AND owner = $2"
        values = (written(execution_id), self._owner)
        return await self._database.read(lambda connection: connection.fetchval(statement, *values)) is not None

    async def acknowledge(self, execution_id: str, at: float) -> None:
        """Note the first time that the agent said so, of one that was handed over and has no end."""
        statement = (
            "UPDATE executions SET acknowledged_at = $2"
            " WHERE id = $1 AND status = 'running' AND acknowledged_at IS NULL"
        )
        await self._database.do(lambda connection: connection.execute(statement, written(execution_id), at))

    async def settle(self, execution_id: str, ended: Ended) -> tuple[Execution | None, bool]:
        """Note its end, unless it has one."""
        key = written(execution_id)
        values = (key, ended.status, ended.at, *_end_values(ended))

        async def write(connection: Connection) -> tuple[Execution | None, bool]:
            first = await connection.fetchval(_SETTLE, *values) is not None
            row = await connection.fetchrow(_BY_ID, [key])
            return (None if row is None else execution_of(row)), first

        return await self._database.do(write)

    async def executions(self, ids: Sequence[str]) -> Mapping[str, Execution]:
        """Return those of the named executions that are known."""
        if not ids:
            return {}
        wanted = [written(execution_id) for execution_id in dict.fromkeys(ids)]
        rows = await self._database.read(lambda connection: connection.fetch(_BY_ID, wanted))
        return {execution.id: execution for execution in map(execution_of, rows)}

    async def ended(self, ids: Sequence[str]) -> Sequence[str]:
        """Return which of the named executions have ended."""
        statement = "SELECT id FROM executions WHERE id = ANY($1::text[]) AND ended_at IS NOT NULL"
        wanted = [written(execution_id) for execution_id in ids]
        rows = await self._database.read(lambda connection: connection.fetch(statement, wanted))
        return [original(row[0]) for row in rows]

    async def keyed(self, caller: str, idempotency_key: str) -> Execution | None:
        """Return what a caller's key was used for."""
        values = (written(caller), written(idempotency_key))
        row = await self._database.read(lambda connection: connection.fetchrow(_BY_KEY, *values))
        return None if row is None else execution_of(row)

    async def unfinished(self) -> Sequence[Execution]:
        """Return every execution without an end, oldest first, whoever looks after it."""
        statement = SELECT + "WHERE e.ended_at IS NULL ORDER BY e.created_at, e.number"
        rows = await self._database.read(lambda connection: connection.fetch(statement))
        return [execution_of(row) for row in rows]

    async def add_notes(self, notes: Sequence[Note]) -> None:
        """Remember the newest notes of each execution, each up to its limit."""
        if not notes:
            return
        columns = (
            [written(note.execution_id) for note in notes],
            [written(note.kind) for note in notes],
            [note.at for note in notes],
            [fitting(note).content for note in notes],
        )

        async def write(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO notes (execution_id, kind, at, content)"
                " SELECT * FROM unnest($1::text[], $2::text[], $3::float8[], $4::bytea[])",
                *columns,
            )
            await connection.execute(
                "DELETE FROM notes WHERE number IN (SELECT n.number FROM unnest($1::text[]) AS wanted (id),"
                " LATERAL (SELECT number FROM notes WHERE execution_id = wanted.id"
                " ORDER BY at DESC, number DESC OFFSET $2) AS n)",
                sorted(set(columns[0])),
                MOST_NOTES,
            )

        await self._database.write(write)

    async def notes(self, execution_id: str) -> Sequence[Note]:
        """Return what was said about one execution, oldest first."""
        statement = "SELECT kind, at, content FROM notes WHERE execution_id = $1 ORDER BY at, number"
        rows = await self._database.read(lambda connection: connection.fetch(statement, written(execution_id)))
        return [
            Note(execution_id=execution_id, kind=original(kind), at=at, content=Json(content))
            for kind, at, content in rows
        ]

    async def forget(self, ended_before: float, most: int) -> int:
        """Forget the executions that ended first, and as many old notes about executions that are not here."""

        async def write(connection: Connection) -> int:
            forgotten = await connection.fetch(
                "DELETE FROM executions WHERE number IN (SELECT number FROM executions WHERE ended_at < $1"
                " ORDER BY ended_at, number LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING number, id",
                ended_before,
                max(0, most),
            )
            numbers = [row[0] for row in forgotten]
            await connection.execute("DELETE FROM execution_requests WHERE number = ANY($1::bigint[])", numbers)
            await connection.execute("DELETE FROM execution_ends WHERE number = ANY($1::bigint[])", numbers)
            await connection.execute(
                "DELETE FROM notes WHERE execution_id = ANY($1::text[])", [row[1] for row in forgotten]
            )
            orphans = await connection.fetch(
                "DELETE FROM notes WHERE number IN (SELECT number FROM notes n WHERE at < $1 AND NOT EXISTS"
                " (SELECT 1 FROM executions e WHERE e.id = n.execution_id) ORDER BY at, number LIMIT $2) RETURNING 1",
                ended_before,
                max(0, most),
            )
            return max(len(forgotten), len(orphans))

        return await self._database.write(write)


async def _known(connection: Connection, new: Execution) -> Execution | None:
    """Return what is here under the caller's key or, for who could not know that he was heard, under the id."""
    row = None
    if new.idempotency_key is not None:
        row = await connection.fetchrow(_BY_KEY, written(new.caller), written(new.idempotency_key))
    row = row or await connection.fetchrow(_BY_ID, [written(new.id)])
    return None if row is None else execution_of(row)


def _values(new: Execution, owner: str) -> tuple[Any, ...]:
    return (
        written(new.id),
        written(new.caller),
        _maybe(written, new.idempotency_key),
        new.status,
        new.created_at,
        new.handed_at,
        new.acknowledged_at,
        written(new.instance_id),
        None if new.ended is None else new.ended.at,
        owner,
        written(new.run_id),
        _maybe(written, new.parent_id),
        written(new.agent_id),
        new.kind,
        written(new.capability),
        msgspec.json.encode(new.context),
        None if new.webhook is None else msgspec.json.encode(new.webhook),
        new.input,
        *_end_values(new.ended),
    )


def _end_values(ended: Ended | None) -> tuple[Any, ...]:
    if ended is None:
        return (None,) * 5
    said = (_maybe(written, ended.error), _maybe(written, ended.reason))
    return (*said, ended.http_status, ended.error_details, ended.result)


def _maybe(change: Any, text: str | None) -> str | None:
    return None if text is None else change(text)


def execution_of(row: Row) -> Execution:
    """Return an execution from what `SELECT` selects."""
    status = row[11]
    ended_at, result, error, error_details, reason, http_status = (row[place] for place in range(16, 22))
    ended = None
    if ended_at is not None:
        ended = Ended(
            status=status,
            at=ended_at,
            result=result,
            error=_maybe(original, error),
            error_details=error_details,
            reason=_maybe(original, reason),
            http_status=http_status,
        )
    return Execution(
        id=original(row[0]),
        run_id=original(row[1]),
        parent_id=_maybe(original, row[2]),
        agent_id=original(row[3]),
        kind=row[4],
        capability=original(row[5]),
        caller=original(row[6]),
        input=row[7],
        context=msgspec.json.decode(row[8], type=Pairs),
        webhook=None if row[9] is None else msgspec.json.decode(row[9], type=Webhook),
        idempotency_key=_maybe(original, row[10]),
        status=status,
        created_at=row[12],
        handed_at=row[13],
        acknowledged_at=row[14],
        instance_id=original(row[15]),
        ended=ended,
    )

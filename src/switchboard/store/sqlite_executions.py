"""Executions in a SQLite file, and what agents said about them."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, final

import msgspec

from switchboard.actions.store_ports import ExecutionStore, Note
from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.executions import Ended, Execution, Webhook
from switchboard.store.notes import MOST_NOTES, fitting
from switchboard.store.sqlite_database import Database

_SELECT = (
    "SELECT e.id, r.run_id, r.parent_id, r.agent_id, r.kind, r.capability, e.caller, r.input, r.context, r.webhook,"
    " e.idempotency_key, e.status, e.created_at, e.handed_at, e.acknowledged_at, e.instance_id,"
    " e.ended_at, x.result, x.error, x.error_details, x.reason, x.http_status"
    " FROM executions e JOIN execution_requests r USING (number) LEFT JOIN execution_ends x USING (number) "
)


@final
class SqliteExecutions(ExecutionStore):
    """The executions of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def accept(self, execution: Execution) -> Execution:
        """Remember a new execution; one whose key or id is known is returned as it is."""

        def write(connection: sqlite3.Connection) -> Execution:
            known = _known(connection, execution)
            if known is not None:
                return known
            _insert(connection, execution)
            return execution

        return await self._database.write(write)

    async def hand(self, execution_id: str, at: float, instance_id: str) -> bool:
        """Move it from queued to running, once."""

        def write(connection: sqlite3.Connection) -> bool:
            changed = connection.execute(
                "UPDATE executions SET status = 'running', handed_at = ?, instance_id = ?"
                " WHERE id = ? AND (status = 'queued' OR status = 'running' AND handed_at = ?)",
                (at, instance_id, execution_id, at),
            )
            return changed.rowcount == 1

        return await self._database.write(write)

    async def is_ours(self, execution_id: str) -> bool:
        """Say yes: a file has one instance."""
        del execution_id
        return True

    async def acknowledge(self, execution_id: str, at: float) -> None:
        """Note the first time that the agent said so, of one that was handed over and has no end."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE executions SET acknowledged_at = ?"
                " WHERE id = ? AND status = 'running' AND acknowledged_at IS NULL",
                (at, execution_id),
            )

        await self._database.write(write)

    async def settle(self, execution_id: str, ended: Ended) -> tuple[Execution | None, bool]:
        """Note its end, unless it has one."""

        def write(connection: sqlite3.Connection) -> tuple[Execution | None, bool]:
            row = connection.execute(
                "UPDATE executions SET status = ?, ended_at = ? WHERE id = ? AND ended_at IS NULL RETURNING number",
                (ended.status, ended.at, execution_id),
            ).fetchone()
            if row is not None:
                _insert_end(connection, row[0], ended)
            return _one(connection, "WHERE e.id = ?", execution_id), row is not None

        return await self._database.write(write)

    async def executions(self, ids: Sequence[str]) -> Mapping[str, Execution]:
        """Return those of the named executions that are known."""

        def read(connection: sqlite3.Connection) -> Mapping[str, Execution]:
            found = (_one(connection, "WHERE e.id = ?", execution_id) for execution_id in dict.fromkeys(ids))
            return {execution.id: execution for execution in found if execution is not None}

        return await self._database.read(read)

    async def ended(self, ids: Sequence[str]) -> Sequence[str]:
        """Return which of the named executions have ended."""
        return [key for key, execution in (await self.executions(ids)).items() if execution.ended is not None]

    async def keyed(self, caller: str, idempotency_key: str) -> Execution | None:
        """Return what a caller's key was used for."""
        where = "WHERE e.caller = ? AND e.idempotency_key = ?"
        return await self._database.read(lambda connection: _one(connection, where, caller, idempotency_key))

    async def unfinished(self) -> Sequence[Execution]:
        """Return every execution without an end, oldest first."""

        def read(connection: sqlite3.Connection) -> Sequence[Execution]:
            return [
                _execution(row)
                for row in connection.execute(_SELECT + "WHERE e.ended_at IS NULL ORDER BY e.created_at, e.number")
            ]

        return await self._database.read(read)

    async def add_notes(self, notes: Sequence[Note]) -> None:
        """Remember the newest notes of each execution, each up to its limit."""

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT INTO notes (execution_id, kind, at, content) VALUES (?, ?, ?, ?)",
                [(note.execution_id, note.kind, note.at, fitting(note).content) for note in notes],
            )
            connection.executemany(
                "DELETE FROM notes WHERE number IN (SELECT number FROM notes WHERE execution_id = ?"
                " ORDER BY at DESC, number DESC LIMIT -1 OFFSET ?)",
                [(execution_id, MOST_NOTES) for execution_id in {note.execution_id for note in notes}],
            )

        await self._database.write(write)

    async def notes(self, execution_id: str) -> Sequence[Note]:
        """Return what was said about one execution, oldest first."""

        def read(connection: sqlite3.Connection) -> Sequence[Note]:
            rows = connection.execute(
                "SELECT kind, at, content FROM notes WHERE execution_id = ? ORDER BY at, number", (execution_id,)
            )
            return [
                Note(execution_id=execution_id, kind=kind, at=at, content=Json(content)) for kind, at, content in rows
            ]

        return await self._database.read(read)

    async def forget(self, ended_before: float, most: int) -> int:
        """Forget the executions that ended first, and as many old notes about executions that are not here.

        Returns how many of either, whichever is more: there may be more of it.
        """

        def write(connection: sqlite3.Connection) -> int:
            forgotten: list[tuple[int, str]] = connection.execute(
                "DELETE FROM executions WHERE number IN (SELECT number FROM executions WHERE ended_at < ?"
                " ORDER BY ended_at, number LIMIT ?) RETURNING number, id",
                (ended_before, max(0, most)),
            ).fetchall()
            numbers = [(number,) for number, _ in forgotten]
            connection.executemany("DELETE FROM execution_requests WHERE number = ?", numbers)
            connection.executemany("DELETE FROM execution_ends WHERE number = ?", numbers)
            connection.executemany("DELETE FROM notes WHERE execution_id = ?", [(key,) for _, key in forgotten])
            orphans = connection.execute(
                "DELETE FROM notes WHERE number IN (SELECT number FROM notes n WHERE at < ? AND NOT EXISTS"
                " (SELECT 1 FROM executions e WHERE e.id = n.execution_id) ORDER BY at, number LIMIT ?)",
                (ended_before, max(0, most)),
            )
            return max(len(forgotten), orphans.rowcount)

        return await self._database.write(write)


def _known(connection: sqlite3.Connection, new: Execution) -> Execution | None:
    """Return what is here under the caller's key or, for who could not know that he was heard, under the id."""
    if new.idempotency_key is not None:
        where = "WHERE e.caller = ? AND e.idempotency_key = ?"
        known = _one(connection, where, new.caller, new.idempotency_key)
        if known is not None:
            return known
    return _one(connection, "WHERE e.id = ?", new.id)


def _insert(connection: sqlite3.Connection, new: Execution) -> None:
    number: int | None = connection.execute(
        "INSERT INTO executions (id, caller, idempotency_key, status, created_at, handed_at, acknowledged_at,"
        " instance_id, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.id,
            new.caller,
            new.idempotency_key,
            new.status,
            new.created_at,
            new.handed_at,
            new.acknowledged_at,
            new.instance_id,
            None if new.ended is None else new.ended.at,
        ),
    ).lastrowid
    webhook = None if new.webhook is None else msgspec.json.encode(new.webhook)
    connection.execute(
        "INSERT INTO execution_requests (number, run_id, parent_id, agent_id, kind, capability, context, webhook,"
        " input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            new.run_id,
            new.parent_id,
            new.agent_id,
            new.kind,
            new.capability,
            msgspec.json.encode(new.context),
            webhook,
            new.input,
        ),
    )
    if new.ended is not None:
        _insert_end(connection, number, new.ended)


def _insert_end(connection: sqlite3.Connection, number: int | None, ended: Ended) -> None:
    connection.execute(
        "INSERT INTO execution_ends (number, error, reason, http_status, error_details, result)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (number, ended.error, ended.reason, ended.http_status, ended.error_details, ended.result),
    )


def _one(connection: sqlite3.Connection, where: str, *values: str) -> Execution | None:
    row = connection.execute(_SELECT + where, values).fetchone()
    return None if row is None else _execution(row)


def _execution(row: tuple[Any, ...]) -> Execution:
    status = row[11]
    ended_at, result, error, error_details, reason, http_status = row[16:]
    ended = None
    if ended_at is not None:
        ended = Ended(
            status=status,
            at=ended_at,
            result=result,
            error=error,
            error_details=error_details,
            reason=reason,
            http_status=http_status,
        )
    return Execution(
        id=row[0],
        run_id=row[1],
        parent_id=row[2],
        agent_id=row[3],
        kind=row[4],
        capability=row[5],
        caller=row[6],
        input=row[7],
        context=msgspec.json.decode(row[8], type=Pairs),
        webhook=None if row[9] is None else msgspec.json.decode(row[9], type=Webhook),
        idempotency_key=row[10],
        status=status,
        created_at=row[12],
        handed_at=row[13],
        acknowledged_at=row[14],
        instance_id=row[15],
        ended=ended,
    )

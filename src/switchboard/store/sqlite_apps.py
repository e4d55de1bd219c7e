"""Published apps in a SQLite file."""

import sqlite3
from collections.abc import Sequence
from typing import final

import msgspec

from switchboard.actions.app_ports import AppStore, Record, StoredApp
from switchboard.store.sqlite_database import Database, next_revision

_COLUMNS = "SELECT id, record, descriptor, revision FROM apps"


@final
class SqliteApps(AppStore):
    """The published apps of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, app: StoredApp, after: int) -> int | None:
        """Remember an app, unless somebody was faster."""

        def write(connection: sqlite3.Connection) -> int | None:
            found = connection.execute("SELECT revision FROM apps WHERE id = ?", (app.id,)).fetchone()
            if (found[0] if found else 0) != after:
                return None
            revision = next_revision(connection)
            connection.execute(
                "INSERT INTO apps (id, record, descriptor, revision) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
                " SET record = excluded.record, descriptor = excluded.descriptor, revision = excluded.revision",
                (app.id, msgspec.json.encode(app.record), app.descriptor, revision),
            )
            _write_editions(connection, app)
            return revision

        return await self._database.write(write)

    async def app(self, app_id: str) -> StoredApp | None:
        """Return one app."""

        def read(connection: sqlite3.Connection) -> StoredApp | None:
            row = connection.execute(f"{_COLUMNS} WHERE id = ?", (app_id,)).fetchone()
            return None if row is None else _stored(*row)

        return await self._database.read(read)

    async def edition(self, app_id: str, version: str) -> bytes | None:
        """Return the descriptor of one version."""

        def read(connection: sqlite3.Connection) -> bytes | None:
            statement = "SELECT descriptor FROM editions WHERE app_id = ? AND version = ?"
            row = connection.execute(statement, (app_id, version)).fetchone()
            return None if row is None else row[0]

        return await self._database.read(read)

    async def changes(self, since: int) -> tuple[int, Sequence[StoredApp]]:
        """Return what changed after a revision."""

        def read(connection: sqlite3.Connection) -> tuple[int, Sequence[StoredApp]]:
            newest: int = connection.execute("SELECT value FROM revision").fetchone()[0]
            rows = connection.execute(f"{_COLUMNS} WHERE revision > ? ORDER BY revision", (since,))
            return newest, [_stored(*row) for row in rows]

        return await self._database.read(read)


def _write_editions(connection: sqlite3.Connection, app: StoredApp) -> None:
    kept = [edition.version for edition in app.record.editions]
    if app.descriptor is not None:
        connection.execute(
            "INSERT INTO editions (app_id, version, descriptor) VALUES (?, ?, ?)"
            " ON CONFLICT (app_id, version) DO UPDATE SET descriptor = excluded.descriptor",
            (app.id, kept[-1], app.descriptor),
        )
    connection.execute(
        f"DELETE FROM editions WHERE app_id = ? AND version NOT IN ({','.join('?' * len(kept))})",  # noqa: S608
        (app.id, *kept),
    )


def _stored(app_id: str, record: bytes, descriptor: bytes | None, revision: int) -> StoredApp:
    return StoredApp(
        id=app_id, record=msgspec.json.decode(record, type=Record), descriptor=descriptor, revision=revision
    )

"""Published apps in a PostgreSQL database, their descriptors compressed.

A change takes its revision before it looks: whoever holds that row sees what all the others have committed.
"""

from collections.abc import Sequence
from typing import final

import msgspec
import zstandard

from switchboard.actions.app_ports import AppStore, Record, StoredApp
from switchboard.store.postgres_agents import NEWEST, TAKE, compressed
from switchboard.store.postgres_database import Connection, Database, Row

_LARGEST = 16 * 1024 * 1024
_COLUMNS = "SELECT id, record, descriptor, revision FROM apps"
_SAVE = """INSERT INTO apps (id, record, descriptor, revision) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE
SET record = excluded.record, descriptor = excluded.descriptor, revision = excluded.revision"""
_SAVE_EDITION = """INSERT INTO editions (app_id, version, descriptor) VALUES ($1, $2, $3)
ON CONFLICT (app_id, version) DO UPDATE SET descriptor = excluded.descriptor"""
_CHANGES = f"{_COLUMNS} WHERE revision > $1 ORDER BY revision"


@final
class PostgresApps(AppStore):
    """The published apps of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._server = ""

    async def keep(self, app: StoredApp, after: int) -> int | None:
        """Remember an app, unless somebody was faster."""

        async def write(connection: Connection) -> int | None:
            revision: int = await connection.fetchval(TAKE)
            found: int | None = await connection.fetchval("SELECT revision FROM apps WHERE id = $1", app.id)
            if (found or 0) != after:
                return None
            text = None if app.descriptor is None else compressed(app.descriptor)
            await connection.execute(_SAVE, app.id, msgspec.json.encode(app.record), text, revision)
            kept = [edition.version for edition in app.record.editions]
            if text is not None:
                await connection.execute(_SAVE_EDITION, app.id, kept[-1], text)
            await connection.execute("DELETE FROM editions WHERE app_id = $1 AND version <> ALL ($2)", app.id, kept)
            return revision

        return await self._database.write(write)

    async def app(self, app_id: str) -> StoredApp | None:
        """Return one app."""
        statement = f"{_COLUMNS} WHERE id = $1"
        row = await self._database.read(lambda connection: connection.fetchrow(statement, app_id))
        return None if row is None else _stored(row)

    async def edition(self, app_id: str, version: str) -> bytes | None:
        """Return the descriptor of one version."""
        statement = "SELECT descriptor FROM editions WHERE app_id = $1 AND version = $2"
        text = await self._database.read(lambda connection: connection.fetchval(statement, app_id, version))
        return None if text is None else _unpacked(text)

    async def changes(self, since: int) -> tuple[int, Sequence[StoredApp]]:
        """Return what changed after a revision; everything is new on another server, as for agents."""

        async def look(connection: Connection) -> tuple[int, str, Sequence[Row]]:
            # One after the other: joined, the planner takes the one row of revisions for as many as it ever had.
            newest, server = await connection.fetchrow(NEWEST) or (0, "")
            return newest, server, await connection.fetch(_CHANGES, since)

        newest, server, rows = await self._database.read(look)
        if since > 0 and self._server not in ("", server):
            self._server = ""
            return 0, []
        self._server = server
        changed = [_stored(row) for row in rows]
        return (max(newest, changed[-1].revision) if changed else newest), changed


def _stored(row: Row) -> StoredApp:
    app_id, record, descriptor, revision = row[:4]
    return StoredApp(
        id=app_id,
        record=msgspec.json.decode(record, type=Record),
        descriptor=None if descriptor is None else _unpacked(descriptor),
        revision=revision,
    )


def _unpacked(text: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(text, max_output_size=_LARGEST)

"""Everything that is remembered, in one SQLite file: agents, their executions, and published apps."""

import sqlite3
from typing import final

from switchboard.actions.store_ports import Identified
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.store.sqlite_agents import SqliteAgents
from switchboard.store.sqlite_apps import SqliteApps
from switchboard.store.sqlite_database import Database
from switchboard.store.sqlite_executions import SqliteExecutions


@final
class SqliteStore(SqliteAgents, Identified):
    """The agents of one file, which it opens and closes; executions and apps are in the same file."""

    def __init__(self, path: str) -> None:
        self.database = Database(path)
        super().__init__(self.database)
        self._id = ""
        self.apps = SqliteApps(self.database)
        self.executions = SqliteExecutions(self.database)

    @property
    def id(self) -> str:
        """The id of the file, which was written into it when it was made; known once it is open."""
        return self._id

    async def open(self) -> None:
        """Open the file, bring its tables up to date and tidy up.

        Raises:
            ServiceUnavailable: it cannot be opened or written.
        """
        await self.database.open()
        try:
            await self.forget_removed()
            await self._learn_id()
        except ServiceUnavailable:
            await self.database.close()
            raise

    async def close(self) -> None:
        """Close the file; what was answered is in it."""
        await self.database.close()

    async def _learn_id(self) -> None:
        def read(connection: sqlite3.Connection) -> str:
            return str(connection.execute("SELECT id FROM identity").fetchone()[0])

        self._id = await self.database.read(read)

"""Everything that is remembered, in one PostgreSQL database that several instances share."""

from secrets import token_hex
from typing import final

from switchboard.actions.store_ports import Identified
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.store.postgres_agents import PostgresAgents
from switchboard.store.postgres_apps import PostgresApps
from switchboard.store.postgres_cluster import LEASE_S, PostgresMembership
from switchboard.store.postgres_database import STATEMENT_S, Connection, Database
from switchboard.store.postgres_executions import PostgresExecutions
from switchboard.store.postgres_feed import PostgresFeed
from switchboard.telemetry.clock import SharedClock


@final
class PostgresStore(PostgresAgents, Identified):
    """The agents of one database, which it connects to; executions, apps, and who else is there, are too."""

    def __init__(
        self,
        url: str,
        clock: SharedClock,
        *,
        instance: str | None = None,
        lease_s: float = LEASE_S,
        statement_s: float = STATEMENT_S,
    ) -> None:
        # New for every process: what the last one of this machine had to do is taken over like anybody else's.
        self.instance = instance or token_hex(8)
        self.database = Database(url, clock, {"statement_s": statement_s})
        super().__init__(self.database)
        self._id = ""
        self.apps = PostgresApps(self.database)
        self.executions = PostgresExecutions(self.database, self.instance)
        self.membership = PostgresMembership(self.database, self.instance, lease_s)
        self.feed = PostgresFeed(self.database)

    @property
    def id(self) -> str:
        """The id of the database, which was written into it when it was made; known once it is open."""
        return self._id

    async def open(self) -> None:
        """Connect, bring the tables up to date and tidy up.

        Raises:
            ServiceUnavailable: the database cannot be reached or written.
        """
        await self.database.open()
        try:
            await self.forget_removed()
            await self._learn_id()
        except ServiceUnavailable:
            await self.database.close()
            raise

    async def close(self) -> None:
        """Close every connection; what was answered is in the database."""
        await self.database.close()

    async def _learn_id(self) -> None:
        async def read(connection: Connection) -> str:
            return str(await connection.fetchval("SELECT id FROM identity"))

        self._id = await self.database.read(read)

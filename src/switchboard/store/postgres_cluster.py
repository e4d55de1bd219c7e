"""Instances that share a PostgreSQL database: who is there, who decides, and whose work is taken over.

Every time that is compared is the database's. A lease that is over says that an instance has ended, sleeps or is cut
off. After a gap of its own an instance says so of nobody for as long as a lease lasts: when the database was away, the
others have to come back first, too.
"""

from collections.abc import Mapping, Sequence
from typing import final

from switchboard.actions.store_ports import Membership, Pulse
from switchboard.catalog.executions import Execution
from switchboard.catalog.health import State
from switchboard.store.postgres_agents import save_silences
from switchboard.store.postgres_database import Connection, Database, original, written
from switchboard.store.postgres_executions import SELECT, execution_of

LEASE_S = 5.0
ENDS_CHANNEL = "switchboard_executions"
_OVERLAP_S = 2.0
"""Beats are read once more for so long after they were noted: a transaction may commit late."""
_FORGET_INSTANCES_S = 24 * 3600.0
_PULSE = """INSERT INTO instances AS i (id, started_at, steady_since, until)
VALUES ($1, moment(), moment(), moment() + $2::float8)
ON CONFLICT (id) DO UPDATE SET until = excluded.until,
  steady_since = CASE WHEN i.until < moment() THEN moment() ELSE i.steady_since END
RETURNING moment(), steady_since"""
_DECIDE = """INSERT INTO leases AS l (name, holder, until) VALUES ('life', $1, moment() + $2::float8)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE l.holder = $1 OR l.until < moment() RETURNING holder"""
_CLAIM = """WITH gone AS (
  SELECT number FROM executions e WHERE ended_at IS NULL AND owner <> $1
    AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.id = e.owner AND i.until > moment())
    AND EXISTS (SELECT 1 FROM instances i WHERE i.id = $1 AND i.until > moment())
  ORDER BY created_at, number LIMIT $2 FOR UPDATE SKIP LOCKED
) UPDATE executions SET owner = $1 FROM gone WHERE executions.number = gone.number RETURNING executions.number"""


@final
class PostgresMembership(Membership):
    """This instance, as the others see it."""

    def __init__(self, database: Database, instance: str, lease_s: float = LEASE_S) -> None:
        self._database = database
        self._instance = instance
        self._lease_s = lease_s
        self._heard_until = 0.0

    async def pulse(self) -> Pulse:
        """Renew what this instance holds, in one transaction, and read what others have heard."""

        async def renew(connection: Connection) -> tuple[float, float, bool]:
            row = await connection.fetchrow(_PULSE, self._instance, self._lease_s)
            holder = await connection.fetchval(_DECIDE, self._instance, self._lease_s)
            now, steady_since = row or (0.0, 0.0)
            return now, steady_since, holder is not None

        async def work(connection: Connection) -> Pulse:
            await self._database.tune(connection)
            async with connection.transaction():
                now, steady_since, decides = await renew(connection)
            since = self._heard_until - _OVERLAP_S
            rows = await connection.fetch("SELECT id, seen_at FROM beats WHERE noted_at > $1", since)
            self._heard_until = now
            return Pulse(
                decides=decides,
                decides_for_s=self._lease_s,
                steady=now - steady_since > self._lease_s,
                beats={original(agent_id): seen_at for agent_id, seen_at in rows},
            )

        return await self._database.do(work)

    async def decide(self, states: Mapping[str, State], heard: Mapping[str, float]) -> tuple[int, Sequence[str]]:
        """Write down who is silent, if this instance still decides."""
        return await self._database.write(lambda connection: save_silences(connection, states, heard, self._instance))

    async def claim(self, most: int) -> Sequence[Execution]:
        """Take over what instances that are gone have left, skipping what others are taking."""

        async def write(connection: Connection) -> Sequence[Execution]:
            numbers = [row[0] for row in await connection.fetch(_CLAIM, self._instance, most)]
            statement = SELECT + "WHERE e.number = ANY($1::bigint[]) ORDER BY e.created_at, e.number"
            return [execution_of(row) for row in await connection.fetch(statement, numbers)] if numbers else []

        return await self._database.write(write)

    async def reclaim(self, ids: Sequence[str]) -> None:
        """Take back what this instance has sent and waits for; whoever took it over lets go of it when he looks."""
        statement = (
            "UPDATE executions SET owner = $1 WHERE id = ANY($2::text[]) AND ended_at IS NULL AND status = 'running'"
        )
        wanted = [written(execution_id) for execution_id in ids]
        await self._database.do(lambda connection: connection.execute(statement, self._instance, wanted))

    async def tell_ends(self, ids: Sequence[str]) -> None:
        """Tell the ids, and only those: whoever cares reads the rest. A word that a crash takes is found by looking."""
        statement = (
            "SELECT set_config('synchronous_commit', 'off', true), pg_notify($2, id) FROM unnest($1::text[]) AS e (id)"
        )
        wanted = [written(key) for key in ids]
        await self._database.do(lambda connection: connection.execute(statement, wanted, ENDS_CHANNEL))

    async def leave(self) -> None:
        """Give up every lease, and forget instances that ended long ago."""

        async def write(connection: Connection) -> None:
            await connection.execute("UPDATE leases SET until = 0 WHERE holder = $1", self._instance)
            await connection.execute("DELETE FROM instances WHERE id = $1", self._instance)
            await connection.execute("DELETE FROM instances WHERE until < moment() - $1::float8", _FORGET_INSTANCES_S)

        await self._database.write(write)

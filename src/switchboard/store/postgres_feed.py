"""What others do in a PostgreSQL database, as it is told: LISTEN on a connection of its own, which comes back.

A connection that was away has missed things, and so has one that looks alive and is not: it is asked now and then. Each
time it begins to hear, whoever follows is told that there was a gap.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

from switchboard.actions.store_ports import Feed
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.store.postgres_cluster import ENDS_CHANNEL
from switchboard.store.postgres_database import CONNECT_S, Connection, Database, original

CHANGES_CHANNEL = "switchboard_changes"
_ASK_EVERY_S = 5.0
_SHORTEST_REST_S = 0.1
_LONGEST_REST_S = 2.0


@final
class PostgresFeed(Feed):
    """The channels of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def follow(
        self, changed: Callable[[], None], ended: Callable[[str], None], missed: Callable[[], None]
    ) -> None:
        """Listen, for ever."""
        rest_s = _SHORTEST_REST_S
        while True:
            try:
                await self._listen(changed, ended, missed)
                rest_s = _SHORTEST_REST_S
            except ServiceUnavailable:
                rest_s = min(rest_s * 2, _LONGEST_REST_S)
            await asyncio.sleep(rest_s * random.uniform(0.5, 1.0))  # noqa: S311 - so that instances do not step together

    async def _listen(
        self, changed: Callable[[], None], ended: Callable[[str], None], missed: Callable[[], None]
    ) -> None:
        """Listen until the connection ends.

        Raises:
            ServiceUnavailable: there was none.
        """
        async with self._database.translated():
            connection = await self._database.connect()
        over = asyncio.Event()
        try:
            async with self._database.translated():
                connection.add_termination_listener(lambda _: over.set())
                await connection.add_listener(CHANGES_CHANNEL, _heard(lambda _: changed()))
                await connection.add_listener(ENDS_CHANNEL, _heard(lambda text: ended(original(text))))
            missed()
            with suppress(ServiceUnavailable):
                await self._while_it_answers(connection, over)
        finally:
            await _ended(connection)

    async def _while_it_answers(self, connection: Connection, over: asyncio.Event) -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _ASK_EVERY_S)
                return
            async with self._database.translated(), asyncio.timeout(CONNECT_S):
                await connection.fetchval("SELECT 1")


def _heard(take: Callable[[str], None]) -> Callable[[Any, int, str, str], None]:
    return lambda _connection, _process, _channel, text: take(text)


async def _ended(connection: Connection) -> None:
    connection.terminate()

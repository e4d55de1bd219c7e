"""Every kind of store, for the suites that run over all of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.databases import Postgres

from switchboard.store.postgres import PostgresStore
from switchboard.store.sqlite import SqliteStore
from switchboard.telemetry.clock import SharedClock

Store = SqliteStore | PostgresStore
Make = Callable[[], Store]
KINDS = ("sqlite", "postgres")


def maker(kind: str, request: pytest.FixtureRequest, folder: Path) -> Make:
    """Return what makes stores of one kind, all of them over the same new place."""
    if kind == "sqlite":
        return lambda: SqliteStore(str(folder / "folder" / "plane.db"))
    server: Postgres = request.getfixturevalue("postgres")
    url = server.new()
    return lambda: PostgresStore(url, SharedClock())

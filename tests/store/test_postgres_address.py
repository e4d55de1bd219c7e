"""A PostgreSQL that cannot be opened: each reason is one clear sentence that names the place, and what to check."""

import asyncio
import socket
from collections.abc import Generator
from contextlib import closing

import pytest
from tests.databases import Postgres
from tests.databases import running as postgres_running

from switchboard.catalog.errors import ServiceUnavailable
from switchboard.store import postgres_address
from switchboard.store.postgres import PostgresStore
from switchboard.telemetry.clock import SharedClock


@pytest.fixture(scope="module")
def strict() -> Generator[Postgres]:
    """A server where `guest` needs a password and may make nothing."""
    with postgres_running() as server:
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all guest scram-sha-256\n{rules.read_text()}")
        server.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
        server.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def standby(strict: Postgres) -> Generator[Postgres]:
    found = strict.standby(synchronous=False)
    yield found
    found.close()


def why(url: str) -> str:
    """Return what is said where a database cannot be opened; never its password."""

    async def story() -> str:
        with pytest.raises(ServiceUnavailable) as caught:
            await PostgresStore(url, SharedClock()).open()
        return caught.value.message

    said = asyncio.run(story())
    assert "hush" not in said
    assert "right" not in said
    return said


@pytest.fixture
def silent() -> Generator[int]:
    """A port that takes connections, and where nobody says anything."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


def test_a_server_that_cannot_be_reached(silent: int) -> None:
    """Its host is not known, nothing is there, nobody answers: where, and what to check."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        free = listener.getsockname()[1]
    table = {
        "me:hush@nowhere.invalid/plane": ("host of the database is not known: nowhere.invalid:5432", "resolve it"),
        f"me:hush@127.0.0.1:{free}/plane": (f"PostgreSQL at 127.0.0.1:{free} cannot be reached", "listen_addresses"),
        f"me:hush@localhost:{free}/plane": (f"PostgreSQL at localhost:{free} cannot be reached", "host and port"),
        f"me:hush@127.0.0.1:{silent}/plane": (f"at 127.0.0.1:{silent} does not answer in time", "firewalls"),
        "me:hush@/plane?host=/nowhere": ("PostgreSQL at /nowhere/.s.PGSQL.5432 does not run", "Start it"),
        f"me:hush@127.0.0.1:{free},127.0.0.1:{silent}/plane": (f"127.0.0.1:{free} or 127.0.0.1:{silent}", "in time"),
        "me:hush-@-hush@127.0.0.1:1/plane": ("postgresql://user:password@host", "%40"),
        "me:hush/hush@127.0.0.1:1/plane": ("postgresql://user:password@host", "%2F"),
        "me:hush@127.0.0.1:hush/plane": ("address cannot be read", "%3A"),
    }

    said = {url: why(f"postgresql://{url}") for url in table}

    assert {url: text for url, text in said.items() if not all(words in text for words in table[url])} == {}


def test_a_server_that_does_not_let_us_in(strict: Postgres, standby: Postgres) -> None:
    """A wrong password, a database that is not there, a schema that may not be made, a standby."""
    name = strict.new().partition("?")[0].rpartition("/")[2]
    there, place = f"?host={strict.folder}", f"PostgreSQL at {strict.folder}/.s.PGSQL.5432"
    behind = f"?host={standby.folder}"
    table = {
        f"guest:hush@/{name}{there}": (f"{place} does not let guest into the database {name}", "Check user and pass"),
        f"nobody:hush@/{name}{there}": (f"{place} does not let nobody into the database {name}", "pg_hba.conf"),
        f"postgres:hush@/elsewhere{there}": (f"{place} has no database elsewhere", "createdb elsewhere"),
        f"guest:right@/{name}{there}": (
            f"let guest make or use the schema switchboard in the database {name}",
            "GRANT",
        ),
        f"postgres:hush@/postgres{behind}": (f"{standby.folder}/.s.PGSQL.5432 takes no changes", "standby"),
        f"postgres:hush@/postgres{behind},{standby.folder}": ("takes no changes", "leads"),
    }

    said = {url: why(f"postgresql://{url}") for url in table}

    assert {url: text for url, text in said.items() if not all(words in text for words in table[url])} == {}


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:hush@db/plane", "db:5432/plane"),
        ("postgresql://me:hush@a:1,b:2/plane?sslmode=require", "a:1, b:2/plane"),
        ("postgresql://me:hush@[::1]:6000/plane", "[::1]:6000/plane"),
        ("postgresql://me@/plane?host=/run/postgresql&port=6000", "/run/postgresql/.s.PGSQL.6000/plane"),
        ("postgresql://me@/plane?host=a,b&port=1,2", "a:1, b:2/plane"),
        ("postgresql://me:hush@db", "db:5432/me"),
        ("postgresql:///plane", "this machine/plane"),
        ("postgresql://a:1,b/plane?port=1,2,3", "?"),
        ("postgresql://me:hush/hush@db/plane", "?"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, place: str) -> None:
    """All of its hosts, and the database; nothing at all where it cannot be told apart."""
    assert postgres_address.read(url).place == place

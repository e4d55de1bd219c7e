"""A PostgreSQL database: a small pool, limits on every wait, tables that bring themselves up to date.

A database that cannot be reached is left alone for a moment, longer each time, so that nobody waits for a connection
that will not come. Its clock is everybody's: each answer that carries its time sets ours. Knows nothing of what is in
the tables. The password is in the address and nowhere else: no error of this file has it in its text.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

from switchboard.catalog.errors import ServiceUnavailable, Unconfirmed
from switchboard.store import postgres_address
from switchboard.telemetry.clock import SharedClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Result = TypeVar("Result")
Row = Sequence[Any]

CONNECT_S = 3.0
STATEMENT_S = 5.0
_GRACE_S = 2.0
"""How much longer than the database's own limit to wait: reached only when nothing comes back at all."""
MIGRATE_S = 120.0
_MOST_CONNECTIONS = 10
_SHORTEST_REST_S = 0.1
_LONGEST_REST_S = 2.0
_MIGRATING = 0x5317C4B0
_COMPATIBLE = re.compile(r"^-- compatible-with: (\d+)$", re.MULTILINE)


class Connection(Protocol):
    """As much of a connection as is used here."""

    async def execute(self, query: str, *values: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109 - theirs
        """Run a statement, or a script without values."""
        ...

    async def fetch(self, query: str, *values: Any, timeout: float | None = None) -> Sequence[Row]:  # noqa: ASYNC109
        """Return every row."""
        ...

    async def fetchrow(self, query: str, *values: Any) -> Row | None:
        """Return the first row."""
        ...

    async def fetchval(self, query: str, *values: Any) -> Any:
        """Return the first value of the first row."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Let everything inside happen together or not at all."""
        ...

    async def add_listener(self, channel: str, callback: Callable[[Any, int, str, str], None]) -> None:
        """Hear what is told on a channel."""
        ...

    def add_termination_listener(self, callback: Callable[[Any], None]) -> None:
        """Hear of the end of the connection."""
        ...

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - theirs
        """Say goodbye."""
        ...

    def terminate(self) -> None:
        """End it at once."""
        ...


class Pool(Protocol):
    """As much of a pool as is used here."""

    def acquire(self, *, timeout: float | None = None) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection."""
        ...

    async def close(self) -> None:
        """Close all of them."""
        ...

    def terminate(self) -> None:
        """End all of them at once."""
        ...


@final
class Database:
    """One database, as one instance uses it."""

    def __init__(self, url: str, clock: SharedClock, limits: Mapping[str, float] | None = None) -> None:
        given = limits or {}
        self._url = url
        self._address = postgres_address.read(url)
        self._hosts = list(self._address.hosts)
        self._clock = clock
        self._statement_s = given.get("statement_s", STATEMENT_S)
        self._asyncpg: Any = import_module("asyncpg")  # loaded only where there is such a database
        self._pool: Pool | None = None
        self._rest_until = 0.0
        self._rest_s = _SHORTEST_REST_S
        self._foreign: tuple[type[BaseException], ...] = (
            self._asyncpg.PostgresError,
            self._asyncpg.InterfaceError,
            self._asyncpg.InternalClientError,
            OSError,
            TimeoutError,
        )
        self._gone: tuple[type[BaseException], ...] = (
            self._asyncpg.PostgresConnectionError,
            self._asyncpg.CannotConnectNowError,
            self._asyncpg.AdminShutdownError,
            self._asyncpg.CrashShutdownError,
            self._asyncpg.InterfaceError,
            self._asyncpg.InvalidCachedStatementError,
            ConnectionError,
        )

    def __repr__(self) -> str:
        return f"Database({self.place})"

    @property
    def place(self) -> str:
        """Where it is, as errors and logs may say it."""
        return self._address.place

    async def open(self) -> None:
        """Connect, and bring the tables up to date; of many who do so at once, one does.

        Raises:
            ServiceUnavailable: it cannot be reached, or belongs to a newer version that leaves no room for this one.
        """
        try:
            connection = await self.connect()
            try:
                await connection.execute("SET statement_timeout = 0")
                await _migrate(connection)
                await self.tune(connection)
            finally:
                await _closed(connection)
            self._pool = await self._asyncpg.create_pool(
                self._url,
                min_size=1,
                max_size=_MOST_CONNECTIONS,
                reset=_as_it_is,
                connect=self._reach,
                **self._arguments,
            )
        except (*self._foreign, ValueError) as error:  # the address itself may be wrong
            if isinstance(error, self._asyncpg.TargetServerAttributeNotMatched):
                code = self._asyncpg.ReadOnlySQLTransactionError.sqlstate
            else:
                code = getattr(error, "sqlstate", None) or ""
            raise ServiceUnavailable(postgres_address.why(error, self._address, code)) from error

    async def close(self) -> None:
        """Close every connection; what was answered is in the database."""
        pool, self._pool = self._pool, None
        if pool is not None:
            try:
                await asyncio.wait_for(pool.close(), CONNECT_S)
            except self._foreign:
                pool.terminate()

    async def connect(self) -> Connection:
        """Return a connection outside the pool.

        Raises:
            Exception: whatever the library says; see `translated`.
        """
        return await self._reach(self._url, **self._arguments)

    async def _reach(self, url: str, **options: Any) -> Connection:
        """Connect to the first host that takes changes, beginning with the one that did last.

        Each of several has its share of the time: one that is silent must not use up that of the next.
        """
        if len(self._hosts) <= 1:
            alone: Connection = await self._asyncpg.connect(url, **options)
            return alone
        if not self._address.names_a_role:
            options["target_session_attrs"] = "read-write"
        options["timeout"] = CONNECT_S / len(self._hosts)
        errors: list[BaseException] = []
        for host, port in tuple(self._hosts):
            try:
                found: Connection = await self._asyncpg.connect(url, host=host, port=port, **options)
            except self._foreign as error:
                errors.append(error)
            else:
                self._hosts.sort(key=lambda each: each != (host, port))
                return found
        raise next((error for error in errors if isinstance(error, self._asyncpg.PostgresError)), errors[-1])

    async def read(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do work that only reads; once more where the connection turned out to be dead.

        Raises:
            ServiceUnavailable: the database does not answer.
        """
        try:
            return await self._done(work)
        except ServiceUnavailable as error:
            if not isinstance(error.__cause__, self._gone):
                raise
            return await self._done(work)

    async def write(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do the work in one transaction, and return what it returns once that is committed.

        Raises:
            ServiceUnavailable: it was not begun; or, as Unconfirmed, it is not known to be committed.
        """

        async def together(connection: Connection) -> Result:
            async with connection.transaction():
                return await work(connection)

        return await self._done(together)

    async def do(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do work that is a single statement, which is a transaction of its own.

        Raises:
            ServiceUnavailable: it was not begun; or, as Unconfirmed, it is not known to be done.
        """
        return await self._done(work)

    async def tune(self, connection: Connection) -> None:
        """Set our clock by the database's."""
        begun = self._clock.passed()
        now: float = await connection.fetchval("SELECT moment()")
        self._clock.tune(now, begun)

    @asynccontextmanager
    async def translated(self) -> "AsyncGenerator[None]":
        """Turn what the library raises into our words."""
        try:
            yield
        except self._foreign as error:
            raise _silent(error) from error

    @property
    def _arguments(self) -> dict[str, Any]:
        return {
            "timeout": CONNECT_S,
            "command_timeout": self._statement_s + _GRACE_S,
            "server_settings": {
                "application_name": "switchboard",
                "search_path": "switchboard",
                "statement_timeout": str(int(self._statement_s * 1000)),
                "idle_in_transaction_session_timeout": str(int((self._statement_s + _GRACE_S) * 1000)),
            },
        }

    async def _done(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        pool = self._pool
        if pool is None:
            raise ServiceUnavailable("The database is not open.")
        if self._clock.passed() < self._rest_until:
            raise ServiceUnavailable("The database does not answer. Try again, and look at it.")
        begun = False
        try:
            async with pool.acquire(timeout=CONNECT_S) as connection:
                self._rest_s = _SHORTEST_REST_S
                begun = True
                return await work(connection)
        except self._foreign as error:
            if isinstance(error, (OSError, TimeoutError, *self._gone)):
                self._rest(error)
            # What the server itself says no to has not been done, unless that is the end of it.
            is_no = isinstance(error, self._asyncpg.PostgresError) and not isinstance(error, self._gone)
            raise _silent(error, Unconfirmed if begun and not is_no else ServiceUnavailable) from error

    def _rest(self, error: BaseException) -> None:
        """Leave a database alone that could not be reached; one that only ended a connection may be asked at once."""
        if isinstance(error, self._asyncpg.InterfaceError | self._asyncpg.AdminShutdownError):
            return
        wait = self._rest_s * random.uniform(0.5, 1.0)  # noqa: S311 - so that instances do not come back in step
        self._rest_until = self._clock.passed() + wait
        self._rest_s = min(self._rest_s * 2, _LONGEST_REST_S)


async def _as_it_is(_: Connection) -> None:
    """Reset nothing between two uses: nothing is ever set, and a question to the database would be paid each time."""


def written(text: str) -> str:
    """Return a text as the database can hold it: it has no NUL character."""
    return text.replace("\x1b", "\x1b1").replace("\x00", "\x1b0") if "\x00" in text or "\x1b" in text else text


def original(text: str) -> str:
    """Return a text as it was before it was written."""
    return text.replace("\x1b0", "\x00").replace("\x1b1", "\x1b") if "\x1b" in text else text


def _silent(error: BaseException, kind: type[ServiceUnavailable] = ServiceUnavailable) -> ServiceUnavailable:
    """Say that the database does not answer: the kind of the error, never its text, which may quote anything."""
    state = getattr(error, "sqlstate", None)
    return kind(f"The database does not answer: {state or type(error).__name__}. Try again, and look at it.")


async def _closed(connection: Connection) -> None:
    try:
        await connection.close(timeout=CONNECT_S)
    except (OSError, TimeoutError):
        with suppress(Exception):
            connection.terminate()


async def _migrate(connection: Connection) -> None:
    """Run every migration the database has not seen, all in one transaction, behind a lock.

    Raises:
        ServiceUnavailable: a newer version has changed the tables so that this one cannot use them.
    """
    scripts = _scripts()
    async with connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATING})", timeout=MIGRATE_S)
        await connection.execute(
            "CREATE SCHEMA IF NOT EXISTS switchboard;"
            "CREATE TABLE IF NOT EXISTS migrations (number int PRIMARY KEY, compatible_with int NOT NULL,"
            " at timestamptz NOT NULL DEFAULT now())"
        )
        rows = await connection.fetch("SELECT number, compatible_with FROM migrations")
        seen: dict[int, int] = {row[0]: row[1] for row in rows}
        newest = max(scripts)
        if any(number > newest and needed > newest for number, needed in seen.items()):
            raise ServiceUnavailable(
                "The database was changed by a newer version. This one cannot use it any more. Install that one."
            )
        for number, script in sorted(scripts.items()):
            if number not in seen:
                await connection.execute(script, timeout=MIGRATE_S)
                await connection.execute(
                    "INSERT INTO migrations (number, compatible_with) VALUES ($1, $2)", number, _needed(script, number)
                )


def _scripts() -> dict[int, str]:
    """Return every migration by the number in its name."""
    folder = files("switchboard.store").joinpath("migrations", "postgres")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return {int(name.partition("_")[0]): folder.joinpath(name).read_text(encoding="utf-8") for name in names}


def _needed(script: str, number: int) -> int:
    """Return the oldest version that can work with the tables as this migration leaves them."""
    found = _COMPATIBLE.search(script)
    return int(found[1]) if found else number

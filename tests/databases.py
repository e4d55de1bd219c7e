"""A real PostgreSQL, started by the tests in a folder of their own, with a new database for each test."""

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_PLACES = ("/usr/lib/postgresql", "/usr/local/pgsql")
_NUMBERS = count()
_asyncpg: Any = import_module("asyncpg")
LIMIT_S = 30.0
MIGRATIONS = len(list((Path(__file__).parents[1] / "src/switchboard/store/migrations/postgres").glob("*.sql")))
"""How many steps a new database takes."""


def binaries() -> Path | None:
    """Return the folder with PostgreSQL's programs, the newest there is."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    folders = [path.parent for place in _PLACES for path in Path(place).glob("**/bin/initdb")]
    return max(folders, default=None, key=lambda path: [int(part) for part in path.parts if part.isdigit()])


class Postgres:
    """One server on a socket in its own folder: stopped, started, paused and cut as tests want it."""

    def __init__(self, **settings: str) -> None:
        programs = binaries()
        assert programs is not None
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="swb-pg-"))
        self._settings = settings
        # The server refuses to run as root; Debian's package brings a user for it.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._run(
            "initdb", "-D", str(self._folder / "data"), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8"
        )
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        values = {"fsync": "off", "listen_addresses": "", "max_connections": "100"}
        values |= {"unix_socket_directories": str(self._folder), "shared_buffers": "32MB", **self._settings}
        options = [part for name, value in values.items() for part in ("-c", f"{name}={value}")]
        with (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the server
                [self._programs / "postgres", "-D", str(self._folder / "data"), *options],
                stdout=log,
                stderr=log,
                user=self._user,
                start_new_session=True,
            )
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                self.execute("SELECT 1")
            except (OSError, _asyncpg.PostgresError):
                assert time.monotonic() < end, (self._folder / "log.txt").read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop it as a crash would: at once, without goodbye."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(LIMIT_S)
            self._process = None

    def pause(self) -> None:
        """Let every process of it sleep: connections stay, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres:hush-hush@/{database}?host={self._folder}"

    def new(self) -> str:
        """Make a new database, and return its address."""
        name = f"t{os.getpid()}_{next(_NUMBERS)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def execute(self, statement: str, url: str | None = None) -> list[Any]:
        """Run one statement from outside, and return its rows."""

        async def run() -> list[Any]:
            connection = await _asyncpg.connect(url or self.url("postgres"), timeout=5)
            try:
                return [tuple(row) for row in await connection.fetch(statement)]
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as thread:  # so that a test may ask from inside its own loop
            return thread.submit(lambda: asyncio.run(run())).result()

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        parent = self._process.pid
        children = subprocess.run(["pgrep", "-P", str(parent)], check=False, capture_output=True, text=True)  # noqa: S603, S607
        for process in (parent, *map(int, children.stdout.split())):
            os.kill(process, number)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(  # noqa: S603 - PostgreSQL's own
            [self._programs / program, *arguments], check=True, capture_output=True, user=self._user
        )


def migrations() -> int:
    """Return how many steps there are from an empty database to one of today."""
    folder = files("switchboard.store").joinpath("migrations", "postgres")
    return sum(entry.name.endswith(".sql") for entry in folder.iterdir())


def require_postgres() -> None:
    """Skip where there is no PostgreSQL; in continuous integration that is a failure."""
    if binaries() is None:
        why = "PostgreSQL's server is not installed (tools/system_packages installs it)"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


@contextmanager
def running(**settings: str) -> Generator[Postgres]:
    """Have a server of one's own."""
    require_postgres()
    server = Postgres(**settings)
    try:
        yield server
    finally:
        server.close()

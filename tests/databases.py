"""A real PostgreSQL, started by the tests in a folder of their own, with a new database for each test."""

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
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

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, copy_of: "Postgres | None" = None, wal_mb: int = 16
    ) -> None:
        """Start a new one, or a standby that follows another."""
        programs = binaries()
        assert programs is not None
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="swb-pg-"))
        self._settings = settings or {}
        # The server refuses to run as root; Debian's package brings a user for it.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        data = str(self._folder / "data")
        if copy_of is None:
            self._run("initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", *_wal(wal_mb))
        else:
            source = f"host={copy_of.folder} user=postgres application_name={self._folder.name}"
            self._run("pg_basebackup", "-d", source, "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        self.start()

    @property
    def folder(self) -> Path:
        """Where its socket is, which is its address."""
        return self._folder

    def standby(self, *, synchronous: bool) -> "Postgres":
        """Start a standby that receives every change; if synchronous, nothing is acknowledged before it has it."""
        other = Postgres(self._settings, copy_of=self)
        name = other.folder.name
        if synchronous:
            self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '\"{name}\"'")
            self.execute("SELECT pg_reload_conf()")
        wanted = "sync" if synchronous else "async"
        look = f"SELECT sync_state FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"  # noqa: S608
        end = time.monotonic() + LIMIT_S
        while self.execute(look) != [(wanted,)]:
            assert time.monotonic() < end, (other.folder / "log.txt").read_text()
            time.sleep(0.02)
        return other

    def disconnect(self) -> None:
        """Let a standby receive nothing any more, and wait until it has noticed."""
        self.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.execute("SELECT pg_reload_conf()")
        end = time.monotonic() + LIMIT_S
        while self.execute("SELECT count(*) FROM pg_stat_wal_receiver") != [(0,)]:
            assert time.monotonic() < end
            time.sleep(0.02)

    def promote(self) -> None:
        """Let a standby lead from now on; nobody has to confirm what it takes in."""
        self.execute("ALTER SYSTEM RESET synchronous_standby_names")
        self.execute("SELECT pg_reload_conf()")
        assert self.execute("SELECT pg_promote(true, 30)") == [(True,)]

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

    def vanish(self) -> None:
        """End every process of it, asleep or not, as if the machine were gone."""
        for process in reversed(self.processes):
            os.kill(process, signal.SIGKILL)
        assert self._process is not None
        self._process.wait(LIMIT_S)
        self._process = None

    def pause(self) -> None:
        """Let every process of it sleep: connections stay, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def fill_up(self, largest_file: int) -> None:
        """Let no file of it grow past a limit, as if the disk were full; the system itself enforces it."""
        self._limit(str(largest_file))

    def make_room(self) -> None:
        """Let files grow again."""
        self._limit("unlimited")

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

    @property
    def processes(self) -> list[int]:
        """Every process of it, the one that makes the others first."""
        assert self._process is not None
        parent = self._process.pid
        children = subprocess.run(["pgrep", "-P", str(parent)], check=False, capture_output=True, text=True)  # noqa: S603, S607
        return [parent, *map(int, children.stdout.split())]

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes:
            os.kill(process, number)

    def _limit(self, size: str) -> None:
        """Limit the first process, which all others have it from, before those that are there."""
        for process in self.processes:
            command = ["prlimit", f"--pid={process}", f"--fsize={size}:unlimited"]
            # One that has ended meanwhile needs no limit.
            done = subprocess.run(command, check=False, capture_output=True, user=self._user, text=True)  # noqa: S603
            assert done.returncode == 0 or not Path(f"/proc/{process}").exists(), done.stderr

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(  # noqa: S603 - PostgreSQL's own
            [self._programs / program, *arguments], check=True, capture_output=True, user=self._user
        )


def _wal(megabytes: int) -> list[str]:
    return [] if megabytes == 16 else [f"--wal-segsize={megabytes}"]


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
def running(*, wal_mb: int = 16, **settings: str) -> Generator[Postgres]:
    """Have a server of one's own."""
    require_postgres()
    server = Postgres(settings, wal_mb=wal_mb)
    try:
        yield server
    finally:
        server.close()

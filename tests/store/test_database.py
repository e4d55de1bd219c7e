"""What a SQLite file promises beneath every store in it: together, each for itself, on disk, whatever happens."""

import asyncio
import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.test_executions import execution

from switchboard.actions.store_ports import StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.executions import Execution
from switchboard.catalog.health import State, beating
from switchboard.store.sqlite import SqliteStore
from switchboard.store.sqlite_database import Database

ROOT = Path(__file__).parents[2]
LIMIT_S = 20.0
ORDER = ["queued", "running", "succeeded"]


def insert(name: str) -> Callable[[sqlite3.Connection], str]:
    def write(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO things VALUES (?)", (name,))
        return name

    return write


def things(path: Path) -> list[str]:
    """Look at the file from outside."""
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM things ORDER BY rowid")]


class Gate:
    """Work that keeps the writer busy until it is let go."""

    def __init__(self) -> None:
        self._begun, self._go = threading.Event(), threading.Event()

    def __call__(self, _: sqlite3.Connection) -> None:
        """Wait to be let go."""
        self._begun.set()
        assert self._go.wait(LIMIT_S)

    async def begun(self) -> None:
        """Wait until the writer is here."""
        assert await asyncio.to_thread(self._begun.wait, LIMIT_S)

    def open(self) -> None:
        """Let the writer go."""
        self._go.set()


async def opened(path: Path, statements: list[str]) -> Database:
    """Open a file with a table, and write down every statement from then on."""
    database = Database(str(path))
    await database.open()

    def prepare(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE things (name TEXT UNIQUE)")
        connection.set_trace_callback(statements.append)

    await database.write(prepare)
    statements.clear()
    return database


def test_a_commit_is_on_the_disk_before_anybody_is_answered(tmp_path: Path) -> None:
    """FULL is 2: with less, a power cut could take what was promised."""

    async def story() -> None:
        database = await opened(tmp_path / "a.db", [])
        try:
            assert await database.write(lambda writer: writer.execute("PRAGMA synchronous").fetchone()) == (2,)
            assert await database.write(lambda writer: writer.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
        finally:
            await database.close()

    asyncio.run(story())


def test_what_arrives_during_a_transaction_shares_the_next_one(tmp_path: Path) -> None:
    """Fifty changes, one wait for the disk."""

    async def story() -> None:
        statements: list[str] = []
        database = await opened(tmp_path / "plane.db", statements)
        gate = Gate()
        first = asyncio.create_task(database.write(gate))
        await gate.begun()
        others = [asyncio.create_task(database.write(insert(str(number)))) for number in range(50)]
        await asyncio.sleep(0)
        gate.open()
        await first
        answers = await asyncio.gather(*others)

        assert answers == [str(number) for number in range(50)]
        assert statements.count("COMMIT") == 2
        assert things(tmp_path / "plane.db") == [str(number) for number in range(50)]
        await database.close()

    asyncio.run(story())


def test_one_that_fails_does_not_undo_the_others(tmp_path: Path) -> None:
    """Nor does half of it stay."""

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO things VALUES ('half')")
        raise ValueError("in the middle")

    async def story() -> None:
        database = await opened(tmp_path / "plane.db", [])
        gate = Gate()
        first = asyncio.create_task(database.write(gate))
        await gate.begun()
        works = [insert("a"), half, insert("a"), insert("b")]
        others = [asyncio.create_task(database.write(work)) for work in works]
        await asyncio.sleep(0)
        gate.open()
        await first
        answers = await asyncio.gather(*others, return_exceptions=True)

        assert [type(answer) for answer in answers] == [str, ValueError, ServiceUnavailable, str]
        assert things(tmp_path / "plane.db") == ["a", "b"]
        await database.close()

    asyncio.run(story())


def test_when_the_whole_transaction_is_lost_each_gets_another_try(tmp_path: Path) -> None:
    """SQLite undoes everything for some errors; only who caused it pays."""

    def lose(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO things VALUES ('lost')")
        connection.execute("INSERT OR ROLLBACK INTO things VALUES ('lost')")

    async def story() -> None:
        database = await opened(tmp_path / "plane.db", [])
        gate = Gate()
        first = asyncio.create_task(database.write(gate))
        await gate.begun()
        others = [asyncio.create_task(database.write(work)) for work in (insert("a"), lose, insert("b"))]
        await asyncio.sleep(0)
        gate.open()
        await first
        answers = await asyncio.gather(*others, return_exceptions=True)

        assert [type(answer) for answer in answers] == [str, ServiceUnavailable, str]
        assert things(tmp_path / "plane.db") == ["a", "b"]
        await database.close()

    asyncio.run(story())


def test_nobody_is_answered_before_the_commit(tmp_path: Path) -> None:
    """Not even who was done first."""

    async def story() -> None:
        database = await opened(tmp_path / "plane.db", [])
        before, gate = Gate(), Gate()
        first = asyncio.create_task(database.write(before))
        await before.begun()
        early = asyncio.create_task(database.write(insert("early")))
        late = asyncio.create_task(database.write(gate))
        await asyncio.sleep(0)
        before.open()
        await first
        await gate.begun()

        assert not early.done()
        assert things(tmp_path / "plane.db") == []
        gate.open()
        await early
        assert things(tmp_path / "plane.db") == ["early"]
        await late
        await database.close()

    asyncio.run(story())


def test_who_gives_up_waiting_harms_nobody(tmp_path: Path) -> None:
    """What was not begun is not done, and the others are."""

    async def story() -> None:
        database = await opened(tmp_path / "plane.db", [])
        gate = Gate()
        first = asyncio.create_task(database.write(gate))
        await gate.begun()
        gone, stays = (asyncio.create_task(database.write(insert(name))) for name in ("gone", "stays"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        gate.open()
        await asyncio.gather(first, stays)

        assert things(tmp_path / "plane.db") == ["stays"]
        await database.close()

    asyncio.run(story())


def test_what_waits_when_the_file_is_closed_is_still_written(tmp_path: Path) -> None:
    """What comes after is refused."""

    async def story() -> None:
        database = await opened(tmp_path / "plane.db", [])
        writing = [asyncio.create_task(database.write(insert(str(number)))) for number in range(5)]
        await asyncio.sleep(0)
        await database.close()

        assert await asyncio.gather(*writing) == ["0", "1", "2", "3", "4"]
        with pytest.raises(ServiceUnavailable):
            await database.write(insert("late"))
        assert len(things(tmp_path / "plane.db")) == 5

    asyncio.run(story())


@pytest.mark.parametrize("trouble", ["PRAGMA max_page_count = 1", "PRAGMA query_only = ON"])
def test_a_file_that_cannot_be_written_can_still_be_read(tmp_path: Path, trouble: str) -> None:
    """Full or read-only: what is new is refused in our words, and taken again when the trouble is over."""

    async def story() -> None:
        store = SqliteStore(str(tmp_path / "plane.db"))
        await store.open()
        await store.executions.accept(execution("before"))
        large = replace(execution("large"), input=Json(b"x" * 500_000))
        await store.database.write(lambda connection: connection.execute(trouble).close())
        with pytest.raises(ServiceUnavailable, match="does not answer"):
            await store.executions.accept(large)

        assert list(await store.executions.executions(["before", "large"])) == ["before"]
        await store.close()
        store = SqliteStore(str(tmp_path / "plane.db"))
        await store.open()
        assert await store.executions.accept(large) == large
        await store.close()

    asyncio.run(story())


def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """Whoever goes back without a backup is told so, before anything is written into tables he does not know."""
    file = tmp_path / "plane.db"

    async def opened() -> None:
        store = SqliteStore(str(file))
        await store.open()
        await store.close()

    asyncio.run(opened())
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")
    before = file.read_bytes()
    with pytest.raises(ServiceUnavailable, match="newer version"):
        asyncio.run(opened())

    assert file.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_when_the_disk_is_full_what_does_not_fit_is_refused_alone(tmp_path: Path) -> None:
    """The small ones that came together with a large one are taken; what was taken is there afterwards."""
    kinds, accepted, readable = json.loads(
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "tests.store.full_disk", str(tmp_path / "plane.db")],
            cwd=ROOT,
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
    )

    assert (kinds, readable) == (["Execution", "ServiceUnavailable", "Execution"], True)
    with closing(sqlite3.connect(tmp_path / "plane.db")) as connection:
        found = [name for (name,) in connection.execute("SELECT id FROM executions ORDER BY number")]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert found == ["small-1", "small-2", *accepted, "afterwards"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_nothing_that_was_answered_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """Ten times, at any moment: everything that was said is there, once, and as far as was said."""
    file, said = tmp_path / "plane.db", dict[str, str]()
    dice = random.Random()  # noqa: S311 - any moment will do
    for number in range(10):
        said |= _said_until_killed(file, number, dice.randrange(1, 400))

    async def look() -> dict[str, Execution]:
        store = SqliteStore(str(file))
        await store.open()
        found = await store.executions.executions(list(said))
        again = [await store.executions.accept(execution("new", f"key of {name}")) for name in list(said)[::50]]
        assert [each.id for each in again] == list(said)[::50]
        await store.close()
        return dict(found)

    found = asyncio.run(look())
    assert found.keys() == said.keys()
    for name, status in said.items():
        step, reached = ORDER.index(status), ORDER.index(found[name].status)
        assert reached in (step, step + 1), f"{name} was {status} and is {found[name].status}"
        assert (found[name].ended is not None) == (found[name].status == "succeeded")
        assert found[name].input == Json(b'"' + name.encode() * 50 + b'"')
    with closing(sqlite3.connect(file)) as connection:
        rows = Counter(name for (name,) in connection.execute("SELECT idempotency_key FROM executions"))
        assert set(rows.values()) == {1}
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _said_until_killed(file: Path, number: int, lines: int) -> dict[str, str]:
    """Run the program, kill it after so many lines, and return the last thing it said of each execution."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "tests.store.acceptor", str(file), str(number)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        heard = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        heard += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return {name: step for step, name in (line.split() for line in heard)}


VERSION_1 = """
CREATE TABLE revision (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value INTEGER NOT NULL);
INSERT INTO revision VALUES (1, 2);
CREATE TABLE agents (
  id TEXT PRIMARY KEY, registration BLOB, state BLOB, registered_at REAL NOT NULL, revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX agents_by_revision ON agents (revision);
CREATE TABLE beats (id TEXT PRIMARY KEY, seen_at REAL NOT NULL) WITHOUT ROWID;
INSERT INTO agents VALUES ('a', CAST('{"id":"a"}' AS BLOB), CAST('{"health":"active","reason":"registered","since":1.5,
"said":"ready","rhythm":{"interval_s":2.0,"lease_s":10.0},"ended":false,"recovering":0}' AS BLOB), 10.0, 1);
INSERT INTO agents VALUES ('b', CAST('{"id":"b"}' AS BLOB), NULL, 10.0, 2);
INSERT INTO beats VALUES ('a', 11.0);
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""


def test_a_file_of_the_first_version_keeps_its_agents(tmp_path: Path) -> None:
    """And takes executions from then on."""
    with closing(sqlite3.connect(tmp_path / "plane.db")) as connection:
        connection.executescript(VERSION_1)

    async def story() -> None:
        store = SqliteStore(str(tmp_path / "plane.db"))
        await store.open()
        state = State(health="active", reason="registered", since=1.5, rhythm=beating(2.0))
        a = StoredAgent(
            id="a", registration=Json(b'{"id":"a"}'), state=state, registered_at=10.0, seen_at=11.0, revision=1
        )
        b = StoredAgent(id="b", registration=Json(b'{"id":"b"}'), registered_at=10.0, seen_at=10.0, revision=2)

        assert len(store.id) == 32
        assert await store.changes(0) == (2, [a, b])
        assert await store.save(b) == 3
        await store.executions.accept(execution("x"))
        assert list(await store.executions.executions(["x"])) == ["x"]
        await store.close()

    asyncio.run(story())

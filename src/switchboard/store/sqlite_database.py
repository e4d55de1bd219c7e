"""A SQLite file: write-ahead log, every change on disk before it is answered, many changes in one go.

One connection writes and one reads, each in a thread of its own: a reader never waits for a writer, and the event loop
never for a disk. What arrives while a transaction is being written shares the next one, so a flood of changes costs few
waits for the disk, and a single change waits for nobody. Knows nothing of what is in the tables.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, final

from switchboard.catalog.errors import ServiceUnavailable

try:
    import fcntl
except ImportError:  # Windows has no flock; there, one instance per file is a matter of care
    fcntl = None

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

_BUSY_MS = 5000
_MOST_TOGETHER = 500
"""How many changes share a transaction: the first of them waits for the last."""


@final
class Database:
    """A file, which this process has for itself."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._writing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite-write")
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite-read")
        self._waiting: deque[_Change[Any]] = deque()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._lock: BinaryIO | None = None

    async def open(self) -> None:
        """Open the file and bring its tables up to date.

        Raises:
            ServiceUnavailable: it cannot be opened or written.
        """
        await _answer(_submit(self._writing, self._open))
        await _answer(_submit(self._reading, self._open_reader))

    async def close(self) -> None:
        """Close the file; what was answered is in it."""
        await _answer(_submit(self._reading, self._close_reader))
        await _answer(_submit(self._writing, self._close))
        self._reading.shutdown(wait=True)
        self._writing.shutdown(wait=True)

    async def write(self, work: Work[Result]) -> Result:
        """Do the work, wholly or not at all, and return what it returns once that is on disk.

        The work may be done a second time, after the first was undone: it must change nothing but the database.

        Raises:
            ServiceUnavailable: it is not on disk.
        """
        change = _Change(work)
        self._waiting.append(change)
        # One such job for each change: the first takes everything that waits, the others find nothing left.
        _submit(self._writing, self._write_waiting)
        return await _answer(change.future)

    async def read(self, work: Work[Result]) -> Result:
        """Do work that only reads, on one state of the database.

        Raises:
            ServiceUnavailable: the database does not answer.
        """
        return await _answer(_submit(self._reading, lambda: _look(self._reader, work)))

    def _write_waiting(self) -> None:
        changes = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_TOGETHER))]
        wanted = [change for change in changes if change.future.set_running_or_notify_cancel()]
        if not wanted:
            return
        try:
            if self._writer is None:
                raise ServiceUnavailable("The database is not open.")  # noqa: TRY301 - like any other failure
            _write_together(self._writer, wanted)
        except BaseException as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            for change in wanted:
                change.fail(error)

    def _open(self) -> None:
        path = Path(self._path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # what agents say is nobody else's business
        self._lock = _locked(path.with_name(f"{path.name}.lock"))
        try:
            self._writer = _connected(self._path)
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = FULL")
            _migrate(self._writer)
        except BaseException:
            self._close()
            raise

    def _open_reader(self) -> None:
        self._reader = _connected(self._path)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _Change(Generic[Result]):
    """Work that waits to be written, and whoever waits for it."""

    def __init__(self, work: Work[Result]) -> None:
        self.future: Future[Result] = Future()
        self._work = work
        self._outcome: Callable[[], None] | None = None

    def do(self, connection: sqlite3.Connection) -> None:
        """Do the work inside a transaction; if it fails, only its own part is undone.

        Raises:
            sqlite3.Error: SQLite has undone the whole transaction.
        """
        connection.execute("SAVEPOINT change")
        try:
            result = self._work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO change")
            self._outcome = lambda error=error: self.fail(error)
        else:
            self._outcome = lambda: self.future.set_result(result)
        connection.execute("RELEASE change")

    def tell(self) -> None:
        """Tell what came of the work, now that it is on disk."""
        if self._outcome is not None:
            self._outcome()

    def fail(self, error: BaseException) -> None:
        """Tell that nothing came of it, if nothing else was told."""
        if not self.future.done():
            self.future.set_exception(error)


def _write_together(connection: sqlite3.Connection, changes: Sequence[_Change[Any]]) -> None:
    """Do all changes in one transaction; each of them alone if that fails, so that each fails only for itself."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for change in changes:
            change.do(connection)
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        if len(changes) == 1 or not isinstance(error, sqlite3.Error):
            raise
    else:
        for change in changes:
            change.tell()
        return
    for change in changes:
        try:
            _write_together(connection, [change])
        except sqlite3.Error as error:
            change.fail(error)


def _look(connection: sqlite3.Connection | None, work: Work[Result]) -> Result:
    if connection is None:
        raise ServiceUnavailable("The database is not open.")
    connection.execute("BEGIN")
    try:
        return work(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _submit(thread: ThreadPoolExecutor, work: Callable[[], Result]) -> Future[Result]:
    try:
        return thread.submit(work)
    except RuntimeError as error:
        raise ServiceUnavailable("The database is closed.") from error


async def _answer(answer: Future[Result]) -> Result:
    try:
        return await asyncio.wrap_future(answer)
    except (sqlite3.Error, OSError) as error:
        raise ServiceUnavailable(
            f"The database does not answer: {error}. Try again; look at the disk and at who may write there."
        ) from error


def _connected(path: str) -> sqlite3.Connection:
    # Transactions begin and end in `_write_together` and `_look`, nowhere else.
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return connection


def _locked(path: Path) -> BinaryIO:
    """Hold the file for this process alone: two that decide about health would quarrel."""
    path.touch(mode=0o600)
    file = path.open("ab")
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise OSError("another control plane uses it") from error
    return file


def next_revision(connection: sqlite3.Connection) -> int:
    """Take the revision of a change that others have to learn of."""
    revision: int = connection.execute("UPDATE revision SET value = value + 1 RETURNING value").fetchone()[0]
    return revision


def _migrate(connection: sqlite3.Connection) -> None:
    """Run every migration the file has not seen, in the order of their numbers, each in one transaction with it.

    Raises:
        ServiceUnavailable: a newer version has changed the file, and nobody here knows how.
    """
    folder = files("switchboard.store").joinpath("migrations")
    scripts = {int(entry.name.partition("_")[0]): entry for entry in folder.iterdir() if entry.name.endswith(".sql")}
    known: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if known > max(scripts):
        raise ServiceUnavailable(
            "The database was changed by a newer version. Start that version, or restore a backup from before it."
        )
    for number, script in sorted(scripts.items()):
        if number > known:
            connection.executescript(f"BEGIN IMMEDIATE; {script.read_text()} PRAGMA user_version = {number}; COMMIT;")

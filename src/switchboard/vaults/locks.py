"""One at a time: a lock that the processes of one user share, in a folder that is theirs alone.

The system releases it when its holder ends, however that happens. A change is made known by the time of a file, which
only ever grows. Knows nothing of what is kept in the folder.
"""

import os
import shlex
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from switchboard.catalog.errors import VaultUnavailable

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LIMIT_S = 30.0
_NAME = "vault.lock"
_FOLDER, _FILE = 0o700, 0o600
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02
_STEP_NS = 1000
"""More than the finest step that any of today's file systems tells apart (NTFS: 100)."""

Stamp = tuple[int, int, int]


@contextmanager
def locked(folder: Path, limit_s: float) -> Generator[None]:
    """Be the only one inside, among all threads and processes that name this folder; not to be entered twice.

    Asked again and again, because a lock that is waited for has no limit. The file stays: whoever removed it would
    leave two processes with a lock each.

    Raises:
        VaultUnavailable: somebody else is inside for too long, or the folder is not this user's alone.
    """
    own_folder(folder)
    deadline = time.monotonic() + limit_s
    pause_s = _SHORTEST_PAUSE_S
    descriptor = open_own(folder / _NAME, os.O_RDWR | os.O_CREAT)
    try:
        while not _taken(descriptor):
            if time.monotonic() >= deadline:
                raise VaultUnavailable(
                    f"Another process has been changing secrets in {folder} for {limit_s:.0f} s. Answer the dialog it "
                    "may be showing, or end it, and try again."
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        yield
    finally:
        os.close(descriptor)  # and with it the lock


def own_folder(folder: Path) -> None:
    """Make a folder for this user alone, unless it is there.

    Raises:
        VaultUnavailable: it cannot be made, or others may look into it.
    """
    try:
        folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise VaultUnavailable(
            f"The folder {folder} cannot be used: {error.strerror}. Make it yours, or set XDG_DATA_HOME."
        ) from error
    refuse_others(folder, status, _FOLDER)


def open_own(path: Path, flags: int) -> int:
    """Open a file that is this user's alone and no link, or make it so; the caller closes it.

    Raises:
        FileNotFoundError: there is none, and none was to be made.
        VaultUnavailable: others may use it, it is no file, or it cannot be opened.
    """
    # Without waiting: a pipe under this name must not hold anybody.
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, _FILE)
    except FileNotFoundError:
        raise
    except OSError as error:
        if path.is_symlink():
            raise VaultUnavailable(f"{path} is a link, and secrets are kept in files only. Remove it.") from error
        raise VaultUnavailable(f"{path} cannot be opened: {error.strerror}. Make it yours, or move it away.") from error
    try:
        refuse_others(path, os.fstat(descriptor), _FILE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def refuse_others(path: Path, status: os.stat_result, mode: int) -> None:
    """Pass what belongs to this user and is closed to everybody else.

    Raises:
        VaultUnavailable: with the command that puts it right.
    """
    if not (stat.S_ISDIR if mode == _FOLDER else stat.S_ISREG)(status.st_mode):
        raise VaultUnavailable(f"{path} is no {'folder' if mode == _FOLDER else 'file'}. Remove it.")
    if sys.platform == "win32":  # where the profile's access list says it, and the mode says nothing
        return
    if status.st_uid != os.geteuid():
        raise VaultUnavailable(
            f"{path} belongs to another user. Take it with: chown {os.geteuid()} {shlex.quote(str(path))}"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise VaultUnavailable(f"Others may use {path}. Close it with: chmod {mode:o} {shlex.quote(str(path))}")


def stamp(path: Path) -> Stamp | None:
    """Return what is another thing after each change of a file; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - asked for with every call
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def later(path: Path) -> int:
    """Return the time that a change of the file is to carry, in ns.

    The system's own is too coarse: two changes within 4 ms have the same one.
    """
    before = stamp(path)
    return max(time.time_ns(), before[0] + _STEP_NS if before else 0)


def _taken(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

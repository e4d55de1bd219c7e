"""A configuration file read and replaced without losing a byte of it, whatever happens meanwhile.

Links are followed to the file itself, and stay links. A file is replaced in one step, after a copy of it was put beside
it, and only if it is still what was read. Mode, owner and extended attributes stay.
"""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from time import gmtime, strftime
from typing import NamedTuple

from switchboard.clients.refusals import Broken, Raced, Unusable

LARGEST = 64 * 1024 * 1024
_FILE, _FOLDER = 0o600, 0o700


class Read(NamedTuple):
    """A file as it was read: where it really is, and what it held; None where there is none."""

    path: Path
    content: bytes | None

    @property
    def text(self) -> str | None:
        """What it holds, as text.

        Raises:
            Broken: it is not UTF-8.
        """
        if self.content is None:
            return None
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            before = self.content[: error.start].decode()
            raise Broken(
                "this is not UTF-8. Save the file in that encoding, and try again", before, len(before)
            ) from error


def read(path: Path) -> Read:
    """Read a file, through links.

    Raises:
        Unusable: it cannot be read, or is no file.
    """
    try:
        real = Path(os.path.realpath(path, strict=False))
        if real.is_symlink():
            raise Unusable(f"{path} is a link that leads to itself. Remove it, and try again.")
        return Read(real, _content(real))
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror or error}.") from error


def replace(was: Read, content: bytes | None, now: float) -> Path | None:
    """Put other content into a file, or remove it; return the copy of the old one, if there was one.

    Raises:
        Raced: somebody else has changed it since it was read.
        Unusable: it cannot be written.
    """
    try:
        _require_unchanged(was)
        was.path.parent.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
        backup = None if was.content is None else _copy(was.path, was.content, now)
        try:
            if content is None:
                _require_unchanged(was)
                was.path.unlink(missing_ok=True)
            else:
                _swap(was, content)
        except BaseException:
            if backup is not None:
                backup.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Unusable(f"{was.path} cannot be changed: {error.strerror or error}. Nothing was changed.") from error
    return backup


def _content(path: Path) -> bytes | None:
    # Without waiting: a pipe under this name must not hold anybody.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unusable(f"{path} is no file.")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise Unusable(f"{path} is larger than {LARGEST // 1024**2} MiB, which no configuration is.")
    return content


def _require_unchanged(was: Read) -> None:
    if _content(was.path) != was.content:
        raise Raced(f"{was.path} was changed by another program meanwhile. Nothing was changed; try again.")


def _copy(path: Path, content: bytes, now: float) -> Path:
    """Put a copy beside a file, under a name that nothing has, for this user alone."""
    moment = strftime("%Y%m%dT%H%M%SZ", gmtime(now))
    for number in range(1000):
        mark = f"-{number}" if number else ""
        backup = path.with_name(f"{path.name}.{moment}{mark}.bak")
        with suppress(FileExistsError):
            _write(backup, content)
            return backup
    raise Unusable(f"There are a thousand copies of {path} of this second. Remove some.")


def _swap(was: Read, content: bytes) -> None:
    new = was.path.with_name(f".{was.path.name}.{token_hex(6)}.new")
    try:
        _write(new, content)
        if was.content is not None:
            _keep_rights(was.path, new)
        _require_unchanged(was)
        new.replace(was.path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    _settle(was.path.parent)


def _write(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, _FILE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _keep_rights(old: Path, new: Path) -> None:
    """Give a new file the owner, the mode and the attributes of the old one."""
    status = old.stat()
    if sys.platform == "win32":  # where the folder's access list says it
        new.chmod(stat.S_IMODE(status.st_mode))
        return
    fresh = new.stat()
    if (fresh.st_uid, fresh.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.chown(new, status.st_uid, status.st_gid)
        except PermissionError:
            if fresh.st_uid != status.st_uid:
                raise Unusable(f"{old} belongs to another user, and would no longer. Run this as that user.") from None
    if sys.platform == "linux":
        with suppress(OSError):  # a file system without any
            for name in os.listxattr(old):
                with suppress(OSError):  # some belong to the system
                    os.setxattr(new, name, os.getxattr(old, name))
    new.chmod(stat.S_IMODE(status.st_mode))


def _settle(folder: Path) -> None:
    """Make sure that the new name is on the disk, too."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Reading files that anybody may have put there: never waiting, never more than asked for."""

import os
import stat
from pathlib import Path


def read_regular(path: Path, largest: int) -> tuple[bytes, tuple[int, int]]:
    """Return at most one byte more than `largest` of a regular file, and which file it is.

    Opened without waiting: a pipe or device under this name must not hold the scan.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(largest + 1), (status.st_dev, status.st_ino)
    finally:
        os.close(descriptor)


def shown(path: Path) -> str:
    """Return a path as text that can be printed and encoded, whatever bytes the file system has in it."""
    return os.fsencode(path).decode(errors="backslashreplace")

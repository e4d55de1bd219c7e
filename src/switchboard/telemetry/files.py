"""A log on disk beside the one a client shows: small, in the user's own folder, never a reason to stop or to wait."""

import os
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

from switchboard.telemetry.logs import Stream

_LARGEST = 1024 * 1024
_PIECE = 4096
"""What a pipe that can be written to takes without blocking."""


@final
class LogFile(Stream):
    """Appends to a file; one that has grown past a megabyte is put aside, whichever of its writers notices."""

    def __init__(self, path: Path, largest: int = _LARGEST) -> None:
        self._path = path
        self._largest = largest
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._descriptor = self._open()

    def write(self, data: bytes, /) -> int:
        """Append."""
        if os.fstat(self._descriptor).st_size > self._largest:
            self._put_aside()
        return os.write(self._descriptor, data)

    def _open(self) -> int:
        # Without waiting: where the file should be, there may be a pipe that nobody reads.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        return os.open(self._path, flags, 0o600)

    def _put_aside(self) -> None:
        old, self._descriptor = self._descriptor, self._open()
        own = os.path.sameopenfile(old, self._descriptor)
        os.close(old)
        if own:  # else another gateway has done it already
            os.close(self._descriptor)  # Windows moves no file that is open
            try:
                self._path.replace(self._path.with_suffix(".old.log"))
            finally:
                self._descriptor = self._open()


@final
class StandardError(Stream):
    """Writes what its reader takes now, and forgets the rest: a client that never reads our log must not stop us."""

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._takes = _writable(descriptor)
        self._cut = False

    def write(self, data: bytes, /) -> int:
        """Write what is taken now; a line that was cut is ended before the next one."""
        whole = b"\n" + data if self._cut else data
        sent = 0
        with suppress(BlockingIOError):  # whoever shares the descriptor has made it so
            while sent < len(whole) and self._takes():
                sent += os.write(self._descriptor, whole[sent : sent + _PIECE])
        if sent:
            self._cut = whole[sent - 1 : sent] != b"\n"
        return len(data)


def _writable(descriptor: int) -> Callable[[], bool]:
    if sys.platform == "win32":  # nobody can tell
        return lambda: True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return lambda: bool(poll.poll(0))


@final
class Several(Stream):
    """Writes to several places; one that fails is left out from then on."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = list(streams)

    def write(self, data: bytes, /) -> int:
        """Write everywhere."""
        for stream in list(self._streams):
            try:
                _write_all(stream, data)
            except OSError:
                self._streams.remove(stream)
        return len(data)


def _write_all(stream: Stream, data: bytes) -> None:
    while data:
        written = stream.write(data)
        if not written:
            raise BlockingIOError("the stream takes nothing")
        data = data[written:]

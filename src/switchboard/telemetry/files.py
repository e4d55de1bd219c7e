"""A log on disk beside the one a client shows: small, in the user's own folder, and never a reason to stop."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import final

from switchboard.telemetry.logs import Stream

_LARGEST = 1024 * 1024


@final
class LogFile(Stream):
    """Appends to a file; one that has grown past a megabyte is put aside when it is opened."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(path.with_suffix(".old.log"))
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, data: bytes, /) -> int:
        """Append."""
        return os.write(self._descriptor, data)


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

"""Logs as JSON events, one line each, gathered and written in batches.

Writing a line per request through a logging library costs as much as answering the request; here a request appends one
value, and a flush encodes and writes what has gathered. Warnings and errors are written at once.
"""

import logging
import sys
from datetime import UTC, datetime
from functools import lru_cache
from io import FileIO
from typing import Any, Literal, Protocol

import msgspec

Level = Literal["debug", "info", "warning", "error"]
_ORDER: dict[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}
LEVELS: dict[str, Level] = {level: level for level in _ORDER}
_MOST_WAITING = 500
_MILLISECONDS = tuple(b'%03dZ",' % number for number in range(1000))
"""Each of them as a time writes it: to look a number up costs less than to format it."""


class Stream(Protocol):
    """Where a log goes."""

    def write(self, data: bytes, /) -> int | None:
        """Write some of the bytes, and return how many."""
        ...


class Log:
    """Writes events from `level` upwards to one stream."""

    def __init__(self, stream: "Stream | None" = None, level: Level = "info") -> None:
        # Without a buffer of its own: what could not be written must not wait there and spoil the end of the process.
        self._stream = stream or FileIO(sys.stderr.fileno(), "wb", closefd=False)
        self._least = _ORDER[level]
        self._waiting: list[dict[str, Any] | tuple[float, tuple[bytes, ...]]] = []
        self._encoder = msgspec.json.Encoder(enc_hook=str)
        self.lost = 0
        """Events that could not be written."""
        self.debugging = self._least <= _ORDER["debug"]
        self.informing = self._least <= _ORDER["info"]

    def event(self, level: Level, message: str, at: float, **fields: Any) -> None:
        """Note an event; fields follow the message in their order."""
        if _ORDER[level] < self._least:
            return
        self._waiting.append({"level": level, "timestamp": at, "message": message, **fields})
        if _ORDER[level] >= _ORDER["warning"] or len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def often(self, at: float, text: tuple[bytes, ...]) -> None:
        """Note an event that comes with every request, by its text in pieces: from its message to the line's end."""
        waiting = self._waiting
        waiting.append((at, text))
        if len(waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            self._write(b"".join(self._encoded(waiting)))
        except (OSError, ValueError):
            # Nobody reads the log any more, or its disk is full: the service is worth more than its log.
            self.lost += len(waiting)

    def _encoded(self, events: list[dict[str, Any] | tuple[float, tuple[bytes, ...]]]) -> list[bytes]:
        """Return everything in pieces, which are put together once."""
        pieces: list[bytes] = []
        second, opening = -1, b""
        for event in events:
            if isinstance(event, dict):
                event["timestamp"] = timestamp(event["timestamp"])
                pieces += (self._encoder.encode(event), b"\n")
                continue
            at, text = event
            part = at - second
            if not 0.0 <= part < 1.0:  # the same second for hundreds of them
                second = int(at)
                part, opening = at - second, f'{{"level":"info","timestamp":"{_second(second)}.'.encode()
            pieces += (opening, _MILLISECONDS[int(part * 1000)])
            pieces += text
        return pieces

    def _write(self, lines: bytes) -> None:
        while lines:
            written = self._stream.write(lines)
            if not written:
                raise BlockingIOError("the log takes nothing")
            lines = lines[written:]


class ToLog(logging.Handler):
    """Takes what libraries log in their own way into ours."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record as an event; a traceback becomes its last line."""
        level: Level = "error" if record.levelno >= logging.ERROR else "warning"
        if record.levelno >= logging.WARNING:
            error = record.exc_info[1] if record.exc_info else None
            self._log.event(level, record.getMessage(), record.created, source=record.name, error=repr(error))


def fault(error: BaseException) -> str:
    """Return what a log may say of an error that nobody expected: its kind and its place.

    Not its text, which may hold what a caller sent.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    name = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{type(error).__name__} in {name}:{trace.tb_lineno}"


def timestamp(at: float) -> str:
    """Return seconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    second = int(at)
    return f"{_second(second)}.{int((at - second) * 1000):03}Z"


@lru_cache(maxsize=1024)
def _second(second: int) -> str:
    """Return a time without its fraction; the same seconds are asked for thousands of times."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]

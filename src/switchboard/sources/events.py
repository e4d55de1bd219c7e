"""Server-sent events: bytes in, in whatever pieces they come, whole events out. Pure, and bounded by a limit."""

from collections.abc import Iterator
from typing import final

from msgspec import Struct

from switchboard.catalog.errors import AnswerTooLarge

_BOM = b"\xef\xbb\xbf"


class Event(Struct, frozen=True, kw_only=True):
    """One event; `id` is the last one that was told, by this event or an earlier one."""

    kind: str
    data: bytes
    id: str


@final
class Events:
    """Reads one stream."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._waiting = bytearray()
        self._begun = False
        self._after_return = False
        self._kind = ""
        self._data: list[bytes] = []
        self._size = 0
        self._id = ""

    def feed(self, chunk: bytes) -> list[Event]:
        """Return every event that these bytes complete.

        Raises:
            AnswerTooLarge: an event is longer than the limit.
        """
        self._waiting += chunk
        if b"\n" not in chunk and b"\r" not in chunk:  # most of a long event: it is looked at when there is a line
            self._require(len(self._waiting))
            return []
        events = [event for line in self._lines() if (event := self._line(line)) is not None]
        self._require(len(self._waiting))
        return events

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that are whole; they end with CR, LF, or both, and a chunk may end between the two."""
        if not self._begun:
            if len(self._waiting) < len(_BOM) and _BOM.startswith(self._waiting):
                return
            self._begun = True
            del self._waiting[: len(_BOM) if self._waiting.startswith(_BOM) else 0]
        start = 0
        text = bytes(self._waiting)
        while True:
            if self._after_return and start < len(text):
                start += text[start : start + 1] == b"\n"
                self._after_return = False
            ends = [at for at in (text.find(b"\r", start), text.find(b"\n", start)) if at >= 0]
            if not ends:
                break
            end = min(ends)
            line, start = text[start:end], end + 1
            self._after_return = text[end : end + 1] == b"\r"
            yield line
        del self._waiting[:start]

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._whole()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event":
                self._kind = value.decode(errors="replace")
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
                self._require(self._size)
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case _:  # comments, `retry`, and what nobody knows
                pass
        return None

    def _whole(self) -> Event | None:
        kind, data = self._kind or "message", b"\n".join(self._data)
        is_there = bool(self._data)
        self._kind, self._data, self._size = "", [], 0
        return Event(kind=kind, data=data, id=self._id) if is_there else None

    def _require(self, size: int) -> None:
        if size > self._largest:
            raise AnswerTooLarge(f"An event is longer than {self._largest} bytes.")

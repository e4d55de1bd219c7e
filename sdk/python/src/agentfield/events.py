"""Server-sent events, read from pieces of any size (https://html.spec.whatwg.org, section 9.2)."""

import re

import msgspec

_LINE_END = re.compile(rb"\r\n|\n|\r")
_LARGEST = 16 * 1024 * 1024


class Event(msgspec.Struct, frozen=True):
    """One event; `id` is that of the last event which had one."""

    kind: str
    id: str
    data: str


class Reader:
    """Makes events of bytes. Comments, and fields that nobody knows, are nothing."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.retry_s: float | None = None
        """How long the server wants one to wait before coming back, if it has said so."""
        self._rest = b""
        self._kind = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Event]:
        """Take in a piece, and return the events that are complete with it.

        Raises:
            ValueError: A line is longer than any event could be.
        """
        text = self._rest + piece
        # What ends with a carriage return may go on with a line feed.
        held = text[-1:] if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = rest + held
        if len(self._rest) > _LARGEST:
            raise ValueError("a line of an event is too long")
        found = [self._line(line.decode(errors="replace")) for line in lines]
        return [event for event in found if event is not None]

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._end()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = int(value[:9]) / 1000
        return None

    def _end(self) -> Event | None:
        kind, data = self._kind or "message", self._data
        self._kind, self._data = "", []
        return Event(kind, self.last_id, "\n".join(data)) if data else None

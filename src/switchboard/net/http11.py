"""HTTP/1.1 on the connections of a pool: a request goes out whole, and its answer is read as it comes.

httpcore2's pool says which connection takes which request; answers are taken apart by llhttp, which is what Node has
for that. Of what llhttp calls dangerous to allow, nothing is allowed here but spaces behind the size of a chunk.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Literal, cast, final

import httpcore2
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from switchboard.net.wires import Wire

_LARGEST_READ = 64 * 1024
_LARGEST_BETWEEN = 100 * 1024
"""How much may come that is no body: a head, or what stands between the parts of a body, or behind it."""
_ENCODING = b"transfer-encoding"
_IDLE_CONNECTIONS = 64
"""As many as one agent works on at once: fewer would be closed after each wave, and opened again for the next."""
_IDLE_S = 15.0
_FIRST_STATUS, _SWITCHING, _FIRST_FINAL = 100, 101, 200

State = Literal["new", "active", "idle", "closed"]
Headers = list[tuple[bytes, bytes]]


class Stale(Exception):
    """A connection that was used before ended before the first byte of this answer."""


@final
class Incoming:
    """One answer, as far as it has come. What the parser says, it says to this."""

    def __init__(self, *, has_body: bool) -> None:
        """Expect an answer; one to HEAD has no body, whatever its head says."""
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        # Old servers write sizes of chunks in fields of a fixed width.
        self._parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)
        self._has_body = has_body
        self._between = 0
        self._is_interim = False
        self.status = 0
        """Known when its head is complete."""
        self.headers: Headers = []
        self.pieces: list[bytes] = []
        """What has come of its body, and was not taken yet."""
        self.is_heard = False
        self.is_complete = False
        self.may_follow = False
        """Whether the connection can take another request after this."""

    def feed(self, data: bytes) -> None:
        """Take what has come.

        Raises:
            RemoteProtocolError: it is not HTTP.
        """
        self.is_heard = True
        self._between += len(data)
        parser = cast("HttpResponseParser", self._parser)
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.may_follow = False
            if not self.is_complete:  # what comes behind a whole answer is nobody's, and not read any further
                raise httpcore2.RemoteProtocolError("what comes is not HTTP/1.1") from error
        if self._between > _LARGEST_BETWEEN and not self.is_complete:
            raise httpcore2.RemoteProtocolError("a head is too long")

    def end(self) -> None:
        """Take in that nothing more will come, which is how some bodies end.

        Raises:
            RemoteProtocolError: something is missing.
        """
        if self.is_complete:
            return
        if not self.status or _is_delimited(self.headers):
            raise httpcore2.RemoteProtocolError("the answer is cut off")
        self.is_complete = True

    def release(self) -> None:
        """Let go of the parser, which holds on to this."""
        self._parser = None

    # What the parser says

    def on_message_begin(self) -> None:
        """An answer begins; a second one is nobody's."""
        if self.is_complete:
            self.may_follow = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what comes behind a body is not asked for."""
        if len(name) == len(_ENCODING) and name.lower() == _ENCODING and value.strip().lower() != b"chunked":
            raise httpcore2.RemoteProtocolError("the body is packed in a way that nobody asked for")
        if not self.status:
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is here, or one that only says that there will be another."""
        if self.is_complete:
            return
        status = cast("HttpResponseParser", self._parser).get_status_code()
        if status == _SWITCHING or status < _FIRST_STATUS:
            raise httpcore2.RemoteProtocolError("that is no status of an answer")
        if status < _FIRST_FINAL:
            if _is_delimited(self.headers):
                raise httpcore2.RemoteProtocolError("what comes before an answer has no body")
            self._is_interim = True
            return
        self.status = status
        if not self._has_body:
            self._complete()

    def on_chunk_header(self) -> None:
        """A part of a body follows."""
        if self.is_complete:
            self.may_follow = False

    def on_body(self, body: bytes) -> None:
        """Take some of the body."""
        if not self.status:
            raise httpcore2.RemoteProtocolError("a body comes before its head")
        self._between = 0
        if self.is_complete:
            self.may_follow = False
        else:
            self.pieces.append(body)

    def on_message_complete(self) -> None:
        """An answer is whole."""
        if self._is_interim:
            self._is_interim = False
            self.headers.clear()
        elif not self.is_complete:
            self._complete()

    def _complete(self) -> None:
        self.is_complete, self.may_follow = True, cast("HttpResponseParser", self._parser).should_keep_alive()


@final
class Connection(httpcore2.AsyncConnectionInterface):
    """What the pool has for one connection. One request at a time."""

    def __init__(self, origin: httpcore2.Origin, opened: Callable[[], Awaitable[Wire]], idle_s: float) -> None:
        """Prepare a connection; `opened` makes it, and after `idle_s` without a request it is not used any more."""
        self._origin = origin
        self._opened = opened
        self._idle_s = idle_s
        self._wire: Wire | None = None
        self._incoming: Incoming | None = None
        """The answer that is under way."""
        self._state: State = "new"
        self._expires_at = 0.0

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request, and return its answer as soon as its head is here.

        Raises:
            ConnectionNotAvailable: another request was quicker.
            Stale: the connection was kept, and is over.
            NetworkError, ProtocolError: it cannot be made, or breaks off, or what comes is no answer.
        """
        if self._state not in ("new", "idle"):
            raise httpcore2.ConnectionNotAvailable
        is_kept, self._state = self._state == "idle", "active"
        try:
            message = await _message(request)
            if self._wire is None:
                self._wire = await self._opened()
                self._require_open()
            with suppress(OSError):  # a server may answer, and hang up, before it has taken everything
                self._wire.write(message)
            self._incoming = incoming = Incoming(has_body=request.method != b"HEAD")
            while not incoming.status:
                await self._receive(incoming, is_kept=is_kept)
        except BaseException:
            self._hang_up()
            raise
        return httpcore2.Response(incoming.status, headers=incoming.headers, content=_Body(self, incoming))

    async def _receive(self, incoming: Incoming, *, is_kept: bool = False) -> None:
        """Wait for more of an answer."""
        wire = cast("Wire", self._wire)
        try:
            data = await wire.read(_LARGEST_READ)
        except OSError as error:
            if is_kept and not incoming.is_heard:
                raise Stale from error
            raise httpcore2.ReadError from error
        if data:
            incoming.feed(data)
        elif incoming.is_heard:
            incoming.end()
        else:
            raise Stale if is_kept else httpcore2.ReadError

    async def body(self, incoming: Incoming) -> AsyncGenerator[bytes]:
        """Yield the body of an answer as it comes.

        Raises:
            NetworkError, ProtocolError: the rest of it does not come.
        """
        try:
            while True:
                pieces, incoming.pieces = incoming.pieces, []
                for piece in pieces:
                    yield piece
                if incoming.is_complete:
                    return
                await self._receive(incoming)
        except BaseException:
            self.done(incoming)
            raise

    def done(self, incoming: Incoming) -> None:
        """Take the next request after this answer, or hang up where that cannot be."""
        wire = self._wire
        if incoming is not self._incoming or wire is None:
            return
        if incoming.is_complete and incoming.may_follow and wire.is_drained():
            self._state, self._expires_at = "idle", time.monotonic() + self._idle_s
            self._forget()
        else:
            self._hang_up()

    def _forget(self) -> None:
        if self._incoming is not None:
            self._incoming.release()
            self._incoming = None

    def _require_open(self) -> None:
        """Raise where the pool was closed while the connection was made."""
        if self.is_closed():
            raise httpcore2.ConnectError("the pool is closed")

    def _hang_up(self) -> None:
        self._state = "closed"
        self._forget()
        if self._wire is not None:
            self._wire.close()

    # What the pool asks

    async def aclose(self) -> None:
        """Hang up."""
        self._hang_up()

    def can_handle_request(self, origin: httpcore2.Origin) -> bool:
        """Tell whether it leads where a request goes."""
        return origin == self._origin

    def is_connected(self) -> bool:
        """Tell whether it has been made, and is not over."""
        return self._wire is not None and self._state != "closed"

    def is_available(self) -> bool:
        """Tell whether it can take a request now."""
        return self._state == "idle"

    def has_expired(self) -> bool:
        """Tell whether it should not be used again: nothing was sent on it for long, or the other side has hung up."""
        if self._state != "idle" or self._wire is None:
            return self._state == "closed"
        return time.monotonic() > self._expires_at or self._wire.is_readable()

    def is_idle(self) -> bool:
        """Tell whether no request is under way."""
        return self._state in ("idle", "closed")

    def is_closed(self) -> bool:
        """Tell whether it is over."""
        return self._state == "closed"

    def info(self) -> str:
        """Say what it is, for people."""
        return f"{self._origin}, HTTP/1.1, {self._state}"


@final
class Pool(httpcore2.AsyncConnectionPool):
    """Connections that `opened` makes by host and port, `most` at once; some are kept for a while."""

    def __init__(self, opened: Callable[[str, int], Awaitable[Wire]], most: int | None) -> None:
        super().__init__(max_connections=most, max_keepalive_connections=_IDLE_CONNECTIONS)
        self._opened = opened

    def create_connection(self, origin: httpcore2.Origin) -> Connection:
        """Prepare a connection, which is made with its first request."""
        host, port = origin.host.decode("ascii"), origin.port
        return Connection(origin, lambda: self._opened(host, port), _IDLE_S)


@final
class _Body:
    """The body of an answer, as the pool passes it on."""

    def __init__(self, connection: Connection, incoming: Incoming) -> None:
        self._connection = connection
        self._incoming = incoming

    def __aiter__(self) -> AsyncGenerator[bytes]:
        return self._connection.body(self._incoming)

    async def aclose(self) -> None:
        self._connection.done(self._incoming)


async def _message(request: httpcore2.Request) -> bytes:
    """Return a request as it goes over the wire.

    Raises:
        LocalProtocolError: something in it would make it another one.
    """
    target, headers = request.url.target, request.headers
    head = b"%b %b HTTP/1.1\r\n%b\r\n" % (request.method, target, b"".join([b"%b: %b\r\n" % pair for pair in headers]))
    lines = len(headers) + 2
    if head.count(b"\r") != lines or head.count(b"\n") != lines or b" " in target or b"\0" in head:
        raise httpcore2.LocalProtocolError("this cannot be sent")
    parts = [head]
    async for part in cast("AsyncGenerator[bytes]", request.stream):
        parts.append(part)  # noqa: PERF401 - it is one part, most often
    return b"".join(parts)


def _is_delimited(headers: Headers) -> bool:
    """Tell whether a head says where its body ends; otherwise it ends with the connection."""
    return any(name.lower() in (b"content-length", _ENCODING) for name, _ in headers)

"""One connection as the loop sees it: what has come and was not read yet, and whether it has ended.

Between the loop and the pool there is nothing but this: a library that serves several loops has its price on each call.
"""

import asyncio
import select
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, cast, final

_MOST_UNREAD = 256 * 1024


@final
class Wire(asyncio.Protocol):
    """Bytes to and from one address. One reads and one writes at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast("asyncio.Transport", None)
        self._plain = self._transport
        """The connection below TLS. What has to wait waits there: uvloop drops what TLS holds back at the end."""
        self._come: deque[bytes] = deque()
        self._unread = 0
        self._is_paused = False
        self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._has_come: Callable[[], bool] = lambda: False

    @classmethod
    async def to(cls, address: str, port: int) -> "Wire":
        """Connect to an address, which is a number and no name.

        Raises:
            OSError: nobody answers there.
        """
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(cls, address, port)
        return wire

    async def encrypt(self, context: ssl.SSLContext, name: str | None) -> None:
        """Speak TLS from here on, to whoever can show that this is their name.

        Raises:
            OSError: they cannot, or the connection broke off. It is closed then.
        """
        try:
            encrypted = await self._loop.start_tls(self._transport, self, context, server_hostname=name)
        except BaseException:
            self._plain.abort()
            raise
        if encrypted is None:  # the loop says so where the connection broke off during the last step
            raise ConnectionResetError
        self._transport = encrypted

    async def read(self, most: int) -> bytes:
        """Return what comes next; nothing at the end.

        Raises:
            OSError: the connection broke off.
        """
        while not self._come:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        piece = self._come.popleft()
        if len(piece) > most:
            self._come.appendleft(piece[most:])
            piece = piece[:most]
        self._unread -= len(piece)
        if self._is_paused and self._unread <= _MOST_UNREAD:
            self._is_paused = False
            if not self._plain.is_closing():
                self._plain.resume_reading()
        return piece

    def write(self, data: bytes) -> None:
        """Send. Nobody waits until it is taken: who takes nothing more may answer all the same.

        Raises:
            OSError: the connection broke off.
        """
        if self._ended or self._transport.is_closing():
            raise self._error or ConnectionResetError
        self._transport.write(data)

    def close(self) -> None:
        """Hang up: what was written goes out if the system takes it now. Nobody waits for the other side's goodbye."""
        if not self._transport.is_closing():
            self._transport.close()
        self._loop.call_soon(self._plain.abort)

    def is_readable(self) -> bool:
        """Tell whether something has come, be it the end, also if the loop has not noticed yet."""
        return bool(self._come) or self._ended or self._has_come()

    def is_drained(self) -> bool:
        """Tell whether everything that was written has been taken by the system."""
        return self._transport.get_write_buffer_size() == 0 == self._plain.get_write_buffer_size()

    def info(self, name: str) -> Any:
        """Return what the loop knows of the connection under a name."""
        return self._transport.get_extra_info(name)

    # What the loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = self._plain = cast("asyncio.Transport", transport)
        self._has_come = _looking_at(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        """Keep what has come; who sends more than anybody reads has to wait."""
        self._come.append(data)
        self._unread += len(data)
        if self._unread > _MOST_UNREAD and not self._is_paused:
            self._is_paused = True
            self._plain.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Nothing will come any more; let the loop hang up."""
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._ended, self._error = True, self._error or exc
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def _looking_at(connected: object) -> Callable[[], bool]:
    """Return how to tell whether something can be read from a socket, where the system has a quick way.

    The loop may have closed the socket meanwhile, and its number may be another one's by now: then there is an end to
    be read here.
    """
    fileno = cast("Callable[[], int] | None", getattr(connected, "fileno", None))  # uvloop's only look like sockets
    if fileno is None or not hasattr(select, "poll"):
        return lambda: False
    number = fileno()
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return lambda: fileno() != number or bool(poll.poll(0))

"""Connections to addresses that were checked: a name is looked up once, and what was looked at is what is connected to.

Names are looked up in threads of their own, because the system can take long over one. Knows nothing of requests.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from threading import Lock, Thread
from typing import Any, NamedTuple, final

import httpcore2

from switchboard.catalog.errors import ServiceUnavailable, UnknownHost
from switchboard.net.guard import Address
from switchboard.net.wires import Wire

Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]

_LOOK_UPS = 8
_SENT_TOGETHER = 64 * 1024
# An address that does not answer must not use up the time of the next one.
_NEXT_ADDRESS_S = 1.0
_NO_SUCH_NAME = frozenset(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY") if hasattr(socket, name)
)


class Objection(Exception):
    """No address of a host may be connected to; the pool lets it through."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Stale(Exception):
    """A connection that was used before ended before the first byte of this answer."""


def ask_system(host: str, port: int) -> Sequence[Address]:
    """Ask the operating system, which can take long: names in hosts files and VPNs count."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(entry[4][0]) for entry in found]


@final
class LookUps:
    """Looks names up in a few threads of its own: a name server that is silent holds up nobody but who asks it.

    The threads are none that the end of the process waits for, and end when nobody asks. Whoever gives up waiting is
    forgotten; the thread is free again when the system answers.
    """

    def __init__(self, most: int = _LOOK_UPS, ask: Callable[[str, int], Sequence[Address]] = ask_system) -> None:
        self._most = most
        self._ask = ask
        self._lock = Lock()
        self._running = 0
        self._waiting: deque[_Question] = deque()

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a host, as soon as a thread is free and the system answers.

        Raises:
            OSError: it cannot be looked up.
        """
        loop = asyncio.get_running_loop()
        question = _Question(host, port, loop, loop.create_future())
        with self._lock:
            self._waiting.append(question)
            start = self._running < self._most
            self._running += start
        if start:
            Thread(target=self._work, name="look-up", daemon=True).start()
        return await question.answer

    def _work(self) -> None:
        while (question := self._next()) is not None:
            try:
                found = self._ask(question.host, question.port)
            except Exception as error:  # noqa: BLE001 - it belongs to whoever asked
                question.settle(error)
            else:
                question.settle(found)

    def _next(self) -> "_Question | None":
        with self._lock:
            while self._waiting:
                question = self._waiting.popleft()
                if not question.answer.done():  # else nobody waits any more
                    return question
            self._running -= 1
            return None


class _Question(NamedTuple):
    """A name that somebody in an event loop waits for."""

    host: str
    port: int
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Sequence[Address]]

    def settle(self, found: Sequence[Address] | Exception) -> None:
        """Pass on what was found, from a thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know
            self.loop.call_soon_threadsafe(self._tell, found)

    def _tell(self, found: Sequence[Address] | Exception) -> None:
        if self.answer.done():
            return
        if isinstance(found, Exception):
            self.answer.set_exception(found)
        else:
            self.answer.set_result(found)


@final
class Pinned(httpcore2.AsyncNetworkBackend):
    """Look a name up once, and connect to what was checked."""

    def __init__(self, objection: Callable[[Address], str | None], resolve: Resolver) -> None:
        self._objection = objection
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the base class has it so
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that is allowed and answers."""
        del timeout, local_address, socket_options  # one limit stands around everything, and the pool has no options
        *others, last = await self._allowed(host, port)
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._connect(address, port, _NEXT_ADDRESS_S)
        return await self._connect(last, port, None)

    async def _connect(self, address: Address, port: int, seconds: float | None) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(seconds):
                return _Stream(await Wire.to(str(address), port))
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        except OSError as error:
            raise httpcore2.ConnectError from error

    async def _allowed(self, host: str, port: int) -> Sequence[Address]:
        addresses = await self._addresses(host, port)
        objections = [self._objection(address) for address in addresses]
        allowed = [address for address, why in zip(addresses, objections, strict=True) if why is None]
        if not allowed:
            raise Objection(objections[0] or "")
        return allowed

    async def _addresses(self, host: str, port: int) -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            pass
        try:
            found = await self._resolve(host, port)
        except socket.gaierror as error:
            if error.errno in _NO_SUCH_NAME:
                raise UnknownHost(f"There is no host {host}. Check the address, and the network.", host=host) from error
            raise ServiceUnavailable(
                f"{host} cannot be looked up now: {error.strerror}. Try again, and check the network.", host=host
            ) from error
        if not found:
            raise UnknownHost(f"There is no host {host}. Check the address, and the network.", host=host)
        return found


@final
class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that knows whether an answer has begun. One limit stands around everything: none has its own."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._used = False
        self._heard = False
        self._unsent = bytearray()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the base class has it so
        del timeout
        # An answer may come before everything was taken: what cannot be written does not keep it from being read.
        with suppress(httpcore2.WriteError):
            await self._flush()
        try:
            data = await self._wire.read(max_bytes)
        except OSError as error:
            if self._used and not self._heard:
                raise Stale from error
            raise httpcore2.ReadError from error
        if not data and not self._heard:
            raise Stale if self._used else httpcore2.ReadError
        self._heard = True
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        del timeout
        # HTTP/1.1: nothing is written after the first byte of an answer but the next request.
        self._used, self._heard = self._used or self._heard, False
        # Head and body go out together, when there is much of it or somebody waits for the answer.
        self._unsent += buffer
        if len(self._unsent) > _SENT_TOGETHER:
            await self._flush()

    async def _flush(self) -> None:
        if self._unsent:
            unsent, self._unsent = bytes(self._unsent), bytearray()
            try:
                await self._wire.write(unsent)
            except OSError as error:
                raise httpcore2.WriteError from error

    async def aclose(self) -> None:
        self._wire.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore2.AsyncNetworkStream:
        del timeout
        try:
            await self._wire.encrypt(ssl_context, server_hostname)
        except OSError as error:
            raise httpcore2.ConnectError from error
        return self

    def get_extra_info(self, info: str) -> Any:
        return self._wire.is_readable() if info == "is_readable" else self._wire.info(info)

"""Connections to addresses that were checked: a name is looked up once, and what was looked at is what is connected to.

Names are looked up in threads of their own, because the system can take long over one. Knows nothing of requests.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from threading import Lock, Thread
from typing import NamedTuple, final

import httpcore2

from switchboard.catalog.errors import ServiceUnavailable, UnknownHost
from switchboard.net.guard import Address
from switchboard.net.wires import Wire

Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]

_LOOK_UPS = 8
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
class Pinned:
    """Look a name up once, and connect to what was checked."""

    def __init__(self, objection: Callable[[Address], str | None], resolve: Resolver) -> None:
        self._objection = objection
        self._resolve = resolve

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Wire:
        """Connect to the first address that is allowed and answers; with TLS, if the host can show that it is that one.

        Raises:
            Objection: no address is allowed.
            UnknownHost, ServiceUnavailable: the name cannot be looked up.
            ConnectError, ConnectTimeout: nobody answers, or not as who was meant.
        """
        *others, last = await self._allowed(host, port)
        wire = None
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                wire = await self._connect(address, port, _NEXT_ADDRESS_S)
                break
        wire = wire or await self._connect(last, port, None)
        if tls is None:
            return wire
        try:
            await wire.encrypt(tls, host)
        except OSError as error:
            raise httpcore2.ConnectError from error
        return wire

    async def _connect(self, address: Address, port: int, seconds: float | None) -> Wire:
        try:
            async with asyncio.timeout(seconds):
                return await Wire.to(str(address), port)
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

"""A web of our own on loopback: names, certificates and small sites that remember what they were asked."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple, Self

from tests import certificates

from switchboard.net.fetch import Fetch
from switchboard.net.guard import is_loopback, is_public

Address = IPv4Address | IPv6Address
PATIENCE_S = 30


class Asked(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    turn: int
    """Which request of its connection it is, from 1."""


Reply = Callable[[Asked, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reply(status: int, body: bytes = b"", *headers: str) -> Reply:
    """Answer always the same."""
    lines = [f"HTTP/1.1 {status} So", f"Content-Length: {len(body)}", *headers]

    async def answer(asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if asked.method == "HEAD" else body))
        await writer.drain()

    return answer


def redirect(location: str, status: int = 302) -> Reply:
    return reply(status, b"", f"Location: {location}")


async def silence(_: Asked, reader: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await reader.read()


async def hang_up(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def slam(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, as a machine does that was started anew."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Site:
    """A server on loopback; without a certificate it speaks plain http."""

    def __init__(
        self, pages: Mapping[str, Reply], tls: ssl.SSLContext | None = None, *, at: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.pages = dict(pages)
        self.asked: list[Asked] = []
        self.connections = 0
        self.server_names: list[str | None] = []
        self.reached = asyncio.Event()
        self.left = asyncio.Event()
        self._tls = tls
        self._at = at
        self.port = port
        self._tasks: set[asyncio.Task[None]] = set()
        if tls is not None:
            tls.sni_callback = self._named

    def url(self, path: str = "/", host: str = "shop.test") -> str:
        """Return an address of this site under any name."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def require_certificates(self) -> None:
        """Ask clients for one; nobody has any."""
        assert self._tls is not None
        self._tls.verify_mode = ssl.CERT_REQUIRED

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._at, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _named(self, _: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        self.server_names.append(name)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self.left.set()
            # Nobody waits for the other side's goodbye, which asyncio would do for half a minute.
            writer.transport.abort()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = 0
        while not writer.is_closing():
            turn += 1
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            method, path, _ = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-1])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(method, path, headers, body, turn)
            self.asked.append(asked)
            self.reached.set()
            await self.pages[path.partition("?")[0]](asked, reader, writer)


class Names:
    """A resolver: what each name leads to, time after time; a name that is not told leads to 127.0.0.1."""

    def __init__(self, **told: list[list[str]] | OSError) -> None:
        self.told = {name.replace("_", "."): answer for name, answer in told.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[Address]:
        """Look a name up; the last answer stays."""
        assert port
        turn = self.asked.count(host)
        self.asked.append(host)
        answers = self.told.get(host, [["127.0.0.1"]])
        if isinstance(answers, OSError):
            raise answers
        return [ip_address(text) for text in answers[min(turn, len(answers) - 1)]]


def this_machine_too(address: Address) -> bool:
    """Say that loopback counts as public, which is what lets a test have a public site."""
    return is_loopback(address) or is_public(address)


class Web:
    """Certificates for `shop.test`, `other.test`, `bücher.test` and 127.0.0.1, and clients that trust them."""

    def __init__(self, folder: Path) -> None:
        names = "DNS:shop.test,DNS:other.test,DNS:xn--bcher-kva.test,IP:127.0.0.1"
        self._key, self._certificate = certificates.make(folder, names)

    def site(self, pages: Mapping[str, Reply], at: str = "127.0.0.1") -> Site:
        """Build a site that speaks https."""
        return Site(pages, self.serving(), at=at)

    def serving(self) -> ssl.SSLContext:
        """Serve under our certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._key)
        return context

    def trust(self) -> ssl.SSLContext:
        """Trust our certificate, and no other."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self._certificate)
        return context

    @asynccontextmanager
    async def fetch(
        self,
        names: Names | None = None,
        *,
        permitted: Callable[[Address], bool] = this_machine_too,
        loopback: bool = False,
    ) -> AsyncGenerator[Fetch]:
        """Open a client of this web."""
        fetch = Fetch(loopback=loopback, permitted=permitted, resolve=names or Names(), tls=self.trust())
        try:
            yield fetch
        finally:
            await fetch.close()


async def soon(event: asyncio.Event) -> None:
    """Wait for something that has to happen."""
    await asyncio.wait_for(event.wait(), PATIENCE_S)

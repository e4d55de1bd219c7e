"""One connection, over real sockets: nothing is lost, nothing piles up, and everybody learns of its end."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.net.web import Web

from switchboard.net.wires import Wire

LIMIT_S = 20
MUCH = 64 * 1024 * 1024
"""More than the system keeps for a connection."""
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(serve: Serve) -> AsyncGenerator[Wire]:
    """Yield a wire to somebody."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    wire = await Wire.to("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        async with asyncio.timeout(LIMIT_S):
            yield wire
    finally:
        wire.close()
        server.close()


async def everything(wire: Wire) -> bytes:
    gathered = bytearray()
    while piece := await wire.read(65536):
        gathered += piece
    return bytes(gathered)


def test_what_comes_is_read_in_order_in_pieces_of_at_most_what_is_asked_for() -> None:
    """And the end is told after it, as often as somebody asks."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"0123456789")
        writer.close()

    async def story() -> None:
        async with connected(serve) as wire:
            pieces = [await wire.read(4) for _ in range(5)]

        assert pieces == [b"0123", b"4567", b"89", b"", b""]

    asyncio.run(story())


def test_who_sends_faster_than_anybody_reads_has_to_wait() -> None:
    """What nobody reads does not pile up here; and when somebody does, it is all there."""
    sent = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _piece in range(MUCH // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536
        writer.close()

    async def story() -> None:
        async with connected(serve) as wire:
            before = 0
            while not sent or before < sent:
                before = sent
                await asyncio.sleep(0.2)

            assert before < MUCH
            assert wire.is_readable()
            assert len(await everything(wire)) == MUCH

    asyncio.run(story())


def test_who_writes_faster_than_anybody_takes_hears_what_comes_and_learns_of_the_end() -> None:
    """It is not said to be taken, and nobody waits for that."""
    hang_up = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"enough")
        await hang_up.wait()
        writer.transport.abort()

    async def story() -> None:
        async with connected(serve) as wire:
            assert wire.is_drained()
            wire.write(b"x" * MUCH)
            assert await wire.read(100) == b"enough"
            assert not wire.is_drained()
            hang_up.set()

            with pytest.raises(OSError):  # noqa: PT011 - which one is the system's affair
                await wire.read(100)
            with pytest.raises(OSError):  # noqa: PT011 - as above
                wire.write(b"more")

    asyncio.run(story())


def test_who_waits_for_something_learns_that_the_connection_broke_off() -> None:
    """Which is no end that somebody meant."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def story() -> None:
        async with connected(serve) as wire:
            wire.write(b"ab")
            with pytest.raises(ConnectionError):
                await wire.read(10)

            assert wire.is_readable()

    asyncio.run(story())


def test_nothing_is_lost_of_what_somebody_sends_before_he_ends_it(web: Web) -> None:
    """Encrypted, more than is kept here, read late, and without a goodbye."""
    sent = bytes(range(256)) * 8 * 1024
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with web.serving().wrap_socket(connection, server_side=True) as encrypted:
            encrypted.sendall(sent)

    async def story() -> None:
        serving = asyncio.get_running_loop().run_in_executor(None, serve)
        wire = await Wire.to("127.0.0.1", listener.getsockname()[1])
        async with asyncio.timeout(LIMIT_S):
            await wire.encrypt(web.trust(), "shop.test")
            gathered = bytearray()
            while piece := await wire.read(65536):
                gathered += piece
                await asyncio.sleep(0.002)
            await serving
        wire.close()

        assert gathered == sent

    with listener:
        asyncio.run(story())


def test_who_has_been_left_can_hang_up(web: Web) -> None:
    """Also on an encrypted connection, and as often as one likes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        encrypted = web.serving().wrap_socket(connection, server_side=True)
        encrypted.unwrap()
        encrypted.close()

    async def story() -> None:
        serving = asyncio.get_running_loop().run_in_executor(None, serve)
        wire = await Wire.to("127.0.0.1", listener.getsockname()[1])
        async with asyncio.timeout(LIMIT_S):
            await wire.encrypt(web.trust(), "shop.test")
            assert await wire.read(10) == b""
            await serving
        wire.close()
        wire.close()
        await asyncio.sleep(0.01)

        assert wire.is_readable()
        with pytest.raises(OSError):  # noqa: PT011 - which one is the system's affair
            wire.write(b"more")

    with listener:
        asyncio.run(story())

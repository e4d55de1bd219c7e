"""Time and size: one limit each, over everything."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
from tests.net.web import Asked, Site, Web, redirect, reply, silence, soon

from switchboard.catalog.errors import AnswerTooLarge, CallTimeout, ServiceUnavailable
from switchboard.net.fetch import Limits

MEBIBYTE = 1024 * 1024


def test_a_body_may_be_as_long_as_the_limit_and_no_byte_longer(web: Web) -> None:
    """One mebibyte if nobody says otherwise."""

    async def story() -> None:
        pages = {"/fits": reply(200, b"x" * MEBIBYTE), "/long": reply(200, b"x" * (MEBIBYTE + 1))}
        async with web.site(pages) as site, web.fetch() as fetch:
            assert len((await fetch.send("GET", site.url("/fits"))).body) == MEBIBYTE
            with pytest.raises(AnswerTooLarge, match="more than 1048576 bytes"):
                await fetch.send("GET", site.url("/long"))

    asyncio.run(story())


def test_a_packed_body_is_measured_unpacked(web: Web) -> None:
    """Also in several members, also to the byte."""

    async def story() -> None:
        text = gzip.compress(b"a" * 500, mtime=0) + gzip.compress(b"b" * 500, mtime=0)
        pages = {"/": reply(200, text, "Content-Encoding: gzip")}
        async with web.site(pages) as site, web.fetch() as fetch:
            answer = await fetch.send("GET", site.url(), limits=Limits(size=1000))
            assert answer.body == b"a" * 500 + b"b" * 500
            assert site.asked[0].headers["accept-encoding"] == "gzip"
            with pytest.raises(AnswerTooLarge):
                await fetch.send("GET", site.url(), limits=Limits(size=999))

    asyncio.run(story())


def test_a_bomb_is_not_unpacked(web: Web) -> None:
    """32 MiB in one packet of 32 KiB: what we hold stays near the limit."""

    async def story() -> None:
        bomb = gzip.compress(bytes(32 * MEBIBYTE), mtime=0)
        async with web.site({"/": reply(200, bomb, "Content-Encoding: gzip")}) as site, web.fetch() as fetch:
            tracemalloc.start()
            try:
                with pytest.raises(AnswerTooLarge):
                    await fetch.send("GET", site.url())
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

            assert peak < 6 * MEBIBYTE

    asyncio.run(story())


@pytest.mark.parametrize("coding", ["identity", "gzip", "nothing, packed"])
def test_a_body_without_end_is_cut(web: Web, coding: str) -> None:
    """Plain, packed, and packed so that nothing ever comes out; the server sees us leave."""
    packer = zlib.compressobj(wbits=31)
    head = packer.compress(b"") + packer.flush(zlib.Z_SYNC_FLUSH)
    more = {
        "identity": b"x" * 4096,
        "gzip": packer.compress(bytes(65536)) + packer.flush(zlib.Z_FULL_FLUSH),
        "nothing, packed": b"\x00\x00\x00\xff\xff" * 800,
    }[coding]

    async def pour(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        encoding = "identity" if coding == "identity" else "gzip"
        writer.write(f"HTTP/1.1 200 So\r\nContent-Encoding: {encoding}\r\n\r\n".encode())
        writer.write(b"" if coding == "identity" else head)
        while not writer.is_closing():
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(0)  # a drain that need not wait does not let the loop see that the other side has gone

    async def story() -> None:
        async with web.site({"/": pour}) as site, web.fetch() as fetch:
            with pytest.raises(AnswerTooLarge):
                await fetch.send("GET", site.url())
            await soon(site.left)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"not gzip at all"),
        ("gzip", gzip.compress(b"cut off", mtime=0)[:-6]),
        ("gzip", gzip.compress(b"x", mtime=0) + b"more"),
        ("br", b"x"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0)),
    ],
)
def test_what_does_not_unpack_is_unavailable(web: Web, coding: str, body: bytes) -> None:
    """Broken, cut off, or packed as nobody asked for."""

    async def story() -> None:
        pages = {"/": reply(200, body, f"Content-Encoding: {coding}")}
        async with web.site(pages) as site, web.fetch() as fetch:
            with pytest.raises(ServiceUnavailable, match="cannot be unpacked"):
                await fetch.send("GET", site.url())

    asyncio.run(story())


def test_the_packed_answer_to_a_head_is_empty(web: Web) -> None:
    """There is nothing to unpack, and that is fine."""

    async def story() -> None:
        pages = {"/": reply(200, gzip.compress(b"x", mtime=0), "Content-Encoding: gzip")}
        async with web.site(pages) as site, web.fetch() as fetch:
            assert (await fetch.send("HEAD", site.url())).body == b""

    asyncio.run(story())


def test_a_server_that_says_nothing_is_cut(web: Web) -> None:
    """And its connection is closed."""

    async def story() -> None:
        async with web.site({"/": silence}) as site, web.fetch() as fetch:
            with pytest.raises(CallTimeout, match=r"no answer within 0\.2 seconds"):
                await fetch.send("GET", site.url(), limits=Limits(seconds=0.2))
            await soon(site.left)

    asyncio.run(story())


async def _drip(_: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 So\r\nContent-Length: 1000000\r\n\r\n")
    gone = asyncio.ensure_future(reader.read())
    while not gone.done():
        writer.write(b".")
        await asyncio.wait({gone}, timeout=0.02)


def test_a_server_that_drips_is_cut(web: Web) -> None:
    """It would take hours, and never be silent for long."""

    async def story() -> None:
        async with web.site({"/": _drip}) as site, web.fetch() as fetch:
            with pytest.raises(CallTimeout):
                await fetch.send("GET", site.url(), limits=Limits(seconds=0.3))
            await soon(site.left)

    asyncio.run(story())


def test_a_server_that_accepts_and_sends_no_tls_is_cut(web: Web) -> None:
    """The handshake is inside the limit."""

    async def story() -> None:
        left = asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            left.set()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with server, web.fetch() as fetch:
            url = f"https://shop.test:{server.sockets[0].getsockname()[1]}/"
            with pytest.raises(CallTimeout):
                await fetch.send("GET", url, limits=Limits(seconds=0.2))
            await soon(left)

    asyncio.run(story())


def test_redirects_share_one_time_limit(web: Web) -> None:
    """The last hop is silent; the first address is the one that is named."""

    async def story() -> None:
        async with Site({"/": redirect("/late"), "/late": silence}) as site, web.fetch(loopback=True) as fetch:
            with pytest.raises(CallTimeout, match=r"localhost:[0-9]+/ gave no answer"):
                await fetch.send("GET", site.url(host="localhost"), limits=Limits(seconds=0.2))

    asyncio.run(story())

"""Answers that go on: read as they come, through the same guard, and given up when nothing comes."""

import asyncio

import pytest
from tests.net.web import Asked, Reply, Site, Web, redirect, reply, silence

from switchboard.catalog.errors import CallTimeout, RefusedAddress, ServiceUnavailable, Unreached
from switchboard.net.fetch import Fetch

HEAD = b"HTTP/1.1 200 So\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def hello(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say two things, and end."""
    writer.write(HEAD + chunk(b"one"))
    await writer.drain()
    writer.write(chunk(b"two") + chunk(b""))
    await writer.drain()


async def fall_silent(_: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say one thing, and nothing more."""
    writer.write(HEAD + chunk(b"one"))
    await writer.drain()
    await reader.read()


async def break_off(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say one thing, and hang up in the middle of the next."""
    writer.write(HEAD + chunk(b"one") + b"5\r\ntw")
    await writer.drain()
    writer.close()


def test_what_comes_is_read_as_it_comes(web: Web) -> None:
    """Nothing is packed, headers are sent, and the connection can be used again."""

    async def story() -> None:
        async with web.site({"/": hello}) as site, web.fetch() as fetch:
            async with fetch.stream(site.url("/?a=b"), headers=[("Last-Event-ID", "7")]) as stream:
                heard = b"".join([part async for part in stream.chunks])

            assert (stream.status, heard) == (200, b"onetwo")
            assert site.asked[0].headers["accept-encoding"] == "identity"
            assert site.asked[0].headers["last-event-id"] == "7"

    asyncio.run(story())


@pytest.mark.parametrize(("page", "expected"), [(fall_silent, CallTimeout), (break_off, ServiceUnavailable)])
def test_a_stream_that_ends_otherwise_is_an_error(web: Web, page: Reply, expected: type[Exception]) -> None:
    """What had come is there."""

    async def story() -> None:
        heard: list[bytes] = []
        async with web.site({"/": page}) as site, web.fetch() as fetch:
            with pytest.raises(expected):
                async with fetch.stream(site.url("/"), idle_s=0.2) as stream:
                    heard.extend([part async for part in stream.chunks])

    asyncio.run(story())


def test_a_head_that_does_not_come_is_waited_for_as_long_as_said(web: Web) -> None:
    """And no longer."""

    async def story() -> None:
        async with web.site({"/": silence}) as site, web.fetch() as fetch:
            with pytest.raises(CallTimeout):
                async with fetch.stream(site.url("/"), seconds=0.1):
                    pass

    asyncio.run(story())


def test_whoever_stops_listening_hangs_up(web: Web) -> None:
    """The other side notices."""

    async def story() -> None:
        async with web.site({"/": fall_silent}) as site, web.fetch() as fetch:
            async with fetch.stream(site.url("/")) as stream:
                first = await anext(stream.chunks)
            await asyncio.wait_for(site.left.wait(), 10)

            assert first == b"one"

    asyncio.run(story())


@pytest.mark.parametrize(("status", "page"), [(404, reply(404, b"none")), (302, redirect("https://other.test/"))])
def test_other_answers_are_answers(web: Web, status: int, page: Reply) -> None:
    """A redirect is not followed: whoever is watched was named."""

    async def story() -> None:
        async with web.site({"/": page}) as site, web.fetch() as fetch:
            async with fetch.stream(site.url("/")) as stream:
                assert stream.status == status
            assert len(site.asked) == 1

    asyncio.run(story())


def test_the_guard_stands_before_a_stream_too() -> None:
    """This machine is not public, plain http is not https, and nobody at all is said to be nobody."""

    async def story() -> None:
        async with Site({"/": hello}) as site:
            strict, named = Fetch(), Fetch(loopback=True)
            for url in (f"https://127.0.0.1:{site.port}/", f"http://127.0.0.1:{site.port}/", "http://192.168.0.1/"):
                with pytest.raises(RefusedAddress):
                    async with strict.stream(url):
                        pass
            with pytest.raises(RefusedAddress):
                async with named.stream("http://192.168.0.1/"):
                    pass
            with pytest.raises(Unreached):
                async with named.stream("http://127.0.0.1:9/"):
                    pass
            await strict.close()
            await named.close()

            assert site.asked == []

    asyncio.run(story())

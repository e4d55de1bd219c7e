"""Answers in HTTP/1.1: whole however they come in pieces, refused when they are not HTTP, and one for each request."""

import asyncio
import http.client
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.net.http11 import Connection, Incoming, Stale
from switchboard.net.wires import Wire

LIMIT_S = 20
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def fed(pieces: Sequence[bytes], *, has_body: bool = True) -> Incoming:
    incoming = Incoming(has_body=has_body)
    for piece in pieces:
        incoming.feed(piece)
    return incoming


TOKENS = st.text("abcXYZ-09", min_size=1, max_size=8).map(lambda name: f"X-{name}".encode())
VALUES = st.text('ab c=;,"', max_size=10).map(lambda value: value.strip().encode())
BODIES = st.lists(st.binary(min_size=1, max_size=30), max_size=4)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Draw an answer that says itself where it ends."""
    lines = [b"%b: %b\r\n" % pair for pair in draw(st.lists(st.tuples(TOKENS, VALUES), max_size=4))]
    parts = draw(BODIES)
    if draw(st.booleans()):
        lines.append(b"Transfer-Encoding: chunked\r\n")
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    else:
        body = b"".join(parts)
        lines.append(b"Content-Length: %d\r\n" % len(body))
    status = draw(st.sampled_from([200, 201, 301, 404, 422, 500]))
    return b"HTTP/1.1 %d Any\r\n%b\r\n%b" % (status, b"".join(lines), body)


class Sent(io.BytesIO):
    """What a server sent, as the standard library's client wants to have it."""

    def makefile(self, *_: object) -> "Sent":
        """Return what to read from."""
        return self


@given(answers(), st.lists(st.integers(0, 300), max_size=6), st.booleans())
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(whole: bytes, cuts: list[int], interim: bool) -> None:
    """The standard library's client reads the same from it."""
    sent = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + whole if interim else whole
    places = sorted({0, *(cut % len(sent) for cut in cuts), len(sent)})
    incoming = fed([sent[begin:end] for begin, end in pairwise(places)])

    other = http.client.HTTPResponse(Sent(whole))  # pyright: ignore[reportArgumentType] - it only reads
    other.begin()
    assert (incoming.status, b"".join(incoming.pieces)) == (other.status, other.read())
    assert [(name.decode(), value.decode()) for name, value in incoming.headers] == other.getheaders()
    assert (incoming.is_complete, incoming.may_follow) == (True, True)


@given(
    st.one_of(
        st.binary(max_size=200),
        answers().flatmap(
            lambda whole: st.tuples(st.just(whole), st.integers(0, 400), st.binary(min_size=1, max_size=3)).map(
                lambda drawn: drawn[0][: drawn[1] % len(drawn[0])] + drawn[2] + drawn[0][drawn[1] % len(drawn[0]) + 1 :]
            )
        ),
    )
)
def test_whatever_comes_is_an_answer_or_refused(data: bytes) -> None:
    """Nothing else happens, and nothing is complete that has no status."""
    incoming = Incoming(has_body=True)
    try:
        incoming.feed(data)
        incoming.end()
    except httpcore2.RemoteProtocolError:
        assert not incoming.is_complete
    else:
        assert incoming.is_complete
        assert 200 <= incoming.status <= 999


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="both"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", id="folded"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA : b\r\nContent-Length: 0\r\n\r\n", id="space in a name"),
        pytest.param(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", id="switching"),
        pytest.param(b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 104 Odd\r\nContent-Length: 5\r\n\r\nHello" + OK, id="interim with a body"),
        pytest.param(b"HTTP/1.1 104 Odd\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", id="interim in chunks"),
        pytest.param(b"HTTP/1.1 104 Odd\r\n\r\nsome" + OK, id="interim without end"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc", id="packed for the way"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, id="long head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, id="many interim ones"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: " + b"x" * 200_000, id="trailers"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 200_000, id="extension of a chunk"
        ),
    ],
)
def test_what_is_dangerous_or_has_no_end_is_refused(data: bytes) -> None:
    """Also when it comes little by little."""
    with pytest.raises(httpcore2.RemoteProtocolError):
        fed([data[place : place + 1000] for place in range(0, len(data), 1000)])


def test_a_body_without_a_length_ends_with_the_connection_and_every_other_one_does_not() -> None:
    """Half an answer is none."""
    open_ended = fed([b"HTTP/1.1 200 OK\r\n\r\nsome"])
    open_ended.end()
    assert (open_ended.pieces, open_ended.is_complete, open_ended.may_follow) == ([b"some"], True, False)

    for head in (b"Content-Length: 9", b"transfer-encoding: Chunked"):
        with pytest.raises(httpcore2.RemoteProtocolError):
            fed([b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % head]).end()
    with pytest.raises(httpcore2.RemoteProtocolError):
        fed([b"HTTP/1.1 200 OK\r\nContent-Le"]).end()


@pytest.mark.parametrize(
    ("data", "has_body", "may_follow"),
    [
        pytest.param(OK, True, True, id="plain"),
        pytest.param(OK + OK, True, False, id="a second answer"),
        pytest.param(OK + b"rubbish", True, False, id="rubbish behind it"),
        pytest.param(OK.replace(b"\r\nC", b"\r\nConnection: close\r\nC"), True, False, id="close"),
        pytest.param(OK.replace(b"1.1", b"1.0"), True, False, id="HTTP/1.0"),
        pytest.param(OK[:-2], False, True, id="to HEAD"),
        pytest.param(OK, False, False, id="to HEAD, with a body all the same"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\n", False, False, id="to HEAD, with a chunk"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0\r\n\r\n", True, True, id="wide sizes"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", True, True, id="no content"),
    ],
)
def test_what_may_follow_on_a_connection(data: bytes, has_body: bool, may_follow: bool) -> None:
    """What is left over from one answer must never be taken for the next."""
    incoming = fed([data], has_body=has_body)

    assert (incoming.is_complete, incoming.may_follow) == (True, may_follow)


@asynccontextmanager
async def connected(
    serve: Serve, meanwhile: Callable[[Connection], Awaitable[None]] | None = None
) -> AsyncGenerator[Connection]:
    """Yield a connection to somebody, as the pool would have it; something may happen while it is made."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await serve(reader, writer)
        writer.close()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(served, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    was_used = False

    async def opened() -> Wire:
        nonlocal was_used
        was_used = True
        wire = await Wire.to("127.0.0.1", port)
        if meanwhile is not None:
            await meanwhile(connection)
        return wire

    connection = Connection(httpcore2.Origin(b"http", b"here", port), opened, 5.0)
    try:
        async with asyncio.timeout(LIMIT_S):
            yield connection
    finally:
        await connection.aclose()
        server.close()
        if was_used:
            await asyncio.wait_for(ended.wait(), LIMIT_S)


def saying(answer: bytes, until: asyncio.Event) -> Serve:
    """Answer the head of one request, and read nothing more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await until.wait()

    return serve


def request(method: str = "GET", target: str = "/", content: bytes | None = None, **headers: str) -> httpcore2.Request:
    url = httpcore2.URL(scheme="http", host="here", port=80, target=target)
    lines = [("Host", "here"), *headers.items()]
    if content is not None:
        lines.append(("Content-Length", str(len(content))))
    return httpcore2.Request(method, url, headers=lines, content=content)


async def answered(connection: Connection, asked: httpcore2.Request) -> tuple[int, bytes]:
    response = await connection.handle_async_request(asked)
    body = await response.aread()
    await response.aclose()
    return response.status, body


def test_a_connection_takes_one_request_after_the_other_and_only_one_at_a_time() -> None:
    """It says itself whether it can take one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)

    async def story() -> None:
        async with connected(serve) as connection:
            states = [connection.is_connected(), connection.is_available()]
            first = await connection.handle_async_request(request())
            with pytest.raises(httpcore2.ConnectionNotAvailable):
                await connection.handle_async_request(request())
            states += [connection.is_connected(), connection.is_available(), connection.is_idle()]
            await first.aread()
            await first.aclose()
            states += [connection.is_available(), connection.has_expired()]

            assert states == [False, False, True, False, False, True, False]
            assert await answered(connection, request()) == (200, b"ok")

    asyncio.run(story())


def test_what_nobody_asked_for_ends_a_connection() -> None:
    """An answer that comes before its request is none."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + OK)

    async def story() -> None:
        async with connected(serve) as connection:
            assert await answered(connection, request()) == (200, b"ok")
            assert connection.is_closed()

    asyncio.run(story())


def test_a_body_that_is_left_unread_ends_a_connection() -> None:
    """The rest of it would be taken for the next answer."""
    hung_up = asyncio.Event()
    serve = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome", until=hung_up)

    async def story() -> None:
        async with connected(serve) as connection:
            response = await connection.handle_async_request(request())
            await response.aclose()
            assert connection.is_closed()
            hung_up.set()

    asyncio.run(story())


def test_an_answer_that_comes_before_everything_was_taken_is_read() -> None:
    """A server that refuses something large need not read it."""
    hung_up = asyncio.Event()
    serve = saying(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", until=hung_up)

    async def story() -> None:
        async with connected(serve) as connection:
            assert await answered(connection, request("POST", content=b"x" * 64_000_000)) == (413, b"no")
            assert connection.is_closed()  # what was not taken stands in the way of the next request
            hung_up.set()

    asyncio.run(story())


def test_the_end_of_a_kept_connection_is_told_from_that_of_a_new_one() -> None:
    """Only what was surely not read by anybody may be sent again."""
    answers_left = 1

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answers_left
        await reader.readuntil(b"\r\n\r\n")
        if answers_left:
            answers_left -= 1
            writer.write(OK)
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def story() -> None:
        async with connected(serve) as connection:
            await answered(connection, request())
            with pytest.raises(Stale):
                await connection.handle_async_request(request())
            assert connection.is_closed()
        async with connected(serve) as connection:
            with pytest.raises(httpcore2.ReadError):
                await connection.handle_async_request(request())

    asyncio.run(story())


def test_a_connection_that_is_closed_while_it_is_made_is_left() -> None:
    """Nobody else would ever close it."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())

    async def story() -> None:
        async with connected(serve, meanwhile=Connection.aclose) as connection:
            with pytest.raises(httpcore2.ConnectError):
                await connection.handle_async_request(request())

    asyncio.run(story())
    assert heard == [b""]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(target="/a b"), id="a space in the address"),
        pytest.param(request(target="/a\r\nX: y"), id="a line in the address"),
        pytest.param(request(method="GET / HTTP/1.1\r\nX: y\r\n\r\nGET"), id="a request in the method"),
        pytest.param(request(Name="a\r\nX: y"), id="a line in a header"),
        pytest.param(request(Name="a\nX: y"), id="a bare line feed in a header"),
        pytest.param(request(Name="a\0b"), id="a null character"),
    ],
)
def test_a_request_is_never_two(asked: httpcore2.Request) -> None:
    """Whoever asks should have looked before; this is the last look."""

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        assert not await reader.read()

    async def story() -> None:
        async with connected(serve) as connection:
            with pytest.raises(httpcore2.LocalProtocolError):
                await connection.handle_async_request(asked)
            assert connection.is_closed()

    asyncio.run(story())

"""The loopback server: only this user's browser, only our own pages, only small and quick requests."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from switchboard.prompts.loopback import LARGEST_BODY, Loopback, Request, Response
from switchboard.prompts.loopback_wire import LARGEST_HEAD, MOST_CONNECTIONS
from switchboard.prompts.peers import is_foreign

_LIMIT_S = 20.0
_FORM = "Content-Type: application/x-www-form-urlencoded\r\n"


class Site:
    """A server with one route, what it was asked, and a socket to ask it anything."""

    def __init__(self, server: Loopback, base: str) -> None:
        self.server = server
        self.base = base
        self.port = int(base.rpartition(":")[2])
        self.asked: list[Request] = []

    async def respond(self, request: Request) -> Response:
        """Note what was asked."""
        self.asked.append(request)
        return Response(200, "<p>hello</p>", {"X-Own": "yes", "Referrer-Policy": "unsafe-url"}, style="p{}")

    async def send(self, data: bytes) -> bytes:
        """Send bytes, and return everything that comes until the server ends the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            return await asyncio.wait_for(reader.read(), _LIMIT_S)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def ask(self, line: str, headers: str = "", body: str = "", host: str | None = None) -> bytes:
        """Send a request, and return the answer."""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        name = f"127.0.0.1:{self.port}" if host is None else host
        return await self.send(f"{line} HTTP/1.1\r\nHost: {name}\r\n{headers}{length}\r\n{body}".encode())


@asynccontextmanager
async def site(**settings: float) -> AsyncGenerator[Site]:
    server = Loopback(**settings)  # pyright: ignore[reportArgumentType] - floats only
    found = Site(server, await server.start())
    server.route("/here", found.respond)
    server.route("/below/", found.respond)
    try:
        yield found
    finally:
        await server.close()


def told(story: Callable[[Site], Awaitable[None]], **settings: float) -> None:
    async def run() -> None:
        async with site(**settings) as found:
            await story(found)

    asyncio.run(asyncio.wait_for(run(), 60))


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def headers(answer: bytes) -> Mapping[str, str]:
    lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    assert len({line.partition(":")[0] for line in lines}) == len(lines), "each header once"
    return dict(line.split(": ", 1) for line in lines)


def test_a_route_hears_what_was_asked() -> None:
    """Method, path as sent, query, form and headers."""

    async def story(here: Site) -> None:
        own = f"Origin: {here.base}\r\n"
        first = await here.ask("GET /here?code=a%20b&state=")
        second = await here.ask("POST /below/it", own + _FORM, "x=1&y=%E4%BD%A0")

        assert (status(first), status(second)) == (200, 200)
        assert first.endswith(b"\r\n\r\n<p>hello</p>")
        get, post = here.asked
        assert (get.method, get.path, get.query, get.form) == ("GET", "/here", {"code": "a b", "state": ""}, {})
        assert (post.method, post.path, post.form) == ("POST", "/below/it", {"x": "1", "y": "你"})
        assert post.headers["origin"] == here.base

    told(story)


def _listening(port: int) -> set[str]:
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has the table")
def test_it_listens_on_the_loopback_address_only() -> None:
    """No other address of this machine answers, and the port is another one each time."""

    async def story(here: Site) -> None:
        assert _listening(here.port) in ({"0100007F"}, {"7F000001"})
        assert await here.server.start() == here.base
        async with site() as other:
            assert other.port != here.port

    told(story)


def test_every_answer_keeps_the_page_to_itself() -> None:
    """Good ones, refusals and answers to no request at all have the same headers, whatever a route says."""

    async def story(here: Site) -> None:
        good = await here.ask("GET /here")
        answers = [
            good,
            await here.ask("GET /elsewhere"),
            await here.ask("GET /here", host="evil.example"),
            await here.ask("POST /here", "Origin: https://evil.example\r\n" + _FORM, "a=1"),
            await here.ask("DELETE /here"),
            await here.send(b"what is this\r\n\r\n"),
            await here.send(b"GET /" + b"a" * (LARGEST_HEAD + 1)),
        ]
        assert [status(answer) for answer in answers] == [200, 404, 421, 403, 405, 400, 431]
        for answer in answers:
            found = headers(answer)
            assert found["cache-control"] == "no-store"
            assert found["referrer-policy"] == "same-origin"
            assert found["x-content-type-options"] == "nosniff"
            assert found["x-frame-options"] == "DENY"
            assert found["cross-origin-opener-policy"] == "same-origin"
            assert found["cross-origin-resource-policy"] == "same-origin"
            policy = found["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src ")
            assert policy.endswith("; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
            assert "unsafe" not in policy
            assert "server" not in found
            assert found["connection"] == "close"
        assert "'sha256-" in headers(good)["content-security-policy"]
        assert headers(good)["x-own"] == "yes"

    told(story)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "localhost:{port}", "evil.example:{port}", "[::1]:{port}",
     "127.0.0.1:{port}.evil.example", "127.0.0.1:{port}\r\nHost: evil.example", "2130706433:{port}", "0:{port}", ""],
)  # fmt: skip
def test_another_name_for_this_address_is_refused(host: str) -> None:
    """DNS rebinding: the browser says by which name it came."""

    async def story(here: Site) -> None:
        answer = await here.ask("GET /here", host=host.format(port=here.port))

        assert status(answer) in (400, 421)
        assert answer.endswith(b"\r\n\r\n")
        assert here.asked == []

    told(story)


def test_old_http_without_a_host_is_refused() -> None:
    """HTTP/1.0 need not have a Host."""

    async def story(here: Site) -> None:
        assert status(await here.send(b"GET /here HTTP/1.0\r\n\r\n")) == 421
        assert status(await here.send(b"GET /here\r\n\r\n")) in (0, 400, 421)
        assert here.asked == []

    told(story)


@pytest.mark.parametrize(
    ("origin", "site_of", "answered"),
    [
        ("{base}", None, True),
        ("{base}", "same-origin", True),
        (None, "same-origin", True),
        (None, "none", True),
        (None, None, True),
        ("{base}", "cross-site", False),
        (None, "cross-site", False),
        (None, "same-site", False),
        ("null", None, False),
        ("null", "same-origin", False),
        ("https://evil.example", None, False),
        ("http://127.0.0.1", None, False),
        ("http://127.0.0.1:1", "same-site", False),
        ("http://localhost:{port}", None, False),
        ("{base}.evil.example", None, False),
        ("{base}\r\nOrigin: https://evil.example", None, False),
    ],
)
def test_only_our_own_page_may_send_a_form(origin: str | None, site_of: str | None, *, answered: bool) -> None:
    """A foreign page can make the browser send a form here, but not hide whose it is."""

    async def story(here: Site) -> None:
        said = f"Origin: {origin.format(base=here.base, port=here.port)}\r\n" if origin else ""
        said += f"Sec-Fetch-Site: {site_of}\r\n" if site_of else ""
        answer = await here.ask("POST /here", said + _FORM, "a=1")

        assert (status(answer) == 200) is answered
        assert len(here.asked) == answered

    told(story)


@pytest.mark.parametrize(
    "path",
    ["/", "//here", "/here/", "/here/x", "/HERE", "/%68ere", "/x/../here", "/./here", "/below", "/below/a/b", "/here;x",
     "/here%00", "/here%2f", "/\\here", "*"],
)  # fmt: skip
def test_a_path_is_taken_as_it_is_sent(path: str) -> None:
    """Nothing is decoded or tidied up on the way to a route."""

    async def story(here: Site) -> None:
        answer = await here.ask(f"GET {path}")

        assert status(answer) in (400, 404)
        assert here.asked == []

    told(story)


def test_a_request_has_a_size() -> None:
    """Bodies of 64 KiB and heads of 16 KiB are taken; more is not, said in advance or not."""

    async def story(here: Site) -> None:
        post, room = "POST /here", "a=" + "x" * (LARGEST_BODY - 2)
        assert status(await here.ask(post, _FORM, room)) == 200
        assert status(await here.ask(post, _FORM, room + "x")) in (0, 413)
        chunk = f"{len(room):x}\r\n{room}\r\n".encode()
        head = f"POST /here HTTP/1.1\r\nHost: 127.0.0.1:{here.port}\r\n{_FORM}Transfer-Encoding: chunked\r\n\r\n"
        assert status(await here.send(head.encode() + chunk + b"0\r\n\r\n")) == 200
        assert status(await here.send(head.encode() + chunk * 100 + b"0\r\n\r\n")) in (0, 413)
        assert status(await here.ask("GET /here", f"X: {'x' * (LARGEST_HEAD - 100)}\r\n")) == 200
        assert status(await here.ask("GET /here", f"X: {'x' * LARGEST_HEAD}\r\n")) in (0, 431)
        assert status(await here.ask("GET /here", "X: 1\r\n" * LARGEST_HEAD)) in (0, 431)
        assert status(await here.ask(post, _FORM, "&".join(f"a{n}=1" for n in range(101)))) == 400
        assert len(here.asked) == 3

    told(story)


@pytest.mark.parametrize(
    "sent",
    [
        ("GET /here?state=a&state=b", "", ""),
        ("GET /here?state=%ff", "", ""),
        ("POST /here", _FORM, "choice=deny&choice=allow"),
        ("POST /here", "Content-Type: text/plain\r\n", "choice=allow"),
        ("POST /here", "Content-Type: multipart/form-data; boundary=x\r\n", "--x--"),
        ("POST /here", "", "choice=allow"),
        ("POST /here", _FORM + "Content-Length: 3\r\n", "choice=allow"),
        ("POST /here", _FORM + "Transfer-Encoding: chunked\r\n", "choice=allow"),
        ("PUT /here", _FORM, "choice=allow"),
        ("HEAD /here", "", ""),
        ("OPTIONS /here", "", ""),
        ("CONNECT /here", "", ""),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read(sent: tuple[str, str, str]) -> None:
    """Parameters given twice, other forms than a page's, lengths that disagree, other methods."""

    async def story(here: Site) -> None:
        answer = await here.ask(*sent)

        assert status(answer) in (0, 400, 405, 415)
        assert here.asked == []

    told(story)


def test_a_connection_is_for_one_request() -> None:
    """What is sent behind it, as a smuggled one would be, is never looked at."""

    async def story(here: Site) -> None:
        one = f"GET /here?n=%d HTTP/1.1\r\nHost: 127.0.0.1:{here.port}\r\n\r\n"
        answer = await here.send("".join(one % number for number in range(5)).encode())

        assert answer.count(b"HTTP/1.1") == 1
        assert [request.query["n"] for request in here.asked] == ["0"]

    told(story)


@pytest.mark.parametrize("sent", ["", "GET /here HTTP/1.1\r\nHost: a", "POST /here HTTP/1.1\r\n{own}\r\na="])
def test_who_is_too_slow_is_hung_up_on(sent: str) -> None:
    """Before the head, within it, and within the body."""

    async def story(here: Site) -> None:
        own = f"Host: 127.0.0.1:{here.port}\r\n{_FORM}Content-Length: 10\r\n"

        assert await here.send(sent.format(own=own).encode()) == b""  # ends by the server's doing
        assert here.asked == []

    told(story, idle_s=0.2)


def test_connections_are_counted() -> None:
    """The fifty-first is not let in; when one has gone, the next is."""

    async def story(here: Site) -> None:
        held = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(MOST_CONNECTIONS)]
        assert await here.ask("GET /here") == b""
        held.pop()[1].close()
        async with asyncio.timeout(_LIMIT_S):
            while status(await here.ask("GET /here")) != 200:  # noqa: ASYNC110 - it has no event to wait for
                await asyncio.sleep(0.01)
        for _, writer in held:
            writer.close()

    told(story)


def test_a_route_that_fails_is_reported_without_what_was_asked() -> None:
    """The report has the kind of the error and its place; the browser learns nothing."""
    heard: list[str] = []

    async def fail(request: Request) -> Response:
        raise RuntimeError(request.query["code"])

    async def story() -> None:
        server = Loopback(report=heard.append)
        here = Site(server, await server.start())
        server.route("/fail", fail)
        answer = await here.ask("GET /fail?code=hush-hush")
        await server.close()

        assert status(answer) == 500
        assert answer.endswith(b"\r\n\r\n")
        assert len(heard) == 1
        assert heard[0].startswith("RuntimeError in test_loopback.py:")

    asyncio.run(story())


def test_nothing_of_a_request_is_logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """Not even where everything else is logged; and no logger of the process is touched."""

    def loggers() -> dict[str, tuple[object, ...]]:
        names = ("", "uvicorn", "uvicorn.access", "uvicorn.error", "asyncio")
        found = {name: logging.getLogger(name) for name in names}
        return {name: (one.level, one.propagate, one.disabled, tuple(one.handlers)) for name, one in found.items()}

    async def story(here: Site) -> None:
        await here.ask("GET /here?code=hush-hush")
        await here.ask("POST /below/hush-hush", _FORM, "key=hush-hush")
        await here.ask("GET /hush-hush", "Upgrade: websocket\r\nConnection: Upgrade\r\n")
        await here.send(b"hush-hush\r\n\r\n")
        shown = repr(here.asked) + repr(Response(200, "hush-hush"))
        assert "hush-hush" not in shown

    caplog.set_level(1)
    before = loggers()
    told(story)

    assert loggers() == before
    assert "hush-hush" not in caplog.text
    assert "uvicorn" not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_signals_stay_with_the_gateway() -> None:
    """Starting and stopping changes none of the process's handlers."""

    async def story(here: Site) -> None:
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == during
        await here.ask("GET /here")

    async def run() -> None:
        nonlocal during
        during = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
        async with site() as here:
            await story(here)

    during: tuple[object, object] = (None, None)
    asyncio.run(run())


def test_closing_lets_an_answer_end_and_then_nobody_in() -> None:
    """Whoever has pressed a button sees the page after it; a later start is on another port."""

    async def story(here: Site) -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request: Request) -> Response:
            begun.set()
            await go_on.wait()
            return await here.respond(request)

        here.server.route("/slow", slow)
        asking = asyncio.create_task(here.ask("GET /slow"))
        await begun.wait()
        closing = asyncio.create_task(here.server.close())
        await asyncio.sleep(0)
        go_on.set()
        await closing

        assert status(await asking) == 200
        with pytest.raises(ConnectionRefusedError):
            await here.ask("GET /here")
        here.port = int((await here.server.start()).rpartition(":")[2])
        assert status(await here.ask("GET /here")) == 200

    told(story)


def test_closing_does_not_wait_for_the_slow() -> None:
    """Connections that say nothing, or stop half-way, are cut."""

    async def story(here: Site) -> None:
        silent = await asyncio.open_connection("127.0.0.1", here.port)
        halfway = await asyncio.open_connection("127.0.0.1", here.port)
        head = f"POST /here HTTP/1.1\r\nHost: 127.0.0.1:{here.port}\r\n{_FORM}Content-Length: 10\r\n\r\na="
        halfway[1].write(head.encode())
        await asyncio.wait_for(here.server.close(), _LIMIT_S)

        for reader, writer in (silent, halfway):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    told(story)


_STRANGER = """
import socket, sys
family, host = (socket.AF_INET6, "::ffff:127.0.0.1") if sys.argv[2] == "mapped" else (socket.AF_INET, "127.0.0.1")
with socket.socket(family) as s:
    s.connect((host, int(sys.argv[1])))
    s.sendall(f"GET /here HTTP/1.1\\r\\nHost: 127.0.0.1:{sys.argv[1]}\\r\\n\\r\\n".encode())
    print("" if sys.argv[2] == "runs" else s.recv(12).decode())
"""


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("how", ["stays", "mapped", "runs"])
def test_another_user_of_the_machine_is_refused(how: str) -> None:
    """With the right address, too; also by the other family of addresses, and when they do not wait for the answer."""

    async def story(here: Site) -> None:
        python = "/usr/bin/python3"  # one that everybody may run
        stranger = await asyncio.create_subprocess_exec(
            python, "-c", _STRANGER, str(here.port), how, stdout=subprocess.PIPE, user=65534, cwd="/", env={}
        )
        said, _ = await stranger.communicate()

        assert stranger.returncode == 0
        assert said.decode().strip() == ("" if how == "runs" else "HTTP/1.1 403")
        assert status(await here.ask("GET /here")) == 200  # us, and after it
        assert len(here.asked) == 1

    told(story)


def test_where_nobody_can_tell_whose_a_connection_is_it_passes() -> None:
    """Ports that are in no table: another system's, or none."""
    assert not is_foreign(1, 2)

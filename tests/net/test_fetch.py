"""One call out: where it connects, whom it trusts, what it keeps, and what it says when it fails."""

import asyncio
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path

import pytest
from tests.net.web import (
    Address,
    Asked,
    Names,
    Reply,
    Site,
    Web,
    hang_up,
    reply,
    silence,
    slam,
    soon,
    this_machine_too,
)

from switchboard.catalog.errors import (
    CallTimeout,
    InvalidRequest,
    RefusedAddress,
    ServiceUnavailable,
    SwitchboardError,
    UnknownHost,
)
from switchboard.net.connections import LookUps
from switchboard.net.fetch import Fetch, Limits
from switchboard.net.guard import is_loopback, is_public

NOWHERE: list[list[str]] = [[]]


def test_a_call_goes_to_the_checked_address_under_its_name(web: Web) -> None:
    """The certificate, the SNI and the Host header are about the name; the answer is whole."""

    async def story() -> None:
        async with web.site({"/tools": reply(404, b"none", "X-Kind: a", "X-Kind: b")}) as site, web.fetch() as fetch:
            answer = await fetch.send("get", site.url("/tools?a=b#c"), headers=[("X-API-Key", "k")])

            assert (answer.status, answer.body, answer.url) == (404, b"none", site.url("/tools?a=b"))
            assert (answer.header("x-kind"), answer.header("nothing")) == ("a", None)
            assert [value for name, value in answer.headers if name == "X-Kind"] == ["a", "b"]
            assert site.server_names == ["shop.test"]
            assert site.asked[0].method == "GET"
            assert site.asked[0].headers["host"] == f"shop.test:{site.port}"
            assert site.asked[0].headers["x-api-key"] == "k"

    asyncio.run(story())


def test_a_body_is_sent_as_it_is(web: Web) -> None:
    """A POST, with a length that the caller cannot forge."""

    async def story() -> None:
        async with web.site({"/": reply(201)}) as site, web.fetch() as fetch:
            headers = [("Content-Type", "text/plain"), ("Content-Length", "1"), ("Host", "evil.test")]
            await fetch.send("POST", site.url(), headers=headers, content=b"hello")
            await fetch.send("POST", site.url())

            assert [asked.headers["content-length"] for asked in site.asked] == ["5", "0"]
            assert site.asked[0].body == b"hello"
            assert site.asked[0].headers["host"] == f"shop.test:{site.port}"
            assert site.asked[0].headers["content-type"] == "text/plain"

    asyncio.run(story())


def test_an_international_name_works(web: Web) -> None:
    """Looked up, greeted and certified in its ASCII form."""

    async def story() -> None:
        names = Names()
        async with web.site({"/": reply(200)}) as site, web.fetch(names) as fetch:
            answer = await fetch.send("GET", site.url(host="b\u00fccher.test"))

            assert answer.status == 200
            assert names.asked == site.server_names == ["xn--bcher-kva.test"]

    asyncio.run(story())


def test_an_address_is_not_looked_up_and_has_to_be_in_the_certificate(web: Web) -> None:
    """Decimal, as a number: it is 127.0.0.1."""

    async def story() -> None:
        names = Names()
        async with web.site({"/": reply(200)}) as site, web.fetch(names) as fetch:
            answer = await fetch.send("GET", site.url(host="2130706433"))

            assert answer.url == site.url(host="127.0.0.1")
            assert names.asked == []

    asyncio.run(story())


def test_a_name_that_leads_inside_is_refused_before_a_connection(web: Web) -> None:
    """Somebody listens there, and hears nothing; the message says what is wrong."""

    async def story() -> None:
        async with web.site({"/": reply(200)}) as site, web.fetch(permitted=is_public) as fetch:
            with pytest.raises(RefusedAddress, match=r"127\.0\.0\.1 is this machine"):
                await fetch.send("GET", site.url())

            assert site.server_names == []

    asyncio.run(story())


@pytest.mark.skipif(sys.platform == "darwin", reason="only 127.0.0.1 is loopback there")
def test_of_mixed_addresses_only_the_public_ones_are_connected_to(web: Web) -> None:
    """The private one is first, and somebody listens there, on the same port."""

    async def story() -> None:
        names = Names(shop_test=[["127.0.0.1", "10.0.0.1", "127.0.0.2"]])
        async with (
            web.site({"/": reply(200)}, at="127.0.0.2") as public,
            Site({}, port=public.port) as inside,
            web.fetch(names, permitted=lambda address: str(address) == "127.0.0.2") as fetch,
        ):
            answer = await fetch.send("GET", public.url())

            assert (answer.status, public.connections, inside.connections) == (200, 1, 0)

    asyncio.run(story())


@pytest.mark.skipif(sys.platform == "darwin", reason="only 127.0.0.1 is loopback there")
def test_the_next_address_is_tried_when_one_does_not_answer(web: Web) -> None:
    """Nobody listens at the first of two public addresses."""

    async def story() -> None:
        names = Names(shop_test=[["127.0.0.2", "127.0.0.1"]])
        async with web.site({"/": reply(200)}) as site, web.fetch(names) as fetch:
            assert (await fetch.send("GET", site.url())).status == 200

    asyncio.run(story())


def test_a_name_that_changes_its_mind_is_looked_up_once_and_checked_every_time(web: Web) -> None:
    """DNS rebinding: public when checked, private a moment later."""

    async def story() -> None:
        names = Names(shop_test=[["127.0.0.1"], ["10.0.0.1"]])
        pages = {"/": reply(200, b"", "Connection: close")}
        async with web.site(pages) as site, web.fetch(names) as fetch:
            await fetch.send("GET", site.url())
            assert (names.asked, site.connections) == (["shop.test"], 1)

            with pytest.raises(RefusedAddress, match=r"10\.0\.0\.1 is not public"):
                await fetch.send("GET", site.url())
            assert (names.asked, site.connections) == (["shop.test"] * 2, 1)

    asyncio.run(story())


def test_without_any_seam_this_machine_is_closed() -> None:
    """The system's own look-up, the system's own trust store."""

    async def story() -> None:
        async with Site({"/": reply(200)}) as site:
            fetch = Fetch()
            with pytest.raises(RefusedAddress):
                await fetch.send("GET", f"https://localhost:{site.port}/")
            with pytest.raises(RefusedAddress, match="it is not https"):
                await fetch.send("GET", site.url(host="localhost"))
            await fetch.close()

            assert site.connections == 0

    asyncio.run(story())


def test_the_users_flag_allows_http_and_https_to_this_machine(web: Web) -> None:
    """By name and by address."""

    async def story() -> None:
        async with (
            Site({"/": reply(200)}) as plain,
            web.site({"/": reply(200)}) as secure,
            web.fetch(loopback=True, permitted=is_public) as fetch,
        ):
            urls = [plain.url(host="localhost"), plain.url(host="127.0.0.1"), secure.url()]

            assert [(await fetch.send("GET", url)).status for url in urls] == [200, 200, 200]

    asyncio.run(story())


def test_the_users_flag_allows_no_plain_http_to_others(web: Web) -> None:
    """Even to a public address, and only once the name has told where it leads."""

    async def story() -> None:
        names = Names(shop_test=[["8.8.8.8"]], other_test=[["10.0.0.1"]])
        async with web.fetch(names, loopback=True) as fetch:
            with pytest.raises(RefusedAddress, match=r"8\.8\.8\.8 is not this machine"):
                await fetch.send("GET", "http://shop.test/")
            with pytest.raises(RefusedAddress, match=r"10\.0\.0\.1 is not public"):
                await fetch.send("GET", "https://other.test/")

    asyncio.run(story())


def test_a_certificate_for_another_name_is_not_accepted(web: Web) -> None:
    """The connection was made and nothing was sent; the message names the reason."""

    async def story() -> None:
        async with web.site({"/": reply(200)}) as site, web.fetch() as fetch:
            with pytest.raises(ServiceUnavailable, match=r"certificate was not accepted.*not valid for 'wrong\.test'"):
                await fetch.send("GET", site.url(host="wrong.test"))

            assert (site.server_names, site.asked) == (["wrong.test"], [])

    asyncio.run(story())


def test_a_certificate_that_nobody_signed_is_not_accepted(web: Web) -> None:
    """A client that trusts what the operating system trusts."""

    async def story() -> None:
        async with web.site({"/": reply(200)}) as site:
            fetch = Fetch(permitted=this_machine_too, resolve=Names())
            with pytest.raises(ServiceUnavailable, match="certificate was not accepted, self-signed certificate"):
                await fetch.send("GET", site.url())
            await fetch.close()

    asyncio.run(story())


def test_a_server_without_tls_is_unavailable(web: Web) -> None:
    """Whatever it says, it is not TLS."""

    async def shout(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async def story() -> None:
        server = await asyncio.start_server(shout, "127.0.0.1", 0)
        async with server, web.fetch() as fetch:
            with pytest.raises(ServiceUnavailable, match="no encrypted connection"):
                await fetch.send("GET", f"https://shop.test:{server.sockets[0].getsockname()[1]}/")

    asyncio.run(story())


def test_a_closed_port_is_unavailable(web: Web) -> None:
    """A port that was free a moment ago."""

    async def story() -> None:
        async with Site({}) as site:
            pass
        async with web.fetch() as fetch:
            with pytest.raises(ServiceUnavailable, match=r"connection refused|connect call failed"):
                await fetch.send("GET", f"https://shop.test:{site.port}/")

    asyncio.run(story())


@pytest.mark.parametrize("page", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 So\r\nContent-Length: 9\r\n\r\nhalf", b""])
def test_what_is_not_http_is_unavailable(web: Web, page: bytes) -> None:
    """Another protocol, half an answer, and none."""

    async def speak(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(page)
        writer.close()

    async def story() -> None:
        async with web.site({"/": speak}) as site, web.fetch() as fetch:
            with pytest.raises(ServiceUnavailable):
                await fetch.send("GET", site.url())

            assert len(site.asked) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), UnknownHost),
        (NOWHERE, UnknownHost),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), ServiceUnavailable),
        (OSError("no network"), ServiceUnavailable),
    ],
)
def test_a_name_that_cannot_be_looked_up_is_told_apart(
    web: Web, failure: OSError | list[list[str]], kind: type[SwitchboardError]
) -> None:
    """It does not exist, or nobody can say just now."""

    async def story() -> None:
        async with web.fetch(Names(shop_test=failure)) as fetch:
            with pytest.raises(ServiceUnavailable) as failed:
                await fetch.send("GET", "https://shop.test/")

            assert type(failed.value) is kind

    asyncio.run(story())


def test_the_operating_system_knows_this_machine() -> None:
    """The look-up that is used when nobody gives another one."""
    found = asyncio.run(LookUps()("localhost", 443))

    assert found
    assert all(is_loopback(address) for address in found)


def test_connections_are_used_again(web: Web) -> None:
    """One connection and one look-up for calls to one origin, another for another name of the same server."""

    async def story() -> None:
        names = Names()
        async with web.site({"/": reply(200, b"body")}) as site, web.fetch(names) as fetch:
            for _ in range(3):
                await fetch.send("GET", site.url())
            await fetch.send("GET", site.url(host="other.test"))

            assert [asked.turn for asked in site.asked] == [1, 2, 3, 1]
            assert names.asked == ["shop.test", "other.test"]

    asyncio.run(story())


def once(then: Reply) -> Reply:
    """Answer the first request of every connection."""

    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (reply(200) if asked.turn == 1 else then)(asked, reader, writer)

    return answer


@pytest.mark.parametrize("end", [hang_up, slam])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_kept_connection_that_was_closed_meanwhile_fails_no_reading_call(web: Web, method: str, end: Reply) -> None:
    """The server hangs up at the very moment of the second request."""

    async def story() -> None:
        async with web.site({"/": once(end)}) as site, web.fetch() as fetch:
            statuses = [(await fetch.send(method, site.url())).status for _ in range(2)]

            assert statuses == [200, 200]
            assert [asked.turn for asked in site.asked] == [1, 2, 1]

    asyncio.run(story())


@pytest.mark.parametrize("end", [hang_up, slam])
def test_a_connection_that_was_closed_while_nobody_used_it_is_not_used(web: Web, end: Reply) -> None:
    """So a call with an effect need not fail, whoever has the number of its socket now."""

    async def leave(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reply(200)(asked, reader, writer)
        await end(asked, reader, writer)

    async def story() -> None:
        async with web.site({"/": leave}) as site, web.fetch() as fetch:
            others: list[socket.socket] = []
            for _ in range(5):
                assert (await fetch.send("POST", site.url(), content=b"1")).status == 200
                await asyncio.sleep(0.05)
                others += socket.socketpair()
            for other in others:
                other.close()

            assert [asked.turn for asked in site.asked] == [1] * 5

    asyncio.run(story())


def test_a_call_with_an_effect_is_never_sent_twice(web: Web) -> None:
    """The same story with a POST: nobody knows whether it was done."""

    async def story() -> None:
        async with web.site({"/": once(hang_up)}) as site, web.fetch() as fetch:
            await fetch.send("POST", site.url(), content=b"1")
            with pytest.raises(ServiceUnavailable, match="not known"):
                await fetch.send("POST", site.url(), content=b"2")

            assert [asked.body for asked in site.asked] == [b"1", b"2"]

    asyncio.run(story())


def test_a_call_is_not_repeated_once_an_answer_has_begun(web: Web) -> None:
    """A few bytes, then nothing more."""

    async def stumble(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 2")
        writer.close()

    async def story() -> None:
        async with web.site({"/": once(stumble)}) as site, web.fetch() as fetch:
            await fetch.send("GET", site.url())
            with pytest.raises(ServiceUnavailable):
                await fetch.send("GET", site.url())

            assert len(site.asked) == 2

    asyncio.run(story())


def test_cookies_are_not_kept(web: Web) -> None:
    """The caller can see one, the next call does not send it."""

    async def story() -> None:
        async with web.site({"/": reply(200, b"", "Set-Cookie: id=1")}) as site, web.fetch() as fetch:
            answers = [await fetch.send("GET", site.url()) for _ in range(2)]

            assert answers[1].header("set-cookie") == "id=1"
            assert "cookie" not in site.asked[1].headers

    asyncio.run(story())


def test_the_environment_has_no_say(web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A proxy and a netrc are there, and neither is used."""
    (tmp_path / "netrc").write_text("machine shop.test login me password s3cret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def story() -> None:
        async with Site({}) as proxy, web.site({"/": reply(200)}) as site:
            for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, proxy.url(host="127.0.0.1"))
            async with web.fetch() as fetch:
                await fetch.send("GET", site.url())

            assert "authorization" not in site.asked[0].headers
            assert proxy.connections == 0

    asyncio.run(story())


def test_a_cancelled_call_closes_its_connection(web: Web) -> None:
    """While it waits for the answer; the client is as good as new."""

    async def story() -> None:
        async with web.site({"/": silence, "/next": reply(200)}) as site, web.fetch() as fetch:
            call = asyncio.create_task(fetch.send("GET", site.url()))
            await soon(site.reached)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await soon(site.left)

            assert (await fetch.send("GET", site.url("/next"))).status == 200

    asyncio.run(story())


def test_a_handshake_that_is_cancelled_closes_its_connection(web: Web) -> None:
    """The server accepts, and says nothing to the first words of TLS."""

    async def story() -> None:
        heard, left = asyncio.Event(), asyncio.Event()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            heard.set()
            await reader.read()
            left.set()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with server, web.fetch() as fetch:
            call = asyncio.create_task(fetch.send("GET", f"https://shop.test:{server.sockets[0].getsockname()[1]}/"))
            await soon(heard)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await soon(left)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET /", []),
        ("CONNECT", []),
        ("GET", [("X-Key", "s3cret\r\nX-Other: 1")]),
        ("GET", [("X-Key", "s3cret\u2603")]),
        ("GET", [("X-Key: s3cret", "1")]),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused_without_showing_it(
    web: Web, method: str, headers: list[tuple[str, str]]
) -> None:
    """A newline in a header would be a second header, or a second request."""

    async def story() -> None:
        async with web.fetch() as fetch:
            with pytest.raises(InvalidRequest) as refused:
                await fetch.send(method, "https://shop.test/", headers=headers)

            assert "s3cret" not in f"{refused.value} {refused.value.details}"

    asyncio.run(story())


def test_no_message_shows_a_query_or_a_header(web: Web) -> None:
    """Every way to fail, with a secret in every place that may hold one."""

    async def story() -> None:
        pages = {"/late": silence, "/gone": hang_up, "/large": reply(200, b"x" * 100), "/odd": _odd}
        names = Names(inside_test=[["10.0.0.1"]], none_test=NOWHERE)
        limits = Limits(size=10, seconds=0.3)
        async with web.site(pages) as site, web.fetch(names) as fetch:
            urls = [site.url(f"{path}?s3cret") for path in pages]
            urls += [site.url("/?s3cret", host) for host in ("inside.test", "none.test", "wrong.test")]
            said: list[str] = []
            for url in urls:
                with pytest.raises(SwitchboardError) as failed:
                    await fetch.send("GET", url, headers=[("Authorization", "s3cret")], limits=limits)
                said.append(f"{failed.value} {failed.value.details}")

            assert len(said) == 7
            assert not [text for text in said if "s3cret" in text]

    asyncio.run(story())


async def _odd(asked: Asked, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(f"what about {asked.headers['authorization']}?\r\n\r\n".encode())
    writer.close()


def test_a_server_that_wants_to_know_us_is_unavailable(web: Web) -> None:
    """It asks for a certificate of ours, and says so only after the handshake."""

    async def story() -> None:
        async with web.site({"/": reply(200)}) as site, web.fetch() as fetch:
            site.require_certificates()
            with pytest.raises(ServiceUnavailable):
                await fetch.send("GET", site.url())

    asyncio.run(story())


def test_look_ups_that_hang_hold_up_nothing_else() -> None:
    """Neither files, which are read in the threads of the loop, nor its end; the next one waits its turn."""
    hanging, go_on = threading.Semaphore(0), threading.Event()
    asked: list[str] = []

    def slow(host: str, port: int) -> list[Address]:
        asked.append(f"{host}:{port}")
        hanging.release()
        go_on.wait(30)
        return [ip_address("127.0.0.1")]

    async def story() -> None:
        names = LookUps(most=2, ask=slow)
        tasks = [asyncio.create_task(names(f"{name}.test", 443)) for name in "abcd"]
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        for _ in range(2):
            await asyncio.to_thread(hanging.acquire)
        tasks[2].cancel()
        before = list(asked)
        go_on.set()

        assert [await tasks[i] for i in (0, 1, 3)] == [[ip_address("127.0.0.1")]] * 3
        assert (before, asked) == (["a.test:443", "b.test:443"], ["a.test:443", "b.test:443", "d.test:443"])

    asyncio.run(story())


def test_waiting_for_a_turn_counts_in_the_time_limit(web: Web) -> None:
    """And a process can end while the system still looks a name up."""
    go_on = threading.Event()

    def slow(host: str, port: int) -> list[Address]:
        assert port == 443, host
        go_on.wait(30)
        return []

    async def story() -> None:
        fetch = Fetch(resolve=LookUps(most=1, ask=slow), tls=web.trust())
        calls = [fetch.send("GET", f"https://{name}.test/", limits=Limits(seconds=0.1)) for name in ("shop", "other")]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await fetch.close()

        assert [type(outcome) for outcome in outcomes] == [CallTimeout, CallTimeout]
        assert {thread.daemon for thread in threading.enumerate() if thread.name == "look-up"} == {True}

    asyncio.run(story())
    go_on.set()


def test_a_look_up_that_fails_says_so() -> None:
    """With the error of the system."""

    def nobody(host: str, port: int) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port}")

    with pytest.raises(socket.gaierror, match=r"a\.test:443"):
        asyncio.run(LookUps(ask=nobody)("a.test", 443))


def test_a_waiting_look_up_is_cut(web: Web) -> None:
    """The time limit counts from the first moment, not from the connection."""

    async def never(host: str, port: int) -> list[Address]:
        assert (host, port) == ("shop.test", 443)
        return await asyncio.Future()

    async def story() -> None:
        fetch = Fetch(resolve=never, tls=web.trust())
        with pytest.raises(CallTimeout):
            await fetch.send("GET", "https://shop.test/", limits=Limits(seconds=0.1))
        await fetch.close()

    asyncio.run(story())


@pytest.mark.parametrize("name", ["printer.local", "nas.lan", "intranet", "localhost.localdomain"])
def test_a_name_of_the_house_leads_nowhere(web: Web, name: str) -> None:
    """Whatever such a name leads to is inside, and what is inside is refused when it is connected to."""

    async def story() -> None:
        inside = Names(**{name.replace(".", "_"): [["192.168.1.20"]]})
        async with web.fetch(inside, permitted=is_public) as fetch:
            with pytest.raises(RefusedAddress):
                await fetch.send("GET", f"https://{name}/.well-known/aai.json")

    asyncio.run(story())

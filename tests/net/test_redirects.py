"""Redirects: followed by us, each hop checked as if it were the first."""

import asyncio

import pytest
from tests.net.web import Names, Site, Web, redirect, reply

from switchboard.catalog.errors import RefusedAddress, ServiceUnavailable
from switchboard.net.fetch import Limits

SECRETS = [("Authorization", "a"), ("Cookie", "b"), ("X-API-Key", "c"), ("X-Anything", "d")]
HARMLESS = [("Accept", "text/plain"), ("User-Agent", "tests"), ("If-None-Match", '"1"')]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_redirect_within_an_origin_keeps_everything(web: Web, method: str, status: int) -> None:
    """Relative, with the same method and headers, over the same connection."""

    async def story() -> None:
        async with web.site({"/a/b": redirect("../c?d", status), "/c": reply(200)}) as site, web.fetch() as fetch:
            answer = await fetch.send(method, site.url("/a/b"), headers=SECRETS)

            assert answer.url == site.url("/c?d")
            assert [(asked.method, asked.turn) for asked in site.asked] == [(method, 1), (method, 2)]
            assert site.asked[1].headers["authorization"] == "a"

    asyncio.run(story())


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_only_reading_calls_are_redirected(web: Web, method: str) -> None:
    """The caller gets the answer as it is."""

    async def story() -> None:
        async with web.site({"/": redirect("/next", 307)}) as site, web.fetch() as fetch:
            answer = await fetch.send(method, site.url(), content=b"x")

            assert (answer.status, answer.header("Location"), len(site.asked)) == (307, "/next", 1)

    asyncio.run(story())


def test_a_redirect_to_nowhere_is_an_answer(web: Web) -> None:
    """Without a Location there is nothing to follow."""

    async def story() -> None:
        async with web.site({"/": reply(302)}) as site, web.fetch() as fetch:
            assert (await fetch.send("GET", site.url())).status == 302

    asyncio.run(story())


def test_another_origin_gets_no_secrets_and_they_do_not_come_back(web: Web) -> None:
    """There and back again: what was dropped stays dropped; what is harmless goes on."""

    async def story() -> None:
        async with web.site({"/end": reply(200)}) as site, web.fetch() as fetch:
            site.pages["/"] = redirect(site.url("/away", "other.test"))
            site.pages["/away"] = redirect(site.url("/end", "shop.test"))
            await fetch.send("GET", site.url(), headers=SECRETS + HARMLESS, content=b"s3cret")

            first, *others = site.asked
            names = {name.lower() for name, _ in SECRETS}
            assert names <= first.headers.keys()
            assert [names & asked.headers.keys() for asked in others] == [set(), set()]
            assert [asked.body for asked in others] == [b"", b""]
            assert {(name, asked.headers[name.lower()]) for asked in others for name, _ in HARMLESS} == set(HARMLESS)

    asyncio.run(story())


def test_another_port_is_another_origin(web: Web) -> None:
    """The same host, another server."""

    async def story() -> None:
        async with web.site({"/": reply(200)}) as other, web.fetch() as fetch:
            async with web.site({"/": redirect(other.url())}) as site:
                await fetch.send("GET", site.url(), headers=SECRETS)

            assert "authorization" not in other.asked[0].headers

    asyncio.run(story())


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("https://10.0.0.1/x?s3cret", "it redirects to https://10.0.0.1/x, and 10.0.0.1 is not public"),
        ("//0xa.1/", "it redirects to https://10.0.0.1/, and 10.0.0.1 is not public"),
        ("https://inside.test/", "it redirects to https://inside.test/, and 192.168.0.1 is not public"),
        ("http://shop.test/", "it redirects to http://shop.test/, and it is not https"),
        ("file:///etc/passwd", "it redirects to file:, and it is not https"),
        (
            "https://me:s3cret@other.test/",
            "it redirects to (address not shown), and a user name or password stands in it",
        ),
        ("https://[s3cret", "it redirects to an address that cannot be read"),
    ],
)
def test_a_redirect_to_where_nobody_may_go_is_refused(web: Web, location: str, why: str) -> None:
    """Private addresses, other schemes, userinfo; the message tells both ends and no secret."""

    async def story() -> None:
        names = Names(inside_test=[["192.168.0.1"]])
        async with web.site({"/": redirect(location)}) as site, web.fetch(names) as fetch:
            with pytest.raises(RefusedAddress) as refused:
                await fetch.send("GET", site.url("/"))

            assert refused.value.details == {"url": site.url("/"), "why": why}

    asyncio.run(story())


def test_https_is_never_given_up(web: Web) -> None:
    """Not even for this machine when the user's flag allows plain http to it."""

    async def story() -> None:
        async with Site({"/": reply(200)}) as plain, web.fetch(loopback=True) as fetch:
            async with web.site({"/": redirect(plain.url(host="127.0.0.1"))}) as site:
                with pytest.raises(RefusedAddress, match="that gives up https"):
                    await fetch.send("GET", site.url())

            assert plain.connections == 0

    asyncio.run(story())


def test_plain_http_may_become_https(web: Web) -> None:
    """With the user's flag, between two servers of this machine."""

    async def story() -> None:
        async with web.site({"/": reply(200)}) as secure, Site({}) as plain, web.fetch(loopback=True) as fetch:
            plain.pages["/"] = redirect(secure.url())

            assert (await fetch.send("GET", plain.url(host="localhost"))).url == secure.url()

    asyncio.run(story())


def test_a_loop_ends_after_five_redirects(web: Web) -> None:
    """Six requests, and an error that says so."""

    async def story() -> None:
        async with web.site({"/": redirect("/")}) as site, web.fetch() as fetch:
            with pytest.raises(ServiceUnavailable, match="redirects more than 5 times"):
                await fetch.send("GET", site.url())

            assert len(site.asked) == 6

    asyncio.run(story())


def test_five_redirects_are_followed_and_fewer_if_asked(web: Web) -> None:
    """The limit is the caller's."""

    async def story() -> None:
        pages = {f"/{number}": redirect(f"/{number + 1}") for number in range(5)}
        async with web.site({**pages, "/5": reply(200)}) as site, web.fetch() as fetch:
            assert (await fetch.send("GET", site.url("/0"))).url == site.url("/5")
            with pytest.raises(ServiceUnavailable, match="more than 4 times"):
                await fetch.send("GET", site.url("/0"), limits=Limits(redirects=4))

    asyncio.run(story())


def test_a_redirect_may_be_international(web: Web) -> None:
    """UTF-8 in the header, as servers send it."""

    async def story() -> None:
        async with web.site({"/%C3%BC": reply(200)}) as site, web.fetch() as fetch:
            site.pages["/"] = redirect(site.url("/\u00fc", "b\u00fccher.test"))

            assert (await fetch.send("GET", site.url())).url == site.url("/%C3%BC", "xn--bcher-kva.test")

    asyncio.run(story())

"""A descriptor that somebody wants to look at: fetched as a gateway would fetch it, and kept nowhere."""

import asyncio

import pytest
from tests.net.web import Asked, Names, Reply, Web, redirect, reply, this_machine_too

from switchboard.catalog.errors import NotFound, ServiceUnavailable, SwitchboardError
from switchboard.sources.published import Published, published

PATH = "/.well-known/aai.json"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(tmp_path_factory.mktemp("web"))


def looked_at(web: Web, path: str, pages: dict[str, Reply]) -> tuple[Published | SwitchboardError, str]:
    """Serve pages over https, look at one of them, and return what came of it with the address of the site."""

    async def story() -> tuple[Published | SwitchboardError, str]:
        async with web.site(pages) as site, web.fetch(Names(), permitted=this_machine_too) as fetch:
            try:
                return await published(site.url(path), fetch), site.url("")
            except SwitchboardError as error:
                return error, site.url("")

    return asyncio.run(story())


@pytest.mark.parametrize("path", ["", "/", PATH])
def test_a_site_alone_means_its_well_known_address(web: Web, path: str) -> None:
    """The text comes as it was sent."""
    found, origin = looked_at(web, path, {PATH: reply(200, b'{"any": "text"}', "Content-Type: application/json")})

    assert found == Published(b'{"any": "text"}', f"{origin}{PATH}", origin)


def test_a_descriptor_may_be_anywhere_on_a_site(web: Web) -> None:
    """What its address has after a question mark is not shown."""
    found, origin = looked_at(web, "/apps/one.json?key=hidden", {"/apps/one.json": reply(200, b"{}")})

    assert found == Published(b"{}", f"{origin}/apps/one.json", origin)


def test_another_site_does_not_speak_for_this_one(web: Web) -> None:
    """A gateway would not take it either: the other address has to be named."""

    async def to_the_other(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = asked.headers["host"].rpartition(":")[2]
        await redirect(f"https://other.test:{port}/aai.json")(asked, reader, writer)

    error, _ = looked_at(web, "", {PATH: to_the_other, "/aai.json": reply(200, b"{}")})

    assert isinstance(error, ServiceUnavailable)
    assert "redirects to another site, https://other.test:" in error.message


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (reply(404, b""), "answers 404"),
        (reply(503, b""), "answers 503"),
        (reply(200, b"<html>", "Content-Type: text/html"), "answers with a page"),
    ],
)
def test_what_is_no_descriptor_is_said_to_be_none(web: Web, answer: Reply, said: str) -> None:
    """With what to do."""
    error, _ = looked_at(web, "", {PATH: answer})

    assert isinstance(error, NotFound)
    assert said in error.message
    assert "Put the descriptor there" in error.message

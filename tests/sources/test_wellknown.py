"""What sites publish about themselves: asked once a day, by ETag, kept in a folder per host, refused when dangerous."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.actions.fakes import HandClock
from tests.caching import CACHES
from tests.net.web import (
    Address,
    Asked,
    Names,
    Reply,
    Site,
    Web,
    hang_up,
    redirect,
    reply,
    silence,
    soon,
    this_machine_too,
)
from tests.sources.test_copies import NOON, published
from tests.support import requirement

from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.errors import (
    CallTimeout,
    InvalidDescriptor,
    InvalidRequest,
    RefusedAddress,
    ServiceUnavailable,
    SwitchboardError,
    UnknownApp,
)
from switchboard.net.guard import is_public
from switchboard.sources.wellknown import LastRead, WellKnown, is_same_site

PATH = "/.well-known/aai.json"
DAY_S = 86400
NOBODY = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(tmp_path_factory.mktemp("web"))


class Story(NamedTuple):
    """One site, whoever asks it, and the clock they live by."""

    site: Site
    known: WellKnown
    clock: HandClock
    names: Names

    @property
    def origin(self) -> str:
        """Address of the site."""
        return self.site.url("")

    def publish(self, answer: Reply) -> None:
        """Change what the site answers."""
        self.site.pages[PATH] = answer

    def tomorrow(self) -> None:
        """Let a day pass."""
        self.clock.time += DAY_S


@asynccontextmanager
async def asking(  # noqa: PLR0913 - a site, and who asks it
    web: Web,
    cache: Path,
    answer: Reply,
    *,
    names: Names | None = None,
    permitted: Callable[[Address], bool] = this_machine_too,
    caches: Caches = CACHES,
) -> AsyncGenerator[Story]:
    """Open a site that answers so, and somebody who asks it."""
    clock = HandClock()
    clock.time = NOON
    resolver = names or Names()
    async with web.site({PATH: answer}) as site, web.fetch(resolver, permitted=permitted) as fetch:
        yield Story(site, WellKnown(cache, lambda: fetch, clock, "linux", caches=caches), clock, resolver)


def descriptor(app_id: str = "com.notion.api", *headers: str, **changes: Any) -> Reply:
    return reply(200, published(app_id, **changes), *(headers or ("Content-Type: application/json",)))


def kept(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def note(cache: Path, folder: str) -> dict[str, Any]:
    return json.loads((cache / folder / "aai.json.meta").read_bytes())


@requirement("wellknown:discover:fetch", "storage:cache:path", "storage:cache:meta-file")
def test_a_site_is_asked_at_its_well_known_address_and_remembered(web: Web, tmp_path: Path) -> None:
    """As it was published, in a folder named after host and port, with the note of the seed."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            found = await it.known.at(it.origin)

            folder = f"shop.test_{it.site.port}"
            assert (found.app.id, found.origin, found.app.origin, found.stale) == (
                "com.notion.api",
                it.origin,
                it.origin,
                None,
            )
            assert [(asked.method, asked.path) for asked in it.site.asked] == [("GET", PATH)]
            assert (tmp_path / folder / "aai.json").read_bytes() == published()
            assert note(tmp_path, folder) == {
                "fetched_at": "2026-02-24T10:00:00Z",
                "ttl_seconds": 86400,
                "source_url": it.origin + PATH,
            }

    asyncio.run(story())


def test_a_site_is_asked_once_a_day(web: Web, tmp_path: Path) -> None:
    """To the second, also by another gateway that uses the same folder."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            await it.known.at(it.origin)
            it.clock.time += DAY_S - 1
            await it.known.at(it.origin)
            async with asking(web, tmp_path, descriptor()) as other:
                other.clock.time = it.clock.time
                await other.known.at(it.origin)
            asked_within_a_day = len(it.site.asked)
            it.clock.time += 1
            await it.known.at(it.origin)

            assert (asked_within_a_day, len(it.site.asked)) == (1, 2)

    asyncio.run(story())


def test_an_unchanged_descriptor_is_not_sent_again(web: Web, tmp_path: Path) -> None:
    """A 304 makes the copy as good as new."""

    async def once(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known = asked.headers.get("if-none-match") == '"one"'
        await (reply(304) if known else descriptor("com.notion.api", 'ETag: "one"'))(asked, reader, writer)

    async def story() -> None:
        async with asking(web, tmp_path, once) as it:
            await it.known.at(it.origin)
            it.tomorrow()
            found = await it.known.at(it.origin)
            await it.known.at(it.origin)

            assert (found.app.id, found.stale) == ("com.notion.api", None)
            assert [asked.headers.get("if-none-match") for asked in it.site.asked] == [None, '"one"']
            assert note(tmp_path, f"shop.test_{it.site.port}") == {
                "fetched_at": "2026-02-25T10:00:00Z",
                "ttl_seconds": 86400,
                "source_url": it.origin + PATH,
                "etag": '"one"',
            }

    asyncio.run(story())


def test_a_changed_descriptor_replaces_the_copy(web: Web, tmp_path: Path) -> None:
    """After a day, with its new ETag."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor("com.notion.api", 'ETag: "one"')) as it:
            await it.known.at(it.origin)
            it.publish(descriptor("com.notion.next", 'ETag: "two"'))
            it.tomorrow()

            assert (await it.known.at(it.origin)).app.id == "com.notion.next"
            assert note(tmp_path, f"shop.test_{it.site.port}")["etag"] == '"two"'

    asyncio.run(story())


def test_an_etag_that_no_request_can_carry_does_no_harm(web: Web, tmp_path: Path) -> None:
    """The next question goes without it."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor("com.notion.api", "ETag: \u00e9")) as it:
            await it.known.at(it.origin)
            it.tomorrow()
            await it.known.at(it.origin)

            assert ["if-none-match" in asked.headers for asked in it.site.asked] == [False, False]

    asyncio.run(story())


@requirement("errors:gateway:network-timeout")
def test_a_site_that_is_too_slow_is_an_old_copy_or_a_timeout(web: Web, tmp_path: Path) -> None:
    """The copy where there is one; nobody waits longer than the limit (seed 002, "Error Handling")."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it, web.fetch() as fetch:
            await it.known.at(it.origin)
            it.publish(silence)
            it.tomorrow()
            hasty = WellKnown(tmp_path, lambda: fetch, it.clock, "linux", patience_s=0.3, caches=CACHES)
            found = await hasty.at(it.origin)

            assert (found.app.id, "gave no answer within" in (found.stale or "")) == ("com.notion.api", True)
            with pytest.raises(CallTimeout):
                await hasty.at(it.site.url("", "other.test"))

    asyncio.run(story())


@pytest.mark.parametrize("failure", [hang_up, reply(500), reply(503), reply(429)], ids=["cut", "500", "503", "429"])
def test_an_old_copy_is_better_than_none_and_says_that_it_is_old(web: Web, tmp_path: Path, failure: Reply) -> None:
    """When the site does not answer, or not now; without a copy it is an error that says so."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            await it.known.at(it.origin)
            it.publish(failure)
            it.tomorrow()
            found = await it.known.at(it.origin)

            assert found.app.id == "com.notion.api"
            assert found.stale is not None
            assert "2026-02-24T10:00:00Z" in found.stale
            with pytest.raises(ServiceUnavailable):
                await it.known.at(it.site.url("", "other.test"))

    asyncio.run(story())


def test_a_host_that_is_gone_is_an_old_copy_or_no_app(web: Web, tmp_path: Path) -> None:
    """Without network the copy still works; a host that never was is an unknown app."""

    async def story() -> None:
        names = Names()
        async with asking(web, tmp_path, descriptor(), names=names) as it:
            await it.known.at(it.origin)
            names.told |= {"shop.test": NOBODY, "nowhere.test": NOBODY}
            it.tomorrow()
            async with web.fetch(names) as fetch:
                known = WellKnown(tmp_path, lambda: fetch, it.clock, "linux", caches=CACHES)

                assert (await known.at(it.origin)).stale
                with pytest.raises(UnknownApp, match="its host cannot be found"):
                    await known.at("https://nowhere.test")

    asyncio.run(story())


PAGES = {
    "404": reply(404),
    "410": reply(410),
    "front page": reply(200, b"<!doctype html>", "Content-Type: text/html; charset=utf-8"),
    "page as text": reply(200, b"\n <html>", "Content-Type: text/plain"),
}


@requirement("errors:gateway:not-found")
@pytest.mark.parametrize("answer", PAGES.values(), ids=PAGES.keys())
def test_a_site_without_a_descriptor_is_an_unknown_app(web: Web, tmp_path: Path, answer: Reply) -> None:
    """And what it said before is gone."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            await it.known.at(it.origin)
            it.publish(answer)
            it.tomorrow()

            with pytest.raises(UnknownApp, match="publishes no descriptor"):
                await it.known.at(it.origin)
            assert kept(tmp_path) == []
            assert await it.known.remembered() == []

    asyncio.run(story())


@pytest.mark.parametrize("status", [401, 403, 451, 400, 204])
def test_only_a_site_that_says_so_has_no_descriptor_any_more(web: Web, tmp_path: Path, status: int) -> None:
    """Whatever else it answers, the old copy is used and stays; without one the app is unknown."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            await it.known.at(it.origin)
            it.publish(reply(status, b"" if status == 204 else b"<html>", "Content-Type: text/html"))
            it.tomorrow()
            found = await it.known.at(it.origin)

            assert f"answers {status}" in (found.stale or "")
            assert len(kept(tmp_path)) == 1
            with pytest.raises(UnknownApp, match=f"it answers {status}"):
                await it.known.at(it.site.url("", "other.test"))

    asyncio.run(story())


@pytest.mark.parametrize("answer", [descriptor("com.evil.app"), reply(404), reply(304)], ids=["app", "404", "304"])
def test_what_another_site_says_is_not_the_first_ones_word(web: Web, tmp_path: Path, answer: Reply) -> None:
    """A redirect to it names it, so that one can ask for it; what the first one said before stays."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it, asking(web, tmp_path / "other", answer) as other:
            await it.known.at(it.origin)
            elsewhere = other.site.url("", "other.test")
            it.publish(redirect(elsewhere + PATH))
            it.tomorrow()

            with pytest.raises(UnknownApp) as refusal:
                await it.known.at(it.origin)
            assert f"it redirects to {elsewhere}; ask for that address instead" in str(refusal.value)
            assert [one.app.id for one in await it.known.remembered()] == ["com.notion.api"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://shop.test", "https://www.shop.test", True),
        ("https://www.shop.test", "https://shop.test", True),
        ("https://shop.test:8443", "https://www.shop.test:8443", True),
        ("https://shop.test", "https://www.shop.test:8443", False),
        ("https://shop.test", "https://www.other.test", False),
        ("https://shop.test", "https://wwwshop.test", False),
        ("https://www.shop.test", "https://test", False),
        ("http://localhost:3000", "https://localhost:3000", False),
        ("https://shop.test", "", False),
    ],
)
def test_only_www_is_the_same_site(one: str, other: str, same: bool) -> None:
    """In either direction; another port or scheme is another site."""
    assert is_same_site(one, other) is same


def test_a_redirect_within_a_site_keeps_its_origin(web: Web, tmp_path: Path) -> None:
    """To another path of it."""

    async def story() -> None:
        async with asking(web, tmp_path, redirect("/aai.json")) as it:
            it.site.pages["/aai.json"] = descriptor()
            found = await it.known.at(it.origin)

            assert (found.app.id, found.app.origin) == ("com.notion.api", it.origin)

    asyncio.run(story())


def test_a_site_that_did_not_answer_in_time_is_left_alone_for_a_while(web: Web, tmp_path: Path) -> None:
    """Else everybody who waits for it would wait as long again, one after the other."""

    async def story() -> None:
        async with asking(web, tmp_path, silence) as it, web.fetch() as fetch:
            hasty = WellKnown(tmp_path, lambda: fetch, it.clock, "linux", patience_s=0.3, caches=CACHES)
            outcomes = await asyncio.gather(*(hasty.at(it.origin) for _ in range(5)), return_exceptions=True)
            asked = len(it.site.asked)
            it.publish(descriptor())
            it.clock.time += 29
            with pytest.raises(CallTimeout, match="gave no answer within"):
                await hasty.at(it.origin)
            it.clock.time += 1

            assert ([type(one) for one in outcomes], asked) == ([CallTimeout] * 5, 1)
            assert (await hasty.at(it.origin)).app.id == "com.notion.api"

    asyncio.run(story())


def test_a_look_reads_only_what_has_changed(web: Web, tmp_path: Path) -> None:
    """And knows what apps are called, no more: with what they can do, hundreds would be megabytes."""

    async def story() -> None:
        tools = [{"name": "add", "description": "Add", "execution": {"path": "/add", "method": "POST"}}]
        async with asking(web, tmp_path, descriptor(tools=tools), caches=USUAL) as it:
            whole = await it.known.at(it.origin)
            await it.known.at(it.site.url("", "other.test"))
            first = await it.known.remembered()
            again = await it.known.remembered()
            it.publish(descriptor("com.notion.next"))
            it.tomorrow()
            await it.known.at(it.origin)
            changed = {one.origin: one for one in await it.known.remembered()}

            assert [one is other for one, other in zip(first, again, strict=True)] == [True, True]
            assert len(whole.app.capabilities) == 1
            assert [(one.app.capabilities, one.app.raw, one.app.names) for one in first] == [
                ((), b"", whole.app.names)
            ] * 2
            assert changed[it.origin].app.id == "com.notion.next"
            assert any(one is changed[it.site.url("", "other.test")] for one in first)

    asyncio.run(story())


def test_the_oldest_copies_give_way(web: Web, tmp_path: Path) -> None:
    """When there are too many; what is no site's copy stays."""

    async def story() -> None:
        hosts = ["shop.test", "other.test", "127.0.0.1"]
        async with asking(web, tmp_path, descriptor()) as it, web.fetch() as fetch:
            known = WellKnown(tmp_path, lambda: fetch, it.clock, "linux", most_sites=2, caches=CACHES)
            (tmp_path / "mine").mkdir()
            for name in ("aai.json", "aai.json.meta"):
                (tmp_path / "mine" / name).write_text("{}")
                os.utime(tmp_path / "mine" / name, (1, 1))
            for i, host in enumerate(hosts):
                await known.at(it.site.url("", host))
                for name in ("aai.json", "aai.json.meta"):
                    os.utime(tmp_path / f"{host}_{it.site.port}" / name, (1000 + i, 1000 + i))

            left = [it.site.url("", host) for host in ("127.0.0.1", "other.test")]
            assert [one.origin for one in await known.remembered()] == left
            assert kept(tmp_path) == [f"127.0.0.1_{it.site.port}", "mine", f"other.test_{it.site.port}"]

    asyncio.run(story())


def test_few_apps_are_kept_whole() -> None:
    """Those that were read last; the same bytes are read once while they are among them."""
    apps = LastRead("linux", most=2)
    first = apps.read(published("com.a.a"), "https://a.test")
    apps.read(published("com.b.b"), "https://b.test")

    assert apps.read(published("com.a.a"), "https://a.test") is first
    second = apps.read(published("com.b.b"), "https://b.test")
    apps.read(published("com.c.c"), "https://c.test")
    assert apps.read(published("com.a.a"), "https://a.test") is not first
    assert apps.read(published("com.b.b"), "https://b.test") is not second


BROKEN: Mapping[str, Reply] = {
    "not JSON": reply(200, b"{not json"),
    "empty": reply(200, b""),
    "no app": reply(200, b"{}"),
    "wrong tools": descriptor(tools=5),
    "stdio": descriptor(execution={"type": "stdio", "command": "rm"}),
    "dbus": descriptor(execution={"type": "dbus", "service": "org.x", "objectPath": "/x"}),
    "apple-events": descriptor(execution={"type": "apple-events", "bundleId": "com.apple.finder"}),
    "com": descriptor(execution={"type": "com", "progId": "WScript.Shell"}),
}


@requirement("errors:gateway:invalid-descriptor")
@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
def test_a_descriptor_that_cannot_be_used_is_refused_with_its_problems(web: Web, tmp_path: Path, answer: Reply) -> None:
    """INVALID_REQUEST, and nothing is kept; what would run a program here cannot be used."""

    async def story() -> None:
        async with asking(web, tmp_path, answer) as it:
            with pytest.raises(InvalidDescriptor) as refusal:
                await it.known.at(it.origin)

            assert refusal.value.code == "INVALID_REQUEST"
            assert refusal.value.details["problems"]
            assert kept(tmp_path) == []

    asyncio.run(story())


def test_two_who_ask_at_once_make_one_request(web: Web, tmp_path: Path) -> None:
    """The second waits for what the first brings."""

    async def story() -> None:
        go_on = asyncio.Event()

        async def slow(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await soon(go_on)
            await descriptor()(asked, reader, writer)

        async with asking(web, tmp_path, slow) as it:
            asked = [asyncio.create_task(it.known.at(it.origin)) for _ in range(5)]
            await soon(it.site.reached)
            go_on.set()
            found = await asyncio.gather(*asked)

            assert {one.app.id for one in found} == {"com.notion.api"}
            assert len(it.site.asked) == 1

    asyncio.run(story())


def test_a_copy_of_one_port_is_never_served_for_another(web: Web, tmp_path: Path) -> None:
    """Two sites of one host are two sites, also when somebody moves their folders (facts, b4)."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor("com.a.a")) as a, asking(web, tmp_path, descriptor("com.b.b")) as b:
            here = [(await it.known.at(it.site.url("", "127.0.0.1"))).app.id for it in (a, b)]
            first, second = (tmp_path / f"127.0.0.1_{it.site.port}" for it in (a, b))
            first.rename(tmp_path / "x")
            second.rename(first)
            again = await a.known.at(a.site.url("", "127.0.0.1"))

            assert here == ["com.a.a", "com.b.b"]
            assert (again.app.id, len(a.site.asked)) == ("com.a.a", 2)

    asyncio.run(story())


def test_one_site_in_many_spellings_is_one_site(web: Web, tmp_path: Path) -> None:
    """Capitals, a dot at the end, an international name: one request, one folder, one origin."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            spellings = ["b\u00fccher.test", "B\u00dcCHER.test", "xn--bcher-kva.test", "xn--bcher-kva.test."]
            found = [await it.known.at(it.site.url("", host)) for host in spellings]

            assert {one.origin for one in found} == {it.site.url("", "xn--bcher-kva.test")}
            assert kept(tmp_path) == [f"xn--bcher-kva.test_{it.site.port}"]
            assert len(it.site.asked) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    "origin",
    [
        *("https://..", "https://../..", "https://a\\..\\b", "https://%2e%2e", "https://h:0", "https://h:99999"),
        *("https://[::1", "https://user:secret@shop.test", "https://", "file:///etc", "http://10.0.0.1"),
    ],
)
def test_no_host_name_leads_out_of_the_cache(web: Web, tmp_path: Path, origin: str) -> None:
    """It is refused before anybody is asked or anything is written."""

    async def story() -> None:
        async with asking(web, tmp_path / "cache", descriptor()) as it:
            with pytest.raises(RefusedAddress) as refusal:
                await it.known.at(origin)

            assert "secret" not in str(refusal.value)
            assert it.names.asked == []
            assert kept(tmp_path) == []

    asyncio.run(story())


def test_a_name_that_leads_inside_is_not_asked(web: Web, tmp_path: Path) -> None:
    """The guard stands before every site, whatever its name."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor(), permitted=is_public) as it:
            with pytest.raises(RefusedAddress):
                await it.known.at(it.origin)

            assert it.site.asked == []

    asyncio.run(story())


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(web: Web, tmp_path: Path) -> None:
    """The answer comes, and is remembered for as long as the gateway runs."""

    async def story() -> None:
        (tmp_path / "file").write_text("no folder")
        async with asking(web, tmp_path / "file", descriptor("com.notion.api", 'ETag: "one"')) as it:
            first, second = await it.known.at(it.origin), await it.known.at(it.origin)
            remembered = await it.known.remembered()
            it.publish(reply(304))
            it.tomorrow()
            third = await it.known.at(it.origin)
            asked = len(it.site.asked)
            it.publish(reply(404))
            it.tomorrow()
            with pytest.raises(UnknownApp):
                await it.known.at(it.origin)

            assert first == second == third == remembered[0]
            assert (asked, await it.known.remembered()) == (2, [])

    asyncio.run(story())


def test_a_host_that_can_have_no_folder_is_asked_all_the_same(web: Web, tmp_path: Path) -> None:
    """`con` is a device on Windows, and a host like any other; the certificate is not its, which is another matter."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            with pytest.raises(ServiceUnavailable, match="certificate"):
                await it.known.at(it.site.url("", "con.test"))

            assert it.site.server_names == ["con.test"]

    asyncio.run(story())


@pytest.mark.parametrize("damage", ["aai.json", "aai.json.meta"])
def test_a_damaged_copy_is_fetched_anew(web: Web, tmp_path: Path, damage: str) -> None:
    """Half a descriptor on the disk is not what the site says."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor("com.notion.api", 'ETag: "one"')) as it:
            await it.known.at(it.origin)
            file = tmp_path / f"shop.test_{it.site.port}" / damage
            file.write_bytes(file.read_bytes()[:20])
            found = await it.known.at(it.origin)

            assert (found.app.id, found.stale) == ("com.notion.api", None)
            assert ["if-none-match" in asked.headers for asked in it.site.asked] == [False, False]
            assert [one.app.id for one in await it.known.remembered()] == ["com.notion.api"]

    asyncio.run(story())


@requirement("storage:cache:meta-source")
def test_what_is_remembered_is_what_was_fetched_and_nothing_else(web: Web, tmp_path: Path) -> None:
    """Foreign folders, moved ones, notes with other addresses and broken ones are not taken for sites."""

    async def story() -> None:
        async with asking(web, tmp_path, descriptor()) as it:
            await it.known.at(it.origin)
            sources = {
                "moved.test": "https://bank.test/.well-known/aai.json",
                "other-path.test": "https://other-path.test/aai.json",
                "nonsense.test": "https://[",
                "file.test": "file:///etc/passwd",
            }
            for folder, source in sources.items():
                (tmp_path / folder).mkdir()
                (tmp_path / folder / "aai.json").write_bytes(published("com.evil.app"))
                meta = {"fetched_at": "2026-02-24T10:00:00Z", "ttl_seconds": 86400, "source_url": source}
                (tmp_path / folder / "aai.json.meta").write_text(json.dumps(meta))
            (tmp_path / "a file").write_text("")
            (tmp_path / "empty").mkdir()

            assert [(one.app.id, one.origin) for one in await it.known.remembered()] == [("com.notion.api", it.origin)]

    asyncio.run(story())


def test_remembering_asks_nobody(web: Web, tmp_path: Path) -> None:
    """Not even for a copy that is old; without a folder nothing is remembered."""

    async def story() -> None:
        async with asking(web, tmp_path / "cache", descriptor()) as it:
            nothing = await it.known.remembered()
            await it.known.at(it.origin)
            it.tomorrow()
            remembered = await it.known.remembered()

            assert (nothing, [one.app.id for one in remembered]) == ([], ["com.notion.api"])
            assert len(it.site.asked) == 1

    asyncio.run(story())


def test_every_refusal_is_one_of_ours(web: Web, tmp_path: Path) -> None:
    """An answer that is too large, and a redirect to nowhere, are errors of the tree."""

    async def story() -> None:
        async with asking(web, tmp_path, reply(200, b" " * 2_000_000)) as it:
            with pytest.raises(SwitchboardError):
                await it.known.at(it.origin)
            it.publish(reply(302, b"", "Location: http://169.254.169.254/"))
            with pytest.raises(InvalidRequest):
                await it.known.at(it.origin)

    asyncio.run(story())

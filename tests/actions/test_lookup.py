"""Who is meant: by id, name, domain or address; that no guess is looked up, and no site takes an app's place."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, final

import pytest
from msgspec.structs import replace
from tests.actions.fakes import HandClock
from tests.builders import app
from tests.caching import CACHES
from tests.net.web import Names as Resolver
from tests.net.web import Site, Web, reply
from tests.support import requirement

from switchboard.actions.collection import Collection
from switchboard.actions.lookup import Lookup
from switchboard.actions.ports import Source
from switchboard.catalog.errors import (
    AmbiguousName,
    InvalidDescriptor,
    RefusedAddress,
    StillLoading,
    UnknownApp,
)
from switchboard.catalog.findings import Finding, Problem
from switchboard.catalog.model import App, Names
from switchboard.sources.wellknown import WellKnown

WELL_KNOWN = "/.well-known/aai.json"
PATIENCE_S = 30


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(tmp_path_factory.mktemp("web"))


@final
class Given(Source):
    """Says what a test gave it."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)

    async def load(self) -> tuple[Finding, ...]:
        """Answer."""
        return self.findings


class Story(NamedTuple):
    """Some apps, two sites, and somebody who asks for them by any name."""

    lookup: Lookup
    collection: Collection
    source: Given
    site: Site
    other: Site
    resolver: Resolver

    @property
    def shop(self) -> str:
        """Address of the first site."""
        return self.site.url("")

    @property
    def rival(self) -> str:
        """Address of the second site."""
        return self.other.url("", "other.test")

    @property
    def requests(self) -> int:
        """How often anybody was asked."""
        return len(self.site.asked) + len(self.other.asked)


@asynccontextmanager
async def asking(  # noqa: PLR0913 - what is there, and what the sites say
    web: Web,
    cache: Path,
    *findings: Finding | App,
    published: bytes = b"",
    rival: bytes = b"",
    load: bool = True,
    patience_s: float = PATIENCE_S,
) -> AsyncGenerator[Story]:
    """Open two sites that publish these descriptors, beside these apps."""
    resolver = Resolver()
    there = [finding if isinstance(finding, Finding) else found(finding) for finding in findings]
    source = Given(there)
    collection = Collection([source])
    if load:
        await collection.load()
    async with (
        web.site({WELL_KNOWN: reply(200, published) if published else reply(404)}) as site,
        web.site({WELL_KNOWN: reply(200, rival) if rival else reply(404)}) as other,
        web.fetch(resolver) as fetch,
    ):
        known = WellKnown(cache, lambda: fetch, HandClock(), "linux", caches=CACHES)
        yield Story(
            Lookup(collection, known, patience_s=patience_s, caches=CACHES), collection, source, site, other, resolver
        )


def found(there: App) -> Finding:
    return Finding(source="home", location=f"/home/ann/.aai/{there.id}/aai.json", app=there)


def broken(location: str) -> Finding:
    problems = (Problem("warning", "alias", "$.x", "old"), Problem("error", "missing", "$.tools", "is missing"))
    return Finding(source="home", location=location, problems=problems)


def named(app_id: str, *names: str, aliases: tuple[str, ...] = ()) -> App:
    texts = tuple((f"x-{i}", name) for i, name in enumerate(names))
    return replace(app(app_id), names=Names(texts, "x-0"), aliases=aliases)


def descriptor(app_id: str, name: str = "Shop", **changes: Any) -> bytes:
    document: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "web",
        "app": {"id": app_id, "name": {"en": name, "zh-CN": "\u5546\u5e97"}, "defaultLang": "en", "description": "Buy"},
        "execution": {"type": "http", "baseUrl": "https://api.shop.test"},
        "tools": [],
        **changes,
    }
    return json.dumps(document).encode()


CALENDAR = named("com.example.calendar", "Calendar", "\u65e5\u5386", "\uff2b\uff41\uff4c", aliases=("Stra\u00dfe",))


@pytest.mark.parametrize(
    "text",
    [
        "com.example.calendar",
        "app:com.example.calendar",
        "app_com_example_calendar",
        "COM.Example.Calendar",
        "Calendar",
        "cALENDAR",
        " calendar ",
        "\u65e5\u5386",
        "Kal",
        "\uff2b\uff21\uff2c",
        "stra\u00dfe",
        "STRASSE",
    ],
)
def test_an_installed_app_is_found_by_id_and_by_every_name(web: Web, tmp_path: Path, text: str) -> None:
    """In every language, any case and width, by alias and by portable name; nobody on the network hears of it."""

    async def story() -> None:
        async with asking(web, tmp_path, CALENDAR, named("com.example.mail", "Mail")) as it:
            for find in (it.lookup.app, it.lookup.discover):
                assert (await find(text)).address == "com.example.calendar"
            assert (it.resolver.asked, it.requests) == ([], 0)

    asyncio.run(story())


@requirement("wellknown:discover:forms", "wellknown:discover:fetch")
def test_a_web_app_is_discovered_by_address_by_domain_and_then_by_name(web: Web, tmp_path: Path) -> None:
    """What was fetched once is known by its id and its names as well."""

    async def story() -> None:
        async with asking(web, tmp_path, published=descriptor("com.shop.api")) as it:
            by_domain = await it.lookup.discover(f"shop.test:{it.site.port}")
            texts = [
                it.shop,
                f"{it.shop}/cart?x=1",
                f"SHOP.test:{it.site.port}/cart",
                "com.shop.api",
                "shop",
                "\u5546\u5e97",
            ]
            others = [await it.lookup.discover(text) for text in texts]

            assert {(one.app.id, one.address) for one in (by_domain, *others)} == {("com.shop.api", it.shop)}
            assert it.resolver.asked == ["shop.test"]
            assert it.requests == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    "text",
    ["Notion", "com.nope.app", "io.nope.app", "app:com.nope.app", "app_com_nope_app", "\u8bed\u96c0", "3.14", ""],
)
def test_a_name_that_nobody_has_is_unknown_and_never_looked_up(web: Web, tmp_path: Path, text: str) -> None:
    """The refusal says so, and how to name a web app (facts, b4: it was a DNS look-up once)."""

    async def story() -> None:
        async with asking(web, tmp_path, CALENDAR, published=descriptor("com.shop.api")) as it:
            for find in (it.lookup.app, it.lookup.discover):
                with pytest.raises(UnknownApp, match="nothing installed, registered or remembered is called that"):
                    await find(text)

            assert (it.resolver.asked, it.requests) == ([], 0)

    asyncio.run(story())


def test_a_name_that_is_nearly_right_says_what_is_near(web: Web, tmp_path: Path) -> None:
    """By id and by name, of installed apps and of remembered sites."""

    async def story() -> None:
        async with asking(web, tmp_path, CALENDAR, published=descriptor("com.shop.api")) as it:
            await it.lookup.discover(it.shop)
            refusals: list[object] = []
            for text in ("Calender", "com.example.calender", "com.shop.apis"):
                with pytest.raises(UnknownApp) as refusal:
                    await it.lookup.app(text)
                refusals.append(refusal.value.details["nearest"])

            assert refusals == [["com.example.calendar"], ["com.example.calendar"], ["com.shop.api"]]

    asyncio.run(story())


def test_a_call_fetches_a_bare_domain_only_if_that_site_is_remembered(web: Web, tmp_path: Path) -> None:
    """`aai:exec` with a domain is a guess; with an address it is a wish."""

    async def story() -> None:
        async with asking(web, tmp_path, published=descriptor("com.shop.api")) as it:
            domain = f"Shop.test:{it.site.port}"
            with pytest.raises(UnknownApp):
                await it.lookup.app(domain)
            before = (list(it.resolver.asked), it.requests)
            by_address = await it.lookup.app(f"{it.shop}/")
            by_domain = await it.lookup.app(domain)

            assert before == ([], 0)
            assert by_address == by_domain
            assert it.requests == 1

    asyncio.run(story())


def test_a_remembered_site_is_found_by_its_international_domain(web: Web, tmp_path: Path) -> None:
    """In whichever spelling."""

    async def story() -> None:
        async with asking(web, tmp_path, published=descriptor("com.shop.api")) as it:
            await it.lookup.discover(it.site.url("", "b\u00fccher.test"))
            found = await it.lookup.app(f"B\u00fccher.test:{it.site.port}")

            assert found.address == it.site.url("", "xn--bcher-kva.test")
            assert it.requests == 1

    asyncio.run(story())


def test_no_site_takes_the_place_of_an_installed_app(web: Web, tmp_path: Path) -> None:
    """It claims the id and the name; by both the installed app is meant, and the site by its address."""

    async def story() -> None:
        claims = descriptor("com.example.calendar", "Calendar")
        async with asking(web, tmp_path, CALENDAR, published=claims) as it:
            site = await it.lookup.discover(it.shop)
            meant = [
                await find(text)
                for find in (it.lookup.app, it.lookup.discover)
                for text in ("com.example.calendar", "Calendar", "app_com_example_calendar")
            ]
            again = await it.lookup.app(f"shop.test:{it.site.port}")

            assert (site.app.id, site.address, again.address) == ("com.example.calendar", it.shop, it.shop)
            assert all(one.app is CALENDAR and one.address == CALENDAR.id for one in meant)

    asyncio.run(story())


def test_no_site_takes_the_place_of_an_app_that_cannot_be_read(web: Web, tmp_path: Path) -> None:
    """While it is broken, its id still is not anybody else's."""

    async def story() -> None:
        place = broken("/home/ann/.aai/com.example.mail/aai.json")
        async with asking(web, tmp_path, place, published=descriptor("com.example.mail")) as it:
            await it.lookup.discover(it.shop)

            with pytest.raises(InvalidDescriptor):
                await it.lookup.app("com.example.mail")
            assert (await it.lookup.app(it.shop)).address == it.shop

    asyncio.run(story())


@pytest.mark.parametrize(
    "text",
    ["com.example.mail", "app:com.example.mail", "COM.example.mail", "app_com_example_mail"],
)
def test_no_app_takes_the_place_of_one_that_cannot_be_read(web: Web, tmp_path: Path, text: str) -> None:
    """Neither by its id, nor by one of that letter case or portable name, nor by a name or an alias."""

    async def story() -> None:
        others = [
            named("com.example.mail", "Same id"),
            named("com.Example.mail", "Same letters"),
            named("com_example_mail", "Same portable name"),
            named("com.evil.a", "com.example.mail"),
            named("com.evil.b", "B", aliases=("com.example.mail", "app_com_example_mail")),
        ]
        place = broken("/home/ann/.aai/com.example.mail/aai.json")
        async with asking(web, tmp_path, place, *others) as it:
            for find in (it.lookup.app, it.lookup.discover):
                with pytest.raises((InvalidDescriptor, AmbiguousName)):
                    await find(text)

            portable = it.lookup.names().name_of("com_example_mail")
            assert (await it.lookup.app(portable)).app.names.primary == "Same portable name"

    asyncio.run(story())


def test_a_name_is_refused_where_what_lies_there_under_it_is_broken(web: Web, tmp_path: Path) -> None:
    """The bundle says only its name; another app that is called so is meant by its id."""

    async def story() -> None:
        place = broken("/Applications/Mail.app/Contents/Resources/aai.json")
        async with asking(web, tmp_path, place, named("com.evil.mail", "Mail", aliases=("mail",))) as it:
            with pytest.raises(InvalidDescriptor):
                await it.lookup.app("mail")

            assert (await it.lookup.app("com.evil.mail")).app.id == "com.evil.mail"

    asyncio.run(story())


@pytest.mark.parametrize("text", ["com.example.mail", "Com.Example.Mail", "example.com"])
def test_what_could_be_an_id_or_a_domain_is_nobodys_name(web: Web, tmp_path: Path, text: str) -> None:
    """An app that was removed is not replaced by one that calls itself so."""

    async def story() -> None:
        evil = named("com.evil.a", "com.example.mail", "example.com", aliases=("com.example.mail", "example.com"))
        async with asking(web, tmp_path, evil) as it:
            with pytest.raises(UnknownApp):
                await it.lookup.app(text)

    asyncio.run(story())


def test_an_app_behind_which_a_broken_copy_lies_is_found_in_any_letter_case(web: Web, tmp_path: Path) -> None:
    """The copy has lost; that it is broken as well is nobody's concern."""

    async def story() -> None:
        async with asking(web, tmp_path, CALENDAR, broken("/opt/com.example.calendar/aai.json")) as it:
            for text in ("com.example.calendar", "COM.example.calendar", "app_com_example_calendar"):
                assert (await it.lookup.app(text)).app is CALENDAR

    asyncio.run(story())


def test_no_site_takes_the_place_of_an_app_that_is_still_looked_for(web: Web, tmp_path: Path) -> None:
    """Before the scan has ended nobody knows whose id it is; an address is never in doubt."""

    async def story() -> None:
        async with asking(web, tmp_path, published=descriptor("com.shop.api"), load=False, patience_s=0) as it:
            await it.lookup.discover(it.shop)

            with pytest.raises(StillLoading):
                await it.lookup.app("com.shop.api")
            assert (await it.lookup.app(it.shop)).address == it.shop
            assert (await it.lookup.app(f"shop.test:{it.site.port}")).address == it.shop
            await it.collection.load()
            assert (await it.lookup.app("com.shop.api")).address == it.shop

    asyncio.run(story())


def test_two_sites_with_one_id_are_ambiguous_and_told_apart_by_address(web: Web, tmp_path: Path) -> None:
    """The candidates are what to write."""

    async def story() -> None:
        both = descriptor("com.shop.api")
        async with asking(web, tmp_path, published=both, rival=both) as it:
            for origin in (it.shop, it.rival):
                await it.lookup.discover(origin)

            for text in ("com.shop.api", "Shop", "app:com.shop.api"):
                with pytest.raises(AmbiguousName) as refusal:
                    await it.lookup.app(text)
                assert refusal.value.details["candidates"] in ([it.shop, it.rival], [it.rival, it.shop])
            assert [(await it.lookup.app(origin)).address for origin in (it.shop, it.rival)] == [it.shop, it.rival]

    asyncio.run(story())


def test_two_apps_with_one_name_are_ambiguous_and_told_apart_by_id(web: Web, tmp_path: Path) -> None:
    """By name, and by a portable name that both would have."""

    async def story() -> None:
        async with asking(web, tmp_path, named("com.a.b", "Mail"), named("com.a_b", "mail")) as it:
            for text in ("MAIL", "app_com_a_b"):
                with pytest.raises(AmbiguousName) as refusal:
                    await it.lookup.app(text)
                assert refusal.value.details["candidates"] == ["com.a.b", "com.a_b"]
            portable = it.lookup.names().name_of("com.a_b")

            assert portable != "app_com_a_b"
            assert (await it.lookup.app(portable)).app.id == "com.a_b"

    asyncio.run(story())


def test_portable_names_follow_the_apps(web: Web, tmp_path: Path) -> None:
    """They are made anew when the apps have changed, and where something may be remembered only then."""

    async def story() -> None:
        async with asking(web, tmp_path, named("com.a.a", "A")) as it:
            before = it.lookup.names()
            await it.collection.load()
            same = it.lookup.names()
            it.source.findings = (found(named("com.b.b", "B")),)
            await it.collection.load()

            assert (before is same) == (CACHES.most(1) > 0)
            assert (await it.lookup.app("app_com_b_b")).app.id == "com.b.b"
            with pytest.raises(UnknownApp):
                await it.lookup.app("app_com_a_a")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("/home/ann/.aai/com.example.mail/aai.json", "com.example.mail"),
        ("/home/ann/.aai/com.example.mail/aai.json", "app:com.example.mail"),
        ("/home/ann/.aai/com.example.mail/aai.json", "Com.Example.Mail"),
        ("/usr/share/applications/aai/org.example.own.json", "org.example.own"),
        ("/Applications/Mail.app/Contents/Resources/aai.json", "mail"),
        ("C:\\ProgramData\\Mail\\aai.json", "Mail"),
    ],
)
def test_an_app_whose_descriptor_is_broken_is_told_with_its_problems(
    web: Web, tmp_path: Path, location: str, text: str
) -> None:
    """It is there, so it is not unknown."""

    async def story() -> None:
        async with asking(web, tmp_path, broken(location), CALENDAR) as it:
            with pytest.raises(InvalidDescriptor) as refusal:
                await it.lookup.app(text)

            assert refusal.value.details["problems"] == ["$.tools: is missing"]

    asyncio.run(story())


@pytest.mark.parametrize("text", ["home", "ann", ".aai", "aai.json", "Applications", "Contents", "Resources"])
def test_a_folder_on_the_way_to_a_broken_descriptor_is_no_app(web: Web, tmp_path: Path, text: str) -> None:
    """Only the last part of the way stands for an id."""

    async def story() -> None:
        places = ("/home/ann/.aai/com.example.mail/aai.json", "/Applications/Mail.app/Contents/Resources/aai.json")
        async with asking(web, tmp_path, *map(broken, places)) as it:
            with pytest.raises(UnknownApp):
                await it.lookup.app(text)

    asyncio.run(story())


def test_an_unknown_name_waits_for_the_first_look(web: Web, tmp_path: Path) -> None:
    """And is answered as soon as the app is there."""

    async def story() -> None:
        async with asking(web, tmp_path, CALENDAR, load=False) as it:
            asked = asyncio.create_task(it.lookup.app("Calendar"))
            await asyncio.sleep(0)
            await it.collection.load()

            assert (await asyncio.wait_for(asked, PATIENCE_S)).app is CALENDAR

    asyncio.run(story())


def test_what_may_still_come_is_told_apart_from_what_is_unknown(web: Web, tmp_path: Path) -> None:
    """While a registry is being asked, an unknown app is one to try again; a known one is answered at once."""

    async def story() -> None:
        async with asking(web, tmp_path, CALENDAR, patience_s=0) as it:
            with it.collection.expecting_more():
                with pytest.raises(StillLoading) as refusal:
                    await it.lookup.app("com.nope.app")
                known = await it.lookup.app("Calendar")

            assert (refusal.value.code, refusal.value.details["loading"], known.app) == (
                "SERVICE_UNAVAILABLE",
                True,
                CALENDAR,
            )
            with pytest.raises(UnknownApp):
                await it.lookup.app("com.nope.app")
            assert it.resolver.asked == []

    asyncio.run(story())


@requirement("errors:gateway:not-found", "errors:gateway:invalid-descriptor")
def test_what_a_site_says_wrong_comes_through(web: Web, tmp_path: Path) -> None:
    """No descriptor is an unknown app, a broken one an invalid request, a bad address a refused one."""

    async def story() -> None:
        async with asking(web, tmp_path, published=b"{}") as it:
            with pytest.raises(InvalidDescriptor):
                await it.lookup.discover(f"shop.test:{it.site.port}")
            with pytest.raises(UnknownApp):
                await it.lookup.discover(it.rival)
            for text in ("https://user:secret@shop.test", "https://h:99999", "shop.test:99999", "http://shop.test"):
                with pytest.raises(RefusedAddress):
                    await it.lookup.discover(text)

    asyncio.run(story())

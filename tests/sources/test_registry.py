"""Registries: both shapes of the seeds, copies that follow them, and that no registry can do more than list apps."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.actions.fakes import HandClock
from tests.leaks import secret
from tests.net.web import Address, Asked, Reply, Site, Web, redirect, reply, silence, soon, this_machine_too
from tests.sources.test_copies import NOON, published
from tests.support import requirement

from switchboard.catalog.errors import (
    AuthRequired,
    CallTimeout,
    InvalidRequest,
    NotFound,
    RefusedAddress,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.net.fetch import Fetch
from switchboard.net.guard import is_public
from switchboard.sources import copies
from switchboard.sources.desktop import Desktop
from switchboard.sources.places import Surroundings, places, web_copies
from switchboard.sources.registry import Fetches, Registry, Synced
from switchboard.telemetry.logs import Log

DAY_S = 86400
APPS = "/api/v1/apps"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(tmp_path_factory.mktemp("web"))


class Lines:
    """A log in memory."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, data: bytes) -> int:
        """Remember."""
        self.text += data
        return len(data)

    @property
    def refused(self) -> dict[str, str]:
        """What was refused, by app, with the reason."""
        return {event["app"]: event["reason"] for event in self.events("registry.entry.refused")}

    def events(self, message: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [event for line in self.text.splitlines() if (event := json.loads(line))["message"] == message]


class Story(NamedTuple):
    """A registry, another site, and a home that follows the registry."""

    site: Site
    other: Site
    home: Path
    clock: HandClock
    fetches: Fetches
    lines: Lines

    async def sync(self, base: str | None = None, patience_s: float = 120.0, key: str | None = None) -> Synced:
        """Look at the registry once, as a gateway that has just started."""
        registry = Registry(
            base or self.site.url(""),
            self.home / "web",
            fetches=lambda: self.fetches,
            clock=self.clock,
            system="linux",
            log=Log(self.lines),
            key=key,
            patience_s=patience_s,
        )
        return await registry.sync()

    def lists(self, *entries: Any) -> None:
        """Change what the registry lists."""
        self.site.pages[APPS] = directory(*entries)

    def copies(self) -> dict[str, str]:
        """Name the apps in the home, and the site each comes from, as the scan sees them."""
        around = Surroundings(
            system="linux", home=self.home, working=self.home, environment={"AAI_HOME": str(self.home)}, root=self.home
        )
        assert web_copies(around) == self.home / "web"
        found = Desktop(places(around), "linux").scan()
        return {finding.app.id: finding.app.origin for finding in found if finding.usable and finding.app}

    def asked(self, site: Site | None = None) -> list[str]:
        """Return what the registry, or another site, was asked for."""
        return [asked.path for asked in (site or self.site).asked]


@asynccontextmanager
async def following(
    web: Web,
    home: Path,
    pages: Mapping[str, Reply],
    elsewhere: Mapping[str, Reply] | None = None,
    *,
    strangers: Callable[[Address], bool] = this_machine_too,
) -> AsyncGenerator[Story]:
    """Open a registry with these pages, and another site with those."""
    clock = HandClock()
    clock.time = NOON
    async with (
        web.site({"/v1/apps": reply(404), APPS: reply(404), **pages}) as site,
        web.site(elsewhere or {}) as other,
        web.fetch() as named,
        web.fetch(permitted=strangers) as foreign,
    ):
        yield Story(site, other, home, clock, Fetches(named, foreign), Lines())


def directory(*entries: Any) -> Reply:
    return reply(200, json.dumps({"apps": entries}).encode())


def descriptor(app_id: str, *headers: str, **changes: Any) -> Reply:
    return reply(200, published(app_id, **changes), *headers)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def document(app_id: str) -> Any:
    return json.loads(published(app_id))


SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/apps", {"id": "com.a.a", "name": "A", "descriptor_url": "/a.json"}),
    ("/api/v1/apps", {"appId": "com.a.a", "name": "A", "descriptor_url": "/a.json"}),
    ("/api/v1/apps", {"app_id": "com.a.a", "descriptorUrl": "../../a.json"}),
    ("/api/v1/apps", {"id": "row-17", "appId": "com.a.a", "aai_url": "/a.json"}),
    ("/v1/apps", {"id": "com.a.a", "descriptor": document("com.a.a")}),
    ("/v1/apps", {"id": "com.a.a", "descriptorJson": document("com.a.a"), "descriptor": None}),
    ("/v1/apps", {"id": "com.a.a", "descriptorJson": json.dumps(document("com.a.a"))}),
]


@requirement("registry:directory:v1-apps", "registry:directory:api-v1-apps", "registry:descriptor:download")
@requirement("registry:cache:path")
@pytest.mark.parametrize(("path", "entry"), SHAPES)
def test_every_shape_of_a_directory_becomes_a_copy(web: Web, tmp_path: Path, path: str, entry: dict[str, Any]) -> None:
    """At `<home>/web/<app id>/aai.json`, and the scan finds it with the site it came from."""

    async def story() -> None:
        async with following(web, tmp_path, {path: directory(entry), "/a.json": descriptor("com.a.a")}) as it:
            synced = await it.sync()

            assert synced == Synced(registry=it.site.url(""), listed=1, copied=1)
            assert json.loads((tmp_path / "web/com.a.a/aai.json").read_bytes()) == document("com.a.a")
            assert it.copies() == {"com.a.a": it.site.url("")}
            assert it.lines.text == b""

    asyncio.run(story())


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("", "/api/v1/apps"),
        ("/", "/v1/apps"),
        ("/v1", "/v1/apps"),
        ("/api/v1/", "/api/v1/apps"),
        ("/v1/apps", "/v1/apps"),
        ("/api/v1/apps/", "/api/v1/apps"),
        ("/sub/folder", "/sub/folder/v1/apps"),
    ],
)
def test_a_base_can_be_given_with_or_without_the_rest(web: Web, tmp_path: Path, given: str, path: str) -> None:
    """What is missing is added, what is there is used."""

    async def story() -> None:
        pages = {"/sub/folder/api/v1/apps": reply(404), path: directory({"id": "com.a.a", "descriptor": {}})}
        async with following(web, tmp_path, pages) as it:
            synced = await it.sync(it.site.url(given))

            assert synced.listed == 1
            assert it.asked()[-1] == path

    asyncio.run(story())


def test_a_front_page_at_one_address_does_not_hide_the_directory_at_the_other(web: Web, tmp_path: Path) -> None:
    """Many sites answer everything with their front page."""

    async def story() -> None:
        page = reply(200, b"<html>", "Content-Type: text/html")
        pages = {APPS: page, "/v1/apps": directory({"id": "com.a.a", "descriptor": document("com.a.a")})}
        async with following(web, tmp_path, pages) as it:
            await it.sync()

            assert list(it.copies()) == ["com.a.a"]

    asyncio.run(story())


FAILING: dict[str, tuple[Reply, type[SwitchboardError]]] = {
    "500": (reply(500), ServiceUnavailable),
    "garbage": (reply(200, b"{not json"), InvalidRequest),
    "a list": (reply(200, b"[]"), InvalidRequest),
    "no apps": (reply(200, b'{"apps": 5}'), InvalidRequest),
    "bytes": (reply(200, b'\xff{"apps": []}'), InvalidRequest),
    "deep": (reply(200, b'{"apps": ' + b"[" * 100_000), InvalidRequest),
    "nobody": (reply(404), NotFound),
}


@pytest.mark.parametrize(("answer", "error"), FAILING.values(), ids=FAILING.keys())
def test_a_registry_that_fails_leaves_the_copies_as_they_are(
    web: Web, tmp_path: Path, answer: Reply, error: type[SwitchboardError]
) -> None:
    """And says what is wrong."""

    async def story() -> None:
        async with following(web, tmp_path, {}) as it:
            it.lists({"id": "com.a.a", "descriptor": document("com.a.a")})
            await it.sync()
            it.site.pages[APPS] = answer

            with pytest.raises(error):
                await it.sync()
            assert list(it.copies()) == ["com.a.a"]

    asyncio.run(story())


@pytest.mark.parametrize("base", ["https://[", "https://h:99999", "https://user:pw@h", "https://"])
def test_a_base_that_is_no_address_is_refused(web: Web, tmp_path: Path, base: str) -> None:
    """As an error of ours, which the log can show."""

    async def story() -> None:
        async with following(web, tmp_path, {}) as it:
            with pytest.raises(RefusedAddress):
                await it.sync(base)

    asyncio.run(story())


def test_a_bad_entry_is_one_line_in_the_log_and_hides_nothing(web: Web, tmp_path: Path) -> None:
    """Whatever is wrong with it; nothing is written outside the folder."""
    bad: dict[str, dict[str, Any]] = {
        "../../x": {"descriptor": document("com.x.x")},
        "CON": {"descriptor": document("com.x.x")},
        "": {"descriptor": document("com.x.x")},
        "com.other.id": {"descriptor": document("com.x.x")},
        "com.broken.text": {"descriptorJson": "{not json"},
        "com.broken.app": {"descriptor": {"app": 5}},
        "com.runs.here": {"descriptor": document("com.runs.here") | {"execution": {"type": "stdio", "command": "rm"}}},
        "com.no.address": {},
        "com.bad.address": {"descriptor_url": "https://[bad"},
        "com.bad.port": {"descriptor_url": "https://shop.test:99999/a.json"},
        "com.file.address": {"descriptor_url": "file:///etc/passwd"},
        "com.missing": {"descriptor_url": "/missing.json"},
        "com.failing": {"descriptor_url": "/failing.json"},
    }

    async def story() -> None:
        pages = {"/missing.json": reply(404), "/failing.json": reply(500)}
        async with following(web, tmp_path / "home", pages) as it:
            good = [{"id": f"com.good.{i}", "descriptor": document(f"com.good.{i}")} for i in range(2)]
            it.lists(good[0], *({"id": key, **entry} for key, entry in bad.items()), 5, {"id": 7}, good[1])
            synced = await it.sync()

            assert list(it.copies()) == ["com.good.0", "com.good.1"]
            assert it.lines.refused.keys() == {*bad, "?"}
            assert (synced.listed, synced.copied, synced.refused) == (len(bad) + 4, 2, len(bad) + 2)
            assert names(tmp_path) == ["home"]
            assert names(tmp_path / "home/web") == ["com.good.0", "com.good.1"]

    asyncio.run(story())


def test_an_id_that_is_listed_twice_is_the_first(web: Web, tmp_path: Path) -> None:
    """In whatever letters, because some folders do not tell them apart."""

    async def story() -> None:
        async with following(web, tmp_path, {"/a": descriptor("com.a.a"), "/b": descriptor("com.A.a")}) as it:
            it.lists({"id": "com.a.a", "descriptor_url": "/a"}, {"id": "com.A.a", "descriptor_url": "/b"})
            await it.sync()

            assert list(it.copies()) == ["com.a.a"]
            assert it.lines.refused == {"com.A.a": "it is listed more than once"}

    asyncio.run(story())


def test_at_most_eight_descriptors_are_fetched_at_once(web: Web, tmp_path: Path) -> None:
    """And eight are, while there are so many."""

    async def story() -> None:
        running: list[int] = [0]
        most: list[int] = [0]
        full, go_on = asyncio.Event(), asyncio.Event()

        async def slow(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == 8:
                full.set()
            await soon(go_on)
            running[0] -= 1
            await descriptor(asked.path[1:])(asked, reader, writer)

        ids = [f"com.a.a{i}" for i in range(30)]
        async with following(web, tmp_path, {f"/{key}": slow for key in ids} | {"/ping": reply(200)}) as it:
            it.lists(*({"id": key, "descriptor_url": f"/{key}"} for key in ids))
            sync = asyncio.create_task(it.sync())
            await soon(full)
            for _ in range(3):  # whoever were too many would have come by now
                await it.fetches.named.send("GET", it.site.url("/ping"))
            go_on.set()
            synced = await sync

            assert (most[0], synced.copied, len(it.copies())) == (8, 30, 30)

    asyncio.run(story())


def test_a_fresh_copy_is_not_fetched_again_and_an_old_one_by_its_etag(web: Web, tmp_path: Path) -> None:
    """After a day; a 304 makes it fresh, a new descriptor replaces it."""

    async def story() -> None:
        async def by_etag(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            known = asked.headers.get("if-none-match") == '"one"'
            await (reply(304) if known else descriptor("com.a.a", 'ETag: "one"'))(asked, reader, writer)

        async with following(web, tmp_path, {"/a": by_etag}) as it:
            it.lists({"id": "com.a.a", "descriptor_url": "/a"})
            counts = [(await it.sync()).copied]
            it.clock.time += DAY_S - 1
            counts.append((await it.sync()).copied)
            it.clock.time += 1
            counts += [(await it.sync()).copied, (await it.sync()).copied]
            asked = it.asked().count("/a")
            it.site.pages["/a"] = descriptor("com.a.a", 'ETag: "two"', version="2.0.0")
            it.clock.time += DAY_S
            counts.append((await it.sync()).copied)

            assert (counts, asked) == ([1, 0, 0, 0, 1], 2)
            meta = copies.read_meta(tmp_path / "web/com.a.a")
            assert meta is not None
            assert (meta.fetched_at, meta.etag) == ("2026-02-26T10:00:00Z", '"two"')

    asyncio.run(story())


def test_a_descriptor_that_cannot_be_fetched_leaves_its_copy(web: Web, tmp_path: Path) -> None:
    """Until the registry itself withdraws it."""

    async def story() -> None:
        async with following(web, tmp_path, {"/a": descriptor("com.a.a")}) as it:
            it.lists({"id": "com.a.a", "descriptor_url": "/a"})
            await it.sync()
            it.site.pages["/a"] = reply(500)
            it.clock.time += DAY_S
            synced = await it.sync()

            assert (synced.refused, list(it.copies())) == (1, ["com.a.a"])

    asyncio.run(story())


def test_what_a_registry_withdraws_is_removed_and_nothing_else(web: Web, tmp_path: Path) -> None:
    """Copies of other registries stay, and what somebody put there."""

    async def story() -> None:
        async with following(web, tmp_path, {}) as it:
            entries = [{"id": f"com.a.a{i}", "descriptor": document(f"com.a.a{i}")} for i in range(3)]
            it.lists(*entries)
            await it.sync()
            foreign = copies.note(NOON, "https://x.test/b", registry="https://x.test")
            copies.write(tmp_path / "web/com.b.b", copies.Copy(published("com.b.b"), foreign))
            (tmp_path / "web/com.c.c").mkdir()
            (tmp_path / "web/com.c.c/aai.json").write_bytes(published("com.c.c"))
            (tmp_path / "web/a file").write_text("")
            it.lists(entries[1])
            synced = await it.sync()

            assert synced.removed == 2
            assert it.copies() == {
                "com.a.a1": it.site.url(""),
                "com.b.b": "https://x.test",
                "com.c.c": (tmp_path / "web/com.c.c/aai.json").as_uri(),
            }
            assert not (tmp_path / "web/com.a.a0").exists()

    asyncio.run(story())


def test_an_entry_that_cannot_be_read_withdraws_nobody_it_names(web: Web, tmp_path: Path) -> None:
    """It may be any of those; with escapes in it, anybody. Whom it cannot mean is withdrawn."""

    async def story() -> None:
        async with following(web, tmp_path, {}) as it:
            it.lists(*({"id": key, "descriptor": document(key)} for key in ("com.a.a", "com.b.b")))
            await it.sync()
            it.lists({"id": "com.\u00e4", "descriptor_url": 5})
            unsure = await it.sync()
            it.lists({"id": "COM.a.a", "descriptor_url": 5})
            synced = await it.sync()

            assert (unsure.removed, synced.removed, list(it.copies())) == (0, 1, ["com.a.a"])

    asyncio.run(story())


def test_an_id_belongs_to_the_site_that_served_it_first(web: Web, tmp_path: Path) -> None:
    """Another registry that offers it, and the same one with another site, are refused; both are logged."""

    async def story() -> None:
        async with following(web, tmp_path, {}, {"/evil": descriptor("com.a.a", description="evil")}) as it:
            it.lists({"id": "com.a.a", "descriptor": document("com.a.a")})
            await it.sync()
            evil = {"id": "com.a.a", "descriptor_url": it.other.url("/evil", "other.test")}
            it.other.pages["/v1/apps"] = directory({"id": "com.a.a", "descriptor": document("com.a.a")})
            by_other = await it.sync(it.other.url("/v1", "other.test"))
            other_reason = it.lines.refused["com.a.a"]
            it.lists(evil)
            by_same = await it.sync()

            assert (by_other.refused, by_same.refused) == (1, 1)
            assert f"{it.site.url(APPS)} served this id first" in other_reason
            assert str(tmp_path / "web/com.a.a") in it.lines.refused["com.a.a"]
            assert it.copies() == {"com.a.a": it.site.url("")}
            assert "/evil" not in it.asked(it.other)

    asyncio.run(story())


def test_two_registries_at_once_bind_an_id_to_one_of_them(web: Web, tmp_path: Path) -> None:
    """Also when both have fetched it before either has written it."""

    async def story() -> None:
        both = asyncio.Barrier(2)

        def meeting(text: str) -> Reply:
            async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await asyncio.wait_for(both.wait(), 30)
                await descriptor("com.a.a", version=text)(asked, reader, writer)

            return answer

        async with following(web, tmp_path, {"/a": meeting("1.0.0")}, {"/a": meeting("2.0.0")}) as it:
            it.lists({"id": "com.a.a", "descriptor_url": "/a"})
            it.other.pages[APPS] = directory({"id": "com.a.a", "descriptor_url": "/a"})
            first, second = await asyncio.gather(it.sync(), it.sync(it.other.url("", "other.test")))

            assert sorted((first.refused, second.refused)) == [0, 1]
            winner = it.site.url("") if second.refused else it.other.url("", "other.test")
            assert it.copies() == {"com.a.a": winner}
            assert names(tmp_path / "web") == ["com.a.a"]

    asyncio.run(story())


def test_two_registries_that_list_one_site_agree(web: Web, tmp_path: Path) -> None:
    """The same address is the same app: nothing is fetched twice, nothing refused."""

    async def story() -> None:
        async with following(web, tmp_path, {}, {"/a": descriptor("com.a.a")}) as it:
            entry = {"id": "com.a.a", "descriptor_url": it.other.url("/a", "other.test")}
            it.lists(entry)
            it.site.pages["/v1/apps"] = directory(entry)
            synced = [await it.sync(it.site.url("/api/v1")), await it.sync(it.site.url("/v1"))]

            assert [(one.copied, one.refused) for one in synced] == [(1, 0), (0, 0)]
            assert it.asked(it.other) == ["/a"]
            assert it.copies() == {"com.a.a": it.other.url("", "other.test")}

    asyncio.run(story())


def test_what_somebody_put_there_is_not_replaced(web: Web, tmp_path: Path) -> None:
    """Their own file is more than what a registry says."""

    async def story() -> None:
        async with following(web, tmp_path, {}) as it:
            own = tmp_path / "web/com.a.a/aai.json"
            own.parent.mkdir(parents=True)
            own.write_bytes(published("com.a.a", version="9.0.0"))
            it.lists({"id": "com.a.a", "descriptor": document("com.a.a")})
            await it.sync()

            assert own.read_bytes() == published("com.a.a", version="9.0.0")
            assert "somebody has put an app there" in it.lines.refused["com.a.a"]

    asyncio.run(story())


def test_a_copy_moves_within_its_site_and_with_its_text(web: Web, tmp_path: Path) -> None:
    """Another path of the same site, or a new text in the directory, is the next version."""

    async def story() -> None:
        async with following(web, tmp_path, {"/b": descriptor("com.a.a", version="2.0.0")}) as it:
            it.lists({"id": "com.a.a", "descriptor": document("com.a.a")})
            await it.sync()
            unchanged = await it.sync()
            it.lists({"id": "com.a.a", "descriptor_url": "/b"})
            moved = await it.sync()

            assert (unchanged.copied, moved.copied) == (0, 1)
            assert json.loads((tmp_path / "web/com.a.a/aai.json").read_bytes())["version"] == "2.0.0"

    asyncio.run(story())


def test_a_registry_inside_the_own_network_works_and_cannot_point_anywhere_else_inside(
    web: Web, tmp_path: Path
) -> None:
    """Its own origin is asked as the user named it; every other address, also by a redirect, as a stranger's."""

    async def story() -> None:
        secret = {"/secret": descriptor("com.b.b"), "/c": descriptor("com.c.c"), "/d": descriptor("com.d.d")}
        async with following(web, tmp_path, {"/a": descriptor("com.a.a")}, secret, strangers=is_public) as it:
            it.site.pages["/redirect"] = redirect(it.other.url("/c"))
            it.site.pages["/same"] = redirect(it.other.url("/d", "127.0.0.1"), 307)
            it.lists(
                {"id": "com.a.a", "descriptor_url": "/a"},
                {"id": "com.b.b", "descriptor_url": it.other.url("/secret")},
                {"id": "com.c.c", "descriptor_url": "/redirect"},
                {"id": "com.d.d", "descriptor_url": "/same"},
            )
            await it.sync()

            assert list(it.copies()) == ["com.a.a"]
            assert it.lines.refused.keys() == {"com.b.b", "com.c.c", "com.d.d"}
            assert it.asked(it.other) == []

    asyncio.run(story())


def test_a_registry_may_redirect_to_a_public_site(web: Web, tmp_path: Path) -> None:
    """Directories and descriptors move; an app is then of the site where it was found, and stays bound to that."""

    async def story() -> None:
        async with following(web, tmp_path, {}, {"/a": descriptor("com.a.a")}) as it:
            it.other.pages[APPS] = directory({"id": "com.a.a", "descriptor_url": "/a"})
            it.site.pages[APPS] = redirect(it.other.url(APPS, "other.test"), 308)
            it.site.pages["/a"] = redirect(it.other.url("/a", "other.test"))
            first = await it.sync()
            fresh = await it.sync()
            asked = it.asked(it.other).count("/a")
            it.clock.time += DAY_S
            again = await it.sync()
            meta = copies.read_meta(tmp_path / "web/com.a.a")
            it.clock.time += DAY_S
            it.site.pages["/a"] = descriptor("com.a.a", version="2.0.0")
            elsewhere = await it.sync()

            assert [one.copied for one in (first, fresh, again, elsewhere)] == [1, 0, 0, 0]
            assert (asked, elsewhere.refused) == (1, 1)
            assert "served this id first" in it.lines.refused["com.a.a"]
            assert meta is not None
            assert (meta.source_url, meta.asked_url) == (it.other.url("/a", "other.test"), it.site.url("/a"))
            assert it.copies() == {"com.a.a": it.other.url("", "other.test")}

    asyncio.run(story())


def test_what_stands_in_a_directory_is_of_the_site_where_the_directory_was_found(web: Web, tmp_path: Path) -> None:
    """Not of the one that only said where to go."""

    async def story() -> None:
        async with following(web, tmp_path, {}) as it:
            it.other.pages[APPS] = directory({"id": "com.a.a", "descriptor": document("com.a.a")})
            it.site.pages[APPS] = redirect(it.other.url(APPS, "other.test"))
            await it.sync()

            assert it.copies() == {"com.a.a": it.other.url("", "other.test")}

    asyncio.run(story())


def test_an_address_that_is_too_long_to_be_noted_is_refused(web: Web, tmp_path: Path) -> None:
    """With its note too long to be read, a copy would be a file that somebody put there; also after a redirect."""

    async def story() -> None:
        async with following(web, tmp_path, {"/a": descriptor("com.a.a"), "/b": redirect("/a?" + "x" * 2000)}) as it:
            it.lists(
                {"id": "com.a.a", "descriptor_url": "/a?" + "x" * 20_000},
                {"id": "com.b.b", "descriptor_url": "/b"},
                {"id": "com.c.c", "descriptor_url": "/c?" + "\u20ac" * 1000},  # in its one spelling nine times as long
            )
            await it.sync()

            assert it.lines.refused == dict.fromkeys(
                ("com.a.a", "com.b.b", "com.c.c"), "its address is longer than 2000 characters"
            )
            assert {path.partition("?")[0] for path in it.asked()} == {APPS, "/b", "/a"}
            assert max(map(len, it.asked())) < 2010
            assert not (tmp_path / "web").exists()

    asyncio.run(story())


def test_what_there_is_no_time_for_stays_and_is_tried_next_time(web: Web, tmp_path: Path) -> None:
    """One line in the log says so, and what was ready is kept."""

    async def story() -> None:
        async with following(web, tmp_path, {"/a": descriptor("com.a.a"), "/b": descriptor("com.b.b")}) as it:
            it.lists(*({"id": f"com.{name}.{name}", "descriptor_url": f"/{name}"} for name in "ab"))
            await it.sync()
            it.clock.time += DAY_S
            it.site.pages["/b"] = silence
            it.site.pages["/a"] = descriptor("com.a.a", version="2.0.0")
            late = await it.sync(patience_s=1.0)
            it.site.pages["/b"] = descriptor("com.b.b", version="2.0.0")
            next_time = await it.sync()

            assert (late.copied, late.refused, late.postponed) == (1, 0, 1)
            assert (next_time.copied, next_time.postponed) == (1, 0)
            (said,) = it.lines.events("registry.postponed")
            assert (said["count"], said["first"]) == (1, ["com.b.b"])
            assert "not fetched within 1 seconds" in said["reason"]

    asyncio.run(story())


def test_a_host_that_keeps_everybody_waiting_is_left_alone(web: Web, tmp_path: Path) -> None:
    """After three timeouts, until the next look; other hosts are asked."""

    async def story() -> None:
        async def too_slow(host: str, port: int) -> list[Address]:
            raise CallTimeout(f"{host}:{port} gave no answer.")

        ids = [f"com.a.a{i:02}" for i in range(20)]
        async with following(web, tmp_path, {"/b": descriptor("com.b.b")}) as it:
            slow = "https://slow.test/"
            it.lists(*({"id": key, "descriptor_url": slow + key} for key in ids), {"id": "com.b.b", "aai_url": "/b"})
            strangers = Fetch(resolve=too_slow, tls=web.trust())
            synced = await it._replace(fetches=Fetches(it.fetches.named, strangers)).sync()
            await strangers.close()

            asked = len(it.lines.refused)
            assert 3 <= asked <= 8  # as many as were asked at once
            assert (synced.copied, synced.refused, synced.postponed) == (1, asked, 20 - asked)
            assert [said["count"] for said in it.lines.events("registry.postponed")] == [20 - asked]

    asyncio.run(story())


def test_no_secret_of_an_address_is_logged(web: Web, tmp_path: Path) -> None:
    """Neither of the registry's own address nor of one that it hands out."""

    async def story() -> None:
        entries = directory(
            {"id": "com.a.a", "descriptor_url": "/a?token=hunter2"},
            {"id": "com.b.b", "descriptor_url": "/b?token=hunter2"},
            {"id": "com.c.c", "descriptor_url": "https://ann:hunter2@shop.test/c"},
            {"id": "com.d.d", "descriptor_url": "/d?token=hunter2"},
        )
        pages = {"/a": reply(500), "/b": reply(200, b"{}"), "/d": descriptor("com.d.d"), "/api": entries}
        async with following(web, tmp_path, pages) as it:
            (tmp_path / "web/com.d.d").mkdir(parents=True)
            (tmp_path / "web/com.d.d/aai.json").write_bytes(b"{}")
            synced = await it.sync(it.site.url("/api?token=hunter2"))

            assert it.lines.refused.keys() == {"com.a.a", "com.b.b", "com.c.c", "com.d.d"}
            assert b"hunter2" not in it.lines.text
            assert synced.registry == it.site.url("/api")

    asyncio.run(story())


def test_leftovers_of_a_crash_are_removed_after_an_hour(web: Web, tmp_path: Path) -> None:
    """What is younger may still be on its way, and what has another name is somebody's."""

    async def story() -> None:
        async with following(web, tmp_path, {APPS: directory()}) as it:
            for name, age_s in {".com.a.a.1.2": 3601, ".com.b.b.1.2": 3599, ".mine": 9999, "com.c.1.2": 9999}.items():
                (tmp_path / "web" / name).mkdir(parents=True)
                (tmp_path / "web" / name / "aai.json").write_bytes(b"{")
                os.utime(tmp_path / "web" / name, (NOON - age_s, NOON - age_s))
            await it.sync()

            assert names(tmp_path / "web") == [".com.b.b.1.2", ".mine", "com.c.1.2"]

    asyncio.run(story())


def test_a_home_that_cannot_be_written_is_logged(web: Web, tmp_path: Path) -> None:
    """Each app with its reason, and the sync ends."""

    async def story() -> None:
        (tmp_path / "web").write_text("a file")
        async with following(web, tmp_path, {}) as it:
            it.lists({"id": "com.a.a", "descriptor": document("com.a.a")})
            synced = await it.sync()

            assert (synced.copied, synced.refused) == (0, 1)
            assert "Not a directory" in it.lines.refused["com.a.a"]

    asyncio.run(story())


def test_a_directory_without_end_is_cut(web: Web, tmp_path: Path) -> None:
    """After five thousand apps, which the log says."""

    async def story() -> None:
        async with following(web, tmp_path, {}) as it:
            it.lists(*({"id": ""} for _ in range(5001)))
            synced = await it.sync()

            assert synced.listed == 5000
            assert "5001 apps are listed" in it.lines.refused["*"]

    asyncio.run(story())


def test_a_key_is_sent_to_its_own_registry_and_to_nobody_else(web: Web, tmp_path: Path) -> None:
    """Neither to a site that it lists, nor to one that it redirects to; no log has it."""
    key = secret("registry-key")

    async def story() -> None:
        async with following(web, tmp_path, {"/a.json": descriptor("com.a.a")}) as it:
            it.other.pages["/b.json"] = descriptor("com.b.b")
            it.other.pages["/c.json"] = descriptor("com.c.c")
            it.site.pages["/c.json"] = redirect(it.other.url("/c.json"))
            it.lists(
                {"appId": "com.a.a", "descriptor_url": "/a.json"},
                {"appId": "com.b.b", "descriptor_url": it.other.url("/b.json")},
                {"appId": "com.c.c", "descriptor_url": "/c.json"},
            )
            synced = await it.sync(key=key)

            own = {asked.path: asked.headers.get("authorization") for asked in it.site.asked}
            assert synced.copied == 3
            assert own == dict.fromkeys([APPS, "/a.json", "/c.json"], f"Bearer {key}")
            assert [asked.path for asked in it.other.asked] == ["/b.json", "/c.json"]
            assert all(key not in str(asked.headers) for asked in it.other.asked)
            assert key.encode() not in it.lines.text

    asyncio.run(story())


@pytest.mark.parametrize(("key", "said"), [(None, "wants a key"), ("a-wrong-one", "does not take the key")])
def test_a_registry_that_wants_a_key_says_so(web: Web, tmp_path: Path, key: str | None, said: str) -> None:
    """The copies stay, and the reason names what to set and not what was sent."""

    async def story() -> None:
        async with following(web, tmp_path, {APPS: reply(401)}) as it:
            with pytest.raises(AuthRequired, match=f"{said} .AAI_REGISTRY_KEY.") as refusal:
                await it.sync(key=key)

            assert "a-wrong-one" not in str(refusal.value)

    asyncio.run(story())


def test_a_version_that_is_listed_and_not_copied_is_fetched_at_once(web: Web, tmp_path: Path) -> None:
    """However fresh the copy is; a version that is the same asks nobody."""

    async def story() -> None:
        entry = {"appId": "com.a.a", "descriptor_url": "/a.json", "version": "1.0.0"}
        async with following(web, tmp_path, {"/a.json": descriptor("com.a.a", version="1.0.0")}) as it:
            it.lists(entry)
            first, same = await it.sync(), await it.sync()
            it.lists({**entry, "version": "1.1.0"})
            it.site.pages["/a.json"] = descriptor("com.a.a", version="1.1.0")
            newer = await it.sync()
            it.lists({**entry, "version": 7})
            odd = await it.sync()

            assert [synced.copied for synced in (first, same, newer, odd)] == [1, 0, 1, 0]
            assert it.asked().count("/a.json") == 2

    asyncio.run(story())

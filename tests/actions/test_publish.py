"""Publishing: whose id it is, which version may follow, and what of it every reader sees."""

import asyncio
import io
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.actions.fakes import HandClock, MemoryApps
from tests.executors.test_agent import until
from tests.gateways import web_app

from switchboard.actions.app_ports import MOST_EDITIONS, Edition, Record, StoredApp
from switchboard.actions.publish import MOST_APPS, MOST_BYTES, Publication, Publish
from switchboard.actions.shelf import Shelf
from switchboard.catalog.errors import (
    Conflict,
    ConsentRequired,
    InvalidDescriptor,
    NotFound,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.catalog.model import Caller
from switchboard.descriptors import publishing
from switchboard.descriptors.aai import Reading
from switchboard.security.rules import AllowRules
from switchboard.telemetry.logs import Log

ID = "com.example.shop"
ANN, BOB, OPERATOR, NOBODY = Caller("ann"), Caller("bob"), Caller("default"), Caller("anonymous")
TOOLS: list[dict[str, Any]] = web_app(ID, "https://shop.example.com")["tools"]
MORE = [*TOOLS, {**TOOLS[0], "name": "order"}]


def read(raw: bytes) -> Reading:
    return publishing.read(raw, loopback=False)


def text(version: str = "1.0.0", app_id: str = ID, **changes: Any) -> bytes:
    return json.dumps(web_app(app_id, "https://shop.example.com", version=version, **changes)).encode()


class Instance:
    """One instance over a store that others share."""

    def __init__(
        self,
        store: MemoryApps | None = None,
        rules: dict[str, list[str]] | None = None,
        most: int = MOST_APPS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.store = store or MemoryApps()
        self.clock = HandClock()
        self.shelf = Shelf(self.store, self.clock, read)
        self.log = io.BytesIO()
        gate = AllowRules(rules or {})
        self.action = Publish(
            self.store,
            self.shelf,
            self.clock,
            read,
            gate=gate,
            log=Log(self.log),
            most=most,
            most_bytes=most_bytes,
        )

    async def publish(self, raw: bytes, caller: Caller = ANN, app_id: str = ID) -> Publication:
        """Publish for somebody."""
        return await self.action.publish(app_id, raw, caller)

    async def refused(self, raw: bytes, kind: type[SwitchboardError] = Conflict, caller: Caller = ANN) -> Any:
        """Publish, and return why not."""
        with pytest.raises(kind) as refusal:
            await self.publish(raw, caller)
        return refusal.value

    def versions(self, app_id: str = ID) -> list[str]:
        """Return every version that the shelf knows of."""
        return [edition.version for edition in self.shelf.apps()[app_id].record.editions]


def run(story: Callable[[Instance], Coroutine[Any, Any, None]], **kwargs: Any) -> None:
    async def told() -> None:
        await story(Instance(**kwargs))

    asyncio.run(told())


def test_what_is_published_is_on_the_shelf_at_once() -> None:
    """To the byte, with its version, when and by whom; and whoever listens is told."""

    async def story(it: Instance) -> None:
        heard: list[int] = []
        it.shelf.listen(lambda: heard.append(it.shelf.version))
        done = await it.publish(text())
        again = await it.publish(text())
        following = await it.publish(text("1.0.1", app=text_app("Search everywhere")))

        found = it.shelf.apps()[ID]
        assert (done.done, again.done, following.done) == ("published", "unchanged", "updated")
        assert found.raw == text("1.0.1", app=text_app("Search everywhere"))
        assert (found.app.version, found.edition) == ("1.0.1", Edition(version="1.0.1", at=1000.0, by="ann"))
        assert heard == [1, 2]

    run(story)


def text_app(description: str) -> dict[str, Any]:
    return {"id": ID, "name": {"en": "Shop"}, "defaultLang": "en", "description": description}


def test_a_lower_version_is_refused_and_told_the_current_one() -> None:
    """Also where only the pre-release is lower."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.10.0"))
        for lower in ("1.9.0", "1.10.0-rc.1", "0.1.0"):
            refusal = await it.refused(text(lower))
            assert refusal.details["current"] == "1.10.0"
            assert "1.10.0" in refusal.message

        assert it.versions() == ["1.10.0"]

    run(story)


@pytest.mark.parametrize(
    ("changes", "following"),
    [({"app": text_app("other words")}, "1.2.4"), ({"tools": MORE}, "1.3.0"), ({"tools": []}, "2.0.0")],
)
def test_another_text_under_the_same_version_is_refused_and_the_next_one_is_named(
    changes: dict[str, Any], following: str
) -> None:
    """One version is one text for ever; how much changed says which version it wants."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.2.3"))
        refusal = await it.refused(text("1.2.3", **changes))
        built = await it.refused(text("1.2.3+build", **changes))

        assert refusal.details["next"] == built.details["next"] == following
        assert (await it.publish(text(following, **changes))).warnings == ()

    run(story)


@pytest.mark.parametrize(
    ("before", "given", "needed"),
    [("1.2.3", "1.3.0", "2.0.0"), ("1.2.3", "1.2.4", "2.0.0"), ("0.2.3", "0.2.4", "0.3.0")],
)
def test_a_change_that_breaks_callers_needs_the_version_that_says_so(before: str, given: str, needed: str) -> None:
    """MAJOR, or MINOR below 1.0.0; every such change is named with its place."""
    narrow: dict[str, Any] = {
        **TOOLS[0],
        "parameters": {"type": "object", "properties": {"what": {}}, "required": ["what"]},
    }

    async def story(it: Instance) -> None:
        await it.publish(text(before))
        refusal = await it.refused(text(given, tools=[narrow], auth={"type": "bearer"}))

        assert refusal.details["next"] == needed
        assert [change.partition(": ")[0] for change in refusal.details["changes"]] == [
            "$.auth.type",
            "$.tools[0].parameters.properties.what",
            "$.tools[0].parameters.properties.query",
        ]
        assert (await it.publish(text(needed, tools=[narrow], auth={"type": "bearer"}))).done == "updated"

    run(story)


def test_what_is_new_in_too_small_a_version_is_let_in_with_a_warning() -> None:
    """It breaks nobody, so it is said and not refused."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.0.0"))
        small = await it.publish(text("1.0.1", tools=MORE))

        assert small.warnings == ("$.tools[1]: the tool order is new; that wants 1.1.0 or higher",)

    run(story)


def test_a_pre_release_promises_nothing_and_is_compared_with_nothing() -> None:
    """What follows is measured by the last release, which did."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.0.0"))
        await it.publish(text("2.0.0-alpha", tools=MORE))
        await it.publish(text("2.0.0-beta", tools=[]))
        await it.publish(text("2.0.0", tools=MORE))
        await it.publish(text("2.1.0-rc.1", tools=[*MORE, {**TOOLS[0], "name": "third"}]))
        refusal = await it.refused(text("2.1.0", tools=TOOLS))

        assert refusal.details["current"] == "2.0.0"
        assert it.versions() == ["1.0.0", "2.0.0-alpha", "2.0.0-beta", "2.0.0", "2.1.0-rc.1"]

    run(story)


def test_an_id_belongs_to_who_published_it_first() -> None:
    """Others are refused, also after it was withdrawn; the operator's key may do everything, and owns nothing."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.0.0"), ANN)
        refusal = await it.refused(text("1.0.1"), ConsentRequired, BOB)
        with pytest.raises(ConsentRequired):
            await it.action.withdraw(ID, BOB)
        await it.publish(text("1.0.1", app=text_app("by the operator")), OPERATOR)
        await it.action.withdraw(ID, OPERATOR)
        await it.refused(text("1.0.2"), ConsentRequired, BOB)
        back = await it.publish(text("1.0.2"), ANN)

        assert "ann" in refusal.message
        assert back.app.record.owner == "ann"
        assert [edition.by for edition in back.app.record.editions] == ["ann", "default", "ann"]

    run(story)


def test_what_was_published_without_keys_belongs_to_the_first_who_has_one() -> None:
    """And on a server without keys everybody may do everything."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.0.0"), NOBODY)
        taken = await it.publish(text("1.0.1"), BOB)
        await it.refused(text("1.0.2"), ConsentRequired, ANN)

        assert taken.app.record.owner == "bob"
        assert (await it.publish(text("1.0.2"), NOBODY)).app.record.owner == "bob"

    run(story)


def test_the_operators_rules_hold_for_apps_too() -> None:
    """Who is not named in a rule about an id may neither publish nor withdraw it."""

    async def story(it: Instance) -> None:
        await it.refused(text(), ConsentRequired, BOB)
        await it.publish(text(), ANN)
        with pytest.raises(ConsentRequired):
            await it.action.withdraw(ID, OPERATOR)

        assert ID in it.shelf.apps()

    run(story, rules={"com.example.*": ["ann"]})


def test_a_withdrawn_app_is_gone_and_its_versions_stay() -> None:
    """The same text comes back under its version; another text still needs another one."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.0.0"))
        it.clock.time += 5
        record = await it.action.withdraw(ID, ANN)
        gone = dict(it.shelf.apps())
        kept = await it.action.edition(ID, "1.0.0")
        with pytest.raises(NotFound):
            await it.action.withdraw(ID, ANN)
        await it.refused(text("1.0.0", tools=MORE))
        await it.refused(text("0.9.0"))
        back = await it.publish(text("1.0.0"))

        assert (record.withdrawn_at, record.withdrawn_by, gone, kept) == (1005.0, "ann", {}, text("1.0.0"))
        assert (back.done, it.versions(), it.shelf.withdrawn()) == ("published", ["1.0.0"], {})
        assert back.app.record.withdrawn_at is None

    run(story)


def test_the_newest_hundred_versions_are_kept() -> None:
    """The others are forgotten, oldest first; the rules go on."""

    async def story(it: Instance) -> None:
        for number in range(MOST_EDITIONS + 2):
            await it.publish(text(f"1.0.{number}"))

        assert it.versions()[0] == "1.0.2"
        assert len(it.versions()) == MOST_EDITIONS
        with pytest.raises(NotFound):
            await it.action.edition(ID, "1.0.1")
        await it.refused(text("1.0.1"))

    run(story)


def test_what_somebody_else_published_meanwhile_is_judged_first() -> None:
    """On another instance, a moment before: the version that is now too low is refused."""

    async def story(it: Instance) -> None:
        await it.publish(text("1.0.0"))
        record = it.store.kept[ID].record
        editions = (*record.editions, Edition(version="1.5.0", at=1.0, by="ann"))
        it.store.faster = [StoredApp(id=ID, record=Record(owner="ann", editions=editions), descriptor=text("1.5.0"))]
        refusal = await it.refused(text("1.4.0"))

        assert refusal.details["current"] == "1.5.0"

    run(story)


def test_what_cannot_be_published_is_refused_with_every_problem() -> None:
    """And with one about the address, where that names another app."""

    async def story(it: Instance) -> None:
        desktop = text(execution={"type": "stdio", "command": "rm"}, version="one", app=text_app("x") | {"id": "a.b"})
        refusal = await it.refused(desktop, InvalidDescriptor)

        assert [problem.partition(": ")[0] for problem in refusal.details["problems"]] == [
            "$.execution.type",
            "$.version",
            "$.app.id",
        ]
        assert (await it.refused(b"no json", InvalidDescriptor)).details["problems"][0].startswith("$: not JSON")
        assert it.store.kept == {}

    run(story)


def test_ids_that_gateways_cannot_tell_apart_are_not_both_published() -> None:
    """Folders do not tell `A` from `a` everywhere."""

    async def story(it: Instance) -> None:
        await it.publish(text())
        with pytest.raises(Conflict):
            await it.publish(text(app_id="com.example.SHOP"), app_id="com.example.SHOP")

        assert list(it.shelf.apps()) == [ID]

    run(story)


def test_an_id_that_looks_like_a_withdrawn_one_is_kept_for_its_owner() -> None:
    """Else somebody could take the place of an app while it rests, and its owner could not come back."""

    async def story(it: Instance) -> None:
        other = "com.example.SHOP"
        await it.publish(text())
        await it.action.withdraw(ID, ANN)
        with pytest.raises(Conflict, match="taken"):
            await it.publish(text(app_id=other), BOB, other)
        await it.publish(text(), ANN)
        await it.action.withdraw(ID, ANN)
        await it.publish(text(app_id=other), ANN, other)

        assert list(it.shelf.apps()) == [other]

    run(story)


def test_a_full_registry_takes_new_versions_and_no_new_apps() -> None:
    """Gateways take so many from one registry, and no more."""

    async def story(it: Instance) -> None:
        await it.publish(text())
        with pytest.raises(Conflict, match="full"):
            await it.publish(text(app_id="com.example.other"), app_id="com.example.other")
        await it.publish(text("1.0.1"))

        assert it.versions() == ["1.0.0", "1.0.1"]

    run(story, most=1)


def test_a_new_version_has_to_find_room_too() -> None:
    """Small apps cannot grow into what every instance would have to keep in memory."""

    async def story(it: Instance) -> None:
        await it.publish(text())
        await it.publish(text(app_id="com.example.other"), app_id="com.example.other")
        refusal = await it.refused(text("1.0.1", app=text_app("Search" + " and search" * 200)))
        await it.publish(text("1.0.1"))

        assert "full" in refusal.message
        assert it.versions() == ["1.0.0", "1.0.1"]

    run(story, most_bytes=2 * len(text(app_id="com.example.other")))


def test_what_is_published_while_everything_is_read_anew_is_not_lost() -> None:
    """The store went back to a backup; what came after that is on the shelf at the next look at the latest."""

    async def story(it: Instance) -> None:
        await it.publish(text())
        await it.shelf.catch_up()
        await it.publish(text("1.0.1"))
        await it.shelf.catch_up()
        it.store.kept, it.store.texts, it.store.revision = {}, {}, 0
        it.store.held[0] = asyncio.Event()
        reading = asyncio.create_task(it.shelf.catch_up())
        await until(lambda: it.store.questions == 4)
        await it.publish(text(app_id="com.example.new"), app_id="com.example.new")
        it.store.held[0].set()
        await reading
        await it.shelf.catch_up()

        assert list(it.shelf.apps()) == ["com.example.new"]

    run(story)


def test_without_a_store_reading_goes_on_and_publishing_is_refused() -> None:
    """And readers are told since when, until it answers again."""

    async def story(it: Instance) -> None:
        await it.publish(text())
        it.store.down = True
        it.clock.time += 60
        await it.shelf.look()
        await it.refused(text("1.0.1"), ServiceUnavailable)
        with pytest.raises(ServiceUnavailable):
            await it.action.withdraw(ID, ANN)

        assert (it.versions(), await it.action.edition(ID, "1.0.0")) == (["1.0.0"], text())
        assert it.shelf.stale_since == 1060.0
        it.store.down = False
        it.clock.time += 60
        await it.shelf.look()
        assert it.shelf.stale_since is None

    run(story)


def test_another_instance_catches_up_and_asks_only_when_it_has_to() -> None:
    """When it is told, or after thirty seconds; in between a reader costs the store nothing."""

    async def story(here: Instance) -> None:
        there = Instance(here.store)
        await there.shelf.catch_up()
        await here.publish(text())
        await there.shelf.look()
        unseen = dict(there.shelf.apps())
        questions = here.store.questions
        there.clock.time += 30
        await asyncio.gather(*(there.shelf.look() for _ in range(5)))
        await there.shelf.look()
        seen = list(there.shelf.apps())
        await here.action.withdraw(ID, ANN)
        await there.shelf.catch_up()

        assert (unseen, seen, list(there.shelf.apps())) == ({}, [ID], [])
        assert here.store.questions == questions + 2
        assert list(there.shelf.withdrawn()) == [ID]

    run(story)


def test_a_store_that_has_lost_its_past_is_believed() -> None:
    """A backup was put back: what is not in it is not published."""

    async def story(it: Instance) -> None:
        await it.publish(text())
        await it.publish(text("1.0.1"))
        await it.shelf.catch_up()
        it.store.kept, it.store.revision = {}, 1
        await it.shelf.catch_up()

        assert dict(it.shelf.apps()) == {}

    run(story)

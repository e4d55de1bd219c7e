"""What a control plane offers over MCP: agents and published apps in one catalogue, kept in step with both."""

import asyncio
import json
from collections.abc import Coroutine
from functools import partial
from io import BytesIO
from typing import Any, final

import pytest
from msgspec.structs import replace
from tests.actions.fakes import HandClock, MemoryApps, MemoryStore
from tests.gateways import web_app
from tests.journeys.waiting import wait_until
from tests.servers import registration

from switchboard.actions.directory import Directory
from switchboard.actions.life import Life
from switchboard.actions.offer import Offer
from switchboard.actions.publish import Publish
from switchboard.actions.register import Newcomer, Register
from switchboard.actions.shelf import Shelf
from switchboard.actions.store_ports import Identified
from switchboard.catalog.errors import NotFound, UnknownApp
from switchboard.catalog.model import App, Caller
from switchboard.control_plane import read_stored
from switchboard.descriptors import agent as agents
from switchboard.descriptors import publishing
from switchboard.security.rules import AllowRules
from switchboard.telemetry.logs import Log

BEFORE_ALL = 200


@final
class Named(Identified):
    """A store with an id."""

    @property
    def id(self) -> str:
        """Its id."""
        return "s1"


class Place:
    """The actions of one instance, and what it offers."""

    def __init__(self, store: MemoryStore | None = None, *, is_shared: bool = False) -> None:
        self.store, self.clock = store or MemoryStore(), HandClock()
        self.directory = Directory(self.store, self.clock, read_stored)
        self.life = Life(self.directory, self.store, self.clock)
        self.directory.listen(self.life.remember)
        self.register = Register(self.store, self.directory, self.life, self.clock)
        apps = MemoryApps()
        read = partial(publishing.read, loopback=False)
        self.shelf = Shelf(apps, self.clock, read)
        self.publish = Publish(apps, self.shelf, self.clock, read, gate=AllowRules({}), log=Log(BytesIO()))
        self.written: list[str] = []
        self.told = 0
        self.offer = Offer(
            self.directory, self.shelf, Named(), states=self.life.state, describe=self._describe, is_shared=is_shared
        )
        self.offer.listen(self._tell)

    async def add(self, agent_id: str, name: str = "think") -> None:
        """Register an agent with one reasoner."""
        found = agents.read(json.dumps(registration(agent_id, {name: []})).encode())
        await self.register.register(Newcomer(agent=found.agent, said="ready", heartbeat_s=2.0))

    async def put(self, app_id: str, version: str = "1.0.0") -> bytes:
        """Publish an app, and return its descriptor."""
        raw = json.dumps(web_app(app_id, f"https://{app_id}.example", version=version)).encode()
        await self.publish.publish(app_id, raw, Caller("ann"))
        return raw

    def apps(self) -> dict[str, App]:
        """Return everything that is offered."""
        return dict(self.offer.current().apps.items())

    def _describe(self, app: App) -> bytes:
        self.written.append(app.id)
        return b"{}"

    def _tell(self) -> None:
        self.told += 1


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 30))


def test_agents_and_published_apps_are_one_catalogue() -> None:
    """Agents as apps of their store, with how they are and since when."""

    async def story() -> None:
        place = Place()
        await place.add("a")
        await place.put("com.example.shop")
        found = place.apps()
        assert sorted(found) == ["a", "com.example.shop"]
        assert (found["a"].platform, found["a"].origin, found["a"].capabilities[0].id) == (
            "agent",
            "agents:s1",
            "think",
        )
        standing = found["a"].standing
        assert standing is not None
        assert (standing.health, standing.since, standing.reason) == ("active", 1000.0, "registered")
        assert [(one.source, one.status, one.apps) for one in place.offer.readiness()] == [
            ("agents", "ready", 1),
            ("published apps", "ready", 1),
        ]

    run(story())


def test_every_change_is_there_at_the_next_look() -> None:
    """Agents that come, change, fall ill and go; apps that are published, again, and withdrawn."""

    async def story() -> None:
        place = Place()
        assert place.apps() == {}
        await place.add("a")
        assert place.apps()["a"].capabilities[0].id == "think"
        await place.add("a", "plan")
        assert place.apps()["a"].capabilities[0].id == "plan"
        place.clock.time += 5
        place.life.goodbye("a", "done")
        standing = place.apps()["a"].standing
        assert standing is not None
        assert (standing.health, standing.since) == ("inactive", 1005.0)
        await place.register.remove("a", Caller("anonymous"))
        await place.put("b")
        assert sorted(place.apps()) == ["b"]
        raw = await place.put("b", "1.1.0")
        assert place.apps()["b"].version == "1.1.0"
        assert await place.offer.published(place.apps()["b"]) == raw
        gone = place.apps()["b"]
        await place.publish.withdraw("b", Caller("ann"))
        assert place.apps() == {}
        with pytest.raises(NotFound):
            await place.offer.published(gone)

    run(story())


def test_an_agent_comes_before_an_app_of_its_id() -> None:
    """Whichever was there first; when it goes, the app is there, as it is then."""

    async def story() -> None:
        place = Place()
        await place.put("twice")
        await place.add("twice")
        assert place.apps()["twice"].platform == "agent"
        await place.put("twice", "1.1.0")
        assert place.apps()["twice"].platform == "agent"
        await place.register.remove("twice", Caller("anonymous"))
        assert (place.apps()["twice"].platform, place.apps()["twice"].version) == ("web", "1.1.0")

    run(story())


def test_a_change_of_one_agent_makes_one_app_and_leaves_the_others_as_they_are() -> None:
    """Whatever their number: everything else is the same object as before."""

    async def story() -> None:
        place = Place()
        for number in range(BEFORE_ALL):
            await place.add(f"a{number}")
        before = place.apps()
        place.life.goodbye("a7", "done")
        after = place.apps()
        assert [app_id for app_id in after if after[app_id] is not before[app_id]] == ["a7"]

    run(story())


def test_a_catalogue_that_begins_anew_is_taken_over_whole() -> None:
    """As after a backup: what the store has then is what there is."""

    async def story() -> None:
        place = Place()
        await place.add("a")
        await place.add("b")
        await place.directory.look_again()
        assert sorted(place.apps()) == ["a", "b"]
        place.store.agents = {"b": replace(place.store.agents["b"], revision=1)}
        place.store.revision = 1
        await place.directory.look_again()
        assert sorted(place.apps()) == ["b"]

    run(story())


def test_changes_that_come_together_are_told_as_one() -> None:
    """A deployment registers hundreds; who listens asks for the list once."""

    async def story() -> None:
        place = Place()
        for number in range(50):
            await place.add(f"a{number}")
        await asyncio.to_thread(wait_until, lambda: place.told == 1)
        await place.add("last")
        await asyncio.to_thread(wait_until, lambda: place.told == 2)

    run(story())


def test_what_another_instance_has_taken_in_is_asked_for() -> None:
    """Where others share the store, nobody is unknown before it was asked."""

    async def story() -> None:
        store = MemoryStore()
        here, there = Place(store, is_shared=True), Place(store, is_shared=True)
        await there.add("a")
        assert (here.apps(), here.offer.is_settled) == ({}, False)
        await here.offer.settled(1)
        assert sorted(here.apps()) == ["a"]

    run(story())


def test_a_site_is_known_only_if_an_app_that_calls_it_is_published() -> None:
    """Nothing is fetched from here."""

    async def story() -> None:
        place = Place()
        await place.put("shop")
        found = await place.offer.at("https://shop.example")
        assert (found.app.id, found.origin) == ("shop", "shop")
        with pytest.raises(UnknownApp, match="asks no web sites"):
            await place.offer.at("https://other.example")

    run(story())

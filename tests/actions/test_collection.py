"""The apps of a gateway: who wins, when somebody is told, and that no source can keep the others."""

import asyncio
from contextlib import suppress
from typing import final

from tests.builders import app

from switchboard.actions.collection import Collection
from switchboard.actions.ports import Source
from switchboard.catalog.findings import Finding
from switchboard.catalog.model import App

PATIENCE_S = 30


@final
class Given(Source):
    """Says what a test gave it, after the gate has opened; fails when told to."""

    def __init__(self, label: str, *apps: App) -> None:
        self.label = label
        self.apps = apps
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0
        self.failure: Exception | None = None

    async def load(self) -> tuple[Finding, ...]:
        """Answer."""
        self.asked += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return tuple(
            Finding(source=self.label, location=f"/{self.label}/{app.id}/aai.json", app=app) for app in self.apps
        )


def ids(collection: Collection) -> list[str]:
    return sorted(collection.current().apps)


def test_an_earlier_source_wins_whoever_answers_first() -> None:
    """The loser stays in the findings, with a reason."""

    async def story() -> None:
        own, system = Given("own", app("com.a.a", "own")), Given("system", app("com.a.a", "system"), app("com.b.b"))
        collection = Collection([own, system])
        await collection.load(system)
        before = collection.current().apps["com.a.a"].capabilities[0].id
        await collection.load(own)

        assert (before, collection.current().apps["com.a.a"].capabilities[0].id) == ("system", "own")
        assert ids(collection) == ["com.a.a", "com.b.b"]
        lost = [finding for finding in collection.findings if not finding.usable]
        assert [(finding.source, finding.problems[0].kind) for finding in lost] == [("system", "conflict")]

    asyncio.run(story())


def test_a_change_is_told_only_when_the_apps_are_different() -> None:
    """A source that says the same again, or loses a conflict, changes nothing; that it is ready is told once."""

    async def story() -> None:
        first, second = Given("first", app("com.a.a")), Given("second")
        collection = Collection([first, second])
        told: list[int] = []
        collection.listen(lambda: told.append(collection.current().version))
        await collection.load()
        await collection.load()
        second.apps = (app("com.a.a", "tool"),)
        await collection.load(second)
        first.apps = (app("com.a.a", "new"),)
        await collection.load(first)
        first.apps = ()
        await collection.load(first)
        second.apps = ()
        await collection.load(second)

        assert told == [1, 1, 2, 3, 4]
        assert ids(collection) == []

    asyncio.run(story())


def test_whoever_is_told_sees_a_collection_that_knows_whether_it_is_complete() -> None:
    """The state is set before anybody hears of it."""

    async def story() -> None:
        source = Given("only", app("com.a.a"))
        collection = Collection([source])
        seen: list[tuple[bool, bool, list[str]]] = []
        collection.listen(lambda: seen.append((collection.is_complete, collection.is_settled, ids(collection))))
        await collection.load()

        assert seen == [(True, True, ["com.a.a"])]

    asyncio.run(story())


def test_it_is_complete_when_every_source_has_answered_once() -> None:
    """A slow one keeps nobody from being seen, and waiting for it has a limit."""

    async def story() -> None:
        quick, slow = Given("quick", app("com.a.a")), Given("slow", app("com.b.b"))
        slow.gate.clear()
        collection = Collection([quick, slow])
        loading = asyncio.create_task(collection.load())
        complete_in_no_time = await collection.complete(0.0)
        await collection.load(quick)
        early = (ids(collection), collection.is_complete, collection.is_settled)
        slow.gate.set()
        complete = await collection.complete(PATIENCE_S)
        await loading

        assert early == (["com.a.a"], False, False)
        assert (complete_in_no_time, complete, ids(collection)) == (False, True, ["com.a.a", "com.b.b"])

    asyncio.run(story())


def test_it_is_settled_when_nobody_expects_more() -> None:
    """Several may be fetching at once, before and after the first look; one that fails has ended too."""

    async def story() -> None:
        collection = Collection([Given("only")])
        states: list[bool] = []
        with collection.expecting_more():
            await collection.load()
            states.append(collection.is_settled)
            with suppress(RuntimeError), collection.expecting_more():
                raise RuntimeError
            states.append(collection.is_settled)
            in_no_time = await collection.settled(0.0)
        states.append(collection.is_settled)
        with collection.expecting_more():
            states.append(collection.is_settled)

        assert (states, in_no_time) == ([False, False, True, False], False)
        assert await collection.settled(PATIENCE_S)

    asyncio.run(story())


def test_who_waits_for_more_is_woken_when_it_is_there() -> None:
    """Not only when the time is over."""

    async def story() -> None:
        collection = Collection([Given("only")])
        await collection.load()
        with collection.expecting_more():
            waiting = asyncio.create_task(collection.settled(PATIENCE_S))
            await asyncio.sleep(0)

        assert await waiting

    asyncio.run(story())


def test_a_source_that_fails_is_a_finding_and_keeps_nobody() -> None:
    """The collection is complete, the others are there, and the reason can be read."""

    async def story() -> None:
        broken, fine = Given("broken", app("com.a.a")), Given("fine", app("com.b.b"))
        broken.failure = ValueError("secret text")
        collection = Collection([broken, fine])
        await collection.load()

        assert (collection.is_complete, collection.is_settled, ids(collection)) == (True, True, ["com.b.b"])
        (finding,) = [finding for finding in collection.findings if not finding.usable]
        assert (finding.source, finding.location) == ("given", "<Given>")
        assert str(finding.problems[0]) == "$: cannot be looked at: ValueError"

    asyncio.run(story())


def test_a_source_that_fails_later_keeps_what_it_said() -> None:
    """Apps do not vanish because a disk was busy; that it is, and that it works again, is told."""

    async def story() -> None:
        source = Given("source", app("com.a.a"))
        collection = Collection([source])
        told: list[None] = []
        await collection.load()
        collection.listen(lambda: told.append(None))
        source.failure = OSError()
        await collection.load()
        during = (ids(collection), len(collection.findings))
        source.failure = None
        await collection.load()

        assert (during, ids(collection), len(collection.findings)) == ((["com.a.a"], 2), ["com.a.a"], 1)
        assert len(told) == 2

    asyncio.run(story())


def test_a_source_is_never_asked_twice_at_once() -> None:
    """The second look begins when the first has ended, so that the newest one stays."""

    async def story() -> None:
        source = Given("source", app("com.a.a"))
        source.gate.clear()
        collection = Collection([source])
        looks = [asyncio.create_task(collection.load()) for _ in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asked_at_once = source.asked
        source.gate.set()
        await asyncio.gather(*looks)

        assert (asked_at_once, source.asked) == (1, 3)

    asyncio.run(story())


def test_a_look_that_is_given_up_leaves_the_source_usable() -> None:
    """Whoever cancels a look does not lock out the next."""

    async def story() -> None:
        source = Given("source", app("com.a.a"))
        source.gate.clear()
        collection = Collection([source])
        look = asyncio.create_task(collection.load())
        await asyncio.sleep(0)
        look.cancel()
        await asyncio.gather(look, return_exceptions=True)
        source.gate.set()
        await collection.load()

        assert ids(collection) == ["com.a.a"]

    asyncio.run(story())


def test_without_sources_there_is_nothing_to_wait_for() -> None:
    """It is complete from the beginning."""

    async def story() -> None:
        collection = Collection([])
        await collection.load()

        assert collection.is_complete
        assert collection.is_settled

    asyncio.run(story())

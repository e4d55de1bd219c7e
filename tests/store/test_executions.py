"""What every store of executions promises: the same suite runs over all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.actions.fakes import MemoryExecutions
from tests.store.stores import KINDS, maker

from switchboard.actions.store_ports import ExecutionStore, Note
from switchboard.catalog.bindings import Json
from switchboard.catalog.executions import Ended, EndStatus, Execution, Webhook
from switchboard.store.notes import LARGEST_NOTE, MOST_NOTES

Story = Callable[[ExecutionStore], Awaitable[None]]
Tell = Callable[[Story], None]


def execution(execution_id: str, key: str | None = None, *, caller: str = "ann", at: float = 1.0) -> Execution:
    return Execution(
        id=execution_id,
        run_id="run",
        agent_id="agent",
        kind="reasoner",
        capability="think",
        caller=caller,
        input=Json(b'{"x":1}'),
        idempotency_key=key,
        created_at=at,
    )


def end(status: EndStatus = "succeeded", at: float = 9.0) -> Ended:
    return Ended(status=status, at=at, result=Json(b'{"y":2}'))


def note(execution_id: str, at: float, text: str = "") -> Note:
    return Note(execution_id=execution_id, kind="note", at=at, content=Json(msgspec.json.encode(text)))


@pytest.fixture(params=[*KINDS, "memory"])
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Tell:
    """Let a story happen to a store of each kind."""
    if request.param == "memory":
        return lambda story: asyncio.run(_told(story, MemoryExecutions()))
    make = maker(request.param, request, tmp_path)

    async def stored(story: Story) -> None:
        store = make()
        await store.open()
        try:
            await story(store.executions)
        finally:
            await store.close()

    return lambda story: asyncio.run(stored(story))


async def _told(story: Story, store: ExecutionStore) -> None:
    await story(store)


def test_what_was_accepted_comes_back_whole(tell: Tell) -> None:
    """Every field, also those that most do not have."""
    full = Execution(
        id="full",
        run_id="run",
        parent_id="parent",
        agent_id="agent",
        kind="skill",
        capability="look",
        caller="ann \N{SNOWMAN} o'hara",
        input=Json(b'{"\xe2\x98\x83":[null,1.5]}'),
        context=(("X-Session", "s"), ("X-Session", "t")),
        webhook=Webhook(url="https://example.com/hook", secret="s", headers=(("A", "b"),)),  # noqa: S106 - a field
        idempotency_key="",
        status="running",
        created_at=1.25,
        handed_at=2.5,
        acknowledged_at=3.5,
        instance_id="i",
    )

    async def story(store: ExecutionStore) -> None:
        accepted = [await store.accept(full), await store.accept(execution("plain"))]

        assert accepted == [full, execution("plain")]
        assert await store.executions(["plain", "none", "full", "full"]) == {
            "full": full,
            "plain": execution("plain"),
        }
        assert await store.executions([]) == {}

    tell(story)


def test_one_that_has_ended_already_is_remembered_with_its_end(tell: Tell) -> None:
    """A synchronous execution is written down after the fact."""
    ended = Ended(
        status="failed",
        at=4.0,
        result=Json(b""),
        error="it broke",
        error_details=Json(b'{"code":"X"}'),
        reason="agent_error",
        http_status=500,
    )
    done = replace(execution("done"), status="failed", ended=ended)

    async def story(store: ExecutionStore) -> None:
        await store.accept(done)

        assert await store.executions(["done"]) == {"done": done}
        assert await store.unfinished() == []
        assert await store.settle("done", end()) == (done, False)

    tell(story)


def test_a_key_is_accepted_once_for_each_caller(tell: Tell) -> None:
    """Asking again brings what the first became, whatever is asked; without a key every execution is new."""

    async def story(store: ExecutionStore) -> None:
        await store.accept(execution("first", "key"))
        await store.hand("first", 2.0, "i")
        again = await store.accept(execution("second", "key"))
        other = await store.accept(execution("third", "key", caller="bob"))
        without = [await store.accept(execution(name)) for name in ("fourth", "fifth")]

        assert (again.id, again.status, other.id) == ("first", "running", "third")
        assert [found.id for found in without] == ["fourth", "fifth"]
        assert "second" not in await store.executions(["second"])

    tell(story)


def test_of_many_that_accept_the_same_key_at_once_one_wins(tell: Tell) -> None:
    """All of them are told of the same execution."""

    async def story(store: ExecutionStore) -> None:
        asked = [execution(f"{key}-{number}", key) for number in range(40) for key in ("a", "b")]
        accepted = await asyncio.gather(*(store.accept(each) for each in asked))

        assert sorted({each.id[0] for each in accepted}) == ["a", "b"]
        assert len({each.id for each in accepted}) == 2
        assert all(each.idempotency_key == each.id[0] for each in accepted)
        assert len(await store.unfinished()) == 2

    tell(story)


def test_a_key_is_free_again_when_its_execution_is_forgotten(tell: Tell) -> None:
    """Ended is not enough: the key still brings the end."""

    async def story(store: ExecutionStore) -> None:
        await store.accept(execution("first", "key"))
        await store.settle("first", end())
        ended = await store.accept(execution("second", "key"))
        await store.forget(100.0, 10)
        fresh = await store.accept(execution("third", "key"))

        assert (ended.id, ended.ended, fresh.id) == ("first", end(), "third")

    tell(story)


def test_an_id_is_accepted_once(tell: Tell) -> None:
    """Who could not know that he was heard may ask again, and changes nothing."""

    async def story(store: ExecutionStore) -> None:
        await store.accept(execution("a"))
        await store.hand("a", 2.0, "i")
        again = await store.accept(execution("a", "key"))

        assert (again.status, again.idempotency_key) == ("running", None)

    tell(story)


def test_only_a_queued_execution_is_handed_over_and_only_once(tell: Tell) -> None:
    """Not one that is running, has ended or is unknown; of many at once one may."""

    async def story(store: ExecutionStore) -> None:
        for name in ("a", "cancelled"):
            await store.accept(execution(name))
        await store.settle("cancelled", end("cancelled"))
        may = await asyncio.gather(*(store.hand("a", float(number), f"i{number}") for number in range(2, 12)))

        assert sorted(may) == [False] * 9 + [True]
        assert not await store.hand("cancelled", 2.0, "i")
        assert not await store.hand("unknown", 2.0, "i")
        found = (await store.executions(["a"]))["a"]
        winner = may.index(True) + 2
        assert (found.status, found.handed_at, found.instance_id) == ("running", float(winner), f"i{winner}")

    tell(story)


def test_who_says_once_more_that_he_hands_over_at_that_moment_is_told_yes_again(tell: Tell) -> None:
    """The answer may have been lost; but not after its end, and nobody who says it of another moment."""

    async def story(store: ExecutionStore) -> None:
        await store.accept(execution("a"))
        said = [await store.hand("a", at, agent) for at, agent in ((2.5, "i"), (2.5, "j"), (2.25, "k"))]

        assert said == [True, True, False]
        found = (await store.executions(["a"]))["a"]
        assert (found.status, found.handed_at, found.instance_id) == ("running", 2.5, "j")
        await store.settle("a", end())
        assert not await store.hand("a", 2.5, "i")

    tell(story)


def test_that_the_agent_is_at_work_is_noted_once_and_only_while_it_can_be(tell: Tell) -> None:
    """Not before it was handed over, not after its end; of an unknown one nothing is noted."""

    async def story(store: ExecutionStore) -> None:
        for name in ("working", "queued", "ended"):
            await store.accept(execution(name))
        for name in ("working", "ended"):
            await store.hand(name, 2.0, "i")
        await store.settle("ended", end())
        for at in (3.0, 4.0):
            for name in ("working", "queued", "ended", "unknown"):
                await store.acknowledge(name, at)

        found = await store.executions(["working", "queued", "ended", "unknown"])
        assert {name: each.acknowledged_at for name, each in found.items()} == {
            "working": 3.0,
            "queued": None,
            "ended": None,
        }
        assert found["working"].status == "running"

    tell(story)


@pytest.mark.parametrize("handed", [False, True])
def test_the_first_end_wins(tell: Tell, *, handed: bool) -> None:
    """Also of one that was never sent; everybody is told what it is, and one that it is its doing."""

    async def story(store: ExecutionStore) -> None:
        await store.accept(execution("a"))
        if handed:
            await store.hand("a", 2.0, "i")
        ends = [Ended(status="cancelled", at=5.0, error="no", reason="cancelled"), end(), end("failed")]
        told = await asyncio.gather(*(store.settle("a", each) for each in ends))

        assert sorted(won for _, won in told) == [False, False, True]
        first = ends[[won for _, won in told].index(True)]
        after = (await store.executions(["a"]))["a"]
        assert [each for each, _ in told] == [after] * 3
        assert (after.status, after.ended, after.handed_at) == (first.status, first, 2.0 if handed else None)
        assert not await store.hand("a", 6.0, "j")

    tell(story)


def test_the_end_of_an_unknown_execution_is_nobodys(tell: Tell) -> None:
    """It does not make one."""

    async def story(store: ExecutionStore) -> None:
        assert await store.settle("unknown", end()) == (None, False)
        assert await store.executions(["unknown"]) == {}

    tell(story)


def test_the_unfinished_come_oldest_first(tell: Tell) -> None:
    """By when they were made; those of the same moment in the order they were accepted."""

    async def story(store: ExecutionStore) -> None:
        for name, at in (("late", 3.0), ("b", 2.0), ("a", 2.0), ("early", 1.0), ("ended", 0.0)):
            await store.accept(execution(name, at=at))
        await store.hand("b", 4.0, "i")
        await store.settle("ended", end())

        assert [each.id for each in await store.unfinished()] == ["early", "b", "a", "late"]

    tell(story)


def test_notes_come_oldest_first_and_only_those_of_the_execution(tell: Tell) -> None:
    """Also about an execution that is not here yet; those of the same moment in the order they came."""

    async def story(store: ExecutionStore) -> None:
        await store.add_notes([note("a", 2.0, "x"), note("b", 1.0), note("a", 2.0, "y")])
        await store.add_notes([note("a", 1.0, "z")])
        await store.add_notes([])
        await store.accept(execution("a"))

        assert await store.notes("a") == [note("a", 1.0, "z"), note("a", 2.0, "x"), note("a", 2.0, "y")]
        assert await store.notes("c") == []

    tell(story)


def test_of_too_many_notes_the_oldest_go_first(tell: Tell) -> None:
    """And only those of the execution that has too many."""

    async def story(store: ExecutionStore) -> None:
        await store.add_notes([note("b", 0.0)])
        await store.add_notes([note("a", float(number)) for number in range(MOST_NOTES)])
        await store.add_notes([note("a", float(MOST_NOTES)), note("a", -1.0)])

        assert [each.at for each in await store.notes("a")] == [float(number + 1) for number in range(MOST_NOTES)]
        assert len(await store.notes("b")) == 1

    tell(story)


@pytest.mark.parametrize("character", ["x", '"', "\N{SNOWMAN}", "\n"])
def test_a_note_that_is_too_large_is_cut_off_and_says_so(tell: Tell, character: str) -> None:
    """What is kept is still JSON, and not larger than allowed."""
    whole = note("a", 1.0, "x" * (LARGEST_NOTE - 2))
    large = note("a", 2.0, character * LARGEST_NOTE)

    async def story(store: ExecutionStore) -> None:
        await store.add_notes([whole, large])
        kept, cut = await store.notes("a")

        assert kept == whole
        assert len(cut.content) <= LARGEST_NOTE
        said = msgspec.json.decode(cut.content)
        assert (said["truncated"], said["bytes"]) == (True, len(large.content))
        assert large.content.decode().startswith(said["beginning"])

    tell(story)


def test_what_ended_long_ago_is_forgotten_in_batches(tell: Tell) -> None:
    """The oldest ends first, with their notes; what has not ended or ended later stays."""

    async def story(store: ExecutionStore) -> None:
        for name, at in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("late", 9.0)):
            await store.accept(execution(name))
            await store.settle(name, end(at=at))
        await store.accept(execution("open", at=0.0))
        await store.add_notes([note(name, 10.0) for name in ("a", "c", "open")])
        names = ["a", "b", "c", "late", "open"]

        assert await store.forget(9.0, 0) == 0
        assert await store.forget(9.0, 2) == 2
        assert sorted(await store.executions(names)) == ["c", "late", "open"]
        assert [await store.forget(9.0, 2) for _ in range(2)] == [1, 0]
        assert sorted(await store.executions(names)) == ["late", "open"]
        assert [len(await store.notes(name)) for name in ("a", "c", "open")] == [0, 0, 1]

    tell(story)


@pytest.mark.parametrize("kind", KINDS)
def test_notes_about_executions_that_never_came_are_forgotten_as_fast_as_they_come(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Whoever goes on while there is more goes on for notes alone, too."""
    make = maker(kind, request, tmp_path)

    async def story() -> None:
        store = make()
        await store.open()
        await store.executions.add_notes([note(f"never-{number}", 1.0) for number in range(5)])
        await store.executions.accept(execution("a"))
        await store.executions.settle("a", end(at=1.0))
        try:
            assert [await store.executions.forget(5.0, 2) for _ in range(4)] == [2, 2, 1, 0]
        finally:
            await store.close()

    asyncio.run(story())


def test_old_notes_about_executions_that_never_came_are_forgotten(tell: Tell) -> None:
    """Otherwise nobody ever would; those of an execution without an end stay, however old."""

    async def story(store: ExecutionStore) -> None:
        await store.accept(execution("open"))
        await store.add_notes([note("never", 1.0), note("never", 5.0), note("open", 1.0)])
        await store.forget(5.0, 10)

        assert [each.at for each in await store.notes("never")] == [5.0]
        assert len(await store.notes("open")) == 1

    tell(story)

"""Ends: told once, also to whoever begins to wait later; and the memory of the last ones."""

import asyncio

import pytest

from switchboard.actions.ends import Ends, Recent
from switchboard.catalog.bindings import Json
from switchboard.catalog.executions import Ended, Execution

DONE = Ended(status="succeeded", at=1.0)
LATE = Ended(status="failed", at=2.0)


def execution(execution_id: str, size: int = 0) -> Execution:
    return Execution(
        id=execution_id,
        run_id="run",
        agent_id="a",
        kind="skill",
        capability="s",
        caller="tester",
        input=Json(b"x" * size),
        created_at=1.0,
        ended=DONE,
    )


def test_an_end_that_comes_before_anybody_waits_is_not_lost_and_the_first_counts() -> None:
    """A report can be faster than the answer that promises it."""

    async def story() -> None:
        ends = Ends()
        ends.expect("e")
        ends.tell("e", DONE)
        ends.tell("e", LATE)

        assert await ends.end_of("e") is DONE

    asyncio.run(story())


def test_whoever_waits_is_told() -> None:
    """And nobody else."""

    async def story() -> None:
        ends = Ends()
        waiting = asyncio.create_task(ends.end_of("e"))
        await asyncio.sleep(0)
        ends.tell("other", LATE)
        ends.tell("e", DONE)

        assert await waiting is DONE

    asyncio.run(story())


def test_what_is_forgotten_is_not_waited_for_any_more() -> None:
    """An end that nobody expects is nobody's business."""

    async def story() -> None:
        ends = Ends()
        waiting = asyncio.create_task(ends.end_of("e"))
        await asyncio.sleep(0)
        ends.forget("e")
        ends.forget("e")
        ends.tell("e", DONE)

        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(story())


def test_an_acknowledgement_reaches_whoever_notes_it() -> None:
    """Without anybody it is no error."""

    async def story() -> None:
        ends, noted = Ends(), list[str]()

        async def note(call_id: str) -> None:
            noted.append(call_id)

        await ends.acknowledged("early")
        ends.on_acknowledge(note)
        await ends.acknowledged("e")

        assert noted == ["e"]

    asyncio.run(story())


def test_the_oldest_of_too_many_is_forgotten() -> None:
    """One that ends a second time is young again."""
    recent = Recent(most=2)
    for name in ("a", "b", "a", "c"):
        recent.add(execution(name))

    assert [name for name in "abc" if recent.get(name) is not None] == ["a", "c"]


def test_large_ones_do_not_fill_the_memory() -> None:
    """What they bring is counted; the newest stays, however large it is."""
    recent = Recent(largest=100)
    for name, size in (("a", 40), ("b", 40), ("c", 40), ("c", 50)):
        recent.add(execution(name, size))
    kept = [name for name in "abc" if recent.get(name) is not None]
    recent.add(execution("d", 1000))

    assert kept == ["b", "c"]
    assert (len(recent), recent.get("d") is not None) == (1, True)

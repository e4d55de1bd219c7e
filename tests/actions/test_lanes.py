"""Lanes: so many at once, callers in turn, and room that comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.actions.lanes import Lane
from switchboard.catalog.errors import ServiceUnavailable

Wishes = st.lists(st.sampled_from("abc"), max_size=30)


def numbered(lane: Lane[str], callers: str) -> None:
    for number, caller in enumerate(callers):
        lane.add(caller, f"{caller}{number}")


def test_a_flood_of_one_caller_does_not_keep_the_others_waiting() -> None:
    """Callers take turns; each one's own order stays."""
    lane = Lane[str](at_once=100, most_waiting=100)
    numbered(lane, "aaaabbc")

    assert [lane.next() for _ in range(8)] == ["a0", "b4", "c6", "a1", "b5", "a2", "a3", None]


def test_only_so_many_run_at_once() -> None:
    """The next begins when one has ended."""
    lane = Lane[str](at_once=1, most_waiting=100)
    numbered(lane, "ab")

    assert (lane.next(), lane.next()) == ("a0", None)
    lane.ended()
    assert lane.next() == "b1"
    lane.ended()
    assert lane.is_idle


def test_a_full_lane_says_so_until_something_begins_or_is_dropped() -> None:
    """What waits is counted, not what runs."""
    lane = Lane[str](at_once=1, most_waiting=2)
    numbered(lane, "aa")
    with pytest.raises(ServiceUnavailable):
        lane.require_room()

    lane.drop("a", "a1")
    lane.require_room()
    lane.add("b", "b2")
    lane.next()
    lane.require_room()


def test_what_was_dropped_never_begins() -> None:
    """Dropping what is not there changes nothing."""
    lane = Lane[str](at_once=9, most_waiting=9)
    numbered(lane, "aab")
    lane.drop("a", "a0")
    lane.drop("a", "a0")
    lane.drop("b", "b2")
    lane.drop("nobody", "x")

    assert [lane.next(), lane.next()] == ["a1", None]


@given(Wishes, st.integers(1, 5), st.data())
def test_everything_that_is_not_dropped_begins_exactly_once(
    callers: list[str], at_once: int, data: st.DataObject
) -> None:
    """Whatever is added, dropped and ended, in whatever order; never more than allowed at once."""
    lane = Lane[str](at_once=at_once, most_waiting=1000)
    numbered(lane, "".join(callers))
    every = [f"{caller}{number}" for number, caller in enumerate(callers)]
    dropped = data.draw(st.sets(st.sampled_from(every))) if every else set[str]()
    for name in dropped:
        lane.drop(name[0], name)
    begun: list[str] = []
    while not lane.is_idle:
        while (work := lane.next()) is not None:
            begun.append(work)
        assert lane.running <= at_once
        lane.ended()

    assert sorted(begun) == sorted(set(every) - dropped)
    for caller in "abc":
        own = [name for name in begun if name[0] == caller]
        assert own == sorted(own, key=lambda name: int(name[1:]))

"""The state machine of life: who is active, degraded, inactive or unknown, when and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.catalog import health
from switchboard.catalog.health import Said, State, beating, leasing, registered

TWO_SECONDS = beating(2.0)


def fresh(said: Said = "ready") -> State:
    return registered(said, TWO_SECONDS, 100.0)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("starting", "unknown"), ("ready", "active"), ("degraded", "degraded"), ("offline", "active")],
)
def test_registering_decides_the_first_state(said: Said, expected: str) -> None:
    """An agent that registers is there, even if it was offline before."""
    assert fresh(said).health == expected


def test_an_agent_that_starts_is_active_from_its_first_heartbeat() -> None:
    """With the reason and the time of it."""
    state = health.beat(fresh("starting"), "ready", 105.0)

    assert (state.health, state.reason, state.since) == ("active", "first heartbeat", 105.0)


def test_a_killed_agent_is_degraded_after_two_missed_beats_and_inactive_after_its_lease() -> None:
    """A heartbeat of two seconds: five, and ten."""
    state = fresh()

    assert health.silent(state, 4.9, 104.9) is state
    degraded = health.silent(state, 5.1, 105.1)
    assert (degraded.health, degraded.reason) == ("degraded", "two signs of life missing, expected every 2 s")
    assert health.silent(degraded, 9.9, 109.9) is degraded
    gone = health.silent(degraded, 10.1, 110.1)
    assert (gone.health, gone.reason, gone.since) == ("inactive", "silent for its lease of 10 s", 110.1)
    assert health.silent(gone, 1000, 1100.0) is gone


def test_a_lease_of_five_minutes_is_honoured() -> None:
    """An agent that renews every two minutes is well all the time."""
    state = registered("ready", leasing(), 0.0)

    assert health.silent(state, 125, 125.0) is state
    assert health.silent(state, 299, 299.0).health == "degraded"
    assert health.silent(state, 301, 301.0).health == "inactive"


def test_coming_back_takes_two_beats() -> None:
    """So that an uneven heartbeat does not flap."""
    degraded = health.silent(fresh(), 6, 106.0)

    once = health.beat(degraded, "ready", 107.0)
    assert once.health == "degraded"
    assert health.beat(once, "ready", 109.0).health == "active"
    interrupted = health.silent(once, 6, 113.0)
    assert health.beat(interrupted, "ready", 114.0).health == "degraded"
    gone = health.silent(fresh(), 60, 160.0)
    back = health.beat(gone, "ready", 161.0)
    assert (back.health, back.reason) == ("degraded", "coming back after silence")
    assert health.beat(back, "ready", 163.0).health == "active"


def test_what_an_agent_says_of_itself_counts_at_once() -> None:
    """Degraded, and well again."""
    ill = health.beat(fresh(), "degraded", 101.0)

    assert (ill.health, ill.reason) == ("degraded", "says it is degraded")
    assert health.beat(ill, "ready", 102.0).health == "active"
    assert health.beat(fresh(), "offline", 101.0).ended


def test_a_goodbye_is_final() -> None:
    """No late heartbeat brings it back."""
    ended = health.goodbye(fresh(), "shut down", 101.0)

    assert ended.health == "inactive"
    assert health.beat(ended, "ready", 102.0) is ended
    assert health.silent(ended, 1000, 1101.0) is ended
    assert health.goodbye(ended, "again", 103.0) is ended


def test_nothing_changes_while_all_is_well() -> None:
    """The same object, so that nobody writes anything."""
    state = fresh()

    assert health.beat(state, "ready", 102.0) is state


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("READY", "ready"), ("", "ready"), ("healthy", "ready"), ("stopping", "offline"), ("dancing", None)],
)
def test_words_of_sdks_are_understood(word: str, meaning: str | None) -> None:
    """Whatever their case."""
    assert health.said(word) == meaning


events = st.lists(
    st.sampled_from(["ready", "degraded", "starting", "offline"]) | st.floats(0, 100, allow_nan=False), max_size=20
)


@given(events, st.floats(0.5, 100), st.booleans())
def test_any_history_keeps_the_promises(history: list[str | float], interval: float, renews: bool) -> None:
    """Silence beyond the lease is inactive, a goodbye is final, and an active agent was heard of lately."""
    state = registered("ready", leasing() if renews else beating(interval), 0.0)
    for event in history:
        before = state
        if not isinstance(event, str):
            state = health.silent(state, event, 1.0)
            assert state.health != "active" or event <= state.rhythm.patience_s
            assert event <= state.rhythm.lease_s or state.health == "inactive"
        else:
            state = health.beat(state, health.said(event) or "ready", 1.0)
        assert not before.ended or state is before

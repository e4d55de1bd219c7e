"""Is an agent there? One state machine, from its own words and from its silence.

    unknown   it registered and says it is starting
    active    it said it is ready, or showed a first sign of life
    degraded  it says so itself, or two signs of life in a row are missing, or it is coming back from silence
    inactive  it said goodbye, or was silent for its whole lease

Going down takes two missed beats, coming back takes two beats in time: an agent with an uneven heartbeat does not
flap. A goodbye is final until the agent registers again. Times are passed in; nothing here knows a clock.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from switchboard.catalog.model import Health

DEFAULT_INTERVAL_S = 30.0
SHORTEST_LEASE_S = 10.0
GRANTED_LEASE_S = 300.0
_LEASE_IN_BEATS = 5
_MISSED_BEATS = 2.5
_RENEWALS_PER_LEASE = 2.5
_BEATS_TO_RECOVER = 2

Said = Literal["starting", "ready", "degraded", "offline"]


class Rhythm(Struct, frozen=True):
    """How often a sign of life is expected, and after how much silence an agent counts as gone."""

    interval_s: float = DEFAULT_INTERVAL_S
    lease_s: float = DEFAULT_INTERVAL_S * _LEASE_IN_BEATS

    @property
    def patience_s(self) -> float:
        """Silence after which two signs of life are missing."""
        return min(self.interval_s * _MISSED_BEATS, self.lease_s * 0.9)


class State(Struct, frozen=True, kw_only=True):
    """What is known of one agent's life: its health, why, and since when (seconds since 1970)."""

    health: Health
    reason: str
    since: float
    said: Said = "ready"
    rhythm: Rhythm = Rhythm()
    ended: bool = False
    recovering: int = 0
    """Beats in time since it fell silent; 0 while it is well or still silent."""


def beating(interval_s: float | None) -> Rhythm:
    """Return the rhythm of an agent that sends heartbeats this often."""
    interval = DEFAULT_INTERVAL_S if interval_s is None else min(max(interval_s, 0.5), 3600.0)
    return Rhythm(interval, max(SHORTEST_LEASE_S, interval * _LEASE_IN_BEATS))


def leasing(lease_s: float = GRANTED_LEASE_S) -> Rhythm:
    """Return the rhythm of an agent that renews a lease of this length."""
    return Rhythm(lease_s / _RENEWALS_PER_LEASE, lease_s)


def said(word: str) -> Said | None:
    """Read what an agent says of itself; None where it says nothing that is known."""
    match word.lower():
        case "starting":
            return "starting"
        case "ready" | "running" | "healthy" | "active" | "":
            return "ready"
        case "degraded" | "unhealthy":
            return "degraded"
        case "offline" | "stopping" | "stopped" | "inactive":
            return "offline"
        case _:
            return None


def registered(word: Said, rhythm: Rhythm, now: float) -> State:
    """Return the state right after a registration; an agent that registers is there, whatever was before."""
    match word:
        case "starting":
            return State(health="unknown", reason="registered, starting", since=now, said=word, rhythm=rhythm)
        case "degraded":
            return State(health="degraded", reason="says it is degraded", since=now, said=word, rhythm=rhythm)
        case _:
            return State(health="active", reason="registered", since=now, said="ready", rhythm=rhythm)


def beat(state: State, word: Said, now: float) -> State:
    """Return the state after a sign of life; the same object where nothing changed."""
    if state.ended:
        return state
    match word:
        case "offline":
            return goodbye(state, "says it is going offline", now)
        case "starting":
            return _moved(state, "unknown", "says it is starting", word, now)
        case "degraded":
            return _moved(state, "degraded", "says it is degraded", word, now)
        case "ready":
            return _ready(state, now)


def silent(state: State, seconds: float, now: float) -> State:
    """Return the state after that much silence; the same object where nothing changed."""
    if state.ended or state.health == "inactive":
        return state
    if seconds > state.rhythm.lease_s:
        reason = f"silent for its lease of {state.rhythm.lease_s:g} s"
        return replace(state, health="inactive", reason=reason, since=now, recovering=0)
    if seconds <= state.rhythm.patience_s:
        return state
    if state.health == "active":
        reason = f"two signs of life missing, expected every {state.rhythm.interval_s:g} s"
        return replace(state, health="degraded", reason=reason, since=now, recovering=0)
    return replace(state, recovering=0) if state.recovering else state


def with_rhythm(state: State, rhythm: Rhythm) -> State:
    """Return the same state under another rhythm: an agent may heartbeat first and renew leases later."""
    return replace(state, rhythm=rhythm)


def goodbye(state: State, reason: str, now: float) -> State:
    """Return the state after a clean shutdown."""
    if state.ended:
        return state
    return replace(state, health="inactive", reason=reason, since=now, said="offline", ended=True, recovering=0)


def _ready(state: State, now: float) -> State:
    fell_silent = state.said == "ready" and state.health in ("degraded", "inactive")
    if not fell_silent:
        reason = "first heartbeat" if state.health == "unknown" else "says it is ready"
        return _moved(state, "active", reason, "ready", now)
    if state.recovering + 1 >= _BEATS_TO_RECOVER:
        return replace(state, health="active", reason="heartbeats are back", since=now, recovering=0)
    if state.health == "inactive":
        return replace(state, health="degraded", reason="coming back after silence", since=now, recovering=1)
    return replace(state, recovering=state.recovering + 1)


def _moved(state: State, health: Health, reason: str, word: Said, now: float) -> State:
    if state.health == health and state.said == word:
        return state
    return replace(state, health=health, reason=reason, since=now, said=word, recovering=0)

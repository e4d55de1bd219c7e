"""One change of the catalogue, and what it is to somebody who asked a question.

A question sees an agent as discovery would: the catalogue of that agent alone is asked in the same way, so that both
always agree. Knows nothing of who watches, and of no wire.
"""

from msgspec import Struct

from switchboard.catalog.health import State
from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Match
from switchboard.catalog.snapshot import Snapshot

_NAMES_BYTES = 400
"""What a capability takes besides its texts, about."""


class Change(Struct, frozen=True, kw_only=True):
    """One agent that came, went or is not as it was, under the version of the snapshot it led to.

    `state` is why its health is what it is now.
    """

    version: int
    agent_id: str
    before: Agent | None
    after: Agent | None
    state: State | None = None

    @property
    def kept_bytes(self) -> int:
        """How much memory lives on only because somebody keeps this change, about."""
        old, new = self.before, self.after
        if old is None or (new is not None and new.capabilities is old.capabilities):
            return _NAMES_BYTES
        texts = (text for item in old.capabilities for text in (item.input_schema, item.output_schema, item.examples))
        return _NAMES_BYTES * (1 + len(old.capabilities)) + sum(len(text) for text in texts if text is not None)


class Gap(Struct, frozen=True):
    """Everything may be another: the snapshot of this version was not made from the one before."""

    version: int


class Seen(Struct, frozen=True):
    """What a question sees of a change: the agent as it matched before, and as it matches now."""

    before: Match | None
    after: Match | None


class Sides:
    """Both sides of a change, indexed once for however many questions are asked about it."""

    __slots__ = ("_after", "_before", "change")

    def __init__(self, change: Change) -> None:
        self.change = change
        self._before = _alone(change.before)
        self._after = _alone(change.after)

    def seen_by(self, query: Query) -> Seen:
        """Return what a question sees."""
        return Seen(_first(self._before, query), _first(self._after, query))


def match(agent: Agent, query: Query) -> Match | None:
    """Return what a question leaves of one agent; None where it is in no answer to it."""
    return _first(_alone(agent), query)


def _alone(agent: Agent | None) -> Snapshot:
    return Snapshot() if agent is None else Snapshot.of((agent,))


def _first(snapshot: Snapshot, query: Query) -> Match | None:
    return next(iter(snapshot.matches(query)), None)

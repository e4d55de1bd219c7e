"""What is remembered of agents and executions, and by whom it is shared: what a store has to be able to do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from switchboard.catalog.bindings import Json
from switchboard.catalog.executions import Ended, Execution
from switchboard.catalog.health import State


class StoredAgent(Struct, frozen=True, kw_only=True):
    """An agent as it is remembered; `registration` is None once it was removed."""

    id: str
    registration: Json | None
    state: State | None = None
    registered_at: float = 0.0
    seen_at: float = 0.0
    revision: int = 0


class Note(Struct, frozen=True, kw_only=True):
    """Something an agent said about an execution: a note, a line of its log, an event."""

    execution_id: str
    kind: str
    at: float
    content: Json


class ExecutionStore(Protocol):
    """What is remembered of executions. What a method has returned from is on disk.

    Raises (every method): ServiceUnavailable when the store does not answer; Unconfirmed when it may have done it.
    """

    async def accept(self, execution: Execution) -> Execution:
        """Remember a new execution, and return it; or the one that was accepted under its idempotency key before."""
        ...

    async def keyed(self, caller: str, idempotency_key: str) -> Execution | None:
        """Return what a caller's key was used for."""
        ...

    async def hand(self, execution_id: str, at: float, instance_id: str) -> bool:
        """Note that it is about to be sent; tell whether it may be: only one that is queued is, and only once.

        The same word of the same moment is one word, said again because the answer to it was lost.
        """
        ...

    async def is_ours(self, execution_id: str) -> bool:
        """Tell whether this instance looks after it, and not another that took it over."""
        ...

    async def acknowledge(self, execution_id: str, at: float) -> None:
        """Note that the agent is at work on it."""
        ...

    async def settle(self, execution_id: str, ended: Ended) -> tuple[Execution | None, bool]:
        """Note its end, unless it has one; return it as it then is, and whether this was its end."""
        ...

    async def executions(self, ids: Sequence[str]) -> Mapping[str, Execution]:
        """Return those of the named executions that are known."""
        ...

    async def ended(self, ids: Sequence[str]) -> Sequence[str]:
        """Return which of the named executions have ended."""
        ...

    async def unfinished(self) -> Sequence[Execution]:
        """Return every execution without an end, oldest first."""
        ...

    async def add_notes(self, notes: Sequence[Note]) -> None:
        """Remember what agents said, as much of it as is sensible: the oldest of one execution go first."""
        ...

    async def notes(self, execution_id: str) -> Sequence[Note]:
        """Return what was said about one execution, oldest first."""
        ...

    async def forget(self, ended_before: float, most: int) -> int:
        """Forget ended executions, and notes about none, from before a time; return how many of what was more."""
        ...


class Identified(Protocol):
    """Something that control planes may share, and by which they can be told to share it."""

    @property
    def id(self) -> str:
        """Its id: the same for everybody who uses it, for ever, and no other's."""
        ...


class AgentStore(Protocol):
    """What is remembered of agents. Every change has a revision, in the order of commits.

    Raises (every method): ServiceUnavailable when the store does not answer.
    """

    async def save(self, agent: StoredAgent) -> int:
        """Remember an agent for good, new or in the place of its older self, and return the revision."""
        ...

    async def remove(self, agent_id: str) -> int:
        """Forget an agent and return the revision."""
        ...

    async def changes(self, since: int) -> tuple[int, Sequence[StoredAgent]]:
        """Return the newest revision and every agent that changed after `since`, removed ones included.

        A revision before `since` says that the store has lost what came after it, and that nothing known of it counts.
        """
        ...

    async def save_life(self, states: Mapping[str, State], seen: Mapping[str, float]) -> int:
        """Remember changed states and last signs of life in one go, and return the newest revision."""
        ...


class Pulse(Struct, frozen=True, kw_only=True):
    """What an instance learns each time it shows that it is there."""

    decides: bool
    """Whether it is the one that decides, for everybody, who is silent."""
    decides_for_s: float
    """How long that is so, from when it asked."""
    steady: bool
    """Whether it has been there without a gap for long enough to say that others are gone."""
    beats: Mapping[str, float]
    """Who was heard of by anybody since the last time, and when."""


class Membership(Protocol):
    """One instance among several that share a store.

    Raises (every method): ServiceUnavailable when the store does not answer.
    """

    async def pulse(self) -> Pulse:
        """Show that this instance is there, and learn what it has to know of the others."""
        ...

    async def decide(self, states: Mapping[str, State], heard: Mapping[str, float]) -> tuple[int, Sequence[str]]:
        """Write down who is silent, and since when nobody heard of them; return the revision, and whom it holds for."""
        ...

    async def claim(self, most: int) -> Sequence[Execution]:
        """Take over executions without an end whose instance is gone, oldest first; no two instances get the same."""
        ...

    async def reclaim(self, ids: Sequence[str]) -> None:
        """Take back what was taken over while this instance did not show itself, and it is in the middle of."""
        ...

    async def tell_ends(self, ids: Sequence[str]) -> None:
        """Let every instance know that executions have ended."""
        ...

    async def leave(self) -> None:
        """Say that this instance ends, so that others need not wait for its silence."""
        ...


class Feed(Protocol):
    """What others do in a store that is shared."""

    async def follow(
        self, changed: Callable[[], None], ended: Callable[[str], None], missed: Callable[[], None]
    ) -> None:
        """Call back for every change of agents and every end of an execution, until cancelled.

        `missed` says that there was a gap, before what comes next: everything may have happened in it.
        """
        ...

"""What the actions need from the rooms around them. Each protocol lives here, with its caller, and stays small."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from switchboard.catalog.bindings import Json
from switchboard.catalog.findings import Finding
from switchboard.catalog.health import State


class Source(Protocol):
    """A place where descriptors come from."""

    async def load(self) -> tuple[Finding, ...]:
        """Return everything that is there now, broken things with their reasons. Never raises for what it finds."""
        ...


class Clock(Protocol):
    """What time it is; tests bring their own."""

    def now(self) -> float:
        """Return seconds since 1970, for people."""
        ...

    def passed(self) -> float:
        """Return seconds that only ever grow, for measuring silence."""
        ...


class StoredAgent(Struct, frozen=True, kw_only=True):
    """An agent as it is remembered; `registration` is None once it was removed."""

    id: str
    registration: Json | None
    state: State | None = None
    registered_at: float = 0.0
    seen_at: float = 0.0
    revision: int = 0


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
        """Return the newest revision and every agent that changed after `since`, removed ones included."""
        ...

    async def save_life(self, states: Mapping[str, State], seen: Mapping[str, float]) -> int:
        """Remember changed states and last signs of life in one go, and return the newest revision."""
        ...

"""What the actions need from the rooms around them. Each protocol lives here, with its caller, and stays small."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from switchboard.catalog.bindings import Json
from switchboard.catalog.findings import Finding
from switchboard.catalog.health import State
from switchboard.catalog.model import App, Caller, Capability


class Source(Protocol):
    """A place where descriptors come from."""

    async def load(self) -> tuple[Finding, ...]:
        """Return everything that is there now, broken things with their reasons. Never raises for what it finds."""
        ...


class WebApp(Struct, frozen=True, kw_only=True):
    """A web app as its own site describes it; `stale` says why the copy may be out of date, if it may."""

    app: App
    origin: str
    stale: str | None = None


class Web(Protocol):
    """Descriptors that web sites publish about themselves."""

    async def at(self, origin: str) -> WebApp:
        """Return the app that `scheme://host[:port]` publishes, from memory while that is fresh.

        Raises:
            UnknownApp: the site publishes none.
            InvalidDescriptor: what it publishes cannot be used.
            RefusedAddress: the site must not be asked.
            CallTimeout, ServiceUnavailable: it does not answer, and nothing is remembered.
        """
        ...

    async def remembered(self) -> Sequence[WebApp]:
        """Return what was fetched before, without asking anybody."""
        ...


class Text(Struct, frozen=True):
    """A part of an outcome that is text."""

    text: str


class Blob(Struct, frozen=True):
    """A part of an outcome that is not."""

    mime_type: str
    data: bytes


class Outcome(Struct, frozen=True, kw_only=True):
    """What a call brought: parts for reading, and `data` where the answer was a JSON document."""

    parts: tuple[Text | Blob, ...]
    data: Json | None = None


class Consent(Protocol):
    """The user's yes or no."""

    async def require(self, caller: Caller, app: App, capability: Capability) -> None:
        """Let the call pass if the user allows it.

        Raises:
            ConsentRequired: the user has not, or not yet.
        """
        ...


class Executor(Protocol):
    """One way of running capabilities."""

    async def run(self, app: App, capability: Capability, arguments: Mapping[str, Any]) -> Outcome:
        """Run it once.

        Raises:
            SwitchboardError: it did not work; which one says what is known.
        """
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

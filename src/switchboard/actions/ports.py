"""What the actions need from the rooms around them. Each protocol lives here, with its caller, and stays small."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.findings import Finding
from switchboard.catalog.health import State
from switchboard.catalog.model import App, Caller, Capability, Owner


class Source(Protocol):
    """A place where descriptors come from."""

    async def load(self) -> tuple[Finding, ...]:
        """Return everything that is there now, broken things with their reasons. Never raises for what it finds."""
        ...

    async def published(self, app: App) -> bytes | None:
        """Return the text of an app that leaves it where it is; None where it is not this source's, or is gone."""
        del app
        return None


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
    """What a call brought: parts for reading, and `data` where the answer was a JSON document.

    `failed` says that the app itself reports an error, in its own words: `data` is then `{"code", "message", …}`.
    """

    parts: tuple[Text | Blob, ...]
    data: Json | None = None
    failed: bool = False


class Secret(Struct, frozen=True, kw_only=True):
    """What opens an app: headers and query parameters to add to a request. Never shown, logged or put in an error."""

    headers: Pairs = ()
    query: Pairs = ()

    def __repr__(self) -> str:
        return "Secret(…)"


class Call(Struct, frozen=True, kw_only=True):
    """One call that may be put through: found, checked and allowed."""

    id: str
    caller: Caller
    owner: Owner
    capability: Capability
    arguments: Mapping[str, Any]
    context: Pairs = ()
    """What an agent is told about where the call comes from, as headers."""


class Consent(Protocol):
    """The user's yes or no."""

    async def require(self, caller: Caller, owner: Owner, capability: Capability) -> None:
        """Let the call pass if the user allows it.

        Raises:
            ConsentRequired: the user has not, or not yet.
        """
        ...


class Secrets(Protocol):
    """What the user has signed in with."""

    async def secret_for(self, caller: Caller, owner: Owner) -> Secret | None:
        """Return what opens the owner; None where nothing is needed.

        Raises:
            AuthRequired, AuthDenied, AuthExpired, AuthInvalid: the user has to do something first.
        """
        ...


class Executor(Protocol):
    """One way of running capabilities. Cancelling `run` ends what it started."""

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Run it once, and never twice.

        Raises:
            SwitchboardError: it did not work; which one says what is known.
        """
        ...


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the audit record: who called what, what was decided, how it ended; never with what."""

    at: float
    call: str
    caller: str
    owner: str
    origin: str
    capability: str
    decision: str
    outcome: str
    duration_ms: int
    arguments_hash: str


class Audit(Protocol):
    """The record of what was executed, which only ever grows."""

    def note(self, entry: Entry) -> None:
        """Append one line. Never raises: a full disk must not stop a call that the user allowed."""
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

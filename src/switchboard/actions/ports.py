"""What the actions need from the rooms around them. Each protocol lives here, with its caller, and stays small."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, final

from msgspec import Struct

from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.errors import NotSupported
from switchboard.catalog.executions import Ended, Execution, Webhook
from switchboard.catalog.findings import Finding
from switchboard.catalog.model import Agent, App, Caller, Capability, Owner
from switchboard.catalog.snapshot import Snapshot


class Readiness(Struct, frozen=True, kw_only=True):
    """How far one source of the catalogue is: whether its apps are all there, and if not, since when and why."""

    source: str
    status: Literal["ready", "loading", "down"]
    apps: int = 0
    since: float | None = None
    reason: str = ""


class Source(Protocol):
    """A place where descriptors come from."""

    async def load(self) -> tuple[Finding, ...]:
        """Return everything that is there now, broken things with their reasons. Never raises for what it finds."""
        ...

    async def published(self, app: App) -> bytes | None:
        """Return the text of an app that leaves it where it is; None where it is not this source's, or is gone."""
        del app
        return None

    def readiness(self) -> Sequence[Readiness]:
        """Return how far it is where it knows that better than who asks it: a place that asks others, and waits."""
        return ()


class Plane(Struct, frozen=True, kw_only=True):
    """A control plane that the user named: where it is, what opens it, and since when it does not answer."""

    url: str
    headers: Pairs = ()
    """With the user's key: for this address and no other, never shown, logged or put in an error."""
    down_since: float | None = None

    def __repr__(self) -> str:
        return f"Plane({self.url})"


class Planes(Protocol):
    """Which control planes put calls through to the agents of a service."""

    def of(self, service: str) -> Sequence[Plane]:
        """Return every one that knows them, those that answer first."""
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


class Catalogue(Protocol):
    """Everything that can be called here, as it is known now, and how complete that is."""

    @property
    def findings(self) -> Sequence[Finding]:
        """Everything that was found, broken and losing descriptors included."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether every source has answered at least once."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether, beyond that, nobody is known to be fetching more."""
        ...

    def current(self) -> Snapshot:
        """Return the apps as they are known now."""
        ...

    def readiness(self) -> Sequence[Readiness]:
        """Return how far every source is."""
        ...

    def listen(self, listener: Callable[[], None]) -> None:
        """Call somebody after every change of the apps."""
        ...

    async def complete(self, within_s: float) -> bool:
        """Wait until every source has answered, but not longer than that; tell whether they have."""
        ...

    async def settled(self, within_s: float) -> bool:
        """Wait until nothing more is expected, but not longer than that; tell whether it is so."""
        ...

    async def published(self, app: App) -> bytes:
        """Return the descriptor of an app as it was published.

        Raises:
            NotFound: it is no longer where it was.
        """
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


class Call(Struct, frozen=True, kw_only=True, weakref=True):
    """One call that may be put through: found, checked and allowed."""

    id: str
    caller: Caller
    owner: Owner
    capability: Capability
    arguments: Mapping[str, Any]
    context: Pairs = ()
    """What an agent is told about where the call comes from, as headers."""
    address: str = ""
    """What to write to mean exactly this owner, where its id alone may mean another one."""


class Client(Protocol):
    """The program that calls, while its call waits: what it can be told, and what it can be asked."""

    def patience(self, most_s: float) -> float:
        """Return how much of that the call may still wait: one after the other, all its waits have to fit in there."""
        ...

    def progress(self, message: str) -> None:
        """Tell it what the call is waiting for, if it wants to know."""
        ...

    async def open_page(self, address: str, message: str) -> bool:
        """Let it bring a page before the user; tell whether it says that it has: many clients cannot."""
        ...

    async def choose(self, message: str, choices: Mapping[str, str]) -> str | None:
        """Let it put a question to the user, and return the key of the choice; None where nothing was chosen.

        Raises:
            NotSupported: it cannot be asked.
        """
        ...


@final
class Unreachable(Client):
    """Nobody to talk to: the program has gone, or there is no way back to it."""

    def patience(self, most_s: float) -> float:
        """Wait as long as may be."""
        return most_s

    def progress(self, message: str) -> None:
        """Say nothing."""

    async def open_page(self, address: str, message: str) -> bool:
        """Show nothing."""
        del address, message
        return False

    async def choose(self, message: str, choices: Mapping[str, str]) -> str | None:
        """Refuse."""
        del message, choices
        raise NotSupported("The program that calls cannot be asked anything.")


class Consent(Protocol):
    """The user's yes or no."""

    async def require(self, call: Call, client: Client) -> None:
        """Let the call pass if the user allows it.

        Raises:
            ConsentRequired: the user has not, or not yet.
        """
        ...

    def used(self, call: Call) -> None:
        """Take note that a call which was let pass is being run now: what was allowed for once is used up.

        Raises:
            ConsentRequired: another call has used it up meanwhile.
        """
        del call


class Secrets(Protocol):
    """What the user has signed in with."""

    async def secret_for(self, call: Call, client: Client) -> Secret | None:
        """Return what opens the owner of a call; None where nothing is needed.

        Raises:
            AuthRequired, AuthDenied, AuthExpired, AuthInvalid: the user has to do something first.
        """
        ...

    async def renewed(self, call: Call, refused: Secret) -> Secret | None:
        """Return something new in the place of what the owner has just refused; None where there is nothing.

        Either way it is not given out again.

        Raises:
            AuthRequired, AuthExpired, AuthInvalid: what the user can do about it.
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


class Reports(Protocol):
    """What agents report about work they have taken on."""

    async def acknowledged(self, call_id: str) -> None:
        """Note that the agent is at work on a call."""
        ...

    async def end_of(self, call_id: str) -> Ended:
        """Wait for the end of a call, however it comes."""
        ...


class Messenger(Protocol):
    """Tells somebody outside that an execution has ended."""

    async def tell(self, webhook: Webhook, body: bytes) -> None:
        """Send it, a few times if need be.

        Raises:
            SwitchboardError: nobody took it.
        """
        ...


class Agents(Protocol):
    """Ways to reach an agent beside calling it."""

    async def cancel(self, agent: Agent, execution: Execution, reason: str) -> None:
        """Tell an agent to stop working on something. Never raises: it may be gone, or done."""
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


class Gate(Protocol):
    """Whose affair an agent is."""

    @property
    def has_rules(self) -> bool:
        """Whether there are any rules at all."""
        ...

    def is_open(self, caller: Caller, agent_id: str) -> bool:
        """Tell whether an agent is this caller's affair."""
        ...


class Followers(Protocol):
    """Who has to know that agents come and go."""

    def agent_came(self, agent: Agent) -> None:
        """Take note of a registration."""
        ...

    def agent_gone(self, agent_id: str) -> None:
        """Take note that an agent is not there any more."""
        ...

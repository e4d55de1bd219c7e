"""How a capability is reached, and how its owner signs in: plain values, one struct per way.

An `Execution` belongs to the owner (the server, the program, the bus), a `Route` to one capability of it. Nothing here
knows how to run anything; `kind` is what an executor is looked up by.
"""

from typing import ClassVar, Literal, NewType

from msgspec import Struct

Json = NewType("Json", bytes)
"""One JSON document as compact UTF-8: immutable, hashable, ready to be sent, parsed only where someone looks inside."""

Pairs = tuple[tuple[str, str], ...]
"""A string map that cannot change: headers, environment, query."""

Bus = Literal["session", "system"]
RemoteTransport = Literal["streamable-http", "sse"]
ScriptLanguage = Literal["applescript", "jxa", "com"]
Output = Literal["json", "text"]
KeyLocation = Literal["header", "query"]
TokenType = Literal["tenantAccessToken", "appAccessToken", "userAccessToken"]

ExecutionKind = Literal[
    "http", "stdio", "acp", "apple-events", "dbus", "com", "mcp", "skill", "cli", "script", "agent", "control-plane"
]


class Http(Struct, frozen=True, kw_only=True):
    """A web API: every route is relative to `base_url`."""

    kind: ClassVar[ExecutionKind] = "http"
    base_url: str
    default_headers: Pairs = ()
    timeout_ms: int | None = None


class Stdio(Struct, frozen=True, kw_only=True):
    """A program that answers one JSON envelope per line; kept running between calls only when it says so."""

    kind: ClassVar[ExecutionKind] = "stdio"
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = ()
    keep_alive: bool = False
    timeout_ms: int | None = None


class Acp(Struct, frozen=True, kw_only=True):
    """A program that speaks the Agent Client Protocol."""

    kind: ClassVar[ExecutionKind] = "acp"
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = ()
    timeout_ms: int | None = None


class AppleEvents(Struct, frozen=True, kw_only=True):
    """A macOS application that answers one Apple Event."""

    kind: ClassVar[ExecutionKind] = "apple-events"
    bundle_id: str
    event_class: str = "AAI "
    event_id: str = "call"
    timeout_ms: int | None = None


class Dbus(Struct, frozen=True, kw_only=True):
    """A Linux application on the session or system bus."""

    kind: ClassVar[ExecutionKind] = "dbus"
    service: str
    object_path: str = "/com/aai/handler"
    interface: str = "com.aai.Executor"
    bus: Bus = "session"
    timeout_ms: int | None = None


class Com(Struct, frozen=True, kw_only=True):
    """A Windows application behind a COM class."""

    kind: ClassVar[ExecutionKind] = "com"
    prog_id: str
    timeout_ms: int | None = None


class McpStdio(Struct, frozen=True, kw_only=True):
    """Another MCP server, started as a program."""

    kind: ClassVar[ExecutionKind] = "mcp"
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = ()
    cwd: str | None = None
    timeout_ms: int | None = None


class McpHttp(Struct, frozen=True, kw_only=True):
    """Another MCP server, at an address."""

    kind: ClassVar[ExecutionKind] = "mcp"
    transport: RemoteTransport
    url: str
    headers: Pairs = ()
    timeout_ms: int | None = None


class Skill(Struct, frozen=True, kw_only=True):
    """A folder with a SKILL.md; exactly one of `path` and `url` is set."""

    kind: ClassVar[ExecutionKind] = "skill"
    path: str | None = None
    url: str | None = None


class Cli(Struct, frozen=True, kw_only=True):
    """A command-line program that explains itself."""

    kind: ClassVar[ExecutionKind] = "cli"
    command: str
    args: tuple[str, ...] = ()
    env: Pairs = ()
    cwd: str | None = None
    timeout_ms: int | None = None


class Script(Struct, frozen=True, kw_only=True):
    """Script templates of the first drafts. Listed and never run: foreign text is not spliced into a script."""

    kind: ClassVar[ExecutionKind] = "script"
    language: ScriptLanguage


class AgentServer(Struct, frozen=True, kw_only=True):
    """A registered agent; its capabilities are `/reasoners/{id}` and `/skills/{id}` under `base_url`."""

    kind: ClassVar[ExecutionKind] = "agent"
    base_url: str


class Registered(Struct, frozen=True, kw_only=True):
    """An agent behind a control plane, which puts calls through to it; a route's path is the target to name there.

    `service` stands for every instance that knows the agent: which of them is called is not part of what is called.
    """

    kind: ClassVar[ExecutionKind] = "control-plane"
    service: str
    agent_id: str


Execution = (
    Http | Stdio | Acp | AppleEvents | Dbus | Com | McpStdio | McpHttp | Skill | Cli | Script | AgentServer | Registered
)


class Route(Struct, frozen=True, kw_only=True):
    """What one capability adds to its owner's execution; which fields matter depends on the execution's kind."""

    path: str | None = None
    method: str | None = None
    headers: Pairs = ()
    query: Pairs = ()
    body: Json | None = None
    output: Output | None = None
    script: Json | None = None
    timeout_ms: int | None = None


NO_ROUTE = Route()


class Binding(Struct, frozen=True):
    """How one capability is reached: the owner's execution and the capability's own route."""

    execution: Execution
    route: Route = NO_ROUTE

    @property
    def kind(self) -> ExecutionKind:
        """What the executor is looked up by."""
        return self.execution.kind


class OAuth2(Struct, frozen=True, kw_only=True):
    """Sign-in with an authorisation code and PKCE S256."""

    type: ClassVar[Literal["oauth2"]] = "oauth2"
    authorization_endpoint: str
    token_endpoint: str
    refresh_endpoint: str | None = None
    client_id: str | None = None
    scopes: tuple[str, ...] = ()
    extra_params: Pairs = ()


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key the user pastes once."""

    type: ClassVar[Literal["apiKey"]] = "apiKey"
    location: KeyLocation
    name: str
    prefix: str | None = None
    obtain_url: str | None = None
    instructions: str | None = None


class AppCredential(Struct, frozen=True, kw_only=True):
    """An app id and secret that are exchanged for a short-lived token."""

    type: ClassVar[Literal["appCredential"]] = "appCredential"
    token_endpoint: str
    token_type: TokenType = "tenantAccessToken"  # noqa: S105 - the kind of token, not one
    expires_in: int = 7200
    instructions: str | None = None


class Cookie(Struct, frozen=True, kw_only=True):
    """Cookies of a browser session the user has signed in to."""

    type: ClassVar[Literal["cookie"]] = "cookie"
    login_url: str
    required_cookies: tuple[str, ...]
    domain: str
    instructions: str | None = None


Auth = OAuth2 | ApiKey | AppCredential | Cookie

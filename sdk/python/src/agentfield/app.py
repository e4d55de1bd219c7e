"""`Agent`: the one object that a program has. It asks, executes, and offers what your functions do."""

import os
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack, cast, overload

from agentfield import discovery, execution, watching
from agentfield.context import Context, current, headers_for
from agentfield.discovery import CompactDiscoveryResponse, Discovered, DiscoveryResponse, Filters
from agentfield.execution import Call, Times, call_of
from agentfield.handle import Handle
from agentfield.links import AsyncLink, Link, Server
from agentfield.watching import Change

if TYPE_CHECKING:
    from agentfield.capability import Capability, Kind
    from agentfield.endpoints import Profile
    from agentfield.serving import Stop

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_SERVER = "http://localhost:8080"


class Offer(TypedDict, total=False):
    """What can be said of a function besides its code; else its name and its docstring say it."""

    name: str
    description: str
    tags: Sequence[str]
    examples: Sequence[Mapping[str, Any]]


class Agent:
    """A caller of agents, and an agent itself if it has functions to offer.

    Args:
        node_id: The agent's id; needed only to serve.
        agentfield_server: The control plane; else `AGENTFIELD_SERVER`, else `http://localhost:8080`.
        api_key: The key to it; else `AGENTFIELD_API_KEY`, else none.
        version: The agent's version, shown to callers.
        description: What the agent is for, shown to callers.
        tags: Words about the agent as a whole.
        timeout: Seconds that one answer may take; executions may take longer.
        patience: Seconds to wait for a control plane that was there and went away.
        heartbeat_interval: Seconds between two signs of life while serving.
        drain_seconds: Seconds that work under way gets when the agent is told to stop.
    """

    def __init__(  # noqa: PLR0913 - settings, by name, each with a default
        self,
        node_id: str | None = None,
        *,
        agentfield_server: str | None = None,
        api_key: str | None = None,
        version: str = "1.0.0",
        description: str = "",
        tags: Sequence[str] = (),
        timeout: float = 20.0,
        patience: float = 30.0,
        heartbeat_interval: float = 2.0,
        drain_seconds: float = 30.0,
    ) -> None:
        url = agentfield_server or os.environ.get("AGENTFIELD_SERVER") or DEFAULT_SERVER
        key = api_key if api_key is not None else os.environ.get("AGENTFIELD_API_KEY", "")
        self.node_id = node_id or ""
        self._about = (version, description, tuple(tags))
        self._life = (heartbeat_interval, drain_seconds)
        self._server = Server(url, key)
        self._link = Link(self._server)
        self._alink = AsyncLink(self._server)
        self._times = Times(timeout, patience)
        self._capabilities: dict[tuple[str, str], Capability] = {}
        self._stop: Stop | None = None

    def __repr__(self) -> str:
        return f"Agent({self.node_id!r}, agentfield_server={self._server.url!r})"

    # Ask

    @overload
    def discover(self, *, format: Literal["json"] = "json", **filters: Unpack[Filters]) -> DiscoveryResponse: ...
    @overload
    def discover(self, *, format: Literal["compact"], **filters: Unpack[Filters]) -> CompactDiscoveryResponse: ...
    @overload
    def discover(self, *, format: Literal["xml"], **filters: Unpack[Filters]) -> str: ...
    def discover(self, *, format: str = "json", **filters: Unpack[Filters]) -> Discovered:  # noqa: A002
        """Return what agents can do now; `Filters` has everything that can be asked.

        Raises:
            InvalidRequest: The question is wrong; the message says what is allowed.
        """
        return self._link.run(discovery.discover(format, filters, self._times.patience, self._times.seconds))

    @overload
    async def adiscover(self, *, format: Literal["json"] = "json", **filters: Unpack[Filters]) -> DiscoveryResponse: ...
    @overload
    async def adiscover(
        self, *, format: Literal["compact"], **filters: Unpack[Filters]
    ) -> CompactDiscoveryResponse: ...
    @overload
    async def adiscover(self, *, format: Literal["xml"], **filters: Unpack[Filters]) -> str: ...
    async def adiscover(self, *, format: str = "json", **filters: Unpack[Filters]) -> Discovered:  # noqa: A002
        """Return what `discover` returns, without blocking."""
        return await self._alink.run(discovery.discover(format, filters, self._times.patience, self._times.seconds))

    def pages(self, **filters: Unpack[Filters]) -> Iterator[DiscoveryResponse]:
        """Yield one page after the other; `limit` is the size of a page."""
        question: Filters | None = filters
        while question is not None:
            found = self._link.run(discovery.page(question, self._times.patience, self._times.seconds))
            yield found
            question = discovery.following(question, found)

    async def apages(self, **filters: Unpack[Filters]) -> AsyncIterator[DiscoveryResponse]:
        """Yield one page after the other, without blocking."""
        question: Filters | None = filters
        while question is not None:
            found = await self._alink.run(discovery.page(question, self._times.patience, self._times.seconds))
            yield found
            question = discovery.following(question, found)

    def watch(self, *, every: float = 1.0, **filters: Unpack[Filters]) -> Generator[Change]:
        """Yield every agent that is there, and then every change, for ever.

        The control plane tells them as they happen. One that is away is waited for, and what was missed meanwhile is
        told then. One that cannot tell is asked every so many seconds.

        Raises:
            InvalidRequest: The question is wrong; the message says what is allowed.
        """
        return self._link.follow(watching.watch(filters, every, *self._waits()))

    def awatch(self, *, every: float = 1.0, **filters: Unpack[Filters]) -> AsyncGenerator[Change]:
        """Yield what `watch` yields, without blocking."""
        return self._alink.follow(watching.watch(filters, every, *self._waits()))

    # Execute

    def execute(
        self,
        target: str,
        input: object = None,  # noqa: A002 - the keyword of the wire
        *,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Run a target with an input, and return its result.

        Args:
            target: What discovery has as `invocation_target`.
            input: The arguments by name: a mapping, a struct or a pydantic model.
            timeout: Seconds to wait at most; None waits as long as it takes.
            idempotency_key: Makes calls with the same key one execution; else every call is one of its own.

        Raises:
            NotFound: There is no such target; `nearest` has what comes near.
            InvalidInput: The input does not fit; `violations` says where.
            ExecutionFailed: It was run and failed.
            Timeout: It has not ended in time, and goes on.
        """
        plan = execution.execute(self._call(target, input, idempotency_key), self._limited(timeout))
        return execution.result_of(self._link.run(plan))

    async def aexecute(
        self,
        target: str,
        input: object = None,  # noqa: A002
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the same words as `execute`
        idempotency_key: str | None = None,
    ) -> Any:
        """Do what `execute` does, without blocking.

        Inside a reasoner or skill, what was called is cancelled when whoever awaits it is.
        """
        call, times = self._call(target, input, idempotency_key), self._limited(timeout)
        if current() is not None:
            accepted = await self._alink.run(execution.submit(call, times))
            return await Handle(accepted.execution_id, self._link, self._alink, times).kept()
        return execution.result_of(await self._alink.run(execution.execute(call, times)))

    def submit(
        self,
        target: str,
        input: object = None,  # noqa: A002
        *,
        idempotency_key: str | None = None,
        webhook: str | Mapping[str, object] | None = None,
    ) -> Handle:
        """Have a target accepted, and return at once with a handle to wait on. What is accepted is not lost."""
        call = self._call(target, input, idempotency_key, webhook)
        return self.handle(self._link.run(execution.submit(call, self._times)).execution_id)

    async def asubmit(
        self,
        target: str,
        input: object = None,  # noqa: A002
        *,
        idempotency_key: str | None = None,
        webhook: str | Mapping[str, object] | None = None,
    ) -> Handle:
        """Do what `submit` does, without blocking."""
        call = self._call(target, input, idempotency_key, webhook)
        return self.handle((await self._alink.run(execution.submit(call, self._times))).execution_id)

    def handle(self, execution_id: str) -> Handle:
        """Return a handle to an execution whose id you kept."""
        return Handle(execution_id, self._link, self._alink, self._times)

    def cancel(self, execution_id: str, reason: str = "") -> None:
        """End an execution.

        Raises:
            Conflict: It has ended already.
        """
        self.handle(execution_id).cancel(reason)

    async def acancel(self, execution_id: str, reason: str = "") -> None:
        """Do what `cancel` does, without blocking."""
        await self.handle(execution_id).acancel(reason)

    @property
    def context(self) -> Context | None:
        """The execution that the running code belongs to, inside a reasoner or skill."""
        return current()

    # Offer

    @overload
    def reasoner(self, function: F, /) -> F: ...
    @overload
    def reasoner(self, function: None = None, /, **described: Unpack[Offer]) -> Callable[[F], F]: ...
    def reasoner(self, function: Any = None, /, **described: Unpack[Offer]) -> Any:
        """Offer a function as a reasoner: something that thinks, usually with a model.

        Its schema comes from its annotations and defaults, its description from its docstring. It stays the function
        it was.
        """
        return self._offered("reasoner", function, described)

    @overload
    def skill(self, function: F, /) -> F: ...
    @overload
    def skill(self, function: None = None, /, **described: Unpack[Offer]) -> Callable[[F], F]: ...
    def skill(self, function: Any = None, /, **described: Unpack[Offer]) -> Any:
        """Offer a function as a skill: plain code. Else as `reasoner`."""
        return self._offered("skill", function, described)

    def run(self, host: str = "127.0.0.1", port: int | None = None, *, base_url: str | None = None) -> None:
        """Serve what this agent offers until SIGTERM or Ctrl-C, then finish what is under way.

        Args:
            host: Where to listen.
            port: The port; else `PORT`, else 8001 or one that is free. 0 is any that is free.
            base_url: Where the control plane reaches us, if not there; else `AGENT_CALLBACK_URL`.

        Raises:
            APIError: The control plane refuses this agent.
        """
        import asyncio  # noqa: PLC0415 - a caller that never serves does not need it
        import logging  # noqa: PLC0415

        if not logging.getLogger().handlers:
            logging.basicConfig(level=logging.INFO, format="%(message)s")
            logging.getLogger("httpx2").setLevel(logging.WARNING)
        asyncio.run(self.serve(host, port, base_url=base_url))

    async def serve(self, host: str = "127.0.0.1", port: int | None = None, *, base_url: str | None = None) -> None:
        """Do what `run` does on the running event loop."""
        from agentfield import ports, serving  # noqa: PLC0415 - uvicorn is for those who serve

        described = self._described()
        stop = self._stop = serving.Stop()
        opened = ports.open_port(host, port)
        address = ports.address_of(opened, self._server.url, base_url)
        try:
            with stop.on_signals():
                await serving.serve(described, self._alink, opened, address, stop)
        finally:
            self._stop = None
            opened.close()
            await self._alink.close()

    def stop(self) -> None:
        """Tell an agent that serves to finish and to end; from any thread. Twice: to end now."""
        if self._stop is not None:
            self._stop()

    # End

    def close(self) -> None:
        """Close the connections of blocking calls; the next call opens new ones."""
        self._link.close()

    async def aclose(self) -> None:
        """Close all connections of this event loop, and those of blocking calls."""
        await self._alink.close()
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _call(self, target: str, given: object, key: str | None, webhook: Any = None) -> Call:
        return call_of(target, given, headers_for(self.node_id), key, webhook)

    def _limited(self, timeout: float | None) -> Times:
        return Times(self._times.seconds, self._times.patience, timeout)

    def _waits(self) -> tuple[float, float]:
        return self._times.seconds, self._times.patience

    def _offered(self, kind: "Kind", function: Callable[..., Any] | None, described: Offer) -> Any:
        from agentfield.capability import Described, capability_of  # noqa: PLC0415 - for those who offer something

        def offer(function: Callable[..., Any]) -> Callable[..., Any]:
            made = capability_of(kind, function, Described(**described))
            if (kind, made.id) in self._capabilities:
                raise ValueError(f"There is a {kind} {made.id!r} already: give this one another name=.")
            self._capabilities[kind, made.id] = made
            return function

        return offer(function) if function is not None else offer

    def _described(self) -> "Profile":
        from agentfield.endpoints import Profile  # noqa: PLC0415

        if not self.node_id:
            raise ValueError('To serve, an agent needs an id: Agent("my-agent").')
        if not self._capabilities:
            raise ValueError("There is nothing to serve: decorate a function with @app.reasoner or @app.skill.")
        capabilities = tuple(cast("Mapping[Any, Capability]", self._capabilities).values())
        return Profile(self.node_id, *self._about, capabilities, uuid.uuid4().hex, *self._life)

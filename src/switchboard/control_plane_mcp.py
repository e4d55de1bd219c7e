"""Wires MCP over HTTP into a control plane: what it offers, what the operator's rules allow, and who may come."""

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from switchboard import __version__
from switchboard.actions.directory import Directory
from switchboard.actions.execute import Execute
from switchboard.actions.executions import Executions
from switchboard.actions.inside import InsideExecutor
from switchboard.actions.lookup import Lookup
from switchboard.actions.offer import Offer
from switchboard.actions.ports import Audit, Clock, Entry
from switchboard.actions.shelf import Shelf
from switchboard.actions.store_ports import Identified
from switchboard.catalog.caches import Caches
from switchboard.catalog.health import State
from switchboard.descriptors import aai
from switchboard.executors.http import HttpExecutor
from switchboard.mcp.greeting import Greeting
from switchboard.mcp.http import MOST_STREAMS, Endpoint
from switchboard.mcp.server import Server
from switchboard.mcp.visitors import Visitors
from switchboard.security.policy import Policy
from switchboard.security.rules import AllowRules
from switchboard.security.secrets import NoSecrets
from switchboard.settings import ServeSettings, audit_file, is_loopback
from switchboard.store.audit import AuditFile
from switchboard.telemetry.logs import Log
from switchboard.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

GREETING = Greeting(
    {"name": "switchboard", "title": "Switchboard control plane", "version": __version__},
    {"tools": {"listChanged": True}, "resources": {"listChanged": True}},
    "Agents that are registered with this server and apps that are published to it, one tool each. To use one: 1. call "
    "its tool to read its guide; 2. call aai_exec (also spelled aai:exec) with app, tool and args as in the guide. "
    "The rules of this server decide what may run, and nobody is asked: what is not known to only read runs if a rule "
    "allows it. A result with isError says in `code` what is wrong and in `message` what to do.",
)


class Mcp:
    """Every part of this face, built once."""

    def __init__(  # noqa: PLR0913 - what it shares with the other face
        self,
        settings: ServeSettings,
        *,
        directory: Directory,
        shelf: Shelf,
        store: Identified,
        states: Callable[[str], State | None],
        executions: Executions,
        clock: Clock,
        log: Log,
        metrics: Metrics,
        is_shared: bool,
    ) -> None:
        self._fetch: Fetch | None = None
        caches = self._caches = Caches.of(settings.caches)
        self._calls_here = settings.is_for_this_machine
        audit = AuditFile(audit_file("control-plane"))
        self.offer = Offer(directory, shelf, store, states=states, describe=aai.write, is_shared=is_shared)
        execute = Execute(
            consent=Policy(settings.mcp_allow, besides=AllowRules(settings.allow)),
            secrets=NoSecrets(),
            executors={"control-plane": InsideExecutor(executions), "http": HttpExecutor(self._client)},
            audit=BesideTheLedger(audit),
            clock=clock,
            fingerprint=audit.fingerprint,
            caches=caches,
        )
        self._server = Server(
            self.offer,
            Lookup(self.offer, self.offer, caches=caches),
            execute,
            greeting=GREETING,
            tool_names="portable",  # a list must not depend on who asked before, and this one suits every client
            most_subscriptions=MOST_STREAMS,
            asks=False,
            caches=caches,
        )
        visitors = Visitors(
            is_local=is_loopback(settings.host),
            public_url=settings.public_url,
            origins=frozenset(origin.lower() for origin in settings.mcp_origins),
        )
        self.endpoint = Endpoint(self._server.methods(), GREETING, visitors, clock=clock, log=log, metrics=metrics)
        self.offer.listen(self.endpoint.changed)

    def close(self) -> None:
        """End what only waits for changes."""
        self._server.close()
        self.endpoint.close()

    async def stop(self) -> None:
        """Give back what was opened."""
        if self._fetch is not None:
            await self._fetch.close()

    def _client(self) -> "Fetch":
        """Return the client for published apps: https to public addresses, and this machine for who is alone on it."""
        if self._fetch is None:
            from switchboard.net.fetch import Fetch  # noqa: PLC0415 - an instance that calls no apps need not load it

            self._fetch = Fetch(loopback=self._calls_here, caches=self._caches)
        return self._fetch


@final
class BesideTheLedger(Audit):
    """Records what the ledger of executions does not: refusals, and calls of published apps."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    def note(self, entry: Entry) -> None:
        """Append one line, unless the execution of an agent has left one."""
        if entry.decision != "allowed" or not entry.origin.startswith("agents:"):
            self._audit.note(entry)

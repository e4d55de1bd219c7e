"""Wires the control plane: every part of one instance, and what they do beside answering."""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from switchboard import __version__
from switchboard.actions.app_ports import Reading
from switchboard.actions.browse import Browse
from switchboard.actions.cluster import Cluster, News
from switchboard.actions.directory import Directory
from switchboard.actions.ends import Ends
from switchboard.actions.execute import Execute
from switchboard.actions.executions import Executions
from switchboard.actions.ledger import Rules
from switchboard.actions.life import FLUSH_S, TICK_S, Life
from switchboard.actions.ports import Clock
from switchboard.actions.publish import Publish
from switchboard.actions.register import Register
from switchboard.actions.shelf import Shelf
from switchboard.actions.store_ports import StoredAgent
from switchboard.actions.watch import Watch
from switchboard.catalog.bindings import Json
from switchboard.catalog.caches import Caches
from switchboard.catalog.errors import InvalidDescriptor, ServiceUnavailable
from switchboard.catalog.health import State
from switchboard.catalog.model import Agent
from switchboard.control_plane_mcp import Mcp
from switchboard.descriptors import agent as agents
from switchboard.descriptors import publishing
from switchboard.executors.agent import AgentExecutor
from switchboard.executors.webhooks import Webhooks
from switchboard.mcp.visitors import Visitors
from switchboard.rest.app import App
from switchboard.rest.discovery import Discovery
from switchboard.rest.events import Events
from switchboard.rest.executions import ExecutionRoutes
from switchboard.rest.heartbeats import Heartbeats
from switchboard.rest.nodes import Nodes
from switchboard.rest.pages import Pages
from switchboard.rest.registry import RegistryRoutes, is_reading
from switchboard.rest.watch import WatchRoute
from switchboard.security.rules import AllowRules
from switchboard.security.secrets import NoSecrets
from switchboard.settings import ServeSettings, audit_file, database_path, is_loopback, is_postgres
from switchboard.store.audit import AuditFile
from switchboard.store.postgres import PostgresStore
from switchboard.store.sqlite import SqliteStore
from switchboard.telemetry.clock import SharedClock, SystemClock
from switchboard.telemetry.logs import Log, ToLog, fault
from switchboard.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

_LOG_FLUSH_S = 0.25
_GIVE_BACK_S = 10.0
_FORGET_S = 600.0


class ControlPlane:
    """Every part of one instance, built once."""

    def __init__(self, settings: ServeSettings, clock: Clock | None = None) -> None:
        self.log = Log(level=settings.log_level)
        logging.getLogger("uvicorn").addHandler(ToLog(self.log))
        self.clock, self.store = _store(settings, clock or SystemClock())
        news = self._news = News() if isinstance(self.store, PostgresStore) else None
        self.caches = Caches.of(settings.caches)
        fresh_s = settings.cache_ttl if self.caches.most(1) else 0.0
        self.directory = Directory(self.store, self.clock, self._read, fresh_s)
        unsaved = news.states_changed.set if news is not None else None
        self.life = Life(self.directory, self.store, self.clock, self._health_changed, unsaved)
        self.directory.listen(self._learned)
        self.shelf = Shelf(self.store.apps, self.clock, _read_published(settings), settings.cache_ttl)
        self._fetch: Fetch | None = None
        self._webhook_fetch: Fetch | None = None
        rules = AllowRules(settings.allow)
        self.executions = self._executions(settings, rules)
        self.cluster = self._cluster(news)
        register = Register(
            self.store,
            self.directory,
            self.life,
            self.clock,
            followers=self.executions,
            gate=rules,
            shared=self.cluster is not None,
        )
        browse = Browse(self.directory)
        metrics = Metrics()
        instance = os.urandom(4).hex()
        discovery = Discovery(browse, self.clock, metrics, self.log, instance, caches=self.caches)
        self.watch = Watch(self.directory, Events(instance, self.store, browse.when_seen), instance)
        watching = WatchRoute(self.watch, self.clock, metrics, self.log)
        self.pages = Pages(browse, discovery, metrics, self.clock, self.store, __version__, contract("openapi.json"))
        heartbeats = Heartbeats(register, self.clock, metrics)
        nodes = Nodes(register, browse, self.life, self.clock, metrics, heartbeats)
        routes = [
            *nodes.routes(),
            *ExecutionRoutes(self.executions, self.clock).routes(),
            *self._registry(settings, rules).routes(),
            *self.pages.routes(),
        ]
        public = is_reading if settings.public_registry else _nothing
        self.mcp = self._mcp(settings, metrics)
        face = None if self.mcp is None else self.mcp.endpoint
        self.app = App(
            discovery,
            watching,
            routes,
            self.clock,
            self.log,
            settings.callers,
            public=public,
            is_stranger=_strangers(settings),
            mcp=face,
            heartbeats=heartbeats,
        )

    def _registry(self, settings: ServeSettings, rules: AllowRules) -> RegistryRoutes:
        read = _read_published(settings)
        publish = Publish(self.store.apps, self.shelf, self.clock, read, gate=rules, log=self.log)
        return RegistryRoutes(self.shelf, publish, settings.public_url)

    def _mcp(self, settings: ServeSettings, metrics: Metrics) -> Mcp | None:
        if not settings.mcp_enabled:
            return None
        return Mcp(
            settings,
            directory=self.directory,
            shelf=self.shelf,
            store=self.store,
            states=self.life.state,
            executions=self.executions,
            clock=self.clock,
            log=self.log,
            metrics=metrics,
            is_shared=self.cluster is not None,
        )

    def _cluster(self, news: News | None) -> Cluster | None:
        """Return what this instance does because there are others, where there can be any."""
        if news is None or not isinstance(self.store, PostgresStore):
            return None
        return Cluster(
            membership=self.store.membership,
            feed=self.store.feed,
            directory=self.directory,
            shelf=self.shelf,
            life=self.life,
            executions=self.executions,
            clock=self.clock,
            log=self.log,
            news=news,
        )

    def _executions(self, settings: ServeSettings, allowed: AllowRules) -> Executions:
        ends = Ends()
        audit = AuditFile(audit_file("control-plane"))
        agents = AgentExecutor(self._client, ends, settings.agent_timeout)
        execute = Execute(
            consent=allowed,
            secrets=NoSecrets(),
            executors={"agent": agents},
            audit=audit,
            clock=self.clock,
            fingerprint=audit.fingerprint,
            caches=self.caches,
        )
        return Executions(
            directory=self.directory,
            execute=execute,
            ends=ends,
            store=self.store.executions,
            agents=agents,
            messenger=Webhooks(self._webhook_client),
            clock=self.clock,
            log=self.log,
            rules=Rules(
                at_once=settings.agent_concurrency,
                run_s=settings.execution_timeout,
                unknown_s=settings.report_timeout,
                lost_s=settings.agent_lost_after,
            ),
            tell=self._news.ended if self._news is not None else None,
        )

    def _webhook_client(self) -> "Fetch":
        """Return a client of its own for webhooks: those that hang must not take the sockets of calls to agents."""
        if self._webhook_fetch is None:
            from switchboard.net.fetch import Fetch  # noqa: PLC0415 - as below
            from switchboard.net.guard import is_reachable  # noqa: PLC0415

            self._webhook_fetch = Fetch(loopback=True, plain=True, permitted=is_reachable, caches=self.caches)
        return self._webhook_fetch

    def _client(self) -> "Fetch":
        """Return the client for agents' addresses, made when the first one is called."""
        if self._fetch is None:
            from switchboard.net.fetch import Fetch  # noqa: PLC0415 - an instance that only lists need not load it
            from switchboard.net.guard import is_reachable  # noqa: PLC0415

            # How many calls there are at once is limited for each agent.
            self._fetch = Fetch(loopback=True, plain=True, connections=None, permitted=is_reachable, caches=self.caches)
        return self._fetch

    async def start(self) -> None:
        """Open the store and take everything in.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        await self.store.open()
        await self.directory.catch_up()
        await self.shelf.catch_up()
        if self.cluster is None:
            await self.executions.recover()
        else:
            await self.cluster.pulse()  # before anything is accepted: what nobody looks after is taken over
        # What was loaded stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        give_back_memory()
        self.pages.ready = True

    async def stop(self) -> None:
        """Write what is in memory only, and close."""
        await self.executions.close()
        if self.mcp is not None:
            await self.mcp.stop()
        for fetch in (self._fetch, self._webhook_fetch):
            if fetch is not None:
                await fetch.close()
        try:
            await self.life.flush()
        except ServiceUnavailable as error:
            self.log.event("error", "heartbeats not saved", self.clock.now(), error=error.message)
        if self.cluster is not None:
            await self.cluster.leave()
        await self.store.close()
        self.log.flush()

    async def keep(self) -> None:
        """Notice silence, save heartbeats and write logs, until cancelled."""
        watching = [
            self._every(_LOG_FLUSH_S, self._write_log),
            self._every(_GIVE_BACK_S, self._give_back),
            self._every(_FORGET_S, self._forget),
            self._every(0, self.watch.deliver),
            self._every(0, self.watch.reassure),
        ]
        if self.cluster is None:
            watching += [self._every(TICK_S, self._tick), self._every(FLUSH_S, self._flush)]
        else:
            watching.append(self.cluster.keep())
        await asyncio.gather(*watching)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - one failure must not end the watch; it is in the log
                self.log.event("error", "background work failed", self.clock.now(), error=fault(error))

    async def _write_log(self) -> None:
        self.log.flush()

    async def _forget(self) -> None:
        if self.cluster is None or self.cluster.decides:
            await self.executions.forget_old()

    async def _give_back(self) -> None:
        give_back_memory()

    async def _tick(self) -> None:
        self.life.tick()

    def knows(self, agent_id: str) -> bool:
        """Tell whether an agent is registered."""
        return agent_id in self.directory.current().agents

    def say_goodbye_for(self, agent_ids: Iterable[str]) -> None:
        """End agents that end with this server, and can no longer tell it."""
        for agent_id in agent_ids:
            self.life.goodbye(agent_id, "ended with its control plane")

    async def _flush(self) -> None:
        try:
            await self.life.flush()
        except ServiceUnavailable as error:
            self.log.event("warning", "heartbeats not saved yet", self.clock.now(), error=error.message)

    def _learned(self, stored: StoredAgent) -> None:
        """Take in an agent that comes from the store: from the past, or from another instance."""
        before = self.life.state(stored.id)
        self.life.remember(stored)
        if self.cluster is None:
            return
        now, agent = self.life.state(stored.id), self.directory.current().agents.get(stored.id)
        if agent is not None and now is not None and now.health != "inactive":
            self.executions.agent_came(agent)
        elif before is not None and before.health != "inactive":
            self.executions.agent_gone(stored.id)

    def _read(self, stored: StoredAgent) -> Agent | None:
        agent = read_stored(stored)
        if agent is None:
            self.log.event("error", "stored agent cannot be read", self.clock.now(), agent=stored.id)
        return agent

    def _health_changed(self, agent_id: str, state: State) -> None:
        self.log.event(
            "info", "agent health changed", self.clock.now(), agent=agent_id, health=state.health, reason=state.reason
        )
        if state.health == "inactive":
            self.executions.agent_gone(agent_id)


def _store(settings: ServeSettings, clock: Clock) -> tuple[Clock, SqliteStore | PostgresStore]:
    """Return the store, and the clock that goes with it: that of a database that is shared is everybody's."""
    url = settings.database_url
    if not is_postgres(url):
        return clock, SqliteStore(database_path(url))
    shared = SharedClock(clock)
    lease_s, statement_s = settings.instance_lease, settings.database_timeout
    return shared, PostgresStore(url, shared, lease_s=lease_s, statement_s=statement_s)


def _read_published(settings: ServeSettings) -> Callable[[bytes], Reading]:
    """Return how descriptors are read that are to be published: only a server for this machine lists what is on it."""
    loopback = settings.is_for_this_machine
    return lambda raw: publishing.read(raw, loopback=loopback)


def _strangers(settings: ServeSettings) -> Callable[[list[str], list[str]], bool]:
    """Return what tells pages of other sites by their `Host` and `Origin`; the settings let some in for MCP alone."""
    visitors = Visitors(is_local=is_loopback(settings.host), public_url=settings.public_url)
    return lambda hosts, origins: visitors.refusal(hosts, origins) is not None


def _nothing(_: str) -> bool:
    return False


def read_stored(stored: StoredAgent) -> Agent | None:
    """Return a remembered agent as the catalogue has it: with its health, without the text it sent.

    None where the text cannot be read: rules may have become stricter since it was taken in.
    """
    try:
        agent = agents.read(stored.registration or b"").agent
    except InvalidDescriptor:
        return None
    health = stored.state.health if stored.state else agent.health
    return replace(agent, health=health, raw=Json(b""))


def give_back_memory() -> None:
    """Return to the system what answers and registrations of the past have left behind.

    The C library keeps freed memory for later; an instance that has answered large pages once would look as large for
    ever. Takes about a millisecond. Where there is no such call, nothing happens.
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - only where it helps

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def contract(name: str) -> Path:
    """Return a file of the contract: inside the installed package, or beside the sources."""
    packaged = Path(str(files("switchboard"))) / "contract" / name
    return packaged if packaged.exists() else Path(__file__).parents[2] / "contract" / name

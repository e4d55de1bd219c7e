"""Everything that `aai-gateway` is made of, and what runs beside its conversation.

Imported once the handshake is answered; what only some conversations need is imported when they do.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from switchboard.actions.ports import Consent, Executor
    from switchboard.catalog.bindings import ExecutionKind
    from switchboard.catalog.model import Owner
    from switchboard.gateway import Options
    from switchboard.mcp.greeting import Greeting
    from switchboard.net.fetch import Fetch
    from switchboard.sources.control_plane import ControlPlanes
    from switchboard.sources.registry import Fetches, Registry
    from switchboard.telemetry.logs import Level, Log

_SLOW_SCAN_S = 10.0
_REGISTRY_EVERY_S = 3600.0


class Parts:
    """Everything the gateway is made of, each thing once."""

    def __init__(self, options: "Options", consent: "Consent | None", greeting: "Greeting", log: "Log") -> None:
        from switchboard.actions.collection import Collection
        from switchboard.actions.execute import Execute
        from switchboard.actions.lookup import Lookup
        from switchboard.catalog.caches import Caches
        from switchboard.catalog.locales import from_environment
        from switchboard.executors.http import HttpExecutor
        from switchboard.executors.native import native
        from switchboard.local_apps import agents_of, surroundings
        from switchboard.mcp.server import Server
        from switchboard.permissions import Permissions
        from switchboard.settings import CACHES_VARIABLE, audit_file, caching
        from switchboard.sources.desktop import Desktop
        from switchboard.sources.places import places, site_copies
        from switchboard.sources.wellknown import WellKnown
        from switchboard.store.audit import AuditFile
        from switchboard.telemetry.clock import SystemClock

        self._options = options
        self._log = log
        self._around = surroundings()
        self._clock = SystemClock()
        self._fetches: dict[str, Fetch] = {}
        wanted = caching(self._around.environment)
        if wanted is None:
            self._event("warning", "caches.unknown", given=self._around.environment[CACHES_VARIABLE])
        caches = self._caches = Caches.of(wanted or "on")
        self._problems: set[tuple[str, str]] = set()
        self._native = native(self._around.environment)
        self._desktop = Desktop(places(self._around, dev=options.dev), self._around.system, caches)
        self._planes = agents_of(options.control_planes, self._named, self._clock, log)
        self.collection = Collection([self._desktop, *([self._planes] if self._planes else [])], self._clock)
        web = WellKnown(site_copies(self._around), self._strangers, self._clock, self._around.system, caches=caches)
        audit = AuditFile(audit_file("gateway"))
        self._permissions = Permissions(
            options.consent,
            self._around.environment,
            fetch=self._strangers,
            clock=self._clock,
            dev=options.dev,
            namesakes=self._namesakes,
            report=lambda why: self._event("warning", "vault.unavailable", reason=why),
            caches=caches,
        )
        self.server = Server(
            self.collection,
            Lookup(self.collection, web, caches=caches),
            Execute(
                consent=consent or self._permissions,
                secrets=self._permissions,
                executors={"http": HttpExecutor(self._strangers), **self._native, **self._agents()},
                audit=audit,
                clock=self._clock,
                fingerprint=audit.fingerprint,
                caches=caches,
            ),
            greeting=greeting,
            tool_names=options.tool_names,
            locale=from_environment(self._around.environment),
            caches=caches,
        )

    def jobs(self) -> "list[Coroutine[Any, Any, None]]":
        """Return what runs beside the conversation."""
        jobs: list[Coroutine[Any, Any, None]] = [self._scan()]
        if self._options.registries:
            jobs.append(self._follow())
        if self._planes:
            jobs.append(self._keep(self._planes))
        return jobs

    async def watched(self, job: "Coroutine[Any, Any, None]") -> None:
        """Run a job; if it fails, the conversation goes on without it, and the log says so."""
        try:
            await job
        except Exception as error:  # noqa: BLE001 - the end of a task
            from switchboard.telemetry.logs import fault

            self._event("error", "job.failed", job=job.__qualname__, error=fault(error))

    async def hang_up(self) -> None:
        """Take every question back; calls that wait for one are answered."""
        await self._permissions.close()

    async def close(self) -> None:
        """Close what was opened, and end what was started."""
        await self._permissions.close()
        for executor in self._native.values():
            await executor.close()
        for fetch in self._fetches.values():
            await fetch.close()

    async def _scan(self) -> None:
        """Scan once, then again after every change of a folder."""
        from asyncio import create_task, shield, wait_for

        from switchboard.sources.places import places
        from switchboard.sources.watch import watch

        scan = create_task(self.collection.load())
        try:
            await wait_for(shield(scan), _SLOW_SCAN_S)
        except TimeoutError:
            self._event("warning", "scan.slow", seconds=_SLOW_SCAN_S)
            await scan
        self._event("info", "scan.done", apps=len(self.collection.current().apps))
        if "AAI_HOME" in self._around.environment and not self._around.aai_home.is_dir():
            self._event("warning", "home.missing", folder=str(self._around.aai_home))
        self._report_problems()

        async def changed() -> None:
            before = self.collection.current().version
            await self.collection.load()
            if self.collection.current().version != before:
                self._event("info", "scan.changed", apps=len(self.collection.current().apps))
            self._report_problems()

        await watch(places(self._around, dev=self._options.dev), changed)

    async def _keep(self, planes: "ControlPlanes") -> None:
        """Follow the control planes, and take in what they tell."""

        async def changed() -> None:
            await self.collection.load(planes)
            self._report_problems()

        await planes.keep(changed)

    def _report_problems(self) -> None:
        """Log what is wrong with descriptors, each problem once for as long as it is there."""
        now = {
            (finding.location, str(problem))
            for finding in self.collection.findings
            for problem in finding.problems
            if problem.severity == "error"
        }
        for location, reason in sorted(now - self._problems):
            self._event("warning", "descriptor.refused", location=location, reason=reason)
        self._problems = now

    async def _follow(self) -> None:
        """Copy the registries' apps at start and every hour, in the order they were named: the first one wins an id."""
        from asyncio import sleep

        from switchboard.actions.ports import Readiness
        from switchboard.sources.copies import shown_address
        from switchboard.sources.places import web_copies
        from switchboard.sources.registry import Registry

        registries = [
            Registry(
                named.url,
                web_copies(self._around),
                fetches=self._registry_fetches,
                clock=self._clock,
                system=self._around.system,
                log=self._log,
                key=named.key,
            )
            for named in self._options.registries
        ]
        for named in self._options.registries:
            self.collection.note(Readiness(source=shown_address(named.url).rstrip("/"), status="loading"))
        while True:
            with self.collection.expecting_more():
                for named, registry in zip(self._options.registries, registries, strict=True):
                    await self._copy_from(named.url, registry)
            await sleep(_REGISTRY_EVERY_S)

    async def _copy_from(self, base: str, registry: "Registry") -> None:
        from switchboard.actions.ports import Readiness
        from switchboard.catalog.errors import SwitchboardError
        from switchboard.sources.copies import shown_address

        name = shown_address(base).rstrip("/")
        try:
            synced = await registry.sync()
        except (SwitchboardError, OSError) as error:
            self._event("warning", "registry.failed", registry=base, reason=str(error))
            before = next((one for one in self.collection.readiness() if one.source == name), None)
            since = before.since if before is not None and before.status == "down" else self._clock.now()
            self.collection.note(Readiness(source=name, status="down", since=since, reason=str(error)))
            return
        await self.collection.load()
        self.collection.note(Readiness(source=name, status="ready", apps=synced.listed))
        self._report_problems()
        self._event("info", "registry.synced", **{key: getattr(synced, key) for key in synced.__struct_fields__})

    def _agents(self) -> "dict[ExecutionKind, Executor]":
        if self._planes is None:
            return {}
        from switchboard.executors.control_plane import ControlPlaneExecutor

        return {"control-plane": ControlPlaneExecutor(self._named, self._planes)}

    def _namesakes(self, owner: "Owner") -> "list[str]":
        """Return where another app of the same id is from."""
        known = self.collection.current().apps.get(owner.id)
        return [known.origin] if known is not None and known.origin != getattr(owner, "origin", "") else []

    def _strangers(self) -> "Fetch":
        """Return the client for addresses that somebody else wrote down, made when it is first needed."""
        from switchboard.local_apps import strangers

        if "strangers" not in self._fetches:  # making one reads every certificate of the system: 28 ms
            self._fetches["strangers"] = strangers(dev=self._options.dev, caches=self._caches)
        return self._fetches["strangers"]

    def _named(self) -> "Fetch":
        """Return the client for addresses that the user wrote down, which may be inside their own network."""
        from switchboard.local_apps import familiar

        if "named" not in self._fetches:
            self._fetches["named"] = familiar()
        return self._fetches["named"]

    def _registry_fetches(self) -> "Fetches":
        from switchboard.sources.registry import Fetches

        return Fetches(self._named(), self._strangers())

    def _event(self, level: "Level", message: str, **fields: "Any") -> None:
        self._log.event(level, message, self._clock.now(), **fields)
        self._log.flush()

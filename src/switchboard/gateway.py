"""Wires and runs `aai-gateway`: what this machine offers to an agent.

The command starts with every chat, so each path below imports only what it needs, and the handshake of an MCP client
is answered before anything heavy is imported at all.
"""

import os
import sys

from switchboard import __version__
from switchboard.mcp.front import Opening, open_conversation, take_standard_streams
from switchboard.mcp.greeting import Greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any, NoReturn

    from switchboard.actions.ports import Consent
    from switchboard.catalog.model import Owner
    from switchboard.mcp.server import ToolNames
    from switchboard.net.fetch import Fetch
    from switchboard.permissions import Way
    from switchboard.sources.registry import Fetches, Registry
    from switchboard.telemetry.logs import Level, Log

_EXAMPLES = """\
examples:
  aai-gateway                    serve MCP on standard input and output; an agent client starts it this way
  aai-gateway --scan             show the apps on this machine, and what is wrong with broken descriptors
  aai-gateway --scan --json      the same for scripts
  aai-gateway --dev              also the descriptors of the build in this folder, and plain http to this machine
  aai-gateway --registry URL     also the web apps of a registry
  aai-gateway --consent browser  ask the user on a page in the browser, and never in a dialog

in the configuration of an agent client:
  {"mcpServers": {"aai-gateway": {"command": "COMMAND"}}}

folders:
  AAI_HOME (default ~/.aai)      <app id>/aai.json for your own apps, web/<app id>/aai.json for registry copies
  XDG_CACHE_HOME/aai-gateway     what web sites publish about themselves, for a day

environment:
  AAI_REGISTRY_URL               registries, separated by spaces, where no --registry is given
  SWITCHBOARD_LOG_LEVEL          debug, info (default), warning or error
  SWITCHBOARD_CACHES             on (default), one or off: how much is remembered to save work
  SWITCHBOARD_VAULT              where secrets and decisions are kept: keychain or file; by default what is there
  SWITCHBOARD_KEY_FILE           a file of 32 bytes or more, mode 0600: the key of the encrypted file
  SWITCHBOARD_PASSPHRASE         what the key of the encrypted file is made of, where there is no such file
  AAI_<APP>_CLIENT_ID, _SECRET   who we are at an OAuth server, where the app does not say

logs go to standard error, and to gateway.log in the user's folder for logs, on Linux ~/.local/state/switchboard/log
"""

GREETING = Greeting(
    {"name": "aai-gateway", "title": "Switchboard gateway", "version": __version__},
    {"tools": {"listChanged": True}, "resources": {"listChanged": True}},
    "Apps of this computer and of the web, one tool each. The list is partial: web apps that are not installed are not "
    "in it, and an app that is not listed can still be called by its id. To use an app: 1. call its app tool to read "
    "its guide; 2. call aai:exec (also spelled aai_exec) with app, tool and args as in the guide. For a web service "
    "that is not listed, call web:discover (web_discover) with its URL or domain. The user is asked before anything "
    "runs. A result with isError says in `code` what is wrong and in `message` what to do.",
)
_GRACE_S = 2.0
_SLOW_SCAN_S = 10.0
_REGISTRY_EVERY_S = 3600.0


class Options:
    """What the command line says."""

    def __init__(
        self,
        *,
        dev: bool = False,
        registries: "Sequence[str]" = (),
        tool_names: "ToolNames" = "auto",
        consent: "Way" = "auto",
    ) -> None:
        self.dev = dev
        self.registries = tuple(registries)
        self.tool_names: ToolNames = tool_names
        self.consent: Way = consent


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"aai-gateway {__version__}")
        return 0
    if not arguments and "AAI_REGISTRY_URL" not in os.environ:
        return serve(Options())
    import argparse

    parser = argparse.ArgumentParser(
        prog="aai-gateway",
        description="Tells an AI agent which apps it can use on this machine: an MCP server on standard streams.",
        epilog=_EXAMPLES.replace("COMMAND", os.path.abspath(sys.argv[0])),  # noqa: PTH100 - a path to paste
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--scan", action="store_true", help="print the discovered apps and exit")
    parser.add_argument("--json", action="store_true", help="with --scan: print JSON, for scripts")
    parser.add_argument(
        "--dev", action="store_true", help="also scan development build folders, and allow plain http to this machine"
    )
    parser.add_argument(
        "--registry",
        action="append",
        metavar="URL",
        help="add the web apps of a registry (https, or http on this machine)",
    )
    parser.add_argument(
        "--tool-names",
        choices=("aai", "portable", "auto"),
        default="auto",
        help="how tools are called in lists: app:<id>, app_<id>, or what suits the client (default)",
    )
    parser.add_argument(
        "--consent",
        choices=("auto", "dialog", "browser", "elicit", "deny"),
        default="auto",
        help="how you are asked before anything runs: a dialog of the system, a page in the browser, by the client "
        "(elicit: the client is whom you are asked about), or not at all (deny); by default a dialog, else a page",
    )
    parser.add_argument("--version", action="version", version=f"aai-gateway {__version__}")
    options = parser.parse_args(arguments)
    if options.json and not options.scan:
        parser.error("--json goes with --scan.")
    if options.scan and (options.registry or options.tool_names != "auto" or options.consent != "auto"):
        parser.error("--scan shows what is on this machine; --registry, --tool-names and --consent are for serving.")
    if options.scan:
        return _print_scan(dev=options.dev, as_json=options.json)
    registries = options.registry or os.environ.get("AAI_REGISTRY_URL", "").split()
    for registry in registries:
        if not _is_registry(registry):
            # Not repeated here: who writes a password into an address does not want to read it in a log.
            parser.error(
                "a registry is written https://host, or http://localhost:PORT, without a user name or a query."
            )
    return serve(
        Options(dev=options.dev, registries=registries, tool_names=options.tool_names, consent=options.consent)
    )


def _is_registry(address: str) -> bool:
    from urllib.parse import urlsplit

    from switchboard.settings import is_loopback

    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return bool(host) and plain and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def serve(options: Options, consent: "Consent | None" = None) -> "NoReturn":
    """Serve MCP on standard input and output until the client goes; tests bring the user's hand as `consent`."""
    try:
        source, target = take_standard_streams()
        opening = open_conversation(lambda size: os.read(source, size), lambda data: os.write(target, data), GREETING)
        if not opening.ended or opening.rest:
            import asyncio

            asyncio.new_event_loop().run_until_complete(_converse(options, consent, opening, source, target))
    except KeyboardInterrupt:  # before the loop takes care of signals
        pass
    # Everything is closed and written; a scan that hangs on a dead disk in its thread must not keep the process.
    os._exit(0)


async def _converse(options: Options, consent: "Consent | None", opening: Opening, source: int, target: int) -> None:
    from asyncio import Event, get_running_loop

    from switchboard.mcp.protocol import INVALID_REQUEST, Connection, Fault, failed
    from switchboard.mcp.stdio import LONGEST, Input, Lines, Output, until_quiet

    loop = get_running_loop()
    gone = Event()
    log = _log()
    parts = _Parts(options, consent, log)
    server = parts.server
    output = Output(target, loop, gone.set)
    connection = Connection(server.methods(), GREETING, output.send, log=log)

    def refuse() -> None:
        output.send(failed(None, Fault(INVALID_REQUEST, f"a message is longer than {LONGEST} bytes")))

    def announce() -> None:
        if connection.session.ready:
            for kind in server.outdated():
                connection.notify(f"notifications/{kind}/list_changed")

    lines = Lines(connection.receive, refuse)
    reader = Input(source, loop, lines.feed, output)
    parts.collection.listen(announce)
    _on_signals(gone.set)
    background = [loop.create_task(parts.watched(job)) for job in parts.jobs()]
    if opening.answered:
        connection.adopt(opening.answered)
    lines.feed(opening.rest)
    if opening.ended:
        reader.ended.set()
    else:
        reader.start()
    await until_quiet(reader, gone)
    _on_signals(lambda: os._exit(0))  # whoever says it now does not want to wait for the rest
    if not gone.is_set():
        lines.end()
        server.close()
        await parts.hang_up()  # nobody is there any more for whom the user could be asked
        await connection.finish(_GRACE_S)
    for task in background:
        task.cancel()
    await connection.close()
    await output.finish(0 if gone.is_set() else _GRACE_S)
    await parts.close()
    log.flush()


class _Parts:
    """Everything the gateway is made of, each thing once."""

    def __init__(self, options: Options, consent: "Consent | None", log: "Log") -> None:
        from switchboard.actions.collection import Collection
        from switchboard.actions.execute import Execute
        from switchboard.actions.lookup import Lookup
        from switchboard.catalog.caches import Caches
        from switchboard.catalog.locales import from_environment
        from switchboard.executors.http import HttpExecutor
        from switchboard.executors.native import native
        from switchboard.local_apps import surroundings
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
        self.collection = Collection([self._desktop])
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
                executors={"http": HttpExecutor(self._strangers), **self._native},
                audit=audit,
                clock=self._clock,
                fingerprint=audit.fingerprint,
                caches=caches,
            ),
            greeting=GREETING,
            tool_names=options.tool_names,
            locale=from_environment(self._around.environment),
            caches=caches,
        )

    def jobs(self) -> "list[Coroutine[Any, Any, None]]":
        """Return what runs beside the conversation."""
        return [self._scan(), *([self._follow()] if self._options.registries else [])]

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

        from switchboard.sources.places import web_copies
        from switchboard.sources.registry import Registry

        registries = [
            Registry(
                base,
                web_copies(self._around),
                fetches=self._registry_fetches,
                clock=self._clock,
                system=self._around.system,
                log=self._log,
            )
            for base in self._options.registries
        ]
        while True:
            with self.collection.expecting_more():
                for base, registry in zip(self._options.registries, registries, strict=True):
                    await self._copy_from(base, registry)
            await sleep(_REGISTRY_EVERY_S)

    async def _copy_from(self, base: str, registry: "Registry") -> None:
        from switchboard.catalog.errors import SwitchboardError

        try:
            synced = await registry.sync()
        except (SwitchboardError, OSError) as error:
            self._event("warning", "registry.failed", registry=base, reason=str(error))
            return
        await self.collection.load()
        self._report_problems()
        self._event("info", "registry.synced", **{key: getattr(synced, key) for key in synced.__struct_fields__})

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

    def _registry_fetches(self) -> "Fetches":
        from switchboard.net.fetch import Fetch
        from switchboard.net.guard import is_reachable
        from switchboard.sources.registry import Fetches

        if "named" not in self._fetches:
            self._fetches["named"] = Fetch(loopback=True, permitted=is_reachable, caches=self._caches)
        return Fetches(self._fetches["named"], self._strangers())

    def _event(self, level: "Level", message: str, **fields: "Any") -> None:
        self._log.event(level, message, self._clock.now(), **fields)
        self._log.flush()


def _on_signals(end: "Callable[[], None]") -> None:
    """End quietly when the client, or the person, says so with a signal."""
    from asyncio import get_running_loop
    from signal import SIGINT, SIGTERM

    for number in (SIGINT, SIGTERM):
        try:
            get_running_loop().add_signal_handler(number, end)
        except NotImplementedError:  # Windows ends the process itself
            return


def _log() -> "Log":
    """Return a log to standard error, which clients show, and to a file, which stays."""
    from contextlib import suppress
    from pathlib import Path
    from time import time

    import platformdirs

    from switchboard.telemetry.files import LogFile, Several, StandardError
    from switchboard.telemetry.logs import LEVELS, Log, Stream

    streams: list[Stream] = [StandardError()]
    with suppress(OSError):  # a read-only home: the log of the client has to do
        streams.append(LogFile(Path(platformdirs.user_log_dir("switchboard", appauthor=False)) / "gateway.log"))
    wanted = os.environ.get("SWITCHBOARD_LOG_LEVEL", "info").strip().lower()
    log = Log(Several(streams), LEVELS.get(wanted, "info"))
    if wanted not in LEVELS:
        log.event("warning", "log.level.unknown", time(), given=wanted, known=list(LEVELS))
    return log


def _print_scan(*, dev: bool, as_json: bool) -> int:
    from switchboard.local_apps import scan
    from switchboard.terminal import findings_json, findings_table

    findings = scan(dev=dev)
    _print(findings_json(findings) if as_json else findings_table(findings))
    return 0


def _print(text: str) -> None:
    """Print in UTF-8, whatever the system thinks a pipe speaks: scripts read JSON, and names have every script."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.buffer.flush()

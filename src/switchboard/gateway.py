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
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from switchboard.actions.ports import Consent
    from switchboard.mcp.server import ToolNames
    from switchboard.named import Named
    from switchboard.permissions import Way
    from switchboard.telemetry.logs import Log

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
_NAMED_ELSEWHERE = ("AAI_REGISTRY_URL", "AGENTFIELD_SERVER")
"""What the environment says about where else to look."""


class Options:
    """What the command line says."""

    def __init__(
        self,
        *,
        dev: bool = False,
        registries: "Sequence[Named]" = (),
        control_planes: "Sequence[Named]" = (),
        tool_names: "ToolNames" = "auto",
        consent: "Way" = "auto",
    ) -> None:
        self.dev = dev
        self.registries = tuple(registries)
        self.control_planes = tuple(control_planes)
        self.tool_names: ToolNames = tool_names
        self.consent: Way = consent


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the command and return its exit code.

    Raises:
        SystemExit: with that code, where there is something to print.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"aai-gateway {__version__}")
        return 0
    if not arguments and not any(name in os.environ for name in _NAMED_ELSEWHERE):
        return serve(Options())
    from switchboard.gateway_arguments import read
    from switchboard.manners import finish

    return finish("aai-gateway", lambda: _do(read(arguments)))


def _do(options: "Namespace") -> int:
    if options.scan:
        return _print_scan(dev=options.dev, as_json=options.json)
    return serve(
        Options(
            dev=options.dev,
            registries=options.registry,
            control_planes=options.control_plane,
            tool_names=options.tool_names,
            consent=options.consent,
        )
    )


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

    from switchboard.gateway_parts import Parts
    from switchboard.mcp.messages import INVALID_REQUEST, Fault, failed
    from switchboard.mcp.protocol import Connection
    from switchboard.mcp.stdio import LONGEST, Input, Lines, Output, until_quiet

    loop = get_running_loop()
    gone = Event()
    log = _log()
    parts = Parts(options, consent, GREETING, log)
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
    from switchboard.progress import waiting
    from switchboard.terminal import findings_json, findings_table

    with waiting("Looking for apps"):
        findings = scan(dev=dev)
    _print(findings_json(findings) if as_json else findings_table(findings))
    return 0


def _print(text: str) -> None:
    """Print in UTF-8, whatever the system thinks a pipe speaks: scripts read JSON, and names have every script."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.buffer.flush()

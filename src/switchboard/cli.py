"""The `switchboard` command.

Exit codes: 0 it is so, 1 it is not (problems were found), 2 the command was not understood or a file cannot be read.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from switchboard import __version__, cli_apps, local_apps, terminal
from switchboard.cli_permissions import AsJson, auth, consent

app = typer.Typer(
    help="Tells AI agents what they can use, and puts the call through only if the user said yes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(consent, name="consent")
app.add_typer(auth, name="auth")
cli_apps.add_to(app)


def main() -> None:
    """Run the command."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"switchboard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Tells AI agents what they can use, and puts the call through only if the user said yes."""


@app.command(
    epilog="Examples:\n\n  switchboard check aai.json\n\n  switchboard check --json build/aai.json\n\n"
    "  switchboard check --canonical old.json > aai.json"
)
def check(
    file: Annotated[Path, typer.Argument(help="An aai.json, or a folder with one in it.", show_default=False)],
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the problems as JSON, for scripts.")] = False,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="Print the descriptor in the canonical form, if it can be read.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail the check, too.")] = False,
) -> None:
    """Say what is wrong with an aai.json, every problem with its JSON path.

    Exit code 0: it can be used. 1: it cannot (or, with --strict, has warnings). 2: there is no such file.
    """
    if str(file).startswith(("http:/", "https:/")):
        _refuse("this version checks files only; download the descriptor first, to a file")
    if json and canonical:
        _refuse("--json and --canonical cannot be printed together; choose one")
    path = file / "aai.json" if file.is_dir() else file
    try:
        finding, written = local_apps.check(path)
    except OSError as error:
        _refuse(f"{path} cannot be read: {error.strerror or error}")
    if json:
        typer.echo(terminal.problems_json(finding))
    else:
        for line in terminal.problem_lines(finding):
            typer.echo(line, err=canonical)
        typer.echo(terminal.verdict(finding), err=canonical)
    if canonical and written is not None:
        typer.echo(written.decode())
    if not finding.usable or (strict and finding.problems):
        raise typer.Exit(1)


def _refuse(message: str) -> NoReturn:
    typer.echo(f"switchboard: {message}", err=True)
    raise typer.Exit(2)


class Format(StrEnum):
    """Formats of the discovery endpoint."""

    json = "json"
    xml = "xml"
    compact = "compact"


Server = Annotated[
    str, typer.Option("--server", envvar="AGENTFIELD_SERVER", help="Address of the control plane.", metavar="URL")
]
Key = Annotated[
    str | None,
    typer.Option("--api-key", envvar="AGENTFIELD_API_KEY", help="API key of the control plane.", show_envvar=True),
]
_LOCAL = "http://localhost:8080"


@app.command(
    epilog="Examples:\n\n  switchboard serve\n\n  switchboard serve --demo --port 9000\n\n"
    "  SWITCHBOARD_API_KEY=... switchboard serve --host 0.0.0.0"
)
def serve(  # noqa: PLR0913 - one per setting
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.  [default: 8080]")] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            help="sqlite:///FILE, or postgresql://USER@HOST/NAME for several instances."
            "  [default: a file in your data folder]",
            metavar="URL",
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(help="Key every caller must send. Better in SWITCHBOARD_API_KEY: others see arguments."),
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.  [default: info]")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with any of these settings, by their names.", metavar="FILE")
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(help="Seconds to go on serving after being told to stop, while /ready says no.  [default: 0]"),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Also start a few sample agents that really run.")] = False,
) -> None:
    """Run a control plane: agents register here, orchestrators discover them.

    Settings come from flags, then SWITCHBOARD_HOST, _PORT, _DATABASE_URL, _API_KEY, _LOG_LEVEL, then the file.
    """
    from switchboard import control_plane, settings  # noqa: PLC0415 - other commands start without a server

    flags = {
        "host": host,
        "port": port,
        "database_url": database_url,
        "api_key": api_key,
        "log_level": log_level,
        "config": config,
        "drain_seconds": drain,
        "demo": demo or None,
    }
    try:
        code = control_plane.serve(settings.serve_settings(flags, os.environ))
    except settings.SettingsError as error:
        typer.echo(f"switchboard: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(code)


@app.command(
    epilog="Examples:\n\n  switchboard discover\n\n  switchboard discover --reasoner '*research*' --tags 'ml*'\n\n"
    "  switchboard discover --format xml --include-input-schema"
)
def discover(  # noqa: PLR0913 - one per parameter of the endpoint
    *,
    agent: Annotated[list[str] | None, typer.Option(help="Agent id, may contain *; may be repeated.")] = None,
    reasoner: Annotated[str | None, typer.Option(help="Pattern for reasoner ids.")] = None,
    skill: Annotated[str | None, typer.Option(help="Pattern for skill ids.")] = None,
    tags: Annotated[str | None, typer.Option(help="Tags, separated by commas; each may contain *.")] = None,
    health_status: Annotated[str | None, typer.Option(help="active, inactive, degraded or unknown.")] = None,
    include_input_schema: Annotated[bool, typer.Option("--include-input-schema")] = False,
    include_output_schema: Annotated[bool, typer.Option("--include-output-schema")] = False,
    include_descriptions: Annotated[bool | None, typer.Option()] = None,
    include_examples: Annotated[bool, typer.Option("--include-examples")] = False,
    limit: Annotated[int | None, typer.Option(help="Most agents on a page.")] = None,
    offset: Annotated[int | None, typer.Option(help="Agents to skip.")] = None,
    format: Annotated[  # noqa: A002 - the name of the parameter
        Format | None, typer.Option(help="Print the raw answer in this format instead of a table.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    server: Server = _LOCAL,
    api_key: Key = None,
) -> None:
    """Show what agents can do, as a table or raw."""
    raw = Format.json if json and format is None else format
    given = {
        "agent_ids": ",".join(agent or []),
        "reasoner": reasoner,
        "skill": skill,
        "tags": tags,
        "health_status": health_status,
        "include_input_schema": "true" if include_input_schema else None,
        "include_output_schema": "true" if include_output_schema else None,
        "include_descriptions": None if include_descriptions is None else str(include_descriptions).lower(),
        "include_examples": "true" if include_examples else None,
        "limit": limit,
        "offset": offset,
        "format": raw.value if raw else "json",
    }
    body = _ask(server, "/api/v1/discovery/capabilities", given, api_key)
    typer.echo(body.decode() if raw else terminal.discovery_table(body))


@app.command(epilog="Examples:\n\n  switchboard agents\n\n  switchboard agents --json")
def agents(
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
    server: Server = _LOCAL,
    api_key: Key = None,
) -> None:
    """Show every registered agent with its health, why, and since when."""
    body = _ask(server, "/api/v1/nodes", {"show_all": "true"}, api_key)
    typer.echo(body.decode() if json else terminal.agents_table(body))


@app.command(
    epilog='Examples:\n\n  switchboard execute demo-writer:summarise --input \'{"text": "One. Two."}\'\n\n'
    "  echo '{\"numbers\": [1, 2]}' | switchboard execute demo-statistician:skill:describe_numbers --input -"
)
def execute(
    target: Annotated[str, typer.Argument(help="What to run, as `discover` prints it.", show_default=False)],
    *,
    given: Annotated[
        str, typer.Option("--input", help="The input, a JSON object; - reads it from standard input.")
    ] = "{}",
    json: Annotated[bool, typer.Option("--json", help="Print the whole execution, for scripts.")] = False,
    server: Server = _LOCAL,
    api_key: Key = None,
) -> None:
    """Run one capability of an agent and show its result.

    Exit code 0: it succeeded. 1: it did not, or no control plane answers. 2: the input is not a JSON object.
    """
    import sys  # noqa: PLC0415 - only here

    from switchboard import control_plane  # noqa: PLC0415 - other commands start without a server

    text = sys.stdin.buffer.read() if given == "-" else given.encode()
    if not terminal.is_json_object(text):
        _refuse('--input must be a JSON object, for example \'{"text": "hello"}\'')
    try:
        body = control_plane.execute(server, target, text, api_key)
    except control_plane.AskError as error:
        typer.echo(f"switchboard: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(body.decode() if json else terminal.result_text(body))


@app.command(epilog="Examples:\n\n  switchboard audit\n\n  switchboard audit --limit 5 --json")
def audit(
    *,
    limit: Annotated[int, typer.Option(help="How many of the newest lines to show.", min=1)] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, one line each, for scripts.")] = False,
) -> None:
    """Show what was executed on this machine: who, what, when, what was decided, how it ended. Never with what."""
    from switchboard import control_plane  # noqa: PLC0415 - other commands start without a server

    lines = control_plane.audit(limit)
    typer.echo(lines.decode() if json else terminal.audit_table(lines), nl=not json)


@app.command(
    epilog="Examples:\n\n  switchboard install --list\n\n  switchboard install cursor --dry-run\n\n"
    "  switchboard install claude-desktop --arg=--dev --env AAI_HOME=/path/to/apps\n\n"
    "  switchboard install vscode --project\n\n  switchboard install codex --uninstall"
)
def install(  # noqa: PLR0913 - one per wish
    client: Annotated[
        str,
        typer.Argument(
            help="claude-desktop, claude-code, cursor, vscode, windsurf, codex, gemini or zed.", show_default=False
        ),
    ] = "",
    *,
    name: Annotated[str, typer.Option(help="What the client calls it.")] = "aai-gateway",
    arg: Annotated[
        list[str] | None, typer.Option(help="An option for aai-gateway, as --arg=--dev; may be repeated.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE]",
            help="A variable for aai-gateway; a name alone takes its value from here. May be repeated.",
        ),
    ] = None,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Take it out again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    project: Annotated[
        bool, typer.Option("--project", help="Into the file of the project in this folder, not into your own.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="Into this file, wherever it is.", metavar="FILE", show_default=False)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if the client is not found, or the name starts something else.")
    ] = False,
    known: Annotated[bool, typer.Option("--list", help="Show the clients that are known, and their files.")] = False,
    json: AsJson = False,
) -> None:
    """Put the gateway into the configuration of an agent client; everything else in that file stays.

    A copy of the file is put beside it first. Values that may be secret are never shown.

    Exit code 0: it is so. 1: it is not, and nothing was changed. 2: the command was not understood, or the file cannot
    be read.
    """
    from time import time  # noqa: PLC0415 - other commands need none of this

    from switchboard import settings  # noqa: PLC0415
    from switchboard.clients import install as installing  # noqa: PLC0415
    from switchboard.clients import requests  # noqa: PLC0415
    from switchboard.clients.known import Machine  # noqa: PLC0415
    from switchboard.clients.refusals import Refusal  # noqa: PLC0415

    here = local_apps.surroundings()
    machine = Machine(system=settings.system(), home=str(here.home), environment=os.environ)
    if known:
        rows = requests.rows(machine)
        typer.echo(terminal.rows_json("clients", rows) if json else terminal.clients_table(rows))
        return
    if not client:
        _refuse("name a client; `switchboard install --list` shows them")
    try:
        request = requests.Request(
            client=client,
            name=name,
            args=arg or (),
            env=env or (),
            uninstall=uninstall,
            dry_run=dry_run,
            project=project,
            config=config,
            force=force,
        )
        wish = requests.wish(request, machine, here.working)
        done = installing.carry_out(wish, time())
    except Refusal as refusal:
        typer.echo(f"switchboard: {terminal.one_line(str(refusal))}", err=True)
        raise typer.Exit(refusal.code) from None
    row = requests.told(done, wish)
    typer.echo(terminal.row_json(row) if json else terminal.install_text(row, wish.client.title, wish.client.note))


@app.command(epilog="Examples:\n\n  switchboard doctor\n\n  switchboard doctor --json")
def doctor(*, json: AsJson = False) -> None:
    """Look for what keeps the gateway from working on this machine, and say what to do about it.

    Exit code 0: all is well, or there are warnings only. 1: there are problems.
    """
    from switchboard.doctor import examination  # noqa: PLC0415 - other commands need none of it

    def waiting(names: list[str]) -> None:
        typer.echo(f"Still looking: {', '.join(names)} ...", err=True)

    findings = [terminal.fields(finding) for finding in examination.examine(waiting)]
    typer.echo(terminal.examination_json(findings) if json else terminal.examination_text(findings))
    raise typer.Exit(1 if any(finding["state"] == "problem" for finding in findings) else 0)


def _ask(server: str, path: str, given: Mapping[str, object], api_key: str | None) -> bytes:
    from switchboard import control_plane  # noqa: PLC0415 - other commands start without a server

    parameters = [(name, str(value)) for name, value in given.items() if value not in (None, "")]
    try:
        return control_plane.ask(server, path, parameters, api_key)
    except control_plane.AskError as error:
        typer.echo(f"switchboard: {error}", err=True)
        raise typer.Exit(1) from None

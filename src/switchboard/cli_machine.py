"""`switchboard check`, `install`, `doctor` and `audit`: what is on this machine."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from switchboard import local_apps, terminal
from switchboard.cli_permissions import AsJson
from switchboard.manners import FAILED, OK, Failure, examples, misused
from switchboard.progress import waiting

if TYPE_CHECKING:
    from switchboard.catalog.findings import Finding

app = typer.Typer()
_NAME_ONE = "Name an aai.json, a folder with one in it, or an https address."


@app.command(
    epilog=examples(
        "switchboard check aai.json",
        "switchboard check https://shop.example.com",
        "switchboard check --dev http://localhost:8000",
        "switchboard check --json build/aai.json",
        "switchboard check --canonical old.json > aai.json",
    )
)
def check(
    place: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_URL",
            help="An aai.json, a folder with one in it, or the https address of one or of the site that has it.",
            show_default=False,
        ),
    ],
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the problems as JSON, for scripts.")] = False,
    canonical: Annotated[
        bool, typer.Option("--canonical", help="Print the descriptor in the canonical form, if it can be read.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail the check, too.")] = False,
    dev: Annotated[bool, typer.Option("--dev", help="Also ask this machine, over plain http.")] = False,
) -> None:
    """Say what is wrong with an aai.json, every problem with its JSON path.

    A site is asked for its /.well-known/aai.json, in the way in which a gateway asks, and judged as a gateway does.

    Exit code 0: it can be used. 1: it cannot (or, with --strict, has warnings). 2: there is none that can be read.
    """
    if json and canonical:
        misused("--json and --canonical cannot be printed together. Choose one.")
    is_address = "://" in place
    if dev and not is_address:
        misused("--dev is for addresses on this machine, such as http://localhost:8000. Leave it out for a file.")
    finding, written = _checked_at(place, dev=dev) if is_address else _checked(Path(place))
    if json:
        typer.echo(terminal.problems_json(finding))
    else:
        for line in terminal.problem_lines(finding):
            typer.echo(line, err=canonical)
        typer.echo(terminal.verdict(finding), err=canonical)
    if canonical and written is not None:
        typer.echo(written.decode())
    if not finding.usable or (strict and finding.problems):
        raise typer.Exit(FAILED)


def _checked(file: Path) -> "tuple[Finding, bytes | None]":
    path = file / "aai.json" if file.is_dir() else file
    try:
        return local_apps.check(path)
    except OSError as error:
        misused(f"{terminal.one_line(str(path))} cannot be read: {error.strerror or error}. {_NAME_ONE}")


def _checked_at(url: str, *, dev: bool) -> "tuple[Finding, bytes | None]":
    from switchboard.catalog.errors import RefusedAddress, SwitchboardError  # noqa: PLC0415 - files need none of it

    try:
        with waiting("Asking the site"):
            return local_apps.check_at(url, dev=dev)
    except RefusedAddress as error:
        hint = (
            "" if dev or not url.lower().startswith("http://") else " With --dev, this machine is asked over http, too."
        )
        misused(f"{error.message}{hint}")
    except SwitchboardError as error:
        misused(error.message)


def _clients() -> list[str]:
    from switchboard.clients.known import CLIENTS  # noqa: PLC0415 - for who completes a name

    return [one.id for one in CLIENTS]


@app.command(
    epilog=examples(
        "switchboard install --list",
        "switchboard install cursor --dry-run",
        "switchboard install claude-desktop --arg=--dev --env AAI_HOME=/path/to/apps",
        "switchboard install vscode --project",
        "switchboard install codex --uninstall",
    )
)
def install(  # noqa: PLR0913 - one per wish
    client: Annotated[
        str,
        typer.Argument(
            help="claude-desktop, claude-code, cursor, vscode, windsurf, codex, gemini or zed.",
            show_default=False,
            autocompletion=_clients,
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
        misused("Name a client. `switchboard install --list` shows those that are known.")
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
        raise Failure(terminal.one_line(str(refusal)), refusal.code) from None
    row = requests.told(done, wish)
    typer.echo(terminal.row_json(row) if json else terminal.install_text(row, wish.client.title, wish.client.note))


@app.command(epilog=examples("switchboard doctor", "switchboard doctor --json"))
def doctor(*, json: AsJson = False) -> None:
    """Look for what keeps the gateway from working on this machine, and say what to do about it.

    Exit code 0: all is well, or there are warnings only. 1: there are problems.
    """
    from switchboard.doctor import examination  # noqa: PLC0415 - other commands need none of it

    slow: list[str] = []
    with waiting(lambda: f"Still looking: {', '.join(slow) or 'at this machine'}"):
        findings = [terminal.fields(finding) for finding in examination.examine(slow.extend)]
    typer.echo(terminal.examination_json(findings) if json else terminal.examination_text(findings))
    raise typer.Exit(FAILED if any(finding["state"] == "problem" for finding in findings) else OK)


@app.command(epilog=examples("switchboard audit", "switchboard audit --limit 5 --json"))
def audit(
    *,
    limit: Annotated[int, typer.Option(help="How many of the newest lines to show.", min=1)] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, one line each, for scripts.")] = False,
) -> None:
    """Show what was executed on this machine: who, what, when, what was decided, how it ended. Never with what."""
    lines = local_apps.audit(limit)
    typer.echo(lines.decode() if json else terminal.audit_table(lines), nl=not json)

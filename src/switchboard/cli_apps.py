"""`switchboard publish` and `switchboard apps`: what a control plane offers to gateways as their registry."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from switchboard import local_apps, terminal
from switchboard.cli_agents import LOCAL, Key, Server
from switchboard.cli_permissions import AsJson
from switchboard.manners import FAILED, Failure, examples, failed, misused
from switchboard.progress import waiting

if TYPE_CHECKING:
    from switchboard.catalog.findings import Finding

_APPS = "/api/v1/apps"
app = typer.Typer()


@app.command(
    epilog=examples(
        "switchboard publish aai.json",
        "switchboard publish aai.json --server https://agents.example.com",
        "switchboard publish --withdraw com.example.shop",
    )
)
def publish(
    file: Annotated[
        Path | None, typer.Argument(help="An aai.json, or a folder with one in it.", show_default=False)
    ] = None,
    *,
    withdraw: Annotated[
        str | None, typer.Option("--withdraw", metavar="ID", help="Take this app out of the registry instead.")
    ] = None,
    json: AsJson = False,
    server: Server = LOCAL,
    api_key: Key = None,
) -> None:
    """Publish a web app on a control plane, where gateways that use it as their registry find it.

    The descriptor is checked here first, then there: every problem is shown with its JSON path.

    Exit code 0: it is published (or withdrawn). 1: it is not. 2: the file cannot be read, or none is named.
    """
    if (file is None) == (withdraw is None):
        misused("Name a file to publish, or an app with --withdraw.")
    if file is None:
        answer = _asked("DELETE", f"{_APPS}/{quote(withdraw or '', safe='')}", server, api_key, json=json)
        typer.echo(answer.decode() if json else f"{terminal.one_line(withdraw or '')} is withdrawn.")
        return
    finding, raw = _checked(file)
    if not finding.usable or finding.app is None:
        _show_problems(finding, json=json)
        raise typer.Exit(1)
    answer = _asked("PUT", f"{_APPS}/{quote(finding.app.id, safe='')}", server, api_key, raw, json=json)
    typer.echo(answer.decode() if json else terminal.publication_text(answer))


@app.command(epilog=examples("switchboard apps", "switchboard apps --json", "switchboard apps --here"))
def apps(
    *,
    here: Annotated[
        bool, typer.Option("--here", help="The apps found on this machine, as aai-gateway --scan shows them.")
    ] = False,
    json: AsJson = False,
    server: Server = LOCAL,
    api_key: Key = None,
) -> None:
    """Show the apps that are published on a control plane, or those on this machine.

    Exit code 0: they are shown. 1: no control plane answers.
    """
    if here:
        findings = local_apps.scan()
        typer.echo(terminal.findings_json(findings) if json else terminal.findings_table(findings))
        return
    answer = _asked("GET", _APPS, server, api_key, json=json)
    typer.echo(answer.decode() if json else terminal.apps_table(answer))


def _checked(file: Path) -> "tuple[Finding, bytes]":
    path = file / "aai.json" if file.is_dir() else file
    try:
        return local_apps.publishable(path)
    except OSError as error:
        misused(f"{path} cannot be read: {error.strerror or error}. Name an aai.json, or a folder with one in it.")


def _show_problems(finding: "Finding", *, json: bool) -> None:
    if json:
        typer.echo(terminal.problems_json(finding))
        return
    for line in terminal.problem_lines(finding):
        typer.echo(line, err=True)
    failed("Nothing was sent. Mend these, then publish again.")


def _asked(  # noqa: PLR0913 - what a request is made of
    method: str, path: str, server: str, api_key: str | None, body: bytes | None = None, *, json: bool = False
) -> bytes:
    """Ask a control plane, or end with why it did not do it."""
    from switchboard import asking  # noqa: PLC0415 - other commands need no client

    try:
        with waiting(f"Asking {terminal.one_line(server)}"):
            return asking.send(method, server, path, api_key, body)
    except asking.NoAddress as error:
        misused(str(error))
    except asking.Refused as error:
        if json and terminal.is_json_object(error.answer):
            typer.echo(error.answer.decode())
        first, *others = terminal.refusal_lines(error.answer) or [str(error)]
        for line in others:
            typer.echo(line, err=True)
        raise Failure(first, FAILED) from error
    except asking.AskError as error:
        failed(str(error))

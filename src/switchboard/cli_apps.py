"""`switchboard publish` and `switchboard apps`: what a control plane offers to gateways as their registry."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn
from urllib.parse import quote

import typer

from switchboard import local_apps, terminal
from switchboard.cli_permissions import AsJson

if TYPE_CHECKING:
    from switchboard.catalog.findings import Finding

_APPS = "/api/v1/apps"
_PUBLISH_S = 30.0
_SUCCESS = (200, 201)
Server = Annotated[
    str, typer.Option("--server", envvar="AGENTFIELD_SERVER", help="Address of the control plane.", metavar="URL")
]
Key = Annotated[
    str | None,
    typer.Option("--api-key", envvar="AGENTFIELD_API_KEY", help="API key of the control plane.", show_envvar=True),
]
_LOCAL = "http://localhost:8080"


def add_to(app: typer.Typer) -> None:
    """Put the commands among those of an application."""
    app.command(
        epilog="Examples:\n\n  switchboard publish aai.json\n\n"
        "  switchboard publish aai.json --server https://agents.example.com\n\n"
        "  switchboard publish --withdraw com.example.shop"
    )(publish)
    app.command(epilog="Examples:\n\n  switchboard apps\n\n  switchboard apps --json\n\n  switchboard apps --here")(
        apps
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
    server: Server = _LOCAL,
    api_key: Key = None,
) -> None:
    """Publish a web app on a control plane, where gateways that use it as their registry find it.

    The descriptor is checked here first, then there: every problem is shown with its JSON path.

    Exit code 0: it is published (or withdrawn). 1: it is not. 2: the file cannot be read, or none is named.
    """
    if (file is None) == (withdraw is None):
        _refuse("name a file to publish, or an app with --withdraw")
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


def apps(
    *,
    here: Annotated[
        bool, typer.Option("--here", help="The apps found on this machine, as aai-gateway --scan shows them.")
    ] = False,
    json: AsJson = False,
    server: Server = _LOCAL,
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
        _refuse(f"{path} cannot be read: {error.strerror or error}")


def _show_problems(finding: "Finding", *, json: bool) -> None:
    if json:
        typer.echo(terminal.problems_json(finding))
        return
    for line in terminal.problem_lines(finding):
        typer.echo(line, err=True)
    typer.echo("switchboard: nothing was sent", err=True)


def _asked(  # noqa: PLR0913 - what a request is made of
    method: str, path: str, server: str, api_key: str | None, body: bytes | None = None, *, json: bool = False
) -> bytes:
    """Ask a control plane, or end with why it did not do it."""
    from switchboard.catalog.errors import ServiceUnavailable  # noqa: PLC0415 - other commands need no client
    from switchboard.net.client import request  # noqa: PLC0415

    try:
        status, answer = request(method, server.rstrip("/") + path, api_key=api_key, body=body, timeout_s=_PUBLISH_S)
    except ServiceUnavailable:
        hint = "Start one with `switchboard serve`, or name another with --server."
        typer.echo(f"switchboard: No control plane answers at {server}. {hint}", err=True)
        raise typer.Exit(1) from None
    if status in _SUCCESS:
        return answer
    if json and terminal.is_json_object(answer):
        typer.echo(answer.decode())
    for line in terminal.refusal_lines(answer) or [f"{server} answers {status}; is a control plane there?"]:
        typer.echo(f"switchboard: {line}", err=True)
    raise typer.Exit(1)


def _refuse(message: str) -> NoReturn:
    typer.echo(f"switchboard: {message}", err=True)
    raise typer.Exit(2)

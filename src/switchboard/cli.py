"""The `switchboard` command.

Exit codes: 0 it is so, 1 it is not (problems were found), 2 the command was not understood or a file cannot be read.
"""

from pathlib import Path
from typing import Annotated

import typer

from switchboard import __version__, gateway, terminal

app = typer.Typer(
    help="Tells AI agents what they can use, and puts the call through only if the user said yes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    path = file / "aai.json" if file.is_dir() else file
    try:
        finding, written = gateway.check(path)
    except OSError as error:
        typer.echo(f"switchboard: {path} cannot be read: {error.strerror or error}", err=True)
        raise typer.Exit(2) from None
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

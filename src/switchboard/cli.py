"""The `switchboard` command: its parts put together, and the server it runs.

Exit codes are those of `manners`: 0 it is so, 1 it is not, 2 the command was not understood.
"""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from switchboard import __version__, cli_agents, cli_apps, cli_machine
from switchboard.cli_permissions import auth, consent
from switchboard.manners import FAILED, MISUSED, OK, examples, failed, finish, misused, say

last = typer.Typer()
"""What stands last in the list of commands."""
app = typer.Typer(
    help="Tells AI agents what they can use, and puts the call through only if the user said yes.",
    epilog=examples(
        "switchboard serve --demo", "switchboard discover", "switchboard install cursor", "switchboard COMMAND --help"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command."""
    finish("switchboard", _run)


def _run() -> int:
    """Run what the arguments say, and return the exit code."""
    try:
        code: object = app(standalone_mode=False)
    except Abort:  # a question was not answered
        say("switchboard", "Nothing was changed: there was no answer.")
        return FAILED
    except TyperException as error:
        said = error.format_message()
        if said:  # without words it is the help, which has been printed
            path: str = getattr(getattr(error, "ctx", None), "command_path", "switchboard")
            say("switchboard", f"{said}{'' if said.endswith(('.', '?')) else '.'} See {path} --help.")
        return MISUSED
    except SystemExit as end:  # so typer ends where nobody reads any more
        raise end.__context__ or end from None
    return code if isinstance(code, int) else OK


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
    epilog=examples(
        "switchboard serve",
        "switchboard serve --demo --port 9000",
        "SWITCHBOARD_API_KEY=... switchboard serve --host 0.0.0.0",
    )
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
        typer.Option(
            help="Key every caller must send. Better in SWITCHBOARD_API_KEY: others see arguments.", metavar="KEY"
        ),
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.  [default: info]")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with any of these settings, by their names.", metavar="FILE")
    ] = None,
    drain: Annotated[
        float | None,
        typer.Option(
            help="Seconds to go on serving after being told to stop, while /ready says no.  [default: 0]",
            metavar="SECONDS",
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Also start a few sample agents that really run.")] = False,
) -> None:
    """Run a control plane: agents register here, orchestrators discover them.

    Settings come from flags, then SWITCHBOARD_HOST, _PORT, _DATABASE_URL, _API_KEY, _LOG_LEVEL, then the file.
    """
    from switchboard import serving, settings  # noqa: PLC0415 - other commands start without a server

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
        code = serving.serve(settings.serve_settings(flags, os.environ))
    except settings.SettingsError as error:
        misused(str(error))
    except serving.NotServing as error:
        failed(str(error))
    raise typer.Exit(code)


@last.command(epilog=examples("switchboard demo", "switchboard demo --yes"))
def demo(
    *, yes: Annotated[bool, typer.Option("--yes", "-y", help="Allow what is asked for, for scripts.")] = False
) -> None:
    """Show the gateway at work, step by step: an agent client, two sample apps that really run, and your consent.

    Everything happens in a folder that is deleted afterwards; your apps, keychain and decisions are not touched.

    Exit code 0: all of it was shown. 1: you did not allow something, or it does not work here.
    """
    from switchboard import tour  # noqa: PLC0415 - other commands need none of it
    from switchboard.terminal import Steps  # noqa: PLC0415

    if not (yes or sys.stdin.isatty()):
        misused("The demonstration asks you for consent on the way, and nobody can answer here. Give --yes.")
    try:
        allowed = tour.run(Steps(), yes=yes)
    except tour.Stopped as stopped:
        failed(str(stopped))
    told = "That is all. `switchboard install --list` shows the agent clients that can start the gateway."
    typer.echo(f"\n{told if allowed else 'You did not allow it, so nothing was run. That is all.'}")
    raise typer.Exit(OK if allowed else FAILED)


class Shell(StrEnum):
    """Shells that complete what is typed."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


app.add_typer(cli_agents.app)
app.add_typer(cli_apps.app)
app.add_typer(cli_machine.app)
app.add_typer(consent, name="consent")
app.add_typer(auth, name="auth")


@last.command(
    epilog=examples(
        'eval "$(switchboard completion bash)"',
        "switchboard completion zsh > ~/.zfunc/_switchboard",
        "switchboard completion fish > ~/.config/fish/completions/switchboard.fish",
    )
)
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that is to complete.", show_default=False)],
) -> None:
    """Print what lets a shell complete both commands, switchboard and aai-gateway."""
    from switchboard import completions  # noqa: PLC0415 - once in the life of a terminal

    typer.echo(completions.script(shell.value))


app.add_typer(last)

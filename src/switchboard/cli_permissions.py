"""`switchboard consent` and `switchboard auth`: what agents may do with your apps, and what you are signed in to."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from switchboard import local_apps, terminal
from switchboard.manners import FAILED, OK, examples, failed, misused
from switchboard.named import named_planes
from switchboard.progress import waiting

if TYPE_CHECKING:
    from switchboard.catalog.model import App

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

consent = typer.Typer(
    help="What agents may do with your apps: see it, allow it beforehand, take it back.",
    epilog=examples("switchboard consent list", "switchboard consent grant com.example.notes --caller Claude"),
    no_args_is_help=True,
)


@consent.command("list", epilog=examples("switchboard consent list", "switchboard consent list --json"))
def consent_list(*, json: AsJson = False) -> None:
    """Show what you have decided: which caller may use what of which app, and what it may not."""
    from switchboard import desk  # noqa: PLC0415 - other commands need no keychain

    with _explained():
        records = desk.consents()
    typer.echo(terminal.rows_json("consents", records) if json else terminal.consents_table(records))


@consent.command(
    "grant",
    epilog=examples(
        "switchboard consent grant com.example.notes --tool create_note --caller Claude",
        "switchboard consent grant https://notion.so --caller Claude --yes",
        "switchboard consent grant research-agent --caller Claude --control-plane http://localhost:8080",
    ),
)
def consent_grant(  # noqa: PLR0913 - one per wish
    name: Annotated[str, typer.Argument(metavar="APP", help="An app id, an agent's id, or the address of a web app.")],
    *,
    caller: Annotated[str, typer.Option(help="Who may use it: the name that its agent client gives itself.")],
    tool: Annotated[str | None, typer.Option(help="One operation; all of them without this.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask again, for scripts.")] = False,
    dev: Annotated[bool, typer.Option("--dev", help="As aai-gateway --dev.")] = False,
    control_plane: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="As aai-gateway --control-plane: for agents.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Allow a caller one operation of an app, or all it has now, before it is asked for.

    Exit code 0: it is allowed. 1: it is not. 2: no caller is named.
    """
    from switchboard import desk  # noqa: PLC0415 - other commands need no keychain

    if not caller.strip():
        misused("--caller must be a name, as `switchboard audit` shows it.")

    def confirmed(told: str) -> bool:
        typer.echo(told, err=json)
        return yes or typer.confirm(f"Allow {caller} {tool or 'all operations'}?", err=json)

    with _explained():
        found = _found(name, dev=dev, control_planes=control_plane or ())
        others = partial(local_apps.namesakes, dev=dev)
        allowed = desk.grant(found, caller, tool, confirm=confirmed, namesakes=others, dev=dev)
    row = {"app": found.id, "caller": caller, "tool": tool or "*", "allowed": allowed}
    typer.echo(terminal.row_json(row) if json else "It is allowed." if allowed else "Nothing was changed.")
    raise typer.Exit(OK if allowed else FAILED)


@consent.command(
    "revoke",
    epilog=examples(
        "switchboard consent revoke com.example.notes",
        "switchboard consent revoke com.example.notes --tool create_note --caller Claude",
    ),
)
def consent_revoke(
    name: Annotated[str, typer.Argument(metavar="APP", help="An app id, or where the app is from.")],
    *,
    caller: Annotated[str | None, typer.Option(help="Only what was decided for this caller.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only what was decided about this operation.")] = None,
    origin: Annotated[str | None, typer.Option(help="Only the app from here, where several have this id.")] = None,
    json: AsJson = False,
) -> None:
    """Forget what you decided about an app, yes or no: whoever wants to use it asks again.

    Exit code 0: it is forgotten. 1: there was nothing to forget.
    """
    from switchboard import desk  # noqa: PLC0415 - other commands need no keychain

    with _explained():
        changed = desk.revoke(name, origin=origin, caller=caller, tool=tool)
    told = "It is forgotten; the next call asks." if changed else "Nothing of that kind was decided."
    typer.echo(terminal.row_json({"app": name, "changed": changed}) if json else told)
    raise typer.Exit(OK if changed else FAILED)


auth = typer.Typer(
    help="What you are signed in to: see it, sign in, sign out.",
    epilog=examples("switchboard auth list", "switchboard auth login https://notion.so"),
    no_args_is_help=True,
)


@auth.command("list", epilog=examples("switchboard auth list", "switchboard auth list --json"))
def auth_list(*, json: AsJson = False) -> None:
    """Show what you are signed in to, since when and until when; never what with."""
    from switchboard import desk  # noqa: PLC0415 - other commands need no keychain

    with _explained():
        rows = desk.accounts()
    typer.echo(terminal.rows_json("accounts", rows) if json else terminal.accounts_table(rows))


@auth.command(
    "login",
    epilog=examples("switchboard auth login https://notion.so", "switchboard auth login com.example.shop --device"),
)
def auth_login(  # noqa: PLR0913 - one per wish
    name: Annotated[str, typer.Argument(metavar="APP", help="An app id, or the address of a web app.")],
    *,
    device: Annotated[bool, typer.Option("--device", help="Sign in on another device, with a short code.")] = False,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open a browser; the address is printed anyway.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether this is the right site.")] = False,
    dev: Annotated[bool, typer.Option("--dev", help="As aai-gateway --dev.")] = False,
    json: AsJson = False,
) -> None:
    """Sign in to an app from a terminal, also where there is no browser.

    The address to visit is printed; what the browser ends at can be pasted back here.

    Exit code 0: you are signed in. 1: you are not.
    """
    from switchboard import desk  # noqa: PLC0415 - other commands need no keychain

    def confirmed(told: str) -> bool:
        typer.echo(told, err=json)
        return yes or typer.confirm("Is this the app you mean?", err=json)

    with _explained():
        found = _found(name, dev=dev)
        done = desk.login(
            found,
            terminal.Person(aside=json),
            confirm=confirmed,
            namesakes=partial(local_apps.namesakes, dev=dev),
            device=device,
            browser=browser,
            dev=dev,
        )
    told = "You are signed in." if done else "Nothing was changed."
    typer.echo(terminal.row_json({"app": found.id, "signed_in": done}) if json else told)
    raise typer.Exit(OK if done else FAILED)


@auth.command("logout", epilog=examples("switchboard auth logout com.example.shop"))
def auth_logout(
    name: Annotated[str, typer.Argument(metavar="APP", help="An app id, or where the app is from.")],
    *,
    origin: Annotated[str | None, typer.Option(help="Only the app from here, where several have this id.")] = None,
    dev: Annotated[bool, typer.Option("--dev", help="As aai-gateway --dev.")] = False,
    json: AsJson = False,
) -> None:
    """Forget what opens an app, and tell its server where that is offered.

    Exit code 0: you are signed out. 1: you were not signed in.
    """
    from switchboard import desk  # noqa: PLC0415 - other commands need no keychain

    with _explained(), waiting(f"Signing out of {terminal.one_line(name)}"):
        count = desk.logout(name, find=lambda text: local_apps.find(text, dev=dev), origin=origin, dev=dev)
    told = "You are signed out." if count else "You are not signed in to that."
    typer.echo(terminal.row_json({"app": name, "accounts": count}) if json else told)
    raise typer.Exit(OK if count else FAILED)


def _found(name: str, *, dev: bool, control_planes: Sequence[str] = ()) -> "App":
    if not name.strip():
        misused("Name an app: its id, or the address of a web app.")
    try:
        planes = named_planes(control_planes)
    except ValueError as error:
        misused(f"{str(error)[:1].upper()}{str(error)[1:]}")
    with waiting(f"Looking for {terminal.one_line(name)}"):
        return local_apps.find(name, dev=dev, control_planes=planes)


@contextmanager
def _explained() -> Generator[None]:
    """End with what went wrong, in one line, and exit code 1."""
    from switchboard import desk  # noqa: PLC0415 - as above

    try:
        yield
    except desk.Refusal as error:
        failed(terminal.one_line(error.message))

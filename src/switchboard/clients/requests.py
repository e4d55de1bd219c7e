"""What somebody typed, as a wish; and everything that is known, as rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from switchboard.catalog.text import nearest
from switchboard.clients import place
from switchboard.clients.entries import Entry
from switchboard.clients.install import Outcome, Wish
from switchboard.clients.known import CLIENTS, Client, Machine, client
from switchboard.clients.refusals import Misuse, NotFound


class Request(Struct, frozen=True, kw_only=True):
    """The words of the command; `env` are `NAME=VALUE`, or names alone."""

    client: str
    name: str
    args: Sequence[str] = ()
    env: Sequence[str] = ()
    uninstall: bool = False
    dry_run: bool = False
    project: bool = False
    config: Path | None = None
    force: bool = False


def wish(request: Request, machine: Machine, working: Path) -> Wish:
    """Return what is to be done.

    Raises:
        Misuse: the words make no sense together.
        NotFound: the client, or our own command, is not here.
    """
    meant = _client(request.client)
    if not request.name.strip():
        raise Misuse("--name is empty. Give the entry a name, or leave it out.")
    if request.config is not None and request.project:
        raise Misuse("--config and --project name two files; choose one.")
    if request.uninstall and (request.args or request.env):
        raise Misuse("--uninstall takes out what is there; leave out --arg and --env.")
    variables = _variables(request.env, machine.environment)
    entry = None
    if not request.uninstall:
        command = str(place.gateway_command())
        entry = Entry(command, tuple(request.args) or None, variables or None)
    return Wish(
        client=meant,
        file=_file(meant, request, machine, working),
        name=request.name,
        entry=entry,
        force=request.force,
        dry_run=request.dry_run,
    )


def rows(machine: Machine) -> list[dict[str, Any]]:
    """Return every known client, with its files, and what stands in its own one about the gateway."""
    return [_row(place.status(one, machine)) for one in CLIENTS]


def told(done: Outcome, asked: Wish) -> dict[str, Any]:
    """Return what was done, for scripts."""
    return {
        "client": asked.client.id,
        "name": asked.name,
        "file": str(done.file),
        "action": done.action,
        "dry_run": asked.dry_run,
        "command": asked.entry.command if asked.entry else None,
        "backup": None if done.backup is None else str(done.backup),
        "warning": done.warning,
        "diff": done.diff,
    }


def _client(name: str) -> Client:
    meant = client(name)
    if meant is None:
        ids = [one.id for one in CLIENTS]
        near = nearest(name, ids, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise Misuse(f"{name!r} is no client that is known.{hint} Known are {', '.join(ids)}.")
    return meant


def _variables(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not (equals or name in environment):
            raise Misuse("--env is NAME=VALUE, or the name of a variable that is set here.")
        variables[name] = value if equals else environment[name]
    return variables


def _file(meant: Client, request: Request, machine: Machine, working: Path) -> Path:
    if request.config is not None:
        return working / request.config.expanduser()
    if request.project:
        return place.project_file(meant, working)
    file = place.user_file(meant, machine)
    if not (request.force or request.uninstall or place.is_here(meant, machine)):
        raise NotFound(
            f"{meant.title} does not seem to be on this machine: there is no {file.parent}. Install it first; or name "
            "its file with --config, or write the usual one with --force."
        )
    return file


def _row(status: place.Status) -> dict[str, Any]:
    return {
        "id": status.client.id,
        "title": status.client.title,
        "file": str(status.file),
        "project_file": status.client.project,
        "installed": status.installed,
        "exists": status.exists,
        "entries": [{"name": name, "command": command} for name, command in status.commands.items()],
        "problem": status.problem,
    }

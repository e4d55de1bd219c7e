"""Which clients are on this machine, which file of theirs is meant, and what stands in it about the gateway."""

import os
import shutil
import sys
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from switchboard.clients import entries, files
from switchboard.clients.known import Client, Machine
from switchboard.clients.refusals import NotFound, Refusal


class Status(Struct, frozen=True, kw_only=True):
    """What is known of one client on this machine."""

    client: Client
    file: Path
    installed: bool
    """Whether the client seems to be here."""
    exists: bool
    """Whether the file is there."""
    commands: dict[str, str] = {}
    """The gateway's entries in it: what each of them starts, by its name."""
    problem: str | None = None
    """Why nobody can tell what stands in the file."""


def status(client: Client, machine: Machine) -> Status:
    """Return what is known of a client; never an error."""
    file = user_file(client, machine)
    bare = Status(client=client, file=file, installed=is_here(client, machine), exists=file.is_file())
    try:
        text = files.read(file).text
        return bare if text is None else replace(bare, commands=entries.ours_in(text, client.shape))
    except Refusal as refusal:
        return replace(bare, problem=str(refusal))


def user_file(client: Client, machine: Machine) -> Path:
    """Return the user's own file of a client: of the first pattern that fits anything, what is there."""
    found = next(paths for pattern in client.files(machine) if (paths := _matching(pattern)))
    return next((path for path in found if path.exists()), found[0])


def project_file(client: Client, folder: Path) -> Path:
    """Return the file of a client inside a project.

    Raises:
        NotFound: it reads none.
    """
    if client.project is None:
        raise NotFound(f"{client.title} has no file for a project. Leave out --project.")
    return folder / client.project


def is_here(client: Client, machine: Machine) -> bool:
    """Tell whether a client seems to be on this machine: one of its files or folders is."""
    traces = [*client.traces(machine), *client.files(machine)]
    return any(path.exists() for trace in traces for path in _matching(trace))


def gateway_command() -> Path:
    """Return the gateway of this installation: beside the interpreter that runs this, or where scripts are.

    Raises:
        NotFound: it is not there.
    """
    name = f"{entries.PROGRAM}.exe" if sys.platform == "win32" else entries.PROGRAM
    beside = Path(sys.executable).with_name(name)
    started = Path(os.path.abspath(sys.argv[0])).with_name(name)  # noqa: PTH100 - the path that was typed, links and all
    for path in (beside, started):
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        raise NotFound(f"{name} is not beside {sys.executable}. Install Switchboard again, and try again.")
    return Path(os.path.abspath(found))  # noqa: PTH100 - as above


def _matching(pattern: PurePath) -> list[Path]:
    """Return the path of a pattern; of one with a star, every path whose beginning is there."""
    before, star, after = pattern.as_posix().partition("*")
    if not star:
        return [Path(before)]
    folder, _, stem = before.rpartition("/")
    return [found / after.lstrip("/") for found in sorted(Path(folder).glob(f"{stem}*"))]

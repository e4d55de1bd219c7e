"""Put the gateway into a client's configuration, or take it out: read, change the text, show it, replace the file."""

from pathlib import Path

from msgspec import Struct

from switchboard.clients import diffs, entries, files
from switchboard.clients.entries import Action, Entry
from switchboard.clients.known import Client
from switchboard.clients.refusals import Broken, Refusal


class Wish(Struct, frozen=True, kw_only=True):
    """What is to be done to which file; without an entry, it is to be taken out."""

    client: Client
    file: Path
    name: str
    entry: Entry | None
    force: bool = False
    dry_run: bool = False


class Outcome(Struct, frozen=True, kw_only=True):
    """What was done, or would be."""

    action: Action
    file: Path
    """Where the configuration really is."""
    diff: str
    backup: Path | None = None
    warning: str | None = None


def carry_out(wish: Wish, now: float) -> Outcome:
    """Do it, if it can be done without losing anything.

    Raises:
        Refusal: nothing was changed.
    """
    shape = wish.client.shape_of(wish.file.name)
    was = files.read(wish.file)
    try:
        text = was.text
        if wish.entry is None:
            edit = entries.without_entry(text, shape, wish.name, force=wish.force)
        else:
            edit = entries.with_entry(text, shape, wish.name, wish.entry, force=wish.force)
        warning = None if edit.text is None else _warning(edit.text, wish.client, wish.file)
    except Broken as broken:
        raise _placed(broken, wish) from broken
    except Refusal as refusal:
        refusal.args = (f"{was.path}: {refusal}",)
        raise
    shown = diffs.diff(text, edit.text, shape, wish.name, str(was.path))
    backup = None
    if edit.text != text and not wish.dry_run:
        backup = files.replace(was, None if edit.text is None else edit.text.encode(), now)
    return Outcome(action=edit.action, file=was.path, diff=shown, backup=backup, warning=warning)


def _placed(broken: Broken, wish: Wish) -> Refusal:
    refusal = Refusal(
        f"{wish.file}:{broken.line}:{broken.column}: {broken.problem}. {wish.client.title} cannot read it either. "
        "Correct it, and try again; nothing was changed."
    )
    refusal.code = broken.code
    return refusal


def _warning(text: str, client: Client, file: Path) -> str | None:
    found = entries.strictness(text, client.shape_of(file.name))
    if found is None:
        return None
    what, at = found
    place = Broken(what, text, at)
    return (
        f"{file}:{place.line}:{place.column}: there is a {what}, and {client.title} reads plain JSON: it may not read "
        "this file."
    )

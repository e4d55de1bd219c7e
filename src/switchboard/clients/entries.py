"""The gateway's entry in the text of a configuration, whichever format it has.

An entry is ours if it starts a program called aai-gateway. What a person, or the client, has added to it stays. Each
result is read again before it is given out: it says what the old one said, and our entry, or nothing is changed. Pure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple, cast

from msgspec import Struct

from switchboard.clients import jsonc, members, tables
from switchboard.clients.known import Shape
from switchboard.clients.refusals import Broken, NotOurs, Unfit
from switchboard.clients.statements import parse

Action = Literal["added", "updated", "unchanged", "removed", "absent"]
PROGRAM = "aai-gateway"
_OURS = re.compile(rf"(?:^|[\\/]){PROGRAM}(?:\.exe)?$", re.IGNORECASE)


class Entry(Struct, frozen=True):
    """What a client is to start; None leaves the arguments or variables of an entry as they are."""

    command: str
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None


class Edit(NamedTuple):
    """The text as it is to be, None where the file is to be gone; and what that changes."""

    text: str | None
    action: Action


def document(text: str, shape: Shape) -> dict[str, Any]:
    """Return what a configuration says.

    Raises:
        Broken: it cannot be read.
        Unfit: it is no object.
    """
    if shape.dialect == "toml":
        return parse(text)
    read = jsonc.read(text)
    if read.root is None:
        return {}
    if read.root.kind != "object":
        raise Unfit("the document is no object. Correct it by hand, and try again.")
    return jsonc.plain(read, read.root)


def existing(text: str, shape: Shape, name: str) -> dict[str, Any] | None:
    """Return the entry of that name, if there is one.

    Raises:
        Broken: the text cannot be read.
        Unfit: something else stands in the place of entries.
    """
    found = _inner(document(text, shape), (*shape.container, name))
    if found is None or isinstance(found, dict):
        return cast("dict[str, Any] | None", found)
    raise Unfit(f"{'.'.join((*shape.container, name))} is no object. Correct it by hand, and try again.")


def ours_in(text: str, shape: Shape) -> dict[str, str]:
    """Return the commands of all entries that are ours, by their names."""
    found = _inner(document(text, shape), shape.container)
    if not isinstance(found, dict):
        return {}
    entries = cast("dict[str, Any]", found)
    return {name: entry["command"] for name, entry in entries.items() if is_ours(entry)}


def is_ours(entry: object) -> bool:
    """Tell whether an entry starts the gateway."""
    command = cast("dict[str, Any]", entry).get("command") if isinstance(entry, dict) else None
    return isinstance(command, str) and _OURS.search(command) is not None


def strictness(text: str, shape: Shape) -> tuple[str, int] | None:
    """Return what a client that reads plain JSON would stumble over, and where; None where nothing is."""
    if shape.dialect != "json":
        return None
    read = jsonc.read(text)
    found = [("comment", start) for start, _ in read.comments[:1]]
    if read.trailing_comma is not None:
        found.append(("comma before a closing bracket", read.trailing_comma))
    return min(found, key=lambda one: one[1], default=None)


def with_entry(text: str | None, shape: Shape, name: str, entry: Entry, *, force: bool = False) -> Edit:
    """Put our entry into a configuration, or bring it up to date; None is a file that is not there.

    Raises:
        Broken, Unfit: the text cannot be changed.
        NotOurs: somebody else has an entry of that name, and `force` is not given.
    """
    path, whole = (*shape.container, name), _whole(shape, entry)
    if text is None:
        return Edit(_form(shape).fresh(path, whole), "added")
    before = existing(text, shape, name)
    if before is None:
        after = _form(shape).put(text, path, whole)
        return Edit(_checked(text, after, shape, path, whole), "added")
    if not is_ours(before) and not force:
        raise NotOurs(
            f"there is an entry {name!r} already, which starts something else. Give ours another name with --name, or "
            "replace it with --force."
        )
    if is_ours(before):
        wanted = {**before, **_said(entry)}
        after = _updated(
            text, shape, path, {key: wanted[key] for key in _said(entry) if before.get(key) != wanted[key]}
        )
    else:
        wanted = whole
        after = _form(shape).replaced(text, path, wanted)
    return Edit(_checked(text, after, shape, path, wanted), "unchanged" if after == text else "updated")


def without_entry(text: str | None, shape: Shape, name: str, *, force: bool = False) -> Edit:
    """Take our entry out of a configuration; where nobody has changed anything since, the text is as it was before.

    Raises:
        Broken, Unfit: the text cannot be changed.
        NotOurs: the entry of that name is somebody else's, and `force` is not given.
    """
    path, after = (*shape.container, name), text
    while after is not None and (entry := existing(after, shape, name)) is not None:
        if not is_ours(entry) and not force:
            raise NotOurs(f"the entry {name!r} starts something else, so it stays. Remove it with --force.")
        shorter = _form(shape).taken(after, path, entry)
        if shorter == after:
            raise Unfit(f"the entry {name!r} cannot be taken out. Remove it by hand.")
        after = shorter
    if after == text:
        return Edit(text, "absent")
    if text is not None and after is not None:
        _require_same_rest(document(text, shape), document(after, shape), path)
    return Edit(after, "removed")


def _whole(shape: Shape, entry: Entry) -> dict[str, Any]:
    args: dict[str, Any] = {"args": []} if shape.needs_args else {}
    return {**shape.fixed, "command": entry.command, **args, **_said(entry)}


def _said(entry: Entry) -> dict[str, Any]:
    said: dict[str, Any] = {"command": entry.command}
    if entry.args is not None:
        said["args"] = list(entry.args)
    if entry.env is not None:
        said["env"] = dict(entry.env)
    return said


def _updated(text: str, shape: Shape, path: Sequence[str], changes: Mapping[str, Any]) -> str:
    for key, value in changes.items():
        text = _form(shape).changed(text, path, key, value)
    return text


class _Form(NamedTuple):
    """What can be done with one format."""

    fresh: Callable[[Sequence[str], Mapping[str, Any]], str]
    put: Callable[[str, Sequence[str], Mapping[str, Any]], str]
    replaced: Callable[[str, Sequence[str], Mapping[str, Any]], str]
    changed: Callable[[str, Sequence[str], str, Any], str]
    taken: Callable[[str, Sequence[str], Mapping[str, Any]], str | None]


def _form(shape: Shape) -> _Form:
    return _TOML if shape.dialect == "toml" else _JSON


def _replaced_member(text: str, path: Sequence[str], value: Any) -> str:
    member = members.find(jsonc.read(text), path)
    return members.put(text, path, value) if member is None else members.replaced(text, member, value)


def _changed_member(text: str, path: Sequence[str], key: str, value: Any) -> str:
    return _replaced_member(text, (*path, key), value)


def _replaced_table(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    old = tables.find(text, path) or {}
    shorter = tables.taken(text, path, old)
    return tables.fresh(path, value) if shorter is None else tables.put(shorter, path, value)


_JSON = _Form(
    members.fresh,
    members.put,
    _replaced_member,
    _changed_member,
    members.taken,
)
_TOML = _Form(tables.fresh, tables.put, _replaced_table, tables.changed, tables.taken)


def _inner(node: Any, path: Sequence[str]) -> Any:
    for key in path:
        if node is None:
            return None
        if not isinstance(node, dict):
            raise Unfit(f"{key} has no place: what should hold it is no object. Correct it by hand, and try again.")
        node = cast("dict[str, Any]", node).get(key)
    return node


def _checked(text: str, after: str, shape: Shape, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """Return the new text, if it says what the old one said, and our entry."""
    wanted = deepcopy(document(text, shape))
    node = wanted
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = dict(value)
    try:
        is_right = document(after, shape) == wanted
    except Broken:  # TOML has tables that nothing can be added to
        is_right = False
    if not is_right:
        raise Unfit("the file is written in a way that this command does not change safely. Add the entry by hand.")
    return after


def _require_same_rest(before: dict[str, Any], after: dict[str, Any], path: Sequence[str]) -> None:
    """Make sure that nothing is gone but the entry, and objects that only it was in."""
    wanted = deepcopy(before)
    for length in range(len(path), 0, -1):
        parent = _inner(wanted, path[: length - 1])
        if length < len(path) and parent[path[length - 1]]:
            break
        del parent[path[length - 1]]
        if after == wanted:
            return
    raise Unfit("the entry cannot be taken out safely. Remove it by hand.")

"""One table of a TOML document put in, changed or taken out, as text: every other byte stays as it is.

A new table goes to the end of the text. As with JSON, taking out is the inverse of putting in, and is checked by
putting in again. Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from switchboard.clients.layout import newline_of, whole_lines
from switchboard.clients.refusals import Unfit
from switchboard.clients.statements import Statement, parse, statements

Path = Sequence[str]
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def find(text: str, path: Path) -> dict[str, Any] | None:
    """Return what the table of a path says; None where there is none."""
    node: Any = parse(text)
    for key in path:
        node = cast("dict[str, Any]", node).get(key) if isinstance(node, dict) else None
    return cast("dict[str, Any]", node) if isinstance(node, dict) else None


def put(text: str, path: Path, value: Mapping[str, Any]) -> str:
    """Return the text with a table that was not there, at its end."""
    newline = newline_of(text)
    block = newline.join([f"[{_dotted(path)}]", *(f"{_name(key)} = {_spelled(inner)}" for key, inner in value.items())])
    if not text.strip("\ufeff"):
        return text + block
    return f"{text}{newline}{block}{newline}" if text.endswith("\n") else f"{text}{newline}{newline}{block}"


def fresh(path: Path, value: Mapping[str, Any]) -> str:
    """Return a document that has nothing else; unlike one that was put into an empty file, it ends with a line end."""
    return put("", path, value) + "\n"


def changed(text: str, path: Path, key: str, value: Any) -> str:
    """Return the text with another value, or none, for one key of a table.

    Raises:
        Unfit: the table is written in a way that has no such place.
    """
    own, whole = tuple(path), (*path, key)
    header = _header(text, own)
    text = _without(text, [one for one in statements(text) if one.kind == "table" and one.path[: len(whole)] == whole])
    found = next((one for one in statements(text) if one.kind == "value" and one.path == whole), None)
    if found is not None and value is None:
        start, end = whole_lines(text, found.start, found.end)
        return text[:start] + text[end:]
    if found is not None:
        return text[: found.value] + _spelled(value) + text[found.end :]
    if value is None:
        return text
    inside = [one for one in _block(text, header) if one.kind == "value"]
    end = (inside[-1] if inside else header).end
    return f"{text[:end]}{newline_of(text)}{_name(key)} = {_spelled(value)}{text[end:]}"


def taken(text: str, path: Path, value: Mapping[str, Any]) -> str | None:
    """Return the text as it was before `put`, or without the table; None for a document that `fresh` made.

    Raises:
        Unfit: the table is written in a way that has no such place.
    """
    if text == fresh(path, value):
        return None
    header = _header(text, tuple(path))
    for before in (
        text[: header.start],
        text[: header.start].removesuffix("\n").removesuffix("\r"),
        text[: header.start].removesuffix("\n").removesuffix("\r").removesuffix("\n").removesuffix("\r"),
    ):
        if put(before, path, value) == text:
            return before
    own = tuple(path)
    return _without(text, [one for one in statements(text) if one.kind != "value" and one.path[: len(own)] == own])


def _header(text: str, path: tuple[str, ...]) -> Statement:
    for one in statements(text):
        if one.kind == "table" and one.path == path:
            return one
    raise Unfit(
        f"{'.'.join(path)} is not written as a table of its own, [{_dotted(path)}], which is the one way this command "
        "changes. Change it by hand."
    )


def _block(text: str, header: Statement) -> list[Statement]:
    """Return a header with the statements that belong to it."""
    found = statements(text)
    at = next(index for index, one in enumerate(found) if one.start == header.start)
    following = next((index for index in range(at + 1, len(found)) if found[index].kind != "value"), len(found))
    return found[at:following]


def _without(text: str, headers: Sequence[Statement]) -> str:
    for header in reversed(headers):
        start, end = whole_lines(text, header.start, _block(text, header)[-1].end)
        text = text[:start] + text[end:]
    return text


def _dotted(path: Path) -> str:
    return ".".join(map(_name, path))


def _name(key: str) -> str:
    return key if _BARE.fullmatch(key) else _spelled(key)


def _spelled(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [f"{_name(key)} = {_spelled(inner)}" for key, inner in cast("Mapping[str, Any]", value).items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_spelled, cast('list[Any]', value)))}]"
    # JSON's text is TOML's, but for this one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

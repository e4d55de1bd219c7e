"""From any bytes to a JSON object, or to the reason why not. Never an exception, whatever the bytes are."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from switchboard.catalog.findings import Problem, ProblemKind

LARGEST = 1024 * 1024
DEEPEST = 64
_BOM = b"\xef\xbb\xbf"
_CONTAINERS = frozenset({dict, list})

Document = dict[str, Any]


def decode(raw: bytes) -> Document | Problem:
    """Return the object the bytes hold, or the one problem that makes them unusable."""
    if len(raw) > LARGEST:
        return _unusable("unreadable", f"larger than {LARGEST // 1024} KiB")
    text = raw.removeprefix(_BOM)
    if not text.strip():
        return _unusable("syntax", "the file is empty; perhaps it is still being written")
    try:
        document: object = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return _unusable("syntax", _said(text, error))
    except RecursionError:
        return _too_deep()
    if not isinstance(document, dict):
        return _unusable("type", f"expected an object, found {kind_of(document)}")
    fields = cast("Document", document)
    return fields if depth_within(fields, DEEPEST) else _too_deep()


def kind_of(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def _said(text: bytes, error: msgspec.DecodeError) -> str:
    try:
        text.decode()
    except UnicodeDecodeError as unicode_error:
        return f"not UTF-8 text (byte {unicode_error.start})"
    if text.lstrip().startswith(b"{") and not text.rstrip().endswith(b"}"):
        return "the JSON ends too early; perhaps the file is still being written"
    return f"not JSON: {error}"


def _too_deep() -> Problem:
    return _unusable("syntax", f"nested deeper than {DEEPEST} levels")


def _unusable(kind: ProblemKind, message: str) -> Problem:
    return Problem("error", kind, "$", message)


def depth_within(document: Document, most: int) -> bool:
    """Go down level by level: no recursion, so nothing a stranger writes can exhaust the stack."""
    level: list[Document | list[Any]] = [document]
    for _ in range(most):
        deeper: list[Any] = []
        for container in level:
            members: Iterable[Any] = container.values() if isinstance(container, dict) else container
            deeper += [value for value in members if type(value) in _CONTAINERS and value]
        if not deeper:
            return True
        level = deeper
    return False

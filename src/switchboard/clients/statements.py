"""A TOML text as its statements, each with its place: what tomllib understands, and where it stands.

tomllib decides what is TOML; this only finds the ends of texts, arrays and tables, in a text that is known to be right.
Pure.
"""

import re
import tomllib
from dataclasses import dataclass
from typing import Any, Literal, cast

from switchboard.clients.refusals import Broken

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_LITERALS = ('"""', "'''", '"', "'")


@dataclass(frozen=True, slots=True)
class Statement:
    """A table header, or `key = value`; from `start` to before `end`, which is before a comment and the line end.

    `path` is the whole way from the root of the document; `value` is where the value begins.
    """

    kind: Literal["table", "array of tables", "value"]
    path: tuple[str, ...]
    start: int
    end: int
    value: int


def parse(text: str) -> dict[str, Any]:
    """Return what a TOML text says.

    Raises:
        Broken: it is none, with the place.
    """
    body = text.removeprefix("\ufeff")
    try:
        return tomllib.loads(body)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        problem = _PLACE.sub("", str(error))
        raise Broken(problem, text, _offset(text, found)) from error
    except RecursionError as error:
        raise Broken("too many values lie in each other", text, 0) from error


def statements(text: str) -> list[Statement]:
    """Return the statements of a text that `parse` has understood, in order."""
    found: list[Statement] = []
    table: tuple[str, ...] = ()
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        if text[at] in " \t\r\n":
            at += 1
        elif text[at] == "#":
            at = _line_end(text, at)
        elif text[at] == "[":
            double = text.startswith("[[", at)
            end = _past(text, at, "]" * (1 + double))
            table = _key(text[at + 1 + double : end - 1 - double])
            found.append(Statement("array of tables" if double else "table", table, at, end, end))
            at = end
        else:
            equals = _past(text, at, "=") - 1
            value = equals + 1
            while text[value] in " \t":
                value += 1
            end = _value_end(text, value)
            found.append(Statement("value", (*table, *_key(text[at:equals])), at, end, value))
            at = end
    return found


def comments(text: str) -> list[tuple[int, int]]:
    """Return where the comments between statements stand."""
    spans: list[tuple[int, int]] = []
    at = 0
    for edge, end in [*((one.start, one.end) for one in statements(text)), (len(text), len(text))]:
        while (start := text.find("#", at, edge)) >= 0:
            at = min(_line_end(text, start), edge)
            spans.append((start, at))
        at = end
    return spans


def _offset(text: str, found: "re.Match[str] | None") -> int:
    if found is None or found[1] is None:
        return len(text)
    line, column = int(found[1]), int(found[2])
    before = sum(len(row) + 1 for row in text.split("\n")[: line - 1])
    return min(before + column - 1 + (line == 1 and text.startswith("\ufeff")), len(text))


def _key(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted key."""
    node: Any = tomllib.loads(f"{text.strip()} = 0")
    parts: list[str] = []
    while isinstance(node, dict):
        ((key, node),) = cast("dict[str, Any]", node).items()
        parts.append(key)
    return tuple(parts)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _past(text: str, at: int, wanted: str) -> int:
    """Return the place behind a mark that is not in quotation marks."""
    while not text.startswith(wanted, at):
        at = _past_text(text, at) or at + 1
    return at + len(wanted)


def _past_text(text: str, at: int) -> int | None:
    """Return the place behind the text in quotation marks that begins here; None where none does."""
    mark = next((mark for mark in _LITERALS if text.startswith(mark, at)), None)
    if mark is None:
        return None
    end = at + len(mark)
    while not text.startswith(mark, end):
        end += 2 if text[end] == "\\" and mark[0] == '"' else 1
    end += len(mark)
    if len(mark) > 1:  # up to two more may belong to the text itself
        while text.startswith(mark[0], end):
            end += 1
    return end


def _value_end(text: str, at: int) -> int:
    """Return where the value ends that begins here."""
    depth, end = 0, at
    while at < len(text):
        past = _past_text(text, at)
        if past is not None:
            at = end = past
            continue
        char = text[at]
        if char == "#":
            if depth == 0:
                break
            at = _line_end(text, at)
            continue
        if char == "\n" and depth == 0:
            break
        depth += (char in "[{") - (char in "]}")
        at += 1
        if char not in " \t\r\n":
            end = at
    return end

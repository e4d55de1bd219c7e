"""What a change does to a configuration, for eyes: without anything that may be a secret.

Of all values only the command and the arguments of the entry itself are shown. Environments, headers, addresses,
arguments and comments of others may hold keys; names do not. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff

from switchboard.clients import jsonc, statements
from switchboard.clients.known import Shape

HIDDEN = "***"
_SHOWN = ("type", "source", "command", "args")
_WORDS = ("true", "false", "null")
_LONGEST = 300
Span = tuple[int, int, str]


def diff(before: str | None, after: str | None, shape: Shape, name: str, file: str) -> str:
    """Return what changes, as a unified diff."""
    old, new = (_lines(text, shape, (*shape.container, name)) for text in (before, after))
    names = ("/dev/null" if before is None else file, "/dev/null" if after is None else file)
    return "".join(f"{line}\n" for line in unified_diff(old, new, *names, lineterm=""))


def _lines(text: str | None, shape: Shape, entry: Sequence[str]) -> list[str]:
    if text is None:
        return []
    spans = _toml_spans(text, tuple(entry)) if shape.dialect == "toml" else _json_spans(text, tuple(entry))
    masked = list[str]()
    at = 0
    for start, end, instead in sorted(spans):
        masked += [text[at:start], instead]
        at = end
    whole = "".join([*masked, text[at:]])
    lines = [_visible(line) for line in whole.split("\n")]
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]


def _json_spans(text: str, entry: tuple[str, ...]) -> Iterator[Span]:
    document = jsonc.read(text)
    for start, end in document.comments:
        yield start, end, _hidden_lines(text[start:end], keep=2)
    if document.root is not None:
        for path, node in jsonc.scalars(document.root):
            shown = path[:-1] == entry and path[-1] in _SHOWN
            if not shown and text[node.start : node.end] not in _WORDS:
                yield node.start, node.end, f'"{HIDDEN}"' if text[node.start] == '"' else HIDDEN


def _toml_spans(text: str, entry: tuple[str, ...]) -> Iterator[Span]:
    for start, end in statements.comments(text):
        yield start, end, f"# {HIDDEN}"
    for one in statements.statements(text):
        value = text[one.value : one.end]
        if one.kind != "value" or value in _WORDS or (one.path[:-1] == entry and one.path[-1] in _SHOWN):
            continue
        yield one.value, one.end, _hidden_lines(value)


def _hidden_lines(text: str, keep: int = 0) -> str:
    """Hide each line of a text, so that there are as many."""
    first, *rest = (re.sub(r"[^\r]+", HIDDEN, line, count=1) for line in text.split("\n"))
    return "\n".join([f"{text[:keep]} {first}" if keep else first, *rest])


def _visible(line: str) -> str:
    cut = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return "".join(char if char.isprintable() or char == "\t" else "�" for char in cut.removesuffix("\r"))

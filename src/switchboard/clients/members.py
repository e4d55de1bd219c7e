"""One member of a JSON document put in, changed or taken out, as text: every other byte stays as it is.

Taking out is the inverse of putting in. How a text was before cannot always be seen from how it is: an object may have
been empty, or not have been there. So what is put in is laid out a little differently in each such case, and taking out
tries each case, puts the member in again, and compares. Only where none fits, because somebody has moved things since,
the member alone is taken out. Pure.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from switchboard.clients.jsonc import Document, Member, Node, end_of_comment, read
from switchboard.clients.layout import begins_line, indent_at, newline_of, whole_lines
from switchboard.clients.refusals import Broken, Unfit

Path = Sequence[str]
_UNIT = "  "


def find(document: Document, path: Path) -> Member | None:
    """Return the member that a path of keys leads to."""
    node, member = document.root, None
    for key in path:
        if node is None or node.kind != "object":
            return None
        member = node.member(key)
        node = member.value if member else None
    return member


def put(text: str, path: Path, value: Any) -> str:
    """Return the text with a member that was not there.

    Raises:
        Unfit: something on the way is no object.
    """
    document = read(text)
    if document.root is None:
        newline, open_comment = newline_of(text), _ends_in_comment(document)
        gap = newline if open_comment else ""
        return f"{text}{gap}{_spelled(_nested(path, value), '', _UNIT, newline, compact=open_comment)}"
    node, depth = document.root, 0
    _require_object(document, node, ())
    while depth < len(path) - 1 and (member := node.member(path[depth])):
        node, depth = member.value, depth + 1
        _require_object(document, node, path[:depth])
    return _put_into(document, node, path[depth], _nested(path[depth + 1 :], value))


def fresh(path: Path, value: Any) -> str:
    """Return a document that has nothing else; unlike one that was put into an empty file, it ends with a line end."""
    return put("", path, value) + "\n"


def replaced(text: str, member: Member, value: Any) -> str:
    """Return the text with another value in the place of a member's."""
    compact = not begins_line(text, member.start)
    spelled = _spelled(value, indent_at(text, member.start), _unit(read(text)), newline_of(text), compact=compact)
    return text[: member.value.start] + spelled + text[member.value.end :]


def taken(text: str, path: Path, value: Any) -> str | None:
    """Return the text as it was before `put`, or without the member; None for a document that `fresh` made."""
    if text == fresh(path, value):
        return None
    for before in _befores(text, path):
        if _put_again(before, path, value) == text:
            return before
    return _cut(text, path)


def _ends_in_comment(document: Document) -> bool:
    """Tell whether what is added to the end of the text would be part of a comment."""
    start, end = document.comments[-1] if document.comments else (0, -1)
    return end == len(document.text) and document.text.startswith("//", start)


def _require_object(document: Document, node: Node, path: Path) -> None:
    if node.kind == "object":
        return
    before = document.text[: node.start]
    name = ".".join(path) or "the document"
    raise Unfit(
        f"line {before.count(chr(10)) + 1}: {name} is no object, so nothing can be added to it. Correct it by hand, "
        "and try again."
    )


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _put_into(document: Document, node: Node, key: str, value: Any) -> str:
    text, newline, unit = document.text, newline_of(document.text), _unit(document)
    outer = indent_at(text, node.start)
    if not node.members:
        inside = text[node.start + 1 : node.end - 1]
        if "\n" in inside:
            addition = f" {_named(key, value, outer, unit, newline, compact=True)}"
        else:
            member = _named(key, value, outer + unit, unit, newline, compact=True)
            addition = f"{newline}{outer}{unit}{member}{newline}{outer}"
        return _inserted(text, (node.start + 1, addition))
    last = node.members[-1]
    inline = not begins_line(text, last.start)
    indent = outer if inline else indent_at(text, last.start)
    member = _named(key, value, indent, unit, newline, compact=inline)
    gap = " " if inline else f"{newline}{indent}"
    if last.comma is not None:
        place = last.comma + 1 if inline else _past_comments(text, last.comma + 1)
        return _inserted(text, (place, f"{gap}{member},"))
    if inline:
        return _inserted(text, (last.end, f",{gap}{member}"))
    return _inserted(text, (last.end, ","), (_past_comments(text, last.end), f"{gap}{member}"))


def _inserted(text: str, *additions: tuple[int, str]) -> str:
    for at, addition in reversed(additions):
        text = text[:at] + addition + text[at:]
    return text


def _past_comments(text: str, at: int) -> int:
    """Return the end of the comments that belong to what stands before them in the same line."""
    place = at
    while True:
        while at < len(text) and text[at] in " \t":
            at += 1
        end = end_of_comment(text, at)
        if end is None:
            return place
        place = at = end


def _unit(document: Document) -> str:
    """Return what one step of indentation is: that of the first member, if it has a line of its own."""
    root = document.root
    if root is None or not root.members or not begins_line(document.text, root.members[0].start):
        return _UNIT
    return indent_at(document.text, root.members[0].start) or _UNIT


def _named(key: str, value: Any, indent: str, unit: str, newline: str, *, compact: bool) -> str:  # noqa: PLR0913
    return f"{_json(key)}: {_spelled(value, indent, unit, newline, compact=compact)}"


def _spelled(value: Any, indent: str, unit: str, newline: str, *, compact: bool = False) -> str:
    """Return a value as text; arrays stay in one line, and objects too if `compact`."""
    if not isinstance(value, Mapping):
        return _json(value)
    pairs = cast("Mapping[str, Any]", value).items()
    members = [_named(key, inner, indent + unit, unit, newline, compact=compact) for key, inner in pairs]
    if not members:
        return "{}"
    if compact:
        return f"{{ {', '.join(members)} }}"
    gap = f"{newline}{indent}{unit}"
    return f"{{{gap}{f',{gap}'.join(members)}{newline}{indent}}}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _put_again(before: str, path: Path, value: Any) -> str | None:
    try:
        document = read(before)
    except Broken:  # a guess that is no document was a wrong guess
        return None
    if document.root is not None and find(document, path) is not None:
        return None
    try:
        return put(before, path, value)
    except Unfit:
        return None


def _befores(text: str, path: Path) -> Iterator[str]:
    """Yield what the text may have been: without the member, and without each object around it."""
    document = read(text)
    if document.root is None:
        return
    for length in range(len(path), 0, -1):
        member = find(document, path[:length])
        around = find(document, path[: length - 1])
        parent = around.value if around else document.root
        if member is None or parent.members[-1] is not member:
            return
        yield from _without_last(text, parent)
        if len(parent.members) > 1:
            return
    yield text[: document.root.start]
    yield text[: document.root.start].removesuffix("\n").removesuffix("\r")


def _without_last(text: str, node: Node) -> Iterator[str]:
    """Yield the text without the last member of an object, in each way that it may have been put in."""
    last = node.members[-1]
    end = last.end if last.comma is None else last.comma + 1
    if len(node.members) == 1:
        yield text[: node.start + 1] + text[end:]
        tail = newline_of(text[: node.start + 1] + text[end:]) + indent_at(text, node.start)
        for ending in {tail, f"\n{indent_at(text, node.start)}", f"\r\n{indent_at(text, node.start)}"}:
            if text.startswith(ending, end):
                yield text[: node.start + 1] + text[end + len(ending) :]
        return
    comma = node.members[-2].comma
    if comma is None:
        return
    after = _past_comments(text, comma + 1)
    if last.comma is None:
        yield text[:comma] + text[end:]
        yield text[:comma] + text[comma + 1 : after] + text[end:]
    else:
        yield text[: comma + 1] + text[end:]
        yield text[:after] + text[end:]


def _cut(text: str, path: Path) -> str:
    """Take the member alone out of the text, with the comma that it needed and the lines that it had for itself."""
    document = read(text)
    member = find(document, path)
    parent = find(document, path[:-1])
    node = parent.value if parent else document.root
    if member is None or node is None:
        return text
    end = member.end if member.comma is None else member.comma + 1
    start, end = whole_lines(text, member.start, end)
    at = next(index for index, other in enumerate(node.members) if other is member)
    comma = node.members[at - 1].comma if at and member.comma is None else None
    if comma is None:
        return text[:start] + text[end:]
    return text[:comma] + text[comma + 1 : start] + text[end:]

"""JSON with comments and trailing commas, as a tree that knows where everything stands in the text.

Reads what VS Code and Zed read, which is more than JSON. Keeps no value that nobody asks for, and never the layout: the
text itself is that. Pure.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, final

from switchboard.clients.refusals import Broken

Kind = Literal["object", "array", "scalar"]
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.])|(?:true|false|null)(?!\w)")
_PLAIN = r'[^"\\\x00-\x1f]*'
_STRING = re.compile(rf'"{_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*"')
_SPACE = re.compile(r"[ \t\r\n]*")
_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A value from `start` to before `end`; `members` of an object, `items` of an array."""

    kind: Kind
    start: int
    end: int
    members: "tuple[Member, ...]" = ()
    items: "tuple[Node, ...]" = ()

    def member(self, key: str) -> "Member | None":
        """Return the member of that name; of several, the last, which is the one that counts."""
        return next((member for member in reversed(self.members) if member.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object; `comma` is where the comma behind it stands, if there is one."""

    key: str
    start: int
    value: Node
    comma: int | None

    @property
    def end(self) -> int:
        """Where its value ends."""
        return self.value.end


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its tree; `root` is None where there is nothing but white space and comments."""

    text: str
    root: Node | None
    comments: tuple[tuple[int, int], ...]
    trailing_comma: int | None
    """Where the first comma stands that JSON itself does not allow."""


def read(text: str) -> Document:
    """Read a document.

    Raises:
        Broken: it is none, with the place.
    """
    return _Reader(text).document()


def plain(document: Document, node: Node | None) -> Any:
    """Return a value as Python has it; of equal keys the last counts, as in every client."""
    if node is None:
        return None
    match node.kind:
        case "object":
            return {member.key: plain(document, member.value) for member in node.members}
        case "array":
            return [plain(document, item) for item in node.items]
        case "scalar":
            return json.loads(document.text[node.start : node.end])


def scalars(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield every text, number and word below a node, with the keys that lead to it."""
    for member in node.members:
        yield from scalars(member.value, (*path, member.key))
    for item in node.items:
        yield from scalars(item, path)
    if node.kind == "scalar":
        yield path, node


@final
class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0
        self._comments: list[tuple[int, int]] = []
        self._trailing: int | None = None

    def document(self) -> Document:
        self._skip()
        root = None if self._at == len(self._text) else self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._broken("there is more after the end of the document")
        return Document(self._text, root, tuple(self._comments), self._trailing)

    def _value(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise self._broken(f"more than {_DEEPEST} objects lie in each other")
        match self._text[self._at : self._at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                start = self._at
                self._string()
                return Node("scalar", start, self._at)
            case _:
                found = _SCALAR.match(self._text, self._at)
                if found is None:
                    raise self._broken("a value is missing here, or is none that JSON knows")
                self._at = found.end()
                return Node("scalar", found.start(), found.end())

    def _object(self, depth: int) -> Node:
        start, members = self._at, list[Member]()
        self._at += 1
        while self._more("}", started=bool(members), open_end=not members or members[-1].comma is not None):
            key_at = self._at
            if not self._text.startswith('"', key_at):
                raise self._broken('a name in quotation marks, or "}", is expected here')
            key = json.loads(self._string())
            self._skip()
            if not self._text.startswith(":", self._at):
                raise self._broken('":" is expected here')
            self._at += 1
            self._skip()
            value = self._value(depth + 1)
            members.append(Member(key, key_at, value, self._comma("}")))
        return Node("object", start, self._at, members=tuple(members))

    def _array(self, depth: int) -> Node:
        start, items, comma = self._at, list[Node](), None
        self._at += 1
        while self._more("]", started=bool(items), open_end=not items or comma is not None):
            items.append(self._value(depth + 1))
            comma = self._comma("]")
        return Node("array", start, self._at, items=tuple(items))

    def _more(self, closing: str, *, started: bool, open_end: bool) -> bool:
        """Go to the next entry, and tell whether there is one."""
        self._skip()
        if self._text.startswith(closing, self._at):
            self._at += 1
            return False
        if self._at >= len(self._text):
            raise self._broken(f'the file ends here, and "{closing}" is missing')
        if started and not open_end:
            raise self._broken(f'"," or "{closing}" is expected here')
        return True

    def _comma(self, closing: str) -> int | None:
        """Take the comma behind an entry; without one, stay directly behind the entry."""
        self._skip()
        if not self._text.startswith(",", self._at):
            return None
        found = self._at
        self._at += 1
        self._skip()
        if self._text.startswith(closing, self._at) and self._trailing is None:
            self._trailing = found
        return found

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if found is None:
            raise self._broken("this text in quotation marks does not end, or has a character that it may not have")
        self._at = found.end()
        return found[0]

    def _skip(self) -> None:
        """Go past white space and comments."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            end = end_of_comment(self._text, self._at)
            if end is None:
                return
            if end < 0:
                raise self._broken("this comment does not end")
            self._comments.append((self._at, end))
            self._at = end

    def _broken(self, problem: str) -> Broken:
        return Broken(problem, self._text, self._at)


def end_of_comment(text: str, at: int) -> int | None:
    """Return where the comment ends that begins here; None where none does, -1 where it never ends."""
    if text.startswith("//", at):
        ends = [end for end in (text.find("\n", at), text.find("\r", at)) if end >= 0]
        return min(ends, default=len(text))
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return end + 2 if end >= 0 else -1
    return None

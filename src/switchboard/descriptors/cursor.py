"""Walking a JSON document that strangers wrote: every value knows its path, every oddity becomes a problem.

A `Record` is asked for the canonical key; it also answers to the key's snake_case and to the older spellings it is
told, and notes a warning when it had to. What nobody asked for is reported at the end. So a reader is a list of
questions, and paths are always those of the document as it was published.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.findings import Problem, ProblemKind
from switchboard.catalog.text import nearest
from switchboard.descriptors.document import kind_of

Choice = TypeVar("Choice", bound=str)

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_URL = re.compile(
    r"[Hh][Tt][Tt][Pp][Ss]?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]\\\x00-\x1f\ufeff]+)"
    r"(:[0-9]{1,5})?([/?#][^\s\x00-\x1f\ufeff]*)?"
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[^\r\n\x00]*")
_MOST_PROBLEMS = 100
_LONGEST_TIMEOUT_MS = 86_400_000


class Report:
    """The problems found so far, in reading order."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._further = 0
        self.failed = False
        """Whether something makes the document unusable."""
        self.tool_paths: dict[str, str] = {}
        """Where each tool stands, by name."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found; a flood is cut, with its size at the end."""
        if not self._further:
            return tuple(self._problems)
        more = Problem("warning", "unknown", "$", f"and {self._further} more problems")
        return (*self._problems, more)

    def error(self, kind: ProblemKind, path: str, message: str) -> None:
        """Note something that makes the document unusable."""
        first_error, self.failed = not self.failed, True
        self._add(Problem("error", kind, path, message), needed=first_error)

    def warn(self, kind: ProblemKind, path: str, message: str) -> None:
        """Note something that was mended."""
        self._add(Problem("warning", kind, path, message), needed=False)

    def _add(self, problem: Problem, *, needed: bool) -> None:
        if len(self._problems) < _MOST_PROBLEMS or needed:
            self._problems.append(problem)
        else:
            self._further += 1


class Value:
    """One JSON value and where it stands."""

    __slots__ = ("_holder", "_quiet", "_report", "_step", "value")

    def __init__(self, value: Any, holder: str, step: str | int, report: Report, *, quiet: bool) -> None:
        self.value: Any = value
        self._holder = holder
        self._step = step
        self._report = report
        self._quiet = quiet

    @property
    def path(self) -> str:
        """The JSON path of the value; made only when somebody asks, because most values are fine."""
        return joined(self._holder, self._step)

    def quietly(self) -> "Value":
        """Return the same value, without warnings about the spelling in it."""
        return Value(self.value, self._holder, self._step, self._report, quiet=True)

    def record(self) -> "Record | None":
        """Return the object, or report that it is none."""
        value: object = self.value
        if isinstance(value, dict):
            return Record(cast("dict[str, Any]", value), self.path, self._report, quiet=self._quiet)
        self._wrong_type("an object")
        return None

    def items(self) -> "list[Value]":
        """Return the elements of the list, or report that it is none."""
        value: object = self.value
        if isinstance(value, list):
            elements = cast("list[Any]", value)
            path = self.path
            return [Value(item, path, i, self._report, quiet=self._quiet) for i, item in enumerate(elements)]
        self._wrong_type("a list")
        return []

    def text(self, *, empty: bool = False) -> str | None:
        """Return the string; an empty one is an error unless it is allowed."""
        if not isinstance(self.value, str):
            self._wrong_type("a string")
            return None
        if not self.value and not empty:
            self._report.error("value", self.path, "must not be empty")
            return None
        return self.value

    def texts(self) -> tuple[str, ...]:
        """Return the list of strings; what is no string in it is an error."""
        return tuple(text for item in self.items() if (text := item.text(empty=True)) is not None)

    def pairs(self) -> Pairs:
        """Return the map of strings; what is no string in it is an error."""
        record = self.record()
        if record is None:
            return ()
        return tuple((key, text) for key, item in record.entries() if (text := item.text(empty=True)) is not None)

    def headers(self) -> Pairs:
        """Return the map of HTTP headers; what could end a header line early is an error."""
        pairs = self.pairs()
        for name, value in pairs:
            if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
                self._report.error("value", joined(self.path, name), "is not an HTTP header")
        return pairs

    def boolean(self) -> bool | None:
        """Return the truth value."""
        if isinstance(self.value, bool):
            return self.value
        self._wrong_type("true or false")
        return None

    def whole(self, least: int, most: int) -> int | None:
        """Return the whole number in the range."""
        number = self.value
        # JSON has one kind of number: 5.0 is as whole as 5.
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int):
            self._wrong_type("a whole number")
            return None
        if not least <= number <= most:
            self._report.error("value", self.path, f"must be from {least} to {most}, found {number}")
            return None
        return number

    def milliseconds(self) -> int | None:
        """Return a time limit given in milliseconds."""
        return self.whole(1, _LONGEST_TIMEOUT_MS)

    def seconds_as_milliseconds(self) -> int | None:
        """Return a time limit given in seconds, as the first drafts did."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self._wrong_type("a number of seconds")
            return None
        milliseconds = self.value * 1000
        if not 1 <= milliseconds <= _LONGEST_TIMEOUT_MS:
            self._report.error("value", self.path, "must be a number of seconds up to one day")
            return None
        return int(milliseconds)

    def choice(self, *allowed: Choice) -> Choice | None:
        """Return the string if it is one of the allowed ones."""
        for candidate in allowed:
            if self.value == candidate:
                return candidate
        self._report.error("value", self.path, f"must be one of {', '.join(allowed)}; found {_shown(self.value)}")
        return None

    def url(self) -> str | None:
        """Return the absolute http or https address."""
        text = self.text()
        if text is None or _URL.fullmatch(text):
            return text
        # The value is not repeated: somebody's password may be in it.
        self._report.error("value", self.path, "must be an http or https address, without a user name")
        return None

    def json(self) -> Json:
        """Return the value as it is, whatever it is."""
        return Json(msgspec.json.encode(self.value))

    def object_json(self) -> Json | None:
        """Return the value as it is, if it is an object."""
        if isinstance(self.value, dict):
            return self.json()
        self._wrong_type("an object")
        return None

    def refuse(self, message: str) -> None:
        """Report that the value cannot be meant."""
        self._report.error("value", self.path, message)

    def note_old_form(self, message: str) -> None:
        """Warn that the value is in an old form that was understood."""
        if not self._quiet:
            self._report.warn("alias", self.path, message)

    def _wrong_type(self, expected: str) -> None:
        self._report.error("type", self.path, f"expected {expected}, found {kind_of(self.value)}")


class Record:
    """One JSON object; remembers which keys were asked for. A quiet one does not mind old spellings."""

    __slots__ = ("_asked", "_fields", "_known", "_misplaced", "_quiet", "path", "report")

    def __init__(self, fields: dict[str, Any], path: str, report: Report, *, quiet: bool = False) -> None:
        self._fields = fields
        self.path = path
        self.report = report
        self._quiet = quiet
        self._asked: set[str] = set()
        self._known: list[str] = []
        self._misplaced: str | None = None

    def __contains__(self, key: str) -> bool:
        return self._fields.get(key) is not None

    def quietly(self) -> "Record":
        """Return the same object, without warnings about its spelling: it is old as a whole, which was said already."""
        return Record(self._fields, self.path, self.report, quiet=True)

    def typed(self, kind: str) -> "Record":
        """Return the same object as one that says its `type`, for forms that said it elsewhere."""
        return Record({**self._fields, "type": kind}, self.path, self.report, quiet=self._quiet)

    def peek(self, key: str) -> "Record | None":
        """Return the object under a key without counting it as asked for."""
        inner: object = self._fields.get(key)
        if not isinstance(inner, dict):
            return None
        return Record(cast("dict[str, Any]", inner), self._at(key), self.report, quiet=self._quiet)

    def says(self, key: str, value: str) -> bool:
        """Tell whether the key has this value, without counting it as asked for."""
        return self._fields.get(key) == value

    def take(self, key: str, *old: str) -> Value | None:
        """Return the value of a key, in its own, its snake_case or an older spelling; None where there is none."""
        self._known.append(key)
        if len(self._asked) == len(self._fields):
            return None  # nothing is left to be found: the common end of a small object
        if self._fields.get(key) is not None and key not in self._asked:
            return self._taken(key, self._misplaced)
        for spelling in (_snake(key), *old):
            if self._fields.get(spelling) is not None and spelling not in self._asked:
                return self._taken(spelling, f"old spelling of {key}")
        return None

    def require(self, key: str, *old: str) -> Value | None:
        """Return the value of a key that must be there."""
        value = self.take(key, *old)
        if value is None:
            self.report.error("missing", self._at(key), "is missing")
        return value

    def belongs_elsewhere(self, message: str) -> None:
        """From here on, note for every key that it stands in the wrong place."""
        self._misplaced = message

    def default(self, key: str, message: str) -> None:
        """Warn that a missing value was filled in."""
        if not self._quiet:
            self.report.warn("default", self._at(key), message)

    def drop(self, key: str, message: str) -> None:
        """Warn, if the key is there, that it is understood and deliberately not used."""
        if key in self:
            self._asked.add(key)
            self.report.warn("unknown", self._at(key), message)

    def ignore(self, *keys: str) -> None:
        """Count these keys as asked for: they are known, and mean nothing here."""
        self._asked.update(key for key in keys if key in self._fields)

    def entries(self) -> Iterable[tuple[str, Value]]:
        """Return every key with its value, for objects whose keys are data."""
        self._asked.update(self._fields)
        return [
            (key, Value(value, self.path, key, self.report, quiet=self._quiet)) for key, value in self._fields.items()
        ]

    def finish(self) -> None:
        """Report every key that nobody asked for."""
        for key, value in self._fields.items():
            if key in self._asked:
                continue
            if value is None:
                self.report.warn("default", self._at(key), "null is read as absent")
                continue
            near = nearest(key, self._known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.report.warn("unknown", self._at(key), f"unknown key, not used{hint}")

    def _taken(self, spelling: str, note: str | None) -> Value:
        self._asked.add(spelling)
        value = Value(self._fields[spelling], self.path, spelling, self.report, quiet=self._quiet)
        if note is not None:
            value.note_old_form(note)
        return value

    def _at(self, key: str) -> str:
        return joined(self.path, key)


def joined(path: str, step: str | int) -> str:
    """Return the JSON path one step further."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    return f"{path}.{step}" if _PLAIN_KEY.fullmatch(step) else f"{path}[{_shown(step)}]"


@cache
def _snake(key: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: "_" + letter.group().lower(), key)


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:59] + "…"  # noqa: PLR2004 - long enough to recognise, short enough for a line

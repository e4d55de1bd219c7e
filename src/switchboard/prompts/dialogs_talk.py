"""What is said to a program that shows windows, and what its answers mean: a talk is a generator that starts nothing.

Windows of the operating system show one plain text. Here a form becomes that text: cleaned once more, in rows of a
sensible length, with everything that strangers wrote in quotation marks. Knows no program.
"""

from collections.abc import Callable, Generator, Mapping
from unicodedata import combining, east_asian_width

from msgspec import Struct

from switchboard.catalog.text import clean
from switchboard.prompts.forms import Choice, Field, Form, Reply


class Step(Struct, frozen=True, kw_only=True):
    """A program to run: its command, what it reads, and what its environment has besides the usual."""

    command: tuple[str, ...]
    given: bytes = b""
    environment: Mapping[str, str] = {}


class Ended(Struct, frozen=True):
    """How a program ended, and what it said; that may be a secret."""

    code: int
    output: bytes

    def __repr__(self) -> str:
        return f"Ended({self.code}, …)"

    @property
    def text(self) -> str:
        """Return what it said without the line end that every program adds."""
        return self.output.decode(errors="replace").removesuffix("\n").removesuffix("\r")


class NotShown(Exception):
    """The program could not show anything, or not this form."""


Talk = Generator[Step, Ended, Reply | None]
Pick = Callable[[], Generator[Step, Ended, Choice | None]]
Fill = Callable[[Field, Choice], Generator[Step, Ended, str | Choice | None]]

_COLUMNS = 80
_MOST_ROWS = 32
_LENGTHS = (4000, 1000, 500, 250, 100)


def ask(form: Form, pick: Pick, fill: Fill, *, pick_first: bool = False) -> Talk:
    """Ask with windows that hold one field at most: choose, and fill in one field after the other.

    Where one choice only needs the fields, the first window asks for the first field, with the other choices beside.
    """
    filling = [choice for choice in form.choices if choice.needs_fields]
    if pick_first or not form.fields or len(filling) != 1:
        choice = yield from pick()
        if choice is None or not choice.needs_fields or not form.fields:
            return Reply(choice.id) if choice else None
    else:
        choice = filling[0]
    values: dict[str, str] = {}
    for field in form.fields:
        value: str | Choice | None = ""
        while not value:
            value = yield from fill(field, choice)
            if value is None:
                return None
        if isinstance(value, Choice):
            return Reply(value.id)
        values[field.name] = value
    return Reply(choice.id, values)


def title_of(form: Form) -> str:
    """Return what a window is called."""
    return clean(form.title, 200)


def label_of(part: Choice | Field) -> str:
    """Return the words of a button or of a field."""
    return clean(part.label, 60)


def chosen(form: Form, label: str, labels: Callable[[Choice], str]) -> Choice | None:
    """Return the choice whose button says this."""
    return next((choice for choice in form.choices if labels(choice) == label), None)


def body(form: Form, field: Field | None = None) -> list[str]:
    """Return the rows of a window: the question, the facts, the warnings, and what to fill in.

    A window that is higher than the screen hides its buttons: the longest texts are cut until it is not, each for
    itself, so that nobody's text pushes another one out.
    """
    rows: list[str] = []
    for length in _LENGTHS:
        rows = _rows(form, field, length)
        if len(rows) <= _MOST_ROWS:
            break
    return rows


def warned(text: str, length: int) -> str:
    """Return a warning with its mark."""
    return f"⚠ {clean(text, length)}"


def _rows(form: Form, field: Field | None, length: int) -> list[str]:
    blocks = [
        [clean(form.question, length)],
        # Arguments of a program are for every user of the machine to see.
        [line.stated(form.language, length) for line in form.lines if not line.private],
        [warned(text, length) for text in form.warnings],
        [label_of(field)] if field else [],
    ]
    rows: list[str] = []
    for block in filter(None, blocks):
        rows += [""] if rows else []
        rows += [row for text in block for row in _wrapped(text)]
    return rows


def _wrapped(text: str) -> list[str]:
    """Break a line by the width of its characters; what goes on is set in, so that it looks like no line of ours."""
    rows: list[str] = []
    while (end := _fitting(text)) < len(text):
        space = text.rfind(" ", len(text) - len(text.lstrip()) + 1, end + 1)
        end = space if space > end // 2 else end
        rows.append(text[:end].rstrip())
        text = "    " + text[end:].lstrip()
    return [*rows, text]


def _fitting(text: str) -> int:
    """Return how many characters fit in a row."""
    used = 0
    for place, char in enumerate(text):
        used += 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
        if used > _COLUMNS:
            return place
    return len(text)

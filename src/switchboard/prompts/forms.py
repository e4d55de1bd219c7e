"""What a person is asked, in no particular shape: a dialog, a page or a client shows the same form.

Every text in a form is final: in the person's language, and cleaned where strangers wrote it. Whoever shows it adds
nothing and interprets nothing.
"""

from asyncio import Future
from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from switchboard.catalog.text import clean

Language = Literal["en", "zh"]
Style = Literal["plain", "primary", "danger"]

_LONGEST = 4000
# Inside quotation marks stand the other ones, by the rules of both languages; so no text can end its own.
_QUOTES: Mapping[Language, tuple[str, Mapping[int, int]]] = {
    "en": ("“{}”", str.maketrans("“”", "\u2018\u2019")),
    "zh": ("「{}」", str.maketrans("「」", "『』")),
}


def language_of(locale: str) -> Language:
    """Return the language of our own texts for a reader."""
    return "zh" if locale.lower().split("-", maxsplit=1)[0] == "zh" else "en"


def quoted(text: str, language: Language) -> str:
    """Return a stranger's words in quotation marks, which they cannot end."""
    marks, inside = _QUOTES[language]
    return marks.format(text.translate(inside))


class Line(Struct, frozen=True):
    """One fact: what it is, and its text; `theirs` says that these are the app's own words, shown as a quotation.

    A private one is for the person's eyes only: it is left out where other users of the machine could see it.
    """

    label: str
    text: str
    theirs: bool = False
    private: bool = False

    def stated(self, language: Language, length: int = _LONGEST) -> str:
        """Return it as one line of text; the app's own words cannot end their quotation marks."""
        text = clean(self.text, length)
        return f"{clean(self.label, length)}: {quoted(text, language) if self.theirs else text}"


class Field(Struct, frozen=True, kw_only=True):
    """One thing to fill in; a secret one is not shown while it is typed."""

    name: str
    label: str
    secret: bool = True


class Choice(Struct, frozen=True, kw_only=True):
    """One button."""

    id: str
    label: str
    style: Style = "plain"
    needs_fields: bool = False
    """Whether every field has to be filled in before this can be chosen."""


class Form(Struct, frozen=True, kw_only=True):
    """One question: a heading, facts in order, warnings, things to fill in, and buttons from left to right.

    The first choice is the careful one: it is what a keyboard reaches first, and nothing is chosen by default.
    """

    title: str
    question: str
    lines: tuple[Line, ...] = ()
    warnings: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    choices: tuple[Choice, ...]
    language: Language = "en"


class Reply(Struct, frozen=True):
    """What the person chose, and filled in. Never shown, logged or put in an error."""

    choice: str
    values: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Reply({self.choice!r}, …)"


class Shown:
    """A form while it is shown. Its reply is None where the person closed it without choosing.

    Cancelling the reply takes the form away.
    """

    def __init__(self, reply: "Future[Reply | None]", *, address: str | None = None, visible: bool = True) -> None:
        self.reply = reply
        self.address = address
        """Where a browser finds it, if it is a page."""
        self.visible = visible
        """Whether the person sees it already; else somebody has to give them the address."""


class Prompt(Protocol):
    """One way of asking the person at this machine."""

    async def show(self, form: Form) -> Shown | None:
        """Show a form without waiting for its reply; None where that cannot be done here and now."""
        ...

    async def close(self) -> None:
        """Take away everything that is shown."""
        ...

"""One way to be told no: how it is provoked, and what the words have to say."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from switchboard.catalog.errors import SwitchboardError

G = TypeVar("G")


class Row(NamedTuple, Generic[G]):
    """A refusal of one class: what happened, why (where that is not the same), and what to do next."""

    kind: type[SwitchboardError]
    provoke: Callable[[G], dict[str, Any]]
    happened: str
    why: str
    do: str


def name_of(row: Row[Any]) -> str:
    """Return what a row is called in the list of tests: its class, and the words that tell it from its neighbours."""
    words = "".join(letter if letter.isalnum() else "-" for letter in row.happened[:40]).strip("-")
    return f"{row.kind.__name__}-{words}"


def missing(message: str, *parts: str) -> list[str]:
    """Return which parts of what has to be said are not."""
    return [part for part in parts if part not in message]

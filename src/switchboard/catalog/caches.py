"""How much may be remembered to save work: as much as is sensible, one thing at a time, or nothing.

A cache must never change an answer, only what it costs. Whoever wires a program says once how much its caches may hold,
so the same tests can be run with all of them at their usual size, at one entry, and without any.
"""

from typing import Literal, TypeVar

from msgspec import Struct

Caching = Literal["on", "one", "off"]

Key = TypeVar("Key")
Value = TypeVar("Value")


class Caches(Struct, frozen=True):
    """What every cache of a program keeps to; without a limit, each has its own."""

    limit: int | None = None

    @classmethod
    def of(cls, caching: Caching) -> "Caches":
        """Return what a setting means."""
        limits: dict[Caching, int | None] = {"on": None, "one": 1, "off": 0}
        return cls(limits[caching])

    def most(self, usual: int) -> int:
        """Return how many entries a cache may hold that usually has room for so many."""
        return usual if self.limit is None else min(usual, self.limit)


USUAL = Caches()
"""Every cache at its own size."""


class Cache(dict[Key, Value]):
    """The latest entries, at most so many; where that is none, nothing is remembered.

    Looking something up costs what it costs in a dict: this is on the way of every request. Any thread may keep.
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: Key, value: Value) -> Value:
        """Remember an entry as the latest one, and forget the older half where there is no more room for it."""
        self.pop(key, None)
        if self.most > 0:
            if len(self) >= self.most:
                for oldest in list(self)[: (len(self) + 1) // 2]:
                    self.pop(oldest, None)
            self[key] = value
        return value

"""A map that never changes: replacing entries gives a new map which shares nearly everything with the old one.

A plain dict would be copied whole at every change, which at 100,000 owners is most of a change's cost. This one is a
tuple of dicts; a change copies the few dicts it touches. It starts as one dict and is dealt into more as it grows, at
sizes where dealing is still cheap.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, TypeVar, final

Key = TypeVar("Key", bound=str)
Value = TypeVar("Value")

_STEPS = ((256, 16), (8192, 256))
"""Past this many entries, this many shards. Dealing 8192 entries anew takes about a millisecond, and happens once."""


@final
class Shards(Generic[Key, Value]):
    """An immutable map from strings, with cheap replacement of a few entries."""

    __slots__ = ("_shards", "_size")

    def __init__(self, entries: Mapping[Key, Value] | None = None) -> None:
        self._shards: tuple[dict[Key, Value], ...] = ({},)
        self._size = 0
        if entries:
            self._deal(entries.items(), len(entries))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(self._shards)

    def __contains__(self, key: Key) -> bool:
        return key in self._shards[hash(key) & (len(self._shards) - 1)]

    def __getitem__(self, key: Key) -> Value:
        return self._shards[hash(key) & (len(self._shards) - 1)][key]

    @property
    def shards(self) -> "tuple[Mapping[Key, Value], ...]":
        """The map in its pieces, for whoever goes through many maps."""
        return self._shards

    def get(self, key: Key) -> Value | None:
        """Return the value, or None."""
        return self._shards[hash(key) & (len(self._shards) - 1)].get(key)

    def items(self) -> Iterator[tuple[Key, Value]]:
        """Return every entry, in no particular order."""
        return chain.from_iterable(shard.items() for shard in self._shards)

    def values(self) -> Iterator[Value]:
        """Return every value, in no particular order."""
        return chain.from_iterable(shard.values() for shard in self._shards)

    def replaced(self, changes: Mapping[Key, Value | None]) -> "Shards[Key, Value]":
        """Return a map with these entries set, and those that are None removed."""
        if not changes:
            return self
        shards = list(self._shards)
        copied: set[int] = set()
        size = self._size
        for key, value in changes.items():
            index = hash(key) & (len(shards) - 1)
            if index not in copied:
                shards[index] = shards[index].copy()
                copied.add(index)
            shard = shards[index]
            size -= key in shard
            if value is None:
                shard.pop(key, None)
            else:
                shard[key] = value
                size += 1
        result: Shards[Key, Value] = Shards()
        if size > self._size and _shard_count(size) > len(shards):
            result._deal(chain.from_iterable(shard.items() for shard in shards), size)
        else:
            result._shards = tuple(shards)
            result._size = size
        return result

    def _deal(self, entries: Iterable[tuple[Key, Value]], size: int) -> None:
        count = _shard_count(size)
        shards: tuple[dict[Key, Value], ...] = tuple({} for _ in range(count))
        for key, value in entries:
            shards[hash(key) & (count - 1)][key] = value
        self._shards = shards
        self._size = size


def _shard_count(size: int) -> int:
    return next((count for most, count in reversed(_STEPS) if size > most), 1)

"""Pieces of answers, encoded once: what an agent looks like in one format with one choice of fields.

A fragment belongs to one version of an agent and is thrown away with it; all of them together stay under a limit. The
time of the last heartbeat is not in them, so heartbeats spoil nothing.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query

LARGEST_BYTES = 6 * 1024 * 1024
"""More than a thousand agents take in one variant without schemas; the instance has to stay below 100 MB."""

MOST = 100_000
"""Agents in all variants together: of small ones, too."""

Variant = tuple[str, bool, bool, bool, bool]


Encode = Callable[[Agent, Query], tuple[bytes, tuple[bytes, ...]]]
Join = Callable[[Sequence[bytes], Sequence[bytes]], bytes]


class Fragments:
    """An agent in one variant: what stands before its heartbeat time, and what after it.

    An agent that is asked for whole keeps everything joined, and knows where each capability stands in it; one that is
    asked for in part keeps the pieces, and the part that was asked for last: most often it is the same again.
    """

    __slots__ = (
        "_grown",
        "_items",
        "_spans",
        "_tail",
        "agent",
        "head",
        "mask",
        "part",
        "part_seen_at",
        "seen_at",
        "size",
        "text",
    )

    def __init__(self, agent: Agent, query: Query, encode: Encode, grown: Callable[[int], None]) -> None:
        """Encode an agent; `grown` is told whenever this takes more bytes, or fewer."""
        self.agent = agent
        self._grown = grown
        self.text: bytes | None = None
        """All of it, where somebody has asked for that, with the heartbeat of this time:"""
        self.seen_at: float | None = None
        self.part = b""
        """The same, where only these capabilities were asked for:"""
        self.mask = 0
        self.part_seen_at: float | None = None
        self._tail = 0
        self._spans = array("I")
        """Where each capability begins and ends in what stands after the heartbeat."""
        self.head, items = encode(agent, query)
        self._items: tuple[bytes, ...] = items
        self.size = 0
        """How many bytes this takes, about."""
        self._resized()

    def items(self) -> tuple[bytes, ...]:
        """Return one piece per capability."""
        if self.text is None:
            return self._items
        text, begin, spans = self.text, self._tail, self._spans
        return tuple([text[begin + spans[i] : begin + spans[i + 1]] for i in range(0, len(spans), 2)])

    def chosen(self, mask: int, seen_at: float | None, heartbeat: bytes, join: Join) -> bytes:
        """Return everything where only some capabilities are asked for; most often few are."""
        items, count, reasoners, skills = self.items(), self.agent.reasoner_count, list[bytes](), list[bytes]()
        self.mask, self.part_seen_at = mask, seen_at
        while mask:
            lowest = mask & -mask
            place = lowest.bit_length() - 1
            (reasoners if place < count else skills).append(items[place])
            mask ^= lowest
        self.part = b"".join((self.head, heartbeat, join(reasoners, skills)))
        self._resized()
        return self.part

    def whole(self, seen_at: float | None, heartbeat: bytes, join: Join) -> bytes:
        """Return everything, joined once for each heartbeat."""
        if self.text is None:
            first_skill = self.agent.reasoner_count
            tail = join(self._items[:first_skill], self._items[first_skill:])
            self._spans, self._items = _spans(tail, self._items), ()
        else:
            tail = self.text[self._tail :]
        self.seen_at, self._tail = seen_at, len(self.head) + len(heartbeat)
        self.text = b"".join((self.head, heartbeat, tail))
        self._resized()
        return self.text

    def _resized(self) -> None:
        before, text = self.size, self.text or b""
        self.size = len(self.head) + sum(map(len, self._items)) + len(text) + len(self.part) + 4 * len(self._spans)
        self._grown(self.size - before)


def _spans(text: bytes, items: Sequence[bytes]) -> "array[int]":
    """Return where each item begins and ends in a text that has them one after the other."""
    spans, place = array("I"), 0
    for item in items:
        place = text.index(item, place)
        spans.extend((place, place + len(item)))
        place += len(item)
    return spans


class FragmentCache:
    """Fragments by variant and agent id."""

    def __init__(self, largest: int = LARGEST_BYTES, most: int = MOST) -> None:
        self._largest = largest
        self._most = most
        self._count = 0
        self._variants: dict[Any, dict[str, Fragments]] = {}
        self.size = 0

    def known(self, variant: Variant) -> dict[str, Fragments]:
        """Return the fragments of a variant that are there, by agent id; each belongs to the agent that it names."""
        known = self._variants.get(variant)
        if known is None:
            known = self._variants[variant] = {}
        return known

    def get(self, agent: Agent, query: Query, variant: Variant, encode: Encode) -> Fragments:
        """Return the fragments of an agent, made now or before."""
        known = self._variants.get(variant)
        found = None if known is None else known.get(agent.id)
        return found if found is not None and found.agent is agent else self.make(agent, query, variant, encode)

    def make(self, agent: Agent, query: Query, variant: Variant, encode: Encode) -> Fragments:
        """Encode an agent, and remember that; what was known before may be forgotten."""
        known = self._room_for(agent.id, variant)
        if not self._most:
            return Fragments(agent, query, encode, _nobody)
        fragments = known[agent.id] = Fragments(agent, query, encode, self._grown)
        self._count += 1
        return fragments

    def _room_for(self, agent_id: str, variant: Variant) -> dict[str, Fragments]:
        """Forget the older self of an agent, and everything where there is no more room; return where the new goes."""
        known = self.known(variant)
        older = known.pop(agent_id, None)
        if older is not None:
            self._count -= 1
            self.size -= older.size
        if self.size > self._largest or self._count >= self._most:
            self._variants.clear()
            known.clear()
            self._variants[variant] = known
            self._count = self.size = 0
        return known

    def _grown(self, size: int) -> None:
        self.size += size


def _nobody(_: int) -> None:
    """Count nothing: this is not remembered."""

"""Pieces of answers, encoded once: what an agent looks like in one format with one choice of fields.

A fragment belongs to one version of an agent and is thrown away with it; all of them together stay under a limit. The
time of the last heartbeat is not in them, so heartbeats spoil nothing.
"""

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

    An agent that is asked for whole keeps everything joined, one that is asked for in part keeps the pieces, and the
    part that was asked for last: most often it is the same again.
    """

    __slots__ = (
        "_encode",
        "_items",
        "_query",
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

    def __init__(self, agent: Agent, query: Query, encode: Encode) -> None:
        self.agent = agent
        self._query = query
        self._encode = encode
        self.text: bytes | None = None
        """All of it, where somebody has asked for that, with the heartbeat of this time:"""
        self.seen_at: float | None = None
        self.part = b""
        """The same, where only these capabilities were asked for:"""
        self.mask = 0
        self.part_seen_at: float | None = None
        self._tail = 0
        self.head, items = encode(agent, query)
        self._items: tuple[bytes, ...] | None = items
        self.size = len(self.head) + sum(map(len, items))
        """How many bytes this takes, about."""

    def items(self) -> tuple[bytes, ...]:
        """Return one piece per capability."""
        if self._items is None:
            self._items = self._encode(self.agent, self._query)[1]
        return self._items

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
        return self.part

    def whole(self, seen_at: float | None, heartbeat: bytes, join: Join) -> bytes:
        """Return everything, joined once for each heartbeat."""
        if self.text is None:
            items, first_skill = self.items(), self.agent.reasoner_count
            tail = join(items[:first_skill], items[first_skill:])
            self._items = None
        else:
            tail = self.text[self._tail :]
        self.seen_at, self._tail = seen_at, len(self.head) + len(heartbeat)
        self.text = b"".join((self.head, heartbeat, tail))
        return self.text


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

    def make(self, agent: Agent, query: Query, variant: Variant, encode: Encode) -> Fragments:
        """Encode an agent, and remember that; what was known before may be forgotten."""
        known = self._room_for(agent.id, variant)
        fragments = Fragments(agent, query, encode)
        if self._most:
            known[agent.id] = fragments
            self._note(1, fragments.size)
        return fragments

    def _room_for(self, agent_id: str, variant: Variant) -> dict[str, Fragments]:
        """Forget the older self of an agent, and everything where there is no more room; return where the new goes."""
        known = self.known(variant)
        older = known.pop(agent_id, None)
        if older is not None:
            self._note(-1, -older.size)
        if self.size > self._largest or self._count >= self._most:
            self._variants.clear()
            known.clear()
            self._variants[variant] = known
            self._count = self.size = 0
        return known

    def _note(self, count: int, size: int) -> None:
        self._count += count
        self.size += size

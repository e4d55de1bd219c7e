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

    An agent that is asked for whole keeps its capabilities joined, one that is asked for in part keeps the pieces.
    """

    __slots__ = ("_encode", "_items", "_query", "_whole", "agent", "head", "size")

    def __init__(self, agent: Agent, query: Query, encode: Encode) -> None:
        self.agent = agent
        self._query = query
        self._encode = encode
        self._whole: bytes | None = None
        self.head, items = encode(agent, query)
        self._items: tuple[bytes, ...] | None = items
        self.size = len(self.head) + sum(map(len, items))
        """How many bytes this takes, about."""

    def items(self) -> tuple[bytes, ...]:
        """Return one piece per capability."""
        if self._items is None:
            self._items = self._encode(self.agent, self._query)[1]
        return self._items

    def whole(self, join: Join) -> bytes:
        """Return all pieces, joined once."""
        if self._whole is None:
            items, first_skill = self.items(), self.agent.reasoner_count
            self._whole = join(items[:first_skill], items[first_skill:])
            self._items = None
        return self._whole


class FragmentCache:
    """Fragments by variant and agent id."""

    def __init__(self, largest: int = LARGEST_BYTES, most: int = MOST) -> None:
        self._largest = largest
        self._most = most
        self._count = 0
        self._variants: dict[Any, dict[str, Fragments]] = {}
        self.size = 0

    def get(self, agent: Agent, query: Query, variant: Variant, encode: Encode) -> Fragments:
        """Return the fragments of an agent, made now or before."""
        known = self._variants.get(variant)
        if known is None:
            known = self._variants[variant] = {}
        fragments = known.get(agent.id)
        if fragments is not None and fragments.agent is agent:
            return fragments
        if fragments is not None:
            del known[agent.id]
            self._note(-1, -fragments.size)
        if self.size > self._largest or self._count >= self._most:
            known = {}
            self._variants = {variant: known}
            self._count = self.size = 0
        fragments = Fragments(agent, query, encode)
        if self._most:
            known[agent.id] = fragments
            self._note(1, fragments.size)
        return fragments

    def _note(self, count: int, size: int) -> None:
        self._count += count
        self.size += size

"""Pieces of answers, encoded once: what an agent looks like in one format with one choice of fields.

A fragment belongs to one version of an agent and is thrown away with it; all of them together stay under a limit. The
time of the last heartbeat is not in them, so heartbeats spoil nothing.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query

LARGEST_BYTES = 48 * 1024 * 1024

Variant = tuple[str, bool, bool, bool, bool]


class Fragments(Struct, frozen=True):
    """An agent in one variant: what stands before its heartbeat time, and one piece per capability."""

    agent: Agent
    head: bytes
    items: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """How many bytes this takes, about."""
        return len(self.head) + sum(map(len, self.items))


Encode = Callable[[Agent, Query], tuple[bytes, tuple[bytes, ...]]]


class FragmentCache:
    """Fragments by variant and agent id."""

    def __init__(self, largest: int = LARGEST_BYTES) -> None:
        self._largest = largest
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
        if self.size > self._largest:
            self._variants = {variant: {}}
            known = self._variants[variant]
            self.size = 0
        fragments = Fragments(agent, *encode(agent, query))
        known[agent.id] = fragments
        self.size += fragments.size
        return fragments

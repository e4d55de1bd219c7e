"""What questions have found, remembered until the catalogue changes.

Answers are remembered for a second; finding what is in them is most of their cost where a pattern has to be tried on
every name, and does not depend on the page, the format, the fields or the second.
"""

from switchboard.catalog.caches import Cache
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Selection
from switchboard.catalog.snapshot import Snapshot

MOST = 64
_LONGEST = 1024
LARGEST_AGENTS = 20_000
"""Agents in all selections together, some hundred kilobytes; of a larger catalogue, twice as many as there are."""


class Selections:
    """What questions have found in one version of the catalogue: for all pages, formats and seconds of that version."""

    def __init__(self, most: int = MOST, largest: int = LARGEST_AGENTS) -> None:
        self._known: Cache[Query, Selection] = Cache(most)
        self._largest = largest
        self._version = -1
        self._size = 0

    def of(self, snapshot: Snapshot, query: Query) -> Selection:
        """Return what a question finds, whatever page it asks for; together they stay below a number of agents."""
        filters = Query(
            agents=query.agents, reasoner=query.reasoner, skill=query.skill, tags=query.tags, health=query.health
        )
        if snapshot.version != self._version:
            self._version = snapshot.version
            self._forget()
        found = self._known.get(filters)
        if found is None:
            found = snapshot.selection(filters)
            largest = max(self._largest, 2 * len(snapshot.agent_ids)) if self._largest else 0
            if len(found.agents) > largest or _length(filters) > _LONGEST:
                return found
            if self._size + len(found.agents) > largest or len(self._known) >= self._known.most:
                self._forget()
            self._known.keep(filters, found)
            self._size += len(found.agents)
        return found

    def _forget(self) -> None:
        self._known.clear()
        self._size = 0


def _length(filters: Query) -> int:
    """Return how many characters were asked for."""
    return sum(map(len, (*filters.agents, *filters.tags, filters.reasoner or "", filters.skill or "")))

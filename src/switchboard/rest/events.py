"""What watchers are told, as server-sent events.

An event is about what a question sees of an agent: it begins to match (registered), is not as it was (changed), is as
it was but for its health (health), or matches no longer (removed). The agent in it is written as in discovery.
"""

from collections.abc import Callable
from typing import Any, final

import msgspec
from msgspec.structs import replace

from switchboard.actions.store_ports import Identified
from switchboard.actions.watch import Reason, Teller
from switchboard.catalog.changes import Change, Sides
from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Match
from switchboard.rest import render_json
from switchboard.rest.answers import time_text

BEGIN = b"retry: 1000\n\n"
KEEP_ALIVE = b": keep-alive\n\n"

Pieces = tuple[bytes, tuple[bytes, ...]]


@final
class Events(Teller):
    """Writes events of one instance."""

    def __init__(self, instance: str, store: Identified, seen_at: Callable[[str], float | None]) -> None:
        self._instance = instance
        self._store = store
        self._seen_at = seen_at
        self._pieces = _Pieces()

    def snapshot(self, version: int, total_agents: int, reason: Reason) -> bytes:
        """Say that discovery has to be asked, and why."""
        said = {**self._here(version), "total_agents": total_agents, "resumed": False, "reason": reason}
        return self._event("snapshot", version, said)

    def resumed(self, version: int, missed: int) -> bytes:
        """Say that what was missed follows; the id is that of the last event the watcher had."""
        return self._event("resumed", version, {**self._here(version), "missed": missed})

    def change(self, query: Query, sides: Sides) -> bytes:
        """Write one change, if it is one to this question."""
        change, seen = sides.change, sides.seen_by(query)
        about: dict[str, Any] = {"version": change.version, "agent_id": change.agent_id}
        if seen.after is None:
            if seen.before is None:
                return b""
            reason = "deregistered" if change.after is None else "no_longer_matches"
            return self._event("removed", change.version, {**about, "reason": reason})
        agent = seen.after.agent
        now = self._written(change, agent, seen.after, query)
        about["agent"] = msgspec.Raw(self._item(agent.id, now))
        if seen.before is None:
            return self._event("registered", change.version, about)
        before = seen.before.agent
        if self._written(change, replace(before, health=agent.health), seen.before, query) != now:
            return self._event("changed", change.version, about)
        if before.health == agent.health:
            return b""
        return self._event("health", change.version, {**_health(change, before, agent), **about})

    def _here(self, version: int) -> dict[str, Any]:
        return {"version": version, "instance": self._instance, "store": self._store.id}

    def _event(self, kind: str, version: int, said: dict[str, Any]) -> bytes:
        return b"event: %b\nid: %b-%d\ndata: %b\n\n" % (
            kind.encode(),
            self._instance.encode(),
            version,
            msgspec.json.encode(said),
        )

    def _written(self, change: Change, agent: Agent, match: Match, query: Query) -> tuple[bytes, bytes]:
        """Return an agent up to its heartbeat, and what follows on it."""
        head, items = self._pieces.of(change, agent, query)
        first, mask = agent.reasoner_count, match.mask
        reasoners = [item for place, item in enumerate(items[:first]) if mask >> place & 1]
        skills = [item for place, item in enumerate(items[first:], first) if mask >> place & 1]
        return head, render_json.agent_tail(reasoners, skills)

    def _item(self, agent_id: str, written: tuple[bytes, bytes]) -> bytes:
        at = self._seen_at(agent_id)
        heartbeat = render_json.agent_heartbeat(time_text(at).encode()) if at else b""
        return written[0] + heartbeat + written[1]


class _Pieces:
    """The agents of one change, encoded once for all questions that want the same fields."""

    def __init__(self) -> None:
        self._change: Change | None = None
        self._known: dict[Any, Pieces] = {}

    def of(self, change: Change, agent: Agent, query: Query) -> Pieces:
        if change is not self._change:
            self._change, self._known = change, {}
        fields = (query.input_schema, query.output_schema, query.examples, query.descriptions is not False)
        key = (agent is change.after, *fields)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = render_json.agent_fragments(agent, query)
        return known


def _health(change: Change, before: Agent, now: Agent) -> dict[str, Any]:
    said: dict[str, Any] = {
        "version": change.version,
        "agent_id": now.id,
        "health_status": now.health,
        "previous": before.health,
    }
    if change.state is not None:
        said |= {"since": time_text(change.state.since), "reason": change.state.reason}
    return said

"""Changes of what there is: added, removed and changed agents, found by asking again with the last answer's ETag.

While nothing changes, the control plane answers 304 without a body.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from agentfield.discovery import AgentCapability, DiscoveryResponse, Filters, following, page, request_for
from agentfield.plans import Answer, Lost, Pause, Plan, once, read

_PAGE = 500
_NO_NEWS = frozenset({304, 408, 429})
"""Nothing has changed, or the control plane is busy."""
_SERVER_FAILED = 500


class Change(msgspec.Struct, frozen=True):
    """One agent that came, went, or is not as it was; `before` is what it was."""

    kind: Literal["added", "removed", "changed"]
    agent: AgentCapability
    before: AgentCapability | None = None


class Seen(msgspec.Struct, frozen=True):
    """What a watcher knows: the agents by id, and the ETag of the answer."""

    agents: Mapping[str, AgentCapability] = {}
    etag: str = ""


def look(
    seen: Seen, filters: Filters, every: float, seconds: float, patience: float
) -> Plan[tuple[Seen, list[Change]]]:
    """Wait until something has changed, and return what.

    A control plane that does not answer is waited for: a watcher lives longer than a server.

    Raises:
        APIError: The question is refused; asking again would not help.
    """
    question: Filters = {**filters, "limit": _PAGE, "offset": 0}
    while True:
        reply = yield from once(request_for("json", question, seconds, seen.etag))
        if isinstance(reply, Answer) and reply.status not in _NO_NEWS and reply.status < _SERVER_FAILED:
            now = yield from _all_of(reply, question, patience, seconds)
            changes = differences(seen.agents, now.agents)
            if changes:
                return now, changes
            seen = now
        yield Pause(every)


def differences(before: Mapping[str, AgentCapability], now: Mapping[str, AgentCapability]) -> list[Change]:
    """Compare two states, by the order of ids; a sign of life alone is no change."""
    changes: list[Change] = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if new is None and old is not None:
            changes.append(Change("removed", old, old))
        elif new is not None and old is None:
            changes.append(Change("added", new))
        elif new is not None and old is not None and _lasting(new) != _lasting(old):
            changes.append(Change("changed", new, old))
    return changes


def _all_of(answer: Answer | Lost, question: Filters, patience: float, seconds: float) -> Plan[Seen]:
    assert isinstance(answer, Answer)  # noqa: S101 - for the type checker
    found = read(answer, DiscoveryResponse)
    agents = {agent.agent_id: agent for agent in found.capabilities}
    rest = following(question, found)
    while rest is not None:
        found = yield from page(rest, patience, seconds)
        agents |= {agent.agent_id: agent for agent in found.capabilities}
        rest = following(rest, found)
    return Seen(agents, answer.headers.get("etag", ""))


def _lasting(agent: AgentCapability) -> AgentCapability:
    return msgspec.structs.replace(agent, last_heartbeat=AgentCapability("").last_heartbeat)

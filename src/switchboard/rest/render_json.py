"""Discovery as JSON: seed 004, 3.4."""

from collections.abc import Sequence
from typing import Any

import msgspec

from switchboard.catalog.model import Agent, Capability
from switchboard.catalog.names import address_of, target
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Page

encode = msgspec.json.encode
SEPARATOR = b","
END = b"]}"
_SUMMARY = (
    b'{"discovered_at":"%b","total_agents":%d,"total_reasoners":%d,"total_skills":%d,'
    b'"pagination":{"limit":%d,"offset":%d,"has_more":%b},"capabilities":['
)


def agent_fragments(agent: Agent, query: Query) -> tuple[bytes, tuple[bytes, ...]]:
    """Encode what an agent looks like: everything up to its heartbeat, and each capability."""
    head = encode(
        {
            "agent_id": agent.id,
            "group_id": agent.group_id,
            "base_url": agent.base_url,
            "version": agent.version,
            "health_status": agent.health,
            "deployment_type": agent.deployment_type,
        }
    )
    return head[:-1], tuple(encode(_capability(agent, item, query)) for item in agent.capabilities)


def agent_tail(reasoners: Sequence[bytes], skills: Sequence[bytes]) -> bytes:
    """Encode what stands after an agent's heartbeat."""
    return b',"reasoners":[%b],"skills":[%b]}' % (b",".join(reasoners), b",".join(skills))


def agent_heartbeat(seen: bytes) -> bytes:
    """Encode when an agent was last seen."""
    return b',"last_heartbeat":"%b"' % seen


def document(at: str, query: Query, page: Page, agents: Sequence[bytes]) -> list[bytes]:
    """Put the whole answer together, in pieces, as the agents come."""
    return [summary(at, query, page.totals, has_more=page.has_more), *agents, END]


def summary(at: str, query: Query, totals: tuple[int, int, int], *, has_more: bool) -> bytes:
    """Encode everything before the first agent; the totals are of agents, reasoners and skills."""
    more = b"true" if has_more else b"false"
    return _SUMMARY % (at.encode(), *totals, query.limit, query.offset, more)


def _capability(agent: Agent, item: Capability, query: Query) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": item.id}
    if query.descriptions is not False and item.description:
        fields["description"] = item.description
    fields["tags"] = item.tags
    for wanted, key, text in (
        (query.input_schema, "input_schema", item.input_schema),
        (query.output_schema, "output_schema", item.output_schema),
        (query.examples, "examples", item.examples),
    ):
        if wanted and text is not None:
            fields[key] = msgspec.Raw(text)
    fields["invocation_target"] = target(address_of(agent.id, item))
    return fields

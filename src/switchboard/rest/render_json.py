"""Discovery as JSON: seed 004, 3.4."""

from collections.abc import Sequence
from typing import Any

import msgspec

from switchboard.catalog.model import Agent, Capability
from switchboard.catalog.names import address_of, target
from switchboard.catalog.query import Query

encode = msgspec.json.encode
SEPARATOR = b","


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


def document(summary: dict[str, Any], agents: Sequence[bytes]) -> bytes:
    """Put the whole answer together; the agents come in pieces."""
    return b"".join((encode(summary)[:-1], b',"capabilities":[', *agents, b"]}"))


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

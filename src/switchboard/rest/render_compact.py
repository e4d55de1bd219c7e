"""Discovery as compact JSON: seed 004, 3.6. One line per capability, no agents around them."""

from typing import Any

import msgspec

from switchboard.catalog.model import Agent, Capability
from switchboard.catalog.names import address_of, target
from switchboard.catalog.query import Query


def agent_fragments(agent: Agent, query: Query) -> tuple[bytes, tuple[bytes, ...]]:
    """Encode each capability of an agent."""
    return b"", tuple(msgspec.json.encode(_capability(agent, item, query)) for item in agent.capabilities)


def document(discovered_at: str, reasoners: list[bytes], skills: list[bytes]) -> list[bytes]:
    """Put the whole answer together, in pieces."""
    opening = b'{"discovered_at":"%b","reasoners":[' % discovered_at.encode()
    return [opening, b",".join(reasoners), b'],"skills":[', b",".join(skills), b"]}"]


def _capability(agent: Agent, item: Capability, query: Query) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": item.id,
        "agent_id": agent.id,
        "target": target(address_of(agent.id, item)),
        "tags": item.tags,
    }
    # Compact is for models with little room: descriptions only for those who ask for them by name.
    if query.descriptions is True and item.description:
        fields["description"] = item.description
    return fields

"""Discovery as XML, for the context of a model: seed 004, 3.5. Well-formed for every input.

Schemas become fields with a name, a type, and what else is said about them; nested objects nest.
"""

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from switchboard.catalog.bindings import Json
from switchboard.catalog.model import Agent, Capability
from switchboard.catalog.names import address_of, target
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Page

SEPARATOR = b""
# What XML 1.0 cannot hold in any spelling: control characters, surrogates, two non-characters.
_IMPOSSIBLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTES = (("minimum", "min"), ("maximum", "max"), ("min", "min"), ("max", "max"), ("default", "default"))


def agent_fragments(agent: Agent, query: Query) -> tuple[bytes, tuple[bytes, ...]]:
    """Encode an agent's opening tag up to its heartbeat, and each capability."""
    facts = {
        "id": agent.id,
        "base_url": agent.base_url,
        "version": agent.version,
        "health_status": agent.health,
        "deployment_type": agent.deployment_type,
    }
    head = f"<agent{_attributes(facts)}"
    return _bytes(head), tuple(_bytes(_capability(agent, item, query)) for item in agent.capabilities)


def agent_tail(reasoners: Sequence[bytes], skills: Sequence[bytes]) -> bytes:
    """Encode what stands after an agent's heartbeat."""
    return b">\n<reasoners>\n%b</reasoners>\n<skills>\n%b</skills>\n</agent>\n" % (
        b"".join(reasoners),
        b"".join(skills),
    )


def agent_heartbeat(seen: bytes) -> bytes:
    """Encode when an agent was last seen."""
    return b' last_heartbeat="%b"' % seen


def document(at: str, page: Page, agents: Sequence[bytes]) -> list[bytes]:
    """Put the whole answer together, in pieces, as the agents come."""
    counts = {
        "total_agents": page.total_agents,
        "total_reasoners": page.total_reasoners,
        "total_skills": page.total_skills,
    }
    head = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<discovery discovered_at="{at}">\n'
        f"<summary{_attributes(counts)}/>\n<capabilities>\n"
    )
    return [head.encode(), *agents, b"</capabilities>\n</discovery>\n"]


def _capability(agent: Agent, item: Capability, query: Query) -> str:
    parts = [f"<{item.kind}{_attributes({'id': item.id, 'target': target(address_of(agent.id, item))})}>\n"]
    if query.descriptions is not False and item.description:
        parts.append(f"<description>{_text(item.description)}</description>\n")
    parts.append(f"<tags>{''.join(f'<tag>{_text(tag)}</tag>' for tag in item.tags)}</tags>\n")
    if query.input_schema:
        parts.append(_schema("input_schema", item.input_schema))
    if query.output_schema:
        parts.append(_schema("output_schema", item.output_schema))
    if query.examples and item.examples is not None:
        parts.append(f"<examples>{_text(item.examples.decode())}</examples>\n")
    return f"{''.join(parts)}</{item.kind}>\n"


def _schema(name: str, schema: Json | None) -> str:
    if schema is None:
        return ""
    return f"<{name}>{_fields(msgspec.json.decode(schema))}</{name}>\n"


def _fields(schema: Any) -> str:
    """Write the properties of an object schema, each as a field."""
    if not isinstance(schema, dict):
        return ""
    known = cast("dict[str, Any]", schema)
    properties, required = known.get("properties"), known.get("required")
    if not isinstance(properties, dict):
        return ""
    names = cast("list[Any]", required) if isinstance(required, list) else []
    needed = {name for name in names if isinstance(name, str)}
    fields = cast("dict[str, Any]", properties)
    return "".join(_field(name, field, required=name in needed) for name, field in fields.items())


def _field(name: str, schema: Any, *, required: bool) -> str:
    known = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    facts: dict[str, Any] = {"name": name, "type": _type(known)}
    if required:
        facts["required"] = True
    for key, attribute in _ATTRIBUTES:
        if known.get(key) is not None:
            facts.setdefault(attribute, known[key])
    if isinstance(known.get("enum"), list):
        facts["enum"] = "|".join(_plain(value) for value in known["enum"])
    said = known.get("description")
    description = _text(said) if isinstance(said, str) else ""
    items = known.get("items")
    inner = _fields(known) or _fields(items)
    return f"<field{_attributes(facts)}>{description}{inner}</field>"


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        return "|".join(_plain(entry) for entry in cast("list[Any]", kind))
    reference = schema.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else "any"


def _attributes(facts: dict[str, Any]) -> str:
    return "".join(f' {name}="{_quoted(_plain(value))}"' for name, value in facts.items())


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    cleaned = _IMPOSSIBLE.sub("\ufffd", text)
    return cleaned.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def _quoted(text: str) -> str:
    return _text(text).replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")


def _bytes(text: str) -> bytes:
    return text.encode()

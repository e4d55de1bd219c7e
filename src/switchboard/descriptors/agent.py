"""Reading agent registrations as the AgentField SDKs send them, and writing them back.

Only an id and a usable address matter. Everything else may be missing, null, of the wrong type or unknown: it is
normalised and noted, never refused, because an agent that cannot register is lost to everybody.
"""

import re
import sys
from typing import Any, cast

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import AgentServer, Binding, Json
from switchboard.catalog.errors import InvalidDescriptor
from switchboard.catalog.findings import Problem
from switchboard.catalog.health import Said, said
from switchboard.catalog.model import Agent, Capability, Health, Kind
from switchboard.descriptors.document import Document, decode, kind_of

_ADDRESS = re.compile(
    r"https?://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]\\\x00-\x20]+)(:[0-9]{1,5})?(/[^\s?#\x00-\x1f]*)?", re.IGNORECASE
)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ns|us|µs|ms|s|m|h))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NANOSECONDS_FROM = 1_000_000
"""A larger number is a Go duration, which counts nanoseconds; nobody calls every eleven days."""
_LONGEST_ID = 500
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MOST_CAPABILITIES = 1000
_MOST_TAGS = 100
_LONGEST_TAG = 200
_CUSTOM = "$.metadata.custom"

_HEALTH: dict[Said, Health] = {
    "starting": "unknown",
    "ready": "active",
    "degraded": "degraded",
    "offline": "inactive",
}


class Registration(Struct, frozen=True, kw_only=True):
    """What one registration says: the agent, how often it promises to call, and what had to be mended."""

    agent: Agent
    said: Said
    heartbeat_s: float | None
    problems: tuple[Problem, ...]


def read(raw: bytes) -> Registration:
    """Read one registration.

    Raises:
        InvalidDescriptor: it is no JSON object, or has no id, or no http(s) address.
    """
    document = decode(raw)
    if isinstance(document, Problem):
        raise InvalidDescriptor(
            f"The registration cannot be read: {document.message}. Send an object.", problems=[str(document)]
        )
    return read_document(document)


def read_document(document: Document) -> Registration:
    """Read a registration that is no text any more.

    Raises:
        InvalidDescriptor: it has no id, or no http(s) address.
    """
    return _Reader(document).registration()


def write(agent: Agent) -> bytes:
    """Return the registration that reads back to the same agent."""
    items = {
        "reasoners": [_written(item) for item in agent.reasoners],
        "skills": [_written(item) for item in agent.skills],
    }
    facts = {
        "id": agent.id,
        "group_id": agent.group_id,
        "team_id": agent.team_id,
        "base_url": agent.base_url,
        "version": agent.version,
        "deployment_type": agent.deployment_type,
        "instance_id": agent.instance_id,
        "lifecycle_status": next(word for word, health in _HEALTH.items() if health == agent.health),
        "metadata": {"custom": {"description": agent.description, "tags": list(agent.tags)}},
    }
    return msgspec.json.encode({**facts, **items})


class _Reader:
    """Reads one document and collects what is odd about it."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._problems: list[Problem] = []

    def registration(self) -> Registration:
        agent_id, base_url = self._id(), self._base_url()
        custom = self._object(self._object(self._document, "metadata"), "custom")
        binding = Binding(AgentServer(base_url=base_url))
        reasoners = self._capabilities("reasoner", "reasoners", binding, custom)
        skills = self._capabilities("skill", "skills", binding, custom)
        word = self._said()
        agent = Agent(
            id=agent_id,
            base_url=base_url,
            version=self._text(self._document, "version"),
            group_id=self._text(self._document, "group_id") or agent_id,
            team_id=self._text(self._document, "team_id") or "default",
            deployment_type=self._text(self._document, "deployment_type") or "long_running",
            description=self._text(custom, "description", _CUSTOM) or self._text(self._document, "description"),
            tags=self._tags(custom, _CUSTOM) or self._tags(self._document, "$"),
            capabilities=(*reasoners, *skills),
            reasoner_count=len(reasoners),
            health=_HEALTH[word],
            instance_id=self._text(self._document, "instance_id"),
            raw=Json(msgspec.json.encode(self._document)),
        )
        return Registration(agent=agent, said=word, heartbeat_s=self._heartbeat(), problems=tuple(self._problems))

    def _id(self) -> str:
        value: object = self._document.get("id") or self._document.get("node_id")
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_ID or _CONTROL.search(value):
            message = f"must be a text of 1 to {_LONGEST_ID} characters, without control characters"
            raise InvalidDescriptor(
                f"The registration's id {message}. Correct it, and register again.", problems=[f"$.id: {message}"]
            )
        return value.strip()

    def _said(self) -> Said:
        word = self._text(self._document, "lifecycle_status").strip()
        known = said(word)
        if known is None:
            self._note("$.lifecycle_status", "is not known; read as starting")
        return known or "starting"

    def _base_url(self) -> str:
        value: object = self._document.get("base_url")
        if not isinstance(value, str) or not _ADDRESS.fullmatch(value.strip()):
            message = "must be an http or https address, without user name, query or fragment"
            raise InvalidDescriptor(
                f"The registration's base_url {message}. Correct it, and register again.",
                problems=[f"$.base_url: {message}"],
            )
        return value.strip().rstrip("/")

    def _capabilities(self, kind: Kind, key: str, binding: Binding, custom: Document) -> list[Capability]:
        descriptions, examples = self._object(custom, "descriptions"), self._object(custom, "examples")
        found: dict[str, Capability] = {}
        for i, value in enumerate(self._list(self._document, key)[: 2 * _MOST_CAPABILITIES]):
            path = f"$.{key}[{i}]"
            record: Document = cast("Document", value) if isinstance(value, dict) else {"id": value}
            name: object = record.get("id") or record.get("name")
            if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_ID or _CONTROL.search(name):
                self._note(path, f"has no id of 1 to {_LONGEST_ID} characters and was left out")
            elif len(found) >= _MOST_CAPABILITIES:
                self._note(f"$.{key}", f"has more than {_MOST_CAPABILITIES} entries; the rest was left out")
                break
            elif name.strip() in found:
                self._note(path, f"repeats the id {name.strip()!r} and was left out")
            else:
                # Many agents say the same: each text is in memory once.
                name = sys.intern(name.strip())
                description = self._text(record, "description", path) or self._text(
                    descriptions, name, f"{_CUSTOM}.descriptions"
                )
                found[name] = Capability(
                    kind=kind,
                    id=name,
                    description=sys.intern(description),
                    tags=self._tags(record, path),
                    input_schema=self._schema(record, "input_schema", path),
                    output_schema=self._schema(record, "output_schema", path),
                    examples=_examples(record.get("examples")) or _examples(examples.get(name)),
                    binding=binding,
                )
        return list(found.values())

    def _schema(self, record: Document, key: str, path: str) -> Json | None:
        value: object = record.get(key)
        if isinstance(value, dict):
            return Json(msgspec.json.encode(value))
        if value is not None:
            self._note(f"{path}.{key}", f"is {kind_of(value)} in the place of a schema and was left out")
        return None

    def _tags(self, record: Document, path: str) -> tuple[str, ...]:
        given: object = record.get("tags") or record.get("proposed_tags") or []
        values = cast("list[object]", given) if isinstance(given, list) else [given]
        tags = [value.strip() for value in values if isinstance(value, str)]
        kept = [sys.intern(tag) for tag in dict.fromkeys(tags) if tag and len(tag) <= _LONGEST_TAG][:_MOST_TAGS]
        if len(kept) < len(set(map(str, values)) - {""}):
            self._note(f"{path}.tags", f"has entries that are no texts, too long, or past {_MOST_TAGS}; left out")
        return tuple(kept)

    def _text(self, record: Document, key: str, path: str = "$") -> str:
        value: object = record.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self._note(f"{path}.{key}", f"is {kind_of(value)} in the place of a text and was left out")
        return ""

    def _object(self, record: Document, key: str) -> Document:
        value: object = record.get(key)
        return cast("Document", value) if isinstance(value, dict) else {}

    def _list(self, record: Document, key: str) -> list[object]:
        value: object = record.get(key)
        if isinstance(value, list):
            return cast("list[object]", value)
        if value is not None:
            self._note(f"$.{key}", f"is {kind_of(value)} in the place of a list and was left out")
        return []

    def _heartbeat(self) -> float | None:
        value: object = self._object(self._document, "communication_config").get("heartbeat_interval")
        if isinstance(value, str) and value.isdecimal() and value.isascii():
            value = int(value[:20])
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**63:
            return float(value) / (1e9 if value >= _NANOSECONDS_FROM else 1.0)
        if not isinstance(value, str) or not _DURATION.fullmatch(value):
            return None
        parts = _DURATION_PART.findall(value)
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts) or None

    def _note(self, path: str, message: str) -> None:
        self._problems.append(Problem("warning", "value", path, message))


def _examples(value: Any) -> Json | None:
    if not isinstance(value, list):
        return None
    examples = [cast("Document", item) for item in cast("list[object]", value) if isinstance(item, dict)]
    return Json(msgspec.json.encode(examples)) if examples else None


def _written(item: Capability) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": item.id, "description": item.description, "tags": list(item.tags)}
    documents = {"input_schema": item.input_schema, "output_schema": item.output_schema, "examples": item.examples}
    fields.update({key: msgspec.Raw(document) for key, document in documents.items() if document is not None})
    return fields

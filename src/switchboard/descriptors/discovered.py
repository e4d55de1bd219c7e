"""Reading what a control plane answers to discovery, and what it tells a watcher: agents, their health, who is gone.

Tolerant of AgentField's own answers, which have null for empty lists and leave texts empty. One agent that cannot be
read is a problem with its path, and the others are there; only an answer that is no answer at all is refused.
"""

from datetime import UTC, datetime
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import InvalidDescriptor
from switchboard.catalog.findings import Problem
from switchboard.catalog.model import Agent, Health
from switchboard.catalog.text import clean
from switchboard.descriptors import agent as registrations
from switchboard.descriptors.document import DEEPEST, Document, depth_within, kind_of

_HEALTH: tuple[Health, ...] = ("active", "inactive", "degraded", "unknown")
_NO_ADDRESS = "http://address.invalid"
_COPIED = ("version", "group_id", "deployment_type", "reasoners", "skills", "description", "tags")
_LONGEST_REASON = 200
_LONGEST_STORE = 100
_LATEST = 253_402_300_799.0
"""The last second of the year 9999."""

Told = Literal["snapshot", "resumed", "registered", "changed", "health", "removed"]
"""What a watch tells of."""


class Discovered(Struct, frozen=True, kw_only=True):
    """An agent as a control plane shows it, and how it is."""

    agent: Agent
    since: float | None = None
    """Since when it is as it is, as far as that was said; for one that is inactive at least since it was last heard."""
    reason: str = ""


class Page(Struct, frozen=True, kw_only=True):
    """One page of an answer: who is on it, how many there are in all, and whether that was all."""

    agents: tuple[Discovered, ...]
    total: int
    has_more: bool
    problems: tuple[Problem, ...] = ()


class News(Struct, frozen=True, kw_only=True):
    """One event of a watch; `agent` is None where the event is about none, or only says that it is gone."""

    kind: Told
    agent_id: str = ""
    agent: Discovered | None = None
    store: str = ""


def read(raw: bytes) -> Page:
    """Read one page.

    Raises:
        InvalidDescriptor: it is not an answer to discovery.
    """
    document = _object(raw, "answer")
    listed = document.get("capabilities", [])
    if listed is not None and not isinstance(listed, list):
        raise _unusable(f"its capabilities are {kind_of(listed)}")
    agents: list[Discovered] = []
    problems: list[Problem] = []
    for number, item in enumerate(cast("list[object]", listed or [])):
        try:
            agents.append(read_agent(item))
        except InvalidDescriptor as error:
            problems.append(Problem("error", "value", f"$.capabilities[{number}]", error.message))
    pagination = document.get("pagination")
    paging = cast("Document", pagination) if isinstance(pagination, dict) else {}
    total = document.get("total_agents")
    return Page(
        agents=tuple(agents),
        total=total if isinstance(total, int) and total >= 0 else len(agents),
        has_more=paging.get("has_more") is True,
        problems=tuple(problems),
    )


def read_agent(item: object) -> Discovered:
    """Read one agent, as it stands in an answer or in an event.

    Raises:
        InvalidDescriptor: it has no usable id, or is nested too deeply.
    """
    if not isinstance(item, dict):
        raise _unusable(f"an agent is {kind_of(item)}")
    fields = cast("Document", item)
    if not depth_within(fields, DEEPEST):
        raise _unusable("an agent is nested too deeply")
    given: Document = {key: fields[key] for key in _COPIED if fields.get(key) is not None}
    given |= {"id": fields.get("agent_id"), "base_url": fields.get("base_url")}
    try:
        agent = registrations.read_document(given).agent
    except InvalidDescriptor:
        agent = registrations.read_document({**given, "base_url": _NO_ADDRESS}).agent
    # What registers need not be repeated here: nobody asks for the text of it.
    agent = replace(agent, health=_health(fields.get("health_status")), raw=Json(b"{}"))
    heard = _time(fields.get("last_heartbeat")) if agent.health == "inactive" else None
    return Discovered(agent=agent, since=heard)


def read_news(kind: str, raw: bytes) -> News | None:
    """Read one event of a watch; None for a kind that is not known, which a later version may send.

    Raises:
        InvalidDescriptor: it cannot be read.
    """
    fields = _object(raw, "event")
    match kind:
        case "snapshot" | "resumed":
            return News(kind=kind, store=read_store(fields.get("store")))
        case "removed":
            return News(kind=kind, agent_id=_id(fields))
        case "registered" | "changed" | "health":
            found = read_agent(fields.get("agent"))
            if kind == "health":
                said = fields.get("reason")
                reason = clean(said, _LONGEST_REASON) if isinstance(said, str) else ""
                found = replace(found, since=_time(fields.get("since")) or found.since, reason=reason)
            return News(kind=kind, agent_id=found.agent.id, agent=found)
        case _:
            return None


def read_health(raw: bytes) -> str:
    """Return the id of the store in an answer of `/health`, empty where it has none."""
    try:
        store = _object(raw, "answer").get("store")
    except InvalidDescriptor:
        return ""
    return read_store(cast("Document", store).get("id")) if isinstance(store, dict) else ""


def read_store(value: object) -> str:
    """Return the id of a store if it can be one: it becomes part of what a consent is for."""
    text = value if isinstance(value, str) else ""
    return text if 0 < len(text) <= _LONGEST_STORE and text.isascii() and text.isprintable() and " " not in text else ""


def _object(raw: bytes, what: str) -> Document:
    try:
        document: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unusable(f"the {what} is not JSON") from error
    if not isinstance(document, dict):
        raise _unusable(f"the {what} is {kind_of(document)}")
    return cast("Document", document)


def _id(fields: Document) -> str:
    value: Any = fields.get("agent_id")
    if not isinstance(value, str) or not value:
        raise _unusable("an event names no agent")
    return value


def _health(value: object) -> Health:
    for health in _HEALTH:
        if health == value:
            return health
    return "unknown"


def _time(value: object) -> float | None:
    """Return a time of the wire in seconds; None for none, Go's way to say so, and what no calendar of ours shows."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if at is None:
        return None
    seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    return seconds if 0 < seconds < _LATEST else None


def _unusable(why: str) -> InvalidDescriptor:
    return InvalidDescriptor(f"What the control plane says cannot be read: {why}.", problems=[why])

"""Discovery: what can be asked, what is answered, and the plans between them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypedDict, cast

import msgspec

from agentfield.plans import Answer, Plan, Request, exchange, read, refuse

PATH = "/api/v1/discovery/capabilities"
Format = Literal["json", "xml", "compact"]
NEVER = datetime.min.replace(tzinfo=UTC)
"""A time that the server did not say."""
_ONE = ("agent", "agent_id", "node_id")
_MANY = ("agent_ids", "node_ids")
DEFAULT_LIMIT = 100


class Filters(TypedDict, total=False):
    """What can be asked for, besides the format. Patterns have `*` for any characters; filters are ANDed."""

    agent: str
    agent_id: str
    node_id: str
    agent_ids: Iterable[str]
    node_ids: Iterable[str]
    reasoner: str
    skill: str
    tags: Iterable[str]
    health_status: str
    include_input_schema: bool
    include_output_schema: bool
    include_descriptions: bool
    include_examples: bool
    limit: int
    offset: int


class Pagination(msgspec.Struct, frozen=True):
    """Where a page stands; the unit is the agent."""

    limit: int = DEFAULT_LIMIT
    offset: int = 0
    has_more: bool = False


class Ability(msgspec.Struct, frozen=True):
    """Something an agent can do, of either kind."""

    id: str
    invocation_target: str
    description: str | None = None
    tags: list[str] = []
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    examples: list[dict[str, Any]] | None = None


class ReasonerCapability(Ability, frozen=True):
    """Something an agent thinks about, usually with a model."""


class SkillCapability(Ability, frozen=True):
    """Something an agent does in plain code."""


class AgentCapability(msgspec.Struct, frozen=True):
    """One agent, and what it can do."""

    agent_id: str
    base_url: str = ""
    version: str = ""
    health_status: str = ""
    deployment_type: str = ""
    last_heartbeat: datetime = NEVER
    reasoners: list[ReasonerCapability] = []
    skills: list[SkillCapability] = []
    group_id: str = ""


class DiscoveryResponse(msgspec.Struct, frozen=True):
    """One page of what there is; the totals count all pages."""

    discovered_at: datetime = NEVER
    total_agents: int = 0
    total_reasoners: int = 0
    total_skills: int = 0
    pagination: Pagination = Pagination()
    capabilities: list[AgentCapability] = []


class CompactCapability(msgspec.Struct, frozen=True):
    """One reasoner or skill in one line."""

    id: str
    agent_id: str
    target: str
    tags: list[str] = []
    description: str | None = None


class CompactDiscoveryResponse(msgspec.Struct, frozen=True):
    """What there is, short enough for any context."""

    discovered_at: datetime = NEVER
    reasoners: list[CompactCapability] = []
    skills: list[CompactCapability] = []


Discovered = DiscoveryResponse | CompactDiscoveryResponse | str


def discover(form: str, filters: Filters, patience: float, seconds: float) -> Plan[Discovered]:
    """Ask, and return the answer in its form."""
    answer = yield from exchange(request_for(form, filters, seconds), patience)
    return response_of(form, answer)


def page(filters: Filters, patience: float, seconds: float) -> Plan[DiscoveryResponse]:
    """Ask for one page of the full form."""
    answer = yield from exchange(request_for("json", filters, seconds), patience)
    return read(answer, DiscoveryResponse)


def request_for(form: str, filters: Filters, seconds: float, etag: str = "") -> Request:
    """Turn a question into a request.

    Raises:
        TypeError: There is no such filter, or a list was given as one text.
    """
    unknown = filters.keys() - Filters.__annotations__.keys()
    if unknown:
        raise TypeError(f"discover() has no filter {', '.join(sorted(unknown))}.")
    headers = (("If-None-Match", etag),) if etag else ()
    return Request("GET", PATH, tuple(_query(form, filters)), headers, seconds=seconds, repeatable=True)


def response_of(form: str, answer: Answer) -> Discovered:
    """Turn an answer into what its form promises."""
    if form == "xml":
        refuse(answer)
        return answer.body.decode(errors="replace")
    return read(answer, CompactDiscoveryResponse if form == "compact" else DiscoveryResponse)


def following(filters: Filters, found: DiscoveryResponse) -> Filters | None:
    """Return the question for the next page, if there is one; a page without agents is the last, whatever it says."""
    limit = filters.get("limit", DEFAULT_LIMIT)
    if not found.pagination.has_more or not found.capabilities:
        return None
    return {**filters, "offset": filters.get("offset", 0) + limit}


def _query(form: str, filters: Filters) -> Iterable[tuple[str, str]]:
    given = cast("Mapping[str, object]", filters)
    if form != "json":
        yield "format", form
    yield from _agents(given)
    for name, value in given.items():
        if value is None or name in _ONE or name in _MANY:
            continue
        yield name, ",".join(_listed(name, value)) if name == "tags" else _worded(value)


def _agents(given: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    """Name agents one by one, because an id may have a comma, but for those that have none."""
    ids = [str(given[name]) for name in _ONE if given.get(name)]
    ids += [item for name in _MANY if given.get(name) for item in _listed(name, given[name])]
    if len(ids) > 1 and not any("," in item for item in ids):
        return [("agent_ids", ",".join(ids))]
    return [("agent", item) for item in ids]


def _listed(name: str, value: object) -> list[str]:
    if isinstance(value, str):
        raise TypeError(f'{name} is a list: write {name}=["{value}"].')
    return [str(item) for item in cast("Iterable[object]", value)]


def _worded(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

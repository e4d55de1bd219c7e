"""What a discovery request asks for: its query, read once and remembered, and the wishes in its headers."""

import zlib
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Struct

from switchboard.catalog import patterns
from switchboard.catalog.errors import InvalidQuery
from switchboard.catalog.query import MOST_ENTRIES, Format, Query, parse_query
from switchboard.rest.answers import new_request_id, request_id
from switchboard.rest.fragments import Variant
from switchboard.rest.replies import Headers

_MOST_PARAMETERS = 100
_ONE_AGENT = frozenset({b"agent", b"agent_id", b"node_id"})
_MANY_AGENTS = frozenset({b"agent_ids", b"node_ids"})
_IN_IDS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:,-"
_JUST_AGENTS = ("agent",)


class Wishes(Struct, frozen=True):
    """What the headers of a request ask for."""

    given_id: str
    """The caller's own id for his request; most have none."""
    has: bytes
    encodings: bytes

    def identity(self) -> str:
        """Return the id of the request."""
        return self.given_id or new_request_id()


class Lookup(Struct, frozen=True, gc=False):
    """A question that only names agents, asked for the first time."""

    ids: tuple[str, ...]
    """Sorted, and each of them once."""
    quoted: str
    """The same as members of a JSON array, but for the first and the last quote; such ids need no escapes."""
    format: Format = "json"
    kind: tuple[Format, tuple[str, ...]] = ("json", ("agent",))

    def key(self) -> bytes:
        """Return the key that a `Question` for the same has."""
        return b'{"agents":["%b"]}' % self.quoted.encode()

    def filters(self) -> str:
        """Return what it asks for, as a log says it."""
        return f'{{"agent_ids":["{self.quoted}"],"format":"json"}}'


class Question:
    """A query as it was asked, and everything about it that does not change from one time to the next.

    Raises:
        InvalidQuery: it cannot be read.
    """

    __slots__ = (
        "_filters",
        "asked",
        "format",
        "is_lookup",
        "key",
        "kind",
        "query",
        "tag",
        "variant",
    )

    def __init__(self, text: bytes) -> None:
        lookup = _lookup(text)
        self.query = query = lookup or parse_query(pairs(text))
        self.key = msgspec.json.encode(query)
        """The same for the same question in another spelling; as a key it is cheaper than the question itself."""
        self.tag = tag_of(self.key)
        self.is_lookup = lookup is not None or (bool(query.agents) and all(map(patterns.is_exact, query.agents)))
        """Whether it names agents by id: there are too many different ones to remember every answer."""
        self.kind = query.format, _JUST_AGENTS if lookup is not None else _used(query)
        """Its format, and the filters that it uses."""
        self.variant = _USUAL_VARIANT if lookup is not None else variant_of(query)
        self.asked = 0
        self.format = query.format
        self._filters: str | None = None

    def filters(self) -> str:
        """Return what it asks for, as a log says it."""
        if self._filters is None:
            self._filters = msgspec.json.encode(filters_of(self.query)).decode()
        return self._filters

    def next_page(self) -> str:
        """Return the parameters of the next page; an id with a comma in it cannot be in a list."""
        query = self.query
        listed = [agent for agent in query.agents if "," not in agent]
        flags = {
            "include_input_schema": query.input_schema or None,
            "include_output_schema": query.output_schema or None,
            "include_descriptions": query.descriptions,
            "include_examples": query.examples or None,
        }
        given: list[tuple[str, str | int | None]] = [
            ("agent_ids", ",".join(listed) or None),
            *(("agent", agent) for agent in query.agents if "," in agent),
            ("reasoner", query.reasoner),
            ("skill", query.skill),
            ("tags", ",".join(query.tags) or None),
            *((name, None if flag is None else str(flag).lower()) for name, flag in flags.items()),
            ("format", None if query.format == "json" else query.format),
            ("health_status", query.health),
            ("limit", query.limit),
            ("offset", query.offset + query.limit),
        ]
        return urlencode([(name, value) for name, value in given if value is not None])


def wishes(headers: Headers) -> Wishes:
    """Read the headers of a request."""
    identity = has = encodings = b""
    for name, value in headers:
        if name == b"accept-encoding":
            encodings = value
        elif name == b"if-none-match":
            has = value
        elif name == b"x-request-id":
            identity = value
    return Wishes(request_id(identity.decode("latin-1")) if identity else "", has, encodings)


def tag_of(key: bytes) -> bytes:
    """Return what an ETag says of a question."""
    return b"%08x" % zlib.crc32(key)


def _lookup(text: bytes) -> Query | None:
    named = ids_of(text)
    return Query(agents=named) if named else None


def ids_of(text: bytes) -> tuple[str, ...]:
    """Read a question that only names agents, which most do, for a fifth of the time; nothing for every other."""
    name, _, value = text.partition(b"=")
    if not value or value.translate(None, _IN_IDS):
        return ()
    if name in _ONE_AGENT and b"," not in value:
        return (value.decode(),)
    if name not in _MANY_AGENTS or value.count(b",") >= MOST_ENTRIES:
        return ()
    ids = set(value.decode().split(","))
    ids.discard("")
    return tuple(sorted(ids))


def pairs(text: bytes) -> list[tuple[str, str]]:
    """Decode the parameters; a flood of them is refused before they are looked at."""
    if text.count(b"&") >= _MOST_PARAMETERS:
        message = f"Too many parameters. At most {_MOST_PARAMETERS} are allowed"
        raise InvalidQuery(message, parameter="", provided="", allowed=[])
    decoded = text.decode("utf-8", "replace")
    if "%" in decoded or "+" in decoded:
        return parse_qsl(decoded, keep_blank_values=True)
    # Nothing is encoded: the same result for a tenth of the time.
    parts = (part.partition("=") for part in decoded.split("&") if part)
    return [(name, value) for name, _, value in parts]


def filters_of(query: Query) -> dict[str, Any]:
    """Return what a query asks for, as a log says it."""
    given: dict[str, Any] = {}
    if query.agents:
        given["agent_ids"] = query.agents
    if query.reasoner:
        given["reasoner"] = query.reasoner
    if query.skill:
        given["skill"] = query.skill
    if query.tags:
        given["tags"] = query.tags
    if query.health:
        given["health_status"] = query.health
    given["format"] = query.format
    return given


def variant_of(query: Query) -> Variant:
    """Return in which form a question wants its agents."""
    described = query.descriptions is True if query.format == "compact" else query.descriptions is not False
    return (query.format, query.input_schema, query.output_schema, query.examples, described)


_USUAL_VARIANT = variant_of(Query())


def _used(query: Query) -> tuple[str, ...]:
    given = (("agent", query.agents), ("reasoner", query.reasoner), ("skill", query.skill), ("tag", query.tags))
    return tuple([name for name, wanted in given if wanted])

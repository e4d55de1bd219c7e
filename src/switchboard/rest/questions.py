"""What a discovery request asks for: its query, read once and remembered, and the wishes in its headers."""

import re
import zlib
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Struct

from switchboard.catalog import patterns
from switchboard.catalog.errors import InvalidQuery
from switchboard.catalog.query import MOST_ENTRIES, Query, parse_query
from switchboard.rest.answers import new_request_id, request_id
from switchboard.rest.replies import Headers

_MOST_PARAMETERS = 100
_ONE_AGENT = re.compile(rb"(?:agent|agent_id|node_id)=([A-Za-z0-9_.:-]+)")
_MANY_AGENTS = re.compile(rb"(?:agent_ids|node_ids)=([A-Za-z0-9_.:,-]+)")


class Wishes(Struct, frozen=True):
    """What the headers of a request ask for."""

    request_id: str
    has: bytes
    encodings: bytes


class Question:
    """A query as it was asked, and everything about it that does not change from one time to the next.

    Raises:
        InvalidQuery: it cannot be read.
    """

    __slots__ = ("asked", "filters", "is_lookup", "query", "tag", "used")

    def __init__(self, text: bytes) -> None:
        lookup = _lookup(text)
        self.query = query = lookup or parse_query(pairs(text))
        self.tag = b"%08x" % zlib.crc32(msgspec.json.encode(query))
        self.is_lookup = lookup is not None or (bool(query.agents) and all(map(patterns.is_exact, query.agents)))
        """Whether it names agents by id: there are too many different ones to remember every answer."""
        self.filters = filters_of(query)
        self.used = _used(query)
        self.asked = 0

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
    return Wishes(request_id(identity.decode("latin-1")) if identity else new_request_id(), has, encodings)


def _lookup(text: bytes) -> Query | None:
    """Read a question that only names agents, which most do, for a fifth of the time; None for every other."""
    one = _ONE_AGENT.fullmatch(text)
    if one is not None:
        return Query(agents=(one[1].decode(),))
    many = _MANY_AGENTS.fullmatch(text)
    if many is None or many[1].count(b",") >= MOST_ENTRIES:
        return None
    named = tuple(sorted({*many[1].decode().split(",")} - {""}))
    return Query(agents=named) if named else None


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


def _used(query: Query) -> tuple[str, ...]:
    given = (("agent", query.agents), ("reasoner", query.reasoner), ("skill", query.skill), ("tag", query.tags))
    return tuple([name for name, wanted in given if wanted])

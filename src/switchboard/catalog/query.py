"""The discovery question: its parameters, their defaults and ranges, and what is wrong with a bad one.

The grammar is seed 004 section 3.2 with the decisions of the public contract: lists unite, an empty pattern or list is
no filter, everything that cannot be meant is refused with the parameter, what was given and what is allowed.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeVar, get_args

from msgspec import Struct

from switchboard.catalog.errors import InvalidQuery
from switchboard.catalog.model import Health
from switchboard.catalog.text import nearest

Format = Literal["json", "xml", "compact"]
Choice = TypeVar("Choice", Format, Health)

LIMIT_DEFAULT = 100
LIMIT_MOST = 500
OFFSET_MOST = 2**53

MOST_ENTRIES = 500
MOST_WILDCARDS = 20

_ONE_AGENT = ("agent", "agent_id", "node_id")
_MANY_AGENTS = ("agent_ids", "node_ids")
_FLAGS = ("include_input_schema", "include_output_schema", "include_descriptions", "include_examples")
_FORMATS: tuple[Format, ...] = get_args(Format)
_HEALTHS: tuple[Health, ...] = get_args(Health)
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
PARAMETERS: tuple[str, ...] = (
    *_ONE_AGENT,
    *_MANY_AGENTS,
    "reasoner",
    "skill",
    "tags",
    *_FLAGS,
    "format",
    "health_status",
    "limit",
    "offset",
)
_PAGING = ("limit", "offset")
WATCHED: tuple[str, ...] = tuple(name for name in PARAMETERS if name not in _PAGING)
"""What a watch takes: it has no pages."""


class Query(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is asked for. Equal questions are equal values, whatever the spelling and order of their parameters."""

    agents: tuple[str, ...] = ()
    reasoner: str | None = None
    skill: str | None = None
    tags: tuple[str, ...] = ()
    health: Health | None = None
    input_schema: bool = False
    output_schema: bool = False
    descriptions: bool | None = None
    """None where the asker did not say: then JSON and XML have descriptions and compact has none."""
    examples: bool = False
    format: Format = "json"
    limit: int = LIMIT_DEFAULT
    offset: int = 0


def parse_query(parameters: Iterable[tuple[str, str]]) -> Query:
    """Read the decoded parameters of a request.

    Raises:
        InvalidQuery: a parameter is unknown, repeated where it must not be, or has a value that cannot be meant.
    """
    return _read(parameters, PARAMETERS)


def parse_watch(parameters: Iterable[tuple[str, str]]) -> Query:
    """Read the decoded parameters of a watch: those of discovery, but for pages and other formats.

    Raises:
        InvalidQuery: as for discovery, and for `limit`, `offset` and a format that is not JSON.
    """
    query = _read(parameters, WATCHED)
    if query.format != "json":
        raise _invalid("format", query.format, ("json",), "Must be json: a watch has no other form")
    return query


def _read(parameters: Iterable[tuple[str, str]], known: tuple[str, ...]) -> Query:
    given: dict[str, list[str]] = {}
    for name, value in parameters:
        if name not in known:
            raise _not_paged(name, value) if name in _PAGING else _unknown(name, value, known)
        given.setdefault(name, []).append(value)
    return Query(**{field: value for name in given for field, value in _field(name, given)})


def _field(name: str, given: dict[str, list[str]]) -> Iterator[tuple[str, Any]]:
    """Yield the field of a query that one of the given parameters sets."""
    match name:
        case "reasoner" | "skill":
            yield name, _one(name, given) or None
        case "tags":
            yield "tags", _united("tags", _listed("tags", given))
        case "health_status":
            yield "health", _choice(name, given, _HEALTHS)
        case "format":
            yield "format", _choice(name, given, _FORMATS)
        case "limit":
            yield "limit", _number(name, given, LIMIT_MOST)
        case "offset":
            yield "offset", _number(name, given, OFFSET_MOST)
        case _ if name in _FLAGS:
            yield name.removeprefix("include_"), _boolean(name, given)
        case _:
            yield "agents", _agents(given)


def _agents(given: dict[str, list[str]]) -> tuple[str, ...]:
    single = [value for name in _ONE_AGENT for value in given.get(name, [])]
    many = [value for name in _MANY_AGENTS for value in _listed(name, given)]
    return _united("agent_ids", [*single, *many])


def _listed(name: str, given: dict[str, list[str]]) -> list[str]:
    return [part for value in given.get(name, []) for part in value.split(",")]


def _united(name: str, values: list[str]) -> tuple[str, ...]:
    """Return the different entries in one order; a list that would take seconds to match is refused."""
    united = tuple(sorted({value.strip() for value in values} - {""}))
    wildcards = sum("*" in value for value in united)
    if len(united) > MOST_ENTRIES or wildcards > MOST_WILDCARDS:
        raise InvalidQuery(
            f"Invalid {name} parameter. Must have at most {MOST_ENTRIES} entries, {MOST_WILDCARDS} of them with *",
            parameter=name,
            provided=f"{len(united)} entries, {wildcards} with *",
            allowed=[f"{MOST_ENTRIES} entries", f"{MOST_WILDCARDS} with *"],
        )
    return united


def _one(name: str, given: dict[str, list[str]]) -> str:
    values = given[name]
    if len(values) > 1:
        raise InvalidQuery(
            f"The parameter {name} was given {len(values)} times. Give it once.",
            parameter=name,
            provided=", ".join(values),
            allowed=["one value"],
        )
    return values[0]


def _choice(name: str, given: dict[str, list[str]], allowed: tuple[Choice, ...]) -> Choice:
    value = _one(name, given)
    for choice in allowed:
        if value.lower() == choice:
            return choice
    raise _invalid(name, value, allowed, f"Must be one of: {', '.join(allowed)}")


def _boolean(name: str, given: dict[str, list[str]]) -> bool:
    value = _one(name, given)
    if value.lower() not in _BOOLEANS:
        raise _invalid(name, value, tuple(_BOOLEANS), f"Must be one of: {', '.join(_BOOLEANS)}")
    return _BOOLEANS[value.lower()]


def _number(name: str, given: dict[str, list[str]], most: int) -> int:
    value = _one(name, given)
    digits = value.lstrip("0") or value[-1:]
    # The length is looked at first: int() refuses very long texts with an error of its own.
    if digits.isascii() and digits.isdigit() and len(digits) <= len(str(most)) and int(digits) <= most:
        return int(digits)
    raise _invalid(name, value, (f"0-{most}",), f"Must be a whole number from 0 to {most}")


def _invalid(name: str, value: str, allowed: tuple[str, ...], rule: str) -> InvalidQuery:
    return InvalidQuery(f"Invalid {name} parameter. {rule}", parameter=name, provided=value, allowed=allowed)


def _not_paged(name: str, value: str) -> InvalidQuery:
    message = f"Invalid {name} parameter. A watch has no pages: it is about everything that matches"
    return InvalidQuery(message, parameter=name, provided=value, allowed=WATCHED)


def _unknown(name: str, value: str, known: tuple[str, ...]) -> InvalidQuery:
    near = nearest(name.lower(), known, 1)
    hint = f" Did you mean {near[0]}?" if near else f" Known parameters: {', '.join(known)}."
    return InvalidQuery(f"Unknown parameter {name[:100]}.{hint}", parameter=name, provided=value, allowed=near or known)

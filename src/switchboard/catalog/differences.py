"""What a new version of an app asks of those who use the one before: what breaks for them, and what is new.

Only what a caller or the user notices counts: tools, their parameters and results, where calls go, how one signs in.
Schemas are compared as far as their words can be: a part that is put together (`oneOf`, `$ref` and the like) and has
changed is named as one that nobody can judge.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from switchboard.catalog import addresses
from switchboard.catalog.bindings import Execution, Http, Json, McpHttp, Skill
from switchboard.catalog.model import App, Capability

Weight = Literal["major", "minor", "unclear"]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TYPES = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})
_LIMITS = {
    # Which direction takes fewer values.
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), 1),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), -1),
}
_COUNTABLE = 10**300
_PUT_TOGETHER = ("$ref", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "patternProperties", "prefixItems")


class Change(Struct, frozen=True):
    """One difference, and where it is: in the new descriptor, or in the old one if it is gone from there."""

    weight: Weight
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Described(Struct, frozen=True):
    """An app, and where each of its tools stands in its descriptor."""

    app: App
    tool_paths: Mapping[str, str]

    def path_of(self, tool: str) -> str:
        """Return the JSON path of a tool."""
        return self.tool_paths.get(tool) or _joined("$.tools", tool)


def changes(before: Described, after: Described) -> list[Change]:
    """Return everything that users of the first one notice in the second."""
    # Thousands of tools fit into one descriptor: looking for each among all would take seconds.
    there, here = ({tool.id: tool for tool in one.app.capabilities} for one in (before, after))
    return [
        *_owner(before.app, after.app),
        *(change for name, tool in there.items() for change in _tool(tool, here.get(name), before, after)),
        *(Change("minor", after.path_of(name), f"the tool {name} is new") for name in here if name not in there),
    ]


def address_of(execution: Execution) -> tuple[str, str] | None:
    """Return where the calls of a web app go, and the key under which that stands; None for everything else."""
    match execution:
        case Http():
            return execution.base_url, "baseUrl"
        case McpHttp() | Skill(path=None):
            return execution.url or "", "url"
        case _:
            return None


def _owner(before: App, after: App) -> Iterator[Change]:
    old, new = (app.auth.type if app.auth else None for app in (before, after))
    if old != new:
        path = "$.auth.type" if new else "$.auth"
        yield Change("major", path, f"signing in was {_shown(old)}, and is {_shown(new)}")
    if before.execution.kind != after.execution.kind:
        message = f"was {before.execution.kind}, and is {after.execution.kind}"
        yield Change("major", "$.execution.type", message)
        return
    there, here = address_of(before.execution), address_of(after.execution)
    if there and here and addresses.origin(there[0]) != addresses.origin(here[0]):
        yield Change(
            "major", f"$.execution.{here[1]}", f"calls went to {_origin(there[0])}, and go to {_origin(here[0])}"
        )


def _tool(tool: Capability, now: Capability | None, before: Described, after: Described) -> Iterator[Change]:
    if now is None:
        yield Change("major", before.path_of(tool.id), f"the tool {tool.id} is gone")
        return
    there, here = before.path_of(tool.id), after.path_of(tool.id)
    # Arguments are always an object, also where nobody says so.
    old, new = ({"type": "object", **_schema(one.input_schema)} for one in (tool, now))
    yield from _asked(old, new, f"{there}.parameters", f"{here}.parameters")
    if tool.output_schema is not None:
        yield from _given(
            _schema(tool.output_schema), _schema(now.output_schema), f"{there}.returns", f"{here}.returns"
        )


def _asked(old: dict[str, Any], new: dict[str, Any], there: str, here: str) -> Iterator[Change]:
    """Yield where values that were taken are not taken any more, and what may be given now."""
    yield from _own_words(old, new, here)
    known, offered = _fields(old, "properties"), _fields(new, "properties")
    was_needed, needed = _texts(old, "required"), _texts(new, "required")
    for name in needed:
        if name not in was_needed:
            message = "is required, and was not" if name in known else "is new, and required"
            yield Change("major", _joined(f"{here}.properties", name), message)
    for name, inner in known.items():
        if name in offered:
            paths = (_joined(f"{there}.properties", name), _joined(f"{here}.properties", name))
            yield from _asked(_object(inner), _object(offered[name]), *paths)
        elif name not in needed:
            yield Change("major", _joined(f"{there}.properties", name), "is gone")
    for name in offered:
        if name not in known and name not in needed:
            yield Change("minor", _joined(f"{here}.properties", name), "is new")
    if isinstance(old.get("items"), dict) or isinstance(new.get("items"), dict):
        yield from _asked(_object(old.get("items")), _object(new.get("items")), f"{there}.items", f"{here}.items")


def _own_words(old: dict[str, Any], new: dict[str, Any], here: str) -> Iterator[Change]:
    if not _types(old) <= _types(new):
        yield Change("major", f"{here}.type", f"takes {_named(new)}, and took {_named(old)}")
    missing = _missing(old, new)
    if missing is not None:
        yield Change("major", f"{here}.{'const' if 'const' in new else 'enum'}", missing)
    yield from _limits(old, new, here)
    for word in ("pattern", "format", "multipleOf"):
        if word in new and new[word] != old.get(word):
            yield Change("major", f"{here}.{word}", "takes other values than before")
    if new.get("additionalProperties") is False and old.get("additionalProperties") is not False:
        yield Change("major", f"{here}.additionalProperties", "other parameters are refused, and were not")
    for word in _PUT_TOGETHER:
        if old.get(word) != new.get(word):
            yield Change("unclear", f"{here}.{word}", "has changed, and whether that breaks a caller cannot be told")


def _limits(old: dict[str, Any], new: dict[str, Any], here: str) -> Iterator[Change]:
    for word, tighter in _LIMITS.items():
        was, now = _number(old, word), _number(new, word)
        if now is not None and (was is None or (now > was if tighter > 0 else now < was)):
            before = "not limited" if was is None else _counted(was)
            yield Change("major", f"{here}.{word}", f"is {_counted(now)}, and was {before}")


def _given(old: dict[str, Any], new: dict[str, Any], there: str, here: str) -> Iterator[Change]:
    """Yield what is missing in a result for those who read it."""
    if not _types(new) <= _types(old):
        yield Change("major", f"{here}.type", f"is {_named(new)}, and was {_named(old)}")
    known, offered = _fields(old, "properties"), _fields(new, "properties")
    for name, inner in known.items():
        if name in offered:
            paths = (_joined(f"{there}.properties", name), _joined(f"{here}.properties", name))
            yield from _given(_object(inner), _object(offered[name]), *paths)
        else:
            yield Change("major", _joined(f"{there}.properties", name), "is gone")
    for name in offered:
        if name not in known:
            yield Change("minor", _joined(f"{here}.properties", name), "is new")
    if isinstance(old.get("items"), dict):
        yield from _given(_object(old.get("items")), _object(new.get("items")), f"{there}.items", f"{here}.items")


def _missing(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Say which values of an enumeration are not taken any more."""
    was, now = _values(old), _values(new)
    if now is None:
        return None
    if was is None:
        return "takes certain values only, and took all"
    gone = sorted(was - now)
    return f"does not take {', '.join(gone[:5])} any more" if gone else None


def _values(schema: dict[str, Any]) -> set[str] | None:
    if "const" in schema:
        return {msgspec.json.encode(schema["const"]).decode()}
    found: object = schema.get("enum")
    if not isinstance(found, list):
        return None
    return {msgspec.json.encode(value).decode() for value in cast("list[Any]", found)}


def _types(schema: dict[str, Any]) -> frozenset[str]:
    said: object = schema.get("type")
    if isinstance(said, str):
        named = {said}
    elif isinstance(said, list):
        named = {str(item) for item in cast("list[Any]", said)}
    else:
        return _TYPES
    return frozenset(named | {"integer"} if "number" in named else named)


def _named(schema: dict[str, Any]) -> str:
    return " or ".join(sorted(_types(schema))) if "type" in schema else "anything"


def _number(schema: dict[str, Any], word: str) -> float | None:
    value: object = schema.get(word)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _counted(number: float) -> str:
    """Return a number as text; a schema may have one that no machine counts with."""
    return f"{number:g}" if abs(number) < _COUNTABLE else "out of all bounds"


def _fields(schema: dict[str, Any], word: str) -> dict[str, Any]:
    return _object(schema.get(word))


def _texts(schema: dict[str, Any], word: str) -> list[str]:
    value: object = schema.get(word)
    return [text for text in cast("list[Any]", value) if isinstance(text, str)] if isinstance(value, list) else []


def _schema(text: Json | None) -> dict[str, Any]:
    return {} if text is None else _object(msgspec.json.decode(text))


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _origin(url: str) -> str:
    found = addresses.origin(url)
    return "nowhere" if found is None else f"{found[0]}://{found[1]}:{found[2]}"


def _shown(kind: str | None) -> str:
    return kind or "not needed"


def _joined(path: str, key: str) -> str:
    """Return the JSON path one key further."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{msgspec.json.encode(key).decode()}]"

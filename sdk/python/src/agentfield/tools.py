"""Discovered capabilities as tools of a model, and a model's tool calls back as targets to execute.

A tool's name is its target with `:` as `__`, so that it stays the same whatever else is there. Targets with other
characters, or too long, get a shortened name with a hash. `from_tool_call` finds the target again among the same
capabilities.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from agentfield.discovery import CompactDiscoveryResponse, DiscoveryResponse
from agentfield.errors import InvalidToolCall

_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1024
_DIGITS = 10
_PART = re.compile(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
"""What can be told apart from `__` on both sides."""
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")

Found = DiscoveryResponse | CompactDiscoveryResponse


class Tool(msgspec.Struct, frozen=True):
    """One capability under the name that a model calls it by."""

    name: str
    target: str
    description: str
    parameters: dict[str, Any]


class ToolCall(msgspec.Struct, frozen=True):
    """What a model wants executed; `id` is what its result has to be sent back with."""

    target: str
    input: dict[str, Any]
    id: str = ""


def to_openai_tools(found: Found) -> list[dict[str, Any]]:
    """Return capabilities as `tools` of OpenAI's chat completions, and of everything that speaks like them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools_of(found)
    ]


def to_anthropic_tools(found: Found) -> list[dict[str, Any]]:
    """Return capabilities as `tools` of Anthropic's messages."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in tools_of(found)
    ]


def from_tool_call(call: object, found: Found) -> ToolCall:
    """Return the target and the input that a model's tool call means.

    Takes what the clients of OpenAI (chat completions and responses) and Anthropic give, as objects or as dictionaries.

    Raises:
        InvalidToolCall: There is no such tool, or the arguments are no JSON object.
    """
    inner = _get(call, "function") or call
    name = _get(inner, "name")
    targets = {tool.name: tool.target for tool in tools_of(found)}
    if not isinstance(name, str) or name not in targets:
        raise InvalidToolCall(f"There is no tool {name!r}. {_nearest(str(name), list(targets))}")
    given = _get(inner, "arguments") if _get(inner, "input") is None else _get(inner, "input")
    identity = _get(call, "call_id") or _get(call, "id")
    return ToolCall(targets[name], _arguments(name, given), identity if isinstance(identity, str) else "")


def tools_of(found: Found) -> list[Tool]:
    """Return capabilities as tools, each with a name of its own."""
    tools: list[Tool] = []
    taken: set[str] = set()
    for target, description, schema in _capabilities(found):
        name = tool_name(target)
        if name in taken:  # somebody chose a name that looks like another's short one
            name = _shortened(target, f"{len(taken)}:{target}")
        taken.add(name)
        tools.append(Tool(name, target, (description or target)[:_LONGEST_DESCRIPTION], _object(schema)))
    return tools


def tool_name(target: str) -> str:
    """Return a target's name as a tool: at most 64 of the characters that every provider allows."""
    parts = target.split(":")
    name = "__".join(parts)
    if len(name) <= _LONGEST_NAME and all(_PART.fullmatch(part) for part in parts):
        return name
    return _shortened(target, target)


def _shortened(target: str, hashed: str) -> str:
    digest = hashlib.sha256(hashed.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    words = _OTHERS.sub("_", target.replace(":", "__")).strip("_")
    return f"{words[: _LONGEST_NAME - _DIGITS - 1].rstrip('_')}_{digest}"


def _capabilities(found: Found) -> Iterator[tuple[str, str | None, dict[str, Any] | None]]:
    if isinstance(found, CompactDiscoveryResponse):
        yield from ((item.target, item.description, None) for item in (*found.reasoners, *found.skills))
        return
    for agent in found.capabilities:
        for item in (*agent.reasoners, *agent.skills):
            yield item.invocation_target, item.description, item.input_schema


def _object(schema: dict[str, Any] | None) -> dict[str, Any]:
    """Return a schema as providers take it: of an object, with properties."""
    return {"properties": {}, **(schema or {}), "type": "object"}


def _nearest(name: str, names: list[str]) -> str:
    import difflib  # noqa: PLC0415 - only for mistakes

    near = difflib.get_close_matches(name, names, 3) or names[:3]
    return f"Did you mean {', '.join(near)}?" if near else "There are none."


def _arguments(name: str, given: object) -> dict[str, Any]:
    try:
        document: object = given or {}
        if isinstance(given, str | bytes):
            document = msgspec.json.decode(given) if given.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidToolCall(f"The arguments of {name} are not JSON: {error}.") from error
    if not isinstance(document, dict):
        raise InvalidToolCall(f"The arguments of {name} must be a JSON object, not a {type(document).__name__}.")
    return cast("dict[str, Any]", document)


def _get(item: object, name: str) -> object:
    if isinstance(item, Mapping):
        return cast("Mapping[str, object]", item).get(name)
    return getattr(item, name, None)

"""What a gateway costs the context of a model: tokens of its lists and guides, for 10 to 5000 apps of ten tools each.

Counted with a real tokenizer, offline, in what a model reads: of a tool its name, description and schema. Beside it
stands what the same apps would cost if every tool of every app were listed, as servers without guides do.
"""

import importlib
import json
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import Figure, not_built
from bench.scan import descriptor
from bench.servers import FIXED, HANDSHAKE, Homes, Process, gateway, running

TARGETS = {"tokens per app": 60.0, "tokens of the fixed tools": 350.0}
TOKENIZER = "bpe-openai"
"""A package that carries the vocabulary o200k_base inside; development requirements bring it."""
_HELD = 500
"""Apps up to which a line is held to its target: beyond that, ids and names with more digits have more tokens."""
_PAGE = 1000
"""Entries of a list before it is cut."""

Encode = Callable[[str], list[int]]


class Plan(NamedTuple):
    """How much is measured."""

    apps: tuple[int, ...] = (10, 50, 500, 5000)


QUICK = Plan(apps=(2, 4))
"""Enough to see that measuring works."""


class Context(NamedTuple):
    """What a conversation with a gateway puts into a model's context, in tokens."""

    apps: list[int]
    """Of each app's line in the list."""
    fixed: int
    """Of the tools that are no apps, together."""
    instructions: int
    guide: int
    """Of one app's guide."""

    @property
    def listed(self) -> int:
        """Of the whole list."""
        return sum(self.apps) + self.fixed


def figures(plan: Plan | None = None) -> list[Figure]:
    """Count, where there is a tokenizer."""
    plan, encode = plan or Plan(), tokenizer()
    if encode is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        homes = Homes(Path(folder), plan.apps)
        contexts = [_conversation(homes, count, encode) for count in plan.apps]
    last = contexts[-1]
    return [
        *(one for pair in zip(contexts, plan.apps, strict=True) for one in _figures_of(*pair, encode)),
        Figure("context: fixed tools together", last.fixed, "", target=TARGETS["tokens of the fixed tools"]),
        Figure("context: instructions", last.instructions, ""),
        Figure("context: one guide, ten tools", last.guide, ""),
        not_built("context: one search answer"),
    ]


def _conversation(homes: Homes, count: int, encode: Encode) -> Context:
    with running(gateway(homes, count)) as process:
        return counted(process, count, encode)


def _figures_of(context: Context, count: int, encode: Encode) -> list[Figure]:
    spread = max(context.apps) - min(context.apps)
    per_app = statistics.mean(context.apps)
    limit = TARGETS["tokens per app"] if count <= _HELD else None
    return [
        Figure(f"context: one app in a list of {count}, on average", per_app, "", spread, target=limit),
        Figure(f"context: whole list, {count} apps", context.listed, ""),
        Figure(f"context: every tool of {count} apps, if all were listed", count * every_tool(encode), ""),
    ]


def counted(process: Process, count: int, encode: Encode) -> Context:
    """Return what a gateway with so many apps puts into a context."""
    instructions = _result(process.ask("initialize", HANDSHAKE))["instructions"]
    process.tell("notifications/initialized")
    page = _result(process.tools(min(count + FIXED, _PAGE)))
    tools, fixed = page["tools"][:-FIXED], page["tools"][-FIXED:]
    while "nextCursor" in page:
        page = _result(process.ask("tools/list", {"cursor": page["nextCursor"]}))
        tools += page["tools"]
    if len(tools) != count:
        raise RuntimeError(f"{len(tools)} of {count} apps are listed")
    guide = _result(process.ask("tools/call", {"name": tools[0]["name"]}))["content"][0]["text"]
    return Context(
        [len(encode(shown(tool))) for tool in tools],
        sum(len(encode(shown(tool))) for tool in fixed),
        len(encode(instructions)),
        len(encode(guide)),
    )


def every_tool(encode: Encode) -> int:
    """Return the tokens of all tools of one app, listed one by one; every app of the bench has the same ones."""
    tools = json.loads(descriptor(1))["tools"]
    return sum(len(encode(shown({**tool, "inputSchema": tool["parameters"]}))) for tool in tools)


def shown(tool: Mapping[str, Any]) -> str:
    """Return what a model reads of a tool."""
    seen = {key: tool[key] for key in ("name", "description", "inputSchema")}
    return json.dumps(seen, ensure_ascii=False, separators=(",", ":"))


def tokenizer(package: str = TOKENIZER) -> Encode | None:
    """Return what cuts a text into tokens, or say that the package for it is missing."""
    module = package.replace("-", "_")
    if find_spec(module) is None:
        print(f"tokens: not counted, {package} is missing", file=sys.stderr)
        return None
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # it opens its files the old way
        return importlib.import_module(module).get_encoding("o200k_base").encode


def _result(answer: bytes) -> dict[str, Any]:
    return json.loads(answer)["result"]

"""What a person is told about a tool, and whether it is still the tool they were told about. Pure.

A tool is its name, description, parameters, annotations, and what is called with what: a consent is for all of that.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import Acp, Binding, Cli, Dbus, Http, Json, McpStdio, Registered, Stdio
from switchboard.catalog.model import Capability
from switchboard.catalog.text import clean
from switchboard.net.guard import read

Effect = Literal["reads", "claims", "writes", "destroys", "unknown"]
"""`claims` is what only the app says: that it reads, where its method would allow more."""
Part = Literal["description", "parameters", "endpoint", "annotations"]

_DESCRIPTION, _PARAMETERS, _ENDPOINT = 240, 240, 160
_READING, _DESTROYING, _WRITING = ("GET", "HEAD"), ("DELETE",), ("POST", "PUT", "PATCH")


class Seen(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was shown of a tool, short enough to be kept; `mark` stands for all that it really is.

    `parts` only tell which part of it has changed: they are short, and whoever writes a descriptor could find two texts
    for one of them.
    """

    mark: str
    description: str = ""
    parameters: str = ""
    endpoint: str = ""
    parts: Mapping[str, str] = {}


def seen(capability: Capability) -> Seen:
    """Return what a tool is like now."""
    binding = capability.binding
    whole = {
        "description": capability.description,
        "parameters": _document(capability.input_schema),
        "endpoint": [binding.kind, msgspec.to_builtins(binding.execution), msgspec.to_builtins(binding.route)],
        "annotations": msgspec.to_builtins(capability.annotations),
    }
    return Seen(
        mark=_mark([capability.id, whole]),
        description=clean(capability.description, _DESCRIPTION),
        parameters=clean(", ".join(_parameters(capability.input_schema)), _PARAMETERS),
        endpoint=clean(endpoint(binding), _ENDPOINT),
        parts={part: _mark(value)[:8] for part, value in whole.items()},
    )


def changed(before: Seen, now: Seen) -> list[Part]:
    """Return which parts of a tool are not what they were."""
    parts: tuple[Part, ...] = ("description", "parameters", "endpoint", "annotations")
    return [part for part in parts if before.parts.get(part) != now.parts.get(part)]


def effect(capability: Capability) -> Effect:
    """Return what a tool does to the world, as it says itself or as its method says; the worse of the two counts."""
    annotations, method = capability.annotations, (capability.binding.route.method or "").upper()
    if not isinstance(capability.binding.execution, Http):
        method = ""
    if (annotations and annotations.destructive) or method in _DESTROYING:
        return "destroys"
    if annotations and annotations.read_only:
        return "reads" if method in _READING else "claims"
    if method in _WRITING or (annotations and (annotations.read_only is False or annotations.destructive is False)):
        return "writes"
    return "reads" if method in _READING else "unknown"


def endpoint(binding: Binding) -> str:
    """Return in one line what is called."""
    execution, route = binding.execution, binding.route
    match execution:
        case Http(base_url=base):
            path, shown = route.path or "", _shown(base)
            slash = "" if not path or path.startswith("/") or shown.endswith("/") else "/"
            return f"{(route.method or 'POST').upper()} {shown}{slash}{path}"
        case Stdio() | Acp() | McpStdio() | Cli():
            return " ".join((execution.command, *execution.args))
        case Registered():
            return f"{route.path} (agent)"
        case Dbus():
            return f"{execution.service} {execution.object_path} {execution.interface}"
        case _:
            names = ("bundle_id", "prog_id", "url", "base_url", "path")
            return next((str(value) for name in names if (value := getattr(execution, name, None))), binding.kind)


def _shown(base: str) -> str:
    """Return a base address with its host in the letters that are looked up."""
    found, path = read(base), base.partition("://")[2].partition("/")
    return base if found is None else f"{found.scheme}://{found.authority}{path[1]}{path[2]}"


def _parameters(schema: Json | None) -> Iterator[str]:
    document = _document(schema)
    found: object = cast("dict[str, object]", document).get("properties") if isinstance(document, dict) else None
    required: object = cast("dict[str, object]", document).get("required") if isinstance(document, dict) else None
    wanted = cast("list[object]", required) if isinstance(required, list) else []
    for name, part in cast("dict[str, Any]", found).items() if isinstance(found, dict) else ():
        kind: object = cast("dict[str, Any]", part).get("type") if isinstance(part, dict) else None
        said = f": {kind}" if isinstance(kind, str) else ""
        yield f"{name}{'' if name in wanted else '?'}{said}"


def _document(schema: Json | None) -> object:
    return msgspec.json.decode(schema or b"{}")


def _mark(value: object) -> str:
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()

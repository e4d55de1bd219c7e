"""The `tools` of an aai.json: what each is called, takes, gives and does, and its own part of the execution."""

import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

from switchboard.catalog.bindings import NO_ROUTE, Binding, Execution, Json, Route
from switchboard.catalog.model import Annotations, Capability
from switchboard.descriptors.cursor import Record, Value
from switchboard.descriptors.executions import read_route, write_route

NO_PARAMETERS = Json(b'{"type":"object","properties":{}}')
_EASY_NAME = re.compile(r"[^\s:]{1,200}")
_LONGEST_NAME = 500
_PATH = re.compile(r"/([^/\s]\S*)?")
_METHOD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

ReadRoute = Callable[[Record], Route]


def read_tools(value: Value, execution: Execution, route_of: ReadRoute | None = None) -> tuple[Capability, ...]:
    """Read the list; `route_of` reads a tool's route where it is not in an `execution` of its own."""
    tools: dict[str, Capability] = {}
    for item in value.items():
        record = item.record()
        tool = _tool(record, execution, route_of or _nested_route) if record else None
        if record and tool and tool.id in tools:
            record.report.error("cross", f"{record.path}.name", "there is another tool of this name")
        elif record and tool:
            tools[tool.id] = tool
            record.report.tool_paths[tool.id] = record.path
    return tuple(tools.values())


def write_tool(tool: Capability) -> dict[str, Any]:
    """Return the canonical object of one tool."""
    fields: dict[str, Any] = {
        "name": tool.id,
        "description": tool.description,
        "parameters": msgspec.Raw(tool.input_schema or NO_PARAMETERS),
    }
    if tool.output_schema is not None:
        fields["returns"] = msgspec.Raw(tool.output_schema)
    if tool.annotations is not None:
        values = msgspec.structs.astuple(tool.annotations)
        fields["annotations"] = {key: hint for key, hint in zip(_HINTS, values, strict=True) if hint is not None}
    route = write_route(tool.binding.route)
    return {**fields, "execution": route} if route else fields


def _tool(record: Record, execution: Execution, route_of: ReadRoute) -> Capability | None:
    name_value = record.require("name")
    name = name_value.text() if name_value else None
    if name_value and name and len(name) > _LONGEST_NAME:
        record.report.error("value", name_value.path, f"is longer than {_LONGEST_NAME} characters")
    elif name_value and name and not _EASY_NAME.fullmatch(name):
        record.report.warn("value", name_value.path, "a name without spaces and colons is easier to call")
    description = record.take("description")
    if description is None:
        record.default("description", "is missing; a description helps a model to choose the tool")
    described = (description.text(empty=True) if description else None) or ""
    parameters, returns = _parameters(record), record.take("returns")
    output_schema = returns.object_json() if returns else None
    annotations = _annotations(record)
    route = _checked(route_of(record), execution, record)
    record.finish()
    if name is None:
        return None
    return Capability(
        kind="tool",
        id=name,
        description=described,
        input_schema=parameters,
        output_schema=output_schema,
        annotations=annotations,
        binding=Binding(execution, route),
    )


def _nested_route(record: Record) -> Route:
    value = record.take("execution")
    inner = value.record() if value else None
    if inner is None:
        return NO_ROUTE
    route = read_route(inner)
    inner.finish()
    return route


def _checked(route: Route, execution: Execution, record: Record) -> Route:
    """Hold a route to its rules: a method is a word; over http there is a path, and it stays below the base address."""
    place = f"{record.path}.execution"
    if route.method is not None and not _METHOD.fullmatch(route.method):
        record.report.error("value", f"{place}.method", "is not the name of a method")
    path = _path(route.path, f"{place}.path", record)
    if execution.kind != "http":
        return msgspec.structs.replace(route, path=path)
    if path is None:
        record.report.error("cross", f"{place}.path", "is missing; a tool over http needs a path")
    return msgspec.structs.replace(route, path=path, method=(route.method or "POST").upper())


def _path(path: str | None, place: str, record: Record) -> str | None:
    if path is None or _PATH.fullmatch(path):
        return path
    # `items/{id}` of the drafts means /items/{id}; `https://elsewhere`, `//elsewhere` and `@elsewhere` lead astray.
    if path[0].isalnum() and ":" not in path.partition("/")[0] and _PATH.fullmatch(f"/{path}"):
        record.report.warn("value", place, "does not begin with /, which was added")
        return f"/{path}"
    record.report.error("value", place, "must begin with one /, and have no spaces")
    return path


def _parameters(record: Record) -> Json | None:
    value = record.take("parameters")
    if value is None:
        return NO_PARAMETERS
    schema: object = value.value
    if not isinstance(schema, dict):
        return value.object_json()
    document = cast("dict[str, Any]", schema)
    if "type" not in document:
        record.default("parameters", "has no type, read as an object")
        return Json(msgspec.json.encode({"type": "object", **document}))
    if document["type"] != "object":
        record.report.error("value", f"{value.path}.type", 'must be "object": arguments have names')
    return value.json()


def _annotations(record: Record) -> Annotations | None:
    value = record.take("annotations")
    inner = value.record() if value else None
    if inner is None:
        return None
    hints = [hint.boolean() if (hint := inner.take(key)) else None for key in _HINTS]
    inner.finish()
    read_only, destructive, idempotent, open_world = hints
    return Annotations(read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world)

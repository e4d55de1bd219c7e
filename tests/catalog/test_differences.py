"""What a new version asks of callers: a table of changes, each with where it is and how much it weighs."""

import json
from typing import Any

import pytest

from switchboard.catalog.differences import Described, changes
from switchboard.descriptors import aai

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "q": {"type": "string", "maxLength": 100},
        "sort": {"type": "string", "enum": ["new", "old"]},
        "page": {"type": "integer", "minimum": 0},
        "where": {"type": "object", "properties": {"city": {"type": "string"}}},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}},
    },
    "required": ["q"],
}
RETURNS: dict[str, Any] = {
    "type": "object",
    "properties": {"hits": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string"}}}}},
}


def described(**changed: Any) -> Described:
    """Return an app with two tools; `changed` replaces top-level keys of its descriptor."""
    document: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "web",
        "app": {"id": "com.a.a", "name": {"en": "A"}, "defaultLang": "en", "description": "A"},
        "execution": {"type": "http", "baseUrl": "https://a.example.com/v1"},
        "tools": [tool("search", SCHEMA, RETURNS), tool("count", {"type": "object", "properties": {}})],
        **changed,
    }
    reading = aai.read(json.dumps(document).encode(), system="web")
    assert reading.app is not None, reading.problems
    return Described(reading.app, reading.tool_paths)


def tool(name: str, parameters: dict[str, Any], returns: dict[str, Any] | None = None) -> dict[str, Any]:
    found = {"name": name, "description": name, "parameters": parameters, "execution": {"path": f"/{name}"}}
    return {**found, "returns": returns} if returns else found


def with_property(name: str, schema: Any) -> dict[str, Any]:
    return {**SCHEMA, "properties": {**SCHEMA["properties"], name: schema}}


def without_property(name: str) -> dict[str, Any]:
    return {**SCHEMA, "properties": {key: value for key, value in SCHEMA["properties"].items() if key != name}}


P = "$.tools[0].parameters"
R = "$.tools[0].returns"
PARAMETERS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    (SCHEMA, []),
    ({**SCHEMA, "description": "more words"}, []),
    ({**SCHEMA, "required": []}, []),
    ({**SCHEMA, "required": ["q", "page"]}, [("major", f"{P}.properties.page")]),
    ({**with_property("new", {"type": "string"})}, [("minor", f"{P}.properties.new")]),
    ({**with_property("new", {}), "required": ["q", "new"]}, [("major", f"{P}.properties.new")]),
    ({**SCHEMA, "required": ["q", "odd key"]}, [("major", f'{P}.properties["odd key"]')]),
    (without_property("page"), [("major", f"{P}.properties.page")]),
    (with_property("page", {"type": "number", "minimum": 0}), []),
    (with_property("page", {"type": "integer"}), []),
    (with_property("page", {"type": "integer", "minimum": -1}), []),
    (with_property("page", {"type": "integer", "minimum": 1}), [("major", f"{P}.properties.page.minimum")]),
    (with_property("page", {"type": "integer", "minimum": 10**400}), [("major", f"{P}.properties.page.minimum")]),
    (with_property("page", {"type": "integer", "minimum": -(10**400)}), []),
    (with_property("page", {"type": "string", "minimum": 0}), [("major", f"{P}.properties.page.type")]),
    (with_property("q", {"type": "string", "maxLength": 200}), []),
    (with_property("q", {"type": "string", "maxLength": 99}), [("major", f"{P}.properties.q.maxLength")]),
    (with_property("q", {"type": ["string", "null"]}), []),
    (with_property("q", {"type": "string", "pattern": "^a"}), [("major", f"{P}.properties.q.pattern")]),
    (with_property("sort", {"type": "string", "enum": ["new", "old", "best"]}), []),
    (with_property("sort", {"type": "string"}), []),
    (with_property("sort", {"type": "string", "enum": ["new"]}), [("major", f"{P}.properties.sort.enum")]),
    (with_property("sort", {"type": "string", "const": "new"}), [("major", f"{P}.properties.sort.const")]),
    (with_property("q", {"type": "string", "enum": ["a"]}), [("major", f"{P}.properties.q.enum")]),
    (
        with_property("where", {"type": "object", "properties": {"city": {"type": "integer"}}}),
        [("major", f"{P}.properties.where.properties.city.type")],
    ),
    (
        with_property("tags", {"type": "array", "items": {"type": "string"}}),
        [("major", f"{P}.properties.tags.items.type")],
    ),
    ({**SCHEMA, "additionalProperties": False}, [("major", f"{P}.additionalProperties")]),
    ({**SCHEMA, "anyOf": [{"required": ["page"]}]}, [("unclear", f"{P}.anyOf")]),
]


@pytest.mark.parametrize(("schema", "expected"), PARAMETERS)
def test_what_a_changed_parameter_means_for_callers(schema: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """What was taken and is not any more breaks them; what may be given besides is new."""
    found = changes(described(), described(tools=[tool("search", schema, RETURNS), tool("count", {"type": "object"})]))

    assert [(change.weight, change.path) for change in found] == expected


RESULTS: list[tuple[dict[str, Any] | None, list[tuple[str, str]]]] = [
    ({**RETURNS, "properties": {**RETURNS["properties"], "total": {}}}, [("minor", f"{R}.properties.total")]),
    ({**RETURNS, "properties": {}}, [("major", f"{R}.properties.hits")]),
    ({**RETURNS, "type": ["object", "null"]}, [("major", f"{R}.type")]),
    (
        {"type": "object", "properties": {"hits": {"type": "array", "items": {"type": "object"}}}},
        [("major", f"{R}.properties.hits.items.properties.id")],
    ),
    (None, [("major", f"{R}.type"), ("major", f"{R}.properties.hits")]),
]


@pytest.mark.parametrize(("returns", "expected"), RESULTS)
def test_what_a_changed_result_means_for_callers(
    returns: dict[str, Any] | None, expected: list[tuple[str, str]]
) -> None:
    """What they read and is not there any more breaks them."""
    found = changes(described(), described(tools=[tool("search", SCHEMA, returns), tool("count", {"type": "object"})]))

    assert [(change.weight, change.path) for change in found] == expected


API_KEY = {"type": "apiKey", "apiKey": {"location": "header", "name": "X-Key"}}
OWNERS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"execution": {"type": "http", "baseUrl": "https://A.example.com:443/v2"}}, []),
    (
        {"execution": {"type": "http", "baseUrl": "https://b.example.com/v1"}},
        [("major", "$.execution.baseUrl")],
    ),
    (
        {"execution": {"type": "mcp", "transport": "streamable-http", "url": "https://a.example.com/v1"}},
        [("major", "$.execution.type")],
    ),
    ({"auth": API_KEY}, [("major", "$.auth.type")]),
    ({"tools": [tool("count", {"type": "object"})]}, [("major", "$.tools[0]")]),
    (
        {"tools": [tool("first", {}), tool("count", {"type": "object"}), tool("search", SCHEMA, RETURNS)]},
        [("minor", "$.tools[0]")],
    ),
]


@pytest.mark.parametrize(("changed", "expected"), OWNERS)
def test_what_a_changed_app_means_for_callers(changed: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """Where calls go, how one signs in, which tools there are; their order means nothing."""
    found = changes(described(), described(**changed))

    assert [(change.weight, change.path) for change in found] == expected


def test_the_way_back_is_told_as_well() -> None:
    """Not having to sign in any more is another way to sign in; a tool that is gone is found where it was."""
    back = changes(described(auth=API_KEY), described(tools=[tool("search", SCHEMA, RETURNS)]))

    assert [str(change) for change in back] == [
        "$.auth: signing in was apiKey, and is not needed",
        "$.tools[1]: the tool count is gone",
    ]

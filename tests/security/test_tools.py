"""What a person is told about a tool, in one line each."""

import pytest
from msgspec.structs import replace
from tests.builders import app

from switchboard.catalog.bindings import (
    AppleEvents,
    Binding,
    Com,
    Dbus,
    Execution,
    Http,
    McpHttp,
    Route,
    Script,
    Skill,
    Stdio,
)
from switchboard.catalog.model import Annotations, Capability
from switchboard.security.tools import Effect, changed, effect, endpoint, seen

WEB = Http(base_url="https://api.test/v1")


def tool(execution: Execution = WEB, method: str | None = None, annotations: Annotations | None = None) -> Capability:
    return Capability(
        kind="tool", id="t", binding=Binding(execution, Route(path="/x", method=method)), annotations=annotations
    )


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        (tool(method="GET"), "reads"),
        (tool(method="head"), "reads"),
        (tool(method="POST"), "writes"),
        (tool(method="patch"), "writes"),
        (tool(method="DELETE"), "destroys"),
        (tool(method="PURGE"), "unknown"),
        (tool(method="POST", annotations=Annotations(read_only=True)), "claims"),
        (tool(method="GET", annotations=Annotations(read_only=True)), "reads"),
        (tool(method="DELETE", annotations=Annotations(read_only=True)), "destroys"),
        (tool(method="GET", annotations=Annotations(destructive=True)), "destroys"),
        (tool(method="GET", annotations=Annotations(read_only=False)), "writes"),
        (tool(Stdio(command="x")), "unknown"),
        (tool(Stdio(command="x"), method="GET"), "unknown"),
        (tool(Stdio(command="x"), annotations=Annotations(read_only=True)), "claims"),
        (tool(Stdio(command="x"), annotations=Annotations(destructive=False)), "writes"),
        (tool(Stdio(command="x"), annotations=Annotations(destructive=True, read_only=True)), "destroys"),
    ],
)
def test_a_tool_is_shown_as_the_worse_of_what_it_says_and_what_its_method_says(
    capability: Capability, expected: Effect
) -> None:
    """An app that calls its DELETE harmless is not believed."""
    assert effect(capability) == expected


@pytest.mark.parametrize(
    ("execution", "expected"),
    [
        (WEB, "POST https://api.test/v1/x"),
        (Stdio(command="notes", args=("--a", "b")), "notes --a b"),
        (Dbus(service="com.example.Notes"), "com.example.Notes /com/aai/handler com.aai.Executor"),
        (AppleEvents(bundle_id="com.apple.Notes"), "com.apple.Notes"),
        (Com(prog_id="Notes.App"), "Notes.App"),
        (McpHttp(transport="sse", url="https://mcp.test"), "https://mcp.test"),
        (Skill(path="/skills/a"), "/skills/a"),
        (Script(language="jxa"), "script"),
    ],
)
def test_what_is_called_is_one_line(execution: Execution, expected: str) -> None:
    """Whatever the way."""
    assert endpoint(tool(execution).binding) == expected


def test_the_same_tool_of_another_name_is_another_tool() -> None:
    """The name is part of the mark, although no part of the tool differs."""
    one, other = (seen(replace(app("a", "t").capabilities[0], id=name)) for name in ("read", "write"))

    assert one.mark != other.mark
    assert changed(one, other) == []

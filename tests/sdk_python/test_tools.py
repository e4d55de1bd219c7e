"""Capabilities as tools of a model, and calls of a model as targets."""

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfield import (
    AgentCapability,
    CompactCapability,
    CompactDiscoveryResponse,
    DiscoveryResponse,
    InvalidToolCall,
    ReasonerCapability,
    SkillCapability,
    ToolCall,
    from_tool_call,
    to_anthropic_tools,
    to_openai_tools,
)
from agentfield.tools import tool_name

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
FOUND = DiscoveryResponse(
    capabilities=[
        AgentCapability(
            "a-1",
            reasoners=[ReasonerCapability("look_up", "a-1:look_up", "Look it up", input_schema=SCHEMA)],
            skills=[SkillCapability("look_up", "a-1:skill:look_up")],
        )
    ]
)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_openai_gets_functions() -> None:
    """With the schema as their parameters; without one, of any object."""
    assert to_openai_tools(FOUND) == [
        {"type": "function", "function": {"name": "a-1__look_up", "description": "Look it up", "parameters": SCHEMA}},
        {
            "type": "function",
            "function": {
                "name": "a-1__skill__look_up",
                "description": "a-1:skill:look_up",
                "parameters": {"type": "object", "properties": {}},
            },
        },
    ]


def test_anthropic_gets_input_schemas() -> None:
    """Under its own names."""
    assert to_anthropic_tools(FOUND)[0] == {
        "name": "a-1__look_up",
        "description": "Look it up",
        "input_schema": SCHEMA,
    }


@pytest.mark.parametrize(
    ("call", "identity"),
    [
        ({"id": "1", "type": "function", "function": {"name": "a-1__look_up", "arguments": '{"query": "tea"}'}}, "1"),
        (SimpleNamespace(id="2", function=SimpleNamespace(name="a-1__look_up", arguments='{"query":"tea"}')), "2"),
        (SimpleNamespace(type="tool_use", id="3", name="a-1__look_up", input={"query": "tea"}), "3"),
        (
            {
                "type": "function_call",
                "call_id": "4",
                "id": "fc",
                "name": "a-1__look_up",
                "arguments": '{"query":"tea"}',
            },
            "4",
        ),
    ],
)
def test_calls_of_every_provider_are_read(call: object, identity: str) -> None:
    """Chat completions, messages, responses; objects and dictionaries."""
    assert from_tool_call(call, FOUND) == ToolCall("a-1:look_up", {"query": "tea"}, identity)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("a-1__lookup", "{}", "There is no tool 'a-1__lookup'. Did you mean a-1__look_up"),
        ("a-1__look_up", "{", "not JSON"),
        ("a-1__look_up", "[1]", "must be a JSON object"),
        (None, "{}", "There is no tool None"),
    ],
)
def test_a_call_that_cannot_be_executed_says_so_to_the_model(name: object, arguments: str, said: str) -> None:
    """So that it can correct itself."""
    with pytest.raises(InvalidToolCall, match=re.escape(said)):
        from_tool_call({"name": name, "arguments": arguments}, FOUND)


@pytest.mark.parametrize("arguments", ["", None, " "])
def test_no_arguments_are_an_empty_input(arguments: object) -> None:
    """Models leave them out."""
    assert from_tool_call({"name": "a-1__look_up", "arguments": arguments}, FOUND).input == {}


@given(st.lists(st.text(min_size=1), unique=True, max_size=8))
def test_names_are_allowed_unique_and_lead_back(targets: list[str]) -> None:
    """Whatever targets there are."""
    found = CompactDiscoveryResponse(skills=[CompactCapability("s", "a", target) for target in targets])
    names = [tool["name"] for tool in to_anthropic_tools(found)]

    assert all(NAME.fullmatch(name) for name in names)
    assert [from_tool_call({"name": name, "input": {}}, found).target for name in names] == targets


@given(st.lists(st.text("ab_:-", min_size=1, max_size=70), min_size=2, max_size=2, unique=True))
def test_two_targets_never_share_a_name(pair: list[str]) -> None:
    """`a:b__c` is not `a:b:c`, and what is cut off still tells apart."""
    assert tool_name(pair[0]) != tool_name(pair[1])


def test_a_name_that_was_chosen_to_look_like_another_gets_one_of_its_own() -> None:
    """Nobody can take another's calls by a name."""
    long = "agent:" + "x" * 80
    impostor = tool_name(long).replace("__", ":")
    found = CompactDiscoveryResponse(reasoners=[CompactCapability("r", "a", target) for target in (long, impostor)])
    names = [tool["name"] for tool in to_anthropic_tools(found)]

    assert len(set(names)) == 2
    assert [from_tool_call({"name": name, "input": {}}, found).target for name in names] == [long, impostor]


def test_a_name_does_not_depend_on_who_else_is_there() -> None:
    """A conversation may go on after the catalogue has changed."""
    alone = CompactDiscoveryResponse(skills=[CompactCapability("s", "b", "b:skill:s")])
    more = CompactDiscoveryResponse(reasoners=[CompactCapability("r", "a", "a:r")], skills=alone.skills)

    assert to_openai_tools(alone)[0] in json.loads(json.dumps(to_openai_tools(more)))

"""The operator's rules for MCP: what only reads is let pass, everything else has to be named."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.builders import agent, app, call_of

from switchboard.actions.ports import Unreachable
from switchboard.catalog.agent_apps import as_app
from switchboard.catalog.bindings import Binding, Route
from switchboard.catalog.errors import ConsentRequired
from switchboard.catalog.model import Annotations, App
from switchboard.security.policy import Policy


def tool(method: str | None, annotations: Annotations | None = None) -> App:
    """Return an app with one tool of this kind."""
    found = app("shop", "buy")
    only = found.capabilities[0]
    binding = Binding(only.binding.execution, Route(path="/buy", method=method))
    return replace(found, capabilities=(replace(only, binding=binding, annotations=annotations),))


def is_let_pass(policy: Policy, owner: App, caller: str = "ann") -> bool:
    try:
        asyncio.run(policy.require(call_of(owner, caller), Unreachable()))
    except ConsentRequired:
        return False
    return True


@pytest.mark.parametrize(
    ("method", "annotations", "reads"),
    [
        ("GET", None, True),
        ("HEAD", None, True),
        ("get", Annotations(read_only=True), True),
        ("GET", Annotations(read_only=False), False),
        ("GET", Annotations(destructive=True), False),
        ("POST", None, False),
        (None, None, False),
        ("POST", Annotations(read_only=True), True),
        (None, Annotations(read_only=True), True),
        ("PUT", Annotations(read_only=True), False),
        ("PATCH", Annotations(read_only=True), False),
        ("DELETE", Annotations(read_only=True), False),
        ("POST", Annotations(read_only=True, destructive=True), False),
        ("POST", Annotations(idempotent=True), False),
    ],
)
def test_a_tool_reads_by_its_method_or_by_its_word_where_that_is_left_open(
    method: str | None, annotations: Annotations | None, reads: bool
) -> None:
    """The worse of what it says and what its method says counts."""
    assert is_let_pass(Policy({}), tool(method, annotations)) == reads


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ({"ann": ["shop:buy"]}, True),
        ({"ann": ["*:*"]}, True),
        ({"ann": ["sh*:b*y"]}, True),
        ({"*": ["shop:buy"]}, True),
        ({"bob": ["shop:buy"]}, False),
        ({"ann": ["shop:buyer"]}, False),
        ({"ann": ["shopping:buy"]}, False),
        ({"ann": ["Shop:buy"]}, False),
        ({"ann": []}, False),
        ({}, False),
    ],
)
def test_a_rule_is_for_its_caller_its_owner_and_its_capability(rules: dict[str, list[str]], allowed: bool) -> None:
    """Both sides are patterns; letters count as they are written."""
    assert is_let_pass(Policy(rules), tool("POST")) == allowed


def test_a_skill_that_is_told_from_a_reasoner_has_its_name_in_rules_too() -> None:
    """What stands after the first colon is the capability's name, other colons and all."""
    owner = as_app(agent("a", {"x": []}, {"x": []}), service="s", origin="agents:s")
    reasoner = replace(owner, capabilities=owner.capabilities[:1])
    skill = replace(owner, capabilities=owner.capabilities[1:])
    policy = Policy({"ann": ["a:skill:*"]})

    assert (is_let_pass(policy, skill), is_let_pass(policy, reasoner)) == (True, False)


def test_a_refusal_says_exactly_what_would_allow_it() -> None:
    """In words for a model and its user, and as data for programs."""
    owner = tool("POST")
    with pytest.raises(ConsentRequired) as refused:
        asyncio.run(Policy({}).require(call_of(owner, "ann"), Unreachable()))

    assert '[mcp_allow], "ann" = ["shop:buy"]' in refused.value.message
    assert (refused.value.details["setting"], refused.value.details["rule"]) == ("mcp_allow", "shop:buy")

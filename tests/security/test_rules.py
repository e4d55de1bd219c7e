"""Rules of a control plane's operator: who may execute what."""

import asyncio

import pytest
from tests.builders import agent, call_of

from switchboard.actions.ports import Unreachable
from switchboard.catalog.errors import ConsentRequired
from switchboard.security.rules import AllowRules


def is_allowed(rules: dict[str, list[str]], caller: str, agent_id: str) -> bool:
    owner = agent(agent_id, {"r": []})
    try:
        asyncio.run(AllowRules(rules).require(call_of(owner, caller), Unreachable()))
    except ConsentRequired:
        return False
    return True


@pytest.mark.parametrize(
    ("rules", "caller", "agent_id", "allowed"),
    [
        ({}, "anyone", "a", True),
        ({"billing": ["boss"]}, "anyone", "a", True),
        ({"billing": ["boss"]}, "anyone", "billing", False),
        ({"billing": ["boss"]}, "boss", "billing", True),
        ({"billing": ["boss"]}, "Boss", "billing", False),
        ({"billing": ["boss"]}, "boss", "billing-2", True),
        ({"billing*": ["boss"]}, "anyone", "billing-2", False),
        ({"billing": ["*"]}, "anyone", "billing", True),
        ({"billing": []}, "boss", "billing", False),
        ({"*": ["a", "b"], "billing": ["b"]}, "a", "billing", False),
        ({"*": ["a", "b"], "billing": ["b"]}, "b", "billing", True),
        ({"*": ["*"], "billing": ["b"]}, "a", "billing", False),
    ],
)
def test_an_agent_with_rules_is_open_to_those_whom_all_of_them_name(
    rules: dict[str, list[str]], caller: str, agent_id: str, allowed: bool
) -> None:
    """One that no rule is about is open to every caller that came in."""
    assert is_allowed(rules, caller, agent_id) == allowed


def test_a_refusal_says_who_may_not_what() -> None:
    """The operator can find the rule with it."""
    owner = agent("billing", {"pay": []})

    with pytest.raises(ConsentRequired) as refusal:
        asyncio.run(AllowRules({"billing": []}).require(call_of(owner, "a"), Unreachable()))

    assert refusal.value.details == {"agent": "billing", "capability": "pay", "caller": "a"}

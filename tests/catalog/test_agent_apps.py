"""Agents in the terms of a gateway."""

from switchboard.catalog.agent_apps import as_app
from switchboard.catalog.bindings import AgentServer, Binding, Registered
from switchboard.catalog.model import Agent, Capability, Kind

BINDING = Binding(AgentServer(base_url="http://10.0.0.5:9000"))


def capability(kind: Kind, name: str) -> Capability:
    return Capability(kind=kind, id=name, binding=BINDING)


def agent(*capabilities: Capability, description: str = "") -> Agent:
    reasoners = sum(item.kind == "reasoner" for item in capabilities)
    return Agent(
        id="research:agent",
        base_url="http://10.0.0.5:9000",
        description=description,
        capabilities=capabilities,
        reasoner_count=reasoners,
        health="degraded",
    )


def test_reasoners_and_skills_are_tools_that_are_called_by_their_targets() -> None:
    """A skill with the name of a reasoner is told from it; where the agent lives is no part of the app."""
    app = as_app(
        agent(capability("reasoner", "think"), capability("skill", "think"), capability("skill", "add")),
        service="store-1",
        origin="agents:store-1",
    )

    assert [tool.id for tool in app.capabilities] == ["think", "skill:think", "add"]
    assert [tool.binding.route.path for tool in app.capabilities] == [
        "research%3Aagent:think",
        "research%3Aagent:skill:think",
        "research%3Aagent:skill:add",
    ]
    assert {tool.binding.execution for tool in app.capabilities} == {
        Registered(service="store-1", agent_id="research:agent")
    }
    assert app.standing is not None
    assert app.standing.health == "degraded"


def test_no_two_tools_have_one_name_whatever_an_agent_calls_them() -> None:
    """A consent is for a name: who is asked about the one must not run the other."""
    app = as_app(
        agent(
            capability("reasoner", "think"),
            capability("reasoner", "skill:think"),
            capability("skill", "think"),
            capability("skill", "skill:think"),
        ),
        service="store-1",
        origin="agents:store-1",
    )

    assert [(tool.id, tool.binding.route.path) for tool in app.capabilities] == [
        ("think", "research%3Aagent:think"),
        ("skill:think", "research%3Aagent:skill%3Athink"),
        ("skill:skill:think", "research%3Aagent:skill:think"),
        ("skill:skill:skill:think", "research%3Aagent:skill:skill:think"),
    ]


def test_an_agent_that_does_not_describe_itself_is_described_by_what_it_can_do() -> None:
    """A list without descriptions helps no model."""
    five = [capability("skill", name) for name in "abcde"]

    assert as_app(agent(*five), service="s", origin="o").description == "Agent: a, b, c, d and 1 more"
    assert as_app(agent(*five, description="Finds papers"), service="s", origin="o").description == "Finds papers"
    assert as_app(agent(), service="s", origin="o").description == "Agent without capabilities"

"""Agents as apps: what registered with a control plane, in the terms of a gateway.

An agent's reasoners and skills become the tools of an app with the agent's id. Pure, and the same wherever agents are
shown beside apps, so that one agent has one guide.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from switchboard.catalog.bindings import Binding, Registered, Route
from switchboard.catalog.model import Agent, App, Capability, Names, Standing
from switchboard.catalog.names import address_of, target

_LANGUAGE = "en"
_MOST_NAMED = 4


def as_app(agent: Agent, *, service: str, origin: str, standing: Standing | None = None) -> App:
    """Return an agent as an app whose calls the control planes of `service` put through."""
    execution = Registered(service=service, agent_id=agent.id)
    return App(
        id=agent.id,
        version=agent.version,
        platform="agent",
        names=Names(((_LANGUAGE, agent.id),), _LANGUAGE),
        description=agent.description or _described(agent),
        execution=execution,
        capabilities=tuple(_tools(agent, execution)),
        origin=origin,
        standing=standing or Standing(health=agent.health),
    )


def _tools(agent: Agent, execution: Registered) -> Iterator[Capability]:
    """Yield every capability; a skill that is called like a reasoner is told from it as it is in targets.

    No two have one name: a consent is for it.
    """
    taken = {item.id for item in agent.reasoners}
    for item in agent.capabilities:
        name = item.id
        while item.kind == "skill" and name in taken:
            name = f"skill:{name}"
        taken.add(name)
        route = Route(path=target(address_of(agent.id, item)))
        yield replace(item, id=name, binding=Binding(execution, route))


def _described(agent: Agent) -> str:
    """Say what an agent can do that does not say it itself."""
    names = [item.id for item in agent.capabilities]
    if not names:
        return "Agent without capabilities"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"Agent: {', '.join(names[:_MOST_NAMED])}{more}"

"""Small agents and apps for tests, built like the real ones."""

from collections.abc import Mapping, Sequence

import msgspec

from switchboard.actions.ports import Call
from switchboard.catalog.bindings import AgentServer, Binding, Http, Json, Route
from switchboard.catalog.model import Agent, App, Caller, Capability, Health, Kind, Names, Owner

Tagged = Mapping[str, Sequence[str]]


def agent(
    agent_id: str, reasoners: Tagged | None = None, skills: Tagged | None = None, health: Health = "active"
) -> Agent:
    """Build an agent from the names of its reasoners and skills, each with its tags."""
    binding = Binding(AgentServer(base_url=f"http://{agent_id}.test:8080"))

    def items(kind: Kind, named: Tagged | None) -> tuple[Capability, ...]:
        return tuple(
            Capability(kind=kind, id=name, tags=tuple(tags), binding=binding) for name, tags in (named or {}).items()
        )

    first = items("reasoner", reasoners)
    return Agent(
        id=agent_id,
        base_url=f"http://{agent_id}.test:8080",
        capabilities=(*first, *items("skill", skills)),
        reasoner_count=len(first),
        health=health,
    )


def app(app_id: str, *tools: str) -> App:
    """Build a web app from the names of its tools."""
    execution = Http(base_url=f"https://{app_id}.test")
    return App(
        id=app_id,
        version="1.0.0",
        platform="web",
        names=Names((("en", app_id),), "en"),
        description=f"{app_id} application",
        execution=execution,
        capabilities=tuple(
            Capability(kind="tool", id=name, binding=Binding(execution, Route(path=f"/{name}", method="POST")))
            for name in tools
        ),
    )


def schema(document: Mapping[str, object]) -> Json:
    """Encode a JSON Schema."""
    return Json(msgspec.json.encode(document))


def call_of(owner: Owner, caller: str = "a test", tool: str = "", **arguments: object) -> Call:
    """Return a call of one of an owner's capabilities, of the first where none is named."""
    capability = next(item for item in owner.capabilities if tool in ("", item.id))
    return Call(id="1", caller=Caller(caller), owner=owner, capability=capability, arguments=arguments)

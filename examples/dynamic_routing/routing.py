"""A router: it knows what it wants done and not who does it; who is well is asked first, and the next if one fails.

AGENTFIELD_SERVER=http://localhost:8080 python examples/dynamic_routing/routing.py
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agentfield import Agent, ExecutionFailed

ORDER = ("active", "degraded")
"""Whom to ask, the best first; others are not asked."""


def providers(app: Agent, skill: str) -> Iterator[str]:
    """Yield the target of everybody who has a skill now, the healthiest first, on all pages."""
    agents = [agent for page in app.pages(skill=skill, include_descriptions=False) for agent in page.capabilities]
    for health in ORDER:
        for agent in agents:
            if agent.health_status == health:
                yield from (found.invocation_target for found in agent.skills)


def route(app: Agent, skill: str, given: Mapping[str, Any]) -> Any:
    """Have it done by the first who can. For work that must not be done twice, stop at the first failure instead.

    Raises:
        LookupError: Nobody can do it now.
    """
    for target in providers(app, skill):
        try:
            result = app.execute(target=target, input=given, timeout=30)
        except ExecutionFailed as error:
            print(f"{target} did not: {error.execution.status_reason}")
        else:
            print(f"{target} answered")
            return result
    raise LookupError(f"nobody can do {skill} now")


def main() -> None:
    """Route two wishes, one of which nobody can fulfil."""
    with Agent() as app:
        print(route(app, "describe_*", {"numbers": [4, 8, 15]}))
        try:
            route(app, "predict_lottery", {})
        except LookupError as error:
            print(error)


if __name__ == "__main__":
    main()

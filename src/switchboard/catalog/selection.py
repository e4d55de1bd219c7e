"""What a question finds in a snapshot: everything that matches, counted once, and any page of it."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from switchboard.catalog.model import Agent, Capability


class Match(Struct, frozen=True, gc=False):
    """One agent of an answer; bit `i` of `mask` says that its capability `i` was asked for."""

    agent: Agent
    mask: int

    @property
    def is_whole(self) -> bool:
        """Whether every capability of the agent was asked for."""
        return self.mask == whole(self.agent)

    @property
    def reasoners(self) -> Iterator[Capability]:
        """The reasoners that were asked for."""
        return (item for i, item in enumerate(self.agent.reasoners) if self.mask >> i & 1)

    @property
    def skills(self) -> Iterator[Capability]:
        """The skills that were asked for."""
        first = self.agent.reasoner_count
        return (item for i, item in enumerate(self.agent.skills, first) if self.mask >> i & 1)


class Page(Struct, frozen=True, kw_only=True, gc=False):
    """The answer to a query: totals of everything that matches, and the agents of this page in order of their ids."""

    total_agents: int
    total_reasoners: int
    total_skills: int
    has_more: bool
    matches: tuple[Match, ...]

    @property
    def totals(self) -> tuple[int, int, int]:
        """How many agents, reasoners and skills match."""
        return self.total_agents, self.total_reasoners, self.total_skills


class Selection(Struct, frozen=True, kw_only=True, gc=False):
    """Everything that matches, in order of ids, whatever page is asked for."""

    agents: Sequence[Agent]
    masks: Sequence[int] | None = None
    """What was asked for of each agent; None where that is all of it."""
    reasoners: int
    """How many were found in all."""
    skills: int

    def page(self, limit: int, offset: int) -> Page:
        """Return one page of it."""
        some = self.agents[offset : offset + limit]
        if self.masks is None:
            matches = [Match(agent, whole(agent)) for agent in some]
        else:
            matches = list(map(Match, some, self.masks[offset : offset + limit]))
        return Page(
            total_agents=len(self.agents),
            total_reasoners=self.reasoners,
            total_skills=self.skills,
            has_more=len(self.agents) > offset + limit,
            matches=tuple(matches),
        )


def whole(agent: Agent) -> int:
    """Return the mask of an agent of which everything was asked for."""
    return (1 << len(agent.capabilities)) - 1

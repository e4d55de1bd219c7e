"""A clock that tests turn, and a store that fails or waits when tests say so."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import final

from msgspec.structs import replace

from switchboard.actions.ports import AgentStore, Clock, StoredAgent
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.health import State


@final
class HandClock(Clock):
    """Time passes when it is told to."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        """Return the time."""
        return self.time

    def passed(self) -> float:
        """Return the same time."""
        return self.time


@final
class MemoryStore(AgentStore):
    """Keeps everything in memory; counts questions, and can be made to fail or to wait before it answers."""

    def __init__(self) -> None:
        self.agents: dict[str, StoredAgent] = {}
        self.revision = 0
        self.questions = 0
        self.down = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()
        self.slow_removal = asyncio.Event()
        self.slow_removal.set()

    async def save(self, agent: StoredAgent) -> int:
        """Remember."""
        self._check()
        self.revision += 1
        self.agents[agent.id] = replace(agent, revision=self.revision)
        return self.revision

    async def remove(self, agent_id: str) -> int:
        """Forget, and answer when the test lets it."""
        revision = await self.save(StoredAgent(id=agent_id, registration=None))
        await self.slow_removal.wait()
        return revision

    async def changes(self, since: int) -> tuple[int, Sequence[StoredAgent]]:
        """Look first, answer when the gate is open."""
        self.questions += 1
        self._check()
        found = [agent for agent in self.agents.values() if agent.revision > since]
        revision = self.revision
        self.asked.set()
        await self.gate.wait()
        return revision, found

    async def save_life(self, states: Mapping[str, State], seen: Mapping[str, float]) -> int:
        """Remember states."""
        self._check()
        if states:
            self.revision += 1
        for agent_id, state in states.items():
            self.agents[agent_id] = replace(self.agents[agent_id], state=state, revision=self.revision)
        for agent_id, at in seen.items():
            self.agents[agent_id] = replace(self.agents[agent_id], seen_at=at)
        return self.revision

    def _check(self) -> None:
        if self.down:
            raise ServiceUnavailable("The store is down.")

"""What an agent can do with the control plane: register, show signs of life, say goodbye, be removed.

A registration is in the store before it is answered, and in the next discovery answer after it. The agent is never
called back here: its port may not even be open yet.
"""

from collections.abc import Awaitable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.directory import Directory
from switchboard.actions.life import Life
from switchboard.actions.ports import AgentStore, Clock, StoredAgent
from switchboard.catalog import addresses, health
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import InvalidDescriptor, NotFound, ServiceUnavailable
from switchboard.catalog.health import Rhythm, Said, State
from switchboard.catalog.model import Agent


class Newcomer(Struct, frozen=True, kw_only=True):
    """An agent that wants in: what it is, what it says of itself, how often it promises to call."""

    agent: Agent
    said: Said
    heartbeat_s: float | None


class Register:
    """Lets agents in and out."""

    def __init__(self, store: AgentStore, directory: Directory, life: Life, clock: Clock) -> None:
        self._store = store
        self._directory = directory
        self._life = life
        self._clock = clock

    async def register(self, newcomer: Newcomer) -> Agent:
        """Let an agent in, new or in the place of its older self, whatever version that was.

        Raises:
            InvalidDescriptor: its address must not be called.
            ServiceUnavailable: it could not be remembered, so it is not in.
        """
        reason = addresses.refusal(newcomer.agent.base_url)
        if reason is not None:
            raise InvalidDescriptor(f"The registration's base_url {reason}.", problems=[f"$.base_url: {reason}"])
        now = self._clock.now()
        state = health.registered(newcomer.said, health.beating(newcomer.heartbeat_s), now)
        agent = replace(newcomer.agent, health=state.health)
        stored = StoredAgent(id=agent.id, registration=agent.raw, state=state, registered_at=now, seen_at=now)
        revision = await self._written(self._store.save(stored))
        # What was sent is in the store; memory holds only what questions are about.
        if self._directory.apply(replace(stored, revision=revision), replace(agent, raw=Json(b""))):
            self._life.begin(agent.id, state)
        return agent

    async def remove(self, agent_id: str) -> None:
        """Put an agent out.

        Raises:
            NotFound: there is none.
            ServiceUnavailable: it could not be forgotten, so it is still in.
        """
        if agent_id not in self._directory.current().agents:
            raise _unknown(agent_id)
        revision = await self._written(self._store.remove(agent_id))
        if self._directory.apply(StoredAgent(id=agent_id, registration=None, revision=revision), None):
            self._life.forget(agent_id)

    def beat(self, agent_id: str, word: Said, rhythm: Rhythm | None = None) -> State:
        """Take a sign of life in.

        Raises:
            NotFound: there is no such agent; it should register again.
        """
        state = self._life.beat(agent_id, word, rhythm)
        if state is None:
            raise _unknown(agent_id)
        return state

    async def goodbye(self, agent_id: str, reason: str) -> State:
        """Take a clean shutdown in, and remember it at once; without a store it is remembered later.

        Raises:
            NotFound: there is no such agent.
        """
        state = self._life.goodbye(agent_id, reason)
        if state is None:
            raise _unknown(agent_id)
        with suppress(ServiceUnavailable):  # noted by the flush, and kept for the next one
            await self._life.flush()
        return state

    async def _written(self, writing: Awaitable[int]) -> int:
        try:
            revision = await writing
        except ServiceUnavailable:
            self._directory.note_silence("writing")
            raise
        self._directory.note_answer("writing")
        return revision


def _unknown(agent_id: str) -> NotFound:
    return NotFound(f"There is no agent {agent_id!r}. It has to register first.", agent=agent_id)

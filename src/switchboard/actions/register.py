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
from switchboard.actions.ports import Clock, Followers, Gate
from switchboard.actions.store_ports import AgentStore, StoredAgent
from switchboard.catalog import addresses, health
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import ConsentRequired, InvalidDescriptor, NotFound, ServiceUnavailable
from switchboard.catalog.health import Rhythm, Said, State
from switchboard.catalog.model import Agent, Caller

_NOBODY = Caller("anonymous")


class Newcomer(Struct, frozen=True, kw_only=True):
    """An agent that wants in: what it is, what it says of itself, how often it promises to call."""

    agent: Agent
    said: Said
    heartbeat_s: float | None


class Register:
    """Lets agents in and out."""

    def __init__(  # noqa: PLR0913 - what a registration meets
        self,
        store: AgentStore,
        directory: Directory,
        life: Life,
        clock: Clock,
        *,
        followers: Followers | None = None,
        gate: Gate | None = None,
        shared: bool = False,
    ) -> None:
        """Build it; `shared` says that agents may have registered with another instance a moment ago."""
        self._shared = shared
        self._followers = followers
        self._gate = gate
        self._store = store
        self._directory = directory
        self._life = life
        self._clock = clock

    async def register(self, newcomer: Newcomer, caller: Caller = _NOBODY) -> Agent:
        """Let an agent in, new or in the place of its older self, whatever version that was.

        Raises:
            InvalidDescriptor: its address must not be called.
            ConsentRequired: the id, or the address, is of an agent that the operator's rules keep from this caller.
            ServiceUnavailable: it could not be remembered, so it is not in.
        """
        reason = addresses.refusal(newcomer.agent.base_url)
        if reason is not None:
            raise InvalidDescriptor(
                f"The registration's base_url {reason}. Give an address at which the agent can be reached.",
                problems=[f"$.base_url: {reason}"],
            )
        self._require_open(caller, newcomer.agent)
        now = self._clock.now()
        state = health.registered(newcomer.said, health.beating(newcomer.heartbeat_s), now)
        agent = replace(newcomer.agent, health=state.health)
        stored = StoredAgent(id=agent.id, registration=agent.raw, state=state, registered_at=now, seen_at=now)
        revision = await self._written(self._store.save(stored))
        # What was sent is in the store; memory holds only what questions are about.
        if self._directory.apply(replace(stored, revision=revision), replace(agent, raw=Json(b""))):
            self._life.begin(agent.id, state)
            if self._followers is not None:
                self._followers.agent_came(agent)
        return agent

    async def remove(self, agent_id: str, caller: Caller = _NOBODY) -> None:
        """Put an agent out.

        Raises:
            NotFound: there is none.
            ConsentRequired: the operator's rules keep it from this caller.
            ServiceUnavailable: it could not be forgotten, so it is still in.
        """
        await self.look_for(agent_id)
        if agent_id not in self._directory.current().agents:
            raise _unknown(agent_id)
        if self._gate is not None and not self._gate.is_open(caller, agent_id):
            raise _closed(caller, agent_id)
        revision = await self._written(self._store.remove(agent_id))
        if self._directory.apply(StoredAgent(id=agent_id, registration=None, revision=revision), None):
            self._life.forget(agent_id)
            if self._followers is not None:
                self._followers.agent_gone(agent_id)

    async def look_for(self, agent_id: str) -> None:
        """Look for somebody nobody knows here: its registration may have reached another instance a moment ago."""
        if self._shared and agent_id not in self._directory.current().agents:
            await self._directory.look_again()

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
        await self.look_for(agent_id)
        state = self._life.goodbye(agent_id, reason)
        if state is None:
            raise _unknown(agent_id)
        with suppress(ServiceUnavailable):  # noted by the flush, and kept for the next one
            await self._life.flush()
        return state

    def _require_open(self, caller: Caller, agent: Agent) -> None:
        """Refuse who would take the place of an agent that is not theirs, or reach it under another name."""
        gate = self._gate
        if gate is None or not gate.has_rules:
            return
        if not gate.is_open(caller, agent.id):
            raise _closed(caller, agent.id)
        for other in self._directory.current().agents.values():
            if addresses.origin(other.base_url) == addresses.origin(agent.base_url) and not gate.is_open(
                caller, other.id
            ):
                raise _closed(caller, agent.id)

    async def _written(self, writing: Awaitable[int]) -> int:
        try:
            revision = await writing
        except ServiceUnavailable:
            self._directory.note_silence("writing")
            raise
        self._directory.note_answer("writing")
        return revision


def _closed(caller: Caller, agent_id: str) -> ConsentRequired:
    message = (
        f"{caller.name} may not register or remove {agent_id} here. "
        "The operator's rules decide that: ask whoever runs this control plane."
    )
    return ConsentRequired(message, agent=agent_id, caller=caller.name)


def _unknown(agent_id: str) -> NotFound:
    return NotFound(f"There is no agent {agent_id!r}. It has to register first.", agent=agent_id)

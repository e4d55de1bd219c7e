"""Who is alive: takes signs of life in, notices silence, and shows every change of health in the next answer.

Signs of life stay in memory and reach the store in batches: a heartbeat costs a dictionary entry, not a write. Knows
nothing of protocols; the rules are `catalog/health`.
"""

from collections.abc import Callable

from switchboard.actions.directory import Directory
from switchboard.actions.ports import AgentStore, Clock, StoredAgent
from switchboard.catalog import health
from switchboard.catalog.health import Rhythm, Said, State

TICK_S = 0.5
FLUSH_S = 5.0
_PAUSED_S = 5.0

Changed = Callable[[str, State], None]


class Life:
    """The life of every agent on this instance."""

    def __init__(self, directory: Directory, store: AgentStore, clock: Clock, changed: Changed | None = None) -> None:
        self._directory = directory
        self._store = store
        self._clock = clock
        self._changed = changed
        self._states: dict[str, State] = {}
        self._heard: dict[str, float] = {}
        self._unsaved_states: dict[str, State] = {}
        self._unsaved_beats: set[str] = set()
        self._last_tick: float | None = None

    def state(self, agent_id: str) -> State | None:
        """Return what is known of an agent's life."""
        return self._states.get(agent_id)

    def remember(self, stored: StoredAgent) -> None:
        """Take over what the store knew; silence is counted from now, because nobody was listening."""
        if stored.registration is None or stored.state is None:
            self.forget(stored.id)
            return
        self._states[stored.id] = stored.state
        self._heard[stored.id] = self._clock.passed()

    def begin(self, agent_id: str, state: State) -> None:
        """Start over after a registration."""
        self._states[agent_id] = state
        self._heard[agent_id] = self._clock.passed()
        self._unsaved_states.pop(agent_id, None)

    def forget(self, agent_id: str) -> None:
        """Stop watching an agent that is gone."""
        for known in (self._states, self._heard, self._unsaved_states):
            known.pop(agent_id, None)
        self._unsaved_beats.discard(agent_id)

    def beat(self, agent_id: str, word: Said, rhythm: Rhythm | None = None) -> State | None:
        """Take one sign of life in; None where the agent is not known."""
        state = self._states.get(agent_id)
        if state is None:
            return None
        self._heard[agent_id] = self._clock.passed()
        if not state.ended:
            self._directory.seen_at[agent_id] = self._clock.now()
            self._unsaved_beats.add(agent_id)
        if rhythm is not None and rhythm != state.rhythm and not state.ended:
            state = self._states[agent_id] = self._unsaved_states[agent_id] = health.with_rhythm(state, rhythm)
        return self._moved(agent_id, state, health.beat(state, word, self._clock.now()))

    def goodbye(self, agent_id: str, reason: str) -> State | None:
        """Take a clean shutdown in; None where the agent is not known."""
        state = self._states.get(agent_id)
        if state is None:
            return None
        return self._moved(agent_id, state, health.goodbye(state, reason, self._clock.now()))

    def tick(self) -> None:
        """Notice who has been silent for too long."""
        passed, now = self._clock.passed(), self._clock.now()
        if self._last_tick is not None and passed - self._last_tick > _PAUSED_S:
            # This process was asleep, not the agents: the time it could not listen does not count.
            slept = passed - self._last_tick
            self._heard = {agent_id: min(passed, heard + slept) for agent_id, heard in self._heard.items()}
        self._last_tick = passed
        for agent_id, state in list(self._states.items()):
            after = health.silent(state, passed - self._heard[agent_id], now)
            if after is not state:
                self._moved(agent_id, state, after)

    async def flush(self) -> None:
        """Write what is new to the store, in one go; what could not be written is kept for the next time.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        states, beats = self._unsaved_states, self._unsaved_beats
        if not states and not beats:
            return
        self._unsaved_states, self._unsaved_beats = {}, set()
        seen = {agent_id: self._directory.seen_at[agent_id] for agent_id in beats if agent_id in self._states}
        try:
            revision = await self._store.save_life(states, seen)
        except BaseException:
            self._unsaved_states = {**states, **self._unsaved_states}
            self._unsaved_beats |= beats
            self._directory.note_silence("writing")
            raise
        self._directory.note_answer("writing")
        self._directory.written(states, revision)

    def _moved(self, agent_id: str, before: State, after: State) -> State:
        if after is before:
            return after
        self._states[agent_id] = after
        self._unsaved_states[agent_id] = after
        if after.health != before.health:
            self._directory.set_health(agent_id, after.health)
            if self._changed is not None:
                self._changed(agent_id, after)
        return after

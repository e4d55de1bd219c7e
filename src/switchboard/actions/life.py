"""Who is alive: takes signs of life in, notices silence, and shows every change of health in the next answer.

Signs of life stay in memory and reach the store in batches: a heartbeat costs a dictionary entry, not a write. Where
several instances share the store, each notes what it hears, and one of them decides who is silent (`silences`). Knows
nothing of protocols; the rules are `catalog/health`.
"""

from asyncio import Lock
from collections.abc import Callable, Mapping

from switchboard.actions.directory import Directory
from switchboard.actions.ports import Clock
from switchboard.actions.store_ports import AgentStore, StoredAgent
from switchboard.catalog import health
from switchboard.catalog.health import Rhythm, Said, State

TICK_S = 0.5
FLUSH_S = 5.0
_PAUSED_S = 5.0

Changed = Callable[[str, State], None]


class Life:
    """The life of every agent on this instance."""

    def __init__(
        self,
        directory: Directory,
        store: AgentStore,
        clock: Clock,
        changed: Changed | None = None,
        unsaved: Callable[[], None] | None = None,
    ) -> None:
        """Begin with nobody; `unsaved` is called when there is a state that others should learn of soon."""
        self._unsaved = unsaved
        self._overtaken: dict[str, StoredAgent] = {}
        self._directory = directory
        self._store = store
        self._clock = clock
        self._changed = changed
        self._states: dict[str, State] = {}
        self._heard: dict[str, float] = {}
        self._unsaved_states: dict[str, State] = {}
        self._unsaved_beats: set[str] = set()
        self._saving: dict[str, State] = {}
        self._writing = Lock()
        self._last_tick: float | None = None
        self._listens = True

    def state(self, agent_id: str) -> State | None:
        """Return what is known of an agent's life."""
        return self._states.get(agent_id)

    def remember(self, stored: StoredAgent) -> None:
        """Take over what the store knows; of somebody new, silence is counted from now: nobody may have listened.

        What this instance knows better and has not written yet stays; it is written soon, and comes back if it counts.
        """
        if stored.registration is None or stored.state is None:
            self.forget(stored.id)
            return
        own = self._unsaved_states.get(stored.id) or self._saving.get(stored.id)
        if own is not None and stored.registered_at <= own.since:
            self._overtaken[stored.id] = stored
            self._directory.set_health(stored.id, own)
            return
        self._unsaved_states.pop(stored.id, None)
        is_known = stored.id in self._states
        self._states[stored.id] = stored.state
        self._directory.set_health(stored.id, stored.state)
        if is_known:
            self.heard_elsewhere(stored.id, stored.seen_at)
        else:
            self._heard[stored.id] = self._clock.passed()

    def heard_elsewhere(self, agent_id: str, seen_at: float) -> None:
        """Note a sign of life that another instance has heard."""
        heard = self._heard.get(agent_id)
        if heard is None:
            return
        self._heard[agent_id] = max(heard, self._clock.passed() - max(0.0, self._clock.now() - seen_at))
        if seen_at > self._directory.seen_at.get(agent_id, 0.0):
            self._directory.seen_at[agent_id] = seen_at

    def begin(self, agent_id: str, state: State) -> None:
        """Start over after a registration."""
        self._states[agent_id] = state
        self._heard[agent_id] = self._clock.passed()
        self._unsaved_states.pop(agent_id, None)

    def forget(self, agent_id: str) -> None:
        """Stop watching an agent that is gone."""
        for known in (self._states, self._heard, self._unsaved_states, self._overtaken):
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
            state = self._states[agent_id] = health.with_rhythm(state, rhythm)
            self._keep(agent_id, state)
        return self._moved(agent_id, state, health.beat(state, word, self._clock.now()))

    def goodbye(self, agent_id: str, reason: str) -> State | None:
        """Take a clean shutdown in; None where the agent is not known."""
        state = self._states.get(agent_id)
        if state is None:
            return None
        return self._moved(agent_id, state, health.goodbye(state, reason, self._clock.now()))

    def tick(self) -> None:
        """Notice who has been silent for too long."""
        self.awake()
        for agent_id, after in self.silences().items():
            self._moved(agent_id, self._states[agent_id], after)

    def silences(self, allowance_s: float = 0.0) -> dict[str, State]:
        """Return what those become who have been silent for too long, given how late a sign of life may be known."""
        if not self._listens:
            return {}
        passed, now = self._clock.passed(), self._clock.now()
        found: dict[str, State] = {}
        for agent_id, state in self._states.items():
            after = health.silent(state, passed - self._heard[agent_id] - allowance_s, now)
            if after is not state:
                found[agent_id] = after
        return found

    def stop_listening(self) -> None:
        """Hold nobody's silence against him from now on: there is no door any more to come to."""
        self._listens = False

    def awake(self) -> None:
        """Notice whether this process was asleep: the time it could not listen does not count as anybody's silence."""
        passed = self._clock.passed()
        if self._last_tick is not None and passed - self._last_tick > _PAUSED_S:
            slept = passed - self._last_tick
            self._heard = {agent_id: min(passed, heard + slept) for agent_id, heard in self._heard.items()}
        self._last_tick = passed

    def heard_at(self, agent_id: str) -> float:
        """Return when an agent was last heard of, in seconds since 1970."""
        return self._clock.now() - (self._clock.passed() - self._heard.get(agent_id, 0.0))

    def decided(self, silences: Mapping[str, State], revision: int) -> None:
        """Take over what is in the store already: that these are silent."""
        for agent_id, after in silences.items():
            before = self._states.get(agent_id)
            if before is not None and agent_id not in self._unsaved_states:
                self._states[agent_id] = after
                self._shown(agent_id, before, after)
        self._directory.written(silences, revision)

    async def flush(self) -> None:
        """Write what is new to the store, in one go; what could not be written is kept for the next time.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        async with self._writing:
            states, beats = self._unsaved_states, self._unsaved_beats
            if not states and not beats:
                return
            self._unsaved_states, self._unsaved_beats, self._saving = {}, set(), states
            seen = {agent_id: self._directory.seen_at[agent_id] for agent_id in beats if agent_id in self._states}
            try:
                revision = await self._store.save_life(states, seen)
            except BaseException:
                self._unsaved_states = {**states, **self._unsaved_states}
                self._unsaved_beats |= beats
                self._directory.note_silence("writing")
                raise
            finally:
                self._saving = {}
            self._directory.note_answer("writing")
            self._directory.written(states, revision)
            self._catch_up(revision)

    def _catch_up(self, revision: int) -> None:
        """Take over what others wrote after this instance did, and it had put off."""
        overtaken, self._overtaken = self._overtaken, {}
        for stored in overtaken.values():
            if stored.revision > revision:
                self.remember(stored)

    def _moved(self, agent_id: str, before: State, after: State) -> State:
        if after is before:
            return after
        self._states[agent_id] = after
        self._keep(agent_id, after)
        self._shown(agent_id, before, after)
        return after

    def _keep(self, agent_id: str, state: State) -> None:
        self._unsaved_states[agent_id] = state
        if self._unsaved is not None:
            self._unsaved()

    def _shown(self, agent_id: str, before: State, after: State) -> None:
        if after.health != before.health:
            self._directory.set_health(agent_id, after)
            if self._changed is not None:
                self._changed(agent_id, after)

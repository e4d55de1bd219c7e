"""The live snapshot of this instance, kept from the store's changes: read-through, and right under races.

A read costs no I/O while the snapshot is fresh. After thirty seconds without news the next reader asks the store once
for what changed, and everybody who comes meanwhile waits for that one answer. Every change carries its revision, so
what began before a change can never undo it. When the store does not answer, reading goes on from memory, and says so.
Whoever follows is told every change of the snapshot, in order, in the moment it happens.
"""

from asyncio import Lock, Task, create_task, shield, wait_for
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.ports import Clock
from switchboard.actions.store_ports import AgentStore, StoredAgent
from switchboard.catalog.changes import Change, Gap
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.health import State
from switchboard.catalog.model import Agent
from switchboard.catalog.snapshot import Snapshot

FRESH_S = 30.0
RETRY_S = 1.0

Doing = Literal["reading", "writing"]
PATIENCE_S = 1.0
_MOST_REMEMBERED = 1000
_MOST_ONE_BY_ONE = 100
"""How many agents are taken in one by one where there were none; more are loaded at once."""

Follower = Callable[[Change | Gap], None]


class View(Struct, frozen=True):
    """A snapshot as a reader gets it: whether it came without asking the store, and since when that is silent."""

    snapshot: Snapshot
    hit: bool
    stale_since: float | None


class AtHand(Struct):
    """What a reader gets now, to be looked at without a call: every request of discovery begins with it."""

    view: View
    until: float = 0.0
    """By the clock that only ever grows; from then on the store has to be asked first."""


class Directory:
    """Holds the current snapshot, and when each agent was last seen: heartbeats change times, never the snapshot."""

    def __init__(
        self, store: AgentStore, clock: Clock, read: Callable[[StoredAgent], Agent | None], fresh_s: float = FRESH_S
    ) -> None:
        self._store = store
        self._clock = clock
        self._read = read
        self._fresh_s = fresh_s
        self._snapshot = Snapshot()
        self.at_hand = AtHand(View(self._snapshot, True, None))
        self._revision = 0
        self._revisions: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._registered_at: dict[str, float] = {}
        self._refresh: Task[None] | None = None
        self._catching_up = Lock()
        self._listener: Callable[[StoredAgent], None] | None = None
        self._followers: list[Follower] = []
        self.seen_at: dict[str, float] = {}
        self._silent: dict[Doing, float] = {}

    @property
    def remembered(self) -> int:
        """How many agents it keeps a revision of."""
        return len(self._revisions)

    def current(self) -> Snapshot:
        """Return the snapshot as it is, without asking anybody."""
        return self._snapshot

    def listen(self, listener: Callable[[StoredAgent], None]) -> None:
        """Tell somebody about every agent that comes from the store."""
        self._listener = listener

    def follow(self, follower: Follower) -> None:
        """Tell somebody every change of the snapshot from now on, whatever led to it."""
        self._followers.append(follower)

    async def look_again(self) -> None:
        """Ask the store for news now, together with everybody who does; silence is noted, and not an error."""
        if self._refresh is None:
            self._refresh = create_task(self._catch_up_or_note())
        await self._wait_a_little(self._refresh)

    async def view(self) -> View:
        """Return the snapshot for a reader, asking the store first if it has not been heard of for too long."""
        view = self.fresh_view()
        if view is not None:
            return view
        await self.look_again()
        return View(self._snapshot, False, self.stale_since)

    def fresh_view(self) -> View | None:
        """Return the snapshot for a reader, if the store need not be asked first."""
        return self.at_hand.view if self._clock.passed() < self.at_hand.until else None

    @property
    def stale_since(self) -> float | None:
        """Since when the store does not answer, reading or writing; None while it does."""
        return min(self._silent.values()) if self._silent else None

    def is_silent(self, doing: Doing) -> bool:
        """Tell whether the store did not answer when it was last asked to do that."""
        return doing in self._silent

    def note_silence(self, doing: Doing) -> None:
        """Note that the store did not answer; readers are told until it does the same thing again."""
        if doing not in self._silent:
            self._silent[doing] = self._clock.now()
            self._show()

    def note_answer(self, doing: Doing) -> None:
        """Note that the store answers."""
        if self._silent.pop(doing, None) is not None:
            self._show()

    def _show(self) -> None:
        """Let readers have the snapshot as it is now."""
        self.at_hand.view = View(self._snapshot, True, self.stale_since)

    async def _wait_a_little(self, refresh: Task[None]) -> None:
        """Wait for the store, but not for long: an answer from memory now is better than one from the store later."""
        try:
            await wait_for(shield(refresh), PATIENCE_S)
        except TimeoutError:
            self.note_silence("reading")
            self.at_hand.until = self._clock.passed() + RETRY_S

    async def catch_up(self) -> None:
        """Apply everything the store has that this instance has not.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        # One after the other: what was read before the store lost something must not be taken in after that is known.
        async with self._catching_up:
            revision, changes = await self._store.changes(self._revision)
            begins_anew = revision < self._revision
            if begins_anew:
                revision, changes = await self._store.changes(0)
                self._start_over(changes)
            self._take_in(revision, changes, at_once=begins_anew)

    def _start_over(self, everything: Sequence[StoredAgent]) -> None:
        """Forget what only a past knew that did not happen: a backup was restored, or a standby that was behind leads.

        An agent that is not in the store any more learns of it with its next sign of life, and registers again.
        """
        kept = {stored.id for stored in everything}
        gone = [agent_id for agent_id in self._snapshot.agents if agent_id not in kept]
        self._revisions, self._written, self._revision = {}, {}, 0
        if self._listener is not None:
            for agent_id in gone:
                self._listener(StoredAgent(id=agent_id, registration=None))

    def _take_in(self, revision: int, changes: Sequence[StoredAgent], *, at_once: bool) -> None:
        news = [stored for stored in changes if self._is_news(stored)]
        if at_once or (not self._revisions and len(news) > _MOST_ONE_BY_ONE):
            self._load(news)
        else:
            for stored in news:
                self.apply(stored, None if stored.registration is None else self._read(stored))
        if self._listener is not None:
            for stored in news:
                self._listener(stored)
        self._revision = max(self._revision, revision)
        self._forget_the_removed()
        self.at_hand.until = self._clock.passed() + self._fresh_s
        self.note_answer("reading")

    def apply(self, stored: StoredAgent, agent: Agent | None) -> bool:
        """Take one change in, unless a newer one of the same agent is in already; tell whether it was."""
        if self._revisions.get(stored.id, 0) >= stored.revision:
            return False
        self._revisions[stored.id] = stored.revision
        if self._written.get(stored.id, 0) <= stored.revision:
            self._written.pop(stored.id, None)
        before = self._snapshot.agents.get(stored.id)
        if agent is None:
            self.seen_at.pop(stored.id, None)
            self._registered_at.pop(stored.id, None)
            self._move(self._snapshot.without_agent(stored.id), stored.id, None)
            return True
        self.seen_at[stored.id] = max(stored.seen_at, self.seen_at.get(stored.id, 0.0))
        self._registered_at[stored.id] = stored.registered_at
        if before is not None and agent.capabilities == before.capabilities:
            agent = replace(agent, capabilities=before.capabilities)  # agents come again and again as they were
        if agent != before:
            self._move(self._snapshot.with_agent(agent), stored.id, stored.state)
        return True

    def written(self, agent_ids: Iterable[str], revision: int) -> None:
        """Note that states of this instance are in the store under a revision: what is older says nothing any more.

        What has this revision is taken in: with the state comes what the agent registered elsewhere in between.
        """
        for agent_id in agent_ids:
            if agent_id in self._revisions:
                self._written[agent_id] = max(revision, self._written.get(agent_id, 0))

    def _is_news(self, stored: StoredAgent) -> bool:
        """Tell whether a row says something new: one from before this instance's own change does not.

        Unless it is of another registration: then the change was not about that, and the store has left it out.
        """
        if stored.revision <= self._revisions.get(stored.id, 0):
            return False
        is_other = stored.registration is None or stored.registered_at != self._registered_at.get(stored.id)
        return is_other or stored.revision >= self._written.get(stored.id, 0)

    def set_health(self, agent_id: str, state: State) -> None:
        """Show an agent's new health in the next answer."""
        agent = self._snapshot.agents.get(agent_id)
        if agent is not None and agent.health != state.health:
            self._move(self._snapshot.with_agent(replace(agent, health=state.health)), agent_id, state)

    def _move(self, snapshot: Snapshot, agent_id: str, state: State | None) -> None:
        """Go on to the next snapshot, and tell what is different in it."""
        before, self._snapshot = self._snapshot, snapshot
        if snapshot is before:
            return
        self._show()
        change = Change(
            version=snapshot.version,
            agent_id=agent_id,
            before=before.agents.get(agent_id),
            after=snapshot.agents.get(agent_id),
            state=state,
        )
        for follower in self._followers:
            follower(change)

    def _load(self, changes: Sequence[StoredAgent]) -> None:
        """Take everything in at once: building a snapshot of thousands one by one would copy its indexes each time."""
        self._revisions = {stored.id: stored.revision for stored in changes}
        self._written = {}
        self._registered_at = {stored.id: stored.registered_at for stored in changes if stored.registration is not None}
        present = [stored for stored in changes if stored.registration is not None]
        readable = (agent for agent in map(self._read, present) if agent is not None)
        self._snapshot = Snapshot.of(readable, version=self._snapshot.version + 1)
        self._show()
        self.seen_at = {stored.id: max(stored.seen_at, self.seen_at.get(stored.id, 0.0)) for stored in present}
        for follower in self._followers:
            follower(Gap(self._snapshot.version))

    def _forget_the_removed(self) -> None:
        """Drop the revisions of agents that are gone: everything up to here was taken in, so nothing older can come."""
        agents, known = self._snapshot.agents, self._revisions
        if len(known) > 2 * len(agents) + _MOST_REMEMBERED:
            self._revisions = {key: rev for key, rev in known.items() if key in agents or rev > self._revision}

    async def _catch_up_or_note(self) -> None:
        try:
            await self.catch_up()
        except ServiceUnavailable:
            self.note_silence("reading")
            self.at_hand.until = self._clock.passed() + RETRY_S
        finally:
            self._refresh = None

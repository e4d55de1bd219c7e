"""The live snapshot of this instance, kept from the store's changes: read-through, and right under races.

A read costs no I/O while the snapshot is fresh. After thirty seconds without news the next reader asks the store once
for what changed, and everybody who comes meanwhile waits for that one answer. Every change carries its revision, so
what began before a change can never undo it. When the store does not answer, reading goes on from memory, and says so.
"""

from asyncio import Task, create_task, shield, wait_for
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.ports import AgentStore, Clock, StoredAgent
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.model import Agent, Health
from switchboard.catalog.snapshot import Snapshot

FRESH_S = 30.0
RETRY_S = 1.0

Doing = Literal["reading", "writing"]
PATIENCE_S = 1.0
_MOST_REMEMBERED = 1000


class View(Struct, frozen=True):
    """A snapshot as a reader gets it: whether it came without asking the store, and since when that is silent."""

    snapshot: Snapshot
    hit: bool
    stale_since: float | None


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
        self._revision = 0
        self._revisions: dict[str, int] = {}
        self._fresh_until = 0.0
        self._refresh: Task[None] | None = None
        self._listener: Callable[[StoredAgent], None] | None = None
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
        if self._clock.passed() >= self._fresh_until:
            return None
        return View(self._snapshot, True, self.stale_since)

    @property
    def stale_since(self) -> float | None:
        """Since when the store does not answer, reading or writing; None while it does."""
        return min(self._silent.values()) if self._silent else None

    def is_silent(self, doing: Doing) -> bool:
        """Tell whether the store did not answer when it was last asked to do that."""
        return doing in self._silent

    def note_silence(self, doing: Doing) -> None:
        """Note that the store did not answer; readers are told until it does the same thing again."""
        self._silent.setdefault(doing, self._clock.now())

    def note_answer(self, doing: Doing) -> None:
        """Note that the store answers."""
        self._silent.pop(doing, None)

    async def _wait_a_little(self, refresh: Task[None]) -> None:
        """Wait for the store, but not for long: an answer from memory now is better than one from the store later."""
        try:
            await wait_for(shield(refresh), PATIENCE_S)
        except TimeoutError:
            self.note_silence("reading")
            self._fresh_until = self._clock.passed() + RETRY_S

    async def catch_up(self) -> None:
        """Apply everything the store has that this instance has not.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        revision, changes = await self._store.changes(self._revision)
        if revision < self._revision:
            # A backup, or a standby that was behind: what this instance knows is from a past that did not happen.
            self._revisions, self._revision = {}, 0
            revision, changes = await self._store.changes(0)
        news = [stored for stored in changes if stored.revision > self._revisions.get(stored.id, 0)]
        if self._revisions:
            for stored in news:
                self.apply(stored, None if stored.registration is None else self._read(stored))
        else:
            self._load(news)
        if self._listener is not None:
            for stored in news:
                self._listener(stored)
        self._revision = max(self._revision, revision)
        self._forget_the_removed()
        self._fresh_until = self._clock.passed() + self._fresh_s
        self.note_answer("reading")

    def apply(self, stored: StoredAgent, agent: Agent | None) -> bool:
        """Take one change in, unless a newer one of the same agent is in already; tell whether it was."""
        if self._revisions.get(stored.id, 0) >= stored.revision:
            return False
        self._revisions[stored.id] = stored.revision
        if agent is None:
            self._snapshot = self._snapshot.without_agent(stored.id)
            self.seen_at.pop(stored.id, None)
            return True
        self._snapshot = self._snapshot.with_agent(agent)
        self.seen_at[stored.id] = max(stored.seen_at, self.seen_at.get(stored.id, 0.0))
        return True

    def written(self, agent_ids: Iterable[str], revision: int) -> None:
        """Note that this instance's own changes are in the store under a revision, so that they do not come back."""
        for agent_id in agent_ids:
            if agent_id in self._revisions:
                self._revisions[agent_id] = max(revision, self._revisions[agent_id])

    def set_health(self, agent_id: str, health: Health) -> None:
        """Show an agent's new health in the next answer."""
        agent = self._snapshot.agents.get(agent_id)
        if agent is not None and agent.health != health:
            self._snapshot = self._snapshot.with_agent(replace(agent, health=health))

    def _load(self, changes: Sequence[StoredAgent]) -> None:
        """Take everything in at once: building a snapshot of thousands one by one would copy its indexes each time."""
        self._revisions = {stored.id: stored.revision for stored in changes}
        present = [stored for stored in changes if stored.registration is not None]
        readable = (agent for agent in map(self._read, present) if agent is not None)
        self._snapshot = Snapshot.of(readable, version=self._snapshot.version + 1)
        self.seen_at = {stored.id: stored.seen_at for stored in present}

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
            self._fresh_until = self._clock.passed() + RETRY_S
        finally:
            self._refresh = None

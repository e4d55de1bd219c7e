"""A clock that tests turn, and stores that fail or wait when tests say so."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import final

from msgspec.structs import replace

from switchboard.actions.app_ports import AppStore, StoredApp
from switchboard.actions.ports import Clock
from switchboard.actions.store_ports import AgentStore, ExecutionStore, Note, StoredAgent
from switchboard.catalog.errors import ServiceUnavailable, Unconfirmed
from switchboard.catalog.executions import Ended, Execution
from switchboard.catalog.health import State
from switchboard.store.notes import MOST_NOTES, fitting


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
            # A state from before a newer registration says nothing about it.
            if self.agents[agent_id].registered_at <= state.since:
                self.agents[agent_id] = replace(self.agents[agent_id], state=state, revision=self.revision)
        for agent_id, at in seen.items():
            self.agents[agent_id] = replace(self.agents[agent_id], seen_at=at)
        return self.revision

    def _check(self) -> None:
        if self.down:
            raise ServiceUnavailable("The store is down.")


@final
class MemoryApps(AppStore):
    """Keeps published apps in memory; can be made to fail, or to let somebody else be faster."""

    def __init__(self) -> None:
        self.kept: dict[str, StoredApp] = {}
        self.texts: dict[tuple[str, str], bytes] = {}
        self.revision = 0
        self.questions = 0
        self.down = False
        self.faster: list[StoredApp] = []
        """What others publish just before somebody else does."""
        self.held: dict[int, asyncio.Event] = {}
        """What it waits for before it tells what changed since a revision."""

    async def keep(self, app: StoredApp, after: int) -> int | None:
        """Remember, unless it is too late."""
        self._check()
        if self.faster:
            self._remember(self.faster.pop())
        if (self.kept[app.id].revision if app.id in self.kept else 0) != after:
            return None
        return self._remember(app)

    async def app(self, app_id: str) -> StoredApp | None:
        """Return one."""
        self._check()
        return self.kept.get(app_id)

    async def edition(self, app_id: str, version: str) -> bytes | None:
        """Return a descriptor."""
        self._check()
        return self.texts.get((app_id, version))

    async def changes(self, since: int) -> tuple[int, Sequence[StoredApp]]:
        """Return what changed."""
        self.questions += 1
        self._check()
        found = self.revision, [app for app in self.kept.values() if app.revision > since]
        if since in self.held:
            await self.held[since].wait()
        return found

    def _remember(self, app: StoredApp) -> int:
        self.revision += 1
        self.kept[app.id] = replace(app, revision=self.revision)
        if app.descriptor is not None:
            self.texts[app.id, app.record.newest.version] = app.descriptor
        listed = {edition.version for edition in app.record.editions}
        self.texts = {key: text for key, text in self.texts.items() if key[0] != app.id or key[1] in listed}
        return self.revision

    def _check(self) -> None:
        if self.down:
            raise ServiceUnavailable("The store is down.")


@final
class MemoryExecutions(ExecutionStore):
    """Keeps executions in memory, in the order they were accepted, and can be made to fail."""

    def __init__(self) -> None:
        self.rows: dict[str, Execution] = {}
        self.said: list[Note] = []
        self.taken: set[str] = set()
        self.down = False
        self.held: asyncio.Event | None = None
        """What it waits for after it has accepted something, before it says so."""
        self.unheard: set[str] = set()
        """What it will do as it should, once, without being able to say so."""

    async def accept(self, execution: Execution) -> Execution:
        """Remember, unless the key or the id is known."""
        accepted = self._accepted(execution)
        self._say("accept")
        if self.held is not None:
            await self.held.wait()
        return accepted

    def _accepted(self, execution: Execution) -> Execution:
        self._check()
        key = (execution.caller, execution.idempotency_key)
        for known in self.rows.values():
            if execution.idempotency_key is not None and (known.caller, known.idempotency_key) == key:
                return known
        return self.rows.setdefault(execution.id, execution)

    async def keyed(self, caller: str, idempotency_key: str) -> Execution | None:
        """Find by key."""
        self._check()
        key = (caller, idempotency_key)
        return next((one for one in self.rows.values() if (one.caller, one.idempotency_key) == key), None)

    async def hand(self, execution_id: str, at: float, instance_id: str) -> bool:
        """Move from queued to running."""
        self._check()
        known = self.rows.get(execution_id)
        may = known is not None and (known.status == "queued" or (known.status, known.handed_at) == ("running", at))
        if known is None or not may or execution_id in self.taken:
            return False
        self.rows[execution_id] = replace(known, status="running", handed_at=at, instance_id=instance_id)
        self._say("hand")
        return True

    async def is_ours(self, execution_id: str) -> bool:
        """Tell what the test says."""
        return execution_id not in self.taken

    async def acknowledge(self, execution_id: str, at: float) -> None:
        """Note the first time of one that is running."""
        self._check()
        known = self.rows.get(execution_id)
        if known is not None and known.status == "running" and known.acknowledged_at is None:
            self.rows[execution_id] = replace(known, acknowledged_at=at)

    async def settle(self, execution_id: str, ended: Ended) -> tuple[Execution | None, bool]:
        """Note the first end."""
        self._check()
        known = self.rows.get(execution_id)
        if known is None or known.ended is not None:
            return known, False
        self.rows[execution_id] = replace(known, status=ended.status, ended=ended)
        self._say("settle")
        return self.rows[execution_id], True

    async def executions(self, ids: Sequence[str]) -> Mapping[str, Execution]:
        """Return what is known."""
        self._check()
        return {key: self.rows[key] for key in ids if key in self.rows}

    async def ended(self, ids: Sequence[str]) -> Sequence[str]:
        """Return what has ended."""
        return [key for key in ids if key in self.rows and self.rows[key].ended is not None]

    async def unfinished(self) -> Sequence[Execution]:
        """Return what has no end."""
        self._check()
        return sorted((row for row in self.rows.values() if row.ended is None), key=lambda row: row.created_at)

    async def add_notes(self, notes: Sequence[Note]) -> None:
        """Remember the newest of each."""
        self._check()
        self.said = sorted([*self.said, *map(fitting, notes)], key=lambda note: note.at)
        for execution_id in {note.execution_id for note in notes}:
            for note in (await self.notes(execution_id))[:-MOST_NOTES]:
                self.said.remove(note)

    async def notes(self, execution_id: str) -> Sequence[Note]:
        """Return what was said, oldest first."""
        self._check()
        return [note for note in self.said if note.execution_id == execution_id]

    async def forget(self, ended_before: float, most: int) -> int:
        """Forget what ended first, its notes, and as many old notes about what is not here."""
        self._check()
        old = [row for row in self.rows.values() if row.ended is not None and row.ended.at < ended_before]
        old = sorted(old, key=lambda row: row.ended.at if row.ended else 0)[: max(0, most)]
        for row in old:
            del self.rows[row.id]
        gone = {row.id for row in old}
        self.said = [note for note in self.said if note.execution_id not in gone]
        lost = [note for note in self.said if note.at < ended_before and note.execution_id not in self.rows]
        orphans = lost[: max(0, most)]
        for note in orphans:
            self.said.remove(note)
        return max(len(old), len(orphans))

    def _say(self, what: str) -> None:
        if what in self.unheard:
            self.unheard.remove(what)
            raise Unconfirmed("The connection to the store was lost.")

    def _check(self) -> None:
        if self.down:
            raise ServiceUnavailable("The store is down.")

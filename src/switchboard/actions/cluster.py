"""One instance among several that share a store: it follows the others, and does its share for all.

Changes of agents and apps, and ends of executions, come as they are told, and are asked for where a word may have been
lost. One instance decides who is silent, and the store holds it to that. What an instance that is gone has left is
taken over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from switchboard.actions.directory import Directory
from switchboard.actions.executions import Executions
from switchboard.actions.life import Life
from switchboard.actions.ports import Clock
from switchboard.actions.shelf import Shelf
from switchboard.actions.store_ports import Feed, Membership
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.telemetry.logs import Log, fault

PULSE_S = 1.0
_HURRY_S = 0.05
"""How long states that changed are gathered before they are written."""
_FLUSH_EVERY = 2
_LATE_S = 3.0
"""How late this instance may know what another has heard: it was gathered, written and read once a second or two."""
_TELL_S = 0.005
_LOOK_S = 10.0
_CLAIM_AT_ONCE = 100
_MOST_TOLD = 500


class Cluster:
    """What this instance does because there are others."""

    def __init__(  # noqa: PLR0913 - what it keeps together
        self,
        *,
        membership: Membership,
        feed: Feed,
        directory: Directory,
        shelf: Shelf,
        life: Life,
        executions: Executions,
        clock: Clock,
        log: Log,
        news: "News",
    ) -> None:
        self._membership = membership
        self._feed = feed
        self._directory = directory
        self._shelf = shelf
        self._life = life
        self._executions = executions
        self._clock = clock
        self._log = log
        self._news = news
        self._changed = asyncio.Event()
        self._missed = asyncio.Event()
        self._ended: set[str] = set()
        self._some_ended = asyncio.Event()
        self._decides_until = 0.0
        self._was_steady = False
        self._pulses = 0

    @property
    def decides(self) -> bool:
        """Whether this instance does what only one does; by a clock that goes on while it sleeps."""
        return self._clock.passed() < self._decides_until

    async def keep(self) -> None:
        """Follow the others and do this instance's share, until cancelled."""
        await asyncio.gather(
            self._feed.follow(self._changed.set, self._note_end, self._note_gap),
            self._for_ever(self._follow_changes),
            self._for_ever(self._follow_ends),
            self._for_ever(self._tell_ends),
            self._for_ever(self._look_for_ends),
            self._for_ever(self._write_states),
            self._for_ever(self._pulse),
        )

    async def pulse(self) -> None:
        """Show that this instance is there, write what it has heard, read what others have, and decide if it may.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        asked_at = self._clock.passed()
        pulse = await self._membership.pulse()
        self._decides_until = asked_at + pulse.decides_for_s if pulse.decides else 0.0
        for agent_id, seen_at in pulse.beats.items():
            self._life.heard_elsewhere(agent_id, seen_at)
        if self._was_steady and not pulse.steady:
            await self._membership.reclaim(self._executions.in_flight())
        self._was_steady = pulse.steady
        if pulse.steady and self.decides:
            await self._decide()
        if pulse.steady:
            await self._take_over()

    async def leave(self) -> None:
        """Say goodbye to the others, as far as the store answers."""
        with suppress(ServiceUnavailable):
            ended = self._news.take(_MOST_TOLD)
            if ended:
                await self._membership.tell_ends(ended)
            await self._membership.leave()

    def _note_end(self, execution_id: str) -> None:
        self._ended.add(execution_id)
        self._some_ended.set()

    def _note_gap(self) -> None:
        self._changed.set()
        self._missed.set()

    async def _follow_changes(self) -> None:
        """Take in what changed, everything that came meanwhile in one go."""
        await self._changed.wait()
        self._changed.clear()
        try:
            await self._directory.catch_up()
            await self._shelf.catch_up()
        except ServiceUnavailable:
            self._directory.note_silence("reading")
            self._shelf.note_silence()
            await asyncio.sleep(PULSE_S)
            self._changed.set()

    async def _follow_ends(self) -> None:
        await self._some_ended.wait()
        self._some_ended.clear()
        ended, self._ended = list(self._ended), set()
        await self._executions.ended_elsewhere(ended)

    async def _look_for_ends(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._missed.wait(), _LOOK_S)
        self._missed.clear()
        await self._executions.look_elsewhere()

    async def _tell_ends(self) -> None:
        """Tell ends in one go; whoever does not hear of one looks for it himself, so none is told twice."""
        await self._news.some_ended.wait()
        await asyncio.sleep(_TELL_S)
        await self._membership.tell_ends(self._news.take(_MOST_TOLD))

    async def _write_states(self) -> None:
        """Write what agents said of themselves soon: the others should show it within a second."""
        await self._news.states_changed.wait()
        await asyncio.sleep(_HURRY_S)
        self._news.states_changed.clear()
        await self._life.flush()

    async def _pulse(self) -> None:
        await asyncio.sleep(PULSE_S)
        self._life.awake()
        self._pulses += 1
        try:
            await self.pulse()
            if self._pulses % _FLUSH_EVERY == 0:
                await self._life.flush()
        except ServiceUnavailable:
            self._directory.note_silence("writing")
            raise
        self._directory.note_answer("writing")
        if self._directory.is_silent("reading"):
            self._changed.set()

    async def _decide(self) -> None:
        silences = self._life.silences(_LATE_S)
        if not silences:
            return
        heard = {agent_id: self._life.heard_at(agent_id) for agent_id in silences}
        revision, agreed = await self._membership.decide(silences, heard)
        self._life.decided({agent_id: silences[agent_id] for agent_id in agreed}, revision)

    async def _take_over(self) -> None:
        while True:
            left = await self._membership.claim(_CLAIM_AT_ONCE)
            if left:
                self._log.event("info", "executions taken over", self._clock.now(), count=len(left))
                await self._executions.take_over(left)
            if len(left) < _CLAIM_AT_ONCE:
                return

    async def _for_ever(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except ServiceUnavailable as error:
                self._log.event("warning", "store does not answer", self._clock.now(), error=error.message)
                await asyncio.sleep(PULSE_S)
            except Exception as error:  # noqa: BLE001 - one failure must not end the watch; it is in the log
                self._log.event("error", "background work failed", self._clock.now(), error=fault(error))
                await asyncio.sleep(PULSE_S)


class News:
    """What happened on this instance that the others should learn of soon."""

    def __init__(self) -> None:
        self._ended: dict[str, None] = {}
        self.some_ended = asyncio.Event()
        self.states_changed = asyncio.Event()

    def ended(self, execution_id: str) -> None:
        """Note that an execution has ended."""
        self._ended[execution_id] = None
        self.some_ended.set()

    def take(self, most: int) -> list[str]:
        """Take the oldest ends that were not told yet."""
        taken = list(self._ended)[:most]
        for execution_id in taken:
            del self._ended[execution_id]
        if not self._ended:
            self.some_ended.clear()
        return taken

"""The executions without an end that this instance looks after, and how each of them gets its end.

The first end wins, whoever brings it. What was written to the store is ended there first; what lives in memory only is
written down afterwards, with its end. Where other instances share the store, an end is told to them, too.
"""

from asyncio import Event, Task, TimerHandle, get_running_loop, sleep
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.ends import Ends, Recent
from switchboard.actions.execute import Execute
from switchboard.actions.lanes import Lane
from switchboard.actions.ports import Clock, Messenger
from switchboard.actions.store_ports import ExecutionStore
from switchboard.catalog.errors import ServiceUnavailable, SwitchboardError, Unconfirmed
from switchboard.catalog.executions import Ended, EndStatus, Execution, Webhook
from switchboard.telemetry.logs import Log, fault

Tell = Callable[[str], None]


class Rules(Struct, frozen=True, kw_only=True):
    """How patient executions are, in seconds, and how many there may be."""

    at_once: int = 64
    """How many an agent works on at once; nested calls of its own do not count, or it would wait for itself."""
    waiting: int = 10_000
    held_bytes: int = 512 * 1024 * 1024
    """How much the inputs of everything without an end may hold together: they are in memory, too."""
    run_s: float = 3600.0
    """How long an agent may work on one."""
    lost_s: float = 30.0
    """How long an agent may be gone before what it was working on has failed."""
    unknown_s: float = 20.0
    """How long after a crash an agent may still report what nobody knows it has."""
    hint_s: float = 3.0
    """How long after an event said that it ended the report itself may still come."""
    retry_s: float = 1.0
    """How long to leave a store alone that did not answer."""


class Live:
    """An execution without an end, in this process."""

    __slots__ = ("done", "execution", "handing_at", "key", "lane", "nested", "settling", "stored", "task")

    def __init__(self, execution: Execution, *, stored: bool, nested: bool = False) -> None:
        self.execution = execution
        self.stored = stored
        self.nested = nested
        """Whether something that runs wants it: that holds a place already, and waits for this."""
        self.handing_at: float | None = None
        """When it was to be sent, as the store was told, which did not say whether it has noted it."""
        self.settling = False
        """Whether its task has the end, and is about to note it: then nobody may end the task."""
        self.done = Event()
        self.task: Task[None] | None = None
        self.lane: Lane[Live] | None = None
        self.key: tuple[str, str] = ("", "")
        """In which lane it waits."""


class Ledger:
    """Everything without an end, and what ended last."""

    def __init__(  # noqa: PLR0913 - whom an end concerns
        self,
        *,
        store: ExecutionStore,
        ends: Ends,
        execute: Execute,
        messenger: Messenger,
        clock: Clock,
        log: Log,
        rules: Rules,
        tell: Tell | None,
    ) -> None:
        self._store = store
        self._ends = ends
        self._execute = execute
        self._messenger = messenger
        self._clock = clock
        self._log = log
        self._rules = rules
        self._tell = tell
        self._recent = Recent()
        self.live: dict[str, Live] = {}
        self.held = 0
        """How many bytes their inputs are."""
        self.jobs: set[Task[object]] = set()
        self.timers: set[TimerHandle] = set()
        self.closing = False
        self.stopped = Event()

    @property
    def is_shared(self) -> bool:
        """Whether other instances may look after the same executions."""
        return self._tell is not None

    def known(self, execution_id: str) -> Execution | None:
        """Return what is known here, without asking the store."""
        live = self.live.get(execution_id)
        return live.execution if live is not None else self._recent.get(execution_id)

    def recent(self, execution_id: str) -> Execution | None:
        """Return one that ended a moment ago."""
        return self._recent.get(execution_id)

    def add(self, live: Live) -> None:
        """Begin to look after one."""
        if live.execution.id not in self.live:
            self.held += len(live.execution.input)
        self.live[live.execution.id] = live

    def forget(self, execution_id: str) -> Live | None:
        """Stop looking after one."""
        live = self.live.pop(execution_id, None)
        if live is not None:
            self.held -= len(live.execution.input)
        return live

    def drop(self, live: Live) -> None:
        """Let go of something that is not to be sent from here; whoever waits for it here looks elsewhere."""
        self.forget(live.execution.id)
        if live.lane is not None and live.task is None:
            live.lane.drop(live.execution.caller, live)
        live.done.set()

    def handed_to(self, agent_id: str) -> list[Execution]:
        """Return what an agent is working on."""
        every = (live.execution for live in self.live.values())
        return [one for one in every if one.agent_id == agent_id and one.handed_at is not None]

    async def settle(
        self, execution_id: str, ended: Ended, *, stop: bool = False, again: bool = False, performed: bool = False
    ) -> tuple[Execution | None, bool]:
        """Note an end; `stop` says that nobody waits for the agent's answer any more.

        `performed` says that it was put through from here, so that it is in the record. `again` says that the store was
        told this very end before and did not confirm it: then it is the first, if it is there, for nobody has been told
        of it yet.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        live, recent = self.live.get(execution_id), self._recent.get(execution_id)
        if live is None and recent is not None and not (again and recent.ended == ended):
            return recent, False
        execution, first = None, False
        if live is None or live.stored:
            execution, first = await self._store.settle(execution_id, ended)
            first = first or (again and execution is not None and execution.ended == ended)
        # It lives in memory only, or it does since a standby that was behind leads: then the store has lost it.
        if execution is None and live is not None:
            first = live.execution.ended is None
            execution = replace(live.execution, status=ended.status, ended=ended) if first else live.execution
            live.execution = execution
            self.spawn(self.write_down(execution))
        if execution is not None and execution.ended is not None:
            if first and not performed and (live is None or live.task is None):
                self._execute.record_end(execution)
            self.finish(execution)
            if stop and live is not None and live.task is not None and not live.settling:
                live.task.cancel()
            if first:
                self._spread(execution)
        return execution, first

    def finish(self, execution: Execution) -> None:
        """Let everybody in this process know of an end."""
        live = self.forget(execution.id)
        self._recent.add(execution)
        if live is not None:
            live.execution = execution
            live.done.set()
            if live.lane is not None and live.task is None:
                live.lane.drop(execution.caller, live)
        if execution.ended is not None:
            self._ends.tell(execution.id, execution.ended)

    def finish_from_elsewhere(self, execution: Execution) -> None:
        """Take in an end that another instance has noted; nobody waits for an answer that would come too late."""
        live = self.live.get(execution.id)
        if live is None or execution.ended is None:
            return
        self.finish(execution)
        if live.task is not None and live.execution.acknowledged_at is None and not live.settling:
            live.task.cancel()

    async def settle_surely(
        self, execution_id: str, ended: Ended, *, stop: bool = False, again: bool = False, performed: bool = False
    ) -> tuple[Execution | None, bool]:
        """Note an end that nobody will tell a second time, however long the store takes."""
        while True:
            try:
                return await self.settle(execution_id, ended, stop=stop, again=again, performed=performed)
            except ServiceUnavailable as error:
                again = again or isinstance(error, Unconfirmed)
                self.not_saved(execution_id, error)
                await sleep(self._rules.retry_s)

    async def write_down(self, execution: Execution) -> None:
        """Remember what was run without the store, as soon as that answers and for as long as it is remembered here."""
        while True:
            try:
                written = await self._store.accept(execution)
                if execution.ended is not None and written.ended is None:  # it was written before its end was known
                    await self._store.settle(execution.id, execution.ended)
            except ServiceUnavailable as error:
                self.not_saved(execution.id, error)
                await sleep(self._rules.retry_s)
                if self.known(execution.id) is not None:
                    continue
            return

    async def acknowledge(self, execution_id: str) -> None:
        """Note that the agent is at work on it."""
        live = self.live.get(execution_id)
        if live is None and self.is_shared and self._recent.get(execution_id) is None:
            await self._store.acknowledge(execution_id, self._clock.now())
            return
        if live is None or live.execution.acknowledged_at is not None or live.execution.ended is not None:
            return
        now = self._clock.now()
        live.execution = replace(live.execution, acknowledged_at=now)
        if live.stored:
            try:
                await self._store.acknowledge(execution_id, now)
            except ServiceUnavailable as error:
                # The agent is at work all the same; only after a crash it would be waited for less patiently.
                self.not_saved(execution_id, error)
        if self.closing:
            self.leave_to_the_next(live)

    def leave_to_the_next(self, live: Live, *, surely: bool = False) -> None:
        """Let nobody wait here for a report that will come later, and see that it finds its execution then.

        An agent that has only been sent something may answer in a moment; `surely` does not wait for that, either.
        """
        is_left = live.execution.acknowledged_at is not None or (surely and live.execution.handed_at is not None)
        if is_left and not live.stored:
            self.spawn(self._hand_on(live))
        if is_left or surely or live.task is None:
            live.done.set()

    def await_report(self, live: Live) -> None:
        """Wait for the report of something sent by another process; longer where the agent said that it will come."""
        execution = live.execution
        promised = execution.acknowledged_at is not None

        def give_up() -> None:
            if not promised and live.execution.acknowledged_at is not None:
                self.await_report(live)
                return
            self.spawn(self._give_up(live))

        left_s = (execution.handed_at or 0.0) + self._rules.run_s - self._clock.now() if promised else 0.0
        self.later(max(left_s, self._rules.unknown_s), give_up)

    async def _give_up(self, live: Live) -> None:
        """End what nobody reported, unless somebody else looks after it by now."""
        if self.is_shared:
            with suppress(ServiceUnavailable):
                if not await self._store.is_ours(live.execution.id):
                    self.drop(live)
                    return
        why = "the control plane was restarted, and the agent has not said how this ended"
        await self.settle_surely(live.execution.id, self.failed(why, "outcome_unknown"))

    def later(self, seconds: float, work: Callable[[], None]) -> TimerHandle:
        """Do something after a while, unless this process ends before."""

        def fire() -> None:
            self.timers.discard(timer)
            work()

        timer = get_running_loop().call_later(seconds, fire)
        self.timers.add(timer)
        return timer

    def spawn(self, job: Coroutine[Any, Any, object]) -> None:
        """Do something beside; it is given a moment when this process ends."""
        task = get_running_loop().create_task(job)
        self.jobs.add(task)
        task.add_done_callback(self.jobs.discard)

    def ended(self, status: EndStatus, **facts: Any) -> Ended:
        """Make an end of this moment."""
        return Ended(status=status, at=self._clock.now(), **facts)

    def failed(self, error: str, reason: str) -> Ended:
        """Make the end of something that has failed."""
        return self.ended("failed", error=error, reason=reason)

    def not_saved(self, execution_id: str, error: ServiceUnavailable) -> None:
        """Say in the log that the store did not answer."""
        self._log.event("error", "execution.not.saved", self._clock.now(), id=execution_id, error=error.message)

    def broke(self, execution_id: str, error: Exception) -> None:
        """Say in the log that something failed that nobody expected."""
        self._log.event("error", "execution.broke", self._clock.now(), id=execution_id, error=fault(error))

    def _spread(self, execution: Execution) -> None:
        """Tell an end to everybody outside this process whom it concerns."""
        if execution.webhook is not None:
            self.spawn(self._call_back(execution, execution.webhook))
        if self._tell is not None:
            self._tell(execution.id)

    async def _hand_on(self, live: Live) -> None:
        await self.write_down(live.execution)
        live.stored = True

    async def _call_back(self, execution: Execution, webhook: Webhook) -> None:
        try:
            await self._messenger.tell(webhook, message_of(execution))
        except SwitchboardError as error:
            self._log.event("warning", "webhook.failed", self._clock.now(), id=execution.id, error=error.message)


def message_of(execution: Execution) -> bytes:
    """Return what a webhook is told."""
    ended = execution.ended
    return msgspec.json.encode(
        {
            "event": "execution.completed",
            "execution_id": execution.id,
            "run_id": execution.run_id,
            "workflow_id": execution.run_id,
            "target": execution.target,
            "status": execution.status,
            "result": msgspec.Raw(ended.result) if ended is not None and ended.result is not None else None,
            "error": ended.error if ended is not None else None,
            "reason": ended.reason if ended is not None else None,
        }
    )

"""Executions of agents' capabilities: accepted, put through once, followed to their end, never lost.

An asynchronous execution is in the store before it is accepted. It is marked there as handed over before anything is
sent, so after a crash it is known which ones nothing was sent of: those are sent then. One that may have reached its
agent is never sent again; it ends by the agent's report, or as failed with `outcome_unknown`. The first end wins.

A synchronous execution lives in memory, because its caller waits and would learn of a crash at once; its end is
remembered like any other.
"""

from asyncio import (
    FIRST_COMPLETED,
    CancelledError,
    Event,
    Task,
    TimerHandle,
    gather,
    get_running_loop,
    sleep,
    timeout,
    wait,
)
from collections.abc import Callable, Coroutine, Mapping, Sequence
from secrets import token_hex
from time import gmtime, strftime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.directory import Directory
from switchboard.actions.ends import Ends, Recent
from switchboard.actions.execute import Execute
from switchboard.actions.lanes import Lane
from switchboard.actions.ports import Agents, Call, Clock, ExecutionStore, Followers, Messenger, Note, Outcome
from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.errors import (
    CallTimeout,
    InvalidRequest,
    NotFound,
    ServiceUnavailable,
    SwitchboardError,
    UnknownApp,
)
from switchboard.catalog.executions import Ended, EndStatus, Execution, Webhook
from switchboard.catalog.model import Agent, Caller, Capability, Kind
from switchboard.catalog.names import readings
from switchboard.telemetry.logs import Log, fault

_FORGET_AFTER_S = 7 * 24 * 3600.0
_FORGET_AT_ONCE = 1000
_DRAIN_S = 5.0
_LARGEST_DETAILS = 64 * 1024
_LONGEST_ERROR = 10_000
_LONGEST_REASON = 200


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


class Wanted(Struct, frozen=True, kw_only=True):
    """What somebody wants to be executed."""

    target: str
    kind: Kind | None = None
    """Which of the two is meant where a reasoner and a skill have one name, and the target does not say."""
    input: Mapping[str, Any]
    caller: Caller = Caller()
    run_id: str | None = None
    parent_id: str | None = None
    context: Pairs = ()
    webhook: Webhook | None = None
    idempotency_key: str | None = None


class _Live:
    """An execution without an end, in this process."""

    __slots__ = ("done", "execution", "key", "lane", "stored", "task")

    def __init__(self, execution: Execution, *, stored: bool) -> None:
        self.execution = execution
        self.stored = stored
        self.done = Event()
        self.task: Task[None] | None = None
        self.lane: Lane[_Live] | None = None
        self.key: tuple[str, str] = ("", "")
        """In which lane it waits."""


class Executions(Followers):
    """Everything that is being executed on this instance."""

    def __init__(  # noqa: PLR0913 - one collaborator for each thing an execution meets
        self,
        *,
        directory: Directory,
        execute: Execute,
        ends: Ends,
        store: ExecutionStore,
        agents: Agents,
        messenger: Messenger,
        clock: Clock,
        log: Log,
        rules: Rules | None = None,
    ) -> None:
        self._directory = directory
        self._execute = execute
        self._ends = ends
        self._store = store
        self._agents = agents
        self._messenger = messenger
        self._clock = clock
        self._log = log
        self._rules = rules or Rules()
        self._live: dict[str, _Live] = {}
        self._recent = Recent()
        self._lanes: dict[tuple[str, str], Lane[_Live]] = {}
        self._jobs: set[Task[None]] = set()
        self._timers: set[TimerHandle] = set()
        self._gone: dict[str, TimerHandle] = {}
        self._closing = False
        self._stopped = Event()
        self._held = 0
        ends.on_acknowledge(self._acknowledge)

    @property
    def unfinished(self) -> int:
        """How many have no end yet."""
        return len(self._live)

    # What a caller can do

    async def submit(self, wanted: Wanted) -> Execution:
        """Accept an execution for good, to be run as soon as its agent has room.

        Raises:
            SwitchboardError: there is no such target, its input does not fit, the caller may not, or too many wait.
        """
        known = await self._accepted_before(wanted)
        if known is not None:
            return known
        execution = await self._admitted(wanted)
        accepted = await self._store.accept(execution)
        if accepted.id != execution.id:
            _require_same(accepted, execution)
            return accepted
        self._enqueue(_Live(execution, stored=True))
        return execution

    async def run(self, wanted: Wanted, within_s: float) -> Execution:
        """Run an execution and return it with its end.

        Raises:
            CallTimeout: it has no end after so many seconds; it goes on, and can be asked for.
            SwitchboardError: as `submit` does.
        """
        if self._closing:
            raise ServiceUnavailable("This control plane stops. Nothing was sent; send it again in a moment.")
        if wanted.idempotency_key is not None:
            execution = await self.submit(wanted)
        else:
            execution = await self._admitted(wanted)
            self._enqueue(_Live(execution, stored=False))
        del wanted  # its input, decoded, is many times as large as the bytes that are needed from here on
        found = await self._end_of(execution, within_s)
        if found.ended is None and self._closing:
            raise self._left_behind(found)
        if found.ended is None:
            message = (
                f"{execution.target} has not ended after {within_s:g} s. It goes on; ask for {execution.id} later."
            )
            raise CallTimeout(message, execution_id=execution.id, run_id=execution.run_id)
        return found

    async def execution(self, execution_id: str, wait_s: float = 0.0) -> Execution:
        """Return an execution, waiting a little for its end if asked to.

        Raises:
            NotFound: there is none of that id.
        """
        live = self._live.get(execution_id)
        if live is not None and wait_s > 0:
            await _first((live.done, self._stopped), wait_s)
            return live.execution
        found = (await self.executions([execution_id])).get(execution_id)
        if found is None:
            raise NotFound("execution not found", execution_id=execution_id)
        return found

    async def executions(self, ids: Sequence[str]) -> Mapping[str, Execution]:
        """Return those of the named executions that are known."""
        found = {key: known for key in ids if (known := self._known(key)) is not None}
        missing = [key for key in ids if key not in found]
        return {**found, **(await self._store.executions(missing) if missing else {})}

    async def cancel(self, execution_id: str, reason: str) -> tuple[Execution, str]:
        """End an execution because somebody wants it ended, and tell its agent; return it and what it was before.

        Raises:
            NotFound: there is none of that id.
            InvalidRequest: it has ended already.
        """
        before = await self.execution(execution_id)
        ended = self._ended("cancelled", error="cancelled", reason=reason or "cancelled")
        execution, first = await self._settle(execution_id, ended, stop=True)
        if execution is None or not first:
            message = f"{execution_id} has ended already: {(execution or before).status}."
            raise InvalidRequest(message, execution_id=execution_id, current=(execution or before).status)
        agent = self._directory.current().agents.get(execution.agent_id)
        # Not as it was before: it may have been handed over in the meantime.
        if agent is not None and execution.handed_at is not None:
            self._spawn(self._agents.cancel(agent, execution, reason))
        return execution, before.status

    # What an agent reports

    async def report(self, execution_id: str, ended: Ended | None) -> Execution:
        """Take an agent's report in: its end, or that it is at work. After its end nothing changes any more.

        Raises:
            NotFound: there is none of that id.
            ServiceUnavailable: the store does not answer; the report is not lost unless this process ends first.
        """
        if ended is None:
            await self._acknowledge(execution_id)
            return await self.execution(execution_id)
        ended = _bounded(ended)
        try:
            execution, _ = await self._settle(execution_id, ended)
        except ServiceUnavailable:
            # The agent tries a few times and then never again, so its word is kept here until it is in the store.
            if execution_id in self._live:
                self._spawn(self._settle_surely(execution_id, ended))
            raise
        if execution is None:
            raise NotFound("execution not found", execution_id=execution_id)
        return execution

    async def hint(self, execution_id: str, ended: Ended) -> bool:
        """Take an event in that says how an execution ended; the report itself, if it comes soon, says it better."""
        if execution_id not in self._live:
            return False
        self._later(self._rules.hint_s, lambda: self._spawn(self._settle_surely(execution_id, ended)))
        return True

    async def remember(self, execution: Execution) -> None:
        """Remember an execution that an agent ran by itself."""
        if self._known(execution.id) is None:
            await self._store.accept(execution)

    async def add_notes(self, notes: Sequence[Note]) -> None:
        """Remember what agents said."""
        await self._store.add_notes(notes)

    async def notes(self, execution_id: str) -> Sequence[Note]:
        """Return what was said about an execution."""
        return await self._store.notes(execution_id)

    # What happens to agents

    def agent_gone(self, agent_id: str) -> None:
        """Note that an agent is inactive; if it stays so, what it was working on has failed."""
        known = self._gone.pop(agent_id, None)
        if known is not None:  # it came back in between, so its absence is counted anew
            self._timers.discard(known)
            known.cancel()
        since = self._clock.now()
        self._gone[agent_id] = self._later(self._rules.lost_s, lambda: self._fail_if_gone(agent_id, since))

    def agent_came(self, agent: Agent) -> None:
        """Note a registration; another process than before knows nothing of what that one was working on."""
        for execution in self._handed_to(agent.id):
            was = execution.instance_id
            if was and agent.instance_id and was != agent.instance_id:
                why = "the agent was restarted while it worked on this"
                self._spawn(self._settle_surely(execution.id, self._failed(why, "agent_restarted"), stop=True))

    # From start to end of this process

    async def recover(self) -> None:
        """Take up what the last process left: send what was not sent, and wait for reports of what was.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        for execution in await self._store.unfinished():
            live = _Live(execution, stored=True)
            if execution.handed_at is None:
                self._enqueue(live)
            else:
                self._live[execution.id] = live
                self._held += len(execution.input)
                self._await_report(live)
        agents = self._directory.current().agents
        for agent_id in {live.execution.agent_id for live in self._live.values()}:
            agent = agents.get(agent_id)
            if agent is None or agent.health == "inactive":  # nobody will say so once more
                self.agent_gone(agent_id)

    async def forget_old(self) -> None:
        """Forget executions that ended long ago."""
        before = self._clock.now() - _FORGET_AFTER_S
        forgotten = _FORGET_AT_ONCE
        while forgotten >= _FORGET_AT_ONCE:  # others want to write in between
            forgotten = await self._store.forget(before, _FORGET_AT_ONCE)

    def stop_waiting(self) -> None:
        """Begin to end: what agents have promised to report is left to the next process, which takes the reports in."""
        self._closing = True
        self._stopped.set()
        for live in list(self._live.values()):
            self._leave_to_the_next(live)

    async def close(self) -> None:
        """Stop sending, give what is under way a moment, and write down what has ended."""
        self.stop_waiting()
        for timer in self._timers:
            timer.cancel()
        for live in self._live.values():
            if live.task is not None and live.execution.acknowledged_at is not None:
                live.task.cancel()  # its agent reports later, to whoever is here then
        await _drained([live.task for live in self._live.values() if live.task is not None])
        while self._jobs:  # what has ended meanwhile is still being written down, or told
            await _drained(list(self._jobs))

    # How it is done

    async def _admitted(self, wanted: Wanted) -> Execution:
        """Return a new execution that may be run: it exists, its input fits, its caller may, and it has room."""
        agent, capability = self._find(wanted)
        execution = self._new(wanted, agent, capability)
        await self._execute.admit(self._call(execution, agent, capability, wanted.input))
        lane = self._lanes.get(self._lane_key(execution))
        if lane is not None:
            lane.require_room()
        if self._held + len(execution.input) > self._rules.held_bytes:
            raise ServiceUnavailable("The inputs of the executions that wait are too large together. Try again later.")
        return execution

    async def _accepted_before(self, wanted: Wanted) -> Execution | None:
        """Return what was accepted under the same key, whatever has become of its agent since.

        Raises:
            InvalidRequest: the key was used for something else.
        """
        if wanted.idempotency_key is None:
            return None
        known = await self._store.keyed(wanted.caller.name, wanted.idempotency_key)
        if known is None:
            return None
        meant = any((one.owner, one.name) == (known.agent_id, known.capability) for one in readings(wanted.target))
        given = Json(msgspec.json.encode(wanted.input))
        if not meant or _meaning(known) != _meaning(replace(known, input=given, webhook=wanted.webhook)):
            raise _used_before(known)
        return self._known(known.id) or known

    async def _end_of(self, execution: Execution, within_s: float) -> Execution:
        """Wait for an end without being sent away because this process stops: what is under way is waited for."""
        live = self._live.get(execution.id)
        if live is None:
            return await self.execution(execution.id)
        await _first((live.done,), within_s)
        return live.execution

    def _left_behind(self, execution: Execution) -> ServiceUnavailable:
        """Say what becomes of an execution whose caller can no longer wait here."""
        ids = {"execution_id": execution.id, "run_id": execution.run_id}
        live = self._live.get(execution.id)
        if execution.handed_at is None and live is not None and not live.stored:
            self._drop(live)
            return ServiceUnavailable("This control plane stops. Nothing was sent; send it again in a moment.", **ids)
        message = f"This control plane stops. {execution.target} goes on; ask for {execution.id} later."
        return ServiceUnavailable(message, **ids)

    def _drop(self, live: _Live) -> None:
        """Let go of something that was never sent, and that nobody waits for."""
        self._forget_live(live.execution.id)
        if live.lane is not None and live.task is None:
            live.lane.drop(live.execution.caller, live)

    def _find(self, wanted: Wanted) -> tuple[Agent, Capability]:
        owner, capability = self._directory.current().find(wanted.target)
        if not isinstance(owner, Agent):
            raise UnknownApp(owner.id)
        if wanted.kind is not None:
            capability = owner.capability(capability.id, wanted.kind) or capability
        return owner, capability

    def _new(self, wanted: Wanted, agent: Agent, capability: Capability) -> Execution:
        now = self._clock.now()
        execution_id = _new_id("exec", now)
        return Execution(
            id=execution_id,
            run_id=wanted.run_id or _new_id("run", now),
            parent_id=wanted.parent_id,
            agent_id=agent.id,
            kind=capability.kind,
            capability=capability.id,
            caller=wanted.caller.name,
            input=Json(msgspec.json.encode(wanted.input)),
            context=wanted.context,
            webhook=wanted.webhook,
            idempotency_key=wanted.idempotency_key,
            created_at=now,
        )

    def _call(self, execution: Execution, agent: Agent, capability: Capability, given: Mapping[str, Any]) -> Call:
        parent = (("X-Parent-Execution-ID", execution.parent_id),) if execution.parent_id else ()
        return Call(
            id=execution.id,
            caller=Caller(execution.caller),
            owner=agent,
            capability=capability,
            arguments=given,
            context=(
                ("X-Execution-ID", execution.id),
                ("X-Run-ID", execution.run_id),
                ("X-Workflow-ID", execution.run_id),
                *parent,
                *execution.context,
            ),
        )

    def _lane_key(self, execution: Execution) -> tuple[str, str]:
        """Return where an execution waits: with what its agent has to do, or with what its running parent wants.

        What something wants that runs must not wait behind others who want to run: they would wait for each other.
        """
        if self._is_nested(execution):
            return "parent", execution.parent_id or ""
        return "agent", execution.agent_id

    def _enqueue(self, live: _Live) -> None:
        if live.execution.id not in self._live:
            self._held += len(live.execution.input)
        self._live[live.execution.id] = live
        live.key = self._lane_key(live.execution)
        if live.key not in self._lanes:
            self._lanes[live.key] = Lane(self._rules.at_once, self._rules.waiting)
        lane = live.lane = self._lanes[live.key]
        lane.add(live.execution.caller, live)
        self._begin_next(lane)
        if self._closing:
            self._leave_to_the_next(live)

    def _forget_live(self, execution_id: str) -> "_Live | None":
        live = self._live.pop(execution_id, None)
        if live is not None:
            self._held -= len(live.execution.input)
        return live

    def _is_nested(self, execution: Execution) -> bool:
        """Tell whether it is wanted by something that runs: that holds a place already, and waits for this."""
        parent = self._live.get(execution.parent_id) if execution.parent_id is not None else None
        return parent is not None and parent.execution.handed_at is not None

    def _begin_next(self, lane: Lane["_Live"]) -> None:
        while not self._closing and (live := lane.next()) is not None:
            if live.execution.ended is None:
                self._begin(live)
            else:
                lane.ended()  # it was cancelled while it waited

    def _begin(self, live: _Live) -> None:
        live.task = get_running_loop().create_task(self._work(live))
        # Not in a `finally` of the work: one that is cancelled before its first step has none.
        live.task.add_done_callback(lambda _: self._leave(live))

    async def _work(self, live: _Live) -> None:
        """See one execution through, whatever happens."""
        execution_id = live.execution.id
        self._ends.expect(execution_id)
        try:
            ended = await self._performed(live)
            if ended is not None and live.execution.ended is None:
                await self._settle_surely(execution_id, ended)
        except CancelledError:
            pass  # it has its end, or this process has
        except ServiceUnavailable as error:
            # The store did not answer before anything was sent: it is queued there, and waits here for better times.
            self._log.event("error", "execution.not.sent", self._clock.now(), id=execution_id, error=error.message)
            self._later(self._rules.retry_s, lambda: self._try_again(live))
        except Exception as error:  # noqa: BLE001 - the end of a task
            self._log.event("error", "execution.broke", self._clock.now(), id=execution_id, error=fault(error))
            ended = self._failed("The control plane failed.", "internal_error")
            self._spawn(self._settle_surely(execution_id, ended))

    def _try_again(self, live: _Live) -> None:
        if live.execution.ended is None:
            self._enqueue(live)

    def _leave(self, live: _Live) -> None:
        """Make room for the next."""
        self._ends.forget(live.execution.id)
        lane, live.lane, live.task = live.lane, None, None
        if lane is None:
            return
        lane.ended()
        self._begin_next(lane)
        if lane.is_idle and self._lanes.get(live.key) is lane:
            del self._lanes[live.key]

    async def _performed(self, live: _Live) -> Ended | None:
        """Hand an execution to its agent and return how it ended; None where it was not to be handed over."""
        execution = live.execution
        try:
            agent, capability = self._agent_of(execution)
        except SwitchboardError as error:
            return self._refusal(error)
        if not await self._hand(live, agent):
            return None
        call = self._call(execution, agent, capability, msgspec.json.decode(execution.input, type=dict[str, Any]))
        try:
            async with timeout(self._rules.run_s):
                outcome = await self._execute.perform(call)
        except TimeoutError:
            return self._ended("timeout", error=f"No end after {self._rules.run_s:g} s.", reason="execution_timeout")
        except SwitchboardError as error:
            return self._refusal(error)
        return self._brought(outcome)

    def _agent_of(self, execution: Execution) -> tuple[Agent, Capability]:
        """Return the agent as it is now: it may have moved since the execution was accepted."""
        agent = self._directory.current().agents.get(execution.agent_id)
        capability = agent.capability(execution.capability, execution.kind) if agent is not None else None
        if agent is None or capability is None:
            raise UnknownApp(execution.agent_id, because=f"it no longer offers {execution.capability}")
        return agent, capability

    async def _hand(self, live: _Live, agent: Agent) -> bool:
        now = self._clock.now()
        if live.stored and not await self._store.hand(live.execution.id, now, agent.instance_id):
            await self._look_again(live)
            return False
        if live.execution.ended is not None:
            return False
        live.execution = replace(live.execution, status="running", handed_at=now, instance_id=agent.instance_id)
        return True

    async def _look_again(self, live: _Live) -> None:
        """Take over what the store knows of an execution that it does not want to be sent."""
        found = (await self._store.executions([live.execution.id])).get(live.execution.id)
        if found is None:
            ended = self._failed("The store does not know it any more.", "internal_error")
            self._finish(replace(live.execution, status="failed", ended=ended))
        elif found.ended is not None:
            self._finish(found)
        elif live.execution.ended is None:
            live.execution = found
            self._await_report(live)

    async def _acknowledge(self, execution_id: str) -> None:
        live = self._live.get(execution_id)
        if live is None or live.execution.acknowledged_at is not None or live.execution.ended is not None:
            return
        now = self._clock.now()
        live.execution = replace(live.execution, acknowledged_at=now)
        if live.stored:
            try:
                await self._store.acknowledge(execution_id, now)
            except ServiceUnavailable as error:
                # The agent is at work all the same; only after a crash it would be waited for less patiently.
                self._not_saved(execution_id, error)
        if self._closing:
            self._leave_to_the_next(live)

    def _leave_to_the_next(self, live: _Live) -> None:
        """Let nobody wait here for a report that will come later, and see that it finds its execution then."""
        if live.execution.acknowledged_at is not None and not live.stored:
            self._spawn(self._hand_on(live))
        if live.execution.acknowledged_at is not None or live.task is None:
            live.done.set()

    async def _hand_on(self, live: _Live) -> None:
        await self._write_down(live.execution)
        live.stored = True

    async def _settle(self, execution_id: str, ended: Ended, *, stop: bool = False) -> tuple[Execution | None, bool]:
        """Note an end; `stop` says that nobody waits for the agent's answer any more."""
        live, recent = self._live.get(execution_id), self._recent.get(execution_id)
        if live is None and recent is not None:
            return recent, False
        if live is None or live.stored:
            execution, first = await self._store.settle(execution_id, ended)
        else:
            execution, first = replace(live.execution, status=ended.status, ended=ended), True
            live.execution = execution
            self._spawn(self._write_down(execution))
        if execution is not None and execution.ended is not None:
            if first and (live is None or live.task is None):
                self._execute.record_end(execution)
            self._finish(execution)
            if first and stop and live is not None and live.task is not None:
                live.task.cancel()
            if first and execution.webhook is not None:
                self._spawn(self._tell(execution, execution.webhook))
        return execution, first

    def _finish(self, execution: Execution) -> None:
        """Let everybody in this process know of an end."""
        live = self._forget_live(execution.id)
        self._recent.add(execution)
        if live is not None:
            live.execution = execution
            live.done.set()
            if live.lane is not None and live.task is None:
                live.lane.drop(execution.caller, live)
        if execution.ended is not None:
            self._ends.tell(execution.id, execution.ended)

    async def _settle_surely(self, execution_id: str, ended: Ended, *, stop: bool = False) -> None:
        """Note an end that nobody will tell a second time, however long the store takes."""
        while True:
            try:
                await self._settle(execution_id, ended, stop=stop)
            except ServiceUnavailable as error:
                self._not_saved(execution_id, error)
                await sleep(self._rules.retry_s)
            else:
                return

    async def _write_down(self, execution: Execution) -> None:
        """Remember what was run without the store, as soon as that answers and for as long as it is remembered here."""
        while True:
            try:
                written = await self._store.accept(execution)
                if execution.ended is not None and written.ended is None:  # it was written before its end was known
                    await self._store.settle(execution.id, execution.ended)
            except ServiceUnavailable as error:
                self._not_saved(execution.id, error)
                await sleep(self._rules.retry_s)
                if self._known(execution.id) is not None:
                    continue
            return

    def _not_saved(self, execution_id: str, error: ServiceUnavailable) -> None:
        self._log.event("error", "execution.not.saved", self._clock.now(), id=execution_id, error=error.message)

    async def _tell(self, execution: Execution, webhook: Webhook) -> None:
        try:
            await self._messenger.tell(webhook, message_of(execution))
        except SwitchboardError as error:
            self._log.event("warning", "webhook.failed", self._clock.now(), id=execution.id, error=error.message)

    def _await_report(self, live: _Live) -> None:
        """Wait for the report of something sent by another process; longer where the agent said that it will come."""
        execution = live.execution
        promised = execution.acknowledged_at is not None

        def give_up() -> None:
            if not promised and live.execution.acknowledged_at is not None:
                self._await_report(live)
                return
            why = "the control plane was restarted, and the agent has not said how this ended"
            self._spawn(self._settle_surely(execution.id, self._failed(why, "outcome_unknown")))

        left_s = (execution.handed_at or 0.0) + self._rules.run_s - self._clock.now() if promised else 0.0
        self._later(max(left_s, self._rules.unknown_s), give_up)

    def _fail_if_gone(self, agent_id: str, since: float) -> None:
        self._gone.pop(agent_id, None)
        agent = self._directory.current().agents.get(agent_id)
        if agent is not None and agent.health != "inactive":
            return
        handed = self._handed_to(agent_id)
        lost = [execution for execution in handed if (execution.handed_at or 0.0) <= since]
        for execution in lost:
            ended = self._failed("the agent is gone and has not said how this ended", "agent_gone")
            self._spawn(self._settle_surely(execution.id, ended, stop=True))
        if len(lost) < len(handed):  # some were sent to it since, and it may be gone for them, too
            self.agent_gone(agent_id)

    def _handed_to(self, agent_id: str) -> list[Execution]:
        every = (live.execution for live in self._live.values())
        return [one for one in every if one.agent_id == agent_id and one.handed_at is not None]

    def _known(self, execution_id: str) -> Execution | None:
        live = self._live.get(execution_id)
        return live.execution if live is not None else self._recent.get(execution_id)

    def _later(self, seconds: float, work: Callable[[], None]) -> TimerHandle:
        def fire() -> None:
            self._timers.discard(timer)
            work()

        timer = get_running_loop().call_later(seconds, fire)
        self._timers.add(timer)
        return timer

    def _spawn(self, job: Coroutine[Any, Any, None]) -> None:
        task = get_running_loop().create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _brought(self, outcome: Outcome) -> Ended:
        if outcome.failed:
            details = msgspec.json.decode(outcome.data or b"{}", type=dict[str, Any])
            message = str(details.get("message") or "the agent reports an error")
            status = details.get("status")
            number = status if isinstance(status, int) else None
            return self._ended(
                "failed", error=message, reason="agent_error", error_details=outcome.data, http_status=number
            )
        return self._ended("succeeded", result=outcome.data)

    def _refusal(self, error: SwitchboardError) -> Ended:
        status: EndStatus = "timeout" if isinstance(error, CallTimeout) else "failed"
        reason = _REASONS.get(error.code, error.code.lower())
        number = error.details.get("status")
        details = Json(msgspec.json.encode(error.details, enc_hook=str)) if error.details else None
        http_status = number if isinstance(number, int) else None
        return self._ended(status, error=error.message, reason=reason, error_details=details, http_status=http_status)

    def _failed(self, error: str, reason: str) -> Ended:
        return self._ended("failed", error=error, reason=reason)

    def _ended(self, status: EndStatus, **facts: Any) -> Ended:
        return Ended(status=status, at=self._clock.now(), **facts)


_REASONS = {"TIMEOUT": "agent_timeout", "SERVICE_UNAVAILABLE": "agent_unreachable", "UNKNOWN_APP": "agent_unknown"}


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


def _new_id(kind: str, now: float) -> str:
    return f"{kind}_{strftime('%Y%m%d_%H%M%S', gmtime(now))}_{token_hex(6)}"


def _require_same(accepted: Execution, wanted: Execution) -> None:
    """Refuse a key that was used for something else."""
    if _meaning(accepted) != _meaning(wanted):
        raise _used_before(accepted)


def _used_before(accepted: Execution) -> InvalidRequest:
    message = "This Idempotency-Key was used for another execution. Use a new one."
    return InvalidRequest(message, execution_id=accepted.id)


def _bounded(ended: Ended) -> Ended:
    """Return an end with what an agent says about it cut to a sensible length; its result is what was asked for."""
    details = ended.error_details
    if details is not None and len(details) > _LARGEST_DETAILS:
        details = Json(msgspec.json.encode({"truncated": True, "bytes": len(details)}))
    error = None if ended.error is None else ended.error[:_LONGEST_ERROR]
    reason = None if ended.reason is None else ended.reason[:_LONGEST_REASON]
    return replace(ended, error=error, reason=reason, error_details=details)


async def _first(events: Sequence[Event], within_s: float) -> None:
    """Wait until one of some things has happened, but not longer than that."""
    if any(event.is_set() for event in events):
        return
    waits = [get_running_loop().create_task(event.wait()) for event in events]
    try:
        await wait(waits, timeout=within_s, return_when=FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()


async def _drained(tasks: Sequence[Task[None]]) -> None:
    """Give tasks a moment, and end those that take longer."""
    late = (await wait(tasks, timeout=_DRAIN_S))[1] if tasks else ()
    for task in late:
        task.cancel()
    await gather(*late, return_exceptions=True)


def _meaning(execution: Execution) -> tuple[object, ...]:
    """Return what makes two wishes the same; the order of keys does not."""
    given = msgspec.json.encode(msgspec.json.decode(execution.input), order="deterministic")
    return execution.agent_id, execution.kind, execution.capability, given, execution.webhook

"""Executions of agents' capabilities: accepted, put through once, followed to their end, never lost.

An asynchronous execution is in the store before it is accepted. It is marked there as handed over before anything is
sent, so after a crash it is known which ones nothing was sent of: those are sent then. One that may have reached its
agent is never sent again; it ends by the agent's report, or as failed with `outcome_unknown`. The first end wins.

A synchronous execution lives in memory, because its caller waits and would learn of a crash at once; its end is
remembered like any other. Where several instances share the store, any of them may be asked about any execution.
"""

from asyncio import Event, Task, gather, wait
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from switchboard.actions.directory import Directory
from switchboard.actions.dispatch import Dispatch
from switchboard.actions.elsewhere import Elsewhere, first
from switchboard.actions.ends import Ends
from switchboard.actions.execute import Execute
from switchboard.actions.ledger import Ledger, Live, Rules, Tell
from switchboard.actions.ports import Agents, Clock, Followers, Messenger
from switchboard.actions.recovery import Recovery
from switchboard.actions.store_ports import ExecutionStore, Note
from switchboard.actions.wishes import Wanted, new_execution, require_meant, require_same
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import (
    CallTimeout,
    InvalidRequest,
    NotFound,
    ServiceUnavailable,
    Unconfirmed,
    UnknownApp,
    UnknownTool,
)
from switchboard.catalog.executions import Ended, Execution
from switchboard.catalog.model import Agent, Capability
from switchboard.telemetry.logs import Log

_FORGET_AFTER_S = 7 * 24 * 3600.0
_FORGET_AT_ONCE = 1000
_LOOK_AT_ONCE = 500
_DRAIN_S = 5.0
_LARGEST_DETAILS = 64 * 1024
_LONGEST_ERROR = 10_000
_LONGEST_REASON = 200


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
        tell: Tell | None = None,
    ) -> None:
        """Build the parts; `tell` lets other instances on the same store know of an end, where there are any."""
        rules = rules or Rules()
        self._directory = directory
        self._execute = execute
        self._store = store
        self._agents = agents
        self._clock = clock
        self._rules = rules
        self._elsewhere = Elsewhere(store, clock)
        self._being_accepted: dict[str, Event] = {}
        self._ledger = Ledger(
            store=store, ends=ends, execute=execute, messenger=messenger, clock=clock, log=log, rules=rules, tell=tell
        )
        self._dispatch = Dispatch(
            ledger=self._ledger,
            directory=directory,
            execute=execute,
            ends=ends,
            store=store,
            clock=clock,
            log=log,
            rules=rules,
        )
        self._recovery = Recovery(
            ledger=self._ledger, dispatch=self._dispatch, directory=directory, store=store, clock=clock, rules=rules
        )
        ends.on_acknowledge(self._ledger.acknowledge)

    @property
    def unfinished(self) -> int:
        """How many have no end yet."""
        return len(self._ledger.live)

    # What a caller can do

    async def submit(self, wanted: Wanted) -> Execution:
        """Accept an execution for good, to be run as soon as its agent has room.

        Raises:
            SwitchboardError: there is no such target, its input does not fit, the caller may not, or too many wait.
        """
        known = await self._accepted_before(wanted)
        if known is not None:
            return known
        live = await self._admitted(wanted, stored=True)
        with self._accepting(live.execution.id):
            try:
                accepted = await self._store.accept(live.execution)
            except Unconfirmed:
                self._recovery.doubt(live.execution)
                raise
            if accepted.id != live.execution.id:
                require_same(accepted, live.execution)
                return accepted
            self._dispatch.enqueue(live)
        return accepted

    async def run(self, wanted: Wanted, within_s: float) -> Execution:
        """Run an execution and return it with its end.

        Raises:
            CallTimeout: it has no end after so many seconds; it goes on, and can be asked for.
            SwitchboardError: as `submit` does.
        """
        if self._ledger.closing:
            raise ServiceUnavailable("This control plane stops. Nothing was sent; send it again in a moment.")
        if wanted.idempotency_key is not None:
            execution = await self.submit(wanted)
        else:
            live = await self._admitted(wanted, stored=False)
            execution = live.execution
            self._dispatch.enqueue(live)
        del wanted  # its input, decoded, is many times as large as the bytes that are needed from here on
        return await self.end_of(execution, within_s)

    async def end_of(self, execution: Execution, within_s: float) -> Execution:
        """Return an execution that was accepted, with its end.

        Raises:
            CallTimeout: it has no end after so many seconds; it goes on, and can be asked for.
            ServiceUnavailable: this process stops, or the store does not answer; it goes on as well.
        """
        found = await self._end_of(execution, within_s)
        if found.ended is None and self._ledger.closing:
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
        until = self._clock.passed() + wait_s
        live = self._ledger.live.get(execution_id)
        if live is not None and wait_s > 0:
            await first((live.done, self._ledger.stopped), wait_s)
            if not self._is_lost_sight_of(live):
                return live.execution
        found = (await self.executions([execution_id])).get(execution_id)
        left_s = until - self._clock.passed()
        if found is not None and found.ended is None and left_s > 0 and self._ledger.is_shared:
            found = await self._elsewhere.end_of(execution_id, left_s, self._ledger.stopped)
        if found is None:
            raise _unknown(execution_id)
        return found

    async def executions(self, ids: Sequence[str]) -> Mapping[str, Execution]:
        """Return those of the named executions that are known."""
        found = {key: known for key in ids if (known := self._ledger.known(key)) is not None}
        missing = [key for key in ids if key not in found]
        return {**found, **(await self._store.executions(missing) if missing else {})}

    async def cancel(self, execution_id: str, reason: str) -> tuple[Execution, str]:
        """End an execution because somebody wants it ended, and tell its agent; return it and what it was before.

        Raises:
            NotFound: there is none of that id.
            InvalidRequest: it has ended already.
        """
        before = await self.execution(execution_id)
        ended = self._ledger.ended("cancelled", error="cancelled", reason=reason or "cancelled")
        try:
            execution, is_first = await self._ledger.settle(execution_id, ended, stop=True)
        except Unconfirmed:
            # Whoever asks again is told that it has ended: then its agent has to be told, too.
            self._ledger.spawn(self._cancel_surely(execution_id, ended, reason))
            raise
        if execution is None or not is_first:
            message = f"{execution_id} has ended already: {(execution or before).status}. Nothing is left to cancel."
            raise InvalidRequest(message, execution_id=execution_id, current=(execution or before).status)
        self._stop(execution, reason)
        return execution, before.status

    # What an agent reports

    async def report(self, execution_id: str, ended: Ended | None) -> Execution:
        """Take an agent's report in: its end, or that it is at work. After its end nothing changes any more.

        Raises:
            NotFound: there is none of that id.
            ServiceUnavailable: the store does not answer; the report is not lost unless this process ends first.
        """
        if ended is None:
            await self._ledger.acknowledge(execution_id)
            return await self.execution(execution_id)
        ended = _bounded(ended)
        try:
            execution, _ = await self._ledger.settle(execution_id, ended)
        except ServiceUnavailable as error:
            # The agent tries a few times and then never again, so its word is kept here until it is in the store.
            again = isinstance(error, Unconfirmed)
            if again or execution_id in self._ledger.live:
                self._ledger.spawn(self._ledger.settle_surely(execution_id, ended, again=again))
            raise
        if execution is None:
            raise _unknown(execution_id)
        return execution

    async def hint(self, execution_id: str, ended: Ended) -> bool:
        """Take an event in that says how an execution ended; the report itself, if it comes soon, says it better."""
        if execution_id not in self._ledger.live and not await self._runs_elsewhere(execution_id):
            return False
        ledger = self._ledger
        ledger.later(self._rules.hint_s, lambda: ledger.spawn(ledger.settle_surely(execution_id, ended)))
        return True

    async def remember(self, execution: Execution) -> None:
        """Remember an execution that an agent ran by itself."""
        if self._ledger.known(execution.id) is None:
            await self._store.accept(execution)

    async def add_notes(self, notes: Sequence[Note]) -> None:
        """Remember what agents said."""
        await self._store.add_notes(notes)

    async def notes(self, execution_id: str) -> Sequence[Note]:
        """Return what was said about an execution."""
        return await self._store.notes(execution_id)

    # What happens to agents, and to other instances

    def agent_gone(self, agent_id: str) -> None:
        """Note that an agent is inactive; if it stays so, what it was working on has failed."""
        self._recovery.agent_gone(agent_id)

    def agent_came(self, agent: Agent) -> None:
        """Note a registration; another process than before knows nothing of what that one was working on."""
        self._recovery.agent_came(agent)

    def in_flight(self) -> list[str]:
        """Return what was sent from here, and whose answer or report is waited for here."""
        every = self._ledger.live.items()
        return [key for key, live in every if live.stored and live.task is not None and live.execution.handed_at]

    async def take_over(self, left: Sequence[Execution]) -> None:
        """Look after executions that another instance has left.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        await self._recovery.take_over(left)

    async def ended_elsewhere(self, ids: Sequence[str]) -> None:
        """Take in that executions have ended, as another instance tells.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        for execution_id in ids:
            self._elsewhere.told(execution_id)
        ours = [key for key in ids if (live := self._ledger.live.get(key)) is not None and live.stored]
        if ours:
            for execution in (await self._store.executions(ours)).values():
                self._ledger.finish_from_elsewhere(execution)

    async def look_elsewhere(self) -> None:
        """Find the ends that nobody told: the word was lost, or whoever had it to tell is gone.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        self._elsewhere.look()
        ours = [key for key, live in self._ledger.live.items() if live.stored]
        for begin in range(0, len(ours), _LOOK_AT_ONCE):
            await self.ended_elsewhere(await self._store.ended(ours[begin : begin + _LOOK_AT_ONCE]))

    # From start to end of this process

    async def recover(self) -> None:
        """Take up what the last process left: send what was not sent, and wait for reports of what was.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        await self.take_over(await self._store.unfinished())

    async def forget_old(self) -> None:
        """Forget executions that ended long ago."""
        before = self._clock.now() - _FORGET_AFTER_S
        forgotten = _FORGET_AT_ONCE
        while forgotten >= _FORGET_AT_ONCE:  # others want to write in between
            forgotten = await self._store.forget(before, _FORGET_AT_ONCE)

    def stop_waiting(self) -> None:
        """Begin to end: what agents have promised to report is left to the next process, which takes the reports in."""
        self._ledger.closing = True
        self._ledger.stopped.set()
        for live in list(self._ledger.live.values()):
            self._ledger.leave_to_the_next(live)

    def send_away(self) -> None:
        """Let nobody wait here any longer; what was sent is written down, so that it can be asked for elsewhere."""
        for live in list(self._ledger.live.values()):
            self._ledger.leave_to_the_next(live, surely=True)

    async def close(self) -> None:
        """Stop sending, give what is under way a moment, and write down what has ended."""
        self.stop_waiting()
        ledger = self._ledger
        for timer in ledger.timers:
            timer.cancel()
        for live in ledger.live.values():
            if live.task is not None and live.execution.acknowledged_at is not None:
                live.task.cancel()  # its agent reports later, to whoever is here then
        await _drained([live.task for live in ledger.live.values() if live.task is not None])
        while ledger.jobs:  # what has ended meanwhile is still being written down, or told
            await _drained(list(ledger.jobs))

    # How it is done

    async def _cancel_surely(self, execution_id: str, ended: Ended, reason: str) -> None:
        execution, is_first = await self._ledger.settle_surely(execution_id, ended, stop=True, again=True)
        if execution is not None and is_first:
            self._stop(execution, reason)

    def _stop(self, execution: Execution, reason: str) -> None:
        """Tell an agent to stop what it was sent."""
        agent = self._directory.current().agents.get(execution.agent_id)
        # Not as it was before: it may have been handed over in the meantime.
        if agent is not None and execution.handed_at is not None:
            self._ledger.spawn(self._agents.cancel(agent, execution, reason))

    async def _admitted(self, wanted: Wanted, *, stored: bool) -> Live:
        """Return a new execution that may be run: it exists, its input fits, its caller may, and it has room."""
        agent, capability = await self._found(wanted)
        execution = new_execution(wanted, agent, capability, self._clock.now())
        await self._execute.admit(self._dispatch.call(execution, agent, capability, wanted.input))
        live = Live(execution, stored=stored, nested=await self._dispatch.is_nested(execution))
        self._dispatch.require_room(live)
        return live

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
        require_meant(known, wanted)
        return self._ledger.known(known.id) or known

    @contextmanager
    def _accepting(self, execution_id: str) -> Generator[None]:
        """Let whoever finds an execution in the store know that it will be looked after here in a moment."""
        accepted = self._being_accepted[execution_id] = Event()
        try:
            yield
        finally:
            del self._being_accepted[execution_id]
            accepted.set()

    async def _end_of(self, execution: Execution, within_s: float) -> Execution:
        """Wait for an end without being sent away because this process stops: what is under way is waited for."""
        accepted = self._being_accepted.get(execution.id)
        if accepted is not None:  # the same was wanted twice at once, and is in the store, but not yet here
            await first((accepted,), within_s)
        live = self._ledger.live.get(execution.id)
        if live is None:
            return await self.execution(execution.id, within_s if self._ledger.is_shared else 0.0)
        await first((live.done,), within_s)
        return await self.execution(execution.id, within_s) if self._is_lost_sight_of(live) else live.execution

    def _is_lost_sight_of(self, live: Live) -> bool:
        """Tell whether another instance looks after it now."""
        return live.done.is_set() and live.execution.ended is None and not self._ledger.closing

    async def _runs_elsewhere(self, execution_id: str) -> bool:
        if not self._ledger.is_shared or self._ledger.recent(execution_id) is not None:
            return False
        found = (await self._store.executions([execution_id])).get(execution_id)
        return found is not None and found.ended is None

    def _left_behind(self, execution: Execution) -> ServiceUnavailable:
        """Say what becomes of an execution whose caller can no longer wait here."""
        ids = {"execution_id": execution.id, "run_id": execution.run_id}
        live = self._ledger.live.get(execution.id)
        if execution.handed_at is None and live is not None and not live.stored:
            self._ledger.drop(live)
            return ServiceUnavailable("This control plane stops. Nothing was sent; send it again in a moment.", **ids)
        message = f"This control plane stops. {execution.target} goes on; ask for {execution.id} later."
        return ServiceUnavailable(message, **ids)

    async def _found(self, wanted: Wanted) -> tuple[Agent, Capability]:
        """Return what is wanted; what is not known here may have been registered with another instance a moment ago."""
        try:
            return self._find(wanted)
        except (UnknownApp, UnknownTool):
            if not self._ledger.is_shared:
                raise
        await self._directory.look_again()
        return self._find(wanted)

    def _find(self, wanted: Wanted) -> tuple[Agent, Capability]:
        owner, capability = self._directory.current().find(wanted.target)
        if not isinstance(owner, Agent):
            raise UnknownApp(owner.id)
        if wanted.kind is not None:
            capability = owner.capability(capability.id, wanted.kind) or capability
        return owner, capability


def _unknown(execution_id: str) -> NotFound:
    # The first words are those of the wire; what is known of an execution is forgotten some time after its end.
    message = f"execution not found: {execution_id[:100]!r}. Check the id; what ended long ago is forgotten."
    return NotFound(message, execution_id=execution_id)


def _bounded(ended: Ended) -> Ended:
    """Return an end with what an agent says about it cut to a sensible length; its result is what was asked for."""
    details = ended.error_details
    if details is not None and len(details) > _LARGEST_DETAILS:
        details = Json(msgspec.json.encode({"truncated": True, "bytes": len(details)}))
    error = None if ended.error is None else ended.error[:_LONGEST_ERROR]
    reason = None if ended.reason is None else ended.reason[:_LONGEST_REASON]
    return replace(ended, error=error, reason=reason, error_details=details)


async def _drained(tasks: Sequence[Task[Any]]) -> None:
    """Give tasks a moment, and end those that take longer."""
    late = (await wait(tasks, timeout=_DRAIN_S))[1] if tasks else ()
    for task in late:
        task.cancel()
    await gather(*late, return_exceptions=True)

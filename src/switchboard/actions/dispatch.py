"""How executions are sent to their agents: so many at once, callers in turn, each of them once.

One that is in the store is marked there as handed over before anything is sent, and only if the store says that it may
be: not if it was sent or ended before, and not if another instance has taken it over.
"""

from asyncio import CancelledError, get_running_loop, timeout
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from switchboard.actions.directory import Directory
from switchboard.actions.ends import Ends
from switchboard.actions.execute import Execute
from switchboard.actions.lanes import Lane
from switchboard.actions.ledger import Ledger, Live, Rules
from switchboard.actions.ports import Call, Clock, Outcome
from switchboard.actions.store_ports import ExecutionStore
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import CallTimeout, ServiceUnavailable, SwitchboardError, Unconfirmed, UnknownApp
from switchboard.catalog.executions import Ended, EndStatus, Execution
from switchboard.catalog.model import Agent, Caller, Capability
from switchboard.telemetry.logs import Log

_REASONS = {"TIMEOUT": "agent_timeout", "SERVICE_UNAVAILABLE": "agent_unreachable", "UNKNOWN_APP": "agent_unknown"}


class Dispatch:
    """Sends what waits."""

    def __init__(  # noqa: PLR0913 - what sending meets
        self,
        *,
        ledger: Ledger,
        directory: Directory,
        execute: Execute,
        ends: Ends,
        store: ExecutionStore,
        clock: Clock,
        log: Log,
        rules: Rules,
    ) -> None:
        self._ledger = ledger
        self._directory = directory
        self._execute = execute
        self._ends = ends
        self._store = store
        self._clock = clock
        self._log = log
        self._rules = rules
        self._lanes: dict[tuple[str, str], Lane[Live]] = {}

    def require_room(self, live: Live) -> None:
        """Let one more come, if it can wait here.

        Raises:
            ServiceUnavailable: too many wait already, or too much.
        """
        lane = self._lanes.get(_lane_key(live))
        if lane is not None:
            lane.require_room()
        if self._ledger.held + len(live.execution.input) > self._rules.held_bytes:
            raise ServiceUnavailable("The inputs of the executions that wait are too large together. Try again later.")

    async def is_nested(self, execution: Execution) -> bool:
        """Tell whether it is wanted by something that runs, here or on another instance.

        What something wants that runs must not wait behind others who want to run: they would wait for each other.
        """
        if execution.parent_id is None:
            return False
        parent = self._ledger.known(execution.parent_id)
        if parent is None and self._ledger.is_shared:
            parent = (await self._store.executions([execution.parent_id])).get(execution.parent_id)
        return parent is not None and parent.handed_at is not None and parent.ended is None

    def enqueue(self, live: Live) -> None:
        """Let one wait for its turn, which may be now."""
        self._ledger.add(live)
        live.key = _lane_key(live)
        if live.key not in self._lanes:
            self._lanes[live.key] = Lane(self._rules.at_once, self._rules.waiting)
        lane = live.lane = self._lanes[live.key]
        lane.add(live.execution.caller, live)
        self._begin_next(lane)
        if self._ledger.closing:
            self._ledger.leave_to_the_next(live)

    def call(self, execution: Execution, agent: Agent, capability: Capability, given: Mapping[str, Any]) -> Call:
        """Return the call that an execution is, for its agent."""
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

    def _begin_next(self, lane: Lane[Live]) -> None:
        while not self._ledger.closing and (live := lane.next()) is not None:
            if live.execution.ended is None:
                self._begin(live)
            else:
                lane.ended()  # it was cancelled while it waited

    def _begin(self, live: Live) -> None:
        live.task = get_running_loop().create_task(self._work(live))
        # Not in a `finally` of the work: one that is cancelled before its first step has none.
        live.task.add_done_callback(lambda _: self._leave(live))

    async def _work(self, live: Live) -> None:
        """See one execution through, whatever happens."""
        execution_id = live.execution.id
        self._ends.expect(execution_id)
        try:
            ended = await self._performed(live)
            if ended is not None and live.execution.ended is None:
                live.settling = True
                await self._ledger.settle_surely(execution_id, ended, performed=True)
        except CancelledError:
            pass  # it has its end, or this process has
        except ServiceUnavailable as error:
            # The store did not answer before anything was sent: it is queued there, and waits here for better times.
            self._log.event("error", "execution.not.sent", self._clock.now(), id=execution_id, error=error.message)
            self._ledger.later(self._rules.retry_s, lambda: self._try_again(live))
        except Exception as error:  # noqa: BLE001 - the end of a task
            self._ledger.broke(execution_id, error)
            ended = self._ledger.failed("The control plane failed.", "internal_error")
            self._ledger.spawn(self._ledger.settle_surely(execution_id, ended))

    def _try_again(self, live: Live) -> None:
        if live.execution.ended is None and self._ledger.live.get(live.execution.id) is live:
            self.enqueue(live)

    def _leave(self, live: Live) -> None:
        """Make room for the next."""
        self._ends.forget(live.execution.id)
        lane, live.lane, live.task = live.lane, None, None
        if lane is None:
            return
        lane.ended()
        self._begin_next(lane)
        if lane.is_idle and self._lanes.get(live.key) is lane:
            del self._lanes[live.key]

    async def _performed(self, live: Live) -> Ended | None:
        """Hand an execution to its agent and return how it ended; None where it was not to be handed over."""
        execution = live.execution
        try:
            agent, capability = self._agent_of(execution)
        except SwitchboardError as error:
            return self._refusal(error)
        if not await self._hand(live, agent):
            return None
        call = self.call(execution, agent, capability, msgspec.json.decode(execution.input, type=dict[str, Any]))
        try:
            async with timeout(self._rules.run_s):
                outcome = await self._execute.perform(call)
        except TimeoutError:
            reason = "execution_timeout"
            return self._ledger.ended("timeout", error=f"No end after {self._rules.run_s:g} s.", reason=reason)
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

    async def _hand(self, live: Live, agent: Agent) -> bool:
        at = live.handing_at or self._clock.now()
        if live.stored and not await self._noted(live, at, agent):
            await self._look_again(live)
            return False
        if live.execution.ended is not None:
            return False
        live.execution = replace(live.execution, status="running", handed_at=at, instance_id=agent.instance_id)
        if not live.stored and self._ledger.is_shared:
            await self._show(live)
        return True

    async def _noted(self, live: Live, at: float, agent: Agent) -> bool:
        """Note in the store that it is about to be sent; tell whether it may be."""
        try:
            return await self._store.hand(live.execution.id, at, agent.instance_id)
        except Unconfirmed:
            live.handing_at = at  # it may have been noted: the next time it is the same word, of the same moment
            raise

    async def _show(self, live: Live) -> None:
        """Let the other instances know what is only in memory here: its agent may report to any of them."""
        try:
            await self._store.accept(live.execution)
        except ServiceUnavailable as error:
            self._ledger.not_saved(live.execution.id, error)  # its caller waits; it is run all the same
        else:
            live.stored = True

    async def _look_again(self, live: Live) -> None:
        """Take over what the store knows of an execution that it does not want to be sent."""
        found = (await self._store.executions([live.execution.id])).get(live.execution.id)
        if found is None:
            ended = self._ledger.failed("The store does not know it any more.", "internal_error")
            self._ledger.finish(replace(live.execution, status="failed", ended=ended))
        elif found.ended is not None:
            self._ledger.finish(found)
        elif not await self._store.is_ours(found.id):
            self._ledger.drop(live)
        elif live.execution.ended is None:
            live.execution = found
            self._ledger.await_report(live)

    def _brought(self, outcome: Outcome) -> Ended:
        if outcome.failed:
            details = msgspec.json.decode(outcome.data or b"{}", type=dict[str, Any])
            message = str(details.get("message") or "the agent reports an error")
            status = details.get("status")
            number = status if isinstance(status, int) else None
            return self._ledger.ended(
                "failed", error=message, reason="agent_error", error_details=outcome.data, http_status=number
            )
        return self._ledger.ended("succeeded", result=outcome.data)

    def _refusal(self, error: SwitchboardError) -> Ended:
        status: EndStatus = "timeout" if isinstance(error, CallTimeout) else "failed"
        reason = _REASONS.get(error.code, error.code.lower())
        number = error.details.get("status")
        details = Json(msgspec.json.encode(error.details, enc_hook=str)) if error.details else None
        return self._ledger.ended(
            status,
            error=error.message,
            reason=reason,
            error_details=details,
            http_status=number if isinstance(number, int) else None,
        )


def _lane_key(live: Live) -> tuple[str, str]:
    """Return where an execution waits: with what its agent has to do, or with what its running parent wants."""
    if live.nested:
        return "parent", live.execution.parent_id or ""
    return "agent", live.execution.agent_id

"""Run what an agent offers from inside its own control plane: remembered, waited for, and ended when nobody waits.

The same executions as over REST: in the store before they are sent, sent once, and found under their id afterwards.
"""

from asyncio import CancelledError, Task, create_task, shield
from secrets import token_hex
from typing import final

import msgspec

from switchboard.actions.executions import Executions
from switchboard.actions.ports import Call, Executor, Outcome, Secret, Text
from switchboard.actions.wishes import Wanted
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import (
    CallTimeout,
    InternalError,
    InvalidRequest,
    NotFound,
    NotSupported,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.catalog.executions import Ended, Execution

WITHIN_S = 600.0
_NOBODY_WAITS = "the MCP client no longer waits"
_FAILURES: dict[str, type[SwitchboardError]] = {
    "agent_timeout": CallTimeout,
    "execution_timeout": CallTimeout,
    "agent_unreachable": ServiceUnavailable,
    "agent_gone": ServiceUnavailable,
    "agent_restarted": ServiceUnavailable,
    "outcome_unknown": ServiceUnavailable,
    "agent_unknown": NotFound,
    "internal_error": InternalError,
}
"""Ends that are ours to tell; every other is in the agent's own words."""


@final
class InsideExecutor(Executor):
    """Puts calls through to the agents of this control plane."""

    def __init__(self, executions: Executions, within_s: float = WITHIN_S) -> None:
        self._executions = executions
        self._within_s = within_s
        self._ending: set[Task[None]] = set()

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Have it executed, and return how that ended; who is cancelled cancels the execution."""
        del secret  # agents are trusted by where they live
        target = call.capability.binding.route.path
        if target is None:
            raise NotSupported(f"{call.owner.id} is not an agent.")
        # A key of its own, so that it is on disk before it is sent.
        wanted = Wanted(target=target, input=call.arguments, caller=call.caller, idempotency_key=f"mcp-{token_hex(16)}")
        accepting = create_task(self._executions.submit(wanted))
        try:
            # What is being accepted may be in the store already: one that is given up there would run after a restart.
            execution = await shield(accepting)
            return _outcome(await self._executions.end_of(execution, self._within_s))
        except CancelledError:
            await self._end(accepting)
            raise

    async def _end(self, accepting: Task[Execution]) -> None:
        """End an execution that nobody waits for, even if whoever cancels does not wait for that either."""
        ending = create_task(self._cancel(accepting))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        await shield(ending)

    async def _cancel(self, accepting: Task[Execution]) -> None:
        try:
            execution = await accepting
        except SwitchboardError:
            return  # it was not accepted
        try:
            await self._executions.cancel(execution.id, _NOBODY_WAITS)
        except (InvalidRequest, NotFound, ServiceUnavailable):
            return  # it has ended meanwhile, or the store does not answer, and then its own time limit ends it


def _outcome(execution: Execution) -> Outcome:
    ended = execution.ended
    if ended is not None and ended.status == "succeeded":
        result = ended.result or Json(b"null")
        return Outcome(parts=(Text(_readable(result)),), data=result)
    return _failed(execution, ended)


def _failed(execution: Execution, ended: Ended | None) -> Outcome:
    said = (ended.error if ended else None) or execution.status
    reason = (ended.reason if ended else None) or ""
    if reason in _FAILURES:
        raise _FAILURES[reason](said, reason=reason, execution_id=execution.id)
    details: dict[str, object] = {"code": "AGENT_ERROR", "message": said, "executionId": execution.id}
    if reason:
        details["reason"] = reason
    if ended is not None and ended.error_details is not None:
        details["details"] = msgspec.Raw(ended.error_details)
    return Outcome(parts=(Text(said),), data=Json(msgspec.json.encode(details)), failed=True)


def _readable(result: Json) -> str:
    """Return a result as text: one that is a text is not put in quotation marks."""
    document = msgspec.json.decode(result)
    return document if isinstance(document, str) else result.decode()

"""Executions: what is known of one, and the plans to run, submit, await and cancel it."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote

import msgspec

from agentfield import errors
from agentfield.encoding import encode
from agentfield.plans import Answer, Pause, Plan, Request, exchange, fields_of, is_execution, once, parse, read, refuse

ENDS = frozenset({"succeeded", "failed", "cancelled", "timeout"})
_SYNC_S = 30.0
_WINDOW_S = 20.0
_GRACE_S = 10.0
_MOMENT_S = 1.0
_BUSY = frozenset({429, 503})
_GATEWAY_TIMEOUT = 504
_ERRORS = 300
_UNKNOWN_WORK = frozenset({"outcome_unknown", "agent_gone", "agent_restarted", "agent_unreachable", "agent_timeout"})
"""Reasons that do not mean that nothing was done."""


class Execution(msgspec.Struct, frozen=True):
    """One run of one reasoner or skill, as the control plane knows it."""

    execution_id: str
    status: str
    run_id: str = ""
    status_reason: str = ""
    target: str = ""
    node_id: str = ""
    type: str = ""
    result: Any = None
    error: str = ""
    error_details: Any = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: float | None = None

    @property
    def ended(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status in ENDS


class Call(msgspec.Struct, frozen=True):
    """What is to be executed: all attempts at it have the same key, so it is run once."""

    target: str
    body: bytes
    headers: tuple[tuple[str, str], ...]


class Times(msgspec.Struct, frozen=True):
    """How long to wait: for one answer, for a control plane that went away, and altogether."""

    seconds: float
    patience: float
    limit: float | None = None


def call_of(
    target: str,
    given: object,
    context: tuple[tuple[str, str], ...] = (),
    key: str | None = None,
    webhook: str | Mapping[str, object] | None = None,
) -> Call:
    """Describe a call.

    `{...}`, as documents write an input that is left to the reader, is an empty one.

    Raises:
        ValueError: The target is empty, or the key cannot be sent in a header.
        TypeError: The input is not a mapping of names to values, or has no JSON.
    """
    if not target:
        raise ValueError("execute() needs a target: the invocation_target of something that discover() found.")
    if key and not (key.isascii() and key.isprintable()):
        raise ValueError("idempotency_key has characters that cannot be sent in a header.")
    named: object = {} if given is None or given == {...} else given
    if not any((isinstance(named, Mapping), hasattr(named, "model_dump"), hasattr(named, "__struct_fields__"))):
        raise TypeError(f"input must be a mapping of names to values, not a {type(named).__name__}.")
    document: dict[str, object] = {"input": named} if webhook is None else {"input": named, "webhook": webhook}
    return Call(target, encode(document), (*context, ("Idempotency-Key", key or uuid.uuid4().hex)))


def execute(call: Call, times: Times) -> Plan[Execution]:
    """Run something and return its end.

    One request is enough where the answer comes soon. Where it does not, or the connection breaks, the same key finds
    the same execution again, and it is waited for.
    """
    seconds = _SYNC_S if times.limit is None else min(_SYNC_S, times.limit)
    reply = yield from once(_post("execute", call, seconds))
    if isinstance(reply, Answer):
        if is_execution(reply):
            return parse(reply, Execution)
        if reply.status == _GATEWAY_TIMEOUT and (known := _mentioned(reply)):
            return (yield from wait(known, times, reply.took))
        if reply.status not in _BUSY:
            refuse(reply)
            return parse(reply, Execution)
    answer = yield from _accepted(call, _after(times, reply.took))
    return (yield from wait(read(answer, Execution).execution_id, times, reply.took + answer.took))


def submit(call: Call, times: Times) -> Plan[Execution]:
    """Have something accepted, and return without waiting for its end."""
    return read((yield from _accepted(call, _after(times, 0.0))), Execution)


def wait(execution_id: str, times: Times, spent: float = 0.0) -> Plan[Execution]:
    """Wait for an end.

    Raises:
        Timeout: It did not come in time; the execution goes on.
    """
    idle = 0.0
    while True:
        now = _after(times, spent)
        left = _WINDOW_S if now.limit is None else min(_WINDOW_S, now.limit)
        try:
            answer = yield from exchange(_get(execution_id, left, now.seconds), now.patience)
        except (errors.ConnectionFailed, errors.Timeout) as error:
            if now.limit is None or now.patience == times.patience:
                raise
            raise _late(execution_id, times) from error  # it was away for all the time that the caller allowed
        found = read(answer, Execution)
        if found.ended:
            return found
        spent += answer.took
        if times.limit is not None and spent >= times.limit:
            raise _late(execution_id, times)
        # A control plane that does not know how to wait answers at once: ask it less and less often.
        idle = min(2.0, idle * 2 or 0.05) if answer.took < left / 2 else 0.0
        if idle:
            yield Pause(idle)
            spent += idle


def state(execution_id: str, times: Times) -> Plan[Execution]:
    """Return an execution as it is."""
    answer = yield from exchange(_get(execution_id, 0.0, times.seconds), times.patience)
    return read(answer, Execution)


def cancel(execution_id: str, reason: str, times: Times) -> Plan[None]:
    """End an execution; the agent is told. Twice is once: the first end counts."""
    request = Request(
        "POST",
        f"/api/v1/executions/{quote(execution_id, safe='')}/cancel",
        body=encode({"reason": reason}),
        seconds=times.seconds,
    )
    answer = yield from exchange(request, times.patience)
    refuse(answer)


def result_of(execution: Execution) -> Any:
    """Return a result.

    Raises:
        ExecutionFailed: There is none.
    """
    if execution.status == "succeeded":
        return execution.result
    kinds = {"cancelled": errors.ExecutionCancelled, "timeout": errors.ExecutionTimedOut}
    raise kinds.get(execution.status, errors.ExecutionFailed)(_told(execution), execution)


def _told(execution: Execution) -> str:
    said = execution.error if execution.error != execution.status else ""
    said = said or execution.status_reason or "no reason was given"
    advice = ""
    if execution.status_reason in _UNKNOWN_WORK:
        advice = " The agent may have done its work: repeat only what may be done twice."
    name = execution.target or execution.node_id or "The execution"
    reason = f"{execution.status_reason}, " if execution.status_reason else ""
    return f"{name} {_VERBS.get(execution.status, 'failed')}: {said} [{reason}{execution.execution_id}]{advice}"


_VERBS = {"cancelled": "was cancelled", "timeout": "took too long"}


def _post(way: str, call: Call, seconds: float) -> Request:
    path = f"/api/v1/{way}/{quote(call.target, safe=':')}"
    return Request("POST", path, (), call.headers, call.body, seconds, repeatable=True)


def _get(execution_id: str, window: float, seconds: float) -> Request:
    query = (("wait", f"{window:.3f}"),) if window else ()
    path = f"/api/v1/executions/{quote(execution_id, safe='')}"
    return Request("GET", path, query, seconds=window + min(_GRACE_S, seconds), repeatable=True)


def _accepted(call: Call, times: Times) -> Plan[Answer]:
    return (yield from exchange(_post("execute/async", call, times.seconds), times.patience))


def _after(times: Times, spent: float) -> Times:
    """Return the waits that are left of a limit. One answer may always take a moment: it has the id to go on with."""
    if times.limit is None:
        return times
    left = max(times.limit - spent, 0.0)
    return Times(min(times.seconds, max(left, _MOMENT_S)), min(times.patience, left), left)


def _late(execution_id: str, times: Times) -> errors.Timeout:
    return errors.Timeout(
        f"{execution_id} has not ended after {times.limit:g} s. It goes on: wait with "
        f"app.handle({execution_id!r}).wait(), or end it with app.cancel({execution_id!r}).",
        execution_id,
    )


def _mentioned(answer: Answer) -> str:
    details = fields_of(answer).get("details")
    found = cast("dict[str, object]", details).get("execution_id") if isinstance(details, dict) else None
    return found if isinstance(found, str) else ""

"""What an agent tells its control plane: that it is there, and what came of what it was given. Plans, no I/O.

Everything here goes on until the control plane has heard it: one that is not there yet, or away for a while, is asked
again.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn
from urllib.parse import quote

from agentfield.encoding import encode
from agentfield.plans import Answer, Lost, Pause, Plan, Request, fields_of, once, refuse

LARGEST = 16 * 1024 * 1024
"""What a control plane takes in one body."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 2.0
_HEARD_S = 10.0
_NOT_FOUND = 404
_BUSY = frozenset({408, 425, 429})
_WAIT_AND_SEE = _BUSY | {401, 403}
"""Refusals that somebody can mend while we run."""
_REFUSED = range(300, 500)
_GOOD = range(200, 300)
_LONGEST_ERROR = 2000

Tell = Callable[[str], None]


def stay(node_id: str, registration: bytes, interval: float, tell: Tell) -> Plan[NoReturn]:
    """Register and show signs of life, for ever; register again when the control plane has forgotten us.

    Raises:
        APIError: The first registration is refused for what it is: there is no use in repeating it.
    """
    first = True
    while True:
        yield from _register(registration, tell, strict=first)
        first = False
        yield from _beat(node_id, interval, tell)


def goodbye(node_id: str, instance_id: str, reason: str, seconds: float) -> Plan[bool]:
    """Say that we leave; whether it was heard is returned, and nothing can be done if it was not.

    Nothing is said where another process has taken our place under the same id: it would be taken for that one's end.
    """
    path = f"/api/v1/nodes/{quote(node_id, safe='')}"
    known = yield from once(Request("GET", path, seconds=seconds))
    if isinstance(known, Answer) and fields_of(known).get("instance_id") not in {None, "", instance_id}:
        return False
    reply = yield from once(_post(f"{path}/shutdown", encode({"reason": reason}), seconds))
    return isinstance(reply, Answer) and reply.status in _GOOD


def deliver(execution_id: str, report: bytes, tell: Tell) -> Plan[bool]:
    """Report an end until the control plane has taken it in, or has said that it does not want it."""
    request = _post(f"/api/v1/executions/{quote(execution_id, safe='')}/status", report, 3 * _HEARD_S)
    attempt = 0
    while True:
        reply = yield from once(request)
        if isinstance(reply, Answer) and reply.status in _GOOD:
            return True
        if isinstance(reply, Answer) and reply.status in _REFUSED and reply.status not in _WAIT_AND_SEE:
            tell(f"a report was refused with {reply.status}")
            return False
        yield Pause(_pause(attempt))
        attempt += 1


def succeeded(execution_id: str, result: Any, seconds: float) -> bytes:
    """Write the report of a result; one that cannot be written or is too large becomes the report of a failure."""
    try:
        report = encode(_report(execution_id, seconds, status="succeeded", result=result))
    except TypeError as error:
        return failed(execution_id, f"The result has no JSON. {error}", type(error).__name__, seconds)
    if len(report) > LARGEST:
        return failed(execution_id, f"The result has {len(report)} bytes; {LARGEST} is the most.", "TooLarge", seconds)
    return report


def raised(execution_id: str, error: BaseException, seconds: float) -> bytes:
    """Write the report of an error that a function raised."""
    return failed(execution_id, text_of(error), type(error).__name__, seconds)


def text_of(error: BaseException) -> str:
    """Return what an error says; one that fails even at that, or says nothing, is called by its kind."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - somebody else's code, and its execution must end all the same
        return type(error).__name__


def failed(execution_id: str, message: str, kind: str, seconds: float) -> bytes:
    """Write the report of a failure."""
    said = message.encode(errors="replace").decode()[:_LONGEST_ERROR] or kind
    details = {"type": kind}
    return encode(_report(execution_id, seconds, status="failed", error=said, error_details=details))


def _report(execution_id: str, seconds: float, **fields: Any) -> dict[str, Any]:
    ended = datetime.now(UTC).isoformat()
    return {"execution_id": execution_id, "duration_ms": round(seconds * 1000), "completed_at": ended, **fields}


def _register(registration: bytes, tell: Tell, *, strict: bool) -> Plan[None]:
    attempt = 0
    while True:
        reply = yield from once(_post("/api/v1/nodes/register", registration, _HEARD_S))
        if isinstance(reply, Answer) and reply.status in _GOOD:
            return tell("registered")
        if strict and isinstance(reply, Answer) and reply.status in _REFUSED and reply.status not in _BUSY:
            refuse(reply)
        if attempt == 0:
            tell(f"not registered yet: {_why(reply)}")
        yield Pause(_pause(attempt))
        attempt += 1


def _beat(node_id: str, interval: float, tell: Tell) -> Plan[None]:
    """Show signs of life until the control plane says that it does not know us."""
    path = f"/api/v1/nodes/{quote(node_id, safe='')}/heartbeat"
    away = False
    while True:
        yield Pause(interval)
        reply = yield from once(_post(path, encode({"status": "ready"}), _HEARD_S))
        if isinstance(reply, Answer) and reply.status == _NOT_FOUND:
            return tell("forgotten")
        if away != (away := isinstance(reply, Lost) or reply.status not in _GOOD):
            tell(f"away: {_why(reply)}" if away else "back")


def _post(path: str, body: bytes, seconds: float) -> Request:
    return Request("POST", path, body=body, seconds=seconds)


def _pause(attempt: int) -> float:
    # Agents that lost their server together should not come back in step.
    return min(_FIRST_PAUSE_S * 2 ** min(attempt, 10), _LONGEST_PAUSE_S) * (0.75 + (time.monotonic_ns() % 512) / 1024)


def _why(reply: Answer | Lost) -> str:
    return reply.why if isinstance(reply, Lost) else f"it answers {reply.status}"

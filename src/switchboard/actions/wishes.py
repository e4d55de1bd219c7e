"""What somebody wants to be executed: an execution made of it, and whether it is the same that was wanted before."""

from collections.abc import Mapping
from secrets import token_hex
from time import gmtime, strftime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.errors import InvalidRequest
from switchboard.catalog.executions import Execution, Webhook
from switchboard.catalog.model import Agent, Caller, Capability, Kind
from switchboard.catalog.names import readings


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


def new_execution(wanted: Wanted, agent: Agent, capability: Capability, now: float) -> Execution:
    """Return an execution of what is wanted, with an id that no other has."""
    return Execution(
        id=_new_id("exec", now),
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


def require_meant(known: Execution, wanted: Wanted) -> None:
    """Refuse a key that was used for something else, whatever has become of its agent since.

    Raises:
        InvalidRequest: it was.
    """
    is_meant = any((one.owner, one.name) == (known.agent_id, known.capability) for one in readings(wanted.target))
    given = Json(msgspec.json.encode(wanted.input))
    if not is_meant or _meaning(known) != _meaning(replace(known, input=given, webhook=wanted.webhook)):
        raise _used_before(known)


def require_same(accepted: Execution, wanted: Execution) -> None:
    """Refuse a key that was used for something else.

    Raises:
        InvalidRequest: it was.
    """
    if _meaning(accepted) != _meaning(wanted):
        raise _used_before(accepted)


def _new_id(kind: str, now: float) -> str:
    return f"{kind}_{strftime('%Y%m%d_%H%M%S', gmtime(now))}_{token_hex(6)}"


def _used_before(accepted: Execution) -> InvalidRequest:
    message = "This Idempotency-Key was used for another execution. Use a new one."
    return InvalidRequest(message, execution_id=accepted.id)


def _meaning(execution: Execution) -> tuple[object, ...]:
    """Return what makes two wishes the same; the order of keys does not."""
    given = msgspec.json.encode(msgspec.json.decode(execution.input), order="deterministic")
    return execution.agent_id, execution.kind, execution.capability, given, execution.webhook

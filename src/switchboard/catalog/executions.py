"""One execution of an agent's capability, from the moment it was accepted to its end.

`queued` means that nothing was sent yet, so it may be sent after any crash. `running` means that it may have reached
its agent: it is never sent again. The first end wins, and nothing changes after it.
"""

from typing import Literal

from msgspec import Struct

from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.model import Kind

Status = Literal["queued", "running", "succeeded", "failed", "cancelled", "timeout"]
EndStatus = Literal["succeeded", "failed", "cancelled", "timeout"]
ENDS: frozenset[str] = frozenset({"succeeded", "failed", "cancelled", "timeout"})

_ALIASES: dict[str, Status] = {
    "pending": "queued",
    "queued": "queued",
    "wait": "queued",
    "waiting": "running",
    "paused": "running",
    "running": "running",
    "in_progress": "running",
    "processing": "running",
    "succeeded": "succeeded",
    "success": "succeeded",
    "successful": "succeeded",
    "completed": "succeeded",
    "complete": "succeeded",
    "done": "succeeded",
    "ok": "succeeded",
    "failed": "failed",
    "failure": "failed",
    "error": "failed",
    "errored": "failed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "cancel": "cancelled",
    "timeout": "timeout",
    "timed_out": "timeout",
    "timedout": "timeout",
}


def status_of(text: str) -> Status | None:
    """Read a status as agents write it; None for a word nobody knows."""
    word = text.strip().lower()
    return "running" if word.startswith("awaiting_") else _ALIASES.get(word)


class Webhook(Struct, frozen=True, kw_only=True):
    """Whom to tell about the end. The secret signs what is sent, and is never shown."""

    url: str
    secret: str | None = None
    headers: Pairs = ()

    def __repr__(self) -> str:
        return "Webhook(…)"  # even the path of such an address is a secret with some


class Ended(Struct, frozen=True, kw_only=True):
    """How an execution ended."""

    status: EndStatus
    at: float
    result: Json | None = None
    error: str | None = None
    error_details: Json | None = None
    reason: str | None = None
    """Why, in one word, for programs: `outcome_unknown`, `agent_unreachable`, `cancelled` …"""
    http_status: int | None = None
    """What the agent's own answer was, where it was an error with a number."""


class Execution(Struct, frozen=True, kw_only=True):
    """What was accepted, and how far it is."""

    id: str
    run_id: str
    parent_id: str | None = None
    agent_id: str
    kind: Kind
    capability: str
    caller: str
    input: Json
    context: Pairs = ()
    webhook: Webhook | None = None
    idempotency_key: str | None = None
    """Under which name the caller may ask again without running it again; unique with `caller`."""
    status: Status = "queued"
    created_at: float
    handed_at: float | None = None
    """Since when it may have reached its agent."""
    acknowledged_at: float | None = None
    """When the agent said that it is at work and will report."""
    instance_id: str = ""
    """Which process of the agent it was handed to."""
    ended: Ended | None = None

    @property
    def target(self) -> str:
        """The target in the agents' spelling, `agent.name`."""
        return f"{self.agent_id}.{self.capability}"

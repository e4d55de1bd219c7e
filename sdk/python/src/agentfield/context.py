"""Which execution the running code belongs to, and how that is told to whoever it calls."""

import threading
from contextvars import ContextVar

import msgspec

_PASSED_ON = {
    "session_id": "X-Session-ID",
    "actor_id": "X-Actor-ID",
    "root_workflow_id": "X-Root-Workflow-ID",
}


class Context(msgspec.Struct, frozen=True, eq=False):
    """The execution that a reasoner or skill is run for."""

    execution_id: str
    run_id: str = ""
    parent_execution_id: str = ""
    caller_agent_id: str = ""
    session_id: str = ""
    actor_id: str = ""
    root_workflow_id: str = ""
    stopped: threading.Event = msgspec.field(default_factory=threading.Event)

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled it. Coroutines are cancelled by themselves; plain functions may look here."""
        return self.stopped.is_set()


CURRENT: ContextVar[Context | None] = ContextVar("agentfield_context", default=None)


def current() -> Context | None:
    """Return the execution that the running code belongs to, if there is one."""
    return CURRENT.get()


def read_context(headers: dict[str, str]) -> Context | None:
    """Read what the control plane says with a call; without an execution id it is nobody's."""
    execution_id = headers.get("x-execution-id", "")
    if not execution_id:
        return None
    return Context(
        execution_id,
        headers.get("x-run-id", ""),
        headers.get("x-parent-execution-id", ""),
        headers.get("x-caller-agent-id", ""),
        headers.get("x-session-id", ""),
        headers.get("x-actor-id", ""),
        headers.get("x-root-workflow-id", ""),
    )


def headers_for(node_id: str) -> tuple[tuple[str, str], ...]:
    """Return what to send with a call, so that it belongs to the run of its parent."""
    here = current()
    pairs = [("X-Caller-Agent-ID", node_id)]
    if here is not None:
        pairs += [("X-Run-ID", here.run_id), ("X-Parent-Execution-ID", here.execution_id)]
        pairs += [(name, getattr(here, field)) for field, name in _PASSED_ON.items()]
    return tuple((name, value) for name, value in pairs if value and value.isascii() and value.isprintable())

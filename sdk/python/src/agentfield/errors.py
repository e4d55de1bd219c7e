"""What can go wrong, as one tree.

    AgentFieldError
    ├── ConnectionFailed      no answer: the control plane is not there, or went away
    ├── Timeout               it took longer than you allowed; what was accepted goes on
    ├── BadAnswer             an answer came, and it is not what a control plane sends
    ├── APIError              the control plane refused: status, code, message, request_id, details
    │   ├── InvalidRequest    400, 413: correct the request
    │   │   └── InvalidInput  422: the input does not fit the schema; `violations` says where
    │   ├── Unauthorized      401: the key is missing or wrong
    │   ├── Forbidden         403: the operator's rules do not allow it
    │   ├── NotFound          404: no such agent, capability or execution; `nearest` has what comes near
    │   ├── Conflict          409: it has ended already
    │   └── Unavailable       429, 503: try again later
    ├── ExecutionFailed       it was run, and failed; `execution` has everything that is known
    │   ├── ExecutionCancelled
    │   └── ExecutionTimedOut
    ├── InvalidToolCall       a model called a tool that is not there, or with arguments that are no JSON object
    └── WouldBlock            a blocking call in a coroutine that an agent runs: use the one with `await`

No error ever has the API key in it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from agentfield.execution import Execution


class AgentFieldError(Exception):
    """Everything that this library raises by itself."""


class ConnectionFailed(AgentFieldError):
    """There was no answer."""


class Timeout(AgentFieldError):
    """It took longer than the caller allowed.

    Attributes:
        execution_id: What goes on without you, if it was accepted; wait again with `app.handle(execution_id).wait()`.
    """

    def __init__(self, message: str, execution_id: str = "") -> None:
        super().__init__(message)
        self.execution_id = execution_id


class BadAnswer(AgentFieldError):
    """An answer came that no control plane sends: perhaps a proxy's, or another program's."""


class APIError(AgentFieldError):
    """The control plane refused.

    Attributes:
        status: The HTTP status.
        code: The server's word for programs, such as `not_found`.
        message: The server's sentence for people.
        request_id: What to look for in the server's log.
        details: What the server knows besides.
    """

    advice: ClassVar[str] = ""

    def __init__(
        self,
        status: int,
        code: str = "",
        message: str = "",
        request_id: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message or f"HTTP {status}"
        self.request_id = request_id
        self.details: Mapping[str, Any] = details or {}
        known = ", ".join(part for part in (f"{status} {code}".strip(), request_id) if part)
        super().__init__(" ".join(part for part in (self.message, self.advice, f"[{known}]") if part))


class InvalidRequest(APIError):
    """The request is wrong; repeating it will not help."""


class InvalidInput(InvalidRequest):
    """The input does not fit the schema of what was to be executed."""

    @property
    def violations(self) -> list[str]:
        """Where it does not fit, each as one sentence."""
        return _texts(self.details.get("violations"))

    @property
    def schema(self) -> dict[str, Any]:
        """What would fit."""
        found = self.details.get("schema")
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


class Unauthorized(APIError):
    """The key is missing or wrong."""

    advice = "Set AGENTFIELD_API_KEY, or pass api_key= to Agent()."


class Forbidden(APIError):
    """The operator's rules do not allow it."""


class NotFound(APIError):
    """There is no such agent, capability or execution."""

    @property
    def nearest(self) -> list[str]:
        """Names that exist and look like the one that does not."""
        return _texts(self.details.get("nearest"))


class Conflict(APIError):
    """It is too late for this: the execution has ended."""


class Unavailable(APIError):
    """The control plane cannot do it now."""

    advice = "Try again later."


class ExecutionFailed(AgentFieldError):
    """It was accepted and run, and did not succeed.

    Attributes:
        execution: Everything that is known of it: `status_reason`, `error`, `error_details`, its ids.
    """

    def __init__(self, message: str, execution: "Execution") -> None:
        super().__init__(message)
        self.execution = execution


class ExecutionCancelled(ExecutionFailed):
    """Somebody cancelled it."""


class ExecutionTimedOut(ExecutionFailed):
    """The agent did not end it in time."""


class InvalidToolCall(AgentFieldError):
    """A model's tool call cannot be executed; show it the message, so that it can correct itself."""


class WouldBlock(AgentFieldError):
    """A blocking call would stop the agent that makes it."""


REFUSALS: Mapping[int, type[APIError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: InvalidRequest,
    409: Conflict,
    413: InvalidRequest,
    422: InvalidInput,
    429: Unavailable,
    503: Unavailable,
}
"""The class of each status; any other is a plain `APIError`."""


def _texts(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]

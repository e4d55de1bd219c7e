"""POST /api/v1/nodes/{id}/heartbeat, raw ASGI: most requests of a large fleet are these.

Only what is as usual is answered here: a body in one piece, from an agent that is known. Everything else is handed on,
and the route of the same address says what is wrong with it.
"""

from asyncio import get_running_loop, timeout_at
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from msgspec.json import encode

from switchboard.actions.ports import Clock
from switchboard.actions.register import Register
from switchboard.catalog import health
from switchboard.catalog.errors import SwitchboardError
from switchboard.rest.answers import time_text
from switchboard.rest.bodies import BODY_S, fields_of
from switchboard.telemetry.metrics import Metrics

BASE = "/api/v1/nodes/"
END = "/heartbeat"
_LARGEST = 4096

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Heartbeats:
    """The endpoint, and what comes behind it."""

    def __init__(self, register: Register, clock: Clock, metrics: Metrics) -> None:
        self._register = register
        self._clock = clock
        self._metrics = metrics

    def takes(self, method: str, path: str) -> bool:
        """Tell whether a request is a heartbeat."""
        return method == "POST" and path.endswith(END) and path.startswith(BASE)

    async def answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send, others: Application) -> None:
        """Take a heartbeat in, or hand it on with what has been read of it."""
        until = get_running_loop().time() + BODY_S
        try:
            async with timeout_at(until):
                message = await receive()
        except TimeoutError as error:
            await others(scope, _failing(error), send)
            return
        try:
            is_taken = self._is_taken(scope["path"][len(BASE) : -len(END)], message)
            body = encode(self.taken()) if is_taken else b""
        except Exception as error:  # noqa: BLE001 - a request ends behind this, with an answer and a log line
            await others(scope, _failing(error), send)
            return
        if not is_taken:
            await others(scope, _again(message, receive, until), send)
            return
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def beat(self, agent_id: str, fields: dict[str, Any]) -> None:
        """Note a sign of life; its own time is not trusted.

        Raises:
            SwitchboardError: there is no such agent, or it cannot be noted now.
        """
        said = fields.get("status")
        self._register.beat(agent_id, (health.said(said) if isinstance(said, str) else None) or "ready")
        self._metrics.heartbeats.value += 1

    def taken(self) -> dict[str, Any]:
        """Return what an agent is told."""
        return {"success": True, "message": "heartbeat received", "timestamp": time_text(self._clock.now())}

    def _is_taken(self, agent_id: str, message: Message) -> bool:
        body = message.get("body", b"")
        if message["type"] != "http.request" or message.get("more_body") or len(body) > _LARGEST:
            return False
        try:
            self.beat(agent_id, fields_of(body))
        except SwitchboardError:
            return False
        return True


def _failing(error: Exception) -> Receive:
    """Let whoever reads on find what went wrong before."""

    async def fail() -> Message:
        raise error

    return fail


def _again(message: Message, receive: Receive, until: float) -> Receive:
    """Give out a message that was read already, and then what follows it in time."""
    read = [message]

    async def receive_again() -> Message:
        if read:
            return read.pop()
        async with timeout_at(until):
            return await receive()

    return receive_again

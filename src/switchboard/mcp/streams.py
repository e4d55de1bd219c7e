"""What goes back over HTTP while a request is open: one answer as it is, or server-sent events until it is there.

A message waits here until the client takes it. A client that takes nothing for long is given up, so that memory does
not grow behind it.
"""

from asyncio import FIRST_COMPLETED, Future, Task, create_task, get_running_loop, wait
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from switchboard.mcp.messages import is_answer

KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": keep-alive\n\n"
_MOST_WAITING = 1000

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Pairs = Iterable[tuple[bytes, bytes]]


class Bell:
    """Wakes everybody who waits for the same thing."""

    def __init__(self) -> None:
        self._next: Future[None] | None = None

    @property
    def next(self) -> Future[None]:
        """What is done when it rings next."""
        if self._next is None:
            self._next = get_running_loop().create_future()
        return self._next

    def ring(self) -> None:
        """Wake everybody."""
        rung, self._next = self._next, None
        if rung is not None and not rung.done():
            rung.set_result(None)


class Outbox:
    """The messages for one open request, in order; the answer is the last."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._bell = Bell()
        self.is_over = False
        """Whether nothing more will come: the answer is there, or there will be none."""

    def put(self, message: bytes) -> None:
        """Take a message of the conversation."""
        if self.is_over:
            return
        self._messages.append(message)
        self.is_over = is_answer(message)
        if len(self._messages) > _MOST_WAITING:
            self._messages.clear()
            self.is_over = True
        self._bell.ring()

    def end(self) -> None:
        """Say that there will be no answer."""
        self.is_over = True
        self._bell.ring()

    @property
    def waiting(self) -> int:
        """How many messages the client has not taken."""
        return len(self._messages)

    def keep_answer(self) -> None:
        """Drop everything but the answer."""
        self._messages = deque(message for message in self._messages if is_answer(message))

    def take(self) -> list[bytes]:
        """Return what has come."""
        messages = list(self._messages)
        self._messages.clear()
        return messages

    async def filled(self, gone: "Task[None]", within_s: float | None) -> None:
        """Wait until something is there or it is over, but not longer than that, nor for a client that has gone."""
        if not self._messages and not self.is_over:
            await wait((self._bell.next, gone), timeout=within_s, return_when=FIRST_COMPLETED)


def until_gone(receive: Receive) -> "Task[None]":
    """Return what ends when the client has closed its side; to be cancelled by whoever asked."""

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return create_task(listen())


async def answer(send: Send, status: int, body: bytes = b"", headers: Pairs = ()) -> None:
    """Send one answer, JSON where there is any."""
    kind = [(b"content-type", b"application/json")] if body else []
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def begin(send: Send, headers: Pairs = ()) -> None:
    """Begin a stream of events."""
    own = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store, no-transform"),
        (b"x-accel-buffering", b"no"),  # or nginx would keep events until there are many
    ]
    await send({"type": "http.response.start", "status": 200, "headers": [*own, *headers]})


async def tell(send: Send, messages: Iterable[bytes]) -> None:
    """Send messages as events; none keeps the way open."""
    body = b"".join(b"event: message\ndata: %b\n\n" % message for message in messages)
    await send({"type": "http.response.body", "body": body or KEEP_ALIVE, "more_body": True})


async def end(send: Send) -> None:
    """End a stream of events."""
    await send({"type": "http.response.body", "body": b""})

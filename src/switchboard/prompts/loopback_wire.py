"""HTTP/1.1 for the loopback server: uvicorn's protocol, one request a connection, within limits, and silent.

Not uvicorn's server: it takes the process's signals, wakes ten times a second, and sets up the logging of others.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from logging import CRITICAL, Logger
from typing import Any, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

LARGEST_HEAD = 16 * 1024
MOST_CONNECTIONS = 50

Headers = list[tuple[bytes, bytes]]


class _Application(Protocol):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


def wire(
    application: _Application, *, headers: Headers, idle_s: float
) -> tuple[ServerState, Callable[[], asyncio.Protocol]]:
    """Return what makes the protocol of a new connection, and the state that all of them share.

    `headers` are those of an answer to something that is no request.
    """
    config = uvicorn.Config(
        application,
        interface="asgi3",
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=True,  # said "no", uvicorn would unmake a logger of the process; a connection of ours is silent
        proxy_headers=False,  # nobody stands between the person's browser and us
        server_header=False,
    )
    config.load()
    state = ServerState()

    def connection() -> asyncio.Protocol:
        made = _Connection(config, state, headers, idle_s)
        made.app = application  # not the one of `config`: where somebody traces uvicorn, that one logs every request
        return made

    return state, connection


class _Connection(HttpToolsProtocol):
    """One connection: a head and a body within limits of size and time, one answer, and the end."""

    def __init__(self, config: uvicorn.Config, state: ServerState, refusal: Headers, idle_s: float) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        # A logger that belongs to nobody: what comes in from a socket is never written down.
        self.logger = self.access_logger = Logger("silent", CRITICAL + 1)  # noqa: LOG001 - on purpose
        self.access_log = False
        self._refusal = refusal
        self._idle_s = idle_s
        self._left_for_head = LARGEST_HEAD
        self._head_complete = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Expect a request, unless too many are expected already."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, the head only so far as it may be long."""
        if self.transport.is_closing():
            return
        if self._head_complete:
            super().data_received(data)
            return
        head, rest = data[: self._left_for_head], data[self._left_for_head :]
        self._left_for_head -= len(head)
        super().data_received(head)
        if not self._head_complete and not self._left_for_head:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif rest:
            self.data_received(rest)

    def on_headers_complete(self) -> None:
        """The head is here."""
        self._head_complete = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is here; how long its answer takes is not the browser's fault."""
        self._stop_expecting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is on its way; who does not fetch it loses it."""
        super().on_response_complete()
        self._expect()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, with the headers of every answer and without a word."""
        del msg
        self._refuse(HTTPStatus.BAD_REQUEST)

    def _refuse(self, status: HTTPStatus) -> None:
        if self.transport.is_closing():
            return
        lines = [b"HTTP/1.1 %d %b" % (status, status.phrase.encode())]
        lines += [b"%b: %b" % header for header in [*self._refusal, (b"content-length", b"0")]]
        self.transport.write(b"\r\n".join([*lines, b"", b""]))
        self.transport.close()

    def _expect(self) -> None:
        self._stop_expecting()
        self._deadline = self.loop.call_later(self._idle_s, self.transport.abort)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

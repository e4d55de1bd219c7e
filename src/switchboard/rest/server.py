"""The HTTP server: uvicorn, with an accept loop of our own, and a short way for answers that need no waiting.

uvloop accepts one connection per turn of its loop; under load, a thousand clients that connect at once wait seconds for
their turn. Here everything that waits is accepted in one go. A request that can be answered at once is answered as soon
as its head is read: no task, no messages, no timer of its own. Everything unusual goes the long way through uvicorn.
"""

import asyncio
import errno
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from switchboard.rest.replies import Headers, Reply

_ACCEPTED_AT_ONCE = 256
_REST_S = 0.1
_DRAIN_S = 20
_GOODBYE_S = 1.0
"""How long before the end of that whoever still waits is sent away, so that he gets an answer."""
_LAST_WORDS_S = 0.05
_HEAD_S = 10.0
_LARGEST_HEAD = 64 * 1024
_BACKLOG = 2048
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_UNUSUAL = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
_SMALL_BODY = 64 * 1024

Application = Callable[[Any, Any, Any], Awaitable[None]]
AtOnce = Callable[[bytes, bytes, Headers], Reply | None]
"""Answers a request by its method, its address and its headers, or says that it has to be asked the long way."""


class _Connection(HttpToolsProtocol):
    """One connection, which may be slow or talkative only within limits until its request's head is complete.

    Setting a timer and taking it back costs as much as reading a small request. So a head that comes in one piece gets
    none, and a connection that is answered at once has one for all its requests, which looks when the last one was.
    """

    at_once: AtOnce | None = None
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = False
    _is_plain = True
    _was_answered = False
    _answered_at = 0.0
    _idle_watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing any more."""
        self._head_is_complete()
        if self._idle_watch is not None:
            self._idle_watch.cancel()
            self._idle_watch = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the head is complete."""
        if self._deadline is not None:
            if self._head_bytes > _LARGEST_HEAD:
                self.transport.close()
                return
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._deadline is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        """A request begins; where its head does not end with what has come, the time begins anew."""
        self._in_head = self._is_plain = True
        self.url, self.headers = b"", []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header."""
        name = name.lower()
        self.headers.append((name, value))
        if name in _UNUSUAL:
            self._is_plain = False

    def on_headers_complete(self) -> None:
        """The head is here: answer at once, or leave what follows to the application."""
        self._head_is_complete()
        reply = self._reply()
        if reply is not None:
            self._was_answered = True
            self._write(reply)
            return
        url, headers = self.url, self.headers
        super().on_message_begin()  # makes what describes a request to an application
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; who was answered at once has sent none."""
        if not self._was_answered:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        if self._was_answered:
            self._was_answered = False
        else:
            super().on_message_complete()

    def _reply(self) -> Reply | None:
        """Return the answer to a plain request that nothing speaks against answering now."""
        parser = self.parser
        if (
            self.at_once is None
            or parser is None
            or self._is_busy
            or self.flow.write_paused
            or not parser.should_keep_alive()
            or parser.get_http_version() != "1.1"
            or not self._is_plain
            or b"#" in self.url
            or self.transport.is_closing()
        ):
            return None
        return self.at_once(parser.get_method(), self.url, self.headers)

    def _write(self, reply: Reply) -> None:
        parts = [STATUS_LINE[reply.status]]
        for name, value in (*self.server_state.default_headers, *reply.headers):
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n")
        if len(reply.body) <= _SMALL_BODY:
            parts.append(reply.body)
            self.transport.write(b"".join(parts))
        else:  # not copied
            self.transport.writelines((b"".join(parts), reply.body))
        self.server_state.total_requests += 1
        self._answered_at = self.loop.time()
        if self._idle_watch is None:
            self._idle_watch = self.loop.call_later(self.timeout_keep_alive, self._look_whether_idle)

    def _look_whether_idle(self) -> None:
        """Close a connection on which nothing has happened for long; one that uvicorn watches is its business."""
        self._idle_watch = None
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left <= 0 and not (self._in_head or self._is_busy) and self.timeout_keep_alive_task is None:
            self.transport.close()
        elif not self.transport.is_closing():
            after = left if left > 0 else self.timeout_keep_alive
            self._idle_watch = self.loop.call_later(after, self._look_whether_idle)

    @property
    def _is_busy(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._deadline = self.loop.call_later(_HEAD_S, self._give_up)

    def _head_is_complete(self) -> None:
        self._in_head = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        self.transport.close()


class Server(uvicorn.Server):
    """Serves one application on one socket until it is told to stop; then finishes what it has begun."""

    def __init__(  # noqa: PLR0913 - one for each step of its life
        self,
        application: Application,
        *,
        begun: Callable[[], None],
        leaving: Callable[[], None],
        ending: Callable[[], None],
        closing: Callable[[], None],
        drain_s: float = 0.0,
        at_once: AtOnce | None = None,
    ) -> None:
        """Prepare to serve.

        `leaving` is called when no new requests should come, `ending` when none are taken any more, `closing` when
        those that wait have waited long enough; `drain_s` lies between the first two, and is for whoever sends requests
        here to notice. `at_once` answers what needs no waiting.
        """
        config = uvicorn.Config(
            application,
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nobody here asks where a request is from, so nobody need be believed
            timeout_graceful_shutdown=_DRAIN_S,
            timeout_keep_alive=75,
        )
        super().__init__(config)
        self._begun = begun
        self._leaving = leaving
        self._ending = ending
        self._closing = closing
        self._drain_s = drain_s
        self._at_once = at_once
        self._is_draining = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: socket.socket | None = None
        self._joining: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept."""
        await self.lifespan.startup()
        self._loop = asyncio.get_running_loop()
        self._listener = (sockets or [])[0]
        self._listener.setblocking(False)
        self.servers = []
        self._listen()
        self.started = True
        self._begun()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nobody any more, then let every request end."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._accept(self._listener)  # who has connected already is not turned away
            await asyncio.gather(*self._joining)
            await asyncio.sleep(_LAST_WORDS_S)
        last_call = asyncio.get_running_loop().call_later(_DRAIN_S - _GOODBYE_S, self._closing)
        await super().shutdown(sockets)
        last_call.cancel()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take the signals to stop, without raising them again at the end: there is something to write after that."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Say that no new requests should come, and go on for a while; who is told twice, or by hand, stops now."""
        self._leaving()
        if sig == signal.SIGTERM and self._drain_s > 0 and not self._is_draining and self._loop is not None:
            self._is_draining = True
            self._loop.call_soon_threadsafe(self._drain, sig, frame)
            return
        self._ending()
        super().handle_exit(sig, frame)

    def _drain(self, sig: int, frame: FrameType | None) -> None:
        """Ask everybody to connect elsewhere for the next request, and end after a while."""
        self._at_once = None
        for connection in self.server_state.connections:
            if isinstance(connection, _Connection):
                connection.at_once = None  # the long way says to whom it is the last answer
        self.config.encoded_headers = [*self.config.encoded_headers, (b"connection", b"close")]
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        asyncio.get_running_loop().call_later(self._drain_s, self.handle_exit, sig, frame)

    def _listen(self) -> None:
        if self._listener is not None and self._listener.fileno() >= 0 and not self.should_exit:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept, self._listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, _address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_FILES:
                    raise
                # No file is free: clients wait in the queue until some are.
                loop.remove_reader(listener.fileno())
                loop.call_later(_REST_S, self._listen)
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = loop.create_task(self._join(connection))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()

    def _protocol(self) -> asyncio.Protocol:
        connection = _Connection(config=self.config, server_state=self.server_state, app_state={})
        connection.at_once = self._at_once
        return connection


def bind(host: str, port: int) -> socket.socket:
    """Open the socket to listen on.

    Raises:
        OSError: the address is taken, or is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener

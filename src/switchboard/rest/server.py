"""The HTTP server: uvicorn, with an accept loop of our own.

uvloop accepts one connection per turn of its loop; under load, a thousand clients that connect at once wait seconds for
their turn. Here everything that waits is accepted in one go.
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

from switchboard.rest.connections import MOST_HEADS, AtOnce, Connection, Heads

_ACCEPTED_AT_ONCE = 256
_REST_S = 0.1
_DRAIN_S = 20
_GOODBYE_S = 1.0
"""How long before the end of that whoever still waits is sent away, so that he gets an answer."""
_LAST_WORDS_S = 0.05
_BACKLOG = 2048
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Application = Callable[[Any, Any, Any], Awaitable[None]]


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
        most_heads: int = MOST_HEADS,
    ) -> None:
        """Prepare to serve.

        `leaving` is called when no new requests should come, `ending` when none are taken any more, `closing` when
        those that wait have waited long enough; `drain_s` lies between the first two, and is for whoever sends requests
        here to notice. `at_once` answers what needs no waiting,
        and `most_heads` says how many heads of such requests are remembered.
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
        self._heads = Heads(most_heads)
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
            if isinstance(connection, Connection):
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
        connection = Connection(config=self.config, server_state=self.server_state, app_state={})
        connection.at_once, connection.heads = self._at_once, self._heads
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

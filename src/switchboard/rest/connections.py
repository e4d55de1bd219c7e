"""One connection of the HTTP server: limits while a head is read, and a short way for answers that need no waiting.

A request that can be answered at once is answered as soon as its head is read: no task, no messages, no timer of its
own. Everything unusual goes the long way through uvicorn.

A client writes the same headers with every request. So what the headers of such a request mean is remembered by their
very bytes, and the next request with the same ones is answered without reading them again.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from switchboard.catalog.caches import Cache
from switchboard.rest.questions import Wishes
from switchboard.rest.replies import Headers, Reply

MOST_HEADS = 256
_LONGEST_REMEMBERED = 2048
_HEAD_S = 10.0
_LARGEST_HEAD = 64 * 1024
_SMALL_BODY = 16 * 1024
_UNUSUAL = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
_LASTING = frozenset(
    {
        *(b"host", b"connection", b"user-agent", b"accept", b"accept-encoding", b"accept-language", b"cache-control"),
        *(b"authorization", b"x-api-key", b"if-none-match"),
    }
)
"""What a client says with every request. A head with anything else in it is most likely another one the next time."""
_GET, _VERSION, _LINE_END, _HEAD_END = b"GET ", b" HTTP/1.1", b"\r\n", b"\r\n\r\n"
_PLAIN = bytes(code for code in range(0x21, 0x7F) if chr(code) != "#")
"""What an address is made of, in every reader's opinion."""


class AtOnce(Protocol):
    """What answers without waiting."""

    def admitted(self, method: bytes, url: bytes, headers: Headers, /) -> Wishes | None:
        """Return what the headers of a request ask for; None where it has to be asked the long way."""
        ...

    def at_once(
        self, method: bytes, url: bytes, wishes: Wishes, request: bytes = b"", opening: bytes = b"", /
    ) -> Reply | None:
        """Answer a request whose headers were admitted, with this or another address; None as above.

        Where the same bytes will mean the same, `request` is all of them, and `opening` how an answer begins now.
        """
        ...

    @property
    def again(self) -> Callable[[bytes], tuple[bytes, bytes] | None]:
        """Answer a request with the very bytes of one that was answered before; None where that is no answer now.

        It begins with the opening that `at_once` was given: a whole head, to the empty line at its end, and a body.
        """
        ...


class Heads:
    """What the connections of a server have in common: what the headers of requests mean, and how answers begin."""

    def __init__(self, most: int = MOST_HEADS) -> None:
        self._known: Cache[bytes, Wishes] = Cache(most)
        self._always: Headers | None = None
        self._openings: dict[int, bytes] = {}

    def read(self, request: bytes) -> tuple[bytes, Wishes] | None:
        """Return the address of a whole request and what its headers ask for, if they have been read before."""
        end = request.find(_LINE_END)
        wishes = self._known.get(request[end:])
        if wishes is None or request[:4] != _GET or request[end - 9 : end] != _VERSION:
            return None
        url = request[4 : end - 9]
        return None if url.translate(None, _PLAIN) else (url, wishes)

    def learn(self, request: bytes, url: bytes, headers: Headers, wishes: Wishes) -> None:
        """Remember what the headers of a request mean, where it is nothing but one head with nothing unusual in it.

        The bytes that follow the first line are the key. So the first line has to be the one that the parser saw, or
        a header could stand in it, and there must be no second head behind the first.
        """
        line = _GET + url + _VERSION
        block = request[len(line) :]
        if (
            len(block) <= _LONGEST_REMEMBERED
            and request.startswith(line)
            and block.startswith(_LINE_END)
            and block.find(_HEAD_END) == len(block) - len(_HEAD_END)
            and block.count(b"\n") == block.count(_LINE_END)
            and all(name in _LASTING for name, _ in headers)
        ):
            self._known.keep(block, wishes)

    def opening(self, status: int, always: Headers) -> bytes:
        """Return how an answer begins: its status, and the headers of all answers, which change every second."""
        if always is not self._always:
            self._always, self._openings = always, {}
        opening = self._openings.get(status)
        if opening is None:
            lines = [b"%b: %b\r\n" % header for header in always]
            opening = self._openings[status] = b"".join((STATUS_LINE[status], *lines))
        return opening


class Connection(HttpToolsProtocol):
    """One connection, which may be slow or talkative only within limits until its request's head is complete.

    Setting a timer and taking it back costs as much as reading a small request. So a head that comes in one piece gets
    none, and a connection that is answered at once has one for all its requests, which looks when the last one was.
    """

    at_once: AtOnce | None = None
    heads: Heads
    _piece = b""
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = False
    _in_message = False
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
        """Take what has come; what comes before a head is complete is counted."""
        if not self._in_message:
            at_once = self.at_once
            if (
                at_once is not None
                and self.timeout_keep_alive_task is None
                and not self.flow.write_paused
                and (not self.cycle or self.cycle.response_complete)
            ):
                again = at_once.again(data)
                if again is not None:
                    self._note_answer()
                    self._write(again)
                    return
                known = self.heads.read(data)
                reply = None if known is None else at_once.at_once(b"GET", *known, data, self._opening(200))
                if reply is not None:
                    self._send(reply)
                    return
            self._piece = data if len(data) <= _LARGEST_HEAD and data.startswith(_GET) else b""
        if self._deadline is not None:
            if self._head_bytes > _LARGEST_HEAD:
                self.transport.close()
                return
            self._head_bytes += len(data)
        super().data_received(data)
        self._piece = b""
        if self._in_head and self._deadline is None:
            self._expect_head()

    def on_message_begin(self) -> None:
        """A request begins; where its head does not end with what has come, the time begins anew."""
        self._in_head = self._in_message = self._is_plain = True
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
            self._send(reply)
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
        self._in_message = False
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
        method = parser.get_method()
        wishes = self.at_once.admitted(method, self.url, self.headers)
        reply = None if wishes is None else self.at_once.at_once(method, self.url, wishes)
        if wishes is not None and reply is not None and self._piece:
            self.heads.learn(self._piece, self.url, self.headers, wishes)
        return reply

    def _send(self, reply: Reply) -> None:
        self._note_answer()
        head, body = (self._opening(reply.status), reply.head, _LINE_END), reply.body
        if isinstance(body, list):
            self.transport.write(b"".join((*head, *body)))
        else:
            self._write((b"".join(head), body))

    def _write(self, answer: tuple[bytes, bytes]) -> None:
        if len(answer[1]) <= _SMALL_BODY:
            self.transport.write(b"".join(answer))
        else:  # not copied
            self.transport.writelines(answer)

    def _opening(self, status: int) -> bytes:
        return self.heads.opening(status, self.server_state.default_headers)

    def _note_answer(self) -> None:
        """Wait no longer for a head, and from now on for the next one."""
        if self._deadline is not None:
            self._head_is_complete()
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

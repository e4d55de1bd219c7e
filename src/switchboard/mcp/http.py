"""MCP over Streamable HTTP, in both generations of the protocol, as one ASGI application.

Every request stands for itself: nothing is remembered between two, so any instance may answer any of them. A request
is answered with JSON; with server-sent events where there is something to say before its answer, or where that takes
long. A client that closes its side takes its request back, for there is no way to come back for the answer.

Who may come from where, and whose key a request has, is asked before anything is read.
"""

import re
from asyncio import FIRST_COMPLETED, Task, timeout, wait
from collections.abc import Mapping, MutableMapping
from secrets import token_hex
from time import perf_counter
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from switchboard.actions.ports import Clock
from switchboard.catalog.model import Caller
from switchboard.mcp import results, streams
from switchboard.mcp.envelope import VERSION, Envelope, Headers
from switchboard.mcp.greeting import MODERN, Greeting
from switchboard.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Fault,
    expects_answer,
    failed,
)
from switchboard.mcp.progress import telling
from switchboard.mcp.protocol import Connection, Method, Session
from switchboard.mcp.sealing import Seal
from switchboard.mcp.streams import Bell, Outbox, Receive, Send
from switchboard.mcp.visitors import Visitors
from switchboard.telemetry.logs import Log, fault
from switchboard.telemetry.metrics import Metrics

LARGEST = 16 * 1024 * 1024
_MOST_VALUES = 500_000
_BODY_S = 30.0
PATIENCE_S = 10.0
"""How long a request stays without a sign; after that a stream begins, which keeps the way open."""
MOST_STREAMS = 10_000
_SESSION = "Mcp-Session-Id"
_LONGEST_SESSION = 200
_BAD_MODERN = frozenset({PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
_BAD_LEGACY = frozenset({PARSE_ERROR, INVALID_REQUEST, UNSUPPORTED_VERSION})
_METHODS = "GET, POST"
_GONE = 499
"""What a log says of a request whose client has gone; it is sent to nobody."""
_ERRORS = 400
_OTHER = {name: name for name in ("initialize", "ping", "server/discover")}
_JSON, _EVENTS = "application/json", "text/event-stream"
_CHANGED = [b'{"jsonrpc":"2.0","method":"notifications/%b/list_changed"}' % kind for kind in (b"tools", b"resources")]

Scope = MutableMapping[str, Any]
Running = tuple[str, str, object]
"""Whose request it is, in which conversation, under which id: nobody can take back what is another's."""


class _Error(Struct):
    code: int


class _Answer(Struct):
    error: _Error | UnsetType = UNSET


_answers = msgspec.json.Decoder(_Answer)


class Refusal(Exception):
    """A request that is not taken, with the status that says why."""

    def __init__(self, status: int, message: str, *, code: int = INVALID_REQUEST, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = failed(None, Fault(code, message))
        self.headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]


class Wishes(Struct, frozen=True):
    """What a client takes as an answer; who says nothing takes everything."""

    json: bool
    events: bool

    @classmethod
    def of(cls, headers: Headers) -> "Wishes":
        """Read `Accept`."""
        ranges = [_range(item) for value in headers.all("accept") for item in value.split(",")]
        wanted = {kind for kind in ranges if kind} or ({"*/*"} if not ranges else set[str]())
        return cls(*(any(_fits(kind, known) for known in wanted) for kind in (_JSON, _EVENTS)))


class Visit(Struct, frozen=True, kw_only=True):
    """One HTTP request while it is being answered."""

    headers: Headers
    caller: str
    receive: Receive
    send: Send
    request_id: str
    shared: list[tuple[bytes, bytes]]
    """Headers of every answer to it."""


class Turn:
    """One message that is being answered."""

    __slots__ = ("begun", "envelope", "modern", "outbox", "visit", "wishes")

    def __init__(self, visit: Visit, envelope: Envelope, wishes: Wishes, modern: bool, begun: float) -> None:
        self.visit = visit
        self.envelope = envelope
        self.wishes = wishes
        self.modern = modern
        self.begun = begun
        self.outbox = Outbox()


class Endpoint:
    """Answers everything at one path."""

    def __init__(  # noqa: PLR0913 - what it talks about, with whom, and where it writes that down
        self,
        methods: Mapping[str, Method],
        greeting: Greeting,
        visitors: Visitors,
        *,
        clock: Clock,
        log: Log,
        metrics: Metrics,
        patience_s: float = PATIENCE_S,
    ) -> None:
        call = methods.get("tools/call")
        self._methods = {**methods, "tools/call": telling(call)} if call is not None else dict(methods)
        self._greeting = greeting
        self._visitors = visitors
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._patience_s = patience_s
        # Nothing that is served here asks a client anything, so no state has to be read by another instance.
        self._seal = Seal()
        self._running: dict[Running, tuple[Connection, Outbox]] = {}
        self._bell = Bell()
        self._streams = 0
        self._is_closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; `scope["state"]` says whose key it has, if any, and what it is called in the log."""
        headers, state = Headers(scope["headers"]), scope["state"]
        origin = headers.first("origin")
        shared = _for_pages(origin) if origin and self._visitors.is_named(origin) else []
        visit = Visit(
            headers=headers,
            caller=state["caller"] or "",
            receive=receive,
            send=send,
            request_id=state["request_id"],
            shared=shared,
        )
        try:
            self._admit(scope["method"], visit)
            if scope["method"] == "OPTIONS":
                await streams.answer(send, 204, headers=[*shared, (b"allow", _METHODS.encode())])
            elif scope["method"] == "GET":
                await self._listen(visit)
            else:
                await self._post(visit)
        except Refusal as refusal:
            self._note(visit, Envelope(kind="unreadable"), refusal.status, perf_counter())
            await streams.answer(send, refusal.status, refusal.body, [*refusal.headers, *shared])
        except Exception as error:  # noqa: BLE001 - a request ends here, with a log line
            self._log.event(
                "error", "mcp request failed", self._clock.now(), request_id=visit.request_id, error=fault(error)
            )
            await streams.answer(send, 500, failed(None, Fault(INTERNAL_ERROR, "It failed; the log says why.")), shared)

    def changed(self) -> None:
        """Tell everybody who listens that the lists are not what they were."""
        self._bell.ring()

    def close(self) -> None:
        """End every stream that only waits for changes; its client connects elsewhere."""
        self._is_closed = True
        self._bell.ring()

    def _admit(self, method: str, visit: Visit) -> None:
        why = self._visitors.refusal(visit.headers.all("host"), visit.headers.all("origin"))
        if why is not None:
            raise Refusal(403, why)
        if method not in ("GET", "POST", "OPTIONS"):
            raise Refusal(405, f"{method} is not possible here. Possible: {_METHODS}.", allow=_METHODS)
        if method != "OPTIONS" and not visit.caller:
            message = "invalid or missing API key. Send it as X-API-Key, or as Authorization: Bearer."
            raise Refusal(401, message, www_authenticate="Bearer")

    # What only the handshake generation has: a stream without a request

    async def _listen(self, visit: Visit) -> None:
        """Tell a client of changes for as long as it listens; changes that come faster than it reads are one."""
        wishes = Wishes.of(visit.headers)
        if visit.headers.first(VERSION) in MODERN or not wishes.events or not visit.headers.all("accept"):
            raise Refusal(
                405, "There is a stream here for older clients only. Send requests with POST.", allow=_METHODS
            )
        if self._streams >= MOST_STREAMS or self._is_closed:
            raise Refusal(503, "No more streams can be opened here now.", retry_after="1")
        self._streams += 1
        self._metrics.mcp_streams.inc()
        gone = streams.until_gone(visit.receive)
        try:
            await streams.begin(visit.send, visit.shared)
            rung = self._bell.next
            await streams.tell(visit.send, ())
            while not gone.done() and not self._is_closed:
                await wait((rung, gone), timeout=streams.KEEP_ALIVE_S, return_when=FIRST_COMPLETED)
                has_rung, rung = rung.done(), self._bell.next
                if not gone.done() and not self._is_closed:
                    await streams.tell(visit.send, _CHANGED if has_rung else ())
            await streams.end(visit.send)
        finally:
            gone.cancel()
            self._streams -= 1
            self._metrics.mcp_streams.dec()

    # One message

    async def _post(self, visit: Visit) -> None:
        begun = perf_counter()
        wishes = Wishes.of(visit.headers)
        if not (wishes.json or wishes.events):
            raise Refusal(406, f"Answers are {_JSON} or {_EVENTS}; Accept has neither.")
        if visit.headers.first("content-type").partition(";")[0].strip().lower() != _JSON:
            raise Refusal(415, f"The body must be {_JSON}, and its Content-Type has to say so.")
        body = await _body(visit)
        envelope = Envelope.of(body)
        if envelope.method == "subscriptions/listen" and not wishes.events:
            raise Refusal(406, f"What is listened to comes as {_EVENTS}, which Accept does not have.")
        try:
            version = envelope.agreed_version(visit.headers)
        except Fault as refused:
            self._note(visit, envelope, 400, begun)
            await streams.answer(visit.send, 400, failed(envelope.id, refused), visit.shared)
            return
        if envelope.kind in ("notification", "answer"):
            self._take(visit, envelope, body)
            self._note(visit, envelope, 202, begun)
            await streams.answer(visit.send, 202, headers=visit.shared)
            return
        await self._converse(Turn(visit, envelope, wishes, version in MODERN, begun), body, version)

    def _take(self, visit: Visit, envelope: Envelope, body: bytes) -> None:
        """Take back the request that a notification names, if it is answered here; nothing else is waited for."""
        running = _running(visit, envelope.cancelled)
        found = None if running is None else self._running.get(running)
        if found is not None and envelope.method == "notifications/cancelled":
            connection, outbox = found
            connection.receive(body)
            outbox.end()

    async def _converse(self, turn: Turn, body: bytes, version: str) -> None:
        """Let a conversation of one message answer it."""
        caller, outbox = Caller(turn.visit.caller), turn.outbox
        session = Session(version=version, caller=caller, ready=True)
        connection = Connection(
            self._methods,
            self._greeting,
            outbox.put,
            log=self._log,
            seal=self._seal,
            session=session,
            known=caller,
            unanswered=outbox.end,
        )
        running = None if turn.modern else _running(turn.visit, turn.envelope.id)
        if running is not None:
            self._running.setdefault(running, (connection, outbox))
        try:
            connection.receive(body)
            if not outbox.is_over and not expects_answer(body):
                outbox.end()
            await (self._reply(turn) if outbox.is_over else self._wait(turn, connection))
        finally:
            if running is not None and self._running.get(running) == (connection, outbox):
                del self._running[running]

    async def _wait(self, turn: Turn, connection: Connection) -> None:
        """Wait for the answer and send it, with what comes before it; end the request if nobody waits for it."""
        gone = streams.until_gone(turn.visit.receive)
        try:
            await self._first_sign(turn, gone)
            if gone.done():
                self._note(turn.visit, turn.envelope, _GONE, turn.begun)
            elif turn.outbox.is_over and turn.outbox.waiting <= 1:
                await self._reply(turn)
            else:
                await self._stream(turn, gone)
        finally:
            gone.cancel()
            await connection.close()

    async def _first_sign(self, turn: Turn, gone: "Task[None]") -> None:
        """Wait for a message or, where the client takes no stream, for the answer; but not for one that has gone."""
        if turn.wishes.events:
            await turn.outbox.filled(gone, self._patience_s)
            return
        while not gone.done() and not turn.outbox.is_over:
            await turn.outbox.filled(gone, None)
            turn.outbox.keep_answer()

    async def _reply(self, turn: Turn) -> None:
        """Send the answer, or that there is none."""
        found = turn.outbox.take()
        if not found:
            self._note(turn.visit, turn.envelope, 202, turn.begun)
            await streams.answer(turn.visit.send, 202, headers=turn.visit.shared)
            return
        status = _status(found[-1], modern=turn.modern)
        headers = turn.visit.shared
        if turn.envelope.method == "initialize" and status == 200:  # noqa: PLR2004 - what the status means
            # Remembered nowhere: it only tells the requests of one client from those of another with the same key.
            headers = [*headers, (_SESSION.lower().encode(), token_hex(16).encode())]
        self._note(turn.visit, turn.envelope, status, turn.begun)
        if turn.wishes.json or status != 200:  # noqa: PLR2004 - as above
            await streams.answer(turn.visit.send, status, found[-1], headers)
            return
        await streams.begin(turn.visit.send, headers)
        await streams.tell(turn.visit.send, found)
        await streams.end(turn.visit.send)

    async def _stream(self, turn: Turn, gone: "Task[None]") -> None:
        """Send everything as events, to the answer."""
        send, outbox = turn.visit.send, turn.outbox
        self._metrics.mcp_streams.inc()
        try:
            await streams.begin(send, turn.visit.shared)
            while not gone.done():
                await streams.tell(send, outbox.take())
                if outbox.is_over and not outbox.waiting:
                    break
                await outbox.filled(gone, streams.KEEP_ALIVE_S)
            await streams.end(send)
        finally:
            self._metrics.mcp_streams.dec()
            self._note(turn.visit, turn.envelope, _GONE if gone.done() else 200, turn.begun)

    def _note(self, visit: Visit, envelope: Envelope, status: int, begun: float) -> None:
        method = envelope.method if envelope.method in self._methods else _OTHER.get(envelope.method, "other")
        outcome = "error" if status >= _ERRORS else "success"
        self._metrics.mcp_requests.labels(method, outcome).inc()
        about = {"name": results.shortened(str(envelope.name))} if envelope.name is not None else {}
        self._log.event(
            "info",
            "mcp request",
            self._clock.now(),
            request_id=visit.request_id,
            method=results.shortened(envelope.method or envelope.kind),
            **about,
            caller=visit.caller,
            client=envelope.client,
            status=status,
            duration_ms=round((perf_counter() - begun) * 1000, 2),
        )


async def _body(visit: Visit) -> bytes:
    """Return the body.

    Raises:
        Refusal: it is too long, takes too long, or has more values than can be read while others wait.
    """
    length = visit.headers.first("content-length")
    if length.isascii() and length.isdigit() and int(length[:20]) > LARGEST:
        raise Refusal(413, f"The body is larger than {LARGEST} bytes.")
    body = bytearray()
    try:
        async with timeout(_BODY_S):
            while True:
                message = await visit.receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "The body did not come to its end.")
                body += message.get("body", b"")
                if len(body) > LARGEST:
                    raise Refusal(413, f"The body is larger than {LARGEST} bytes.")
                if not message.get("more_body"):
                    break
    except TimeoutError as error:
        raise Refusal(408, f"The body was not complete after {_BODY_S:g} s.") from error
    if body.count(b"{") + body.count(b"[") + body.count(b",") > _MOST_VALUES:
        raise Refusal(413, f"The body has more than {_MOST_VALUES} values.")
    return bytes(body)


def _running(visit: Visit, request_id: object) -> Running | None:
    """Return what a request can be taken back by; None where its client cannot be told from others."""
    session = visit.headers.first(_SESSION)
    if not session or len(session) > _LONGEST_SESSION or not isinstance(request_id, int | str):
        return None
    return visit.caller, session, request_id


def _status(answer: bytes, *, modern: bool) -> int:
    """Return the status of an answer: what the protocol wants for errors of the newer one, the older one has few."""
    if answer[:1] == b"[":
        return 200
    error = _answers.decode(answer).error
    if error is UNSET:
        return 200
    if modern and error.code == METHOD_NOT_FOUND:
        return 404
    return 400 if error.code in (_BAD_MODERN if modern else _BAD_LEGACY) else 200


def _range(text: str) -> str:
    """Return a media range of `Accept` without its parameters; nothing where it says that it is not wanted."""
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    unwanted = any(re.fullmatch(r"q\s*=\s*0(\.0*)?", parameter) for parameter in parameters)
    return "" if unwanted else kind


def _fits(kind: str, wanted: str) -> bool:
    return wanted in (kind, "*/*", f"{kind.partition('/')[0]}/*")


def _for_pages(origin: str) -> list[tuple[bytes, bytes]]:
    """Return what lets a browser show answers to pages that the settings name."""
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"access-control-allow-headers", b"*, authorization"),
        (b"access-control-expose-headers", b"mcp-session-id, x-request-id, www-authenticate"),
        (b"access-control-max-age", b"600"),
        (b"vary", b"Origin"),
    ]

"""MCP with one client, in both generations of the protocol: who asks for what, and what is answered.

Methods get an `Exchange` and return a result; they do not see which generation asks. A request that carries its own
protocol version in `_meta` is served by itself (2026-07-28); any other belongs to the handshake of its connection
(2024-11-05 to 2025-11-25). What a method asks of the user goes out as a request of ours on the old protocol, and as a
result that asks for input on the new one, where the client then sends its request again with the answers.

Knows nothing of apps, and nothing of how bytes travel.
"""

import inspect
from asyncio import CancelledError, Future, ensure_future, get_running_loop, wait
from collections.abc import Awaitable, Callable, Mapping
from secrets import token_hex
from time import time
from typing import Any, TypeVar, cast

from msgspec import UNSET, Raw, Struct, UnsetType

from switchboard.catalog.model import Caller
from switchboard.catalog.text import clean
from switchboard.mcp.greeting import CLIENT_CAPABILITIES, LEGACY, MODERN, PROTOCOL_VERSION, Greeting
from switchboard.mcp.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    MOST_IN_A_BATCH,
    PARSE_ERROR,
    UNREADABLE,
    UNSUPPORTED_VERSION,
    Cancelled,
    Fault,
    Implementation,
    Initialize,
    Message,
    Meta,
    Params,
    RequestId,
    Result,
    decode,
    encode,
    failed,
    read_batch,
    read_id,
    read_message,
    read_params,
    succeeded,
    try_id,
    wants_answer,
    what_is_wrong,
)
from switchboard.mcp.sealing import Seal
from switchboard.telemetry.logs import Log, fault

_LONGEST_NAME = 100
_CLOSE_S = 2.0
_BATCHES = frozenset({"2025-03-26", "2024-11-05"})
_ONLY_LEGACY = frozenset({"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
_ONLY_MODERN = frozenset({"server/discover", "subscriptions/listen"})

T = TypeVar("T")


class InputRequired(Exception):
    """A request of the stateless protocol cannot be finished before the client has answered these questions."""

    def __init__(self, questions: Mapping[str, "Question"]) -> None:
        super().__init__(f"asks for {', '.join(questions)}")
        self.questions = questions


class Question(Struct, frozen=True):
    """Something the client is asked, in the terms of the protocol: `elicitation/create` and its parameters."""

    method: str
    params: dict[str, Any] = {}

    @property
    def needs(self) -> dict[str, Any]:
        """The capabilities a client must have declared to be asked this."""
        kind = self.method.partition("/")[0]
        if kind != "elicitation":
            return {kind: {}}
        return {kind: {"url": {}}} if self.params.get("mode") == "url" else {kind: {}}


class Session(Struct):
    """What a connection of the handshake protocol has agreed on, and what others may look at."""

    version: str = LEGACY[0]
    caller: Caller = Caller()
    capabilities: dict[str, Any] = {}
    ready: bool = False
    """Whether the client has said that it is: nothing is sent to it before."""


Method = Callable[["Exchange"], Result | Awaitable[Result]]
Reply = Callable[[bytes | None], None]
"""Takes the answer to a request; None says that there will be none, because the client took the request back."""


class Exchange:
    """One request while it is being answered: who asks, with what, and the ways to talk back meanwhile."""

    def __init__(  # noqa: PLR0913 - every part is one fact about the request
        self,
        connection: "Connection",
        request_id: RequestId,
        method: str,
        params: bytes,
        *,
        common: Params,
        session: Session,
        modern: bool,
    ) -> None:
        self.id = request_id
        self.method = method
        self.caller = session.caller
        self.capabilities = session.capabilities
        self.version = session.version
        self.modern = modern
        self._connection = connection
        self._params = params
        self._token = common.meta.progress_token
        self._answers: dict[str, dict[str, Any]] = {} if common.answers is UNSET else common.answers
        self._state = common.state

    def read(self, kind: type[T]) -> T:
        """Return the parameters as `kind`.

        Raises:
            Fault: they are something else.
        """
        try:
            return decode(self._params, type=kind)
        except UNREADABLE as error:
            raise Fault(INVALID_PARAMS, f"{self.method}: {error}") from error

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to this request."""
        self._connection.notify(method, params)

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to hear how far a request is."""
        return self._token is not UNSET

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the request is, if the client wants to know."""
        if self._token is not UNSET:
            said: dict[str, Any] = {"progressToken": self._token, "progress": done}
            said |= {} if total is None else {"total": total}
            self.notify("notifications/progress", said | ({"message": message} if message else {}))

    def can_be_asked(self, question: Question) -> bool:
        """Tell whether the client has declared that it can be asked this."""
        return _declares(self.capabilities, question.needs)

    async def ask(self, key: str, question: Question) -> dict[str, Any]:
        """Ask the client one question; see `ask_all`."""
        return (await self.ask_all({key: question}))[key]

    async def ask_all(self, questions: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Ask the client, and return its answers by key.

        On the stateless protocol the method ends here and runs again, from its beginning, once the answers are there:
        what stands before an `ask` must bear repetition.

        Raises:
            Fault: the client has not declared that it can be asked this, or answers with an error.
            InputRequired: for the protocol layer to send; do not catch it.
        """
        for question in questions.values():
            if not self.can_be_asked(question):
                needed = {"requiredCapabilities": question.needs}
                raise Fault(MISSING_CAPABILITY if self.modern else INVALID_REQUEST, "the client cannot do this", needed)
        if not self.modern:
            return {key: await self._connection.request(question) for key, question in questions.items()}
        answers = self._earlier_answers() | self._answers
        if not questions.keys() <= answers.keys():
            missing = {key: question for key, question in questions.items() if key not in answers}
            raise InputRequired(missing)
        return {key: answers[key] for key in questions}

    def state(self) -> str:
        """Return the sealed state that a client sends back with its answers: those it gave before, and for what."""
        return self._connection.seal.close({"for": self._subject(), "answers": self._earlier_answers() | self._answers})

    def _earlier_answers(self) -> dict[str, dict[str, Any]]:
        if self._state is UNSET:
            return {}
        state = self._connection.seal.open(self._state)
        if state is None or state.get("for") != self._subject():
            raise Fault(INVALID_PARAMS, "requestState is not ours, is too old, or belongs to another request")
        return state["answers"]

    def _subject(self) -> str:
        """Return what a state is bound to: who asks for what with which parameters, answers and metadata aside."""
        params = decode(self._params, type=dict[str, Any])
        for key in ("_meta", "inputResponses", "requestState"):
            params.pop(key, None)
        return self._connection.seal.digest([self.method, self.caller.name, params])


class Connection:
    """One client: takes its messages, answers its requests, remembers what the handshake agreed on."""

    def __init__(  # noqa: PLR0913 - a connection has two ends, and tests replace the rest
        self,
        methods: Mapping[str, Method],
        greeting: Greeting,
        send: Callable[[bytes], None],
        *,
        log: Log,
        seal: Seal | None = None,
        session: Session | None = None,
        known: Caller | None = None,
        unanswered: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare to talk; `known` is who the client is, where it has shown that: then its own word is not asked.

        `unanswered` is told when everything that a message asked for was taken back.
        """
        self.session = session or Session(caller=known or Caller())
        self._known = known
        self.seal = seal or Seal()
        self._methods = methods
        self._greeting = greeting
        self._send = send
        self._unanswered = unanswered
        self._log = log
        self._running: dict[RequestId, Future[Result]] = {}
        self._unwanted: set[RequestId] = set()
        self._asked: dict[str, Future[dict[str, Any]]] = {}
        # Not the seal's: connections may share one, and an answer must not reach the wrong one.
        self._name = token_hex(8)
        self._questions = 0

    def receive(self, line: bytes) -> None:
        """Take one message; answers are sent when they are there, in any order."""
        if line.lstrip()[:1] == b"[":
            self._receive_batch(line)
            return
        self._take(line, self._reply)

    def adopt(self, line: bytes) -> None:
        """Take a handshake that was answered already."""
        self._take(line, lambda _: None)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        self._send(encode(message if params is None else {**message, "params": params}))

    async def request(self, question: Question) -> dict[str, Any]:
        """Send a request of ours and wait for its answer; only the handshake protocol has such.

        Raises:
            Fault: the client answers with an error.
        """
        self._questions += 1
        key = f"{self._questions}-{self._name}"
        answer: Future[dict[str, Any]] = get_running_loop().create_future()
        self._asked[key] = answer
        try:
            message = {"jsonrpc": "2.0", "id": key, "method": question.method, "params": question.params}
            self._send(encode(message))
            return await answer
        except CancelledError:
            self.notify("notifications/cancelled", {"requestId": key})  # nobody waits any more: a form can go
            raise
        finally:
            del self._asked[key]

    def awaits(self, key: object) -> bool:
        """Tell whether an answer with this id is waited for."""
        return key in self._asked

    async def finish(self, within_s: float) -> None:
        """Wait until everything that is running has ended, but not longer than that."""
        if self._running:
            await wait(list(self._running.values()), timeout=within_s)

    async def close(self) -> None:
        """End everything that is still running."""
        running = list(self._running.values())
        for request_id in list(self._running):
            self._cancel(request_id)
        if running:
            await wait(running, timeout=_CLOSE_S)

    def _reply(self, answer: bytes | None) -> None:
        if answer is None:
            self._unanswered()
        else:
            self._send(answer)

    def _receive_batch(self, line: bytes) -> None:
        """Take several messages at once, as two old versions have it, and answer them together."""
        try:
            messages = read_batch(line)
        except UNREADABLE as error:
            self._send(failed(None, Fault(PARSE_ERROR, f"not JSON: {error}")))
            return
        if not messages or self.session.version not in _BATCHES:
            self._send(failed(None, Fault(INVALID_REQUEST, "this protocol version has no batches, and no empty ones")))
            return
        if len(messages) > MOST_IN_A_BATCH:
            self._send(failed(None, Fault(INVALID_REQUEST, f"a batch has at most {MOST_IN_A_BATCH} messages")))
            return
        given: list[bytes] = []
        expected = sum(1 for message in messages if wants_answer(bytes(message)))

        def gather(answer: bytes | None) -> None:
            nonlocal expected
            expected -= 1
            if answer is not None:
                given.append(answer)
            if not expected:
                self._reply(b"[" + b",".join(given) + b"]" if given else None)

        for message in messages:
            self._take(bytes(message), gather)

    def _take(self, line: bytes, reply: Reply) -> None:
        try:
            message = read_message(line)
        except UNREADABLE as error:
            reply(failed(*what_is_wrong(line, error)))
            return
        if message.method is UNSET:
            self._take_answer(message, reply)
        elif message.id is UNSET:
            self._take_notification(message.method, message.params)
        else:
            self._take_request(message, reply)

    def _take_request(self, message: Message, reply: Reply) -> None:
        request_id: RequestId | None = None
        try:
            request_id = read_id(message)
            exchange = self._exchange(request_id, message)
            outcome = self._answer(exchange)
            if inspect.isawaitable(outcome):
                self._run(exchange, outcome, reply)
                return
            answer = self._finished(exchange, outcome)
        except Exception as error:  # noqa: BLE001 - the end of a request: the client gets an answer, the log the rest
            answer = self._refused(request_id, error)
        reply(answer)

    def _exchange(self, request_id: RequestId, message: Message) -> Exchange:
        if message.jsonrpc != "2.0":
            raise Fault(INVALID_REQUEST, "jsonrpc must be 2.0")
        if request_id in self._running:
            raise Fault(INVALID_REQUEST, f"request {request_id} is still running")
        params = b"{}" if message.params is UNSET else bytes(message.params)
        try:
            common = read_params(params)
        except UNREADABLE as error:
            raise Fault(INVALID_PARAMS, f"{message.method}: {error}") from error
        method = cast("str", message.method)
        session, modern = self._era(common.meta, method)
        return Exchange(self, request_id, method, params, common=common, session=session, modern=modern)

    def _era(self, meta: Meta, method: str) -> tuple[Session, bool]:
        version = meta.protocol_version
        if version is UNSET:
            if method == "server/discover":
                raise Fault(INVALID_PARAMS, f"{method}: _meta has no {PROTOCOL_VERSION}")
            return self.session, False
        if version in LEGACY and method != "server/discover":
            return self.session, False
        if version not in MODERN:
            known = {"supported": [*MODERN, *LEGACY], "requested": clean(version, _LONGEST_NAME)}
            raise Fault(UNSUPPORTED_VERSION, "Unsupported protocol version", known)
        if meta.capabilities is UNSET:
            raise Fault(INVALID_PARAMS, f"{method}: _meta has no {CLIENT_CAPABILITIES}")
        caller = self._caller(None if meta.client is UNSET else meta.client)
        return Session(version=version, caller=caller, capabilities=meta.capabilities, ready=True), True

    def _caller(self, said: Implementation | None) -> Caller:
        if self._known is not None:
            return self._known
        return Caller() if said is None else Caller.called(said.name, said.version)

    def _answer(self, exchange: Exchange) -> Result | Awaitable[Result]:
        method = self._methods.get(exchange.method)
        if exchange.method in (_ONLY_LEGACY if exchange.modern else _ONLY_MODERN):
            method = None
        elif exchange.method == "server/discover":
            return self._greeting.discovered()
        elif exchange.method == "initialize":
            return self._initialize(exchange.read(Initialize))
        elif exchange.method == "ping":
            return {}
        if method is None:
            raise Fault(METHOD_NOT_FOUND, f"Method not found: {clean(exchange.method, _LONGEST_NAME)}")
        return method(exchange)

    def _initialize(self, asked: Initialize) -> Result:
        result = self._greeting.initialized(asked.protocol_version)
        self.session.version = str(result["protocolVersion"])
        self.session.capabilities = asked.capabilities
        self.session.caller = self._caller(asked.client)
        return result

    def _run(self, exchange: Exchange, outcome: Awaitable[Result], reply: Reply) -> None:
        # The outcome itself is the task: a wrapper that is cancelled before it starts would never await what it wraps.
        task = ensure_future(outcome)
        self._running[exchange.id] = task

        def ended(_: object) -> None:
            unwanted = exchange.id in self._unwanted
            self._unwanted.discard(exchange.id)
            del self._running[exchange.id]
            answer = None if unwanted and task.cancelled() else self._outcome(exchange, task)
            reply(None if unwanted else answer)

        task.add_done_callback(ended)

    def _outcome(self, exchange: Exchange, task: Future[Result]) -> bytes:
        try:
            return self._finished(exchange, self._result(exchange, task))
        except (Exception, CancelledError) as error:  # noqa: BLE001 - as above; what was cancelled is not the request
            return self._refused(exchange.id, error)

    def _result(self, exchange: Exchange, task: Future[Result]) -> Result:
        try:
            return task.result()
        except InputRequired as required:
            asked = {key: {"method": item.method, "params": item.params} for key, item in required.questions.items()}
            asking = {"resultType": "input_required", "inputRequests": asked, "requestState": exchange.state()}
            return {**self._greeting.complete(), **asking}

    def _finished(self, exchange: Exchange, result: Result) -> bytes:
        if exchange.modern and isinstance(result, dict) and "resultType" not in result:
            complete = self._greeting.complete()
            meta = {**cast("dict[str, object]", complete["_meta"]), **result.get("_meta", {})}
            result = {**result, "resultType": "complete", "_meta": meta}
        return succeeded(exchange.id, result)

    def _refused(self, request_id: RequestId | None, error: BaseException) -> bytes:
        if isinstance(error, Fault):
            return failed(request_id, error)
        self._log.event("error", "mcp.request.failed", time(), error=fault(error))
        return failed(
            request_id,
            Fault(
                INTERNAL_ERROR,
                "It failed inside, which is a fault of this server. Call again; if it stays so, its log says why, and "
                "on your own machine `switchboard doctor` says where that is.",
            ),
        )

    def _take_notification(self, method: str, params: Raw | UnsetType) -> None:
        if method == "notifications/initialized":
            self.session.ready = True
        elif method == "notifications/cancelled" and params is not UNSET:
            try:
                self._cancel(decode(params, type=Cancelled).request_id)
            except UNREADABLE:
                return  # the protocol wants malformed cancellations ignored

    def _cancel(self, request_id: RequestId) -> None:
        task = self._running.get(request_id)
        if task is not None:
            self._unwanted.add(request_id)
            task.cancel()

    def _take_answer(self, message: Message, reply: Reply) -> None:
        """Take the client's answer to a question of ours; an answer to nothing is dropped."""
        if message.result is UNSET and message.error is UNSET:
            reply(failed(try_id(message), Fault(INVALID_REQUEST, "neither a request nor an answer")))
            return
        waiting = self._asked.get(str(try_id(message)))
        if waiting is None or waiting.done():
            return
        try:
            if message.result is not UNSET:
                waiting.set_result(decode(message.result, type=dict[str, Any]))
                return
        except UNREADABLE:
            pass
        waiting.set_exception(Fault(INVALID_REQUEST, "the client could not answer"))


def _declares(capabilities: Mapping[str, Any], needed: Mapping[str, Any]) -> bool:
    for name, inner in needed.items():
        declared = capabilities.get(name)
        if not isinstance(declared, dict):
            return False
        if inner and not _declares(cast("dict[str, Any]", declared), inner):
            return False
        # An elicitation that names its modes and leaves the form out does not have it; one that names none does.
        if name == "elicitation" and not inner and "form" not in declared and "url" in declared:
            return False
    return True

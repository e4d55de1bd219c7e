"""Run a tool of a program: one envelope as a line on its input, one line on its output.

A program is started for each call, or kept where its descriptor says so; then several calls may be under way at once,
matched by their id. A call that is given up takes its program with it, as soon as no other call needs it. Nothing is
sent twice: a program that ends without an answer may have done its work.
"""

import os
from asyncio import Future, Task, TimerHandle, gather, get_running_loop, shield, timeout
from collections import deque
from collections.abc import Callable, Mapping
from typing import final

from switchboard.actions.ports import Call, Outcome, Secret
from switchboard.catalog.bindings import Stdio
from switchboard.catalog.errors import (
    EFFECT_UNKNOWN,
    AnswerTooLarge,
    CallTimeout,
    NotSupported,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.executors import envelope
from switchboard.executors.closing import Closing
from switchboard.executors.envelope import Document
from switchboard.executors.limits import LARGEST, seconds
from switchboard.executors.processes import Child, Children, folder_of

_IDLE_S = 300.0
_POLITE_S = 2.0
"""How long a program may take to end by itself once its input is closed."""
_MOST_NOISE = 1000
_REMEMBERED = 1000

_Key = tuple[str, str, Stdio]


@final
class StdioExecutor(Closing):
    """Starts programs and talks to them. `close` ends them all."""

    def __init__(self, environment: Mapping[str, str] = os.environ, *, idle_s: float = _IDLE_S) -> None:
        self._children = Children(environment)
        self._idle_s = idle_s
        self._kept: dict[_Key, _Conversation] = {}

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Ask the program of this app."""
        del secret  # made of headers and queries, which a program has not
        execution = call.capability.binding.execution
        if not isinstance(execution, Stdio):
            raise NotSupported(f"{call.owner.id} is not a program. Its descriptor is wrong: tell its developer.")
        envelope.require_local(call)
        limit = seconds(call.capability.binding)
        conversation = self._conversation(call, execution)
        try:
            async with timeout(limit):
                document = await conversation.ask(call.id, envelope.request(call))
        except TimeoutError as error:
            message = f"{call.owner.id} gave no answer within {limit:g} seconds. {EFFECT_UNKNOWN}"
            raise CallTimeout(message, app=call.owner.id) from error
        return envelope.read(call, document)

    async def close(self) -> None:
        """End every program."""
        self._kept.clear()
        await self._children.close()

    def _conversation(self, call: Call, execution: Stdio) -> "_Conversation":
        key = (call.owner.id, folder_of(call) or "", execution)
        kept = self._kept.get(key)
        if kept is not None and not kept.retired:
            return kept

        def start(heard: Callable[[bytes], None], over: Callable[[], None]) -> "Task[Child]":
            command, folder = (execution.command, *execution.args), folder_of(call)
            start = self._children.start(command, env=execution.env, folder=folder, heard=heard, over=over)
            return get_running_loop().create_task(start)

        conversation = _Conversation(call.owner.id, start, self._idle_s if execution.keep_alive else None)
        if execution.keep_alive:
            self._kept[key] = conversation
        return conversation


@final
class _Conversation:
    """What is said to one program; without `idle_s` it is over after one answer."""

    def __init__(
        self,
        app: str,
        start: Callable[[Callable[[bytes], None], Callable[[], None]], "Task[Child]"],
        idle_s: float | None,
    ) -> None:
        self.retired = False
        self._app = app
        self._idle_s = idle_s
        self._idle: TimerHandle | None = None
        self._buffer = bytearray()
        self._noise = 0
        self._given_up = False
        self._waiting: dict[str, Future[Document]] = {}
        self._answered: deque[str] = deque(maxlen=_REMEMBERED)
        self._starting = start(self._hear, self._end_of_output)
        self._concluding: Task[None] | None = None

    async def ask(self, request_id: str, request: bytes) -> Document:
        """Send a request and return the document that answers it.

        Raises:
            ServiceUnavailable: the program cannot be started, or ends without an answer.
            AnswerTooLarge: it says more than we take.
        """
        if self._idle is not None:
            self._idle.cancel()
        waiting = self._waiting[request_id] = get_running_loop().create_future()
        answered = False
        try:
            child = await shield(self._starting)
            # A program for one call may read until its input ends, so that ends.
            child.send(request + b"\n", last=self._idle_s is None)
            document = await waiting
            answered = True
        finally:
            self._leave(request_id, answered=answered)
        return document

    def _leave(self, request_id: str, *, answered: bool) -> None:
        """Forget a call; nobody knows what a program does that did not answer, so it gets no other one."""
        self._waiting.pop(request_id, None)
        self._answered.append(request_id)
        if self._idle_s is None or not answered:
            self.retired = True
        if self._waiting:
            return
        if self.retired:
            self._end(_POLITE_S if answered else 0.0)
        elif self._idle_s is not None:
            self._idle = get_running_loop().call_later(self._idle_s, self._end, _POLITE_S)

    def _end(self, patience_s: float) -> None:
        self.retired = True

        def end(starting: "Task[Child]") -> None:
            if not starting.cancelled() and starting.exception() is None:
                starting.result().end(patience_s)

        self._starting.add_done_callback(end)

    def _hear(self, data: bytes) -> None:
        if self._given_up:
            return
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n") if b"\n" in data else (self._buffer,)
        self._buffer = bytearray(rest)
        for line in lines:
            self._take(bytes(line))
        if len(self._buffer) > LARGEST:
            self._fail(
                AnswerTooLarge(f"{self._app} answers with more than {LARGEST} bytes. Ask it for less.", app=self._app)
            )

    def _take(self, line: bytes) -> None:
        document = envelope.parse(line) if len(line) <= LARGEST and line.lstrip()[:1] == b"{" else None
        if len(line) > LARGEST:
            self._fail(
                AnswerTooLarge(f"{self._app} answers with more than {LARGEST} bytes. Ask it for less.", app=self._app)
            )
        elif document is not None:
            self._match(document)
        elif line.strip():
            self._noise += 1
            if self._noise > _MOST_NOISE:
                message = f"{self._app} writes more than {_MOST_NOISE} lines that are no answer. Tell its developer."
                self._fail(ServiceUnavailable(message, app=self._app))

    def _match(self, document: Document) -> None:
        """Give a document to the call it answers; where only one call waits, to that, which will see what is wrong."""
        answered = envelope.id_of(document)
        waiting = self._waiting.get(answered)
        if waiting is None and len(self._waiting) == 1 and answered not in self._answered:
            waiting = next(iter(self._waiting.values()))
        if waiting is not None and not waiting.done():
            self._noise = 0
            waiting.set_result(document)

    def _end_of_output(self) -> None:
        self.retired = True
        self._concluding = get_running_loop().create_task(self._conclude())

    async def _conclude(self) -> None:
        """Tell everybody who still waits how the program ended, once that is known."""
        child = await self._starting
        await gather(child.end(_POLITE_S), return_exceptions=True)
        message = f"The program {child.name!r} of {self._app} {child.fate}, before it answered."
        self._fail(ServiceUnavailable(f"{message} {EFFECT_UNKNOWN}", app=self._app))

    def _fail(self, error: SwitchboardError) -> None:
        self._given_up = self.retired = True
        self._buffer.clear()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
        self._end(0.0)

"""Calls to agents, which are real servers on loopback: what is sent, and what every kind of answer becomes."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self, final

import pytest
from msgspec.structs import replace
from tests.builders import agent as built
from tests.builders import app

from switchboard.actions.ports import Call, Outcome, Reports
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import CallTimeout, NotSupported, RefusedAddress, ServiceUnavailable
from switchboard.catalog.executions import Ended, Execution
from switchboard.catalog.model import Agent, Caller, Kind
from switchboard.executors.agent import AgentExecutor
from switchboard.net.fetch import Fetch
from switchboard.net.guard import is_reachable

LIMIT_S = 30.0


class Asked(NamedTuple):
    """One request as an agent got it."""

    path: str
    headers: dict[str, str]
    body: bytes
    sender: Any

    @property
    def execution_id(self) -> str:
        """Return which execution it is about."""
        return self.headers.get("x-execution-id", "")


Answer = Callable[[Asked], tuple[int, bytes] | None]


def says(document: object, status: int = 200) -> Answer:
    """Answer always the same."""
    return lambda _: (status, json.dumps(document).encode())


def accepts(_: Asked) -> tuple[int, bytes]:
    """Promise to report later."""
    return 202, b'{"status": "processing"}'


def dies(_: Asked) -> None:
    """End the connection instead of answering."""


class _Listener(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


class AgentServer:
    """An agent on loopback: it remembers what it was asked, and answers as a test wants."""

    def __init__(self, answer: Answer = accepts) -> None:
        self.answer = answer
        self.kind = ""
        """What it says its answers are."""
        self.asked: list[Asked] = []
        self.left = threading.Event()
        """Set when whoever waited for a silent agent has gone."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.path, headers, body, self.connection)
                server.asked.append(asked)
                internal = self.path.startswith("/_internal/")
                answer = (200, b'{"cancelled": true}') if internal else server.answer(asked)
                if answer is not None:
                    self.send_response(answer[0])
                    self.send_header("Content-Length", str(len(answer[1])))
                    if server.kind:
                        self.send_header("Content-Type", server.kind)
                    self.end_headers()
                    self.wfile.write(answer[1])

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class has it so
                pass

        self._server = _Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def silent(self, asked: Asked) -> None:
        """Wait until whoever asked hangs up."""
        asked.sender.settimeout(LIMIT_S)
        if not asked.sender.recv(1):
            self.left.set()

    @property
    def calls(self) -> list[Asked]:
        """Return the calls of reasoners and skills."""
        return [asked for asked in list(self.asked) if not asked.path.startswith("/_internal/")]

    @property
    def told_to_cancel(self) -> list[str]:
        """Return the paths of what it was told to stop."""
        return [asked.path for asked in list(self.asked) if asked.path.startswith("/_internal/")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it: nobody answers there any more."""
        self._server.shutdown()
        self._server.server_close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a limit, while everything else goes on."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - conditions of another thread set no event here
            await asyncio.sleep(0.002)


@final
class Promise(Reports):
    """Ends that a test tells."""

    def __init__(self) -> None:
        self.acknowledgements: list[str] = []
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def acknowledged(self, call_id: str) -> None:
        """Remember it."""
        self.acknowledgements.append(call_id)

    async def end_of(self, call_id: str) -> Ended:
        """Wait for what the test tells."""
        assert call_id in self.acknowledgements
        return await self.ended


def at(url: str, name: str = "r", kind: Kind = "reasoner") -> Agent:
    found = built("a", {name: []}) if kind == "reasoner" else built("a", {}, {name: []})
    return replace(found, base_url=url)


def call_of(agent: Agent, **arguments: object) -> Call:
    context = (("X-Execution-ID", "exec_1"), ("X-Run-ID", "run_1"))
    return Call(
        id="exec_1",
        caller=Caller("tester"),
        owner=agent,
        capability=agent.capabilities[0],
        arguments=arguments,
        context=context,
    )


def meeting(story: Callable[[Fetch, Promise], Awaitable[None]]) -> None:
    """Tell a story with a client as the control plane has it."""

    async def told() -> None:
        fetch = Fetch(loopback=True, plain=True, permitted=is_reachable)
        try:
            await story(fetch, Promise())
        finally:
            await fetch.close()

    asyncio.run(told())


def outcome_of(server: AgentServer, answer: Answer) -> Outcome:
    server.answer = answer
    found: list[Outcome] = []

    async def story(fetch: Fetch, promise: Promise) -> None:
        found.append(await AgentExecutor(lambda: fetch, promise).run(call_of(at(server.url)), None))

    meeting(story)
    return found[0]


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("reasoner", "deep_research", "/reasoners/deep_research"),
        ("skill", "web.search", "/skills/web.search"),
        ("skill", "50% ä/b?c#d", "/skills/50%25%20%C3%A4%2Fb%3Fc%23d"),
    ],
)
def test_an_agent_gets_the_input_as_it_is_and_is_told_which_execution_it_is(kind: Kind, name: str, path: str) -> None:
    """The flat input as the body, what it belongs to in headers, names quoted."""
    with AgentServer(says({"ok": True})) as server:

        async def story(fetch: Fetch, promise: Promise) -> None:
            agent = at(f"{server.url}/", name, kind)
            await AgentExecutor(lambda: fetch, promise).run(call_of(agent, query="q"), None)

        meeting(story)

    asked = server.asked[0]
    assert (asked.path, json.loads(asked.body)) == (path, {"query": "q"})
    assert (asked.headers["x-execution-id"], asked.headers["x-run-id"]) == ("exec_1", "run_1")


@pytest.mark.parametrize("result", [{"a": 1}, [1, "b"], "text", 7.5, True, None])
def test_any_json_is_a_result(result: object) -> None:
    """Objects, lists, texts, numbers, null."""
    with AgentServer() as server:
        outcome = outcome_of(server, says(result))

    assert not outcome.failed
    assert json.loads(outcome.data or b"nothing") == result


@pytest.mark.parametrize(
    ("body", "data"), [(b"plain words", b'"plain words"'), (b"", b"null"), (b"\xff", b'"\xef\xbf\xbd"')]
)
def test_what_is_no_json_becomes_text(body: bytes, data: bytes) -> None:
    """An agent that is not written with an SDK is understood, too."""
    with AgentServer() as server:
        outcome = outcome_of(server, lambda _: (200, body))

    assert outcome.data == data


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"])
@pytest.mark.parametrize("body", [b"{broken", b"NaN", b"\xff"])
def test_an_answer_that_says_it_is_json_and_is_not_has_failed(kind: str, body: bytes) -> None:
    """It is no success with a text that nobody meant."""
    with AgentServer() as server:
        server.kind = kind
        outcome = outcome_of(server, lambda _: (200, body))

    assert outcome.failed
    assert json.loads(outcome.data or b"{}")["message"] == "a says that its answer is JSON, and it is not."


def test_an_empty_answer_that_says_it_is_json_is_nothing() -> None:
    """As some frameworks answer for a function without a result."""
    with AgentServer() as server:
        server.kind = "application/json"
        outcome = outcome_of(server, lambda _: (200, b""))

    assert (outcome.failed, outcome.data) == (False, b"null")


def endless(asked: Asked) -> None:
    """Say 202, and then never stop."""
    asked.sender.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 99999999999\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            asked.sender.sendall(b"x" * 65536)


def dripping(asked: Asked) -> None:
    """Say 202, and then one byte at a time."""
    asked.sender.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 99999999999\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            asked.sender.sendall(b"x")
            time.sleep(0.01)


def cut_off(asked: Asked) -> None:
    """Say 202, and hang up before the body is there."""
    asked.sender.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\nx")


@pytest.mark.parametrize("answer", [endless, dripping, cut_off])
def test_the_body_of_a_202_does_not_matter(answer: Answer) -> None:
    """Endless, slower than the time there is, or broken: the agent has said that it will report."""
    with AgentServer(answer) as server:

        async def story(fetch: Fetch, promise: Promise) -> None:
            promise.ended.set_result(Ended(status="succeeded", at=1.0, result=Json(b"7")))
            outcome = await AgentExecutor(lambda: fetch, promise, 1.0).run(call_of(at(server.url)), None)

            assert (promise.acknowledgements, outcome.data) == (["exec_1"], b"7")

        meeting(story)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (422, b'{"detail": "Missing required field: query"}', "Missing required field: query"),
        (500, b'{"error": "boom"}', "boom"),
        (503, b'{"message": {"why": 1}}', '{"why":1}'),
        (418, b"teapot\x1b[31m", "teapot[31m"),
        (404, b"", "HTTP 404"),
        (302, b"[]", "[]"),
    ],
)
def test_an_agents_refusal_is_told_in_its_own_words(status: int, body: bytes, said: str) -> None:
    """With its number, under any of the names that are used for a message, and without control characters."""
    with AgentServer() as server:
        outcome = outcome_of(server, lambda _: (status, body))

    details: dict[str, Any] = json.loads(outcome.data or b"{}")
    assert outcome.failed
    assert (details["status"], details["message"]) == (status, f"a answers {status}: {said}")


@pytest.mark.parametrize(
    ("ended", "failed", "data"),
    [
        (Ended(status="succeeded", at=1.0, result=Json(b'"v7"')), False, "v7"),
        (Ended(status="succeeded", at=1.0), False, None),
        (
            Ended(status="failed", at=1.0, error="bad", http_status=409, reason="x"),
            True,
            {"message": "bad", "status": 409, "reason": "x"},
        ),
        (
            Ended(status="timeout", at=1.0),
            True,
            {"message": "timeout", "status": None, "reason": None},
        ),
    ],
)
def test_an_agent_that_says_202_has_the_end_that_it_reports(ended: Ended, failed: bool, data: object) -> None:
    """The call goes on until the report."""
    with AgentServer(accepts) as server:

        async def story(fetch: Fetch, promise: Promise) -> None:
            running = asyncio.create_task(AgentExecutor(lambda: fetch, promise).run(call_of(at(server.url)), None))
            await until(lambda: bool(promise.acknowledgements))
            promise.ended.set_result(ended)
            outcome = await running

            assert promise.acknowledgements == ["exec_1"]
            assert (outcome.failed, json.loads(outcome.data or b"{}")) == (failed, data)

        meeting(story)


@pytest.mark.parametrize("answer", [dies, None])
def test_an_agent_that_does_not_answer_is_unavailable_and_is_asked_once(answer: Answer | None) -> None:
    """It hangs up, or nobody listens there: nothing is sent a second time."""
    server = AgentServer(answer or dies)
    if answer is None:
        server.stop()

    async def story(fetch: Fetch, promise: Promise) -> None:
        with pytest.raises(ServiceUnavailable):
            await AgentExecutor(lambda: fetch, promise).run(call_of(at(server.url)), None)

    meeting(story)
    if answer is not None:
        server.stop()
    assert len(server.asked) == (0 if answer is None else 1)


def test_an_agent_that_is_too_slow_is_left() -> None:
    """The time is over, and the connection is closed."""
    with AgentServer() as server:
        server.answer = server.silent

        async def story(fetch: Fetch, promise: Promise) -> None:
            with pytest.raises(CallTimeout):
                await AgentExecutor(lambda: fetch, promise, 0.05).run(call_of(at(server.url)), None)

        meeting(story)
        assert server.left.wait(LIMIT_S)


def test_a_metadata_service_is_never_called_and_apps_are_not_agents() -> None:
    """Whatever stands in a registration: the guard looks at every connection."""

    async def story(fetch: Fetch, promise: Promise) -> None:
        executor = AgentExecutor(lambda: fetch, promise)
        with pytest.raises(RefusedAddress):
            await executor.run(call_of(at("http://169.254.169.254")), None)
        call = call_of(at("http://127.0.0.1:1"))
        with pytest.raises(NotSupported):
            await executor.run(replace(call, owner=app("shop", "buy")), None)

    meeting(story)


def test_a_cancel_is_told_under_its_id_and_never_fails() -> None:
    """Also when the agent is gone."""
    with AgentServer() as server:

        async def story(fetch: Fetch, promise: Promise) -> None:
            executor = AgentExecutor(lambda: fetch, promise)
            await executor.cancel(at(server.url), _an_execution(), "enough")
            await executor.cancel(at("http://127.0.0.1:1"), _an_execution(), "enough")

        meeting(story)

    assert server.told_to_cancel == ["/_internal/executions/exec_1/cancel"]
    assert json.loads(server.asked[0].body) == {"execution_id": "exec_1", "workflow_id": "run_1", "reason": "enough"}


def _an_execution() -> Execution:
    return Execution(
        id="exec_1",
        run_id="run_1",
        agent_id="a",
        kind="reasoner",
        capability="r",
        caller="tester",
        input=Json(b"{}"),
        created_at=1.0,
    )

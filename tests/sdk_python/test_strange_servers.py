"""Whatever a server sends, the SDK returns a value or one of its own errors that says what was wrong. It never crashes.

A real server on this machine sends arbitrary JSON, broken bodies, other types, wrong lengths and strange statuses.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfield import (
    Agent,
    AgentFieldError,
    APIError,
    BadAnswer,
    CompactDiscoveryResponse,
    ConnectionFailed,
    DiscoveryResponse,
    from_tool_call,
    to_anthropic_tools,
    to_openai_tools,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
CAPABILITY = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text() | JSON,
        "invocation_target": st.text() | JSON,
        "target": st.text(),
        "agent_id": st.text(),
        "tags": st.lists(st.text()) | JSON,
        "description": st.none() | st.text(),
        "input_schema": st.dictionaries(st.text(), JSON, max_size=3) | JSON,
        "examples": JSON,
        "unknown": JSON,
    },
)
AGENT = st.fixed_dictionaries(
    {},
    optional={
        "agent_id": st.text() | JSON,
        "health_status": st.text() | JSON,
        "last_heartbeat": st.just("") | st.just("0001-01-01T00:00:00Z") | st.text(),
        "reasoners": st.none() | st.lists(CAPABILITY, max_size=3),
        "skills": st.none() | st.lists(CAPABILITY, max_size=3),
    },
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "discovered_at": st.just("2026-11-15T00:19:14.924058346Z") | JSON,
        "total_agents": st.integers() | JSON,
        "pagination": JSON | st.fixed_dictionaries({"has_more": st.booleans()}),
        "capabilities": st.none() | st.lists(AGENT, max_size=3) | JSON,
        "reasoners": st.none() | st.lists(CAPABILITY, max_size=3),
        "skills": st.none() | st.lists(CAPABILITY, max_size=3),
        "execution_id": st.text() | JSON,
        "status": st.sampled_from(["queued", "succeeded", "failed", "cancelled", "dreaming"]) | JSON,
        "result": JSON,
        "error": st.text() | JSON,
        "message": st.text() | JSON,
        "details": JSON,
    },
)
STATUS = st.sampled_from([200, 200, 200, 202, 204, 301, 304, 400, 401, 404, 409, 418, 422, 500, 502, 503, 504])
TYPE = st.sampled_from(["application/json", "text/html", "application/xml", "", "nonsense; charset=latin-9"])


class Stranger:
    """A server that answers every request with the same bytes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.message = b""
        self.asked = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def says(self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """Prepare an answer."""
        given = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value)
        self.message = f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + (b"" if status in {204, 304} else body)

    def close(self) -> None:
        """End it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.asked += 1
            with connection:
                connection.settimeout(5)
                _drain(connection)
                connection.sendall(self.message)


def _drain(connection: socket.socket) -> None:
    """Read a whole request: bytes left unread would make the kernel reset the connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        part = connection.recv(65536)
        if not part:
            return
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    server = Stranger()
    yield server
    server.close()


@pytest.fixture(scope="module")
def app(stranger: Stranger) -> Iterator[Agent]:
    with Agent(agentfield_server=stranger.url, patience=0.0, timeout=5) as caller:
        yield caller


CALLS: dict[str, Callable[[Agent], Any]] = {
    "discover": lambda app: app.discover(),
    "compact": lambda app: app.discover(format="compact"),
    "xml": lambda app: app.discover(format="xml"),
    "execute": lambda app: app.execute("a:b", {}, timeout=0.001),
    "submit": lambda app: app.submit("a:b"),
    "wait": lambda app: app.handle("e").wait(timeout=0.001),
    "cancel": lambda app: app.cancel("e"),
}


@pytest.mark.parametrize("name", CALLS)
def test_any_json_becomes_a_value_or_an_error_of_ours(stranger: Stranger, app: Agent, name: str) -> None:
    """And what is made of a value afterwards does not crash either."""

    @settings(max_examples=120, database=None)
    @given(JSON | NEARLY, STATUS, TYPE)
    def ask(document: Any, status: int, kind: str) -> None:
        stranger.says(json.dumps(document).encode(), status, kind)
        found = told(lambda: CALLS[name](app))
        if isinstance(found, DiscoveryResponse | CompactDiscoveryResponse):
            use(found)

    ask()


def told(call: Callable[[], object]) -> object:
    """Return what a call returns, or what it raises of ours; anything else is a crash."""
    try:
        return call()
    except AgentFieldError as error:
        return type(error), str(error)


def use(found: DiscoveryResponse | CompactDiscoveryResponse) -> None:
    """Do with an answer what people do."""
    tools = to_openai_tools(found)
    assert len(to_anthropic_tools(found)) == len({tool["function"]["name"] for tool in tools}) == len(tools)
    for tool in tools:
        assert from_tool_call({"function": {"name": tool["function"]["name"], "arguments": "{}"}}, found).input == {}
    assert repr(found)


@pytest.mark.parametrize("name", CALLS)
def test_any_bytes_become_a_value_or_an_error_of_ours(stranger: Stranger, app: Agent, name: str) -> None:
    """Cut off, of the wrong length, packed or not, in no known encoding."""

    @settings(max_examples=60, database=None)
    @given(
        st.binary(max_size=60), STATUS, st.integers(-3, 3), st.sampled_from(["", "gzip", "zstd", "br", "unheard-of"])
    )
    def ask(body: bytes, status: int, more: int, packed: str) -> None:
        stranger.says(body, status, Content_Encoding=packed, Content_Length=str(max(0, len(body) + more)))
        told(lambda: CALLS[name](app))

    ask()


@settings(max_examples=40, database=None)
@given(document=NEARLY, status=STATUS)
def test_asyncio_has_the_same_answers_and_errors(document: Any, status: int) -> None:
    """One core, two shells."""
    server = Stranger()
    server.says(json.dumps(document).encode(), status)

    async def ask(app: Agent) -> object:
        async with app:
            return await app.adiscover()

    with Agent(agentfield_server=server.url, patience=0.0) as app:
        try:
            assert told(lambda: asyncio.run(ask(app))) == told(app.discover)
        finally:
            server.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>Bad gateway</html>", "beginning with '<html>Bad gateway"),
        (b'{"capabilities": [{"agent_id": 7}]}', r"Expected `str`, got `int` - at `\$.capabilities\[0\].agent_id`"),
        (b'{"capabilities": [{}]}', r"missing required field `agent_id` - at `\$.capabilities\[0\]`"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"total_agents": "five"}', r"at `\$.total_agents`"),
        (b"\xff\xfe", "The answer is not JSON"),
        (b"[" * 100_000, "The answer is not JSON"),
    ],
)
def test_a_bad_answer_says_where_and_what(stranger: Stranger, app: Agent, body: bytes, said: str) -> None:
    """With the beginning of what came."""
    stranger.says(body)

    with pytest.raises(BadAnswer, match=said):
        app.discover()


def test_what_other_control_planes_leave_out_is_empty(stranger: Stranger, app: Agent) -> None:
    """Null for no list, no text for no time; words we do not know stay as they are."""
    agent = {"agent_id": "a", "reasoners": None, "skills": [{"id": "s", "invocation_target": "a:skill:s"}]}
    agent |= {"last_heartbeat": "", "health_status": "sleepwalking", "later": [1]}
    stranger.says(json.dumps({"discovered_at": "", "capabilities": [agent], "pagination": None}).encode())

    found = app.discover().capabilities[0]

    assert (found.reasoners, found.skills[0].tags, found.health_status) == ([], [], "sleepwalking")
    assert found.last_heartbeat.year == 1


def test_schemas_keep_their_nulls(stranger: Stranger, app: Agent) -> None:
    """They are the agent's words, not the server's."""
    schema = {"properties": {"x": {"default": None}}}
    skill = {"id": "s", "invocation_target": "a:skill:s", "input_schema": schema, "tags": None}
    stranger.says(json.dumps({"capabilities": [{"agent_id": "a", "skills": [skill]}]}).encode())

    assert app.discover().capabilities[0].skills[0].input_schema == schema


def test_a_page_that_promises_more_and_has_nothing_is_the_last(stranger: Stranger, app: Agent) -> None:
    """Else it would be asked for for ever."""
    stranger.says(b'{"pagination": {"has_more": true}, "capabilities": []}')

    assert len(list(app.pages())) == 1


def test_a_redirect_is_not_followed_because_the_key_is_for_one_server(stranger: Stranger, app: Agent) -> None:
    """The error says where it would lead."""
    stranger.says(b"", 302, Location="http://elsewhere.example/")

    with pytest.raises(APIError, match=r"http://elsewhere\.example/.*AGENTFIELD_SERVER"):
        app.discover()


@pytest.mark.parametrize(
    ("status", "kind"), [(500, "application/json"), (401, "text/plain"), (200, "text/html"), (200, "")]
)
def test_a_key_that_is_sent_back_is_in_no_error(stranger: Stranger, status: int, kind: str) -> None:
    """As by a proxy that shows what it got."""
    stranger.says(
        b'{"error": "bad", "message": "You sent open-sesame", "details": {"key": "open-sesame"}} .', status, kind
    )

    with Agent(agentfield_server=stranger.url, api_key="open-sesame") as app, pytest.raises(AgentFieldError) as caught:
        app.discover()

    assert "open-sesame" not in f"{caught.value} {vars(caught.value)}"


@pytest.mark.parametrize(("call", "times"), [("discover", 2), ("submit", 2), ("cancel", 1)])
def test_only_what_is_safe_is_sent_again(stranger: Stranger, call: str, times: int) -> None:
    """A question, and what has a key; not what may have been received and has none."""
    stranger.message = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\ncut"
    before = stranger.asked
    with Agent(agentfield_server=stranger.url, patience=0.15) as app, pytest.raises(ConnectionFailed):
        CALLS[call](app)

    assert stranger.asked - before == times

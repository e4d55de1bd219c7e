"""Requests that are answered as soon as they are read get the answer that the long way through uvicorn gives."""

import asyncio
import http.client
import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.servers import ControlPlane, registration

from switchboard.catalog.errors import InvalidQuery
from switchboard.catalog.query import parse_query
from switchboard.rest.questions import Question
from switchboard.rest.replies import Headers, Reply
from switchboard.rest.server import Server, bind

PATH = "/api/v1/discovery/capabilities"
LIMIT_S = 20.0
VOLATILE = {"date", "connection", "x-request-id"}


def asked(plane: ControlPlane, method: str, target: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Ask on a connection of its own, and return the answer without what differs from one to the next."""
    connection = http.client.HTTPConnection("127.0.0.1", int(plane.url.rpartition(":")[2]), timeout=LIMIT_S)
    try:
        connection.request(method, target, headers={name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        body = answer.read()
        kept = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in VOLATILE}
        assert answer.headers["x-request-id"]
        return answer.status, kept, without_times(body)
    finally:
        connection.close()


def without_times(body: bytes) -> bytes:
    if not body.startswith(b"{"):
        return body
    document: dict[str, Any] = json.loads(body)
    return json.dumps({key: document[key] for key in document if key not in ("discovered_at", "request_id")}).encode()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "query",
    ["", "agent=a", "agent_ids=b,a,nobody", "reasoner=*think*", "tags=ml*", "format=compact", "limit=1", "nonsense=1"],
)
def test_both_ways_give_the_same_answer(plane: ControlPlane, method: str, query: str) -> None:
    """Status, headers and body; `Connection: close` is what takes the long way."""
    plane.register(registration("a", {"think": ["ml"]}), registration("b", {"rethink": ["mlops"]}, {"act": ["x"]}))

    short = asked(plane, method, f"{PATH}?{query}")
    long = asked(plane, method, f"{PATH}?{query}", Connection="close")

    assert short == long


def test_both_ways_know_what_a_caller_already_has(plane: ControlPlane) -> None:
    """A 304 has no body, and the same headers."""
    plane.register(registration("a", {"think": []}))
    etag = plane.raw("").headers["etag"]

    short = asked(plane, "GET", PATH, If_None_Match=etag)
    long = asked(plane, "GET", PATH, If_None_Match=etag, Connection="close")

    assert short == long
    assert (short[0], short[2]) == (304, b"")


def test_requests_that_come_together_are_answered_in_their_order(plane: ControlPlane) -> None:
    """Whichever way each of them goes; also one with a body that nobody asked for."""
    plane.register(registration("a", {"think": []}), registration("b", {"act": []}))
    head = b"Host: here\r\n"
    requests = [
        b"GET %b?agent=a HTTP/1.1\r\n%b\r\n" % (PATH.encode(), head),
        b"GET /health HTTP/1.1\r\n%b\r\n" % head,
        b"GET %b?agent=b HTTP/1.1\r\n%bContent-Length: 2\r\n\r\n{}" % (PATH.encode(), head),
        b"GET %b?agent=b HTTP/1.1\r\n%b\r\n" % (PATH.encode(), head),
    ]

    with socket.create_connection(("127.0.0.1", int(plane.url.rpartition(":")[2])), timeout=LIMIT_S) as connection:
        connection.sendall(b"".join(requests))
        answers = [read_answer(connection) for _ in requests]

    bodies = [json.loads(body) for body in answers]
    assert [[agent["agent_id"] for agent in body.get("capabilities", [])] for body in bodies] == [
        ["a"],
        [],
        ["b"],
        ["b"],
    ]


def test_a_caller_who_does_not_read_keeps_nobody_waiting(plane: ControlPlane) -> None:
    """What is not read is not prepared without end, and comes when it is read."""
    plane.register(*(registration(f"a{i}", {f"think_{i}_{j}": ["x" * 50] for j in range(40)}) for i in range(60)))
    request = b"GET %b HTTP/1.1\r\nHost: here\r\n\r\n" % PATH.encode()

    with socket.create_connection(("127.0.0.1", int(plane.url.rpartition(":")[2])), timeout=LIMIT_S) as connection:
        connection.sendall(request * 100)
        meanwhile = plane.discover()
        answers = [read_answer(connection) for _ in range(100)]

    assert meanwhile["total_agents"] == 60
    assert {json.loads(body)["total_agents"] for body in answers} == {60}


def read_answer(connection: socket.socket) -> bytes:
    """Read exactly one answer, and return its body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, head
        head += byte
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return body


def test_a_connection_on_which_nothing_comes_any_more_is_closed() -> None:
    """As one that went the long way is; requests before that put it off."""

    def at_once(_method: bytes, _url: bytes, _headers: Headers) -> Reply:
        return Reply(200, [(b"content-length", b"2")], b"ok")

    async def story() -> list[bytes]:
        with bind("127.0.0.1", 0) as listener:
            begun = asyncio.Event()
            nothing = lambda: None  # noqa: E731 - nobody is told
            server = Server(never, begun=begun.set, leaving=nothing, ending=nothing, closing=nothing, at_once=at_once)
            server.config.timeout_keep_alive = 0.1  # pyright: ignore[reportAttributeAccessIssue] - seconds may be parts
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            await begun.wait()
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            answers: list[bytes] = []
            for _ in range(3):
                writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
                answers.append((await reader.readuntil(b"ok"))[-2:])
            answers.append(await asyncio.wait_for(reader.read(), LIMIT_S))
            writer.close()
            server.should_exit = True
            await serving
            return answers

    assert asyncio.run(story()) == [b"ok", b"ok", b"ok", b""]


async def never(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError("everything is answered at once")


NAMES = st.sampled_from(["agent", "agent_id", "node_id", "agent_ids", "node_ids", "tags"])
VALUES = st.text("ab1.,:-_*+% ", max_size=12)


@given(NAMES, VALUES)
def test_a_lookup_that_is_read_quickly_is_read_rightly(name: str, value: str) -> None:
    """The quick reading of a question that only names agents says what the careful one says."""
    text = f"{name}={value}".replace("%", "%25").replace(" ", "%20").replace("+", "%2B")

    try:
        expected = parse_query([(name, value)])
    except InvalidQuery:
        with pytest.raises(InvalidQuery):
            Question(text.encode())
    else:
        question = Question(text.encode())
        assert question.query == expected
        assert question.is_lookup == (bool(expected.agents) and not any("*" in agent for agent in expected.agents))

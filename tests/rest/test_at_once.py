"""Requests that are answered as soon as they are read get the answer that the long way through uvicorn gives."""

import asyncio
import gzip
import http.client
import json
import re
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.caching import ON
from tests.servers import ControlPlane, registration

from switchboard.catalog.errors import InvalidQuery
from switchboard.catalog.query import parse_query
from switchboard.rest.connections import Heads
from switchboard.rest.questions import Question, Wishes
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
        return re.sub(rb'discovered_at="[^"]*"', b"", body)
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


QUESTIONS = [
    *("", "agent=a", "agent_ids=b,a,nobody", "agent_ids=a,,a", "agent=silent", "node_id=nobody", "reasoner=*think*"),
    *("tags=ml*&include_input_schema=true", "format=compact", "format=xml&skill=act", "limit=1", "agent=*&limit=1"),
    *("limit=0", "agent=a&limit=0", "agent_ids=" + ",".join(f"n{i}" for i in range(120)), "nonsense=1", "agent=a%23b"),
]


@pytest.mark.parametrize("headers", ["", "Accept-Encoding: gzip\r\n", "If-None-Match: *\r\n", "X-Request-Id: mine\r\n"])
def test_an_answer_that_is_remembered_is_the_first_one(plane: ControlPlane, headers: str) -> None:
    """Whatever of a request has been seen before: its headers, its question, all of it."""
    plane.register(
        registration("a", {"think": ["ml"]}),
        registration("b", {"rethink": ["mlops"]}, {"act": ["x"]}),
        registration("silent", {}),
        *(registration(f"n{i}", {"count": []}) for i in range(120)),
    )
    for query in QUESTIONS:
        request = f"GET {PATH}?{query} HTTP/1.1\r\nHost: here\r\n{headers}\r\n".encode()
        slowly = request.replace(b"Host: here", b"Host: here\r\nConnection: close")

        first = answer_on_a_connection(plane, request)
        long = answer_on_a_connection(plane, slowly)
        with socket.create_connection(("127.0.0.1", port_of(plane)), timeout=LIMIT_S) as connection:
            again = [answer_to(connection, request) for _ in range(5)]
        new = answer_on_a_connection(plane, request)

        assert [first, *again, new] == [long] * 7, query


def test_news_are_in_the_very_next_answer(caching_plane: ControlPlane) -> None:
    """However often the same request came before."""
    request = f"GET {PATH} HTTP/1.1\r\nHost: here\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port_of(caching_plane)), timeout=LIMIT_S) as connection:
        for count in range(20):
            for _ in range(3):
                assert json.loads(answer_to(connection, request)[2]).get("total_agents") == count
            caching_plane.register(registration(f"a{count}", {"think": []}))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says how much memory a process has")
def test_nothing_large_is_remembered_of_a_request(caching_plane: ControlPlane) -> None:
    """However many different ones come, and whatever is in them: they must not be what fills the memory."""
    plane = caching_plane
    plane.register(registration("a", {"think": []}))
    with socket.create_connection(("127.0.0.1", port_of(plane)), timeout=LIMIT_S) as connection:
        usual = f"GET {PATH} HTTP/1.1\r\nHost: here\r\n\r\n".encode()
        answer_to(connection, usual)
        before = resident_mb(plane)
        for number in range(300):
            padded = f"GET {PATH}?limit={'0' * 60_000}{number + 1} HTTP/1.1\r\nHost: here\r\n\r\n".encode()
            assert answer_to(connection, padded)[0] == 200
        after = resident_mb(plane)

    assert after - before < 15


def resident_mb(plane: ControlPlane) -> float:
    lines = Path(f"/proc/{plane.process.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def test_every_request_is_counted_and_logged_with_an_id_of_its_own(caching_plane: ControlPlane) -> None:
    """Also one that is answered from memory."""
    plane = caching_plane
    plane.register(registration("a", {"think": []}))
    requests = [f"GET {PATH}?{query} HTTP/1.1\r\nHost: here\r\n\r\n".encode() for query in ("", "agent=a")]
    with socket.create_connection(("127.0.0.1", port_of(plane)), timeout=LIMIT_S) as connection:
        for request in requests:
            for _ in range(10):
                answer_to(connection, request)

    counted = plane.metric('agentfield_discovery_requests_total{format="json",status="success"}')
    hits = plane.metric("agentfield_discovery_cache_hits_total")
    used = plane.metric('agentfield_discovery_filter_usage{filter_type="agent"}')
    plane.stop()
    logged = [event for event in plane.events() if event["message"] == "discovery request completed"]
    assert (counted, hits, used, len(logged)) == (20.0, 20.0, 10.0, 20)
    assert len({event["request_id"] for event in logged}) == 20
    assert [event["filters"] for event in logged] == [{"format": "json"}] * 10 + [
        {"agent_ids": ["a"], "format": "json"}
    ] * 10
    assert {tuple(event["results"].items()) for event in logged} == {(("agents", 1), ("reasoners", 1), ("skills", 0))}
    assert all(event["cache_hit"] is True and 0 <= event["duration_ms"] < 10_000 for event in logged)
    keys = ["level", "timestamp", "message", "request_id", "filters", "results", "duration_ms", "cache_hit"]
    assert {tuple(event) for event in logged} == {tuple(keys)}


KEY = "right-key-of-this-test"


@pytest.mark.parametrize(
    "secret",
    [
        f"X-API-Key: {KEY}",
        f"Authorization: Bearer {KEY}",
        f"Accept: a\r\nX-API-Key: {KEY}\r\nUser-Agent: b",
    ],
)
def test_what_is_remembered_of_a_caller_with_a_key_lets_nobody_else_in(tmp_path: Path, secret: str) -> None:
    """Not by leaving the key out, not by half of it, and not by a line that only some read as a line."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_API_KEY=KEY, **ON)
    plane.client.headers["X-API-Key"] = KEY
    plane.register(registration("a", {"think": []}))
    begin = f"GET {PATH}?agent=a HTTP/1.1"
    strangers = [
        f"{begin}\r\n\r\n",
        f"{begin}\r\nHost: here\r\n\r\n",
        f"{begin}\r\nHost: here\r\n{secret.replace(KEY, KEY[:-1])}\r\n\r\n",
        f"{begin}\r\nHost: here\r\n{secret.replace(KEY, KEY + 'x')}\r\n\r\n",
        f"{begin}\r\nAccept: a\r\nUser-Agent: b\r\n\r\n",
    ]
    sly = [
        f"{begin}\n{secret}\r\n\r\n",
        f"{begin}\nHost: here\n{secret}\r\nHost: here\r\n\r\n",
        f"\r\n{begin}\r\n{secret}\r\n\r\n",
        f"{begin}\r\n{secret}\r\n\r\n{begin}\r\nHost: here\r\n\r\n",
        f"{begin}\r\n{secret}\n\n{begin}\r\nHost: here\r\n\r\n",
    ]
    try:
        for _ in range(3):
            assert answer_on_a_connection(plane, f"{begin}\r\nHost: here\r\n{secret}\r\n\r\n".encode())[0] == 200
            for request in sly:
                with suppress(AssertionError, OSError):  # most of them are no HTTP, and are told so
                    answer_on_a_connection(plane, request.encode())
            for request in strangers:
                assert answer_on_a_connection(plane, request.encode())[0] == 401, request
    finally:
        plane.stop()


def test_a_remembered_head_is_the_whole_head() -> None:
    """Nothing is remembered of a request that could be read in another way."""
    wishes = Wishes("", b"", b"")
    head = b"GET /a HTTP/1.1\r\nHost: here\r\n\r\n"
    heads = Heads()
    heads.learn(head, b"/a", [(b"host", b"here")], wishes)
    assert heads.read(head) == (b"/a", wishes)
    assert heads.read(head.replace(b"/a", b"/b?x=1")) == (b"/b?x=1", wishes)
    for other in (b"HEAD /a", b"GET /a b", b"GET /a#b", b"GET /\xff", b"GET\t/a", b"get /a", b"GET /a\n"):
        assert heads.read(head.replace(b"GET /a", other)) is None
    for part in (b"HTTP/1.0", b"HTTP/1.1 ", b"http/1.1", b"HTTP/1.1\nX: y"):
        assert heads.read(head.replace(b"HTTP/1.1", part)) is None
    assert heads.read(head + b"x") is heads.read(head + head) is heads.read(head[:-2]) is heads.read(b"") is None

    unlike = [
        (b"GET /a HTTP/1.1\nX-API-Key: k\r\n\r\n", b"/a", [(b"x-api-key", b"k")]),
        (b"GET /a HTTP/1.1\r\nHost: here\r\n\r\nGET /b HTTP/1.1\r\n\r\n", b"/a", [(b"host", b"here")]),
        (b"GET /a HTTP/1.1\r\nHost: here\n\nGET /b HTTP/1.1\r\n\r\n", b"/a", [(b"host", b"here")]),
        (b"GET /a HTTP/1.1\r\nTraceparent: 1\r\n\r\n", b"/a", [(b"traceparent", b"1")]),
        (b"GET /a HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"x" * 3000), b"/a", [(b"host", b"x" * 3000)]),
        (b"HEAD /a HTTP/1.1\r\nHost: here\r\n\r\n", b"/a", [(b"host", b"here")]),
    ]
    for request, url, headers in unlike:
        fresh = Heads()
        fresh.learn(request, url, headers, wishes)
        assert all(fresh.read(request[:5] + rest) is None for rest in (request[5:], b"a HTTP/1.1\r\n\r\n"))


def port_of(plane: ControlPlane) -> int:
    return int(plane.url.rpartition(":")[2])


def answer_on_a_connection(plane: ControlPlane, request: bytes) -> tuple[int, dict[str, str], bytes]:
    with socket.create_connection(("127.0.0.1", port_of(plane)), timeout=LIMIT_S) as connection:
        return answer_to(connection, request)


def answer_to(connection: socket.socket, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send a request, and return its answer without what differs from one to the next."""
    connection.sendall(request)
    with connection.makefile("rb") as reader:
        answer = http.client.HTTPResponse(connection, method="GET")
        answer.fp = reader
        answer.begin()
        body = answer.read()
    kept = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in VOLATILE}
    assert answer.headers["x-request-id"]
    if kept.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
        del kept["content-length"]  # the time is in it
    return answer.status, kept, without_times(body)


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

    class Always:
        def admitted(self, _method: bytes, _url: bytes, _headers: Headers) -> Wishes:
            return Wishes("", b"", b"")

        def at_once(self, _method: bytes, _url: bytes, _wishes: Wishes, *_: bytes) -> Reply:
            return Reply(200, b"content-length: 2\r\n", b"ok")

        def again(self, _request: bytes) -> None:
            return None

    async def story() -> list[bytes]:
        with bind("127.0.0.1", 0) as listener:
            begun = asyncio.Event()
            nothing = lambda: None  # noqa: E731 - nobody is told
            server = Server(never, begun=begun.set, leaving=nothing, ending=nothing, closing=nothing, at_once=Always())
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

"""The first answer: the same as the protocol layer's, or none, and nothing that came in is lost."""

import json
import os
import subprocess
import sys
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.mcp.front import Opening, open_conversation
from switchboard.mcp.greeting import LEGACY, Greeting
from switchboard.mcp.protocol import Connection
from switchboard.telemetry.logs import Log

Json = dict[str, Any]
GREETING = Greeting({"name": "a sérver", "version": "1"}, {"tools": {"listChanged": True}}, "Ask “first”.")
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"
INITIALIZE: Json = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"listChanged": True}, "sampling": {}},
        "clientInfo": {"name": "claude-ai", "version": "0.1.0"},
    },
}
DISCOVER: Json = {
    "jsonrpc": "2.0",
    "id": "d",
    "method": "server/discover",
    "params": {"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}, CLIENT: {"name": "a client", "version": "2"}}},
}


class Pipe:
    """What a client wrote, in pieces, and what it was answered."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.written = b""

    def open(self) -> Opening:
        """Begin the conversation."""
        return open_conversation(self._read, self._write, GREETING)

    def _read(self, size: int) -> bytes:
        piece = self._pieces.pop(0) if self._pieces else b""
        self._pieces[:0] = [piece[size:]] if piece[size:] else []
        return piece[:size]

    def _write(self, data: bytes) -> None:
        self.written += data


def layer(line: bytes) -> list[Any]:
    """Return what the protocol layer answers to a line."""
    heard: list[Any] = []
    Connection({}, GREETING, lambda message: heard.append(json.loads(message)), log=Log(BytesIO())).receive(line)
    return heard


def encoded(message: object) -> bytes:
    return json.dumps(message).encode()


def with_params(message: Json, **changes: Any) -> Json:
    return {**message, "params": {**message["params"], **changes}}


def with_meta(**changes: Any) -> Json:
    return with_params(DISCOVER, _meta={**DISCOVER["params"]["_meta"], **changes})


def without(key: str) -> Json:
    return {**INITIALIZE, "params": {name: value for name, value in INITIALIZE["params"].items() if name != key}}


ANSWERED: list[Json] = [
    INITIALIZE,
    *(with_params(INITIALIZE, protocolVersion=version) for version in [*LEGACY, "2026-07-28", "2099-01-01", ""]),
    *({**INITIALIZE, "id": identity} for identity in [1, -5, 2**70, "", "text", "é\u2028\U0001f600"]),
    with_params(INITIALIZE, clientInfo={"name": "\U0001f600 é", "title": "more", "websiteUrl": "https://x"}),
    with_params(INITIALIZE, clientInfo={"name": ""}),
    with_params(INITIALIZE, _meta={}),
    with_params(INITIALIZE, _meta={"traceparent": "00-1-1-01"}),
    with_params(INITIALIZE, capabilities={"experimental": {"a": [1, 2.5, None, True]}}),
    without("clientInfo"),
    without("capabilities"),
    {**INITIALIZE, "more": [1]},
    DISCOVER,
    with_meta(**{CAPABILITIES: {"elicitation": {"form": {}, "url": {}}}}),
    {**DISCOVER, "params": {"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}}},
]
"""Handshakes as clients send them: the front answers."""
HANDED_ON: list[object] = [
    {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    {"jsonrpc": "2.0", "method": "initialize", "params": INITIALIZE["params"]},
    *({**INITIALIZE, "id": identity} for identity in [None, True, 1.5, [1]]),
    {**INITIALIZE, "jsonrpc": "1.0"},
    {**INITIALIZE, "params": None},
    {**INITIALIZE, "params": []},
    {**INITIALIZE, "params": {}},
    {**INITIALIZE, "method": ["initialize"]},
    with_params(INITIALIZE, protocolVersion=20251125),
    with_params(INITIALIZE, protocolVersion=None),
    with_params(INITIALIZE, protocolVersion=["2025-11-25"]),
    with_params(INITIALIZE, capabilities=[]),
    with_params(INITIALIZE, capabilities=None),
    with_params(INITIALIZE, clientInfo=None),
    with_params(INITIALIZE, clientInfo="claude"),
    with_params(INITIALIZE, clientInfo=[]),
    with_params(INITIALIZE, clientInfo={}),
    with_params(INITIALIZE, clientInfo={"name": 5}),
    with_params(INITIALIZE, clientInfo={"name": "x", "version": None}),
    with_params(INITIALIZE, clientInfo={"name": "\ud800"}),
    {**INITIALIZE, "id": "\ud800"},
    with_params(INITIALIZE, _meta=None),
    with_params(INITIALIZE, _meta=[]),
    with_params(INITIALIZE, _meta={"progressToken": 1.5}),
    with_params(INITIALIZE, _meta={"progressToken": 5}),
    with_params(INITIALIZE, _meta=DISCOVER["params"]["_meta"]),
    with_params(INITIALIZE, requestState=5),
    with_params(INITIALIZE, inputResponses={"a": 5}),
    with_meta(**{VERSION: "2025-11-25"}),
    with_meta(**{VERSION: "2099-01-01"}),
    with_meta(**{VERSION: None}),
    with_meta(**{VERSION: ["2026-07-28"]}),
    with_meta(**{CAPABILITIES: None}),
    with_meta(**{CLIENT: None}),
    with_meta(**{CLIENT: {"version": "1"}}),
    with_meta(progressToken=[]),
    with_params(DISCOVER, requestState=[]),
    {**DISCOVER, "params": {}},
    {**DISCOVER, "params": {"_meta": {VERSION: "2026-07-28"}}},
    [INITIALIZE],
    [],
    "initialize",
    5,
    None,
]
"""Everything else, wrong or right: somebody else's."""
NO_MESSAGES = [
    b"",
    b"  ",
    b"hello",
    b"\xff\xfe\x00",
    b"\xef\xbb\xbf" + encoded(INITIALIZE),
    encoded(INITIALIZE)[:-1],
    encoded(INITIALIZE) + b"x",
    json.dumps(INITIALIZE).encode("utf-16-le"),
    json.dumps(INITIALIZE).encode("utf-32-be"),
    encoded(with_params(INITIALIZE, capabilities={"a": float("nan")})),
    encoded(with_params(INITIALIZE, capabilities={"a": float("-inf")})),
    encoded(INITIALIZE).replace(b'"sampling"', b'"a": 1e999, "sampling"'),
    encoded(INITIALIZE).replace(b'"sampling"', b'"a": -1e999, "sampling"'),
    encoded(INITIALIZE).replace(b'"id": 0', b'"id": ' + b"1" * 5000),
    encoded(INITIALIZE).replace(b"claude", b"cl\xffude"),
    encoded(INITIALIZE).replace(b"claude", b"cl\x00ude"),
    encoded(INITIALIZE).replace(b'"sampling": {}', b'"a": ' + b"[" * 5000 + b"]" * 5000),
]
"""Lines that are not JSON, though the standard library reads some of them."""


@pytest.mark.parametrize("message", ANSWERED)
def test_a_handshake_is_answered_as_the_protocol_layer_answers_it(message: Json) -> None:
    """On one line, and the line is kept for the layer to adopt."""
    line = encoded(message)
    pipe = Pipe(line + b"\n")

    opening = pipe.open()

    assert [json.loads(pipe.written)] == layer(line)
    assert pipe.written.count(b"\n") == 1
    assert (opening.answered, opening.rest, opening.ended) == (line, b"", False)


@pytest.mark.parametrize("message", ANSWERED)
def test_the_layer_agrees_with_a_handshake_that_the_front_has_answered(message: Json) -> None:
    """It adopts the line without an error of its own: who calls and what was agreed on is known."""
    [answer] = layer(encoded(message))

    assert "result" in answer


@pytest.mark.parametrize("line", [*map(encoded, HANDED_ON), *NO_MESSAGES])
def test_every_other_line_is_handed_on_untouched(line: bytes) -> None:
    """Whoever comes next says what is wrong with it."""
    pipe = Pipe(line + b"\nmore\n")

    opening = pipe.open()

    assert pipe.written == b""
    assert (opening.answered, opening.rest, opening.ended) == (b"", line + b"\nmore\n", False)


def test_what_follows_a_handshake_is_handed_on() -> None:
    """Clients do not wait for an answer before they say that they are ready, nor for the end of a line."""
    line = encoded(INITIALIZE)

    opening = Pipe(line + b"\r\n" + b'{"method":"notifications/initialized"}\n{"half').open()

    assert opening.answered == line + b"\r"
    assert opening.rest == b'{"method":"notifications/initialized"}\n{"half'


def test_a_handshake_may_come_in_pieces() -> None:
    """Byte by byte, if need be."""
    line = encoded(INITIALIZE)
    pipe = Pipe(*(bytes([byte]) for byte in line + b"\n"))

    assert pipe.open().answered == line
    assert [json.loads(pipe.written)] == layer(line)


@pytest.mark.parametrize("begun", [b"", b"{", encoded(INITIALIZE)])
def test_an_input_that_ends_within_the_first_line_is_handed_on_with_its_end(begun: bytes) -> None:
    """A whole message without an end of line is for the layer, which takes the end of the input for one."""
    pipe = Pipe(begun)

    opening = pipe.open()

    assert pipe.written == b""
    assert (opening.answered, opening.rest, opening.ended) == (b"", begun, True)


@pytest.mark.parametrize("padding", [b" " * 70_000, b" " * 10_000_000])
def test_a_first_line_that_is_too_long_is_handed_on_before_it_is_whole(padding: bytes) -> None:
    """Even if what came so far could be a handshake: what follows it on the line may make it something else."""
    pipe = Pipe(encoded(INITIALIZE) + padding, b"x\n")

    opening = pipe.open()

    assert pipe.written == b""
    assert len(opening.rest) < 200_000
    assert not opening.ended


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"\n", encoded(INITIALIZE), encoded(DISCOVER)]), max_size=6))
def test_no_byte_is_lost_and_nothing_breaks_whatever_comes(pieces: list[bytes]) -> None:
    """The line that was answered and the rest are what was read, and only a handshake is answered."""
    came = [piece for piece in pieces if piece]
    pipe = Pipe(*came)

    opening = pipe.open()

    seen = opening.answered + b"\n" + opening.rest if opening.answered else opening.rest
    assert b"".join(came).startswith(seen)
    assert bool(opening.answered) == bool(pipe.written)
    if opening.answered:
        assert [json.loads(pipe.written)] == layer(opening.answered)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(0, 1) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from([INITIALIZE, DISCOVER]), st.data())
def test_the_front_never_answers_what_the_layer_would_answer_otherwise(message: Json, data: st.DataObject) -> None:
    """Any part of a handshake replaced by anything: the same answer, or none."""
    changed = json.loads(json.dumps(message))
    holder = changed
    path = data.draw(st.sampled_from([[], ["params"], ["params", "_meta"], ["params", "clientInfo"]]))
    for key in path:
        holder = holder.setdefault(key, {})
    keys = [*holder, "version", "_meta", "progressToken", VERSION, CAPABILITIES, CLIENT]
    holder[data.draw(st.sampled_from(keys))] = data.draw(json_values)
    pipe = Pipe(encoded(changed) + b"\n")

    pipe.open()

    assert pipe.written == b"" or [json.loads(pipe.written)] == layer(encoded(changed))


def test_a_client_that_cannot_be_answered_has_ended_the_conversation() -> None:
    """Nobody waits for what it has asked for."""

    def write(_data: bytes) -> None:
        raise BrokenPipeError

    opening = open_conversation(lambda _: encoded(INITIALIZE) + b"\nmore\n", write, GREETING)

    assert (opening.answered, opening.rest, opening.ended) == (b"", b"", True)


def test_a_client_that_cannot_be_read_has_ended_the_conversation() -> None:
    """What it has said before is handed on."""
    pieces = [b"begun"]

    def read(_size: int) -> bytes:
        if not pieces:
            raise ConnectionResetError
        return pieces.pop()

    opening = open_conversation(read, print, GREETING)

    assert (opening.answered, opening.rest, opening.ended) == (b"", b"begun", True)


def test_what_a_library_prints_or_reads_does_not_touch_the_conversation() -> None:
    """In a process of its own, as the streams of a process are its own."""
    program = (
        "import os, sys\n"
        "from switchboard.mcp.front import take_standard_streams\n"
        "source, target = take_standard_streams()\n"
        "print('noise', flush=True)\n"
        "assert sys.stdin.read() == ''\n"
        "os.write(target, os.read(source, 100).upper())\n"
    )

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        input=b"hello",
        capture_output=True,
        timeout=30,
        check=True,
        env=dict(os.environ),
    )

    assert (done.stdout, done.stderr) == (b"HELLO", b"noise\n")


def test_the_front_imports_nothing_heavy() -> None:
    """A client that waits for the handshake waits for every import before it."""
    program = (
        "import sys\n"
        "import switchboard.mcp.front\n"
        "print(sorted({'asyncio', 'msgspec', 'typing', 'inspect'} & set(sys.modules)))\n"
    )

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"],
        capture_output=True,
        timeout=30,
        check=True,
        text=True,
    )

    assert done.stdout == "[]\n"

"""The first answer: a handshake is answered before anything heavy is imported.

A client that waits for `initialize` or `server/discover` measures the start of the process by it. So one request is
answered here, with the standard library's JSON alone; everything else is handed on as it came. What this answers and
what `protocol` answers to the same line is the same.
"""

import json
import os
from collections.abc import Callable

from switchboard.mcp.greeting import CLIENT_CAPABILITIES, MODERN, PROTOCOL_VERSION, Greeting

_CHUNK = 65536
_LONGEST = 65536
"""A handshake is short; a longer first line is somebody else's business."""


class Opening:
    """How the conversation began: the line that was answered already, if any, and the bytes that were not."""

    __slots__ = ("answered", "ended", "rest")

    def __init__(self, answered: bytes, rest: bytes, *, ended: bool) -> None:
        self.answered = answered
        self.rest = rest
        self.ended = ended


def take_standard_streams() -> tuple[int, int]:
    """Return descriptors for the protocol, and lead the standard ones elsewhere.

    What a library prints goes to the standard error from here on, and what reads standard input reads nothing: neither
    can spoil the conversation, and no child process inherits it.
    """
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, target


def open_conversation(read: Callable[[int], bytes], write: Callable[[bytes], object], says: Greeting) -> Opening:
    """Read until the first line is whole, and answer it if it is a handshake."""
    buffer = b""
    while b"\n" not in buffer and len(buffer) <= _LONGEST:
        chunk = read(_CHUNK)
        if not chunk:
            return Opening(b"", buffer, ended=True)
        buffer += chunk
    line, _, rest = buffer.partition(b"\n")
    result = _handshake(line, says)
    if result is None:
        return Opening(b"", buffer, ended=False)
    write(json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return Opening(line, rest, ended=False)


def _handshake(line: bytes, says: Greeting) -> "dict[str, object] | None":
    try:
        message = json.loads(line)
        method, identity, params = message["method"], message["id"], message["params"]
        sane = message["jsonrpc"] == "2.0" and type(identity) in (int, str)
        meta = params.get("_meta", {})
        if sane and method == "initialize" and PROTOCOL_VERSION not in meta:
            requested = params["protocolVersion"]
            return {"jsonrpc": "2.0", "id": identity, "result": says.initialized(requested)}
        modern = meta.get(PROTOCOL_VERSION) in MODERN and type(meta.get(CLIENT_CAPABILITIES)) is dict
        if sane and method == "server/discover" and modern:
            return {"jsonrpc": "2.0", "id": identity, "result": says.discovered()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # not a handshake in the form everybody sends; whoever comes next says what is wrong with it
    return None

"""The first answer: a handshake is answered before anything heavy is imported.

A client that waits for `initialize` or `server/discover` measures the start of the process by it. So one request is
answered here, with the standard library's JSON alone; everything else is handed on as it came. What this answers and
what `protocol` answers to the same line is the same.
"""

import json
import os
from collections.abc import Callable

from switchboard.mcp.greeting import CLIENT_CAPABILITIES, CLIENT_INFO, MODERN, PROTOCOL_VERSION, Greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHUNK = 65536
_LONGEST = 65536
"""A handshake is short; a longer first line is somebody else's business."""
_UNUSUAL = frozenset({"inputResponses", "requestState"})
_PROGRESS = "progressToken"
_OUR_META = frozenset({PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, _PROGRESS})
_INFINITE = float("inf")


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
    can spoil the conversation, and no child process inherits it. A stream that is not open leads nowhere.
    """
    for standard in (0, 1, 2):
        _open(standard)
    source, target = os.dup(0), os.dup(1)
    if os.name == "posix":
        os.set_blocking(source, True)  # a client may hand over its end as it used it itself
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, target


def _open(standard: int) -> None:
    try:
        os.fstat(standard)
    except OSError:
        # The system gives the lowest number that is free, and the lower ones are open by now.
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def open_conversation(read: Callable[[int], bytes], write: Callable[[bytes], object], says: Greeting) -> Opening:
    """Read until the first line is whole, and answer it if it is a handshake.

    A client that is gone, whichever end of it one notices first, has ended the conversation.
    """
    buffer = b""
    while b"\n" not in buffer and len(buffer) <= _LONGEST:
        try:
            chunk = read(_CHUNK)
        except OSError:
            chunk = b""
        if not chunk:
            return Opening(b"", buffer, ended=True)
        buffer += chunk
    line, end, rest = buffer.partition(b"\n")
    answer = _answer(line, says) if end else None
    if answer is None:
        return Opening(b"", buffer, ended=False)
    try:
        write(answer + b"\n")
    except OSError:
        return Opening(b"", b"", ended=True)
    return Opening(line, rest, ended=False)


def _answer(line: bytes, says: Greeting) -> "bytes | None":
    """Return the answer to a handshake in the form everybody sends; what is wrong with another, whoever is next says.

    The standard library's JSON takes more than JSON: other encodings, numbers that are none, halves of characters.
    """
    try:
        message = json.loads(line.decode(), parse_constant=_refuse, parse_float=_finite)
        json.dumps(message, ensure_ascii=False).encode()
        method, identity, params = message["method"], message["id"], message["params"]
        if message["jsonrpc"] != "2.0" or type(identity) not in (int, str) or not _UNUSUAL.isdisjoint(params):
            return None
        result = _result(method, params, params.get("_meta", {}), says)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if result is None:
        return None
    said = {"jsonrpc": "2.0", "id": identity, "result": result}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()


def _result(
    method: object, params: "dict[str, Any]", meta: "dict[str, Any]", says: Greeting
) -> "dict[str, object] | None":
    """Return the result of a handshake; None where it is none, or not for sure one that the protocol takes."""
    if method == "initialize" and meta.keys().isdisjoint(_OUR_META):
        requested = params["protocolVersion"]
        plain = type(requested) is str and _is_plain(params.get("capabilities", {}), params, "clientInfo")
        return says.initialized(requested) if plain else None
    if method == "server/discover" and meta.get(PROTOCOL_VERSION) in MODERN and _PROGRESS not in meta:
        return says.discovered() if _is_plain(meta.get(CLIENT_CAPABILITIES), meta, CLIENT_INFO) else None
    return None


def _is_plain(capabilities: object, holder: "dict[str, Any]", key: str) -> bool:
    """Tell whether a client says what it can do and who it is, if it says so at all, as the protocol has it."""
    client = holder.get(key, {"name": ""})
    return type(capabilities) is dict and type(client["name"]) is str and type(client.get("version", "")) is str


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if number in (_INFINITE, -_INFINITE):
        raise ValueError(text)
    return number

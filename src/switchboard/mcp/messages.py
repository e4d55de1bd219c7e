"""JSON-RPC 2.0 as bytes: what a message is made of, whether it wants an answer, and how answers are written."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from switchboard.catalog.text import clean
from switchboard.mcp.greeting import CLIENT_CAPABILITIES, CLIENT_INFO, META, PROTOCOL_VERSION

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

SUBSCRIPTION = META + "subscriptionId"
MOST_IN_A_BATCH = 1000
_LONGEST_MESSAGE = 1000

RequestId = int | str
Result = dict[str, Any] | Raw


class Fault(Exception):
    """The protocol was used wrongly; becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Implementation(Struct):
    """Who a client says that it is."""

    name: str
    version: str = ""


class Meta(Struct):
    """What a request says about itself: everything, on the stateless protocol."""

    protocol_version: str | UnsetType = field(default=UNSET, name=PROTOCOL_VERSION)
    capabilities: dict[str, Any] | UnsetType = field(default=UNSET, name=CLIENT_CAPABILITIES)
    client: Implementation | UnsetType = field(default=UNSET, name=CLIENT_INFO)
    progress_token: int | str | UnsetType = field(default=UNSET, name="progressToken")


class Params(Struct):
    """What the parameters of any request may have."""

    meta: Meta = field(default_factory=Meta, name="_meta")
    answers: dict[str, dict[str, Any]] | UnsetType = field(default=UNSET, name="inputResponses")
    state: str | UnsetType = field(default=UNSET, name="requestState")


class Initialize(Struct):
    """What a client says in its handshake."""

    protocol_version: str = field(name="protocolVersion")
    capabilities: dict[str, Any] = {}
    client: Implementation | None = field(default=None, name="clientInfo")


class Cancelled(Struct):
    """Which request a client takes back."""

    request_id: RequestId = field(name="requestId")


class Message(Struct):
    """Any message, read no further than to know which kind it is."""

    jsonrpc: str
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


read_message = msgspec.json.Decoder(Message).decode
read_batch = msgspec.json.Decoder(list[Raw]).decode
read_params = msgspec.json.Decoder(Params).decode
encode = msgspec.json.Encoder().encode
decode = msgspec.json.decode
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading raises: it is no JSON, no text, too deep, or something else than was expected."""
_ids = msgspec.json.Decoder(RequestId)
_NOTIFICATION = b'{"jsonrpc":"2.0","method":'


def expects_answer(body: bytes) -> bool:
    """Tell whether anything will be sent back for a message, or for any of a batch."""
    if body.lstrip()[:1] != b"[":
        return wants_answer(body)
    try:
        messages = read_batch(body)
    except UNREADABLE:
        return True
    return not messages or len(messages) > MOST_IN_A_BATCH or any(wants_answer(bytes(item)) for item in messages)


def is_answer(message: bytes) -> bool:
    """Tell an answer, or several, from a notification: of what a connection sends, those begin with their method."""
    return not message.startswith(_NOTIFICATION)


def wants_answer(line: bytes) -> bool:
    """Tell whether anything will be sent back for one message."""
    try:
        message = read_message(line)
    except UNREADABLE:
        return True
    if message.method is UNSET:
        return message.result is UNSET and message.error is UNSET
    return message.id is not UNSET


def read_id(message: Message) -> RequestId:
    """Return the id of a request.

    Raises:
        Fault: it has one that cannot be used.
    """
    request_id = try_id(message)
    if request_id is None:
        raise Fault(INVALID_REQUEST, "an id is a string or a whole number")
    return request_id


def try_id(message: Message) -> RequestId | None:
    """Return the id of a message, if it has one that can be read."""
    try:
        return None if message.id is UNSET else _ids.decode(message.id)
    except UNREADABLE:
        return None


def what_is_wrong(line: bytes, error: Exception) -> tuple[RequestId | None, Fault]:
    """Tell text that is no JSON from JSON that is no message; the latter may still have an id to answer to."""
    try:
        document = decode(line)
    except UNREADABLE:
        return None, Fault(PARSE_ERROR, f"not JSON: {error}")
    found: object = cast("dict[str, object]", document).get("id") if isinstance(document, dict) else None
    request_id = found if isinstance(found, int | str) and not isinstance(found, bool) else None
    return request_id, Fault(INVALID_REQUEST, f"not a JSON-RPC message: {error}")


def succeeded(request_id: RequestId, result: Result) -> bytes:
    """Return a result as a message."""
    # In one go: a long list that is copied once more costs 90 µs, mostly of the system's for fresh memory.
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def failed(request_id: RequestId | None, fault: Fault) -> bytes:
    """Return an error as a message."""
    error: dict[str, object] = {"code": fault.code, "message": clean(fault.message, _LONGEST_MESSAGE)}
    if fault.data is not None:
        error["data"] = fault.data
    return encode({"jsonrpc": "2.0", "id": request_id, "error": error})

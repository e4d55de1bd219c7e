"""What HTTP has to know of an MCP message before anybody answers it: its kind, its version, and what headers repeat.

A message says which generation it belongs to: a header and, on the stateless protocol, its own `_meta`. What does not
fit together is refused here; what a message asks for is none of this file's business.
"""

from base64 import b64decode
from collections.abc import Iterable
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from switchboard.catalog.text import clean
from switchboard.mcp.greeting import CLIENT_INFO, LEGACY, MODERN, PROTOCOL_VERSION
from switchboard.mcp.messages import INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION, Fault, RequestId

HEADER_MISMATCH = -32020
VERSION = "MCP-Protocol-Version"
WITHOUT_HEADER = "2025-03-26"
"""The version of who sends no header: it is younger than HTTP in this form, and older than the header."""
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_LONGEST_SHOWN = 100

Kind = Literal["request", "notification", "answer", "batch", "unreadable"]


# Whatever is only looked at may be anything: a message that reads otherwise here than where it is answered would pass
# by what is checked.
class _Meta(Struct):
    version: Any = field(default=None, name=PROTOCOL_VERSION)
    client: Any = field(default=None, name=CLIENT_INFO)


class _Params(Struct):
    name: Any = None
    uri: Any = None
    meta: _Meta = field(default_factory=_Meta, name="_meta")
    cancelled: Any = field(default=None, name="requestId")
    client: Any = field(default=None, name="clientInfo")


class _Message(Struct):
    method: str | UnsetType = UNSET
    id: RequestId | UnsetType | None = UNSET
    params: Raw = Raw(b"{}")


_messages = msgspec.json.Decoder(_Message)
_params = msgspec.json.Decoder(_Params)


class Headers:
    """The headers of one request; what should be there once and is not, is nothing to rely on."""

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        return self._values.get(name.lower(), [])

    def first(self, name: str) -> str:
        """Return a header's first value, empty where it is not there."""
        return next(iter(self.all(name)), "")

    def only(self, name: str) -> str | None:
        """Return a header that may be there once.

        Raises:
            Fault: it is there several times.
        """
        values = self.all(name)
        if len(values) > 1:
            raise Fault(HEADER_MISMATCH, f"Header mismatch: {name} is there {len(values)} times")
        return values[0].strip(" \t") if values else None


class Envelope(Struct, frozen=True, kw_only=True):
    """A message from outside."""

    kind: Kind
    method: str = ""
    id: RequestId | None = None
    version: object = None
    """What the message itself says in `_meta`."""
    name: object = None
    """What is called or read."""
    cancelled: object = None
    """Which request a notification takes back."""
    client: str = ""
    """What the program that sends it calls itself."""

    @classmethod
    def of(cls, body: bytes) -> "Envelope":
        """Look at a body; one that is no message is for the conversation to refuse."""
        if body.lstrip()[:1] == b"[":
            return cls(kind="batch")
        try:
            message = _messages.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return cls(kind="unreadable")
        params = _read(message.params)
        if message.method is UNSET:
            return cls(kind="answer")
        version = params.meta.version
        if message.id is UNSET:
            return cls(kind="notification", method=message.method, version=version, cancelled=params.cancelled)
        return cls(
            kind="request",
            method=message.method,
            id=message.id,
            version=version,
            name=getattr(params, _NAMED.get(message.method, ""), None),
            client=_called(params.meta.client or params.client),
        )

    def agreed_version(self, headers: Headers) -> str:
        """Return the protocol version of this message.

        Raises:
            Fault: header and message do not fit together, or name a version that nobody here speaks.
        """
        given = headers.only(VERSION)
        if given is None:
            if self.version is not None and self.version not in LEGACY:
                raise Fault(HEADER_MISMATCH, f"Header mismatch: {VERSION} is missing")
            return WITHOUT_HEADER if self.version is None else str(self.version)
        if given not in (*MODERN, *LEGACY):
            known = {"supported": [*MODERN, *LEGACY], "requested": clean(given, _LONGEST_SHOWN)}
            raise Fault(UNSUPPORTED_VERSION, "Unsupported protocol version", known)
        if self.version is not None and self.version != given:
            raise Fault(HEADER_MISMATCH, f"Header mismatch: {VERSION} is not what _meta says")
        if given in MODERN:
            self._check_modern(headers)
        return given

    def _check_modern(self, headers: Headers) -> None:
        if self.kind in ("batch", "answer"):
            raise Fault(INVALID_REQUEST, "this protocol version takes one request or notification at a time")
        if self.kind != "request":
            return
        if self.version is None:
            raise Fault(INVALID_PARAMS, f"{clean(self.method, _LONGEST_SHOWN)}: _meta has no {PROTOCOL_VERSION}")
        _require_same(headers, "Mcp-Method", self.method)
        if self.method in _NAMED:
            _require_same(headers, "Mcp-Name", self.name, coded=True)


def _read(params: Raw) -> _Params:
    try:
        return _params.decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Params()


def _called(client: object) -> str:
    if not isinstance(client, dict):
        return ""
    known = cast("dict[str, object]", client)
    return clean(f"{known.get('name', '')} {known.get('version', '')}", _LONGEST_SHOWN)


def _require_same(headers: Headers, name: str, said: object, *, coded: bool = False) -> None:
    given = headers.only(name)
    if given is None:
        raise Fault(HEADER_MISMATCH, f"Header mismatch: {name} is missing")
    if (_decoded(given) if coded else given) != said:
        raise Fault(HEADER_MISMATCH, f"Header mismatch: {name} is not what the message says")


def _decoded(value: str) -> str | None:
    """Return a header's value as it is meant; None where it cannot be read."""
    if not value.startswith("=?base64?") or not value.endswith("?="):
        return value if value.isascii() and value.isprintable() else None
    try:
        return b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None

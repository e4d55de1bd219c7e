"""What every answer of the REST face has in common: JSON bodies, errors, request ids, times.

This is the one table from our errors to HTTP.
"""

import itertools
import os
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from switchboard.catalog import errors
from switchboard.catalog.errors import SwitchboardError
from switchboard.telemetry.logs import timestamp

STATUS: dict[type[SwitchboardError], tuple[int, str]] = {
    errors.InvalidQuery: (400, "invalid_parameter"),
    errors.Conflict: (409, "conflict"),
    errors.RequestTooLarge: (413, "payload_too_large"),
    errors.InvalidRequest: (400, "invalid_request"),
    errors.UnknownApp: (404, "not_found"),
    errors.UnknownTool: (404, "not_found"),
    errors.NotFound: (404, "not_found"),
    errors.InvalidParams: (422, "invalid_input"),
    errors.ConsentRequired: (403, "forbidden"),
    errors.AuthRequired: (401, "unauthorized"),
    errors.AuthDenied: (403, "forbidden"),
    errors.AuthExpired: (401, "unauthorized"),
    errors.AuthInvalid: (401, "unauthorized"),
    errors.RateLimited: (429, "rate_limited"),
    errors.CallTimeout: (504, "timeout"),
    errors.ServiceUnavailable: (503, "service_unavailable"),
    errors.NotSupported: (501, "not_implemented"),
    errors.InternalError: (500, "internal_error"),
}
ID_BEGIN = f"req_{os.urandom(6).hex()}"
"""How the ids of this instance's requests begin; the number of the request follows, in hexadecimal."""
new_number = itertools.count(1).__next__
"""Return the number of a new request."""
_LONGEST_ID = 128


def new_request_id() -> str:
    """Return an id that no other request of any instance has."""
    return f"{ID_BEGIN}{new_number():x}"


def request_id(given: str | None) -> str:
    """Return the caller's own id for its request if it is a sensible one, or a new one."""
    if given and len(given) <= _LONGEST_ID and given.isascii() and given.isprintable():
        return given
    return new_request_id()


def status_of(error: SwitchboardError) -> tuple[int, str]:
    """Return the HTTP status and the word of an error."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return STATUS[errors.InternalError]


def error_body(word: str, message: str, details: dict[str, Any] | None, identity: str) -> bytes:
    """Return the body of every refusal: seed 004, 3.7, with the request's id."""
    body: dict[str, Any] = {"error": word, "message": message}
    if details:
        body["details"] = details
    return msgspec.json.encode({**body, "request_id": identity})


def json_response(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer with a JSON document."""
    return Response(msgspec.json.encode(document), status, headers, media_type="application/json")


def error_response(error: SwitchboardError, request: Request) -> Response:
    """Answer with a refusal."""
    status, word = status_of(error)
    headers = {"Retry-After": "1"} if status == 503 else None  # noqa: PLR2004 - what the status means
    body = error_body(word, error.message, error.details, request.state.request_id)
    return Response(body, status, headers, media_type="application/json")


def plain_error(request: Request, status: int, word: str, message: str, **details: Any) -> Response:
    """Answer with a refusal that is about HTTP itself."""
    body = error_body(word, message, details, request.state.request_id)
    return Response(body, status, media_type="application/json")


def time_text(at: float) -> str:
    """Return a time as every answer writes it."""
    return timestamp(at)

"""Bodies of requests: read to their end within limits, and decoded once."""

from asyncio import timeout
from typing import Any, cast

import msgspec
from starlette.requests import Request

from switchboard.catalog.errors import CallTimeout, InvalidDescriptor, NotJson, RequestTooLarge, TooManyValues
from switchboard.catalog.text import clean
from switchboard.descriptors.document import LARGEST

BODY_S = 30.0
_MARGIN = 100
MOST_VALUES = 500_000


async def read_body(request: Request, largest: int = LARGEST) -> bytes:
    """Return the body.

    Raises:
        RequestTooLarge: as soon as it is.
        CallTimeout: it does not come to an end.
    """
    body = bytearray()
    try:
        async with timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > largest:
                    raise RequestTooLarge(largest)
    except TimeoutError as error:
        raise CallTimeout(f"The body was not complete after {BODY_S:g} s. Send it again, and faster.") from error
    return bytes(body)


async def read_fields(request: Request, largest: int = LARGEST) -> dict[str, Any]:
    """Return the object in a body; an empty one says nothing.

    Raises:
        InvalidDescriptor: it is something else.
        RequestTooLarge, CallTimeout: as `read_body` does, or it has too many values.
    """
    return fields_of(await read_body(request, largest))


def fields_of(body: bytes) -> dict[str, Any]:
    """Return the object that a body is; an empty one says nothing.

    Raises:
        NotJson: it is no JSON.
        InvalidDescriptor: it is something else.
        RequestTooLarge: it has too many values.
    """
    if not body.strip():
        return {}
    nested = body.count(b"{") + body.count(b"[")
    if nested + body.count(b",") > MOST_VALUES:
        raise TooManyValues(MOST_VALUES)
    try:
        document = _decoded(body, _MARGIN if nested > _MARGIN else 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"The body is not JSON: {clean(str(error), 200)}. Send a JSON object."
        raise NotJson(message, problems=[f"$: {error}"]) from error
    if not isinstance(document, dict):
        raise InvalidDescriptor(
            "The body must be a JSON object. Send one, even if it is empty: {}.", problems=["$: expected an object"]
        )
    return cast("dict[str, Any]", document)


def _decoded(body: bytes, margin: int) -> object:
    """Decode with so many frames less than there are: what just fits in here could not be written by anybody later."""
    return _decoded(body, margin - 1) if margin else msgspec.json.decode(body)

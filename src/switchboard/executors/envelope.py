"""The message that native apps and programs are called with: one JSON request, one JSON answer.

    {"version": "1.0", "tool": "…", "params": {…}, "request_id": "…"}
    {"version": "1.0", "request_id": "…", "status": "success", "result": …}
    {"version": "1.0", "request_id": "…", "status": "error", "error": {"code": "…", "message": "…"}}

Knows nothing of how the message travels. What an app says about its own failure is passed on in its own words.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from switchboard.actions.ports import Call, Outcome, Text
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import EFFECT_UNKNOWN, AnswerTooLarge, NotSupported, ServiceUnavailable
from switchboard.catalog.model import App
from switchboard.catalog.text import clean
from switchboard.executors.limits import LARGEST

_VERSION = "1.0"
_NO_CODE = "APP_ERROR"
_LONGEST_CODE = 100
_LONGEST_MESSAGE = 2000

Document = Mapping[str, Any]


def require_local(call: Call) -> None:
    """Refuse what a web site describes: it must not make this machine run or address anything.

    Raises:
        NotSupported: the descriptor came from the web.
    """
    if isinstance(call.owner, App) and call.owner.origin.startswith(("http://", "https://")):
        message = (
            f"{call.owner.id} comes from a web site, which cannot have something run on this machine. "
            "Install the app itself."
        )
        raise NotSupported(message, app=call.owner.id, origin=call.owner.origin)


def request(call: Call) -> bytes:
    """Return the request as one line without its end."""
    document = {
        "version": _VERSION,
        "tool": call.capability.id,
        "params": dict(call.arguments),
        "request_id": call.id,
    }
    return msgspec.json.encode(document)


def parse(text: bytes | str) -> Document | None:
    """Return the JSON object that `text` is, or None where it is anything else."""
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def id_of(document: Document) -> str:
    """Return which request a document answers; empty where it does not say."""
    value: object = document.get("request_id", document.get("requestId"))
    return value if isinstance(value, str) else ""


def answer(call: Call, text: bytes | str) -> Outcome:
    """Read an answer that came alone, over a way that brings one answer for one request.

    Raises:
        AnswerTooLarge: it is longer than we take.
        ServiceUnavailable: it is not an answer to this call.
    """
    if len(text) > LARGEST:
        raise too_large(call)
    document = parse(text)
    if document is None:
        said = text if isinstance(text, str) else text[:1000].decode(errors="replace")
        raise _unreadable(call, f"it is not a JSON object but {clean(said, 100)!r}" if said.strip() else "it is empty")
    return read(call, document)


def read(call: Call, document: Document) -> Outcome:
    """Return what an answer says.

    Raises:
        ServiceUnavailable: it is not an answer to this call.
    """
    status, echoed = document.get("status"), id_of(document)
    if echoed != call.id and not (echoed == "" and status == "error"):
        raise _unreadable(call, f"its request_id is {clean(echoed, 100)!r} instead of {call.id!r}")
    match status:
        case "success":
            return from_value(document.get("result"))
        case "error":
            return _failure(document.get("error"))
        case _:
            raise _unreadable(call, 'its status is neither "success" nor "error"')


def from_value(value: object) -> Outcome:
    """Return a result: text as it is, everything else as JSON to read and as data.

    Raises:
        NotSupported: there is no JSON for it, such as for a dictionary whose keys are no text.
    """
    if isinstance(value, str):
        return Outcome(parts=(Text(value),))
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSupported(
            f"The call was made, and its result cannot be written as JSON: {clean(str(error), 200)}. "
            "Tell its developer."
        ) from error
    return Outcome(parts=(Text(encoded.decode()),), data=Json(encoded))


def failure(code: str, message: str, **details: object) -> Outcome:
    """Return an error that the app itself reports."""
    shown_code, shown = clean(code, _LONGEST_CODE) or _NO_CODE, clean(message, _LONGEST_MESSAGE)
    data = {"code": shown_code, "message": shown, **details}
    return Outcome(parts=(Text(f"{shown_code}: {shown}"),), data=Json(msgspec.json.encode(data)), failed=True)


def too_large(call: Call) -> AnswerTooLarge:
    """Return what is said about an answer that is longer than we take."""
    return AnswerTooLarge(
        f"{call.owner.id} answers with more than {LARGEST} bytes. Ask it for less.", app=call.owner.id
    )


def _failure(error: object) -> Outcome:
    if not isinstance(error, dict):
        return failure(_NO_CODE, error if isinstance(error, str) else "The app says that it failed, and not why.")
    told = cast("dict[str, Any]", error)
    code, message = told.get("code"), told.get("message")
    details = {key: value for key, value in told.items() if key not in ("code", "message")}
    return failure(
        _NO_CODE if code is None else str(code),
        message if isinstance(message, str) else "The app says that it failed, and not why.",
        **details,
    )


def _unreadable(call: Call, why: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"{call.owner.id} gave an answer to {call.capability.id} that cannot be read: {why}. "
        f"{EFFECT_UNKNOWN} Tell its developer.",
        app=call.owner.id,
    )

"""What a call does, without doing it: requests out, answers in, decided by generators that do no I/O.

A plan yields a `Request` to be sent or a `Pause` to be made, is sent what came of it, and returns its result. The two
shells in `links` carry plans out, one blocking and one for asyncio. Time comes in with the answers, so nothing here
reads a clock. A plan that follows something yields a `Listen`, a `More` for every piece, and its findings in between.
"""

from collections.abc import Generator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from agentfield import errors

T = TypeVar("T")
_LONGEST_QUOTE = 200
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_UNREACHED_S = 1.0
_RETRIED = frozenset({429, 502, 503, 504})
_REDIRECTS = range(300, 400)
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Request(msgspec.Struct, frozen=True):
    """One HTTP request.

    `repeatable` says that it may be sent again though it may have been received: it only asks, or it has an
    idempotency key.
    """

    method: Literal["GET", "POST"]
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    seconds: float = 20.0
    repeatable: bool = False


class Pause(msgspec.Struct, frozen=True):
    """A time in which nothing is to be done."""

    seconds: float


class Answer(msgspec.Struct, frozen=True):
    """What came back, and how long it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    took: float = 0.0


class Lost(msgspec.Struct, frozen=True):
    """No answer; `sent` says that the request may have been received all the same.

    `broken` is an answer that came and cannot be unpacked. `seen_before` says that the control plane is known to be
    there, because a connection to it was opened before.
    """

    why: str
    sent: bool
    timed_out: bool = False
    broken: bool = False
    took: float = 0.0
    seen_before: bool = False


class Listen(msgspec.Struct, frozen=True):
    """A request whose answer does not end; what was listened to before ends with it. `seconds` may be silent."""

    request: Request


class More(msgspec.Struct, frozen=True):
    """The wish for the next piece of what is listened to: bytes, or `Lost` at its end."""


class Opened(msgspec.Struct, frozen=True):
    """The answer to a `Listen` that goes on; any other is an `Answer` or `Lost`."""

    headers: Mapping[str, str]


Follow: TypeAlias = Request | Pause | Listen | More
Reply: TypeAlias = Answer | Lost | None
Plan: TypeAlias = Generator[Request | Pause, Reply, T]


def exchange(request: Request, patience: float) -> Plan[Answer]:
    """Send a request until there is an answer, as often as that is safe; it took as long as all attempts together.

    Raises:
        ConnectionFailed: There was none within the patience.
        Timeout: There was none in time, and asking again is not safe or was in vain.
    """
    spent = 0.0
    attempt = 0
    while True:
        reply = yield from once(request)
        spent += reply.took
        pause = pause_before(reply, request, attempt, spent, patience)
        if pause is None:
            break
        yield Pause(pause)
        spent += pause
        attempt += 1
    if isinstance(reply, Lost):
        raise _lost(reply)
    return msgspec.structs.replace(reply, took=spent)


def once(request: Request) -> Plan[Answer | Lost]:
    """Send a request one time."""
    reply = yield request
    assert reply is not None, "a shell replies to every request"  # noqa: S101 - a shell of ours that does not is broken
    return reply


def pause_before(reply: Answer | Lost, request: Request, attempt: int, spent: float, patience: float) -> float | None:
    """Decide how long to wait before sending a request again; None is not to send it again.

    What may have been received is repeated only if that changes nothing. A control plane that never answered is given
    a second, one that is known to be there the whole patience.
    """
    pause = min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S)
    if isinstance(reply, Lost):
        again = (request.repeatable or not reply.sent) and not reply.timed_out and not reply.broken
        limit = patience if reply.seen_before else min(patience, _UNREACHED_S)
        return pause if again and spent + pause <= limit else None
    if reply.status not in _RETRIED or not request.repeatable or is_execution(reply):
        return None
    pause = max(pause, _retry_after(reply))
    return pause if spent + pause <= patience else None


def read(answer: Answer, kind: type[T]) -> T:
    """Return an answer's body as a value of a type.

    Raises:
        APIError: The control plane refused.
        BadAnswer: The body is something else.
    """
    refuse(answer)
    return parse(answer, kind)


def parse(answer: Answer, kind: type[T]) -> T:
    """Return a body as a value of a type, whatever the status.

    Other control planes say `null` for an empty list, and no text for a time that is not known: what is null or empty
    counts as not said, and only then, because looking takes time.

    Raises:
        BadAnswer: The body is something else.
    """
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.ValidationError:
        pass
    except _NO_JSON as error:
        raise _not_json(answer) from error
    try:
        return msgspec.convert(_said(msgspec.json.decode(answer.body)), kind)
    except msgspec.ValidationError as error:
        raise errors.BadAnswer(f"The answer is not what a control plane sends: {error}. {_quoted(answer)}") from error
    except _NO_JSON as error:
        raise _not_json(answer) from error


def refuse(answer: Answer) -> None:
    """Raise what the control plane refused with, if it did.

    Raises:
        APIError: It did.
    """
    if answer.status < _REDIRECTS.start:
        return
    kind = errors.REFUSALS.get(answer.status, errors.APIError)
    fields = fields_of(answer)
    details = fields.get("details")
    raise kind(
        answer.status,
        _text(fields.get("error")),
        _text(fields.get("message")) or _text(fields.get("error")) or _unsaid(answer),
        _text(fields.get("request_id")) or answer.headers.get("x-request-id", ""),
        cast("dict[str, Any]", details) if isinstance(details, dict) else None,
    )


def fields_of(answer: Answer) -> dict[str, Any]:
    """Return the members of a body that is a JSON object, and none of any other."""
    try:
        document = msgspec.json.decode(answer.body)
    except _NO_JSON:
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def is_execution(answer: Answer) -> bool:
    """Tell whether a refusal is the end of an execution: those have an id and no code of an error of ours."""
    return b'"execution_id"' in answer.body and isinstance(fields_of(answer).get("status"), str)


def _lost(reply: Lost) -> errors.AgentFieldError:
    if reply.broken:
        return errors.BadAnswer(reply.why)
    if reply.timed_out:
        return errors.Timeout(f"{reply.why} It may be busy; ask again, or allow more with Agent(timeout=...).")
    return errors.ConnectionFailed(
        f"{reply.why} Is it running (`switchboard serve`), and is AGENTFIELD_SERVER its address?"
    )


def _unsaid(answer: Answer) -> str:
    if answer.status in _REDIRECTS:
        place = answer.headers.get("location", "another address")[:_LONGEST_QUOTE]
        return f"The server sends us on to {place}. Set AGENTFIELD_SERVER to the control plane itself."
    return f"The server answers {answer.status}. {_quoted(answer)}"


def _not_json(answer: Answer) -> errors.BadAnswer:
    return errors.BadAnswer(f"The answer is not JSON. {_quoted(answer)} Is AGENTFIELD_SERVER a control plane?")


def _quoted(answer: Answer) -> str:
    kind = answer.headers.get("content-type", "no type")[:_LONGEST_QUOTE]
    return f"Status {answer.status}, {kind}, beginning with {answer.body[:_LONGEST_QUOTE].decode(errors='replace')!r}."


def _retry_after(answer: Answer) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_OPAQUE = frozenset({"input_schema", "output_schema", "examples", "result", "error_details"})
"""What agents wrote stays as it is."""


def _said(document: object) -> object:
    if isinstance(document, list):
        return [_said(item) for item in cast("list[object]", document)]
    if not isinstance(document, dict):
        return document
    fields = cast("dict[str, object]", document).items()
    times = ("discovered_at", "last_heartbeat")
    return {
        key: value if key in _OPAQUE else _said(value)
        for key, value in fields
        if value is not None and not (value == "" and (key in times or key.endswith("_at")))
    }

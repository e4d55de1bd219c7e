"""Ask a running control plane, for the commands: whatever is wrong there comes back as one line, with what to do."""

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

import msgspec

from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

_ASK_S = 10.0
_EXECUTE_S = 610.0
_GOOD, _NO_KEY = (200, 201), 401
_LONGEST = 4000


class AskError(Exception):
    """A control plane could not be asked, or refused; the message says why."""


class Refused(AskError):
    """It answered that it does not do that; `answer` is all of what it said."""

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class NoAddress(AskError):
    """What was named cannot be asked at all: a wrong address, or a key that cannot be sent."""


def ask(url: str, path: str, parameters: "Sequence[tuple[str, str]]", api_key: str | None) -> bytes:
    """Ask a running control plane.

    Raises:
        AskError: nobody answers there, or it refused; the message says which, and what to do.
    """
    return _answer(url, path, api_key, parameters=list(parameters))


def execute(url: str, target: str, given: bytes, api_key: str | None) -> bytes:
    """Have a running control plane execute something, and return its answer.

    Raises:
        AskError: nobody answers there, or it did not work; the message says which, and what to do.
    """
    path = f"/api/v1/execute/{quote(target, safe=':', errors='surrogateescape')}"
    return _answer(url, path, api_key, method="POST", body=b'{"input":%b}' % given, timeout_s=_EXECUTE_S)


def send(method: str, url: str, path: str, api_key: str | None, body: bytes | None = None) -> bytes:
    """Have a running control plane do something that takes no time, and return its answer.

    Raises:
        Refused: it does not; the answer may say more than the message.
        AskError: nobody answers there; the message says what to do.
    """
    return _answer(url, path, api_key, method=method, body=body, timeout_s=_ASK_S)


def stranger(url: str) -> AskError:
    """Return what to say where an answer is good HTTP and not a control plane's."""
    return AskError(f"{_shown(url)} answers, and not as a control plane does. Name the right one with --server.")


def _answer(  # noqa: PLR0913 - what a request is made of
    url: str,
    path: str,
    api_key: str | None,
    *,
    method: str = "GET",
    parameters: list[tuple[str, str]] | None = None,
    body: bytes | None = None,
    timeout_s: float = _ASK_S,
) -> bytes:
    from switchboard.net.client import request  # noqa: PLC0415 - 120 ms, for who asks

    _require_askable(url, api_key)
    try:
        status, answer = request(
            method, url.rstrip("/") + path, api_key=api_key, parameters=parameters, body=body, timeout_s=timeout_s
        )
    except ServiceUnavailable as error:
        hint = "Start one with `switchboard serve`, or name another with --server."
        raise AskError(f"No control plane answers at {_shown(url)}. {hint}") from error
    if status in _GOOD:
        return answer
    if status == _NO_KEY:
        wrong = "does not accept this API key" if api_key else "wants an API key"
        raise AskError(f"The control plane at {_shown(url)} {wrong}. Set AGENTFIELD_API_KEY to the right one.")
    said = _said(answer) or f"{_shown(url)} answered {status}. Is a control plane there? Name it with --server."
    raise Refused(said, answer)


def _require_askable(url: str, api_key: str | None) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        shown = clean(url.rpartition("@")[2], 200)
        raise NoAddress(f"{shown!r} is no address of a control plane. Write it as http://localhost:8080.")
    if api_key and not (api_key.isascii() and api_key.isprintable()):
        raise NoAddress("The API key has characters that cannot be sent. Copy it again.")


def _shown(url: str) -> str:
    """Return an address as it may be shown: without a name and a password."""
    parts = urlsplit(url)
    return clean(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), 200)


def _said(answer: bytes) -> str:
    """Return what an error says, whichever of its two forms it has."""
    try:
        document = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    said = clean(str(document.get("message") or document.get("error_message") or ""), _LONGEST)
    details: Any = document.get("details")
    schema: object = cast("dict[str, Any]", details).get("schema") if isinstance(details, dict) else None
    return f"{said} The schema: {msgspec.json.encode(schema).decode()}" if schema else said

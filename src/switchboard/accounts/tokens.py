"""What a token endpoint says, read once, in every spelling there is. Pure.

Strangers write these answers: nothing in them can make reading fail in another way than `Refused` or `Unusable`, and
nothing that was sent to them comes back in a text.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import TokenType
from switchboard.catalog.text import clean
from switchboard.net.spellings import spellings

LARGEST = 64 * 1024
"""Of an answer, in bytes."""
_LONGEST_TOKEN = 16 * 1024
_LONGEST_SAID = 300
_LONGEST_CODE = 60
_SHORTEST_SECRET = 4
_LONGEST_LIFE_S = 10 * 365 * 86400.0
_MOST_SCOPES = 100
_HIDDEN = "[secret]"
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_TRY_LATER = frozenset({408, 425, 429})
_SERVERS_FAULT = 500
_SUCCESS = range(200, 300)
_REDIRECTION = range(300, 400)


class Said(Struct, frozen=True, kw_only=True):
    """An answer as it came. Its body is full of secrets."""

    status: int
    body: bytes

    def __repr__(self) -> str:
        return f"Said(status={self.status}, …)"


class Tokens(Struct, frozen=True, kw_only=True):
    """What a token endpoint gave; `scopes` is None where it says nothing about them. Never shown."""

    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None
    scopes: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return "Tokens(…)"


class Refused(Exception):
    """The server says no: `error` is its code where it has one, `said` are its words, safe to show."""

    def __init__(self, error: str, said: str) -> None:
        super().__init__(error)
        self.error = error
        self.said = said


class Unusable(Exception):
    """The answer is none: the server is in trouble, or speaks another language. `why` is safe to show."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def read_tokens(said: Said, sent: Iterable[str] = ()) -> Tokens:
    """Read the answer to a token request that carried the secrets `sent`.

    Raises:
        Refused: the server says no.
        Unusable: it says nothing that can be used.
    """
    document = read_document(said)
    if said.status not in _SUCCESS or _text(document, "error"):
        raise _refusal(said, document, sent)
    kind = _text(document, "token_type", "tokenType")
    if kind and kind.lower() != "bearer":
        raise Unusable("it gives tokens of a kind that is not used here")
    access = _token(document, "access_token", "accessToken")
    if access is None:
        raise Unusable("there is no access token in its answer")
    refresh = _token(document, "refresh_token", "refreshToken")
    return Tokens(
        access_token=access,
        refresh_token=refresh,
        expires_in=_seconds(document, "expires_in", "expiresIn", "expire"),
        scopes=_scopes(document, (access, refresh or access, *sent)),
    )


_APP_TOKENS: dict[TokenType, str] = {
    "tenantAccessToken": "tenant_access_token",
    "appAccessToken": "app_access_token",
    "userAccessToken": "user_access_token",
}


def read_app_token(said: Said, wanted: TokenType, sent: Iterable[str]) -> Tokens:
    """Read the answer to an exchange of app id and secret; a `code` that is not 0 says no, whatever the status.

    Raises:
        Refused: the server says no.
        Unusable: it says nothing that can be used.
    """
    document = read_document(said)
    code: object = document.get("code", 0)
    if said.status not in _SUCCESS or str(code) not in ("0", "None"):
        raise _refusal(said, document, sent)
    names = dict.fromkeys((wanted, *_APP_TOKENS))
    spellings = [spelling for name in names for spelling in (_APP_TOKENS[name], name)]
    access = _token(document, *spellings, "access_token", "accessToken")
    if access is None:
        raise Unusable("there is no token in its answer")
    return Tokens(access_token=access, expires_in=_seconds(document, "expire", "expires_in", "expiresIn"))


def read_document(said: Said) -> Mapping[str, Any]:
    """Return the JSON object of an answer; an empty one where a refusal has none.

    Raises:
        Unusable: the server is in trouble, leads elsewhere, or does not speak JSON.
    """
    if said.status >= _SERVERS_FAULT or said.status in _TRY_LATER:
        raise Unusable(f"it answers {said.status}")
    if said.status in _REDIRECTION:
        raise Unusable(f"it answers {said.status}, and what opens an account is not sent on to another address")
    if len(said.body) > LARGEST:
        raise Unusable("it sends more than fits")
    try:
        document: object = msgspec.json.decode(said.body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        document = None
    if isinstance(document, dict):
        return cast("dict[str, Any]", document)
    if said.status not in _SUCCESS:
        return {"error_description": said.body.decode(errors="replace")} if not _is_page(said.body) else {}
    raise Unusable("what it sends is not JSON")


def said_safely(text: str, sent: Iterable[str]) -> str:
    """Return words of a server on one line, without the secrets it was sent, in any spelling."""
    # Cleaned first: what is invisible could stand between the letters of a secret.
    visible = clean(text, LARGEST)
    for secret in sorted({form for value in sent for form in _forms(value)}, key=len, reverse=True):
        visible = visible.replace(secret, _HIDDEN)
    return clean(visible, _LONGEST_SAID)


def is_sendable(value: str) -> bool:
    """Say whether a text can stand in a header or a form as it is."""
    return len(value) <= _LONGEST_TOKEN and _VISIBLE.fullmatch(value) is not None


def _refusal(said: Said, document: Mapping[str, Any], sent: Iterable[str]) -> Refused:
    code = document.get("error", document.get("code", ""))
    error = str(code) if isinstance(code, str | int) else ""
    words = _text(document, "error_description", "errorDescription", "msg", "message")
    return Refused(
        said_safely(error, sent)[:_LONGEST_CODE],
        said_safely(words, sent) or f"it answers {said.status}, without a word",
    )


def _text(document: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := document.get(name), str) and value), "")


def _token(document: Mapping[str, Any], *names: str) -> str | None:
    value = _text(document, *names)
    return value if is_sendable(value) else None


def _seconds(document: Mapping[str, Any], *names: str) -> float | None:
    """Return how long something lasts; None where that is not said, or makes no sense."""
    value = next((document[name] for name in names if document.get(name) is not None), None)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return min(seconds, _LONGEST_LIFE_S) if math.isfinite(seconds) and seconds > 0 else None


def _scopes(document: Mapping[str, Any], secrets: Iterable[str]) -> tuple[str, ...] | None:
    value = document.get("scope", document.get("scopes"))
    if isinstance(value, list):
        words = [word for word in cast("list[object]", value) if isinstance(word, str)]
    elif isinstance(value, str):
        words = value.replace(",", " ").split()
    else:
        return None
    return tuple(said_safely(word, secrets) for word in words[:_MOST_SCOPES])


def _forms(value: str) -> tuple[str, ...]:
    return (clean(value, LARGEST), *spellings(value)) if len(value) >= _SHORTEST_SECRET else ()


def _is_page(body: bytes) -> bool:
    return body.lstrip()[:1] in (b"<", b"[", b'"')

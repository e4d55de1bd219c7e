"""Run a tool of a web API: `baseUrl` and path, arguments in path, query, headers or body, one request, no repetition.

A value in the path is percent-encoded whole and never makes a step up, so that no argument can lead to another address.
Nothing that opens the app appears in what is returned or raised, even where the app repeats it.
"""

import re
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, NoReturn, final

import msgspec

from switchboard.actions.ports import Blob, Call, Executor, Outcome, Secret, Text
from switchboard.catalog.bindings import Http, Json, Output, Pairs
from switchboard.catalog.errors import (
    EFFECT_UNKNOWN,
    AuthDenied,
    AuthExpired,
    AuthRequired,
    CallTimeout,
    InvalidParams,
    InvalidRequest,
    NotFound,
    NotSupported,
    RateLimited,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.catalog.text import clean
from switchboard.executors.limits import LARGEST, seconds
from switchboard.net.spellings import spellings

if TYPE_CHECKING:
    from switchboard.executors.templates import Filled
    from switchboard.net.fetch import Answer, Fetch

_LONGEST_SAID = 500
_SHORTEST_SECRET = 6
_REDIRECTS = 5
_SUCCESS = range(200, 300)
_CALLERS_FAULT = range(400, 500)
_FAILURES: dict[int, type[SwitchboardError]] = {
    403: AuthDenied,
    404: NotFound,
    408: CallTimeout,
    429: RateLimited,
    501: NotSupported,
    504: CallTimeout,
}
_ADVICE: dict[type[SwitchboardError], str] = {
    AuthDenied: "The user's account may not do this: tell the user.",
    AuthRequired: "It wants a sign-in that its descriptor does not describe: tell its developer.",
    CallTimeout: EFFECT_UNKNOWN,
    InvalidRequest: "Correct the call before it is made again.",
    NotFound: "Check the ids in the arguments.",
    NotSupported: "Use another tool for this.",
    RateLimited: "Call again later, and less often.",
    ServiceUnavailable: "Try again later.",
}
_UNAUTHORIZED = 401
_BAD_ARGUMENTS = (400, 422)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._-]{1,40})""", re.IGNORECASE)
# What answers are written in. Python knows more codecs, and some of them take quadratic time.
_READ = re.compile(
    r"utf-?(8|16|32)(-?[lb]e)?|(us-)?ascii|latin-?1|iso-?8859-\d{1,2}|(windows-|cp)125\d|gbk|gb2312|gb18030|big5"
    r"|shift-jis|sjis|euc-(jp|kr)|koi8-[ru]"
)
_HIDDEN = "[secret]"


@final
class HttpExecutor(Executor):
    """Calls web APIs through the guarded client."""

    def __init__(self, fetch: "Callable[[], Fetch]") -> None:
        self._fetch = fetch

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Send the request of this tool."""
        from switchboard.executors.templates import fill  # noqa: PLC0415 - with the first call, as is the client
        from switchboard.net.fetch import Limits  # noqa: PLC0415

        execution = call.capability.binding.execution
        if not isinstance(execution, Http):
            raise NotSupported(f"{call.owner.id} has no web address. Its descriptor is wrong: tell its developer.")
        filled = fill(execution, call)
        limits = Limits(
            seconds=seconds(call.capability.binding),
            size=LARGEST,
            # A redirect could carry to somebody else what the address of this call was opened with.
            redirects=0 if secret else _REDIRECTS,
        )
        answer = await self._fetch().send(
            filled.method,
            filled.url(secret.query if secret else ()),
            headers=_headers(execution.default_headers, filled, secret),
            content=filled.body,
            limits=limits,
        )
        if answer.status not in _SUCCESS:
            _refuse(call, answer, secret)
        return _outcome(answer, call.capability.binding.route.output, secret)


def _headers(defaults: Pairs, filled: "Filled", secret: Secret | None) -> Pairs:
    """Return the headers of a request; of one name, whatever its letters, the last layer wins."""
    kind: Pairs = (("Content-Type", filled.content_type),) if filled.content_type else ()
    layers = (kind, defaults, filled.headers, secret.headers if secret else ())
    merged = {name.lower(): (name, value) for layer in layers for name, value in layer}
    return tuple(merged.values())


def _outcome(answer: "Answer", output: Output | None, secret: Secret | None) -> Outcome:
    header = answer.header("content-type") or ""
    kind = header.partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json") or (not kind and answer.body[:1] in (b"{", b"["))
    is_text = not kind or kind.startswith("text/") or kind in ("application/xml", "application/x-www-form-urlencoded")
    if output == "json" or (is_json and output is None):
        found = _document(_text(answer.body, "", secret), secret)
        if found is not None:
            return found
    elif output is None and not is_text and answer.body:
        return Outcome(parts=(Blob(kind, _hidden_in(answer.body, secret)),))
    return Outcome(parts=(Text(_text(answer.body, header, secret)),))


def _document(text: str, secret: Secret | None) -> Outcome | None:
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if isinstance(document, str):
        return Outcome(parts=(Text(_hidden(document, secret)),))
    encoded = msgspec.json.encode(document)
    shown = _hidden(encoded.decode(), secret)  # once more: JSON can write any letter in code
    return Outcome(parts=(Text(shown),), data=Json(encoded) if shown == encoded.decode() else None)


def _refuse(call: Call, answer: "Answer", secret: Secret | None) -> NoReturn:
    text = _text(answer.body, answer.header("content-type") or "", secret)
    said = clean(text[: 8 * _LONGEST_SAID], _LONGEST_SAID)
    retry = clean(answer.header("retry-after") or "", 60)
    message = f"{call.owner.id} answers {answer.status}{': ' + said if said else ''}."
    if answer.status in _BAD_ARGUMENTS:
        schema = msgspec.json.decode(call.capability.input_schema or b"{}")
        raise InvalidParams(f"{message} Correct the arguments, and call again.", violations=[said], schema=schema)
    details: dict[str, object] = {"status": answer.status, "said": said}
    if retry:
        details["retry_after"] = int(retry) if retry.isascii() and retry.isdecimal() else retry
        message += f" It says when to try again: {retry}{' seconds' if retry.isdecimal() else ''}."
    kind = _kind(answer.status, secret)
    raise kind(f"{message} {_advice(kind, call)}", **details)


def _advice(kind: type[SwitchboardError], call: Call) -> str:
    if kind is AuthExpired:
        app = quote(clean(call.address or call.owner.id, _LONGEST_SAID))
        return f"Ask the user to sign in anew: switchboard auth login {app}"
    return _ADVICE[kind]


def _kind(status: int, secret: Secret | None) -> type[SwitchboardError]:
    if status == _UNAUTHORIZED:
        return AuthExpired if secret else AuthRequired
    return _FAILURES.get(status, InvalidRequest if status in _CALLERS_FAULT else ServiceUnavailable)


def _text(body: bytes, content_type: str, secret: Secret | None) -> str:
    """Return a body as text, without what opens the app."""
    charset = _CHARSET.search(content_type)
    name = charset[1].lower().replace("_", "-") if charset else ""
    try:
        text = body.decode(name if _READ.fullmatch(name) else "utf-8", errors="replace")
    except (LookupError, UnicodeError):
        text = body.decode(errors="replace")
    return _hidden(text, secret).removeprefix("\ufeff")


def _hidden(text: str, secret: Secret | None) -> str:
    for value in _values(secret):
        text = text.replace(value, _HIDDEN)
    return text


def _hidden_in(body: bytes, secret: Secret | None) -> bytes:
    for value in _values(secret):
        body = body.replace(value.encode(), _HIDDEN.encode())
    return body


def _values(secret: Secret | None) -> list[str]:
    """Return everything that must not be shown, longest first: values, what follows a word like Bearer, cookies."""
    whole = [value for _, value in (*secret.headers, *secret.query)] if secret else []
    tokens = [value.partition(" ")[2] for value in whole]
    cookies = [pair.partition("=")[2].strip() for value in whole for pair in value.split(";")]
    found = {value for value in (*whole, *tokens, *cookies) if len(value) >= _SHORTEST_SECRET}
    return sorted({form for value in found for form in spellings(value)}, key=len, reverse=True)

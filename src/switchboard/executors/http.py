"""Run a tool of a web API: `baseUrl` and path, arguments in path, query or JSON body, one request, no repetition.

A value in the path is percent-encoded whole, so that no argument can lead to another address.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast, final
from urllib.parse import quote, urlencode

import msgspec

from switchboard.actions.ports import Blob, Call, Executor, Outcome, Secret, Text
from switchboard.catalog.bindings import Http, Json, Pairs, Route
from switchboard.catalog.errors import (
    AuthDenied,
    AuthExpired,
    InvalidParams,
    NotFound,
    NotSupported,
    RateLimited,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.catalog.model import Capability
from switchboard.catalog.text import clean

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch

_PLACEHOLDER = re.compile(r"\$?\{([^{}]+)\}")
_IN_QUERY = frozenset({"GET", "HEAD", "DELETE"})
_DEFAULT_S = 30.0
_LARGEST = 4 * 1024 * 1024
_LONGEST_SAID = 500
_SUCCESS = range(200, 300)
_FAILURES: dict[int, type[SwitchboardError]] = {
    401: AuthExpired,
    403: AuthDenied,
    404: NotFound,
    429: RateLimited,
    501: NotSupported,
}
_BAD_ARGUMENTS = (400, 422)


@final
class HttpExecutor(Executor):
    """Calls web APIs through the guarded client."""

    def __init__(self, fetch: "Callable[[], Fetch]") -> None:
        self._fetch = fetch

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Send the request of this tool."""
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - the client is imported with the first call

        execution, route = call.capability.binding.execution, call.capability.binding.route
        if not isinstance(execution, Http):
            raise NotSupported(f"{call.owner.id} has no web address.")
        method = (route.method or "POST").upper()
        url, body = _request(execution, route, method, call.arguments, secret)
        milliseconds = route.timeout_ms or execution.timeout_ms
        limits = Limits(seconds=milliseconds / 1000 if milliseconds else _DEFAULT_S, size=_LARGEST, redirects=0)
        headers = list(_headers(execution.default_headers, route.headers, secret.headers if secret else ()))
        if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
            headers.append(("Content-Type", "application/json"))
        answer = await self._fetch().send(method, url, headers=headers, content=body, limits=limits)
        if answer.status not in _SUCCESS:
            _refuse(call, answer)
        return _outcome(answer)


def _headers(*layers: Pairs) -> Pairs:
    """Return the headers of a request; of one name, whatever its letters, the last layer wins."""
    merged = {name.lower(): (name, value) for layer in layers for name, value in layer}
    return tuple(merged.values())


def _request(
    execution: Http, route: Route, method: str, arguments: Mapping[str, Any], secret: Secret | None
) -> tuple[str, bytes | None]:
    used: set[str] = set()

    def filled(match: re.Match[str]) -> str:
        name = match[1]
        if name not in arguments:
            message = f"The address of this tool needs {name!r}."
            raise InvalidParams(message, violations=[f"$.{name}: is missing"], schema={"required": [name]})
        used.add(name)
        return quote(_plain(arguments[name]), safe="")

    path = _PLACEHOLDER.sub(filled, route.path or "")
    url = f"{execution.base_url.rstrip('/')}/{path.lstrip('/')}" if path else execution.base_url
    rest = {name: value for name, value in arguments.items() if name not in used}
    query = [*route.query, *(_pairs(rest) if method in _IN_QUERY else ()), *(secret.query if secret else ())]
    if query:
        url += ("&" if "?" in url else "?") + urlencode(query)
    return url, None if method in _IN_QUERY else msgspec.json.encode(rest)


def _pairs(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in arguments.items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        pairs += [(name, _plain(item)) for item in values]
    return pairs


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _outcome(answer: "Answer") -> Outcome:
    kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json") or (not kind and answer.body[:1] in b"{["):
        try:
            document = msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Outcome(parts=(Text(answer.body.decode(errors="replace")),))
        if isinstance(document, str):
            return Outcome(parts=(Text(document),))
        return Outcome(parts=(Text(msgspec.json.encode(document).decode()),), data=Json(answer.body))
    if not kind or kind.startswith("text/") or kind in ("application/xml", "application/x-www-form-urlencoded"):
        return Outcome(parts=(Text(answer.body.decode(errors="replace")),))
    return Outcome(parts=(Blob(kind, answer.body),))


def _refuse(call: Call, answer: "Answer") -> NoReturn:
    said = clean(answer.body[: 4 * _LONGEST_SAID].decode(errors="replace"), _LONGEST_SAID)
    message = f"{call.owner.id} answers {answer.status}{': ' + said if said else ''}."
    if answer.status in _BAD_ARGUMENTS:
        raise InvalidParams(message, violations=[said], schema=_schema(call.capability))
    kind = _FAILURES.get(answer.status, ServiceUnavailable)
    raise kind(message, status=answer.status, said=said)


def _schema(capability: Capability) -> object:
    return msgspec.json.decode(capability.input_schema or b"{}")

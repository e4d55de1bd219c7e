"""The whole REST face as one ASGI application: who may come in, then discovery, then everything else.

Every answer has a request id, every refusal a JSON body.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from switchboard.actions.ports import Clock
from switchboard.catalog.errors import InternalError, SwitchboardError
from switchboard.catalog.text import nearest
from switchboard.rest.answers import error_body, error_response, plain_error, request_id
from switchboard.rest.discovery import PATH, Discovery
from switchboard.rest.replies import Headers, Reply
from switchboard.telemetry.logs import Log, fault

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_READING = ("GET", "HEAD")
_READING_BYTES = (b"GET", b"HEAD")
_PATH = PATH.encode()
OPEN_PATHS = frozenset({"/", "/health", "/ready", "/metrics", "/openapi.json", "/docs"})
"""What needs no key: nothing here tells what agents there are, or changes anything."""


class App:
    """Takes every request."""

    def __init__(
        self, discovery: Discovery, routes: list[Route], clock: Clock, log: Log, callers: Mapping[str, str]
    ) -> None:
        self._discovery = discovery
        self._keys = {name: sha256(key.encode()).digest() for name, key in callers.items()}
        self._clock = clock
        self._log = log
        self._routes = routes
        self._paths = sorted({route.path for route in routes} | {PATH})
        self._rest = Starlette(
            routes=routes,
            exception_handlers={
                SwitchboardError: self._refused,
                HTTPException: self._http_error,
                Exception: self._failed,
            },
        )
        self._rest.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        caller = self._caller(scope["path"], scope["headers"]) if scope["type"] == "http" else None
        if scope["type"] == "http" and caller is None:
            await _unauthorized(scope, send)
        elif scope["type"] == "http" and scope["path"] == PATH and scope["method"] in _READING:
            await self._discovery(scope, send)
        elif scope["type"] == "http":
            scope.setdefault("state", {})["caller"] = caller
            await self._other(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._rest(scope, receive, send)

    def at_once(self, method: bytes, url: bytes, headers: Headers) -> Reply | None:
        """Answer a discovery request without waiting; None for everything else, which is called as an application."""
        path, _, query = url.partition(b"?")
        if path != _PATH or method not in _READING_BYTES or self._caller(PATH, headers) is None:
            return None
        return self._discovery.at_once(query, headers, is_head=method == b"HEAD")

    def _caller(self, path: str, headers: Headers) -> str | None:
        """Return whose key a request carries; None where it needs one and has none that fits."""
        if not self._keys or path in OPEN_PATHS:
            return "anonymous"
        for name, value in headers:
            if name == b"x-api-key":
                given = value
            elif name == b"authorization" and value[:7].lower() == b"bearer ":
                given = value[7:].strip()
            else:
                continue
            if not given.strip():  # nothing is never a key, whatever the settings say
                continue
            # Hashes of one length: comparing tells neither the key nor how long it is.
            digest = sha256(given).digest()
            owners = [name for name, known in self._keys.items() if hmac.compare_digest(digest, known)]
            if owners:
                return owners[0]
        return None

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity = _identity(scope)
        scope.setdefault("state", {})["request_id"] = identity

        async def identified(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", identity.encode())]
            await send(message)

        try:
            await self._rest(scope, receive, identified)
        except ClientDisconnect:
            return  # there is nobody to answer any more
        except Exception:  # noqa: BLE001 - answered and logged by `_failed`; the framework raises it once more
            return

    async def _refused(self, request: Request, error: Exception) -> Response:
        return error_response(error if isinstance(error, SwitchboardError) else InternalError(str(error)), request)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status not in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            return plain_error(request, status, "invalid_request", str(error))
        allowed = self._methods(request.scope["path"])
        if not allowed:
            message = f"There is nothing at {request.url.path}."
            return plain_error(request, 404, "not_found", message, nearest=nearest(request.url.path, self._paths))
        message = f"{request.method} is not possible here. Possible: {', '.join(allowed)}."
        response = plain_error(request, 405, "method_not_allowed", message, allowed=allowed)
        response.headers["Allow"] = ", ".join(allowed)
        return response

    def _methods(self, path: str) -> list[str]:
        if path == PATH:
            return list(_READING)
        matching = (route.methods or set() for route in self._routes if route.path_regex.match(path))
        return sorted(set[str]().union(*matching))

    async def _failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, ClientDisconnect):
            return Response(status_code=400)
        self._log.event(
            "error",
            "request failed",
            self._clock.now(),
            request_id=request.state.request_id,
            path=request.url.path,
            error=fault(error),
        )
        return error_response(InternalError("Something went wrong inside. The log has the details."), request)


def _identity(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return request_id(given.decode("latin-1"))


async def _unauthorized(scope: Scope, send: Send) -> None:
    identity = _identity(scope)
    message = "invalid or missing API key. Send it as X-API-Key, or as Authorization: Bearer."
    body = error_body("unauthorized", message, None, identity)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"www-authenticate", b"Bearer"),
        (b"x-request-id", identity.encode()),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})

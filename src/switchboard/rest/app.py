"""The whole REST face as one ASGI application: who may come in, then discovery and watching, then everything else.

Every answer has a request id, every refusal a JSON body.
"""

import hmac
from asyncio import CancelledError
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
from switchboard.catalog.errors import InternalError, ServiceUnavailable, SwitchboardError
from switchboard.catalog.text import nearest
from switchboard.rest.answers import error_body, error_response, plain_error, request_id
from switchboard.rest.discovery import PATH, Discovery
from switchboard.rest.heartbeats import Heartbeats
from switchboard.rest.questions import Wishes
from switchboard.rest.questions import wishes as wishes_of
from switchboard.rest.replies import Headers, Reply
from switchboard.rest.watch import PATH as WATCH_PATH
from switchboard.rest.watch import WatchRoute
from switchboard.telemetry.logs import Log, fault

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MCP_PATH = "/mcp"
"""Where the face for MCP is, if there is one: it says itself whom it does not let in."""
_READING = ("GET", "HEAD")
_READING_BYTES = (b"GET", b"HEAD")
_PATH = PATH.encode()
_STRANGER = (
    "Pages of other sites may not come here. A server without keys takes what programs and pages of this machine send."
)
OPEN_PATHS = frozenset({"/", "/health", "/ready", "/metrics", "/openapi.json", "/docs"})
"""What needs no key: nothing here tells what agents there are, or changes anything."""


class App:
    """Takes every request."""

    def __init__(  # noqa: PLR0913, PLR0917 - each is a collaborator
        self,
        discovery: Discovery,
        watch: WatchRoute,
        routes: list[Route],
        clock: Clock,
        log: Log,
        callers: Mapping[str, str],
        *,
        public: Callable[[str], bool] = lambda _: False,
        is_stranger: Callable[[list[str], list[str]], bool] = lambda _, __: False,
        mcp: Application | None = None,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        """Build it; `public` says which paths may be read without a key, `is_stranger` which pages are another site's.

        A page is told by its `Host` and `Origin`. One of another site has no key; so where none is needed it is kept
        out, or anything that a browser shows could register and execute here.
        """
        self._public = public
        self._is_stranger = is_stranger
        self._discovery = discovery
        self.again = discovery.again
        """Answer a discovery request with the very bytes of one that was answered before; None if there was none."""
        self._watch = watch
        self._mcp = mcp
        self._heartbeats = heartbeats
        self._keys = {name: sha256(key.encode()).digest() for name, key in callers.items()}
        self._clock = clock
        self._log = log
        self._routes = routes
        self._paths = sorted({route.path for route in routes} | {PATH, WATCH_PATH})
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
        if scope["type"] == "http" and scope["path"] == MCP_PATH and self._mcp is not None:
            await self._other(scope, receive, send, self._mcp, caller)
        elif scope["type"] == "http" and caller is None and self._is_public(scope):
            await self._other(scope, receive, send, self._rest, "anonymous")
        elif scope["type"] == "http" and caller is None:
            await _unauthorized(scope, send)
        elif scope["type"] == "http" and not self._keys and self._is_of_another_site(scope):
            await _refuse(scope, send, 403, "forbidden", _STRANGER)
        elif scope["type"] == "http" and scope["path"] == PATH and scope["method"] in _READING:
            await self._discovery(scope, send)
        elif scope["type"] == "http" and scope["path"] == WATCH_PATH and scope["method"] in _READING:
            await self._watch(scope, receive, send)
        elif scope["type"] == "http" and self._heartbeats and self._heartbeats.takes(scope["method"], scope["path"]):
            await self._other(scope, receive, send, self._beat, caller)
        elif scope["type"] == "http":
            await self._other(scope, receive, send, self._rest, caller)
        elif scope["type"] == "lifespan":
            await self._rest(scope, receive, send)

    async def _beat(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._heartbeats is not None:
            await self._heartbeats.answer(scope, receive, send, self._rest)

    def admitted(self, method: bytes, url: bytes, headers: Headers) -> Wishes | None:
        """Return what a discovery request asks for in its headers; None for everything else, and for strangers."""
        if url.partition(b"?")[0] != _PATH or method not in _READING_BYTES or self._caller(PATH, headers) is None:
            return None
        if not self._keys and any(name == b"origin" for name, _ in headers):
            return None  # a page's, which may be of another site
        return wishes_of(headers)

    def at_once(
        self, method: bytes, url: bytes, wishes: Wishes, request: bytes = b"", opening: bytes = b""
    ) -> Reply | None:
        """Answer a discovery request without waiting; None for everything else, which is called as an application."""
        path, _, query = url.partition(b"?")
        if path != _PATH or method not in _READING_BYTES:
            return None
        return self._discovery.at_once(query, wishes, request, opening, is_head=method == b"HEAD")

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

    def _is_public(self, scope: Scope) -> bool:
        return scope["method"] in _READING and self._public(scope["path"])

    def _is_of_another_site(self, scope: Scope) -> bool:
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if not origins:
            return False  # a program's: what a page has a server do, a browser signs with its origin
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        return self._is_stranger(hosts, origins)

    async def _other(
        self, scope: Scope, receive: Receive, send: Send, application: Application, caller: str | None
    ) -> None:
        identity = _identity(scope)
        scope.setdefault("state", {}).update(request_id=identity, caller=caller)
        begun = False

        async def identified(message: MutableMapping[str, Any]) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], (b"x-request-id", identity.encode())]
            await send(message)

        try:
            await application(scope, receive, identified)
        except ClientDisconnect:
            return  # there is nobody to answer any more
        except CancelledError:
            # The server has waited for this request as long as it could. Whoever sent it gets an answer all the same.
            if begun:
                raise
            error = ServiceUnavailable("This control plane stops. It is not known what became of this request.")
            await error_response(error, Request(scope))(scope, receive, identified)
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
            near = nearest(request.url.path, self._paths)
            hint = f"Did you mean {' or '.join(near)}?" if near else "/docs shows what there is."
            message = f"There is nothing at {request.url.path}. {hint}"
            return plain_error(request, 404, "not_found", message, nearest=near)
        message = f"{request.method} is not possible here. Possible: {', '.join(allowed)}."
        response = plain_error(request, 405, "method_not_allowed", message, allowed=allowed)
        response.headers["Allow"] = ", ".join(allowed)
        return response

    def _methods(self, path: str) -> list[str]:
        if path in (PATH, WATCH_PATH):
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
        return error_response(
            InternalError(
                "Something went wrong inside. Try again; if it stays so, the log says why, under this request_id."
            ),
            request,
        )


def _identity(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return request_id(given.decode("latin-1"))


async def _unauthorized(scope: Scope, send: Send) -> None:
    message = "invalid or missing API key. Send it as X-API-Key, or as Authorization: Bearer."
    await _refuse(scope, send, 401, "unauthorized", message, (b"www-authenticate", b"Bearer"))


async def _refuse(scope: Scope, send: Send, status: int, word: str, message: str, *more: tuple[bytes, bytes]) -> None:
    identity = _identity(scope)
    body = error_body(word, message, None, identity)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *more,
        (b"x-request-id", identity.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""A small web server for the person at this machine, on 127.0.0.1 and a port that nobody can foretell.

It refuses whatever another site, another name for this address or another user of this machine might send, and gives
every answer the headers that keep a page to itself. What is asked and answered stands nowhere in a log. It knows
nothing of forms or sign-in: whoever uses it adds routes.
"""

from asyncio import Lock, Server, get_running_loop, sleep, wait
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, final
from urllib.parse import parse_qsl

from msgspec import Struct

from switchboard.prompts.peers import is_foreign
from switchboard.telemetry.logs import fault

if TYPE_CHECKING:
    from uvicorn.server import ServerState

HOST = "127.0.0.1"
LARGEST_BODY = 64 * 1024
IDLE_S = 30.0
_MOST_PARAMETERS = 100
_LAST_WORDS_S = 2.0
_FORM = "application/x-www-form-urlencoded"
_OURS = (None, "same-origin", "none")
NOTHING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Switchboard</title>
<p>There is nothing at this address.</p>
<p lang="zh">此地址没有内容。</p>
</html>
"""


class Request(Struct, frozen=True, kw_only=True):
    """What a browser asks. The path is as it was sent; names of headers are lower case. Never shown or logged."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    form: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Request({self.method!r}, …)"


class Response(Struct, frozen=True):
    """What it gets: a page, with the text of its one `<style>` element, since that is all the page may load."""

    status: int
    body: str = ""
    headers: Mapping[str, str] = {}
    style: str = ""

    def __repr__(self) -> str:
        return f"Response({self.status}, …)"


Handler = Callable[[Request], Awaitable[Response]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class _Refused(Exception):
    """The request is not looked at any further."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@final
class Loopback:
    """Serves routes from the first `start` until `close`.

    `report` hears of a route that failed: the kind of its error and the place, nothing of the request.
    """

    def __init__(
        self,
        *,
        report: Callable[[str], None] = lambda _: None,
        foreign: Callable[[int, int], bool] = is_foreign,
        idle_s: float = IDLE_S,
    ) -> None:
        self._report = report
        self._foreign = foreign
        self._idle_s = idle_s
        self._routes: dict[str, Handler] = {}
        self._starting = Lock()
        self._server: Server | None = None
        self._state: ServerState | None = None
        self._authority = ""

    def route(self, path: str, handler: Handler) -> None:
        """Answer a path from now on; one that ends in a slash stands for everything right below it."""
        self._routes[path] = handler

    def unroute(self, path: str) -> None:
        """Answer a path no longer."""
        self._routes.pop(path, None)

    async def start(self) -> str:
        """Listen, unless it does already, and return the address of the server: `http://127.0.0.1:<port>`.

        Raises:
            OSError: this machine has no free port, or no loopback address.
        """
        async with self._starting:
            if self._server is None:
                await self._listen()
        return f"http://{self._authority}"

    async def close(self) -> None:
        """Let answers that are under way end, then listen no more; a later `start` begins anew, on another port."""
        async with self._starting:
            server, state = self._server, self._state
            self._server = self._state = None
            if server is not None and state is not None:
                server.close()
                await _end(state)
                await server.wait_closed()

    async def _listen(self) -> None:
        from switchboard.prompts.loopback_wire import wire  # noqa: PLC0415 - few sessions ever show a page

        state, connection = wire(self._serve, headers=_encoded(_guards("")), idle_s=self._idle_s)
        self._server = await get_running_loop().create_server(connection, HOST, 0)
        self._state = state
        self._authority = f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it. What goes wrong ends here, or uvicorn would answer in its own way."""
        try:
            response = await self._respond(scope, receive)
        except _Refused as refusal:
            response = Response(refusal.status)
        except Exception as error:  # noqa: BLE001 - a request ends here
            self._report(fault(error))
            response = Response(500)
        # A lone surrogate, which JSON can bring, has no UTF-8; it must not cost the person the page.
        body = response.body.encode(errors="replace")
        own = {name.lower(): value for name, value in response.headers.items()}
        headers = {**own, **_guards(response.style), "content-length": str(len(body))}
        await send({"type": "http.response.start", "status": response.status, "headers": _encoded(headers)})
        await send({"type": "http.response.body", "body": body})

    async def _respond(self, scope: Mapping[str, Any], receive: Receive) -> Response:
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        headers = _once(pairs, ("host", "origin", "sec-fetch-site", "content-type"))
        self._require_own(scope["method"], headers)
        # Not in a thread: it reads a table in memory, and threads may all be waiting for a keychain to be unlocked.
        if self._foreign(scope["client"][1], scope["server"][1]):
            raise _Refused(403)
        path = scope["raw_path"].decode("latin-1")
        handler = self._routes.get(path) or self._routes.get(path.rpartition("/")[0] + "/")
        if handler is None:
            return Response(404, NOTHING)
        return await handler(
            Request(
                method=scope["method"],
                path=path,
                query=_parameters(scope["query_string"]),
                form=await _form(headers, receive) if scope["method"] == "POST" else {},
                headers=headers,
            )
        )

    def _require_own(self, method: str, headers: Mapping[str, str]) -> None:
        # A foreign name that was made to lead here (DNS rebinding) stands in Host: only ours is answered.
        if headers.get("host") != self._authority:
            raise _Refused(421)
        if method not in ("GET", "POST"):
            raise _Refused(405)
        if method == "POST" and (
            headers.get("origin", f"http://{self._authority}") != f"http://{self._authority}"
            or headers.get("sec-fetch-site") not in _OURS
        ):
            raise _Refused(403)


def _once(pairs: Iterable[tuple[str, str]], names: Iterable[str] = ()) -> dict[str, str]:
    """Return pairs as a mapping; refuse those of which two would leave open which one counts."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found and (not names or name in names):
            raise _Refused(400)
        found[name] = value
    return found


def _parameters(text: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict"
        )
    except ValueError as error:
        raise _Refused(400) from error
    return _once(pairs)


async def _form(headers: Mapping[str, str], receive: Receive) -> dict[str, str]:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise _Refused(415)
    body = b""
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise _Refused(400)  # who asked has gone
        body += event["body"]
        if len(body) > LARGEST_BODY:
            raise _Refused(413)
        more = event["more_body"]
    return _parameters(body)


async def _end(state: "ServerState") -> None:
    for connection in list(state.connections):
        connection.shutdown()
    if state.tasks:
        await wait(list(state.tasks), timeout=_LAST_WORDS_S)
    for connection in list(state.connections):
        connection.transport.abort()
    await sleep(0)  # the loop tells them in its next turn


def _guards(style: str) -> dict[str, str]:
    """Return the headers of every answer, also of one that is given before a request could be read."""
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": _policy(style),
        "cache-control": "no-store",
        # Nothing goes to other sites. Not `no-referrer`: with it a browser sends a form of our own page with
        # `Origin: null`, as it would one of a stranger's (Fetch, "append a request Origin header").
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        # One request a connection: nothing waits behind another, and no idle connection takes a place.
        "connection": "close",
    }


def _policy(style: str) -> str:
    allowed = f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" if style else "'none'"
    return f"default-src 'none'; style-src {allowed}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as ASGI wants them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

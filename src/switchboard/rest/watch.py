"""GET /api/v1/discovery/watch: every change of what a question is about, as server-sent events, for ever.

Raw ASGI, as discovery: thousands of these are open at once, and each of them costs what it holds.
"""

from asyncio import create_task
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from switchboard.actions.ports import Clock
from switchboard.actions.watch import Place, Watch, Watcher
from switchboard.catalog.errors import InternalError, SwitchboardError
from switchboard.catalog.query import Query, parse_watch
from switchboard.rest.answers import error_body, status_of
from switchboard.rest.events import BEGIN, KEEP_ALIVE
from switchboard.rest.questions import Headers, filters_of, pairs, wishes
from switchboard.telemetry.logs import Log, fault
from switchboard.telemetry.metrics import Metrics

PATH = "/api/v1/discovery/watch"
_LONGEST_ID = 64
_UNAVAILABLE = 503

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]


class WatchRoute:
    """The endpoint."""

    def __init__(self, watch: Watch, clock: Clock, metrics: Metrics, log: Log) -> None:
        self._watch = watch
        self._clock = clock
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, until whoever asked goes, or this instance does."""
        identity = wishes(scope["headers"]).identity()
        try:
            query = parse_watch(pairs(scope["query_string"]))
            if scope["method"] == "HEAD":
                await _start(send, identity)
                await send({"type": "http.response.body", "body": b""})
                return
            place = place_of(scope["headers"])
            watcher = await self._watch.begin(query, place)
        except SwitchboardError as error:
            await self._refuse(error, identity, send)
            return
        except Exception as error:  # noqa: BLE001 - a request ends here, with a log line
            self._log.event("error", "watch failed", self._clock.now(), request_id=identity, error=fault(error))
            await self._refuse(InternalError("Failed to watch agent capabilities"), identity, send)
            return
        await self._serve(watcher, query, place, identity, receive, send)

    async def _serve(  # noqa: PLR0913, PLR0917 - what a request is
        self, watcher: Watcher, query: Query, place: Place | None, identity: str, receive: Receive, send: Send
    ) -> None:
        begun = self._clock.passed()
        self._note("watch begun", identity, query, resumes=place is not None)
        self._metrics.watchers.set(self._watch.watchers)
        leaving = create_task(self._until_gone(watcher, receive))
        try:
            await _start(send, identity)
            await send({"type": "http.response.body", "body": BEGIN, "more_body": True})
            await self._tell(watcher, send)
        finally:
            gone = leaving.done()
            leaving.cancel()
            self._watch.leave(watcher)
            self._metrics.watchers.set(self._watch.watchers)
            seconds = round(self._clock.passed() - begun, 3)
            by = "the watcher" if gone else "this instance"
            self._note("watch ended", identity, query, events=watcher.events, seconds=seconds, ended_by=by)

    async def _tell(self, watcher: Watcher, send: Send) -> None:
        while (events := await self._watch.next(watcher)) is not None:
            body = b"".join(events) if events else KEEP_ALIVE
            self._metrics.watch_events.inc(len(events))
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _until_gone(self, watcher: Watcher, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._watch.leave(watcher)

    def _note(self, message: str, identity: str, query: Query, **fields: Any) -> None:
        filters = filters_of(query)
        self._log.event("info", message, self._clock.now(), request_id=identity, filters=filters, **fields)

    async def _refuse(self, error: SwitchboardError, identity: str, send: Send) -> None:
        status, word = status_of(error)
        body = error_body(word, error.message, error.details, identity)
        headers: Headers = [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", identity.encode()),
        ]
        if status == _UNAVAILABLE:
            headers.append((b"retry-after", b"1"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def place_of(headers: Headers) -> Place | None:
    """Read `Last-Event-ID`: whatever else somebody sends there is a place on an instance that nobody knows."""
    given = next((value for name, value in headers if name == b"last-event-id"), b"").strip()
    if not given:
        return None
    instance, _, version = given.decode("latin-1").rpartition("-")
    if len(given) > _LONGEST_ID or not (version.isascii() and version.isdigit()):
        return Place("", 0)
    return Place(instance, int(version))


async def _start(send: Send, identity: str) -> None:
    headers: Headers = [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),  # or nginx would keep events until there are many
        (b"x-request-id", identity.encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

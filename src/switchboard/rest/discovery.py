"""GET /api/v1/discovery/capabilities, the hot path: raw ASGI, no framework in between.

A question is read once and remembered by its text; an answer is assembled from encoded fragments, and re-used for the
rest of its second as long as the catalogue has not changed. A caller who still has the last answer gets a 304.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from msgspec import Raw
from msgspec.json import encode

from switchboard.actions.browse import Browse
from switchboard.actions.directory import View
from switchboard.actions.ports import Clock
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.catalog.errors import InternalError, SwitchboardError
from switchboard.catalog.query import LIMIT_DEFAULT
from switchboard.catalog.selection import Page
from switchboard.rest.answers import ID_BEGIN, error_body, new_number, status_of, time_text
from switchboard.rest.questions import Lookup, Question, Wishes, ids_of, tag_of
from switchboard.rest.questions import wishes as wishes_of
from switchboard.rest.rendering import Rendering
from switchboard.rest.replies import MOST_ANSWERS, Bodies, Body, Reply
from switchboard.rest.selections import MOST as MOST_SELECTIONS
from switchboard.rest.selections import Selections
from switchboard.telemetry.logs import Log, fault
from switchboard.telemetry.metrics import Metrics, Tally

PATH = "/api/v1/discovery/capabilities"
_MOST_QUESTIONS = 512
_LONGEST_REMEMBERED = 1024
_LONGEST_REQUEST = 3 * 1024
_MANY_MILLISECONDS = 0.001
_MILLISECONDS = tuple(b"%.3f" % (microseconds / 1000) for microseconds in range(1000))
"""How long most requests take, as a log says it: to look a number up costs less than to format it."""
_COMPLETED = b'"message":"discovery request completed","request_id":"'
_COMPLETED_BY_NUMBER = _COMPLETED + ID_BEGIN.encode()
_HIT, _MISS = b',"cache_hit":true}\n', b',"cache_hit":false}\n'
_HEAD_END = b"\r\n\r\n"
_NEVER = b"", b""
_SAME = b"etag: %b\r\nvary: Accept-Encoding\r\ncache-control: no-cache\r\n"
"""The headers of every answer, also of those without a body."""
_FOUND = b"content-type: %b\r\nx-total-count: %d\r\n%b" + _SAME
"""With what is about what was found, and perhaps a link to the next page."""
_JSON = b"application/json; charset=utf-8"
_XML = b"application/xml; charset=utf-8"

Ready = tuple[View, int, bytes, bytes, Tally, bytes]
"""An answer that is remembered by its request: whose catalogue and which second it shows, its head up to the number of
the request, its body, where it is counted, and what a log says of it."""
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]


class Discovery:
    """The endpoint."""

    def __init__(  # noqa: PLR0913 - collaborators, whose answers these are, and how much is remembered
        self, browse: Browse, clock: Clock, metrics: Metrics, log: Log, instance: str, *, caches: Caches = USUAL
    ) -> None:
        self._browse = browse
        self._at_hand = browse.at_hand
        self._clock = clock
        self._now = clock.now
        self._passed = clock.passed
        self._metrics = metrics
        self._log = log
        self._informing = log.informing
        self._instance = instance.encode()
        self._rendering = Rendering(browse, caches)
        self._questions: Cache[bytes, Question] = Cache(caches.most(_MOST_QUESTIONS))
        self._bodies = Bodies(caches.most(MOST_ANSWERS))
        self._said: Cache[bytes, bytes] = Cache(caches.most(MOST_ANSWERS))
        self._asked: Cache[bytes, None] = Cache(caches.most(_MOST_QUESTIONS))
        self._ready: Cache[bytes, Ready] = Cache(caches.most(_MOST_QUESTIONS))
        self._is_ready = self._ready.get
        self._selections = Selections(caches.most(MOST_SELECTIONS))

    async def __call__(self, scope: Scope, send: Send) -> None:
        """Answer one request."""
        begin, is_head = self._passed(), scope["method"] == "HEAD"
        wishes = wishes_of(scope["headers"])
        try:
            question = self._question(scope["query_string"])
        except SwitchboardError as error:
            await _send(send, self._refused(error, wishes))
            return
        try:
            reply = self._recorded(question, await self._browse.view(), wishes, begin, is_head=is_head)
        except Exception as error:  # noqa: BLE001 - a request ends here, with a log line
            reply = self._failed(error, question, wishes)
        await _send(send, reply)

    def at_once(
        self, text: bytes, wishes: Wishes, request: bytes = b"", opening: bytes = b"", *, is_head: bool = False
    ) -> Reply | None:
        """Answer a request without waiting for anything; None where that needs the store.

        `request` is all of it, where the same bytes mean the same request: the answer may be remembered by them, with
        the `opening` that every answer has in this second.
        """
        begin, view = self._passed(), self._at_hand.view
        if begin >= self._at_hand.until:
            return None
        try:
            lookup = None if wishes.has or is_head else self._new_lookup(text)
            question = lookup or self._question(text)
        except SwitchboardError as error:
            return self._refused(error, wishes)
        try:
            if isinstance(question, Lookup):
                return self._looked_up(question, view, wishes, begin)
            return self._recorded(question, view, wishes, begin, is_head=is_head, again=(request, opening))
        except Exception as error:  # noqa: BLE001 - a request ends here, with a log line
            return self._failed(error, question, wishes)

    def again(self, request: bytes) -> tuple[bytes, bytes] | None:
        """Answer a request with the very bytes of one that was answered in this second; None if there was none.

        Most requests come this way, so it is one function: a whole head, and a body.
        """
        ready = self._is_ready(request)
        if ready is None:
            return None
        try:
            begin, now, at_hand = self._passed(), self._now(), self._at_hand
            view, second, head, content, tally, said = ready
            if at_hand.view is not view or begin >= at_hand.until or not 0.0 <= now - second < 1.0:
                return None
            number = b"%x" % new_number()
            seconds = self._passed() - begin
            tally.note(seconds)
            if self._informing:
                self._log.often(now, (_COMPLETED_BY_NUMBER, number, said, _took(seconds), _HIT))
        except Exception:  # noqa: BLE001 - answered anew, and what is wrong is in the log then
            return None
        return head + number + _HEAD_END, content

    def _recorded(  # noqa: PLR0913 - what a request is
        self,
        question: Question,
        view: View,
        wishes: Wishes,
        begin: float,
        *,
        is_head: bool,
        again: tuple[bytes, bytes] = _NEVER,
    ) -> Reply:
        now, identity, version = self._clock.now(), wishes.identity(), view.snapshot.version
        self._begin(version, now)
        if wishes.has and _is_named(etag := self._etag(question.tag, version), wishes.has):
            reply, said = _reply(304, _SAME % etag, b"", view, identity), self._said_of(question, view)
        else:
            body = self._bodies.get(question.key) or self._made(question, view, now)
            encodings = b"" if question.is_lookup else wishes.encodings
            content, head = self._bodies.encoded(question.key, body, encodings) if encodings else body.plain
            reply, said = _reply(200, head, b"" if is_head else content, view, identity), body.said
            request, opening = again
            if self._may_come_again(request, view) and self._bodies.get(question.key) is body:
                whole = b"%b%bx-request-id: %b" % (opening, head, ID_BEGIN.encode())
                self._ready.keep(request, (view, int(now), whole, content, self._metrics.tallies[question.kind], said))
        self._record(question, said, view.hit, identity, now, self._passed() - begin)
        return reply

    def _may_come_again(self, request: bytes, view: View) -> bool:
        """Tell whether a request is remembered by its bytes: not where its answer or the log says more than usual."""
        return 0 < len(request) <= _LONGEST_REQUEST and view.stale_since is None and not self._log.debugging

    def _new_lookup(self, text: bytes) -> Lookup | None:
        """Read a question that only names agents, and that nobody asked lately; most of them are asked only once."""
        if text in self._asked or text in self._questions:
            return None
        ids = ids_of(text)
        if not ids:
            return None
        if len(text) <= _LONGEST_REMEMBERED:
            self._asked.keep(text, None)
        return Lookup(ids, '","'.join(ids))

    def _looked_up(self, lookup: Lookup, view: View, wishes: Wishes, begin: float) -> Reply:
        """Answer such a question: as any other, without what would only help the next who asks it."""
        now, identity = self._now(), wishes.identity()
        content, totals = self._rendering.looked_up(view.snapshot, lookup.ids, now)
        found, etag = totals[0], self._etag(tag_of(lookup.key()), view.snapshot.version)
        link = _link(Question(b"agent_ids=" + ",".join(lookup.ids).encode())) if found > LIMIT_DEFAULT else b""
        head = b"%bcontent-length: %d\r\n" % (_FOUND % (_JSON, found, link, etag), sum(map(len, content)))
        reply = _reply(200, head, content, view, identity)
        self._record(lookup, _said(lookup, totals), view.hit, identity, now, self._passed() - begin)
        return reply

    def _begin(self, version: int, now: float) -> None:
        """Forget answers of another version of the catalogue, or of another second."""
        if self._bodies.begin(version, int(now)):
            self._said.clear()
            self._ready.clear()

    @property
    def cached_bytes(self) -> int:
        """How much memory remembered answers and fragments take."""
        return self._bodies.size + self._rendering.size

    def _question(self, text: bytes) -> Question:
        question = self._questions.get(text)
        if question is None:
            question = Question(text)
            question.asked = text in self._asked
            if len(text) <= _LONGEST_REMEMBERED:
                self._questions.keep(text, question)
        question.asked += 1
        return question

    def _etag(self, tag: bytes, version: int) -> bytes:
        return b'W/"%b-%x-%b"' % (self._instance, version, tag)

    def _said_of(self, question: Question, view: View) -> bytes:
        """Return what a log says of an answer that the caller has already."""
        body = self._bodies.get(question.key)
        said = self._said.get(question.key) if body is None else body.said
        if said is None:
            said = self._said.keep(question.key, _said(question, self._page(question, view).totals))
        return said

    def _made(self, question: Question, view: View, now: float) -> Body:
        """Make the answer of this second and this version of the catalogue."""
        page = self._page(question, view)
        kind = _XML if question.format == "xml" else _JSON
        link = _link(question) if page.has_more and question.query.limit else b""
        head = _FOUND % (kind, page.total_agents, link, self._etag(question.tag, view.snapshot.version))
        body = Body(b"".join(self._rendering.document(question, page, now)), head, _said(question, page.totals))
        if not question.is_lookup or question.asked > 1:
            self._bodies.keep(question.key, body)
        return body

    def _page(self, question: Question, view: View) -> Page:
        """Return what a question finds; everything that it finds in one version of the catalogue is found once."""
        query, snapshot = question.query, view.snapshot
        if question.is_lookup:  # there are too many different ones to remember what they find
            return snapshot.select(query)
        return snapshot.page(query) or self._selections.of(snapshot, query).page(query.limit, query.offset)

    def _record(  # noqa: PLR0913, PLR0917 - what a log line is made of
        self, question: Question | Lookup, said: bytes, hit: bool, identity: str, at: float, seconds: float
    ) -> None:
        tally = self._metrics.tallies[question.kind]
        tally.note(seconds)
        if not hit:
            tally.misses += 1
        if self._log.debugging:
            filters = Raw(question.filters())
            hit_or_miss = "discovery cache hit" if hit else "discovery cache miss"
            for message in ("discovery request received", hit_or_miss, "discovery filters applied"):
                self._log.event("debug", message, at, request_id=identity, filters=filters)
        if self._informing:
            self._log.often(at, (_COMPLETED, _quoted(identity), said, _took(seconds), _HIT if hit else _MISS))

    def _refused(self, error: SwitchboardError, wishes: Wishes) -> Reply:
        (status, word), identity = status_of(error), wishes.identity()
        self._metrics.failed["json"].inc()
        self._log.event(
            "info",
            "discovery request refused",
            self._clock.now(),
            request_id=identity,
            error=error.message,
            details=error.details,
        )
        return _refusal(status, error_body(word, error.message, error.details, identity), identity)

    def _failed(self, error: Exception, question: Question | Lookup, wishes: Wishes) -> Reply:
        identity = wishes.identity()
        self._metrics.failed[question.format].inc()
        self._log.event(
            "error",
            "discovery request failed",
            self._clock.now(),
            request_id=identity,
            filters=Raw(question.filters()),
            error=fault(error),
        )
        status, word = status_of(InternalError(""))
        return _refusal(status, error_body(word, "Failed to retrieve agent capabilities", None, identity), identity)


def _said(question: Question | Lookup, totals: tuple[int, int, int]) -> bytes:
    """Return what a log says of an answer whoever asks for it: what stands between a request's id and its duration."""
    agents, reasoners, skills = totals
    return (
        f'","filters":{question.filters()},"results":{{"agents":{agents},"reasoners":{reasoners},"skills":{skills}}},'
        '"duration_ms":'
    ).encode()


def _quoted(identity: str) -> bytes:
    """Return an id as it stands between quotes; a caller's own may have anything in it that can be printed."""
    return identity.encode() if identity.isidentifier() else encode(identity)[1:-1]


def _took(seconds: float) -> bytes:
    """Return a duration in milliseconds."""
    return _MILLISECONDS[int(seconds * 1e6)] if 0.0 <= seconds < _MANY_MILLISECONDS else b"%.3f" % (seconds * 1e3)


def _link(question: Question) -> bytes:
    """Return the header that leads to the next page."""
    return f'link: <{PATH}?{question.next_page()}>; rel="next"\r\n'.encode()


def _reply(status: int, head: bytes, body: bytes | list[bytes], view: View, identity: str) -> Reply:
    """Put an answer together: what changes from one request to the next comes last."""
    if view.stale_since is not None:
        since = time_text(view.stale_since)
        head += f'warning: 110 switchboard "Response is Stale: no store since {since}"\r\n'.encode()
    return Reply(status, b"%bx-request-id: %b\r\n" % (head, identity.encode()), body)


def _is_named(etag: bytes, has: bytes) -> bool:
    """Tell whether a caller has an answer; the comparison is weak: with or without W/, the quoted text decides."""
    return has == b"*" or etag[2:] in has


def _refusal(status: int, body: bytes, identity: str) -> Reply:
    head = b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n" % (_JSON, len(body), identity.encode())
    return Reply(status, head, body)


async def _send(send: Send, reply: Reply) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": b"".join(reply.body) if type(reply.body) is list else reply.body})

"""GET /api/v1/discovery/capabilities, the hot path: raw ASGI, no framework in between.

A question is read once and remembered by its text; an answer is assembled from encoded fragments, and re-used for the
rest of its second as long as the catalogue has not changed. A caller who still has the last answer gets a 304.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from time import perf_counter
from typing import Any, Protocol

from switchboard.actions.browse import Browse
from switchboard.actions.directory import View
from switchboard.actions.ports import Clock
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.catalog.errors import InternalError, SwitchboardError
from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query
from switchboard.catalog.snapshot import Match, Page
from switchboard.rest import render_compact, render_json, render_xml
from switchboard.rest.answers import error_body, status_of, time_text
from switchboard.rest.fragments import MOST as MOST_FRAGMENTS
from switchboard.rest.fragments import Encode, FragmentCache, Variant
from switchboard.rest.questions import Question, Wishes
from switchboard.rest.questions import wishes as wishes_of
from switchboard.rest.replies import MOST_ANSWERS, Bodies, Body, Headers, Reply
from switchboard.telemetry.logs import Log, fault
from switchboard.telemetry.metrics import Metrics

PATH = "/api/v1/discovery/capabilities"
_MOST_QUESTIONS = 512
_LONGEST_REMEMBERED = 1024
_MOST_SEEN = 20_000
_JSON = b"application/json; charset=utf-8"
_XML = b"application/xml; charset=utf-8"

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]


class Renderer(Protocol):
    """What the two formats with agents in them have in common."""

    @property
    def SEPARATOR(self) -> bytes:  # noqa: N802 - a constant of a module
        """What stands between two agents."""
        ...

    def agent_fragments(self, agent: Agent, query: Query) -> tuple[bytes, tuple[bytes, ...]]:
        """Encode an agent up to its heartbeat, and each capability."""
        ...

    def agent_heartbeat(self, seen: bytes) -> bytes:
        """Encode when an agent was last seen."""
        ...

    def agent_tail(self, reasoners: Sequence[bytes], skills: Sequence[bytes]) -> bytes:
        """Encode what stands after an agent's heartbeat."""
        ...


class Discovery:
    """The endpoint."""

    def __init__(  # noqa: PLR0913 - collaborators, whose answers these are, and how much is remembered
        self, browse: Browse, clock: Clock, metrics: Metrics, log: Log, instance: str, *, caches: Caches = USUAL
    ) -> None:
        self._browse = browse
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._instance = instance.encode()
        self._fragments = FragmentCache(most=caches.most(MOST_FRAGMENTS))
        self._questions: Cache[bytes, Question] = Cache(caches.most(_MOST_QUESTIONS))
        self._bodies = Bodies(caches.most(MOST_ANSWERS))
        self._counts: Cache[Query, dict[str, int]] = Cache(caches.most(MOST_ANSWERS))
        self._seen: Cache[str, tuple[float, Renderer, bytes]] = Cache(caches.most(_MOST_SEEN))

    async def __call__(self, scope: Scope, send: Send) -> None:
        """Answer one request."""
        begin, is_head = perf_counter(), scope["method"] == "HEAD"
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

    def at_once(self, text: bytes, headers: Headers, *, is_head: bool) -> Reply | None:
        """Answer a request without waiting for anything; None where that needs the store."""
        view = self._browse.fresh_view()
        if view is None:
            return None
        begin, wishes = perf_counter(), wishes_of(headers)
        try:
            question = self._question(text)
        except SwitchboardError as error:
            return self._refused(error, wishes)
        try:
            return self._recorded(question, view, wishes, begin, is_head=is_head)
        except Exception as error:  # noqa: BLE001 - a request ends here, with a log line
            return self._failed(error, question, wishes)

    def _recorded(self, question: Question, view: View, wishes: Wishes, begin: float, *, is_head: bool) -> Reply:
        now = self._clock.now()
        if self._bodies.begin((view.snapshot.version, int(now))):
            self._counts.clear()
        etag = b'W/"%b-%x-%b"' % (self._instance, view.snapshot.version, question.tag)
        # The comparison is weak: with or without W/, the quoted text decides.
        if wishes.has and (wishes.has == b"*" or etag[2:] in wishes.has):
            reply, counts = Reply(304, _common(etag, view, wishes), b""), self._counted(question.query, view)
        else:
            body = self._body(question, view, now)
            reply, counts = (
                self._whole(question, body, _common(etag, view, wishes), wishes, is_head=is_head),
                body.counts,
            )
        self._record(question, view, wishes, counts, now, perf_counter() - begin)
        return reply

    @property
    def cached_bytes(self) -> int:
        """How much memory remembered answers and fragments take."""
        return self._bodies.size + self._fragments.size

    def _question(self, text: bytes) -> Question:
        question = self._questions.get(text)
        if question is None:
            question = Question(text)
            if len(text) <= _LONGEST_REMEMBERED:
                self._questions.keep(text, question)
        question.asked += 1
        return question

    def _whole(self, question: Question, body: Body, common: Headers, wishes: Wishes, *, is_head: bool) -> Reply:
        accepted = b"" if question.is_lookup else wishes.encodings
        content, encoding = self._bodies.encoded(question.query, body, accepted)
        headers = [*body.headers, *common, (b"content-length", b"%d" % len(content))]
        if encoding:
            headers.append((b"content-encoding", encoding))
        return Reply(200, headers, b"" if is_head else content)

    def _counted(self, query: Query, view: View) -> dict[str, int]:
        """Return how much is in an answer that the caller has already."""
        body = self._bodies.get(query)
        counts = self._counts.get(query) if body is None else body.counts
        return self._counts.keep(query, _counts(view.snapshot.select(query))) if counts is None else counts

    def _body(self, question: Question, view: View, now: float) -> Body:
        """Return the answer of this second and this version of the catalogue."""
        body = self._bodies.get(question.query)
        if body is None:
            page = view.snapshot.select(question.query)
            body = Body(self._render(question.query, page, now), _headers(question, page), _counts(page))
            if not question.is_lookup or question.asked > 1:
                self._bodies.keep(question.query, body)
        return body

    def _render(self, query: Query, page: Page, now: float) -> bytes:
        match query.format:
            case "compact":
                pieces = [self._pieces(match, query, render_compact.agent_fragments) for match in page.matches]
                reasoners = [piece for found, _ in pieces for piece in found]
                skills = [piece for _, found in pieces for piece in found]
                return render_compact.document(time_text(now), reasoners, skills)
            case "xml":
                return render_xml.document(_summary(query, page, now), self._agents(query, page, render_xml))
            case "json":
                return render_json.document(_summary(query, page, now), self._agents(query, page, render_json))

    def _agents(self, query: Query, page: Page, renderer: Renderer) -> list[bytes]:
        """Return every agent in pieces, which are put together once, with everything around them."""
        variant, separator, parts = _variant(query), renderer.SEPARATOR, list[bytes]()
        for match in page.matches:
            fragments = self._fragments.get(match.agent, query, variant, renderer.agent_fragments)
            if match.is_whole:
                tail = fragments.whole(renderer.agent_tail)
            else:
                tail = renderer.agent_tail(*_chosen_items(fragments.items(), match))
            parts += (separator, fragments.head, self._heartbeat(match.agent.id, renderer), tail)
        return parts[1:]

    def _pieces(self, match: Match, query: Query, encode: Encode) -> tuple[list[bytes], list[bytes]]:
        return _chosen_items(self._fragments.get(match.agent, query, _variant(query), encode).items(), match)

    def _heartbeat(self, agent_id: str, renderer: Renderer) -> bytes:
        at = self._browse.seen_at(agent_id)
        if not at:
            return b""
        known = self._seen.get(agent_id)
        if known is None or known[0] != at or known[1] is not renderer:
            known = self._seen.keep(agent_id, (at, renderer, renderer.agent_heartbeat(time_text(at).encode())))
        return known[2]

    def _record(  # noqa: PLR0913, PLR0917 - what a log line is made of
        self, question: Question, view: View, wishes: Wishes, counts: dict[str, int], at: float, seconds: float
    ) -> None:
        metrics, query = self._metrics, question.query
        metrics.succeeded[query.format].inc()
        metrics.duration[query.format].observe(seconds)
        (metrics.hits if view.hit else metrics.misses).inc()
        for name in question.used:
            metrics.filters[name].inc()
        if self._log.debugging:
            hit_or_miss = "discovery cache hit" if view.hit else "discovery cache miss"
            for message in ("discovery request received", hit_or_miss, "discovery filters applied"):
                self._log.event("debug", message, at, request_id=wishes.request_id, filters=question.filters)
        self._log.event(
            "info",
            "discovery request completed",
            at,
            request_id=wishes.request_id,
            filters=question.filters,
            results=counts,
            duration_ms=int(seconds * 1e6) / 1000,
            cache_hit=view.hit,
        )

    def _refused(self, error: SwitchboardError, wishes: Wishes) -> Reply:
        status, word = status_of(error)
        self._metrics.failed["json"].inc()
        self._log.event(
            "info",
            "discovery request refused",
            self._clock.now(),
            request_id=wishes.request_id,
            error=error.message,
            details=error.details,
        )
        body = error_body(word, error.message, error.details, wishes.request_id)
        return Reply(status, _error_headers(wishes, body), body)

    def _failed(self, error: Exception, question: Question, wishes: Wishes) -> Reply:
        self._metrics.failed[question.query.format].inc()
        self._log.event(
            "error",
            "discovery request failed",
            self._clock.now(),
            request_id=wishes.request_id,
            filters=question.filters,
            error=fault(error),
        )
        status, word = status_of(InternalError(""))
        body = error_body(word, "Failed to retrieve agent capabilities", None, wishes.request_id)
        return Reply(status, _error_headers(wishes, body), body)


def _chosen_items(items: tuple[bytes, ...], match: Match) -> tuple[list[bytes], list[bytes]]:
    """Return the pieces of the reasoners and of the skills that were asked for."""
    reasoner_bits = (1 << match.agent.reasoner_count) - 1
    return _picked(items, match.mask & reasoner_bits), _picked(items, match.mask & ~reasoner_bits)


def _picked(items: tuple[bytes, ...], mask: int) -> list[bytes]:
    """Return the items whose bits are set, in their order; most often few are."""
    picked: list[bytes] = []
    while mask:
        lowest = mask & -mask
        picked.append(items[lowest.bit_length() - 1])
        mask ^= lowest
    return picked


def _variant(query: Query) -> Variant:
    described = query.descriptions is True if query.format == "compact" else query.descriptions is not False
    return (query.format, query.input_schema, query.output_schema, query.examples, described)


def _summary(query: Query, page: Page, now: float) -> dict[str, Any]:
    return {
        "discovered_at": time_text(now),
        "total_agents": page.total_agents,
        "total_reasoners": page.total_reasoners,
        "total_skills": page.total_skills,
        "pagination": {"limit": query.limit, "offset": query.offset, "has_more": page.has_more},
    }


def _headers(question: Question, page: Page) -> Headers:
    query = question.query
    headers: Headers = [
        (b"content-type", _XML if query.format == "xml" else _JSON),
        (b"x-total-count", b"%d" % page.total_agents),
    ]
    if page.has_more and query.limit:
        headers.append((b"link", f'<{PATH}?{question.next_page()}>; rel="next"'.encode()))
    return headers


def _common(etag: bytes, view: View, wishes: Wishes) -> Headers:
    """Return the headers of every answer, also of those without a body."""
    common: Headers = [
        (b"etag", etag),
        (b"vary", b"Accept-Encoding"),
        (b"cache-control", b"no-cache"),
        (b"x-request-id", wishes.request_id.encode()),
    ]
    if view.stale_since is not None:
        since = time_text(view.stale_since)
        common.append((b"warning", f'110 switchboard "Response is Stale: no store since {since}"'.encode()))
    return common


def _counts(page: Page) -> dict[str, int]:
    return {"agents": page.total_agents, "reasoners": page.total_reasoners, "skills": page.total_skills}


def _error_headers(wishes: Wishes, body: bytes) -> Headers:
    return [
        (b"content-type", _JSON),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", wishes.request_id.encode()),
    ]


async def _send(send: Send, reply: Reply) -> None:
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.body})

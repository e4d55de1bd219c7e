"""GET /api/v1/discovery/capabilities, the hot path: raw ASGI, no framework in between.

A question is read once and remembered by its text; an answer is assembled from encoded fragments, and re-used for the
rest of its second as long as the catalogue has not changed. A caller who still has the last answer gets a 304.
"""

import gzip
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from time import perf_counter
from typing import Any, Protocol

import zstandard

from switchboard.actions.browse import Browse
from switchboard.actions.directory import View
from switchboard.actions.ports import Clock
from switchboard.catalog.errors import InternalError, SwitchboardError
from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query
from switchboard.catalog.snapshot import Match, Page
from switchboard.rest import render_compact, render_json, render_xml
from switchboard.rest.answers import error_body, status_of, time_text
from switchboard.rest.fragments import Encode, FragmentCache, Variant
from switchboard.rest.questions import Headers, Question, Wishes
from switchboard.rest.questions import wishes as wishes_of
from switchboard.telemetry.logs import Log, fault
from switchboard.telemetry.metrics import Metrics

PATH = "/api/v1/discovery/capabilities"
LARGEST_ANSWERS = 3 * 1024 * 1024
_MOST_QUESTIONS = 512
_LONGEST_REMEMBERED = 1024
_MOST_SEEN = 20_000
_SMALLEST_COMPRESSED = 1024
_JSON = b"application/json; charset=utf-8"
_XML = b"application/xml; charset=utf-8"

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]


class Renderer(Protocol):
    """What the two formats with agents in them have in common."""

    def agent_fragments(self, agent: Agent, query: Query) -> tuple[bytes, tuple[bytes, ...]]:
        """Encode an agent up to its heartbeat, and each capability."""
        ...

    def agent_heartbeat(self, seen: bytes) -> bytes:
        """Encode when an agent was last seen."""
        ...

    def agent_tail(self, reasoners: Sequence[bytes], skills: Sequence[bytes]) -> bytes:
        """Encode what stands after an agent's heartbeat."""
        ...


class Body:
    """One answer, with its encodings as far as somebody asked for them."""

    __slots__ = ("_encoded", "headers", "plain")

    def __init__(self, plain: bytes, headers: Headers) -> None:
        self.plain = plain
        self.headers = headers
        self._encoded: dict[bytes, bytes] = {}

    def encoded(self, encoding: bytes) -> bytes:
        """Return the body in an encoding, made once."""
        body = self._encoded.get(encoding)
        if body is None:
            body = _ENCODERS[encoding](self.plain)
            self._encoded[encoding] = body
        return body

    @property
    def size(self) -> int:
        """How many bytes this takes, about."""
        return len(self.plain) + sum(map(len, self._encoded.values()))


class Discovery:
    """The endpoint."""

    def __init__(self, browse: Browse, clock: Clock, metrics: Metrics, log: Log, instance: str) -> None:
        self._browse = browse
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._instance = instance.encode()
        self._fragments = FragmentCache()
        self._questions: dict[bytes, Question] = {}
        self._bodies: dict[Query, Body] = {}
        self._bodies_size = 0
        self._epoch: tuple[int, int] = (-1, -1)
        self._counts: dict[Query, dict[str, int]] = {}
        self._seen: dict[str, tuple[float, bytes]] = {}

    async def __call__(self, scope: Scope, send: Send) -> None:
        """Answer one request."""
        begin = perf_counter()
        wishes = wishes_of(scope["headers"])
        try:
            question = self._question(scope["query_string"])
        except SwitchboardError as error:
            await self._refuse(error, wishes, send)
            return
        try:
            view = await self._browse.view()
            await self._answer(question, view, wishes, scope["method"] == "HEAD", send)
        except Exception as error:  # noqa: BLE001 - a request ends here, with a log line
            await self._fail(error, question, wishes, send)
            return
        self._record(question, view, wishes, perf_counter() - begin)

    @property
    def cached_bytes(self) -> int:
        """How much memory remembered answers and fragments take."""
        return self._bodies_size + self._fragments.size

    def _question(self, text: bytes) -> Question:
        question = self._questions.get(text)
        if question is None:
            question = Question(text)
            if len(self._questions) >= _MOST_QUESTIONS:
                self._questions.clear()
            if len(text) <= _LONGEST_REMEMBERED:
                self._questions[text] = question
        question.asked += 1
        return question

    async def _answer(self, question: Question, view: View, wishes: Wishes, is_head: bool, send: Send) -> None:
        etag = b'W/"%b-%x-%b"' % (self._instance, view.snapshot.version, question.tag)
        common: Headers = [
            (b"etag", etag),
            (b"vary", b"Accept-Encoding"),
            (b"cache-control", b"no-cache"),
            (b"x-request-id", wishes.request_id.encode()),
        ]
        if view.stale_since is not None:
            since = time_text(view.stale_since)
            common.append((b"warning", f'110 switchboard "Response is Stale: no store since {since}"'.encode()))
        # The comparison is weak: with or without W/, the quoted text decides.
        if wishes.has and (wishes.has == b"*" or etag[2:] in wishes.has):
            await _send(send, 304, common, b"")
            return
        body = self._body(question, view)
        encoding = b"" if question.is_lookup else _chosen(wishes.encodings)
        content = self._encoded(body, encoding) if len(body.plain) >= _SMALLEST_COMPRESSED else body.plain
        headers = [*body.headers, *common, (b"content-length", b"%d" % len(content))]
        if content is not body.plain:
            headers.append((b"content-encoding", encoding))
        await _send(send, 200, headers, b"" if is_head else content)

    def _encoded(self, body: Body, encoding: bytes) -> bytes:
        if not encoding:
            return body.plain
        before = body.size
        content = body.encoded(encoding)
        self._bodies_size += body.size - before
        return content

    def _body(self, question: Question, view: View) -> Body:
        """Return the answer of this second and this version of the catalogue."""
        now = self._clock.now()
        epoch = (view.snapshot.version, int(now))
        if epoch != self._epoch:
            self._bodies, self._bodies_size, self._epoch = {}, 0, epoch
            self._counts = {}
        body = self._bodies.get(question.query)
        if body is None:
            page = view.snapshot.select(question.query)
            plain = self._render(question.query, page, now)
            body = Body(plain, _headers(question, page))
            self._counts[question.query] = _counts(page)
            worth_it = not question.is_lookup or question.asked > 1
            if worth_it and self._bodies_size + body.size <= LARGEST_ANSWERS:
                self._bodies[question.query] = body
                self._bodies_size += body.size
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
        """Return every agent, head and heartbeat and tail."""
        variant, parts = _variant(query), list[bytes]()
        for match in page.matches:
            fragments = self._fragments.get(match.agent, query, variant, renderer.agent_fragments)
            if match.is_whole:
                tail = fragments.whole(renderer.agent_tail)
            else:
                tail = renderer.agent_tail(*_chosen_items(fragments.items(), match))
            parts.append(fragments.head + self._heartbeat(match.agent.id, renderer) + tail)
        return parts

    def _pieces(self, match: Match, query: Query, encode: Encode) -> tuple[list[bytes], list[bytes]]:
        return _chosen_items(self._fragments.get(match.agent, query, _variant(query), encode).items(), match)

    def _heartbeat(self, agent_id: str, renderer: Renderer) -> bytes:
        at = self._browse.seen_at(agent_id)
        if not at:
            return b""
        known = self._seen.get(agent_id)
        if known is None or known[0] != at:
            if len(self._seen) > _MOST_SEEN:
                self._seen.clear()
            known = self._seen[agent_id] = (at, time_text(at).encode())
        return renderer.agent_heartbeat(known[1])

    def _record(self, question: Question, view: View, wishes: Wishes, seconds: float) -> None:
        metrics, query = self._metrics, question.query
        metrics.succeeded[query.format].inc()
        metrics.duration[query.format].observe(seconds)
        (metrics.hits if view.hit else metrics.misses).inc()
        for name in question.used:
            metrics.filters[name].inc()
        counts = self._counts.get(query)
        if counts is None:  # the caller had the answer already, and nobody else asked in this second
            counts = self._counts[query] = _counts(view.snapshot.select(query))
        at = self._clock.now()
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
            duration_ms=round(seconds * 1000, 3),
            cache_hit=view.hit,
        )

    async def _refuse(self, error: SwitchboardError, wishes: Wishes, send: Send) -> None:
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
        await _send(send, status, _error_headers(wishes, body), body)

    async def _fail(self, error: Exception, question: Question, wishes: Wishes, send: Send) -> None:
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
        await _send(send, status, _error_headers(wishes, body), body)


def _chosen_items(items: tuple[bytes, ...], match: Match) -> tuple[list[bytes], list[bytes]]:
    """Return the pieces of the reasoners and of the skills that were asked for."""
    mask, first_skill = match.mask, match.agent.reasoner_count
    reasoners = [item for i, item in enumerate(items[:first_skill]) if mask >> i & 1]
    return reasoners, [item for i, item in enumerate(items[first_skill:], first_skill) if mask >> i & 1]


def _zstd(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(plain)


def _gzip(plain: bytes) -> bytes:
    return gzip.compress(plain, compresslevel=1, mtime=0)


_ENCODERS: dict[bytes, Callable[[bytes], bytes]] = {b"zstd": _zstd, b"gzip": _gzip}


def _chosen(accepted: bytes) -> bytes:
    """Return the encoding to use: the better one of those accepted; `q=0` is a refusal."""
    if not accepted:
        return b""
    offers = [offer.strip() for offer in accepted.lower().split(b",")]
    for encoding in _ENCODERS:
        for offer in offers:
            name, _, quality = offer.partition(b";")
            if name.strip() == encoding and quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"):
                return encoding
    return b""


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


def _counts(page: Page) -> dict[str, int]:
    return {"agents": page.total_agents, "reasoners": page.total_reasoners, "skills": page.total_skills}


def _error_headers(wishes: Wishes, body: bytes) -> Headers:
    return [
        (b"content-type", _JSON),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", wishes.request_id.encode()),
    ]


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

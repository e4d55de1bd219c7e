"""One control plane that the user named: its agents as it tells them, kept up to date for as long as somebody wants.

Everybody is asked for once, then the watch tells what changes, from where it broke off; a server without a watch is
asked again and again. A plane that does not answer keeps what it said last, and it is known since when. Whatever it
says is about agents only, and has limits. The key goes to this address, and redirects are not followed.
"""

import random
import re
from asyncio import get_running_loop, sleep, timeout
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, final

from msgspec import Struct

from switchboard.actions.ports import Clock, Plane
from switchboard.catalog.errors import (
    AnswerTooLarge,
    AuthDenied,
    AuthInvalid,
    AuthRequired,
    CallTimeout,
    InvalidDescriptor,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.catalog.findings import Problem
from switchboard.descriptors import discovered
from switchboard.descriptors.discovered import Discovered, Page
from switchboard.sources.events import Event, Events

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch, Stream

POLL_S = 15.0
IDLE_S = 45.0
"""Three keep-alives that did not come."""
FIRST_S = 15.0
"""What a watch begins with is there at once; who only ever sends signs of life keeps events back."""
_FLAGS = "include_input_schema=true&include_output_schema=true&include_descriptions=true&include_examples=true"
_DISCOVERY = "/api/v1/discovery/capabilities"
_WATCH = f"/api/v1/discovery/watch?{_FLAGS}"
_PAGE = 500
_MOST_AGENTS = 10_000
_LARGEST_PAGE = 32 * 1024 * 1024
_LARGEST_EVENT = 4 * 1024 * 1024
_LARGEST_HEALTH = 64 * 1024
_PAGE_S = 30.0
_TRIES = 3
_ELSEWHERE_S = 1.5
"""After this every instance knows what one of them knew."""
_DELAYS = (0.05, 0.25, 0.5, 1.0, 2.0, 5.0)
_LIVED_S = 5.0
_OK, _NOT_MODIFIED, _UNAUTHORIZED, _FORBIDDEN = 200, 304, 401, 403
_NO_WATCH = frozenset({400, 404, 405, 410, 501})
_SENDABLE = re.compile(r"[\x21-\x7e]{1,200}")
"""An id of an event that can go back in a header."""
KEY_VARIABLE = "AGENTFIELD_API_KEY"


class Said(Struct, frozen=True, kw_only=True):
    """What a control plane said last, and whether it still does."""

    status: Literal["loading", "ready", "down"] = "loading"
    since: float | None = None
    reason: str = ""
    store: str = ""
    agents: Mapping[str, Discovered] = {}
    problems: tuple[Problem, ...] = ()


@final
class Link:
    """Follows one control plane."""

    def __init__(  # noqa: PLR0913 - where to, how, and settings for tests
        self,
        plane: Plane,
        fetch: "Callable[[], Fetch]",
        clock: Clock,
        *,
        poll_s: float = POLL_S,
        idle_s: float = IDLE_S,
        first_s: float = FIRST_S,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.plane = plane
        self.said = Said()
        self._fetch = fetch
        self._clock = clock
        self._poll_s = poll_s
        self._idle_s = idle_s
        self._first_s = first_s
        self._jitter = jitter
        self._last = ""
        self._pages: dict[tuple[int, int], tuple[str, Page]] = {}
        self._page_size = _PAGE
        self._alive = False
        self._changed: Callable[[], None] = lambda: None

    async def keep(self, changed: Callable[[], None]) -> None:
        """Follow it until cancelled, and call back after everything new."""
        self._changed = changed
        failures, lost_at = 0, 0.0
        while True:
            begun, self._alive = get_running_loop().time(), False
            try:
                await self._follow()
                reason = "it has ended the connection"
            except SwitchboardError as error:
                reason = error.message
            if self._alive:
                # Perhaps only this connection: nobody is told before it was looked at again.
                lost_at = self._clock.now()
                failures = 0 if get_running_loop().time() - begun > _LIVED_S else min(failures + 1, len(_DELAYS))
            else:
                failures += 1
                self._note_down(reason, lost_at or self._clock.now())
            await sleep(_DELAYS[min(failures, len(_DELAYS) - 1)] * (0.5 + self._jitter() / 2))

    async def look(self) -> None:
        """Ask once who is there; where it does not say, that is noted."""
        try:
            await self._list(await self._asked_store())
        except SwitchboardError as error:
            self._note_down(error.message, self._clock.now())

    async def _follow(self) -> None:
        """Watch, or ask again and again where there is no watch; return when it ends the connection."""
        headers = [("Accept", "text/event-stream"), *self.plane.headers]
        if self._last:
            headers.append(("Last-Event-ID", self._last))
        url = self.plane.url + _WATCH
        async with self._fetch().stream(url, headers=headers, idle_s=self._idle_s) as stream:
            if _is_watch(stream):
                await self._watch(stream)
                return
            self._require(stream.status, _NO_WATCH | {_OK})
        await self._poll()

    async def _watch(self, stream: "Stream") -> None:
        events = Events(_LARGEST_EVENT)
        try:
            async with timeout(self._first_s) as silence:
                async for chunk in stream.chunks:
                    for event in events.feed(chunk):
                        silence.reschedule(None)  # it has begun; the stream itself says when it is too quiet
                        await self._take(event)
        except TimeoutError as error:
            raise CallTimeout(f"{self.plane.url} told nothing within {self._first_s:g} seconds.") from error
        except (InvalidDescriptor, AnswerTooLarge):
            self._last = ""  # what came after it would be missed: everybody is asked for anew
            raise

    async def _take(self, event: Event) -> None:
        news = discovered.read_news(event.kind, event.data)
        if news is None:
            return
        agents = dict(self.said.agents)
        match news.kind:
            case "snapshot":
                await self._list(news.store, event.id.rpartition("-")[0])
            case "resumed":
                self._note(news.store or self.said.store, agents, self.said.problems)
            case "removed":
                agents.pop(news.agent_id, None)
                self._note(self.said.store, agents, self.said.problems)
            case _:
                if news.agent is not None and (news.agent_id in agents or len(agents) < _MOST_AGENTS):
                    agents[news.agent_id] = news.agent
                    self._note(self.said.store, agents, self.said.problems)
        if event.id:
            self._last = event.id if _SENDABLE.fullmatch(event.id) else ""

    async def _poll(self) -> None:
        store = await self._asked_store()
        while True:
            await self._list(store)
            await sleep(self._poll_s)

    async def _asked_store(self) -> str:
        answer = await self._get("/health", _LARGEST_HEALTH)
        return discovered.read_health(answer.body) if answer.status == _OK else ""

    async def _list(self, store: str, instance: str = "") -> None:
        """Ask for everybody; again if they came and went meanwhile, or if another instance was asked than is heard."""
        asked = await self._asked()
        if instance and asked.tag and instance not in asked.tag:
            await sleep(_ELSEWHERE_S)
            asked = await self._asked()
        for _ in range(_TRIES):
            if asked.is_whole:
                break
            asked = await self._asked()
        self._note(store, asked.agents, asked.problems)

    async def _asked(self) -> "_Asked":
        agents: dict[str, Discovered] = {}
        problems: list[Problem] = []
        asked: dict[tuple[int, int], tuple[str, Page]] = {}
        offset, size, tag, total = 0, self._page_size, "", 0
        while offset < _MOST_AGENTS:
            try:
                tag, page = await self._page(offset, size)
            except AnswerTooLarge:
                if size == 1:
                    raise
                size = max(1, size // 8)
                continue
            asked[(offset, size)] = (tag, page)
            for one in page.agents:
                before = self.said.agents.get(one.agent.id)
                agents[one.agent.id] = before if before is not None and _is_same(before, one) else one
            problems += page.problems
            offset, total = offset + size, page.total
            if not page.has_more or not (page.agents or page.problems):
                break
        if total > _MOST_AGENTS:
            problems.append(Problem("error", "value", "$", f"{total} agents are too many; {_MOST_AGENTS} are taken"))
        self._pages, self._page_size = asked, size
        return _Asked(agents, tuple(problems), total, tag)

    async def _page(self, offset: int, size: int) -> tuple[str, Page]:
        known = self._pages.get((offset, size))
        headers = [("If-None-Match", known[0])] if known and known[0] else []
        path = f"{_DISCOVERY}?{_FLAGS}&limit={size}&offset={offset}"
        answer = await self._get(path, _LARGEST_PAGE, headers)
        if answer.status == _NOT_MODIFIED and known:
            return known
        self._require(answer.status, frozenset({_OK}))
        return answer.header("etag") or "", discovered.read(answer.body)

    async def _get(self, path: str, size: int, headers: Sequence[tuple[str, str]] = ()) -> "Answer":
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - only a gateway with a control plane needs a client

        return await self._fetch().send(
            "GET",
            self.plane.url + path,
            headers=[("Accept", "application/json"), *self.plane.headers, *headers],
            limits=Limits(seconds=_PAGE_S, size=size, redirects=0),
        )

    def _require(self, status: int, wanted: frozenset[int]) -> None:
        if status in wanted:
            return
        url = self.plane.url
        if status == _UNAUTHORIZED and self.plane.headers:
            raise AuthInvalid(f"{url} does not accept the key in {KEY_VARIABLE}.", plane=url)
        if status == _UNAUTHORIZED:
            raise AuthRequired(f"{url} wants an API key: set {KEY_VARIABLE}.", plane=url)
        if status == _FORBIDDEN:
            raise AuthDenied(f"{url} does not let this key look at its agents ({KEY_VARIABLE}).", plane=url)
        raise ServiceUnavailable(f"{url} answers {status}.", plane=url, status=status)

    def _note(self, store: str, agents: Mapping[str, Discovered], problems: tuple[Problem, ...]) -> None:
        self._alive = True
        since = self.said.since if self.said.status == "ready" else self._clock.now()
        said = Said(status="ready", since=since, store=store, agents=agents, problems=problems)
        if said != self.said:
            self.said = said
            self._changed()

    def _note_down(self, reason: str, since: float) -> None:
        before = self.said
        if before.status == "down":
            since = before.since or since
        said = Said(
            status="down",
            since=since,
            reason=reason,
            store=before.store,
            agents=before.agents,
            problems=before.problems,
        )
        if said != before:
            self.said = said
            self._changed()


class _Asked(NamedTuple):
    """Everybody, as the pages of one look have them."""

    agents: dict[str, Discovered]
    problems: tuple[Problem, ...]
    total: int
    tag: str

    @property
    def is_whole(self) -> bool:
        """Whether nobody was missed because others went while the pages were turned."""
        return len(self.agents) + len(self.problems) >= min(self.total, _MOST_AGENTS)


def _is_same(before: Discovered, now: Discovered) -> bool:
    """Tell whether a look brings nothing new; it never says since when somebody is degraded, which a watch does."""
    return before.agent == now.agent


def _is_watch(stream: "Stream") -> bool:
    kind = next((value for name, value in stream.headers if name.lower() == "content-type"), "")
    return stream.status == _OK and kind.partition(";")[0].strip().lower() == "text/event-stream"

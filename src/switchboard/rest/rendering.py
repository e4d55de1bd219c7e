"""Answers of discovery in their three formats, put together from encoded fragments."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from switchboard.actions.browse import Browse
from switchboard.catalog.caches import Cache, Caches
from switchboard.catalog.model import Agent
from switchboard.catalog.query import LIMIT_DEFAULT, Query
from switchboard.catalog.selection import Page, whole
from switchboard.catalog.snapshot import Snapshot
from switchboard.rest import render_compact, render_json, render_xml
from switchboard.rest.answers import time_text
from switchboard.rest.fragments import MOST as MOST_FRAGMENTS
from switchboard.rest.fragments import FragmentCache, Fragments
from switchboard.rest.questions import Question, variant_of

_MOST_SEEN = 20_000
_PLAIN = Query()
_USUAL = variant_of(_PLAIN)


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


class Rendering:
    """Encodes agents once, and puts answers together."""

    def __init__(self, browse: Browse, caches: Caches) -> None:
        self._browse = browse
        self._fragments = FragmentCache(most=caches.most(MOST_FRAGMENTS))
        self._seen: Cache[str, tuple[float, Renderer, bytes]] = Cache(caches.most(_MOST_SEEN))

    @property
    def size(self) -> int:
        """How many bytes the fragments take, about."""
        return self._fragments.size

    def document(self, question: Question, page: Page, now: float) -> list[bytes]:
        """Return an answer in pieces."""
        query, at = question.query, time_text(now)
        match query.format:
            case "compact":
                return self._compact(question, page, at)
            case "xml":
                return render_xml.document(at, page, self._agents(question, page, render_xml))
            case "json":
                return render_json.document(at, query, page, self._agents(question, page, render_json))

    def looked_up(self, snapshot: Snapshot, ids: Iterable[str], now: float) -> tuple[list[bytes], tuple[int, int, int]]:
        """Find agents by their ids, which come sorted, and return the answer: what `document` says of the same page.

        With it come the totals of agents, reasoners and skills. In one go, because nothing else is asked as often:
        agents, fragments and totals in one turn of one loop.
        """
        agents, known, seen_at = snapshot.agents, self._fragments.known(_USUAL), self._browse.seen_at
        parts: list[bytes] = []
        found = reasoners = every = 0
        for agent_id in ids:
            agent = agents.get(agent_id)
            if agent is None or not agent.capabilities:
                continue
            found += 1
            reasoners += agent.reasoner_count
            every += len(agent.capabilities)
            if found > LIMIT_DEFAULT:
                continue
            fragments = known.get(agent_id)
            if fragments is None or fragments.agent is not agent:
                fragments = self._fragments.make(agent, _PLAIN, _USUAL, render_json.agent_fragments)
            at, text = seen_at.get(agent_id), fragments.text
            if text is None or fragments.seen_at != at:
                text = self._whole(fragments, at, render_json)
            parts += (render_json.SEPARATOR, text)
        totals = found, reasoners, every - reasoners
        summary = render_json.summary(time_text(now), _PLAIN, totals, has_more=found > LIMIT_DEFAULT)
        if not parts:
            return [summary, render_json.END], totals
        parts[0] = summary  # in place of the separator before the first
        parts.append(render_json.END)
        return parts, totals

    def _compact(self, question: Question, page: Page, at: str) -> list[bytes]:
        variant, encode = question.variant, render_compact.agent_fragments
        reasoners, skills = list[bytes](), list[bytes]()
        for match in page.matches:
            agent = match.agent
            found = self._fragments.get(agent, question.query, variant, encode)
            items, count = found.items(), agent.reasoner_count
            if not match.is_whole:
                items = [item if match.mask >> i & 1 else b"" for i, item in enumerate(items)]
            reasoners += filter(None, items[:count])
            skills += filter(None, items[count:])
        return render_compact.document(at, reasoners, skills)

    def _agents(self, question: Question, page: Page, renderer: Renderer) -> list[bytes]:
        """Return every agent in pieces, which are put together once, with everything around them."""
        separator, join, parts = renderer.SEPARATOR, renderer.agent_tail, list[bytes]()
        seen_at, known = self._browse.seen_at, self._fragments.known(question.variant)
        for match in page.matches:
            agent, mask = match.agent, match.mask
            found, at = known.get(agent.id), seen_at.get(agent.id)
            if found is None or found.agent is not agent:
                found = self._fragments.make(agent, question.query, question.variant, renderer.agent_fragments)
            if found.mask == mask and found.part_seen_at == at:
                text = found.part
            elif mask == whole(agent):
                text = self._whole(found, at, renderer)
            else:
                text = found.chosen(mask, at, self._heartbeat(agent.id, at, renderer), join)
            parts += (separator, text)
        return parts[1:]

    def _whole(self, fragments: Fragments, at: float | None, renderer: Renderer) -> bytes:
        if fragments.text is not None and fragments.seen_at == at:
            return fragments.text
        return fragments.whole(at, self._heartbeat(fragments.agent.id, at, renderer), renderer.agent_tail)

    def _heartbeat(self, agent_id: str, at: float | None, renderer: Renderer) -> bytes:
        if not at:
            return b""
        known = self._seen.get(agent_id)
        if known is None or known[0] != at or known[1] is not renderer:
            known = self._seen.keep(agent_id, (at, renderer, renderer.agent_heartbeat(time_text(at).encode())))
        return known[2]

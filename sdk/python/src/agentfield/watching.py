"""Changes of what there is: added, removed and changed agents, and agents that feel better or worse.

The control plane tells them (server-sent events). Whoever was cut off comes back with the id of the last event, and
gets what was missed; where that cannot be had, discovery is asked again and compared with what was known, so that
nothing is told twice and nothing is left out. A server that does not tell is asked again and again: while nothing
changes, it answers 304 without a body.
"""

import random
from collections.abc import Generator, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from agentfield import errors
from agentfield.discovery import NEVER, AgentCapability, DiscoveryResponse, Filters, following, page, request_for
from agentfield.events import Event, Reader
from agentfield.plans import Answer, Follow, Listen, Lost, More, Opened, Pause, Plan, exchange, once, read, refuse

PATH = "/api/v1/discovery/watch"
_PAGE = 500
_NO_NEWS = frozenset({304, 408, 429})
"""Nothing has changed, or the control plane is busy."""
_SERVER_FAILED = 500
_NO_WATCH = frozenset({404, 405, 501})
_SILENCE_S = 45.0
"""The server says something every fifteen seconds: a line that is silent for so long is dead."""
_RETRY_S = 1.0
_LONGEST_RETRY_S = 30.0
_LAG_S = 2.0
"""How far behind another instance may be; usually it is milliseconds."""
_DICE = random.Random()  # noqa: S311 - for pauses; not the program's own, which it may have seeded
_AWAY = (errors.ConnectionFailed, errors.Timeout, errors.Unavailable, errors.BadAnswer)

Kind: TypeAlias = Literal["added", "removed", "changed", "health"]


class Change(msgspec.Struct, frozen=True):
    """One agent that came, went, or is not as it was; `before` is what it was.

    `health` is an agent that offers what it did and feels otherwise; `reason` and `since` say more, if it was told.
    """

    kind: Kind
    agent: AgentCapability
    before: AgentCapability | None = None
    reason: str = ""
    since: datetime = NEVER


class Told(msgspec.Struct, frozen=True):
    """What an event says, of whatever kind it is."""

    version: int = 0
    instance: str = ""
    agent_id: str = ""
    agent: AgentCapability | None = None
    reason: str = ""
    since: datetime = NEVER


class Seen(msgspec.Struct, frozen=True):
    """What a watcher knows: the agents by id, and the ETag of the answer."""

    agents: Mapping[str, AgentCapability] = {}
    etag: str = ""


Watching: TypeAlias = Generator[Follow | Change, Any, None]


def watch(filters: Filters, every: float, seconds: float, patience: float) -> Watching:
    """Yield every agent that is there, and then every change, between the steps that it takes to learn of them.

    A control plane that does not answer is waited for: a watcher lives longer than a server.

    Raises:
        APIError: The question is refused; asking again would not help.
    """
    known: dict[str, AgentCapability] = {}
    last, failures, wait = "", 0, _RETRY_S
    while True:
        reply = yield _listen(filters, last)
        if isinstance(reply, Answer) and reply.status in _NO_WATCH | {200}:
            yield from _ask_again_and_again(Seen(known), filters, every, seconds, patience)
        if isinstance(reply, Answer) and reply.status not in _NO_NEWS and reply.status < _SERVER_FAILED:
            refuse(reply)
        if isinstance(reply, Opened):
            failures = 0
            line = _Line(filters, known, last, seconds, patience)
            yield from line.follow()
            last, wait = line.last, min(line.retry_s or _RETRY_S, _LONGEST_RETRY_S)
        # Not all at once: a server that ends has thousands of them.
        yield Pause(min(wait * 2**failures, _LONGEST_RETRY_S) * _DICE.uniform(0.3, 1.0))
        failures = min(failures + 1, 5)


class _Line:
    """One connection to the watch, until it breaks."""

    def __init__(
        self, filters: Filters, known: dict[str, AgentCapability], last: str, seconds: float, patience: float
    ) -> None:
        self._filters = filters
        self._known = known
        self._waits = (patience, seconds)
        self._reader = Reader(last)
        self._skip = 0
        self.last = last
        """The place to come back to; none where what is known is not to be built on."""

    @property
    def retry_s(self) -> float | None:
        """How long the server wants one to wait."""
        return self._reader.retry_s

    def follow(self) -> Watching:
        """Yield what is told."""
        while True:
            piece = yield More()
            if not isinstance(piece, bytes):
                return
            try:
                events = self._reader.feed(piece)
            except ValueError:
                return
            for event in events:
                told = _told(event)
                if told is None or not (yield from self._take(event, told)):
                    return
                self.last = event.id

    def _take(self, event: Event, told: Told) -> Generator[Follow | Change, Any, bool]:
        """Take one event in; tell whether to read on."""
        if event.kind == "snapshot":
            self.last = ""
            return (yield from self._begin_anew(told))
        if event.kind == "resumed" or told.version <= self._skip:
            return True
        before = self._known.get(told.agent_id)
        if event.kind == "removed":
            if before is not None:
                del self._known[told.agent_id]
                yield Change("removed", before, before, told.reason)
        elif told.agent is not None:
            self._known[told.agent_id] = told.agent
            change = _difference(before, told.agent)
            if change is not None:
                yield msgspec.structs.replace(change, reason=told.reason, since=told.since)
        return True

    def _begin_anew(self, told: Told) -> Generator[Follow | Change, Any, bool]:
        """Ask discovery for everything, and yield what is different; once more if another instance answered."""
        for pause in (0.0, _LAG_S):
            if pause:
                yield Pause(pause)
            try:
                agents, places = yield from _everything(self._filters, *self._waits)
            except _AWAY:
                return False
            changes = differences(self._known, agents)
            self._known.clear()
            self._known |= agents
            yield from changes
            here = [version for instance, version in places if instance == told.instance]
            if len(here) == len(places):
                self._skip = min(here)
                return True
        self._skip = 0
        return True


def _listen(filters: Filters, last: str) -> Listen:
    asked = request_for("json", {**filters}, _SILENCE_S)
    query = tuple((name, value) for name, value in asked.query if name not in {"limit", "offset"})
    headers = (("Accept", "text/event-stream"), *((("Last-Event-ID", last),) if last else ()))
    return Listen(msgspec.structs.replace(asked, path=PATH, query=query, headers=headers))


def _told(event: Event) -> Told | None:
    try:
        return msgspec.json.decode(event.data.encode(), type=Told)
    except msgspec.DecodeError:
        return None


def _everything(
    filters: Filters, patience: float, seconds: float
) -> Plan[tuple[dict[str, AgentCapability], list[tuple[str, int]]]]:
    """Ask for every page, and return the agents, and the instance and version that each page is from.

    Agents that go meanwhile would push others over the edge of a page: each page begins with the end of the one before,
    or it is asked for from further back. Agents are in the order of their ids.
    """
    agents: dict[str, AgentCapability] = {}
    places: list[tuple[str, int]] = []
    offset, last = 0, ""
    while True:
        question: Filters = {**filters, "limit": _PAGE, "offset": offset}
        answer = yield from exchange(request_for("json", question, seconds), patience)
        found = read(answer, DiscoveryResponse)
        if offset and (not found.capabilities or found.capabilities[0].agent_id > last):
            offset = max(0, offset - _PAGE // 2)
            continue
        places.append(_place(answer.headers.get("etag", "")))
        agents |= {agent.agent_id: agent for agent in found.capabilities}
        if not found.pagination.has_more or not found.capabilities:
            return agents, places
        last = max(last, found.capabilities[-1].agent_id)
        offset += len(found.capabilities) - 1 or 1


def _place(etag: str) -> tuple[str, int]:
    """Read the instance and the version of the catalogue out of an ETag of ours."""
    instance, _, rest = etag.removeprefix("W/").strip('"').partition("-")
    try:
        return instance, int(rest.partition("-")[0], 16)
    except ValueError:
        return "", 0


def _ask_again_and_again(seen: Seen, filters: Filters, every: float, seconds: float, patience: float) -> Watching:
    while True:
        seen, changes = yield from look(seen, filters, every, seconds, patience)
        yield from changes


def look(
    seen: Seen, filters: Filters, every: float, seconds: float, patience: float
) -> Plan[tuple[Seen, list[Change]]]:
    """Ask until something has changed, and return what.

    Raises:
        APIError: The question is refused; asking again would not help.
    """
    question: Filters = {**filters, "limit": _PAGE, "offset": 0}
    while True:
        reply = yield from once(request_for("json", question, seconds, seen.etag))
        if isinstance(reply, Answer) and reply.status not in _NO_NEWS and reply.status < _SERVER_FAILED:
            now = yield from _all_of(reply, question, patience, seconds)
            changes = differences(seen.agents, now.agents)
            if changes:
                return now, changes
            seen = now
        yield Pause(every)


def differences(before: Mapping[str, AgentCapability], now: Mapping[str, AgentCapability]) -> list[Change]:
    """Compare two states, by the order of ids; a sign of life alone is no change."""
    changes: list[Change] = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        change = _difference(old, new) if new is not None else Change("removed", before[name], before[name])
        if change is not None:
            changes.append(change)
    return changes


def _difference(old: AgentCapability | None, new: AgentCapability) -> Change | None:
    if old is None:
        return Change("added", new)
    if _lasting(old) == _lasting(new):
        return None
    same = msgspec.structs.replace(_lasting(old), health_status=new.health_status) == _lasting(new)
    return Change("health" if same else "changed", new, old)


def _all_of(answer: Answer | Lost, question: Filters, patience: float, seconds: float) -> Plan[Seen]:
    assert isinstance(answer, Answer)  # noqa: S101 - for the type checker
    found = read(answer, DiscoveryResponse)
    agents = {agent.agent_id: agent for agent in found.capabilities}
    rest = following(question, found)
    while rest is not None:
        found = yield from page(rest, patience, seconds)
        agents |= {agent.agent_id: agent for agent in found.capabilities}
        rest = following(rest, found)
    return Seen(agents, answer.headers.get("etag", ""))


def _lasting(agent: AgentCapability) -> AgentCapability:
    return msgspec.structs.replace(agent, last_heartbeat=NEVER)

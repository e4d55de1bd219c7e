"""The catalogue at one moment: every owner, the indexes over them, and the answer to a query.

A snapshot never changes, so a reader can hold one as long as it likes; replacing one owner gives the next snapshot,
which shares everything else. Discovery is about agents; apps are found by id.

How selection works: a capability is a bit in its agent's mask (reasoners first, then skills). An index entry is a term
(a reasoner's name, a skill's name, a tag) with the mask of every agent that has it; matching a pattern means trying it
on the distinct terms, uniting the masks of those that match, and counting bits. So the cost grows with the matches and
the distinct names, not with the agents.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from switchboard.catalog import patterns
from switchboard.catalog.errors import InvalidTarget, SwitchboardError, UnknownApp, UnknownTool
from switchboard.catalog.model import Agent, App, Capability, Owner
from switchboard.catalog.names import Address, readings
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Match, Page, Selection, whole
from switchboard.catalog.shards import Shards
from switchboard.catalog.text import nearest

Masks = dict[str, int]


class Index(Struct, frozen=True):
    """The distinct terms of one kind, each with the capabilities that have it: term to agent id to mask."""

    postings: Shards[str, Shards[str, int]] = Shards()

    def masks(self, wanted: Iterable[str]) -> Masks:
        """Return the masks of every term that one of the patterns matches."""
        terms: set[str] = set()
        for pattern in wanted:
            if not patterns.is_exact(pattern):
                terms.update(patterns.matching(pattern, self.postings))
            elif pattern in self.postings:
                terms.add(pattern)
        return _united(shard.items() for term in terms for shard in self.postings[term].shards)

    def replaced(self, agent_id: str, old: Masks, new: Masks) -> "Index":
        """Return the index after the terms of one agent changed from `old` to `new`."""
        changes: dict[str, Shards[str, int] | None] = {}
        for term in old.keys() | new.keys():
            if old.get(term) != new.get(term):
                posting = (self.postings.get(term) or Shards[str, int]()).replaced({agent_id: new.get(term)})
                changes[term] = posting if len(posting) else None
        return Index(self.postings.replaced(changes)) if changes else self


class Snapshot(Struct, frozen=True, kw_only=True):
    """All owners at one moment, under a version that grows with every change."""

    version: int = 0
    agents: Shards[str, Agent] = Shards()
    apps: Shards[str, App] = Shards()
    agent_ids: Sequence[str] = ()
    """Ids of the agents that have a capability, sorted: the others are in no answer."""
    reasoner_names: Index = Index()
    skill_names: Index = Index()
    tags: Index = Index()
    reasoner_total: int = 0
    skill_total: int = 0

    @classmethod
    def of(cls, owners: Iterable[Owner], version: int = 0) -> "Snapshot":
        """Build a snapshot at once; the last owner of an id wins."""
        agents: dict[str, Agent] = {}
        apps: dict[str, App] = {}
        for owner in owners:
            if isinstance(owner, Agent):
                agents[owner.id] = owner
            else:
                apps[owner.id] = owner
        reasoners = sum(agent.reasoner_count for agent in agents.values())
        return cls(
            version=version,
            agents=Shards(agents),
            apps=Shards(apps),
            agent_ids=sorted(agent.id for agent in agents.values() if agent.capabilities),
            reasoner_names=_index(agents.values(), _reasoner_terms),
            skill_names=_index(agents.values(), _skill_terms),
            tags=_index(agents.values(), _tag_terms),
            reasoner_total=reasoners,
            skill_total=sum(len(agent.capabilities) for agent in agents.values()) - reasoners,
        )

    def with_app(self, app: App) -> "Snapshot":
        """Return the next snapshot, with this app new or in the place of its older self."""
        return replace(self, version=self.version + 1, apps=self.apps.replaced({app.id: app}))

    def without_app(self, app_id: str) -> "Snapshot":
        """Return the next snapshot, without this app; the same one if there is none."""
        if app_id not in self.apps:
            return self
        return replace(self, version=self.version + 1, apps=self.apps.replaced({app_id: None}))

    def with_agent(self, agent: Agent) -> "Snapshot":
        """Return the next snapshot, with this agent new or in the place of its older self."""
        return self._replaced(agent.id, self.agents.get(agent.id), agent)

    def without_agent(self, agent_id: str) -> "Snapshot":
        """Return the next snapshot, without this agent; the same one if there is none."""
        old = self.agents.get(agent_id)
        return self if old is None else self._replaced(agent_id, old, None)

    def find(self, target: str) -> tuple[Owner, Capability]:
        """Return the capability a target in any spelling means; an agent comes before an app of the same id.

        Raises:
            InvalidTarget: the text is no target in any spelling.
            UnknownApp: no reading names an owner.
            UnknownTool: an owner is there and has no such capability.
        """
        refusal: SwitchboardError | None = None
        for address in readings(target):
            for owner in (self.agents.get(address.owner), self.apps.get(address.owner)):
                if owner is None:
                    continue
                capability = _capability(owner, address)
                if capability is not None:
                    return owner, capability
                known = (item.id for item in owner.capabilities)
                refusal = refusal or UnknownTool(owner.id, address.name, nearest(address.name, known))
        raise refusal or self._unknown(target)

    def nearest_owners(self, name: str) -> list[str]:
        """Return the ids that look like `name`, best first."""
        return nearest(name, (*self.apps, *self.agents))

    def select(self, query: Query) -> Page:
        """Answer a discovery query."""
        return self.page(query) or self.selection(query).page(query.limit, query.offset)

    def page(self, query: Query) -> Page | None:
        """Answer a query that asks for everything, whose totals are known; None for every other."""
        if query.agents or query.reasoner is not None or query.skill is not None or query.tags or query.health:
            return None
        ids = self.agent_ids[query.offset : query.offset + query.limit]
        return Page(
            total_agents=len(self.agent_ids),
            total_reasoners=self.reasoner_total,
            total_skills=self.skill_total,
            has_more=len(self.agent_ids) > query.offset + query.limit,
            matches=tuple([Match(agent, whole(agent)) for agent in map(self.agents.__getitem__, ids)]),
        )

    def selection(self, query: Query) -> Selection:
        """Find everything that matches, whatever page is asked for."""
        masks = self._masks(query)
        agents = self._candidates(query, masks)
        if query.health is not None:
            agents = [agent for agent in agents if agent.health == query.health]
        if masks is None:
            agents = [agent for agent in agents if agent.capabilities]
            reasoners = sum([agent.reasoner_count for agent in agents])
            every = sum([len(agent.capabilities) for agent in agents])
            return Selection(agents=agents, reasoners=reasoners, skills=every - reasoners)
        chosen = [masks[agent.id] for agent in agents]
        every = sum(map(int.bit_count, chosen))
        reasoners = _reasoners_among(agents, chosen, query, every)
        return Selection(agents=agents, masks=chosen, reasoners=reasoners, skills=every - reasoners)

    def matches(self, query: Query) -> list[Match]:
        """Return everything that matches, by id, whatever page is asked for."""
        found = self.selection(query)
        return list(map(Match, found.agents, map(whole, found.agents) if found.masks is None else found.masks))

    def _masks(self, query: Query) -> Masks | None:
        """Return what the patterns and tags leave of each agent; None where they leave everything."""
        tagged = self.tags.masks(query.tags) if query.tags else None
        if query.reasoner is None and query.skill is None:
            return tagged
        reasoners = self.reasoner_names.masks((query.reasoner,)) if query.reasoner is not None else {}
        skills = self.skill_names.masks((query.skill,)) if query.skill is not None else {}
        named = _united((reasoners.items(), skills.items())) if reasoners and skills else reasoners or skills
        if tagged is None:
            return named
        return {agent_id: both for agent_id, mask in named.items() if (both := mask & tagged.get(agent_id, 0))}

    def _candidates(self, query: Query, masks: Masks | None) -> list[Agent]:
        """Return the agents that can be in the answer, by id."""
        if query.agents:
            named = self._named(query.agents)
            return [named[agent_id] for agent_id in sorted(named) if masks is None or agent_id in masks]
        ids = self.agent_ids if masks is None else sorted(masks)
        return list(map(self.agents.__getitem__, ids))

    def _named(self, wanted: tuple[str, ...]) -> dict[str, Agent]:
        named: dict[str, Agent] = {}
        for pattern in wanted:
            if "*" in pattern:
                ids = filter(patterns.matcher(pattern), self._beginning(pattern.partition("*")[0]))
                named.update((agent_id, self.agents[agent_id]) for agent_id in ids)
            elif (agent := self.agents.get(pattern)) is not None:
                named[pattern] = agent
        return named

    def _beginning(self, prefix: str) -> Sequence[str]:
        def cut(agent_id: str) -> str:
            return agent_id[: len(prefix)]

        first = bisect_left(self.agent_ids, prefix, key=cut)
        return self.agent_ids[first : bisect_right(self.agent_ids, prefix, lo=first, key=cut)]

    def _unknown(self, target: str) -> SwitchboardError:
        address = next(readings(target), None)
        if address is None:
            return InvalidTarget(target)
        return UnknownApp(address.owner, self.nearest_owners(address.owner))

    def _replaced(self, agent_id: str, old: Agent | None, new: Agent | None) -> "Snapshot":
        return replace(
            self,
            version=self.version + 1,
            agents=self.agents.replaced({agent_id: new}),
            agent_ids=_listed(self.agent_ids, agent_id, old, new),
            reasoner_names=self.reasoner_names.replaced(agent_id, _reasoner_terms(old), _reasoner_terms(new)),
            skill_names=self.skill_names.replaced(agent_id, _skill_terms(old), _skill_terms(new)),
            tags=self.tags.replaced(agent_id, _tag_terms(old), _tag_terms(new)),
            reasoner_total=self.reasoner_total + _reasoner_count(new) - _reasoner_count(old),
            skill_total=self.skill_total + _skill_count(new) - _skill_count(old),
        )


def _reasoner_bits(agent: Agent) -> int:
    return (1 << agent.reasoner_count) - 1


def _reasoner_count(agent: Agent | None) -> int:
    return agent.reasoner_count if agent is not None else 0


def _skill_count(agent: Agent | None) -> int:
    return len(agent.capabilities) - agent.reasoner_count if agent is not None else 0


def _reasoners_among(agents: Sequence[Agent], masks: Sequence[int], query: Query, every: int) -> int:
    """Return how many of what was found are reasoners; a pattern for one kind leaves nothing of the other."""
    if query.skill is None and query.reasoner is not None:
        return every
    if query.reasoner is None and query.skill is not None:
        return 0
    return sum([(mask & _reasoner_bits(agent)).bit_count() for agent, mask in zip(agents, masks, strict=True)])


def _united(postings: Iterable[Iterable[tuple[str, int]]]) -> Masks:
    united: Masks = {}
    for posting in postings:
        for agent_id, mask in posting:
            united[agent_id] = united.get(agent_id, 0) | mask
    return united


def _reasoner_terms(agent: Agent | None) -> Masks:
    return {} if agent is None else {item.id: 1 << i for i, item in enumerate(agent.reasoners)}


def _skill_terms(agent: Agent | None) -> Masks:
    return {} if agent is None else {item.id: 1 << i for i, item in enumerate(agent.skills, agent.reasoner_count)}


def _tag_terms(agent: Agent | None) -> Masks:
    terms: Masks = {}
    for i, item in enumerate(agent.capabilities if agent is not None else ()):
        for tag in item.tags:
            terms[tag] = terms.get(tag, 0) | 1 << i
    return terms


def _index(agents: Iterable[Agent], terms: Callable[[Agent], Masks]) -> Index:
    postings: defaultdict[str, Masks] = defaultdict(dict)
    for agent in agents:
        for term, mask in terms(agent).items():
            postings[term][agent.id] = mask
    return Index(Shards({term: Shards(masks) for term, masks in postings.items()}))


def _listed(ids: Sequence[str], agent_id: str, old: Agent | None, new: Agent | None) -> Sequence[str]:
    was, is_now = bool(old and old.capabilities), bool(new and new.capabilities)
    if was == is_now:
        return ids
    listed = list(ids)  # one block copy; building a tuple around the place costs several times as much at 100,000
    if is_now:
        insort(listed, agent_id)
    else:
        del listed[bisect_left(listed, agent_id)]
    return listed


def _capability(owner: Owner, address: Address) -> Capability | None:
    if isinstance(owner, Agent):
        return owner.capability(address.name, address.kind)
    return owner.capability(address.name) if address.kind is None else None

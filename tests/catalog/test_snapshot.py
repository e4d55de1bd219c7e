"""Selection over the catalogue: each filter, their combination, paging, and incremental change."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import agent, app
from tests.support import requirement

from switchboard.catalog import patterns
from switchboard.catalog.model import Agent, Capability, Health
from switchboard.catalog.query import Query, parse_query
from switchboard.catalog.selection import Page
from switchboard.catalog.snapshot import Snapshot

CATALOG = [
    agent("agent-001", reasoners={"deep_research": ["research", "ml"]}, skills={"web_search": ["web", "search"]}),
    agent("agent-1", reasoners={"web_researcher": ["research"]}, skills={"web_parser": ["html"]}, health="degraded"),
    agent("agent-2", reasoners={"summarise": ["mlops", "nlp"]}, health="inactive"),
    agent("a1", skills={"web_scraper": ["web", "deep_research"]}),
    agent("empty"),
]


def select(**parameters: str) -> Page:
    return Snapshot.of(CATALOG).select(parse_query(parameters.items()))


def ids(page: Page) -> list[str]:
    return [match.agent.id for match in page.matches]


def capabilities(page: Page) -> list[str]:
    """Name everything on the page, reasoners before skills, as `agent:name`."""
    return [f"{match.agent.id}:{item.id}" for match in page.matches for item in (*match.reasoners, *match.skills)]


@requirement("discovery:query:all-optional", "discovery:order:fixed", "discovery:agents:dropped")
def test_without_a_filter_everything_that_can_do_something_comes_by_id() -> None:
    """The agent without capabilities is dropped."""
    page = select()

    assert ids(page) == ["a1", "agent-001", "agent-1", "agent-2"]
    assert (page.total_agents, page.total_reasoners, page.total_skills, page.has_more) == (4, 3, 3, False)


@requirement("discovery:agent:single", "discovery:agent:node-id-alias", "discovery:agent:agent-id-alias")
@pytest.mark.parametrize("name", ["agent", "node_id", "agent_id"])
def test_one_agent_is_selected_by_its_id(name: str) -> None:
    """`agent=agent-001` is that agent and no other, and the empty one has nothing to show."""
    assert ids(select(**{name: "agent-001"})) == ["agent-001"]
    assert ids(select(**{name: "agent"})) == []
    assert ids(select(**{name: "empty"})) == []


@requirement("discovery:agent-ids:list", "discovery:agent-ids:node-ids-alias")
@pytest.mark.parametrize("name", ["agent_ids", "node_ids"])
def test_several_agents_are_selected_by_a_list(name: str) -> None:
    """In order of their ids, whatever the order of the list."""
    assert ids(select(**{name: "agent-2,agent-1,nobody"})) == ["agent-1", "agent-2"]


@requirement("discovery:agent:wildcard", "discovery:agent-ids:wildcard")
def test_agent_filters_take_wildcards() -> None:
    """At any place of the id, united with exact ones."""
    assert ids(select(agent="agent-*")) == ["agent-001", "agent-1", "agent-2"]
    assert ids(select(node_id="*1")) == ["a1", "agent-001", "agent-1"]
    assert ids(select(agent_ids="*-2,a1")) == ["a1", "agent-2"]
    assert ids(select(node_ids="*-2,a1")) == ["a1", "agent-2"]


@requirement("discovery:agent-ids:united")
def test_one_agent_and_a_list_are_united() -> None:
    """`agent` and `agent_ids` together."""
    assert ids(select(agent="agent-001", agent_ids="a1,agent-2")) == ["a1", "agent-001", "agent-2"]


@requirement("discovery:reasoner:pattern", "discovery:reasoner:alone")
def test_a_reasoner_pattern_leaves_matching_reasoners_and_no_skills() -> None:
    """`reasoner=*research*` alone is about reasoners only."""
    page = select(reasoner="*research*")

    assert capabilities(page) == ["agent-001:deep_research", "agent-1:web_researcher"]
    assert (page.total_agents, page.total_reasoners, page.total_skills) == (2, 2, 0)
    assert capabilities(select(reasoner="deep_*")) == ["agent-001:deep_research"]


@requirement("discovery:skill:pattern", "discovery:skill:alone")
def test_a_skill_pattern_leaves_matching_skills_and_no_reasoners() -> None:
    """`skill=web_*` alone is about skills only."""
    page = select(skill="web_*")

    assert capabilities(page) == ["a1:web_scraper", "agent-001:web_search", "agent-1:web_parser"]
    assert page.total_reasoners == 0


@requirement("discovery:kinds:both")
def test_both_patterns_leave_what_matches_each_in_its_kind() -> None:
    """Reasoners match the one, skills the other."""
    assert capabilities(select(reasoner="summarise", skill="web_s*")) == [
        "a1:web_scraper",
        "agent-001:web_search",
        "agent-2:summarise",
    ]


@requirement("discovery:tags:exact", "discovery:tags:list", "discovery:tags:wildcard")
def test_tags_keep_what_carries_any_of_them() -> None:
    """Exact ones match the equal tag only, wildcards as far as they reach."""
    assert capabilities(select(tags="ml")) == ["agent-001:deep_research"]
    assert capabilities(select(tags="ml,nlp")) == ["agent-001:deep_research", "agent-2:summarise"]
    assert capabilities(select(tags="mlo*,*_research")) == ["a1:web_scraper", "agent-2:summarise"]


@requirement("discovery:filters:and", "discovery:health-status:selects")
def test_filters_are_combined_with_and() -> None:
    """Pattern, tag, agent and health each take something away."""
    assert ids(select(health_status="active")) == ["a1", "agent-001"]
    assert capabilities(select(reasoner="*research*", tags="ml*")) == ["agent-001:deep_research"]
    assert capabilities(select(reasoner="*research*", agent="agent-1")) == ["agent-1:web_researcher"]
    assert capabilities(select(reasoner="*research*", health_status="degraded")) == ["agent-1:web_researcher"]
    assert capabilities(select(reasoner="*research*", tags="web")) == []


@requirement("discovery:limit:agents", "discovery:offset:skips", "discovery:page:totals", "discovery:page:has-more")
def test_a_page_is_cut_by_agents_and_counts_everything() -> None:
    """Totals are those of the whole selection; there is more as long as agents follow."""
    first, last, beyond, none = (
        select(limit="3"),
        select(limit="3", offset="3"),
        select(offset="9"),
        select(limit="0"),
    )

    assert (ids(first), first.has_more) == (["a1", "agent-001", "agent-1"], True)
    assert (ids(last), last.has_more) == (["agent-2"], False)
    assert (ids(beyond), beyond.has_more, ids(none), none.has_more) == ([], False, [], True)
    totals = {(page.total_agents, page.total_reasoners, page.total_skills) for page in (first, last, beyond, none)}
    assert totals == {(4, 3, 3)}
    assert capabilities(first)[1:3] == ["agent-001:deep_research", "agent-001:web_search"]


@requirement("discovery:limit:default")
def test_without_a_limit_a_hundred_agents_come() -> None:
    """Of 101, with or without a filter."""
    snapshot = Snapshot.of(agent(f"agent-{i:03}", skills={"work": ["t"]}) for i in range(101))

    for query in (Query(), Query(tags=("t",))):
        page = snapshot.select(query)
        assert (len(page.matches), page.total_agents, page.has_more) == (100, 101, True)


def test_an_older_snapshot_does_not_see_a_newer_change() -> None:
    """Replacing gives the next version and leaves the last one as it was."""
    before = Snapshot.of(CATALOG)

    after = before.with_agent(agent("agent-2", skills={"new": ["fresh"]})).without_agent("a1")

    assert ids(before.select(Query())) == ["a1", "agent-001", "agent-1", "agent-2"]
    assert capabilities(after.select(Query(tags=("fresh",)))) == ["agent-2:new"]
    assert ids(after.select(Query(reasoner="summarise"))) == []
    assert after.version == before.version + 2
    assert before.without_agent("nobody") is before
    assert before.without_app("nobody") is before


def test_apps_and_agents_of_one_id_live_side_by_side() -> None:
    """Publishing an app does not push an agent out."""
    snapshot = Snapshot.of(CATALOG).with_app(app("a1", "post"))

    assert snapshot.find("a1:web_scraper")[1].kind == "skill"
    assert snapshot.find("a1:post")[1].kind == "tool"
    assert snapshot.without_app("a1").apps.get("a1") is None


words = st.sampled_from(["ml", "mlops", "web", "web_search", "deep", "deep_research", "x"])
tagged = st.dictionaries(words, st.lists(words, max_size=3), max_size=4)
healths: st.SearchStrategy[Health] = st.sampled_from(["active", "inactive", "degraded", "unknown"])
agents = st.builds(agent, st.sampled_from(["a", "ab", "b", "ba", "c.d", "e"]), tagged, tagged, healths)
wildcards = st.sampled_from(["*", "ml*", "*search*", "web", "*x", "w*b", "nothing", "a*"])
queries = st.builds(
    Query,
    agents=st.lists(wildcards | st.sampled_from(["a", "b", "c.d"]), max_size=2).map(tuple),
    reasoner=st.none() | wildcards,
    skill=st.none() | wildcards,
    tags=st.lists(wildcards, max_size=2).map(tuple),
    health=st.none() | healths,
    limit=st.integers(0, 4),
    offset=st.integers(0, 3),
)


def expected(owners: Iterable[Agent], query: Query) -> list[tuple[str, list[tuple[str, str]]]]:
    """Answer a query the slow way, straight from the words of the contract."""

    def kept(item: Capability) -> bool:
        patterns_of = {"reasoner": query.reasoner, "skill": query.skill}
        asked = patterns_of[item.kind]
        if asked is None and (query.reasoner is not None or query.skill is not None):
            return False
        if asked is not None and not patterns.matcher(asked)(item.id):
            return False
        return not query.tags or any(patterns.matcher(want)(tag) for want in query.tags for tag in item.tags)

    def matching() -> Iterator[tuple[str, list[tuple[str, str]]]]:
        for owner in sorted(owners, key=lambda owner: owner.id):
            named = not query.agents or any(patterns.matcher(want)(owner.id) for want in query.agents)
            items = [(item.kind, item.id) for item in owner.capabilities if kept(item)]
            if named and query.health in (None, owner.health) and items:
                yield owner.id, items

    return list(matching())


@settings(max_examples=300)
@given(st.lists(agents | st.sampled_from(["a", "ab", "b"]), max_size=12), queries)
def test_selection_after_any_changes_is_what_the_contract_says(changes: list[Agent | str], query: Query) -> None:
    """Indexes and masks give the same as trying every capability; building at once the same as step by step."""
    known: dict[str, Agent] = {}
    stepwise = Snapshot()
    for change in changes:
        if isinstance(change, str):
            known.pop(change, None)
            stepwise = stepwise.without_agent(change)
        else:
            known[change.id] = change
            stepwise = stepwise.with_agent(change)

    whole = expected(known.values(), query)
    for snapshot in (stepwise, Snapshot.of(known.values())):
        page = snapshot.select(query)
        found = [
            (match.agent.id, [(item.kind, item.id) for item in (*match.reasoners, *match.skills)])
            for match in page.matches
        ]
        assert found == whole[query.offset : query.offset + query.limit]
        assert page.total_agents == len(whole)
        assert page.total_reasoners == sum(kind == "reasoner" for _, items in whole for kind, _ in items)
        assert page.total_skills == sum(kind == "skill" for _, items in whole for kind, _ in items)
        assert page.has_more == (len(whole) > query.offset + query.limit)

"""What a change is to a question: always what discovery would say before it and after it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import agent, schema
from tests.catalog.test_snapshot import agents, queries

from switchboard.catalog.changes import Change, Sides, match
from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query
from switchboard.catalog.snapshot import Snapshot

EVERYTHING = 500


@settings(max_examples=300)
@given(st.lists(agents, max_size=8), queries)
def test_one_agent_matches_exactly_when_discovery_has_it(owners: list[Agent], query: Query) -> None:
    """With the same capabilities, whatever else is in the catalogue and whatever page is asked for."""
    known = {owner.id: owner for owner in owners}
    page = Snapshot.of(known.values()).select(replace(query, limit=EVERYTHING, offset=0))

    found = [match(known[agent_id], query) for agent_id in sorted(known)]
    assert [one for one in found if one is not None] == list(page.matches)


@given(agents, agents, queries)
def test_both_sides_of_a_change_are_what_discovery_has_before_and_after(old: Agent, new: Agent, query: Query) -> None:
    """Also where the agent was not there, or is not any more."""
    for before, after in ((old, new), (None, new), (old, None)):
        seen = Sides(Change(version=1, agent_id="a", before=before, after=after)).seen_by(query)

        assert seen.before == (match(before, query) if before else None)
        assert seen.after == (match(after, query) if after else None)


def test_only_what_nobody_else_holds_counts_as_kept() -> None:
    """A new agent is in the snapshot anyway; one that only felt worse shares everything with what it was."""
    plain = agent("a", {"think": ["t"]})
    (think,) = plain.capabilities
    large = replace(plain, capabilities=(replace(think, input_schema=schema({"x": "y" * 10_000})),))
    worse = replace(large, health="degraded")

    def kept(before: Agent | None, after: Agent | None) -> int:
        return Change(version=1, agent_id="a", before=before, after=after).kept_bytes

    assert kept(None, large) < 1000
    assert kept(large, worse) < 1000
    assert kept(large, plain) > 10_000
    assert kept(large, None) > 10_000

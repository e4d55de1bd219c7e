"""What questions have found is remembered as long as it is true, and not without end."""

import pytest
from tests.builders import agent

from switchboard.catalog.query import Query
from switchboard.catalog.snapshot import Snapshot
from switchboard.rest.selections import Selections

SNAPSHOT = Snapshot.of(agent(f"a{i}", reasoners={f"think_{i % 3}": ["ml"]}, skills={"act": []}) for i in range(12))
QUERIES = [
    Query(reasoner="think_*"),
    Query(reasoner="*_1", format="xml", limit=2, offset=1),
    Query(tags=("ml",), input_schema=True),
    Query(agents=("a1*",), skill="act"),
    Query(health="active", limit=3),
    Query(reasoner="nothing"),
]


@pytest.mark.parametrize("most", [0, 1, 64])
@pytest.mark.parametrize("largest", [0, 5, 12, 10_000])
def test_what_is_remembered_is_what_would_be_found(most: int, largest: int) -> None:
    """With room for everything, for little and for nothing; and in another snapshot it is found anew."""
    selections = Selections(most, largest)
    later = SNAPSHOT.with_agent(agent("a99", reasoners={"think_1": ["ml"]})).without_agent("a1")

    for snapshot in (SNAPSHOT, SNAPSHOT, later, SNAPSHOT, later):
        for query in (*QUERIES, *reversed(QUERIES)):
            found = selections.of(snapshot, query).page(query.limit, query.offset)
            assert found == snapshot.select(query)


def test_pages_formats_and_fields_share_what_was_found() -> None:
    """Only what selects counts; past the limit older ones are forgotten."""
    selections = Selections(2, 100)
    first = selections.of(SNAPSHOT, Query(reasoner="think_*"))

    assert selections.of(SNAPSHOT, Query(reasoner="think_*", limit=1, offset=5, format="xml", examples=True)) is first
    selections.of(SNAPSHOT, Query(reasoner="*_1"))
    selections.of(SNAPSHOT, Query(reasoner="*_2"))
    assert selections.of(SNAPSHOT, Query(reasoner="think_*")) is not first


def test_at_most_twice_as_many_agents_as_there_are_are_remembered() -> None:
    """Whatever is asked of a large catalogue, this stays small beside it; and nothing where there is no room at all."""
    selections = Selections(10, 1)
    whole = [Query(reasoner="think_*", health=health) for health in ("active", None)]
    kept = [selections.of(SNAPSHOT, query) for query in whole]
    assert [selections.of(SNAPSHOT, query) for query in whole] == kept
    assert all(selections.of(SNAPSHOT, query) is one for query, one in zip(whole, kept, strict=True))

    selections.of(SNAPSHOT, Query(reasoner="think_1"))
    assert selections.of(SNAPSHOT, whole[0]) is not kept[0]
    nothing = Selections(10, 0)
    assert nothing.of(SNAPSHOT, whole[0]) is not nothing.of(SNAPSHOT, whole[0])


def test_a_long_pattern_is_not_remembered() -> None:
    """What a stranger writes is not what fills the memory."""
    selections, long = Selections(), Query(reasoner=f"{'x' * 2000}*")
    assert selections.of(SNAPSHOT, long) is not selections.of(SNAPSHOT, long)

"""Encoded agents: whatever was asked of one before, it looks as if encoded now; and what they take is counted."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import agent

from switchboard.catalog.query import Query
from switchboard.rest import render_json, render_xml
from switchboard.rest.fragments import FragmentCache, Fragments
from switchboard.rest.questions import variant_of

RENDERERS = [render_json, render_xml]
OWNER = agent("a", reasoners={"think": ["ml"], "think_again": [], "th": []}, skills={"think": [], "act": ["x", "ml"]})
EVERYTHING = (1 << len(OWNER.capabilities)) - 1
QUERY = Query()
ASKED = st.lists(st.tuples(st.integers(1, EVERYTHING), st.sampled_from([None, 1.0, 2.0])), min_size=1, max_size=8)


def text_of(fragments: Fragments, mask: int, at: float | None, renderer: ModuleType) -> bytes:
    heartbeat = b"" if at is None else renderer.agent_heartbeat(b"%d" % at)
    if mask == EVERYTHING:
        return fragments.whole(at, heartbeat, renderer.agent_tail)
    return fragments.chosen(mask, at, heartbeat, renderer.agent_tail)


def nothing(_: int) -> None:
    """Count nothing."""


@pytest.mark.parametrize("renderer", RENDERERS)
@given(ASKED)
def test_an_agent_looks_the_same_whatever_was_asked_of_it_before(
    renderer: ModuleType, asked: list[tuple[int, float | None]]
) -> None:
    """Whole and in parts, with and without a heartbeat, in any order."""
    sizes: list[int] = []
    used = Fragments(OWNER, QUERY, renderer.agent_fragments, sizes.append)
    for mask, at in asked:
        fresh = Fragments(OWNER, QUERY, renderer.agent_fragments, nothing)

        assert text_of(used, mask, at, renderer) == text_of(fresh, mask, at, renderer)
        assert used.items() == Fragments(OWNER, QUERY, renderer.agent_fragments, nothing).items()
        assert sum(sizes) == used.size
        held = len(used.head) + len(used.text or b"") + len(used.part)
        assert held <= used.size <= held + sum(map(len, used.items())) + 200


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_all_of_them_together_stay_below_their_limit(most: int) -> None:
    """Beyond it everything is forgotten, and made again when it is asked for; without any room nothing is kept."""
    cache = FragmentCache(largest=3000, most=most)
    variant, encode = variant_of(QUERY), render_json.agent_fragments
    owners = [agent(f"a{i}", reasoners={f"think_{j}": ["ml"] for j in range(4)}) for i in range(10)]

    for turn in range(3):
        for owner in owners:
            made = cache.get(owner, QUERY, variant, encode)
            made.whole(float(turn), b"h", render_json.agent_tail)
            known = cache.known(variant)
            assert len(known) <= most
            assert cache.size == sum(one.size for one in known.values())
            assert cache.size <= 3000 + made.size


def test_an_agent_that_has_changed_takes_the_place_of_its_older_self() -> None:
    """It is counted once."""
    cache, variant = FragmentCache(), variant_of(QUERY)
    for description in ("short", "very long " * 100, ""):
        owner = agent("a", reasoners={"think": [description]})
        made = cache.get(owner, QUERY, variant, render_json.agent_fragments)
        assert cache.get(owner, QUERY, variant, render_json.agent_fragments) is made
        assert cache.known(variant) == {"a": made}
        assert cache.size == made.size

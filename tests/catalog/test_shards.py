"""The map that never changes: it behaves like a dict, and old versions stay as they were."""

from hypothesis import given
from hypothesis import strategies as st

from switchboard.catalog.shards import Shards

changes = st.dictionaries(st.text(max_size=3), st.none() | st.integers(), max_size=20)


@given(st.lists(changes, max_size=8))
def test_replacing_gives_a_new_map_and_leaves_the_old_one(steps: list[dict[str, int | None]]) -> None:
    """After any steps it equals the dict that took the same steps, and so does every version before."""
    model: dict[str, int] = {}
    history: list[tuple[Shards[str, int], dict[str, int]]] = [(Shards(), {})]
    for step in steps:
        for key, value in step.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        history.append((history[-1][0].replaced(step), dict(model)))

    for shards, entries in history:
        assert dict(shards.items()) == entries
        assert len(shards) == len(entries)
        assert set(shards) == set(entries)
        assert all(key in shards and shards[key] == shards.get(key) == value for key, value in entries.items())


def test_a_large_map_is_dealt_into_shards_and_loses_nothing() -> None:
    """Growing past each step, one by one and at once."""
    entries = {f"key-{i}": i for i in range(9000)}
    grown: Shards[str, int] = Shards()
    for key, value in entries.items():
        grown = grown.replaced({key: value})

    assert dict(grown.items()) == dict(Shards(entries).items()) == entries
    assert sorted(grown.values()) == list(range(9000))
    assert "key-9000" not in grown

"""Caches: how much they hold, and that forgetting is all they can do."""

import pytest

from switchboard.catalog.caches import Cache, Caches, Caching


@pytest.mark.parametrize(("caching", "most"), [("on", 512), ("one", 1), ("off", 0)])
def test_a_setting_says_how_much_a_cache_may_hold(caching: Caching, most: int) -> None:
    """As much as it usually does, one entry, or none."""
    assert Caches.of(caching).most(512) == most
    assert Caches.of(caching).most(0) == 0


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_cache_keeps_the_latest_and_never_more_than_it_may(most: int) -> None:
    """The older half goes when there is no room."""
    cache: Cache[int, str] = Cache(most)

    for number in range(100):
        assert cache.keep(number, str(number)) == str(number)

        assert cache.get(number) == str(number)
        assert len(cache) <= most


def test_a_cache_without_room_remembers_nothing() -> None:
    """What is kept is still returned, so that nobody has to know."""
    cache: Cache[str, int] = Cache(0)

    assert cache.keep("a", 1) == 1
    assert cache.get("a") is None


def test_what_is_kept_again_is_the_latest() -> None:
    """So that what is used stays."""
    cache: Cache[str, int] = Cache(2)
    cache.keep("used", 1)
    cache.keep("unused", 2)
    cache.keep("used", 1)

    cache.keep("new", 3)

    assert cache == {"used": 1, "new": 3}

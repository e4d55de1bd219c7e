"""What every store promises about published apps: the same suite runs over all of them."""

import asyncio
from pathlib import Path

import pytest
from tests.store.stores import KINDS, Make, Store, maker
from tests.store.test_stores import stored, with_store

from switchboard.actions.app_ports import Edition, Record, StoredApp
from switchboard.catalog.errors import ServiceUnavailable


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Return what makes stores of each kind."""
    return maker(request.param, request, tmp_path)


def app(*versions: str, text: bytes | None = b"{}", app_id: str = "com.a.a", owner: str = "ann") -> StoredApp:
    editions = tuple(Edition(version=version, at=1.5, by="b\x00b") for version in versions)
    return StoredApp(id=app_id, record=Record(owner=owner, editions=editions), descriptor=text)


def test_what_was_published_is_there_after_opening_again(make: Make) -> None:
    """To the byte: descriptor, owner, versions, revision."""
    text = b'\xef\xbb\xbf{ "x" : 1 }\r\n'
    revision = with_store(make, lambda store: store.apps.keep(app("1.0.0", text=text, owner="o\x00ö"), 0))
    newest, found = with_store(make, lambda store: store.apps.changes(0))

    assert revision is not None
    assert newest == revision
    (kept,) = found
    assert (kept.descriptor, kept.record.owner, kept.revision) == (text, "o\x00ö", revision)
    assert kept.record.newest == Edition(version="1.0.0", at=1.5, by="b\x00b")
    assert with_store(make, lambda store: store.apps.app("com.a.a")) == kept
    assert with_store(make, lambda store: store.apps.app("com.a.b")) is None


def test_of_two_who_saw_the_same_only_the_first_is_heard(make: Make) -> None:
    """Nobody publishes over what they have not seen, also where both ask at once."""

    async def work(store: Store) -> None:
        first = await asyncio.gather(*(store.apps.keep(app(f"1.0.{n}"), 0) for n in range(5)))
        won = [revision for revision in first if revision is not None]
        assert len(won) == 1
        assert await store.apps.keep(app("2.0.0"), won[0] - 1) is None
        assert await store.apps.keep(app("2.0.0"), 0) is None
        assert await store.apps.keep(app("2.0.0"), won[0]) is not None
        kept = await store.apps.app("com.a.a")
        assert kept is not None
        assert kept.record.newest.version == "2.0.0"

    with_store(make, work)


def test_changes_are_those_after_a_revision_withdrawals_included(make: Make) -> None:
    """Agents and apps take their revisions from one row, and neither shows the other's changes."""

    async def work(store: Store) -> None:
        first = await store.apps.keep(app("1.0.0"), 0)
        agent = await store.save(stored("an-agent"))
        assert first is not None
        assert agent > first
        other = await store.apps.keep(app("1.0.0", app_id="com.b.b"), 0)
        gone = await store.apps.keep(app("1.0.0", text=None), first)
        assert other is not None
        assert gone is not None
        newest, found = await store.apps.changes(agent)
        assert newest == gone
        assert [(one.id, one.descriptor) for one in found] == [("com.b.b", b"{}"), ("com.a.a", None)]
        assert (await store.apps.changes(gone))[1] == []
        assert [one.id for one in (await store.changes(0))[1]] == ["an-agent"]

    with_store(make, work)


def test_every_version_is_kept_until_it_is_no_longer_listed(make: Make) -> None:
    """A withdrawn app keeps its versions; what falls out of the list is forgotten."""

    async def work(store: Store) -> None:
        one = await store.apps.keep(app("1.0.0", text=b"one"), 0)
        two = await store.apps.keep(app("1.0.0", "1.1.0", text=b"two"), one or 0)
        gone = await store.apps.keep(app("1.0.0", "1.1.0", text=None), two or 0)
        assert await store.apps.edition("com.a.a", "1.0.0") == b"one"
        assert await store.apps.edition("com.a.a", "1.1.0") == b"two"
        assert await store.apps.keep(app("1.1.0", "2.0.0", text=b"three"), gone or 0) is not None
        assert await store.apps.edition("com.a.a", "1.0.0") is None
        assert await store.apps.edition("com.a.a", "2.0.0") == b"three"
        assert await store.apps.edition("com.b.b", "2.0.0") is None

    with_store(make, work)


def test_a_store_that_is_closed_says_that_it_does_not_answer(make: Make) -> None:
    """Whatever it is asked."""

    async def story() -> None:
        store = make()
        await store.open()
        await store.close()
        for asking in (
            store.apps.keep(app("1.0.0"), 0),
            store.apps.app("a"),
            store.apps.edition("a", "1"),
            store.apps.changes(0),
        ):
            with pytest.raises(ServiceUnavailable):
                await asking

    asyncio.run(story())

"""What PostgreSQL has to promise beyond what every store does: to several instances at once."""

import asyncio
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest
from tests.databases import Postgres, migrations
from tests.store.test_executions import end, execution
from tests.store.test_stores import stored

from switchboard.catalog.errors import ServiceUnavailable, Unconfirmed
from switchboard.catalog.health import State
from switchboard.store.postgres import PostgresStore
from switchboard.telemetry.clock import SharedClock

asyncpg: Any = import_module("asyncpg")
SILENT = State(health="inactive", reason="silent", since=50.0)


class Instances:
    """Several stores over one database."""

    def __init__(self, url: str, count: int = 2, **options: Any) -> None:
        self.stores = [PostgresStore(url, SharedClock(), **options) for _ in range(count)]

    async def __aenter__(self) -> Sequence[PostgresStore]:
        await asyncio.gather(*(store.open() for store in self.stores))
        return self.stores

    async def __aexit__(self, *_: object) -> None:
        for store in self.stores:
            await store.close()


def test_many_instances_bring_a_new_database_up_to_date_at_once(postgres: Postgres) -> None:
    """One of them does it, the others wait for that, and all can work."""
    url = postgres.new()

    async def story() -> None:
        async with Instances(url, 8) as stores:
            await asyncio.gather(*(store.save(stored(f"a{number}")) for number, store in enumerate(stores)))
            assert len((await stores[0].changes(0))[1]) == 8

    asyncio.run(story())
    assert postgres.execute("SELECT count(*) FROM switchboard.migrations", url) == [(migrations(),)]


def test_a_database_of_the_first_version_goes_on_with_an_id(postgres: Postgres) -> None:
    """While the version before runs beside; what it does not know it does not touch."""
    url = postgres.new()

    async def story() -> tuple[str, str]:
        async with Instances(url, 1) as (store,):
            await store.save(stored("a"))
        postgres.execute("DROP TABLE switchboard.identity, switchboard.apps, switchboard.editions", url)
        postgres.execute("DELETE FROM switchboard.migrations WHERE number > 1", url)
        async with Instances(url, 2) as (one, two):
            assert len((await one.changes(0))[1]) == 1
            return one.id, two.id

    one, two = asyncio.run(story())
    assert one == two
    assert len(one) == 32
    needed = postgres.execute("SELECT compatible_with FROM switchboard.migrations", url)
    assert {row[0] for row in needed} == {1}


@pytest.mark.parametrize(("compatible_with", "usable"), [(1, True), (1000, False)])
def test_tables_of_a_newer_version_are_used_if_they_leave_room_for_this_one(
    postgres: Postgres, compatible_with: int, *, usable: bool
) -> None:
    """So that the old version runs on beside the new one while that is rolled out, and never writes nonsense."""
    url = postgres.new()

    async def open_once() -> None:
        async with Instances(url, 1):
            pass

    asyncio.run(open_once())
    mark = f"INSERT INTO switchboard.migrations (number, compatible_with) VALUES (999, {compatible_with})"  # noqa: S608
    postgres.execute(mark, url)
    if usable:
        asyncio.run(open_once())
    else:
        with pytest.raises(ServiceUnavailable, match="newer version"):
            asyncio.run(open_once())


def test_revisions_never_become_visible_out_of_order(postgres: Postgres) -> None:
    """Who has read up to a revision never finds a smaller one later, however writers race."""

    async def story() -> None:
        async with Instances(postgres.new(), 4) as stores:
            seen: dict[int, str] = {}
            late: list[int] = []
            done = asyncio.Event()

            async def write(store: PostgresStore, name: str) -> None:
                for number in range(40):
                    await store.save(stored(f"{name}-{number}"))
                    await store.save_life({f"{name}-{number}": STATE_LATER}, {})

            async def read(store: PostgresStore) -> None:
                newest = 0
                while not done.is_set():
                    _, agents = await store.changes(0)
                    late.extend(
                        agent.revision for agent in agents if agent.revision <= newest and agent.revision not in seen
                    )
                    seen.update({agent.revision: agent.id for agent in agents})
                    newest = max(newest, *(agent.revision for agent in agents), 0)

            reading = asyncio.create_task(read(stores[0]))
            await asyncio.gather(
                *(write(store, f"w{number}-{each}") for number, store in enumerate(stores[1:]) for each in range(3))
            )
            done.set()
            await reading

            assert late == []
            assert len(seen) > 40

    asyncio.run(story())


STATE_LATER = State(health="degraded", reason="says so", since=99.0)


def test_a_writer_that_commits_late_holds_the_others_back(postgres: Postgres) -> None:
    """It has taken a revision; a larger one that is visible earlier would hide its change from every reader."""
    url = postgres.new()

    async def story() -> None:
        async with Instances(url, 1) as (store,):
            slow = await asyncpg.connect(url, server_settings={"search_path": "switchboard"})
            transaction = slow.transaction()
            await transaction.start()
            taken = await slow.fetchval("UPDATE revision SET value = value + 1 RETURNING value")
            await slow.execute("INSERT INTO agents (id, registered_at, revision) VALUES ('slow', 1, $1)", taken)
            saving = asyncio.create_task(store.save(stored("fast")))
            done, _ = await asyncio.wait([saving], timeout=0.3)
            assert not done
            assert await store.changes(0) == (0, [])
            await transaction.commit()
            assert await saving == taken + 1
            assert [agent.id for agent in (await store.changes(0))[1]] == ["slow", "fast"]
            await slow.close()

    asyncio.run(story())


def test_only_one_instance_decides_and_another_follows_when_it_is_gone(postgres: Postgres) -> None:
    """Its lease is over, or it said goodbye."""

    async def story() -> None:
        async with Instances(postgres.new(), 3, lease_s=0.5) as (first, second, third):
            assert [(await one.membership.pulse()).decides for one in (first, second, first)] == [True, False, True]
            await asyncio.sleep(0.6)
            assert (await second.membership.pulse()).decides
            await second.membership.leave()
            assert (await third.membership.pulse()).decides

    asyncio.run(story())


def test_who_no_longer_decides_changes_nothing_and_nobody_is_silent_who_was_heard(postgres: Postgres) -> None:
    """A decider that slept, and one that has not heard what another instance has."""

    async def story() -> None:
        async with Instances(postgres.new()) as (first, second):
            for name in ("a", "b"):
                await first.save(stored(name))
            await first.membership.pulse()
            await second.save_life({}, {"b": 60.0})
            assert (await second.membership.decide({"a": SILENT}, {"a": 11.0}))[1] == []
            assert (await first.membership.decide({"a": SILENT, "b": SILENT}, {"a": 11.0, "b": 11.0}))[1] == ["a"]
            health = {agent.id: agent.state.health for agent in (await second.changes(0))[1] if agent.state}
            assert health == {"a": "inactive", "b": "active"}

    asyncio.run(story())


def test_signs_of_life_reach_every_instance(postgres: Postgres) -> None:
    """Each learns with its next pulse what the others have heard; the newest counts, whoever writes last."""

    async def story() -> None:
        async with Instances(postgres.new()) as (first, second):
            await first.save(stored("a"))
            await first.membership.pulse()
            await second.save_life({}, {"a": 70.0})
            await first.save_life({}, {"a": 60.0, "unknown": 1.0})

            assert (await first.membership.pulse()).beats == {"a": 70.0}

    asyncio.run(story())


def test_what_a_gone_instance_left_is_claimed_once_and_can_no_longer_be_sent_by_it(postgres: Postgres) -> None:
    """It may only sleep; what it wakes up with is no longer its own."""

    async def story() -> None:
        async with Instances(postgres.new(), 3, lease_s=0.4) as (asleep, one, other):
            await asleep.membership.pulse()
            for number in range(30):
                await asleep.executions.accept(execution(f"e{number}", at=float(number)))
            await asleep.executions.settle("e7", end())
            for each in (one, other):
                await each.membership.pulse()
                assert list(await each.membership.claim(100)) == []
            await asyncio.sleep(0.5)
            await asyncio.gather(one.membership.pulse(), other.membership.pulse())
            claimed = await asyncio.gather(*(each.membership.claim(10) for each in (one, other) * 3))
            ids = [execution.id for batch in claimed for execution in batch]

            assert sorted(ids) == sorted(f"e{number}" for number in range(30) if number != 7)
            assert not await asleep.executions.hand("e1", 2.0, "i")
            assert not await asleep.executions.is_ours("e1")
            assert list(await asleep.membership.claim(100)) == []
            owner = one if await one.executions.is_ours("e1") else other
            assert await owner.executions.hand("e1", 2.0, "i")

    asyncio.run(story())


def test_a_connection_that_breaks_off_in_the_middle_is_told_from_one_that_could_not_be_made(postgres: Postgres) -> None:
    """Only in the middle it may have been done: whoever was told no has to look again."""
    url = postgres.new()

    async def story() -> None:
        async with Instances(url, 1) as (store,):
            holder = await asyncpg.connect(url)
            await holder.execute("BEGIN; LOCK TABLE switchboard.executions")
            accepting = asyncio.ensure_future(store.executions.accept(execution("e1")))
            waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%executions%'"
            while (process := await holder.fetchval(waiting)) is None:  # noqa: ASYNC110 - what is waited for is in the database
                await asyncio.sleep(0.01)
            await holder.execute(f"SELECT pg_terminate_backend({process})")
            with pytest.raises(Unconfirmed):
                await accepting
            await holder.close()
        with pytest.raises(ServiceUnavailable) as refused:
            await store.executions.accept(execution("e1"))

        assert not isinstance(refused.value, Unconfirmed)

    asyncio.run(story())


def test_an_instance_is_steady_only_after_a_whole_lease_without_a_gap(postgres: Postgres) -> None:
    """After the database was away nobody's lease is valid; all of them need the time to come back."""

    async def story() -> None:
        async with Instances(postgres.new(), 1, lease_s=0.5) as (store,):
            assert not (await store.membership.pulse()).steady
            pulses: list[bool] = []
            for _ in range(4):
                await asyncio.sleep(0.2)
                pulses.append((await store.membership.pulse()).steady)
            assert pulses[-1]
            await asyncio.sleep(0.6)
            assert not (await store.membership.pulse()).steady

    asyncio.run(story())


def test_a_follower_hears_of_changes_and_ends_and_of_gaps(postgres: Postgres) -> None:
    """From another instance; a connection that was cut comes back and says that something may have been missed."""
    url = postgres.new()

    async def story() -> None:
        async with Instances(url) as (here, there):
            heard: asyncio.Queue[str] = asyncio.Queue()

            async def next_is(word: str) -> None:
                async with asyncio.timeout(10):
                    while await heard.get() != word:
                        pass

            following = asyncio.create_task(
                here.feed.follow(
                    lambda: heard.put_nowait("changed"),
                    lambda key: heard.put_nowait(f"ended {key}"),
                    lambda: heard.put_nowait("missed"),
                )
            )
            await next_is("missed")
            await there.save(stored("a"))
            await next_is("changed")
            await there.membership.tell_ends(["x \x00 y"])
            await next_is("ended x \x00 y")
            await asyncio.to_thread(
                postgres.execute,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'",
            )
            await next_is("missed")
            await there.save(stored("b"))
            await next_is("changed")
            following.cancel()

    asyncio.run(story())


def test_a_database_that_is_locked_is_given_up_on_after_the_time_limit(postgres: Postgres) -> None:
    """Nobody waits for ever; reading goes on."""
    url = postgres.new()

    async def story() -> None:
        async with Instances(url, 1, statement_s=0.3) as (store,):
            await store.save(stored("a"))
            holder = await asyncpg.connect(url, server_settings={"search_path": "switchboard"})
            async with holder.transaction():
                await holder.execute("LOCK TABLE agents IN EXCLUSIVE MODE")
                with pytest.raises(ServiceUnavailable, match="57014"):
                    await store.save(stored("b"))
                assert [agent.id for agent in (await store.changes(0))[1]] == ["a"]
            await holder.close()
            await store.save(stored("b"))

    asyncio.run(story())


def test_a_database_that_lost_its_newest_changes_says_so(postgres: Postgres) -> None:
    """A standby that was behind, or a backup: the revision is before the one that was asked for."""
    url = postgres.new()

    async def story() -> None:
        async with Instances(url, 1) as (store,):
            for name in ("a", "b", "c"):
                await store.save(stored(name))
            postgres.execute("DELETE FROM switchboard.agents WHERE id = 'c'", url)
            postgres.execute("UPDATE switchboard.revision SET value = 2", url)
            assert await store.changes(3) == (2, [])
            assert [agent.id for agent in (await store.changes(0))[1]] == ["a", "b"]

    asyncio.run(story())


def test_nothing_says_the_password(postgres: Postgres) -> None:
    """Not what it is called, not what it says when nobody answers."""
    addresses = ("me:hush-hush@127.0.0.1:1/none", "me:hush-hush/x@127.0.0.1:1/none", "me:hush-hush@127.0.0.1:x/none")
    stores = [PostgresStore(f"postgresql://{address}", SharedClock()) for address in addresses]

    async def refused(store: PostgresStore) -> str:
        with pytest.raises(ServiceUnavailable) as caught:
            await store.open()
        return f"{caught.value} {store.database!r}"

    del postgres
    assert "hush" not in "".join(asyncio.run(refused(store)) for store in stores)


def test_sqlite_does_not_pay_for_postgres() -> None:
    """The driver is loaded only where there is such a database."""
    code = "import sys, switchboard.control_plane; sys.exit('asyncpg' in sys.modules)"
    import subprocess  # noqa: PLC0415 - only here

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603 - our own

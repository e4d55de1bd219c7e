"""Any sequence of operations has the same answers in every store as in the simplest one there can be."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.actions.fakes import MemoryExecutions
from tests.databases import Postgres
from tests.store.stores import Make, Store

from switchboard.actions.store_ports import ExecutionStore, Note
from switchboard.catalog.bindings import Json
from switchboard.catalog.executions import Ended, EndStatus, Execution, Webhook
from switchboard.store.postgres import PostgresStore
from switchboard.store.sqlite import SqliteStore
from switchboard.telemetry.clock import SharedClock

Result = TypeVar("Result")

IDS = [f"e{number}" for number in range(6)]
ids = st.sampled_from(IDS)
times = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
documents = st.binary(max_size=8).map(Json)
statuses: st.SearchStrategy[EndStatus] = st.sampled_from(["succeeded", "failed", "cancelled", "timeout"])
ends = st.builds(
    Ended,
    status=statuses,
    at=times,
    result=st.none() | documents,
    error=texts,
    error_details=st.none() | documents,
    reason=texts,
    http_status=st.none() | st.integers(100, 599),
)
fresh = st.builds(
    Execution,
    id=ids,
    run_id=st.just("run"),
    parent_id=texts,
    agent_id=st.just("agent"),
    kind=st.sampled_from(["reasoner", "skill"]),
    capability=st.just("think"),
    caller=st.sampled_from(["ann", "bob"]),
    input=documents,
    context=st.just(()) | st.just((("a", "b"),)),
    webhook=st.none() | st.builds(Webhook, url=st.just("https://a"), secret=texts),
    idempotency_key=st.sampled_from([None, "", "k", "l"]),
    created_at=times,
)
said = st.builds(Note, execution_id=ids, kind=st.just("note"), at=times, content=documents)


class SameAnswers(RuleBasedStateMachine):
    """Does everything to both, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.memory = MemoryExecutions()
        self.make = self.place()
        self.file = self.opened()

    def place(self) -> Make:
        """Return what opens one new place again and again."""
        return partial(SqliteStore, str(Path(self.folder.name) / "plane.db"))

    def opened(self) -> Store:
        """Open the place, new or as it was left."""
        store = self.make()
        self.runner.run(store.open())
        return store

    def same(self, ask: Callable[[ExecutionStore], Awaitable[Result]]) -> None:
        """Ask both, and compare what they say."""

        async def both() -> tuple[Result, Result]:
            return await ask(self.file.executions), await ask(self.memory)

        stored, remembered = self.runner.run(both())
        assert stored == remembered

    @rule(executions=st.lists(fresh, min_size=1, max_size=4))
    def accept(self, executions: list[Execution]) -> None:
        """Accept several."""
        for each in executions:
            self.same(lambda store, each=each: store.accept(each))

    @rule(execution_id=ids, at=times)
    def hand(self, execution_id: str, at: float) -> None:
        """Hand over."""
        self.same(lambda store: store.hand(execution_id, at, "instance"))

    @rule(execution_id=ids, at=times)
    def acknowledge(self, execution_id: str, at: float) -> None:
        """Note that the agent is at work."""
        self.same(lambda store: store.acknowledge(execution_id, at))

    @rule(execution_id=ids, candidates=st.lists(ends, min_size=1, max_size=2))
    def settle(self, execution_id: str, candidates: list[Ended]) -> None:
        """Let several ends come."""
        for each in candidates:
            self.same(lambda store, each=each: store.settle(execution_id, each))

    @rule(notes=st.lists(said, max_size=4))
    def add_notes(self, notes: list[Note]) -> None:
        """Say something."""
        self.same(lambda store: store.add_notes(notes))

    @rule(before=times, most=st.integers(0, 3))
    def forget(self, before: float, most: int) -> None:
        """Forget a few."""
        rows, said = dict(self.memory.rows), list(self.memory.said)
        forgotten = self.runner.run(self.memory.forget(before, most))
        gone = rows.keys() - self.memory.rows.keys()
        orphans = len([note for note in said if note.execution_id not in gone]) - len(self.memory.said)
        assert self.runner.run(self.file.executions.forget(before, most)) == max(forgotten, orphans)

    @rule()
    def reopen(self) -> None:
        """Stop and start again."""
        self.runner.run(self.file.close())
        self.file = self.opened()

    @invariant()
    def everything_is_the_same(self) -> None:
        """Look at everything there is."""
        self.same(lambda store: store.executions(IDS))
        self.same(lambda store: store.unfinished())
        for execution_id in IDS:
            self.same(lambda store, execution_id=execution_id: store.notes(execution_id))

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.runner.run(self.file.close())
        self.runner.close()
        self.folder.cleanup()


class SameAnswersInPostgres(SameAnswers):
    """The same, in a database that is emptied for each sequence."""

    server: Postgres

    def place(self) -> Make:
        """Return what opens one new database again and again."""
        url = self.server.new()
        return lambda: PostgresStore(url, SharedClock(), instance="one that comes back")


def test_postgres_has_the_same_answers(postgres: Postgres) -> None:
    """Fewer sequences: each of them is a database of its own."""
    SameAnswersInPostgres.server = postgres
    run_state_machine_as_test(SameAnswersInPostgres, settings=settings(max_examples=10, stateful_step_count=20))


TestSameAnswers = SameAnswers.TestCase
TestSameAnswers.settings = settings(max_examples=30, stateful_step_count=30)

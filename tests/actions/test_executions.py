"""Executions over a store in hand and real agents on loopback: accepted, sent once, followed to their end, never lost.

Time that a clock measures stands still. Patience that timers measure is tiny or endless, as each story needs it.
"""

import asyncio
import io
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, final

import pytest
from msgspec.structs import replace
from tests.actions.fakes import HandClock, MemoryExecutions, MemoryStore
from tests.caching import CACHES, FRESH_S
from tests.executors.test_agent import LIMIT_S, AgentServer, Asked, accepts, dies, says, until
from tests.servers import registration
from tests.support import requirement

from switchboard.actions.directory import Directory
from switchboard.actions.ends import Ends, Recent
from switchboard.actions.execute import Execute
from switchboard.actions.executions import Executions
from switchboard.actions.ledger import Rules
from switchboard.actions.life import Life
from switchboard.actions.ports import Audit, Entry, Messenger
from switchboard.actions.register import Newcomer, Register
from switchboard.actions.store_ports import ExecutionStore, Note
from switchboard.actions.wishes import Wanted
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import (
    CallTimeout,
    ConsentRequired,
    InvalidParams,
    InvalidRequest,
    InvalidTarget,
    NotFound,
    ServiceUnavailable,
    SwitchboardError,
    UnknownApp,
    UnknownTool,
)
from switchboard.catalog.executions import Ended, EndStatus, Execution, Webhook
from switchboard.catalog.health import State
from switchboard.catalog.model import Caller
from switchboard.control_plane import read_stored
from switchboard.descriptors import agent as agents
from switchboard.executors.agent import AgentExecutor
from switchboard.net.fetch import Fetch
from switchboard.net.guard import is_reachable
from switchboard.security.rules import AllowRules
from switchboard.security.secrets import NoSecrets
from switchboard.telemetry.logs import Log

PATIENT = Rules(run_s=1000, lost_s=1000, unknown_s=1000, hint_s=1000, retry_s=0.01)
HOOK = Webhook(url="http://hook.test/?token=t0ken", secret="s3cret")  # noqa: S106 - a sample


@final
class Record(Audit):
    """Keeps the lines."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def note(self, entry: Entry) -> None:
        """Keep one."""
        self.entries.append(entry)


@final
class Post(Messenger):
    """Keeps what webhooks were told, or finds nobody at home."""

    def __init__(self) -> None:
        self.told: list[tuple[Webhook, dict[str, Any]]] = []
        self.away = False

    async def tell(self, webhook: Webhook, body: bytes) -> None:
        """Keep it."""
        if self.away:
            raise ServiceUnavailable("The webhook answers 500.")
        self.told.append((webhook, json.loads(body)))


class Plane:
    """One instance: everything that executions meet, over stores that tests hold in hand."""

    def __init__(
        self,
        rules: Rules = PATIENT,
        store: ExecutionStore | None = None,
        allow: Mapping[str, Sequence[str]] | None = None,
        dispatch_s: float = LIMIT_S,
    ) -> None:
        self.clock = HandClock()
        self.rows = MemoryExecutions()
        self.stream, self.record, self.post = io.BytesIO(), Record(), Post()
        self.fetch = Fetch(loopback=True, plain=True, permitted=is_reachable)
        agent_store = MemoryStore()
        self.directory = Directory(agent_store, self.clock, read_stored, FRESH_S)
        self.life = Life(self.directory, agent_store, self.clock, self._health_changed)
        ends = Ends()
        executor = AgentExecutor(lambda: self.fetch, ends, dispatch_s)
        execute = Execute(
            consent=AllowRules(allow or {}),
            secrets=NoSecrets(),
            executors={"agent": executor},
            audit=self.record,
            clock=self.clock,
            caches=CACHES,
        )
        self.executions = Executions(
            directory=self.directory,
            execute=execute,
            ends=ends,
            store=store or self.rows,
            agents=executor,
            messenger=self.post,
            clock=self.clock,
            log=Log(self.stream),
            rules=rules,
        )
        self.register = Register(agent_store, self.directory, self.life, self.clock, followers=self.executions)

    def _health_changed(self, agent_id: str, state: State) -> None:
        if state.health == "inactive":
            self.executions.agent_gone(agent_id)

    async def add(self, server: AgentServer, agent_id: str = "a", instance: str = "one", **schema: object) -> None:
        """Register an agent with a reasoner `r` and a skill `s`."""
        document = registration(agent_id, {"r": []}, {"s": []}, base_url=server.url, instance_id=instance)
        if schema:
            document["reasoners"][0]["input_schema"] = schema
        found = agents.read(json.dumps(document).encode())
        await self.register.register(Newcomer(agent=found.agent, said="ready", heartbeat_s=2.0))

    async def submit(self, target: str = "a:r", caller: str = "tester", **more: Any) -> str:
        """Submit, and return the id."""
        return (await self.executions.submit(wish(target, caller, **more))).id

    async def end_of(self, execution_id: str) -> Ended:
        """Wait for an end."""
        ended = (await self.executions.execution(execution_id, LIMIT_S)).ended
        assert ended is not None
        return ended

    async def report(self, execution_id: str, status: EndStatus = "succeeded", **facts: Any) -> Execution:
        """Report as an agent does."""
        return await self.executions.report(execution_id, Ended(status=status, at=self.clock.now(), **facts))

    def log(self) -> str:
        """Return what was logged."""
        return self.stream.getvalue().decode()


def inside(thing: object) -> dict[str, Any]:
    """Look where only a test may."""
    return vars(thing)


def wish(target: str = "a:r", caller: str = "tester", **more: Any) -> Wanted:
    facts: dict[str, Any] = {"input": {}, **more}
    return Wanted(target=target, caller=Caller(caller), **facts)


def tell(story: Callable[[Plane, AgentServer], Awaitable[None]], plane: Callable[[], Plane] = Plane) -> None:
    """Tell a story about one instance and one agent `a`."""

    async def told() -> None:
        with AgentServer() as server:
            instance = plane()
            await instance.add(server)
            try:
                async with asyncio.timeout(LIMIT_S):
                    await story(instance, server)
            finally:
                # What still hangs has been looked at; it need not come to an end, and makes room for what waits.
                while ours := asyncio.all_tasks() - {asyncio.current_task()}:
                    for task in ours:
                        task.cancel()
                    await asyncio.gather(*ours, return_exceptions=True)
                    await asyncio.sleep(0)
                await instance.fetch.close()

    asyncio.run(told())


def left_behind(execution_id: str, **more: Any) -> Execution:
    """Return what an earlier process has left in the store."""
    facts: dict[str, Any] = {
        "id": execution_id,
        "run_id": "run",
        "agent_id": "a",
        "kind": "reasoner",
        "capability": "r",
        "caller": "tester",
        "input": Json(b"{}"),
        "created_at": 1.0,
    }
    return Execution(**{**facts, **more})


def running(execution_id: str, **more: Any) -> Execution:
    return left_behind(execution_id, status="running", handed_at=1000.0, instance_id="one", **more)


# Results


@requirement("execute:input:result")
@pytest.mark.parametrize("result", [{"answer": 42}, ["a"], "text", 1.5, None])
def test_an_execution_gives_back_the_result(result: object) -> None:
    """From a reasoner that answers at once, and from one that promises to."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(result)
        at_once = await plane.executions.run(wish(input={"query": "AI trends 2025"}), LIMIT_S)
        server.answer = accepts
        later = await plane.submit(input={"query": "AI trends 2025"})
        await until(lambda: len(server.calls) == 2)
        await plane.report(later, result=Json(json.dumps(result).encode()))

        ends = [at_once.ended, await plane.end_of(later)]
        assert [end and (end.status, json.loads(end.result or b"?")) for end in ends] == [("succeeded", result)] * 2
        assert [json.loads(asked.body) for asked in server.calls] == [{"query": "AI trends 2025"}] * 2
        assert plane.executions.unfinished == 0

    tell(story)


def test_a_report_may_come_before_the_answer_that_promises_it() -> None:
    """The agent is faster than its own 202."""

    async def story(plane: Plane, server: AgentServer) -> None:
        loop = asyncio.get_running_loop()

        def hasty(asked: Asked) -> tuple[int, bytes]:
            report = plane.report(asked.execution_id, result=Json(b'"early"'))
            asyncio.run_coroutine_threadsafe(report, loop).result(LIMIT_S)
            return accepts(asked)

        server.answer = hasty
        found = await plane.executions.run(wish(), LIMIT_S)
        await until(lambda: len(plane.record.entries) == 1)

        assert found.ended is not None
        assert (found.status, found.ended.result) == ("succeeded", b'"early"')
        assert plane.record.entries[0].outcome == "OK"

    tell(story)


@pytest.mark.parametrize(
    ("answer", "status", "reason", "number"),
    [
        (says({"detail": "no"}, 422), "failed", "agent_error", 422),
        (says({"detail": "no"}, 500), "failed", "agent_error", 500),
        (dies, "failed", "agent_unreachable", None),
    ],
)
def test_what_went_wrong_is_told_apart(answer: Any, status: str, reason: str, number: int | None) -> None:
    """A refusal, a crash, and nobody there."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = answer
        ended = (await plane.executions.run(wish(), LIMIT_S)).ended

        assert ended is not None
        assert (ended.status, ended.reason, ended.http_status) == (status, reason, number)

    tell(story)


@pytest.mark.parametrize(
    ("rules", "dispatch_s", "answer", "reason"),
    [
        (PATIENT, 0.02, "silent", "agent_timeout"),
        (Rules(run_s=0.02), LIMIT_S, "accepts", "execution_timeout"),
    ],
)
def test_an_agent_that_takes_too_long_has_timed_out(rules: Rules, dispatch_s: float, answer: str, reason: str) -> None:
    """To answer at all, or to work."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = server.silent if answer == "silent" else accepts
        ended = (await plane.executions.run(wish(), LIMIT_S)).ended

        assert ended is not None
        assert (ended.status, ended.reason) == ("timeout", reason)

    tell(story, lambda: Plane(rules, dispatch_s=dispatch_s))


def test_a_caller_who_cannot_wait_longer_can_ask_later() -> None:
    """The execution goes on."""

    async def story(plane: Plane, server: AgentServer) -> None:
        with pytest.raises(CallTimeout) as late:
            await plane.executions.run(wish(), 0.01)
        execution_id = str(late.value.details["execution_id"])
        await until(lambda: len(server.calls) == 1)
        await plane.report(execution_id, result=Json(b"1"))

        assert (await plane.end_of(execution_id)).result == b"1"

    tell(story)


# Refusals: nothing is remembered, nothing is sent


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (wish("nobody:r"), UnknownApp),
        (wish("a:nothing"), UnknownTool),
        (wish("a:skill:r"), UnknownTool),
        (wish("words"), InvalidTarget),
        (wish("strict:r", input={"n": "x"}), InvalidParams),
        (wish("strict:r"), InvalidParams),
        (wish("closed:r"), ConsentRequired),
    ],
)
def test_what_cannot_or_may_not_be_executed_is_refused_at_once(wanted: Wanted, refusal: type[SwitchboardError]) -> None:
    """For whoever waits and for whoever does not; in the audit record only where somebody was found."""

    async def story(plane: Plane, server: AgentServer) -> None:
        await plane.add(server, "strict", type="object", properties={"n": {"type": "integer"}}, required=["n"])
        await plane.add(server, "closed")
        with pytest.raises(refusal):
            await plane.executions.submit(wanted)
        with pytest.raises(refusal):
            await plane.executions.run(wanted, LIMIT_S)

        assert (server.asked, plane.rows.rows, plane.executions.unfinished) == ([], {}, 0)

    tell(story, lambda: Plane(allow={"closed": ["boss"]}))


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("a:r", "/reasoners/r"),
        ("a.r", "/reasoners/r"),
        ("a:reasoner:r", "/reasoners/r"),
        ("a.reasoner:r", "/reasoners/r"),
        ("a:s", "/skills/s"),
        ("a.s", "/skills/s"),
        ("a:skill:s", "/skills/s"),
        ("a.skill:s", "/skills/s"),
        ("org.team.a.s", "/skills/s"),
        ("org.team.a:r", "/reasoners/r"),
        ("self.a:r", "/reasoners/r"),
    ],
)
def test_every_spelling_of_a_target_is_understood(target: str, path: str) -> None:
    """Colons, dots, kinds, dotted agents, and what the Go SDK makes of them."""

    async def story(plane: Plane, server: AgentServer) -> None:
        await plane.add(server, "org.team.a")
        server.answer = says(1)
        found = await plane.executions.run(wish(target), LIMIT_S)

        assert [asked.path for asked in server.calls] == [path]
        assert found.agent_id == ("org.team.a" if target.startswith("org") else "a")

    tell(story)


def test_without_its_store_nothing_is_accepted_and_nothing_sent() -> None:
    """A promise that could not be kept is not given."""

    async def story(plane: Plane, server: AgentServer) -> None:
        plane.rows.down = True
        with pytest.raises(ServiceUnavailable):
            await plane.submit()

        assert (server.asked, plane.executions.unfinished) == ([], 0)

    tell(story)


def test_an_accepted_execution_is_in_the_store_and_an_agent_gets_only_what_was_handed_over() -> None:
    """Written before it is answered, marked before it is sent."""

    async def story(plane: Plane, server: AgentServer) -> None:
        seen: list[str] = []

        def look(asked: Asked) -> tuple[int, bytes]:
            seen.append(plane.rows.rows[asked.execution_id].status)
            return accepts(asked)

        server.answer = look
        execution_id = await plane.submit()
        assert plane.rows.rows[execution_id].status == "queued"
        await until(lambda: plane.rows.rows[execution_id].acknowledged_at is not None)

        assert seen == ["running"]

    tell(story)


# Reports


def test_whoever_waits_for_an_end_gets_it_as_soon_as_it_is_there() -> None:
    """And whoever has waited long enough gets it as it is."""

    async def story(plane: Plane, server: AgentServer) -> None:
        execution_id = await plane.submit()
        waiting = asyncio.create_task(plane.executions.execution(execution_id, 1000))
        impatient = await plane.executions.execution(execution_id, 0.01)
        await plane.report(execution_id, result=Json(b"1"))

        assert (impatient.ended, (await waiting).status) == (None, "succeeded")
        assert len(server.calls) <= 1

    tell(story)


def test_the_first_end_wins_whatever_comes_later() -> None:
    """Repeated, different and late reports are answered, and change nothing."""

    async def story(plane: Plane, server: AgentServer) -> None:
        execution_id = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        await plane.report(execution_id, result=Json(b'"first"'))
        again = [
            await plane.report(execution_id, result=Json(b'"first"')),
            await plane.report(execution_id, "failed", error="no"),
            await plane.executions.report(execution_id, None),
        ]

        assert {found.ended and found.ended.result for found in again} == {b'"first"'}
        assert plane.rows.rows[execution_id].status == "succeeded"

    tell(story)


def test_a_report_about_nothing_known_is_refused() -> None:
    """Both of its kinds, and every question."""

    async def story(plane: Plane, _: AgentServer) -> None:
        for asked in (
            plane.report("exec_x"),
            plane.executions.report("exec_x", None),
            plane.executions.execution("exec_x", 10),
            plane.executions.cancel("exec_x", ""),
        ):
            with pytest.raises(NotFound):
                await asked
        assert await plane.executions.executions(["exec_x"]) == {}

    tell(story)


def test_an_event_counts_only_if_no_report_follows() -> None:
    """The SDK says `failed` by event and `cancelled` by report in the same millisecond."""

    async def story(plane: Plane, server: AgentServer) -> None:
        both, only = await plane.submit(), await plane.submit()
        await until(lambda: len(server.calls) == 2)
        failed = Ended(status="failed", at=1000.0, error="by event")
        assert await plane.executions.hint(both, failed)
        await plane.report(both, "cancelled")
        assert await plane.executions.hint(only, failed)

        # The timer of the other was set first, so it has run out, too.
        assert (await plane.end_of(only)).error == "by event"
        assert (await plane.end_of(both)).status == "cancelled"
        assert not await plane.executions.hint(both, failed)

    tell(story, lambda: Plane(Rules(hint_s=0.02)))


def test_what_an_agent_ran_by_itself_is_remembered_once() -> None:
    """And what is known already is not replaced."""

    async def story(plane: Plane, server: AgentServer) -> None:
        own = running("exec_own", ended=Ended(status="succeeded", at=1.0))
        await plane.executions.remember(own)
        server.answer = says(1)
        known = await plane.executions.run(wish(), LIMIT_S)
        await plane.executions.remember(replace(own, id=known.id))
        note = Note(execution_id="exec_own", kind="note", at=1.0, content=Json(b"{}"))
        await plane.executions.add_notes([note])

        assert await plane.executions.execution("exec_own") == own
        assert (await plane.executions.execution(known.id)).caller == "tester"
        assert list(await plane.executions.notes("exec_own")) == [note]

    tell(story)


# Cancelling


def test_a_queued_execution_that_is_cancelled_is_never_sent() -> None:
    """It makes room at once, and what waits behind it goes on."""

    async def story(plane: Plane, server: AgentServer) -> None:
        first = await plane.submit()
        second, third = await plane.submit(), await plane.submit()
        cancelled, before = await plane.executions.cancel(second, "not needed")
        fourth = await plane.submit()
        for execution_id in (first, third, fourth):
            await until(
                lambda execution_id=execution_id: (
                    server.calls[-1:] != [] and server.calls[-1].execution_id == execution_id
                )
            )
            await plane.report(execution_id)

        assert (cancelled.status, before) == ("cancelled", "queued")
        assert [asked.execution_id for asked in server.calls] == [first, third, fourth]
        assert server.told_to_cancel == []

    tell(story, lambda: Plane(Rules(at_once=1, waiting=2)))


def test_what_is_cancelled_before_it_has_begun_keeps_no_place() -> None:
    """In the very moment in which it got one."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        for _ in range(3):
            await plane.executions.cancel(await plane.submit(), "")
        done = await plane.executions.run(wish(), LIMIT_S)

        assert done.status == "succeeded"
        assert [asked.execution_id for asked in server.calls] == [done.id]

    tell(story, lambda: Plane(Rules(at_once=1)))


@pytest.mark.parametrize("stored", [True, False])
def test_an_agent_is_told_to_stop_and_nobody_waits_for_it_any_more(stored: bool) -> None:
    """The request is closed, the place is free, and what it says later changes nothing."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = server.silent
        waiting = asyncio.create_task(plane.executions.run(wish(idempotency_key="k" if stored else None), 1000))
        await until(lambda: len(server.calls) == 1)
        execution_id = server.calls[0].execution_id
        _, before = await plane.executions.cancel(execution_id, "enough")
        late = await plane.report(execution_id, "failed", error="Execution cancelled by upstream client")
        await until(lambda: server.left.is_set() and len(server.told_to_cancel) == 1)

        assert (before, late.status, (await waiting).status) == ("running", "cancelled", "cancelled")
        assert server.told_to_cancel == [f"/_internal/executions/{execution_id}/cancel"]
        await until(lambda: [entry.outcome for entry in plane.record.entries] == ["CANCELLED"])
        assert plane.rows.rows[execution_id].status == "cancelled"

    tell(story)


def test_what_has_ended_cannot_be_cancelled() -> None:
    """The answer says how it ended."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        done = await plane.executions.run(wish(), LIMIT_S)
        with pytest.raises(InvalidRequest) as refusal:
            await plane.executions.cancel(done.id, "")

        assert refusal.value.details["current"] == "succeeded"
        assert server.told_to_cancel == []

    tell(story)


@final
class SlowToSettle(ExecutionStore):
    """A store that takes its time with ends."""

    def __init__(self) -> None:
        self.rows = MemoryExecutions()
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()

    async def accept(self, execution: Execution) -> Execution:
        """As it is."""
        return await self.rows.accept(execution)

    async def keyed(self, caller: str, idempotency_key: str) -> Execution | None:
        """As it is."""
        return await self.rows.keyed(caller, idempotency_key)

    async def hand(self, execution_id: str, at: float, instance_id: str) -> bool:
        """Not before an end was told."""
        await self.asked.wait()
        return await self.rows.hand(execution_id, at, instance_id)

    async def is_ours(self, execution_id: str) -> bool:
        """As it is."""
        return await self.rows.is_ours(execution_id)

    async def acknowledge(self, execution_id: str, at: float) -> None:
        """As it is."""
        await self.rows.acknowledge(execution_id, at)

    async def settle(self, execution_id: str, ended: Ended) -> tuple[Execution | None, bool]:
        """When the test lets it."""
        self.asked.set()
        await self.gate.wait()
        return await self.rows.settle(execution_id, ended)

    async def executions(self, ids: Sequence[str]) -> Mapping[str, Execution]:
        """As it is."""
        return await self.rows.executions(ids)

    async def ended(self, ids: Sequence[str]) -> Sequence[str]:
        """As it is."""
        return await self.rows.ended(ids)

    async def unfinished(self) -> Sequence[Execution]:
        """As it is."""
        return await self.rows.unfinished()

    async def add_notes(self, notes: Sequence[Note]) -> None:
        """As it is."""
        await self.rows.add_notes(notes)

    async def notes(self, execution_id: str) -> Sequence[Note]:
        """As it is."""
        return await self.rows.notes(execution_id)

    async def forget(self, ended_before: float, most: int) -> int:
        """As it is."""
        return await self.rows.forget(ended_before, most)


def test_an_agent_is_told_to_stop_what_was_handed_over_while_it_was_being_cancelled() -> None:
    """Queued when somebody decides to cancel it, running when that is written down."""
    stores: list[SlowToSettle] = []

    def plane() -> Plane:
        stores.append(SlowToSettle())
        return Plane(store=stores[0])

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = server.silent
        execution_id = await plane.submit()
        cancelling = asyncio.create_task(plane.executions.cancel(execution_id, ""))
        await until(lambda: len(server.calls) == 1)
        stores[0].gate.set()
        await cancelling
        await until(lambda: len(server.told_to_cancel) == 1 and server.left.is_set())

        assert plane.executions.unfinished == 0

    tell(story, plane)


# Idempotency


def test_a_repeated_wish_under_one_key_is_one_execution() -> None:
    """However often and however parallel it is repeated; the order of keys in the input is no difference."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        wishes = [
            wish(input={"a": 1, "b": True} if turn % 2 else {"b": True, "a": 1}, idempotency_key="k")
            for turn in range(20)
        ]
        submitted = await asyncio.gather(*map(plane.executions.submit, wishes[:10]))
        waited = await asyncio.gather(*(plane.executions.run(wanted, LIMIT_S) for wanted in wishes[10:]))

        assert len({found.id for found in (*submitted, *waited)}) == 1
        assert {found.status for found in waited} == {"succeeded"}
        assert len(server.calls) == 1

    tell(story)


def test_who_repeats_a_wish_that_is_just_being_accepted_waits_for_its_end() -> None:
    """It is in the store, and not yet in this process: that is no reason to say that it took too long."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        plane.rows.held = asyncio.Event()
        first = asyncio.create_task(plane.executions.run(wish(idempotency_key="k"), LIMIT_S))
        await until(lambda: len(plane.rows.rows) == 1)
        later = [asyncio.create_task(plane.executions.run(wish(idempotency_key="k"), LIMIT_S)) for _ in range(3)]
        for _ in range(20):
            await asyncio.sleep(0)
        plane.rows.held.set()

        assert {found.status for found in await asyncio.gather(first, *later)} == {"succeeded"}
        assert len(server.calls) == 1

    tell(story)


@pytest.mark.parametrize(
    "other",
    [
        {"input": {"a": 2}},
        {"input": {"a": True}},
        {"target": "a:s", "input": {"a": 1}},
        {"webhook": HOOK, "input": {"a": 1}},
    ],
)
def test_a_key_cannot_be_used_for_something_else(other: dict[str, Any]) -> None:
    """That would hide a mistake."""

    async def story(plane: Plane, server: AgentServer) -> None:
        first = await plane.submit(input={"a": 1}, idempotency_key="k")
        with pytest.raises(InvalidRequest) as refusal:
            await plane.submit(idempotency_key="k", **other)
        await until(lambda: len(server.calls) == 1)

        assert refusal.value.details["execution_id"] == first
        assert plane.executions.unfinished == 1

    tell(story)


def test_keys_of_different_callers_have_nothing_to_do_with_each_other() -> None:
    """Nobody can find out what another one runs."""

    async def story(plane: Plane, server: AgentServer) -> None:
        ids = {await plane.submit(caller=caller, idempotency_key="k") for caller in ("one", "other")}
        await until(lambda: len(server.calls) == 2)

        assert len(ids) == 2

    tell(story)


# Limits


def test_callers_take_turns_where_an_agent_has_little_room() -> None:
    """A flood of one caller does not keep another one waiting for its end."""

    async def story(plane: Plane, server: AgentServer) -> None:
        begun: list[str] = []
        server.answer = says(1)
        hold = threading.Event()

        def answer(asked: Asked) -> tuple[int, bytes]:
            hold.wait(LIMIT_S)
            begun.append(json.loads(asked.body)["who"])
            return 200, b"1"

        server.answer = answer
        ids = [await plane.submit(caller="flood", input={"who": f"f{turn}"}) for turn in range(5)]
        ids.append(await plane.submit(caller="guest", input={"who": "guest"}))
        hold.set()
        for execution_id in ids:
            await plane.end_of(execution_id)

        assert begun == ["f0", "f1", "guest", "f2", "f3", "f4"]

    tell(story, lambda: Plane(Rules(at_once=1)))


def test_what_an_execution_wants_from_its_own_agent_does_not_wait_for_it() -> None:
    """With room for one, a nested call would wait for ever; and a full queue does not refuse it."""

    async def story(plane: Plane, server: AgentServer) -> None:
        parent = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        waiting = await plane.submit()
        with pytest.raises(ServiceUnavailable):
            await plane.submit()
        server.answer = says("nested")
        nested = await plane.executions.run(wish("a:s", parent_id=parent), LIMIT_S)
        await plane.report(parent)

        assert nested.ended is not None
        assert nested.ended.result == b'"nested"'
        assert server.calls[1].headers["x-parent-execution-id"] == parent
        assert (await plane.end_of(waiting)).status == "succeeded"

    tell(story, lambda: Plane(Rules(at_once=1, waiting=1)))


def test_only_what_runs_can_have_nested_calls() -> None:
    """A parent that is unknown, queued or ended is no way around the queue."""

    async def story(plane: Plane, server: AgentServer) -> None:
        ended = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        await plane.report(ended)
        busy = await plane.submit()
        queued = await plane.submit()
        await until(lambda: len(server.calls) == 2)
        for parent in (ended, queued, "exec_unknown"):
            await plane.submit(parent_id=parent)
        server.answer = says(1)
        nested = await plane.executions.run(wish(parent_id=busy), LIMIT_S)

        # Whatever had gone around the queue would have been sent before this one.
        assert [asked.execution_id for asked in server.calls] == [ended, busy, nested.id]

    tell(story, lambda: Plane(Rules(at_once=1)))


def test_a_full_queue_says_so_and_remembers_nothing() -> None:
    """Until there is room again."""

    async def story(plane: Plane, server: AgentServer) -> None:
        first = await plane.submit()
        await plane.submit()
        for refused in (plane.submit(), plane.executions.run(wish(), LIMIT_S)):
            with pytest.raises(ServiceUnavailable):
                await refused
        remembered = len(plane.rows.rows)
        await until(lambda: len(server.calls) == 1)
        await plane.report(first)
        await until(lambda: len(server.calls) == 2)
        await plane.submit()

        assert remembered == 2

    tell(story, lambda: Plane(Rules(at_once=1, waiting=1)))


# Agents that leave


@pytest.mark.parametrize("answer", ["silent", "accepts"])
def test_what_a_vanished_agent_was_working_on_has_failed(answer: str) -> None:
    """After a while, since it may come back; nobody goes on waiting for its answer."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = server.silent if answer == "silent" else accepts
        execution_id = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        plane.life.goodbye("a", "gone")

        assert (await plane.end_of(execution_id)).reason == "agent_gone"
        if answer == "silent":
            await until(server.left.is_set)

    tell(story, lambda: Plane(Rules(lost_s=0.02, at_once=1)))


def test_an_agent_that_comes_back_in_time_has_lost_nothing() -> None:
    """The same process; what is sent to it later counts from its own absence."""

    async def story(plane: Plane, server: AgentServer) -> None:
        with AgentServer() as other:
            await plane.add(other, "b")
            kept, lost = await plane.submit(), await plane.submit("b:r")
            await until(lambda: len(server.calls) == 1 and len(other.calls) == 1)
            plane.life.goodbye("a", "a moment")
            await plane.add(server)
            plane.life.goodbye("b", "for good")
            # The timer of the first agent was set first, so it has run out, too.
            assert (await plane.end_of(lost)).reason == "agent_gone"
            await plane.report(kept, result=Json(b"1"))

        assert (await plane.end_of(kept)).result == b"1"

    tell(story, lambda: Plane(Rules(lost_s=0.02)))


def test_what_is_sent_to_an_agent_that_is_gone_gets_its_own_time() -> None:
    """It is failed, but not for an absence that began before it."""

    async def story(plane: Plane, server: AgentServer) -> None:
        plane.life.goodbye("a", "gone")
        plane.clock.time += 1
        execution_id = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        ended = await plane.end_of(execution_id)

        assert ended.reason == "agent_gone"

    tell(story, lambda: Plane(Rules(lost_s=0.05)))


@pytest.mark.parametrize(("before", "after", "lost"), [("one", "two", True), ("one", "one", False), ("", "two", False)])
def test_a_restarted_agent_knows_nothing_of_what_its_older_self_was_working_on(
    before: str, after: str, lost: bool
) -> None:
    """Another process says so with another instance id; one that never had any is given the benefit of the doubt."""

    async def story(plane: Plane, server: AgentServer) -> None:
        await plane.add(server, instance=before)
        execution_id = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        await plane.add(server, instance=after)
        if not lost:
            await plane.report(execution_id)

        assert (await plane.end_of(execution_id)).reason == ("agent_restarted" if lost else None)

    tell(story)


def test_what_waits_for_an_agent_that_was_removed_fails_when_its_turn_comes() -> None:
    """Nobody could run it any more."""

    async def story(plane: Plane, server: AgentServer) -> None:
        first, second = await plane.submit(), await plane.submit()
        await until(lambda: len(server.calls) == 1)
        await plane.register.remove("a")
        await plane.report(first)

        assert (await plane.end_of(second)).reason == "agent_unknown"

    tell(story, lambda: Plane(Rules(at_once=1)))


# A store that does not answer for a while


def test_an_end_waits_for_the_store_and_so_does_its_caller() -> None:
    """An answer that was not written down could be lost after it was given."""

    async def story(plane: Plane, server: AgentServer) -> None:
        go = threading.Event()

        def later(_: Asked) -> tuple[int, bytes]:
            go.wait(LIMIT_S)
            return 200, b"1"

        server.answer = later
        execution_id = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        plane.rows.down = True
        go.set()
        await until(lambda: "execution.not.saved" in plane.log())
        meanwhile = await plane.executions.execution(execution_id)
        plane.rows.down = False

        assert meanwhile.ended is None
        assert (await plane.end_of(execution_id)).result == b"1"
        assert plane.rows.rows[execution_id].status == "succeeded"

    tell(story)


def test_a_promise_to_report_counts_although_it_cannot_be_written_down() -> None:
    """The agent is at work whether the store knows it or not."""

    async def story(plane: Plane, server: AgentServer) -> None:
        def accept(asked: Asked) -> tuple[int, bytes]:
            plane.rows.down = True
            return accepts(asked)

        server.answer = accept
        execution_id = await plane.submit()
        await until(lambda: "execution.not.saved" in plane.log())
        plane.rows.down = False
        await plane.report(execution_id, result=Json(b"1"))
        await until(lambda: bool(plane.record.entries))

        assert (await plane.end_of(execution_id)).result == b"1"
        assert [entry.outcome for entry in plane.record.entries] == ["OK"]

    tell(story)


def test_a_report_that_could_not_be_written_down_is_not_lost() -> None:
    """The agent is told to try again, and does not have to."""

    async def story(plane: Plane, server: AgentServer) -> None:
        execution_id = await plane.submit()
        await until(lambda: plane.rows.rows[execution_id].acknowledged_at is not None)
        plane.rows.down = True
        with pytest.raises(ServiceUnavailable):
            await plane.report(execution_id, result=Json(b"1"))
        with pytest.raises(ServiceUnavailable):
            await plane.executions.cancel(execution_id, "")
        plane.rows.down = False

        assert (await plane.end_of(execution_id)).result == b"1"
        assert len(server.calls) == 1

    tell(story)


def test_the_loss_of_an_agent_is_noted_once_the_store_answers() -> None:
    """Nobody would say it a second time."""

    async def story(plane: Plane, server: AgentServer) -> None:
        execution_id = await plane.submit()
        await until(lambda: plane.rows.rows[execution_id].acknowledged_at is not None)
        plane.rows.down = True
        plane.life.goodbye("a", "gone")
        await until(lambda: "execution.not.saved" in plane.log())
        plane.rows.down = False

        assert (await plane.end_of(execution_id)).reason == "agent_gone"
        assert len(server.calls) == 1

    tell(story, lambda: Plane(Rules(lost_s=0.01, retry_s=0.01)))


def test_what_cannot_be_marked_as_handed_over_is_not_sent_until_it_can() -> None:
    """And then once."""

    async def story(plane: Plane, server: AgentServer) -> None:
        sent, cancelled = await plane.submit(), await plane.submit()
        plane.rows.down = True
        await until(lambda: plane.log().count("execution.not.sent") >= 4)
        assert server.calls == []
        plane.rows.down = False
        await plane.executions.cancel(cancelled, "")
        await until(lambda: len(server.calls) == 1)
        await plane.report(sent)

        assert plane.executions.unfinished == 0
        assert [asked.execution_id for asked in server.calls] == [sent]

    tell(story)


def test_what_was_marked_as_handed_over_without_a_word_is_sent_all_the_same() -> None:
    """The store has noted it, the answer was lost, and nothing was sent: that is known here, so it is, once."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        plane.rows.unheard.add("hand")
        execution_id = await plane.submit()

        assert (await plane.end_of(execution_id)).result == b"1"
        assert (plane.rows.unheard, len(server.calls)) == (set(), 1)
        assert "execution.not.sent" in plane.log()

    tell(story)


def test_what_another_took_over_after_a_lost_word_is_not_sent_from_here() -> None:
    """He may know more by now."""

    async def story(plane: Plane, server: AgentServer) -> None:
        plane.rows.unheard.add("hand")
        execution_id = await plane.submit()
        await until(lambda: plane.rows.rows[execution_id].handed_at is not None)
        plane.rows.taken.add(execution_id)
        await until(lambda: plane.executions.unfinished == 0)

        assert server.calls == []

    tell(story)


def test_what_was_accepted_without_a_word_runs_once_for_who_repeats_it() -> None:
    """He was told to try again, and does so under his key, whether it is found before it is cleared up or after."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        plane.rows.unheard.add("accept")
        with pytest.raises(ServiceUnavailable):
            await plane.submit(idempotency_key="k")
        plane.rows.down = True
        await until(lambda: "execution.not.saved" in plane.log())
        plane.rows.down = False
        again = [await plane.submit(idempotency_key="k")]
        await until(lambda: len(server.calls) == 1)
        again.append(await plane.submit(idempotency_key="k"))

        assert again == list(plane.rows.rows) * 2
        assert (await plane.end_of(again[0])).result == b"1"
        assert len(server.calls) == 1

    tell(story)


def test_what_was_accepted_without_a_word_is_not_run_for_who_cannot_ask_for_it_again() -> None:
    """He may have sent it once more by now; it must not be done twice, nor told to anybody."""

    async def story(plane: Plane, server: AgentServer) -> None:
        plane.rows.unheard.add("accept")
        with pytest.raises(ServiceUnavailable):
            await plane.submit(webhook=HOOK)
        await until(lambda: all(row.ended is not None for row in plane.rows.rows.values()))

        [row] = plane.rows.rows.values()
        assert row.ended is not None
        assert (row.status, row.ended.reason) == ("failed", "not_accepted")
        assert (server.calls, plane.post.told, plane.executions.unfinished) == ([], [], 0)

    tell(story)


@pytest.mark.parametrize("key", ["k", None])
def test_what_the_store_takes_in_later_than_anybody_waits_is_seen_to_as_well(key: str | None) -> None:
    """It was told, the connection was lost, and it does what it was told after everybody has looked."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        plane.rows.unheard.add("accept")
        with pytest.raises(ServiceUnavailable):
            await plane.submit(idempotency_key=key)
        [(execution_id, late)] = plane.rows.rows.items()
        plane.rows.rows.clear()
        await asyncio.sleep(0.05)
        plane.rows.rows[execution_id] = late
        await until(lambda: plane.rows.rows[execution_id].ended is not None)

        ended = plane.rows.rows[execution_id].ended
        assert ended is not None
        assert (ended.status, ended.reason) == (("succeeded", None) if key else ("failed", "not_accepted"))
        assert len(server.calls) == (1 if key else 0)

    tell(story)


def test_what_another_has_sent_meanwhile_is_left_to_him() -> None:
    """He took over what the store had, and his agent is at work on it."""

    async def story(plane: Plane, server: AgentServer) -> None:
        plane.rows.unheard.add("accept")
        with pytest.raises(ServiceUnavailable):
            await plane.submit()
        [execution_id] = plane.rows.rows
        plane.rows.rows[execution_id] = running(execution_id)
        await asyncio.sleep(0.05)

        assert plane.rows.rows[execution_id].status == "running"
        assert server.calls == []

    tell(story)


def test_what_never_came_to_the_store_is_not_looked_for_for_ever() -> None:
    """After some minutes it will not come any more; and the next doubt is looked into all the same."""

    async def story(plane: Plane, _: AgentServer) -> None:
        for _turn in range(2):
            plane.rows.unheard.add("accept")
            with pytest.raises(ServiceUnavailable):
                await plane.submit()
            plane.rows.rows.clear()
            before = len(asyncio.all_tasks())
            plane.clock.time += 601
            await until(lambda before=before: len(asyncio.all_tasks()) < before)

    tell(story)


async def cancelled_without_a_word(plane: Plane, server: AgentServer) -> str:
    """Cancel what an agent is at work on; the store notes it, and its answer is lost."""
    server.answer = server.silent
    execution_id = await plane.submit()
    await until(lambda: len(server.calls) == 1)
    plane.rows.unheard.add("settle")
    with pytest.raises(ServiceUnavailable):
        await plane.executions.cancel(execution_id, "")
    return execution_id


def test_a_cancellation_that_was_noted_without_a_word_stops_the_agent_all_the_same() -> None:
    """Its caller is told to try again, and then that there is nothing left to cancel."""

    async def story(plane: Plane, server: AgentServer) -> None:
        execution_id = await cancelled_without_a_word(plane, server)
        await until(lambda: len(server.told_to_cancel) == 1 and server.left.is_set())
        with pytest.raises(InvalidRequest) as refusal:
            await plane.executions.cancel(execution_id, "")

        assert refusal.value.details["current"] == "cancelled"
        assert len(server.told_to_cancel) == 1

    tell(story)


def test_who_cancels_again_at_once_leaves_nothing_running() -> None:
    """The first cancellation is noted, and nobody knows; the second finds it."""

    async def story(plane: Plane, server: AgentServer) -> None:
        execution_id = await cancelled_without_a_word(plane, server)
        with pytest.raises(InvalidRequest):
            await plane.executions.cancel(execution_id, "")
        await until(server.left.is_set)
        await until(lambda: len(server.told_to_cancel) == 1)

    tell(story, lambda: Plane(replace(PATIENT, retry_s=0.3)))


def test_an_end_that_is_found_in_the_store_before_it_is_tried_again_is_told_all_the_same() -> None:
    """It is our own, and whoever looks what others have ended does not know that."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        plane.rows.unheard.add("settle")
        execution_id = await plane.submit(webhook=HOOK)
        await until(lambda: plane.rows.rows[execution_id].ended is not None)
        await plane.executions.look_elsewhere()
        assert plane.executions.unfinished == 0
        await until(lambda: len(plane.post.told) == 1)

        assert [entry.outcome for entry in plane.record.entries] == ["OK"]

    tell(story, lambda: Plane(replace(PATIENT, retry_s=0.1)))


def test_a_report_of_what_another_looks_after_is_told_although_it_was_noted_without_a_word() -> None:
    """Its agent reports to whom it likes."""

    async def story(plane: Plane, _: AgentServer) -> None:
        plane.rows.rows["e"] = running("e", webhook=HOOK)
        plane.rows.unheard.add("settle")
        with pytest.raises(ServiceUnavailable):
            await plane.report("e", result=Json(b"1"))
        await until(lambda: len(plane.post.told) == 1)

        assert plane.rows.rows["e"].status == "succeeded"

    tell(story)


def test_what_is_doubtful_while_this_process_stops_is_looked_for_once_more() -> None:
    """The next one would run it."""

    async def story(plane: Plane, server: AgentServer) -> None:
        plane.executions.stop_waiting()
        plane.rows.unheard.add("accept")
        with pytest.raises(ServiceUnavailable):
            await plane.submit()
        await plane.executions.close()

        [row] = plane.rows.rows.values()
        assert row.ended is not None
        assert (row.ended.reason, server.calls) == ("not_accepted", [])

    tell(story)


def test_an_end_that_was_noted_without_a_word_is_told_once() -> None:
    """Nobody has been told of it yet, and the agent says it only once."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        plane.rows.unheard.add("settle")
        execution_id = await plane.submit(webhook=HOOK)
        await until(lambda: len(plane.post.told) == 1)
        await asyncio.sleep(0.05)

        assert [told["execution_id"] for _, told in plane.post.told] == [execution_id]
        assert plane.rows.unheard == set()
        assert (await plane.end_of(execution_id)).result == b"1"

    tell(story)


def test_a_report_that_was_noted_without_a_word_is_told_once_however_often_it_is_repeated() -> None:
    """The agent is told to try again, and does."""

    async def story(plane: Plane, _: AgentServer) -> None:
        execution_id = await plane.submit(webhook=HOOK)
        await until(lambda: plane.rows.rows[execution_id].acknowledged_at is not None)
        plane.rows.unheard.add("settle")
        with pytest.raises(ServiceUnavailable):
            await plane.report(execution_id, result=Json(b"1"))
        plane.clock.time += 1
        await plane.report(execution_id, result=Json(b"1"))
        await until(lambda: len(plane.post.told) == 1)
        await asyncio.sleep(0.05)

        assert len(plane.post.told) == 1

    tell(story)


def test_the_end_of_a_synchronous_execution_is_remembered_when_the_store_is_back() -> None:
    """Its caller does not wait for that."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        plane.rows.down = True
        done = await plane.executions.run(wish(), LIMIT_S)
        await until(lambda: "execution.not.saved" in plane.log())
        known = await plane.executions.execution(done.id)
        plane.rows.down = False
        await until(lambda: done.id in plane.rows.rows)

        assert (done.status, known.status) == ("succeeded", "succeeded")

    tell(story)


# After a crash


def test_what_was_never_sent_is_sent_once_after_a_crash() -> None:
    """Oldest first."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says(1)
        for number in (2, 1):
            plane.rows.rows[f"e{number}"] = left_behind(f"e{number}", created_at=float(number))
        await plane.executions.recover()
        for number in (1, 2):
            assert (await plane.end_of(f"e{number}")).status == "succeeded"

        assert [asked.execution_id for asked in server.calls] == ["e1", "e2"]

    tell(story, lambda: Plane(Rules(at_once=1)))


def test_what_may_have_been_sent_is_never_sent_again() -> None:
    """It ends as unknown, by a report, or is waited for where the agent said that it is at work."""

    async def story(plane: Plane, server: AgentServer) -> None:
        for name in ("unknown", "reported", "promised", "promised_late"):
            plane.rows.rows[name] = running(name, acknowledged_at=1000.0 if name == "promised" else None)
        await plane.executions.recover()
        await plane.report("reported", result=Json(b"1"))
        await plane.executions.report("promised_late", None)
        unknown, reported = await plane.end_of("unknown"), await plane.end_of("reported")
        left = await plane.executions.executions(["promised", "promised_late"])
        for name in left:
            await plane.report(name)

        assert (unknown.status, unknown.reason) == ("failed", "outcome_unknown")
        assert reported.result == b"1"
        assert {found.status for found in left.values()} == {"running"}
        assert (server.calls, plane.executions.unfinished) == ([], 0)

    tell(story, lambda: Plane(Rules(unknown_s=0.02)))


def test_an_agent_that_was_gone_before_the_crash_is_not_waited_for() -> None:
    """Nobody says a second time that it is gone; and one that was removed will never report."""

    async def story(plane: Plane, _: AgentServer) -> None:
        plane.directory.set_health("a", State(health="inactive", reason="silent", since=1.0))
        for name, agent_id in (("of_gone", "a"), ("of_removed", "never seen")):
            plane.rows.rows[name] = running(name, acknowledged_at=1000.0, agent_id=agent_id)
        await plane.executions.recover()

        assert {(await plane.end_of(name)).reason for name in ("of_gone", "of_removed")} == {"agent_gone"}

    tell(story, lambda: Plane(Rules(lost_s=0.02)))


def test_an_agent_that_comes_as_another_process_after_a_crash_has_lost_its_work() -> None:
    """The instance it was handed to is in the store."""

    async def story(plane: Plane, server: AgentServer) -> None:
        plane.rows.rows["e"] = running("e", acknowledged_at=1000.0)
        await plane.executions.recover()
        await plane.add(server, instance="two")

        assert (await plane.end_of("e")).reason == "agent_restarted"

    tell(story)


def test_what_the_store_does_not_want_to_be_sent_is_not_sent() -> None:
    """Somebody else has handed it over, or ended it, without this process knowing."""

    async def story(plane: Plane, server: AgentServer) -> None:
        names = ("elsewhere", "ended", "missing")
        for name in names:
            plane.rows.rows[name] = left_behind(name)
        await plane.executions.recover()
        plane.clock.time += 1
        plane.rows.rows["elsewhere"] = running("elsewhere")
        plane.rows.rows["ended"] = running("ended", ended=Ended(status="succeeded", at=1.0))
        del plane.rows.rows["missing"]

        reasons = [(await plane.end_of(name)).reason for name in names]
        assert reasons == ["outcome_unknown", None, "internal_error"]
        assert server.calls == []

    tell(story, lambda: Plane(Rules(unknown_s=0.02)))


def test_stopping_finishes_what_is_under_way_and_begins_nothing_new() -> None:
    """What has not begun is in the store for the next process."""

    async def story(plane: Plane, server: AgentServer) -> None:
        go = threading.Event()

        def later(_: Asked) -> tuple[int, bytes]:
            go.wait(LIMIT_S)
            return 200, b"1"

        server.answer = later
        first, second = await plane.submit(), await plane.submit()
        await until(lambda: len(server.calls) == 1)
        closing = asyncio.create_task(plane.executions.close())
        await asyncio.sleep(0)
        nested = await plane.submit("a:s", parent_id=first)
        go.set()
        await closing

        assert plane.rows.rows[first].status == "succeeded"
        assert [plane.rows.rows[name].status for name in (second, nested)] == ["queued", "queued"]
        assert len(server.calls) == 1

    tell(story, lambda: Plane(Rules(at_once=1)))


def test_old_executions_are_forgotten_however_many_there_are() -> None:
    """More than are forgotten in one go."""

    async def story(plane: Plane, _: AgentServer) -> None:
        plane.clock.time = 8 * 24 * 3600.0
        for number in range(2500):
            ended = Ended(status="succeeded", at=plane.clock.time if number == 0 else 1.0)
            plane.rows.rows[f"e{number}"] = running(f"e{number}", ended=ended)
        await plane.executions.forget_old()

        assert list(plane.rows.rows) == ["e0"]

    tell(story)


# Who else is told


@pytest.mark.parametrize("how", ["submit", "run"])
def test_a_webhook_is_told_the_end_once(how: str) -> None:
    """Also when the end is reported again."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says({"a": 1})
        wanted = wish(webhook=HOOK)
        if how == "run":
            execution = await plane.executions.run(wanted, LIMIT_S)
        else:
            execution = await plane.executions.submit(wanted)
            await plane.end_of(execution.id)
        await plane.report(execution.id, "failed")
        await until(lambda: len(plane.post.told) == 1)

        hook, message = plane.post.told[0]
        assert hook == HOOK
        assert message == {
            "event": "execution.completed",
            "execution_id": execution.id,
            "run_id": execution.run_id,
            "workflow_id": execution.run_id,
            "target": "a.r",
            "status": "succeeded",
            "result": {"a": 1},
            "error": None,
            "reason": None,
        }

    tell(story)


def test_neither_values_nor_secrets_are_logged_or_audited() -> None:
    """One line for each execution, with a hash that is the same for the same input."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says({"result": "v4lue"})
        plane.post.away = True
        for given in ({"x": "v4lue", "y": 1}, {"y": 1, "x": "v4lue"}, {"x": "other"}):
            await plane.executions.run(wish(input=given, webhook=HOOK), LIMIT_S)
        await until(lambda: plane.log().count("webhook.failed") == 3)

        entries = plane.record.entries
        assert [(entry.caller, entry.owner, entry.capability, entry.outcome) for entry in entries] == [
            ("tester", "a", "r", "OK")
        ] * 3
        assert entries[0].arguments_hash == entries[1].arguments_hash != entries[2].arguments_hash
        written = plane.log() + repr(entries)
        assert [word for word in ("v4lue", "s3cret", "t0ken") if word in written] == []

    tell(story)


def test_a_bug_ends_an_execution_and_tells_the_log_nothing_of_its_input() -> None:
    """Whatever breaks, somebody is waiting for an end."""

    async def story(plane: Plane, _: AgentServer) -> None:
        plane.rows.rows["e"] = left_behind("e", input=Json(b'{"x": "v4lue"'))
        await plane.executions.recover()

        assert (await plane.end_of("e")).reason == "internal_error"
        assert "execution.broke" in plane.log()
        assert "v4lue" not in plane.log()

    tell(story)


# Limits, leaks and the end of a process


def test_what_a_running_parent_wants_has_a_limit_of_its_own() -> None:
    """A forged parent gives nobody more than one more share, and nothing that runs waits for what it wants."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = accepts
        parent = await plane.submit(target="a:r")
        await until(lambda: len(server.calls) == 1)
        children = [await plane.submit(parent_id=parent, caller="somebody") for _ in range(10)]
        await until(lambda: len(server.calls) == 3)
        await plane.report(children[0])
        await until(lambda: len(server.calls) == 4)

        known = await plane.executions.executions(children)
        assert [child.status for child in known.values()].count("running") == 2

    tell(story, lambda: Plane(replace(PATIENT, at_once=2)))


def test_nothing_is_left_in_memory_of_what_has_ended() -> None:
    """Neither lanes nor futures nor timers, however it ended."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says({"ok": True})
        for _ in range(20):
            await plane.executions.run(wish(), LIMIT_S)
            await plane.end_of(await plane.submit())
        server.answer = accepts
        waiting = await plane.submit()
        await until(lambda: len(server.calls) == 41)
        await plane.executions.cancel(waiting, "enough")
        await until(lambda: not asyncio.all_tasks() - {asyncio.current_task()})

        ledger, dispatch = (inside(inside(plane.executions)[part]) for part in ("_ledger", "_dispatch"))
        assert {name: ledger[name] for name in ("live", "timers", "held")} == {"live": {}, "timers": set(), "held": 0}
        assert dispatch["_lanes"] == {}
        assert inside(dispatch["_ends"])["_expected"] == {}

    tell(story)


def test_an_idempotent_repeat_finds_its_execution_though_the_agent_is_gone() -> None:
    """Whoever repeats a request must not conclude that it never ran."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = says("done")
        first = await plane.executions.run(wish(idempotency_key="k"), LIMIT_S)
        await plane.register.remove("a")

        again = await plane.executions.submit(wish(idempotency_key="k"))
        with pytest.raises(InvalidRequest):
            await plane.executions.submit(wish(idempotency_key="k", input={"other": 1}))
        with pytest.raises(InvalidRequest):
            await plane.executions.submit(wish("a:other", idempotency_key="k"))
        with pytest.raises(UnknownApp):
            await plane.executions.submit(wish(idempotency_key="new"))

        assert again.id == first.id

    tell(story)


def test_a_stop_sends_nobody_away_without_a_word() -> None:
    """Who waits for something queued is told where to ask, or that nothing was sent; what runs is waited for."""

    async def story(plane: Plane, server: AgentServer) -> None:
        release = threading.Event()

        def slow(asked: Asked) -> tuple[int, bytes] | None:
            release.wait(LIMIT_S)
            return says("late")(asked)

        server.answer = slow
        under_way = asyncio.create_task(plane.executions.run(wish(), LIMIT_S))
        await until(lambda: len(server.calls) == 1)
        queued = await plane.submit()
        refused = [
            asyncio.create_task(plane.executions.run(wish(), LIMIT_S)),
            asyncio.create_task(plane.executions.run(wish(idempotency_key="k"), LIMIT_S)),
        ]
        looking = asyncio.create_task(plane.executions.execution(queued, LIMIT_S))
        await until(lambda: plane.executions.unfinished == 4)

        plane.executions.stop_waiting()
        said = [await asyncio.gather(task, return_exceptions=True) for task in refused]
        with pytest.raises(ServiceUnavailable, match="Nothing was sent"):
            await plane.executions.run(wish(), LIMIT_S)
        release.set()

        assert (await looking).status == "queued"
        assert ["Nothing was sent" in str(one[0]) for one in said] == [True, False]
        assert all(isinstance(one[0], ServiceUnavailable) for one in said)
        ended = (await under_way).ended
        assert ended is not None
        assert ended.status == "succeeded"

    tell(story, lambda: Plane(replace(PATIENT, at_once=1)))


def test_what_an_agent_says_about_a_failure_is_cut_to_a_sensible_length() -> None:
    """A megabyte of details for each of two thousand remembered ends would be the end of the server."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = accepts
        execution_id = await plane.submit()
        await until(lambda: len(server.calls) == 1)
        details = Json(b'"' + b"x" * 1_000_000 + b'"')
        await plane.report(execution_id, "failed", error="e" * 50_000, reason="r" * 1000, error_details=details)

        ended = await plane.end_of(execution_id)
        assert (len(ended.error or ""), len(ended.reason or "")) == (10_000, 200)
        assert json.loads(ended.error_details or b"") == {"truncated": True, "bytes": 1_000_002}

    tell(story)


def test_inputs_that_are_too_large_together_are_refused() -> None:
    """They are kept in memory until they have run."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = accepts
        await plane.submit(input={"text": "x" * 600})

        with pytest.raises(ServiceUnavailable, match="too large together"):
            await plane.submit(input={"text": "x" * 600})

    tell(story, lambda: Plane(replace(PATIENT, held_bytes=1000)))


def test_a_webhook_is_told_once_though_the_report_is_repeated_after_a_restart() -> None:
    """The first end is told, and no other."""

    async def story(plane: Plane, server: AgentServer) -> None:
        del server
        plane.rows.rows["x"] = running("x", webhook=HOOK)
        await plane.executions.recover()
        for _ in range(3):
            await plane.report("x", result=Json(b"1"))
        inside(inside(plane.executions)["_ledger"])["_recent"] = Recent()
        await plane.report("x", result=Json(b"2"))
        await until(lambda: not asyncio.all_tasks() - {asyncio.current_task()})

        assert [said["result"] for _, said in plane.post.told] == [1]

    tell(story)


# Whose agent it is


def test_who_may_not_execute_an_agent_cannot_take_its_place_or_reach_it_by_another_name() -> None:
    """Rules would be void for everybody who can register."""

    async def story(plane: Plane, server: AgentServer) -> None:
        gate = AllowRules({"a": ["team"]})
        register = Register(MemoryStore(), plane.directory, plane.life, plane.clock, gate=gate)

        def newcomer(agent_id: str, url: str) -> Newcomer:
            found = agents.read(json.dumps(registration(agent_id, base_url=url)).encode())
            return Newcomer(agent=found.agent, said="ready", heartbeat_s=2.0)

        other = Caller("other")
        for stolen in (newcomer("a", "http://127.0.0.1:1"), newcomer("alias", f"{server.url}/")):
            with pytest.raises(ConsentRequired):
                await register.register(stolen, other)
        with pytest.raises(ConsentRequired):
            await register.remove("a", other)
        await register.register(newcomer("mine", "http://127.0.0.1:2"), other)
        await register.register(newcomer("alias", server.url), Caller("team"))
        await register.remove("a", Caller("team"))

        assert "a" not in plane.directory.current().agents

    tell(story)


def test_what_no_task_of_this_process_performed_is_recorded_at_its_end_too() -> None:
    """Sent before a crash and reported after it, never heard of again, or cancelled while it waited."""

    async def story(plane: Plane, server: AgentServer) -> None:
        server.answer = accepts
        plane.rows.rows["reported"] = running("reported")
        plane.rows.rows["lost"] = running("lost")
        await plane.executions.recover()
        await plane.report("reported", result=Json(b"1"))
        await plane.submit()
        await until(lambda: len(server.calls) == 1)
        waiting = await plane.submit(caller="other", input={"a": 1})
        await plane.executions.cancel(waiting, "")
        await plane.end_of("lost")

        recorded = {entry.call: (entry.caller, entry.outcome) for entry in plane.record.entries}
        assert recorded == {
            "reported": ("tester", "OK"),
            waiting: ("other", "CANCELLED"),
            "lost": ("tester", "OUTCOME_UNKNOWN"),
        }

    tell(story, lambda: Plane(replace(PATIENT, at_once=1, unknown_s=0.3)))

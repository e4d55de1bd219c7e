"""What a question costs as the catalogue grows: q1, q2, q6 and q7 with 100 to 100,000 agents.

One discovery endpoint in this process, asked as its HTTP server asks it, without the network: what travels is the same
at every size. Each question is one that nobody asked before, so no answer is there from before; q1 and q2 ask for pages
near the beginning, q6 for one of fifty agents, and q7 for three of all, whose encoded pieces no cache can hold past
some thousand agents. Agents have 8 reasoners and 12 skills and no schemas; q6 has to stay flat, q2 may grow with what
it finds.
"""

import asyncio
import gc
import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, final

from bench.catalog import agent
from bench.figures import Figure, figure
from bench.http_servers import itself
from switchboard.actions.browse import Browse
from switchboard.actions.directory import Directory
from switchboard.actions.store_ports import AgentStore, StoredAgent
from switchboard.catalog.bindings import Json
from switchboard.catalog.health import State
from switchboard.catalog.model import Agent
from switchboard.catalog.query import Query
from switchboard.rest.discovery import Discovery
from switchboard.rest.questions import wishes
from switchboard.telemetry.clock import SystemClock
from switchboard.telemetry.logs import Log
from switchboard.telemetry.metrics import Metrics

TARGETS = {"q6": 2.0, "q2": 2.0}
"""Times the cost at the smallest size: for q6 as it is, for q2 per agent that was found."""
_NEVER_S = 1e9
_WISHES = wishes([(b"host", b"here")])


class Plan(NamedTuple):
    """How much is measured."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    rounds: int = 7
    seconds: float = 0.1
    """About how long one round of one question takes."""


QUICK = Plan(sizes=(10, 20), rounds=2, seconds=0.001)
"""Enough to see that measuring works; the figures mean nothing."""


@final
class _Given(AgentStore):
    """Knows whom it was given, and takes nobody else."""

    def __init__(self, agents: list[Agent]) -> None:
        self._stored = [StoredAgent(id=one.id, revision=1, registration=Json(b"-"), seen_at=1e9) for one in agents]

    async def changes(self, since: int) -> tuple[int, Sequence[StoredAgent]]:
        """Return everybody, once."""
        return 1, self._stored if since == 0 else ()

    async def save(self, agent: StoredAgent) -> int:
        """Refuse: what is measured is never written."""
        raise NotImplementedError

    async def remove(self, agent_id: str) -> int:
        """Refuse: what is measured is never written."""
        raise NotImplementedError

    async def save_life(self, states: Mapping[str, State], seen: Mapping[str, float]) -> int:
        """Refuse: what is measured is never written."""
        raise NotImplementedError


def figures(plan: Plan | None = None) -> list[Figure]:
    """Measure every size, each in its turn."""
    plan = plan or Plan()
    found: list[Figure] = []
    first: dict[str, float] = {}
    for size in plan.sizes:
        costs, matches, memory = _measured(size, plan)
        for name, seconds in costs.items():
            found.append(figure(f"growth: {name} at {size:,} agents, CPU per request", seconds, "µs", scale=1e6))
        q2 = found[-3].value / matches
        first = first or {"q6": found[-2].value, "q2": q2}
        found.append(Figure(f"growth: q2 at {size:,} agents, agents found", matches, ""))
        if size == plan.sizes[-1]:
            label = f"growth: {{}}, {size:,} agents against {plan.sizes[0]:,}"
            found += [
                Figure(label.format("q6"), found[-3].value / first["q6"], "x", target=TARGETS["q6"]),
                Figure(label.format("q2, per agent found"), q2 / first["q2"], "x", target=TARGETS["q2"]),
                Figure(f"growth: memory of one agent among {size:,}", memory / size, "KiB"),
            ]
    return found


def _measured(size: int, plan: Plan) -> tuple[dict[str, list[float]], int, float]:
    """Return the CPU of each question, how many agents q2 finds, and the KiB that all agents take."""
    before = itself().resident_mb()
    dice = random.Random(4)  # noqa: S311 - the same catalogue every time
    agents = [agent(number, dice) for number in range(size)]
    endpoint, directory = discovery_of(agents)
    memory = (itself().resident_mb() - before) * 1024
    gc.collect()
    gc.freeze()
    try:
        questions = {"q1": _pages(""), "q2": _pages("reasoner=*research*&"), "q6": _one(agents)}
        questions["q7"] = _three(agents, dice)
        matches = directory.current().select(Query(reasoner="*research*")).total_agents
        costs = {name: _rounds(endpoint, asked, plan) for name, asked in questions.items()}
        return costs, max(1, matches), memory
    finally:
        gc.unfreeze()


def discovery_of(agents: list[Agent]) -> tuple[Discovery, Directory]:
    """Return an endpoint that knows these agents, and what it knows them from."""
    by_id = {one.id: one for one in agents}
    directory = Directory(_Given(agents), SystemClock(), lambda stored: by_id[stored.id], _NEVER_S)
    asyncio.run(directory.catch_up())
    log = Log(_Nowhere())
    return Discovery(Browse(directory), SystemClock(), Metrics(), log, instance="bench"), directory


class _Nowhere:
    """Takes every log line."""

    def write(self, data: bytes, /) -> int:
        """Forget it."""
        return len(data)


def _rounds(endpoint: Discovery, questions: Iterator[bytes], plan: Plan) -> list[float]:
    """Return the CPU seconds of one question, for each round."""
    calls, spent = 1, _spent(endpoint, questions, 3)
    while spent < plan.seconds and calls < 20_000:
        calls *= 2
        spent = _spent(endpoint, questions, calls)
    return [_spent(endpoint, questions, calls) / calls for _ in range(plan.rounds)]


def _spent(endpoint: Discovery, questions: Iterator[bytes], calls: int) -> float:
    asked = [next(questions) for _ in range(calls)]
    begin = time.process_time()
    for question in asked:
        endpoint.at_once(question, _WISHES)
    return time.process_time() - begin


def _pages(filters: str) -> Iterator[bytes]:
    """Yield pages near the beginning, each of another size or from another agent on."""
    for number in itertools.count():
        yield f"{filters}limit={51 + number // 50 % 50}&offset={number % 50}".encode()


def _one(agents: list[Agent]) -> Iterator[bytes]:
    """Yield questions for one of fifty agents, none twice in a second: the limit makes them different."""
    for number in itertools.count():
        yield f"agent={agents[number % min(50, len(agents))].id}&limit={1 + number // 50 % 500}".encode()


def _three(agents: list[Agent], dice: random.Random) -> Iterator[bytes]:
    while True:
        yield f"agent_ids={','.join(one.id for one in dice.sample(agents, 3))}".encode()

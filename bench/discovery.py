"""What discovery costs: a real server process with 1000 agents, asked over HTTP on this machine.

Promised are ratios within one run: against the same server sending the same bytes from memory (`bench/floor.py`),
against the discovery document's own algorithm in Go (`bench/seed.py`), and cold against warm. Latencies are held to the
document's numbers. `bench/queries.py` has the queries.

The floor is an application of the product's own HTTP server, which is what an endpoint of it costs at least. Discovery
itself is answered before an application is called, so it may cost less than that; against a floor that is answered in
the same place, it is shown as well.

"No cache" asks q1 to q5 for pages that begin somewhere else every time, so that no answer is there from before.
"""

import math
import random
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import agents
from bench.crowds import crowds
from bench.figures import Figure, figure
from bench.http_servers import Process, allow_files, control_plane, get, post, running
from bench.load import Job, LoadGenerator, Result
from bench.queries import CACHED, COUNTS, Questions
from bench.seed import against_the_seed

SEED = {"p50": 50.0, "p95": 100.0, "p99": 200.0, "rate": 1000.0, "hit rate": 0.95, "memory": 100.0}
"""The numbers of seed 004, section 4.1: milliseconds at this many requests per second, cache hits, megabytes."""
CONNECTIONS = 64
_WARM_UP = {"q7": 2500}
_PAGES = 400


class Plan(NamedTuple):
    """How much is measured."""

    agents: int = agents.AGENTS
    share: float = 1.0
    """Of the requests in each measurement."""
    rounds: int = 9
    seconds: float = 3.0
    crowd: int = 1000
    seed: bool = True
    """Whether to compare with the algorithm of the document, where there is a Go to build it with."""

    def of(self, count: int) -> int:
        """Return how many requests of so many to send."""
        return max(8, math.ceil(count * self.share))


QUICK = Plan(agents=20, share=0.01, rounds=2, seconds=0.4, crowd=20, seed=False)
"""Enough to see that measuring works; the figures mean nothing."""


class Cost(NamedTuple):
    """What one kind of request cost in one run."""

    rate: float
    cpu: float
    """Seconds of the server's CPU per request."""
    result: Result


def figures(plan: Plan | None = None) -> list[Figure]:
    """Measure everything on a catalogue that is made for the purpose."""
    plan = plan or Plan()
    allow_files()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        load = stack.enter_context(LoadGenerator())
        documents = agents.registrations(count=plan.agents)
        with control_plane(folder / "empty") as empty:
            bare = empty.resident_mb()
        filled = _fill(folder, load, documents)
        server = stack.enter_context(control_plane(folder))
        questions = Questions(plan.agents)
        floors = [stack.enter_context(_floor(folder, server, questions, way)) for way in ("", "at-once")]
        bench = Bench(load, server, floors[0], floors[1], questions, plan)
        fresh = server.resident_mb()
        found = [*bench.warm(), *bench.uncached()]
        warmed = server.resident_mb()
        if plan.seed:
            found += against_the_seed(bench, folder, documents)
        return [
            *found,
            *bench.poisson_and_cold(documents),
            *crowds(load, server, floors[0], questions, plan.crowd, plan.rounds // 3 + 1),
            *bench.heartbeats(),
            *filled,
            Figure("discovery: memory of one agent of 20 KB", (fresh - bare) / plan.agents * 1024, "KiB"),
            Figure("discovery: memory of the server before the load", fresh, "MB"),
            Figure("discovery: memory of the server after q1-q7", warmed, "MB"),
            Figure("discovery: memory of the server after the load", server.resident_mb(), "MB", target=SEED["memory"]),
        ]


class Bench(NamedTuple):
    """The measurements on a server that runs."""

    load: LoadGenerator
    server: Process
    floor: Process
    quickest: Process
    questions: Questions
    plan: Plan

    def cost(self, process: Process, requests: list[bytes], count: int, connections: int = CONNECTIONS) -> Cost:
        """Run a closed load."""
        before = process.cpu()
        result = self.load.run(Job(port=process.port, requests=requests, connections=connections, count=count))
        if result.errors:
            raise RuntimeError(f"{result.errors} of {result.sent} requests failed: {requests[0].decode()}")
        # The system counts a turn when it ends: of very few requests it may have seen nothing yet.
        return Cost(result.rate, max(process.cpu() - before, 1e-9) / result.sent, result)

    def warm(self) -> list[Figure]:
        """Compare each query with the floors, taking turns."""
        rates: list[Figure] = []
        costs: list[Figure] = []
        for name, whole in COUNTS.items():
            taken = self._taken(name, self.plan.of(whole))
            ours, floor, quickest = (taken[key] for key in ("ours", "floor", "quickest"))
            busy = statistics.median(cost.result.busy for cost in floor)
            rate = statistics.median(cost.rate for cost in ours)
            print(f"  {name}: {rate:,.0f}/s; the generator was {busy:.0%} busy with the floor", file=sys.stderr)
            speed = [our.rate / other.rate for our, other in zip(ours, floor, strict=True)]
            least = 0.5 if name == "q7" else 0.85
            label = f"discovery: {name} requests/s against the same bytes from memory"
            rates.append(figure(label, speed, "x", least, "at least"))
            costs += [
                figure(f"discovery: {name} CPU per request", [cost.cpu for cost in ours], "µs", scale=1e6),
                figure(f"discovery: {name} CPU of the floor against ours", _shares(floor, ours), "x"),
                figure(f"discovery: {name} CPU of the quickest floor against ours", _shares(quickest, ours), "x"),
            ]
        return [*rates, *costs]

    def uncached(self) -> list[Figure]:
        """Measure the queries for pages when every page that is asked for is another one."""
        return [
            figure(
                f"discovery: {name}, no cache: CPU per request",
                [self.uncached_cpu(name) for _ in range(3)],
                "µs",
                scale=1e6,
            )
            for name in CACHED
            if name != "q6"
        ]

    def uncached_cpu(self, name: str, connections: int = CONNECTIONS) -> float:
        """Return the CPU of one request for a page that nobody asked for before."""
        count = self.plan.of(_PAGES)
        return self.cost(self.server, self.questions.pages(name, count), count, connections).cpu

    def poisson_and_cold(self, documents: list[dict[str, Any]]) -> list[Figure]:
        """Offer a mix at random times; then the same again while agents register."""
        job = Job(
            port=self.server.port, requests=[get(query) for query in CACHED.values()], kind="open", rate=SEED["rate"]
        )
        runs: list[Result] = []
        warm: list[float] = []
        for seed in range(3):
            before = self.server.cpu()
            runs.append(self.load.run(msgspec.structs.replace(job, seconds=self.plan.seconds, seed=seed)))
            warm.append((self.server.cpu() - before) / runs[-1].sent)
        cold, cold_run, hit_rate = self._cold(job, documents)
        limits = {name: SEED[name] for name in ("p50", "p95", "p99")}
        label, cold_label = "discovery: 1000/s offered", "discovery: 1000/s and a registration/s"
        return [
            *(
                figure(f"{label}, {name}", [getattr(run, name) for run in runs], "ms", target, scale=1e3)
                for name, target in limits.items()
            ),
            Figure(f"{label}, errors", sum(run.errors for run in runs), "", target=0.0),
            figure(f"{label}, CPU per request", warm, "µs", scale=1e6),
            figure(f"{cold_label}, CPU against none", [cold / one for one in warm], "x", 3.0),
            Figure(f"{cold_label}, p99", cold_run.p99 * 1e3, "ms"),
            Figure(f"{cold_label}, errors", cold_run.errors, "", target=0.0),
            Figure(f"{cold_label}, cache hit rate", hit_rate, "", target=SEED["hit rate"], sense="at least"),
        ]

    def heartbeats(self) -> list[Figure]:
        """Let every agent say that it lives."""
        body = msgspec.json.encode({"status": "ready", "timestamp": "2026-01-01T00:00:00Z"})
        requests = [post(f"/api/v1/nodes/{agents.agent_id(i)}/heartbeat", body) for i in range(self.plan.agents)]
        self.cost(self.server, requests, self.plan.of(1000))
        runs = [self.cost(self.server, requests, self.plan.of(3000)) for _ in range(self.plan.rounds)]
        return [
            figure("heartbeats: accepted", [run.rate for run in runs], "/s", 10_000, "at least"),
            figure("heartbeats: CPU each", [run.cpu for run in runs], "µs", scale=1e6),
        ]

    def _taken(self, name: str, count: int) -> dict[str, list[Cost]]:
        sides = {"ours": self.server, "floor": self.floor, "quickest": self.quickest}
        for process in sides.values():
            before = self.plan.of(_WARM_UP.get(name, 200))
            self.cost(process, self.questions.some(name, before), before)
        taken: dict[str, list[Cost]] = {side: [] for side in sides}
        for _ in range(self.plan.rounds):
            for side, process in sides.items():
                taken[side].append(self.cost(process, self.questions.some(name, count), count))
        return taken

    def _cold(self, job: Job, documents: list[dict[str, Any]]) -> tuple[float, Result, float]:
        """Register an agent each second meanwhile; return CPU, result and the share of hits in the cache."""
        seconds = max(1, round(2 * self.plan.seconds))
        hits, misses = self._lookups()
        before, begin = self.server.cpu(), time.perf_counter()
        self.load.begin(msgspec.structs.replace(job, seconds=float(seconds), seed=9))
        for number in range(seconds):
            time.sleep(max(0.0, begin + number + 0.5 - time.perf_counter()))
            changed = {**documents[number * 17 % len(documents)], "version": f"9.{number}.0"}
            if self.server.post("/api/v1/nodes/register", changed) != 201:
                raise RuntimeError("a registration was refused")
        run = self.load.results()[0]
        cold = (self.server.cpu() - before) / run.sent
        hits, misses = (now - then for now, then in zip(self._lookups(), (hits, misses), strict=True))
        return cold, run, hits / (hits + misses)

    def _lookups(self) -> tuple[float, float]:
        lines = self.server.ask(path="/metrics").body.decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        name = "agentfield_discovery_cache_{}_total"
        return float(values[name.format("hits")]), float(values[name.format("misses")])


def _shares(theirs: list[Cost], ours: list[Cost]) -> list[float]:
    return [other.cpu / own.cpu for other, own in zip(theirs, ours, strict=True)]


def _fill(folder: Path, load: LoadGenerator, documents: list[dict[str, Any]]) -> list[Figure]:
    """Register everybody over HTTP; what is measured later has read them back from its file, as after any restart."""
    random.Random(3).shuffle(documents)  # noqa: S311 - the same order every time
    requests = [post("/api/v1/nodes/register", msgspec.json.encode(document)) for document in documents]
    rates: list[float] = []
    with control_plane(folder) as server:
        for part in range(4):
            some = requests[part::4]
            job = Job(port=server.port, requests=some, connections=8, count=len(some), expected=(201,))
            result = load.run(job)
            if result.errors:
                raise RuntimeError(f"{result.errors} registrations failed")
            rates.append(result.rate)
        return [
            figure("registrations: accepted, 20 KB each, on SQLite", rates, "/s"),
            Figure("registrations: CPU each", server.cpu() / len(requests) * 1e6, "µs"),
        ]


def _floor(folder: Path, server: Process, questions: Questions, way: str) -> AbstractContextManager[Process]:
    asked = [*CACHED.values(), questions.some("q7", 1)[0].split()[1].decode().partition("?")[2]]
    answers = [server.ask(query) for query in asked]
    file = folder / "answers"
    file.write_bytes(msgspec.msgpack.encode(answers))
    if not way:
        sizes = ", ".join(f"q{number} {len(answer.body):,}" for number, answer in enumerate(answers, 1))
        print(f"  bytes: {sizes}", file=sys.stderr)
    return running([sys.executable, "-m", "bench.floor", str(file), way], int, folder / "floor.log")

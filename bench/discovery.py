"""What discovery costs: a real server process with 1000 agents, asked over HTTP on this machine.

Promised are ratios within one run: against the same server sending the same bytes from memory (`bench/floor.py`),
against the discovery document's own algorithm in Go (`bench/reference`), and cold against warm. Latencies are held to
the document's numbers. CPU is that of the server process alone, from /proc, so this needs Linux. Go is optional.

The queries:

    q1 no filter    q2 reasoner=*research*    q3 tags=ml*&include_input_schema=true    q4 format=compact
    q5 format=xml   q6 agent=agent-0500       q7 three random agents: too many different ones for any cache

"No cache" asks q1 to q5 for pages that begin somewhere else every time, so that no answer is there from before.
"""

import http.client
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import agents
from bench.figures import Figure
from bench.floor import Answer
from bench.load import Job, LoadGenerator, Result

PATH = "/api/v1/discovery/capabilities"
CACHED = {
    "q1": "",
    "q2": "reasoner=*research*",
    "q3": "tags=ml*&include_input_schema=true",
    "q4": "format=compact",
    "q5": "format=xml",
    "q6": "agent=agent-0500",
}
SEED = {"p50": 50.0, "p95": 100.0, "p99": 200.0, "rate": 1000.0, "hit rate": 0.95, "memory": 100.0}
"""The numbers of seed 004, section 4.1: milliseconds at this many requests per second, cache hits, megabytes."""
CONNECTIONS = 64
ROUNDS = 9
CROWD = 1000
_COUNTS = {"q1": 1000, "q2": 2000, "q3": 800, "q4": 1200, "q5": 800, "q6": 2000, "q7": 1600}
_WARM_UP = {"q7": 2500}
_GO_COUNTS = {"q1": 15, "q2": 60, "q3": 4, "q4": 15, "q5": 10, "q6": 1500, "q7": 1500}
_UNSEEN = 20000
_PAGES = 400
_TICK = os.sysconf("SC_CLK_TCK")
_FILES = 8192


class Process(NamedTuple):
    """A server process that listens on a port."""

    pid: int
    port: int

    def cpu(self) -> float:
        """Return the CPU seconds it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def resident_mb(self) -> float:
        """Return the memory it holds."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def ask(self, query: str = "", path: str = PATH) -> Answer:
        """Ask once, with a client that knows HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"{path}?{query}")
            answer = connection.getresponse()
            skipped = ("date", "connection")
            headers = [
                (name.lower().encode(), value.encode())
                for name, value in answer.getheaders()
                if name.lower() not in skipped
            ]
            return Answer(query.encode(), answer.status, headers, answer.read())
        finally:
            connection.close()

    def post(self, path: str, document: object) -> int:
        """Send a document, and return the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()


class Cost(NamedTuple):
    """What one kind of request cost in one run."""

    rate: float
    cpu: float
    """Seconds of the server's CPU per request."""
    result: Result


class Questions:
    """The requests, ready to send; those of q7 are never sent twice while a cache could remember them."""

    def __init__(self) -> None:
        dice = random.Random(7)  # noqa: S311 - the same questions every time
        numbers = range(agents.AGENTS)
        self._unseen = [
            get(f"agent_ids={','.join(agents.agent_id(number) for number in dice.sample(numbers, 3))}")
            for _ in range(_UNSEEN)
        ]
        self._first = 0

    def some(self, name: str, count: int) -> list[bytes]:
        """Return requests of one kind."""
        if name != "q7":
            return [get(CACHED[name])]
        begin, self._first = self._first, (self._first + count) % _UNSEEN
        return (self._unseen + self._unseen)[begin : begin + count]


def get(query: str, **headers: str) -> bytes:
    """Build a request."""
    lines = [f"GET {PATH}?{query} HTTP/1.1", "Host: 127.0.0.1", "Accept: */*"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(path: str, body: bytes) -> bytes:
    """Build a request with a JSON body."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


@contextmanager
def running(command: list[str], port_of: Callable[[str], int], log: Path, **environment: str) -> Generator[Process]:
    """Run a server that prints where it listens on its first line."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    with (
        log.open("ab") as errors,
        subprocess.Popen(  # noqa: S603 - our own commands
            command, env={**own, **environment}, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RuntimeError(f"{command[0]} did not start:\n{log.read_text()}")
            yield Process(process.pid, port_of(line))
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def figures() -> list[Figure]:
    """Measure everything on a catalogue that is made for the purpose."""
    allow_files()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        load = stack.enter_context(LoadGenerator())
        documents = agents.registrations()
        filled = _fill(folder, load, documents)
        server = stack.enter_context(_server(folder))
        questions = Questions()
        floor = stack.enter_context(_floor(folder, server, questions))
        bench = _Bench(load, server, floor, questions)
        fresh = server.resident_mb()
        warm, found = bench.warm()
        warmed = server.resident_mb()
        pages = {name: statistics.median(bench.uncached(name) for _ in range(3)) for name in CACHED if name != "q6"}
        cpus = {**warm, **{f"{name}, no cache:": cpu for name, cpu in pages.items()}}
        return [
            *found,
            *(Figure(f"discovery: {name} CPU per request", cpu * 1e6, "µs") for name, cpu in cpus.items()),
            *_against_go(bench, folder, documents),
            *bench.poisson_and_cold(documents),
            *bench.crowds(),
            *bench.heartbeats(),
            *filled,
            Figure("discovery: memory of the server before the load", fresh, "MB"),
            Figure("discovery: memory of the server after q1-q7", warmed, "MB"),
            Figure("discovery: memory of the server after the load", server.resident_mb(), "MB", target=SEED["memory"]),
        ]


class _Bench:
    """The measurements on a server that runs."""

    def __init__(self, load: LoadGenerator, server: Process, floor: Process, questions: Questions) -> None:
        self.load = load
        self.server = server
        self.questions = questions
        self._floor = floor
        self._pages_asked = 0

    def cost(self, process: Process, requests: list[bytes], count: int, connections: int = CONNECTIONS) -> Cost:
        """Run a closed load."""
        before = process.cpu()
        result = self.load.run(Job(port=process.port, requests=requests, connections=connections, count=count))
        if result.errors:
            raise RuntimeError(f"{result.errors} of {result.sent} requests failed: {requests[0].decode()}")
        return Cost(result.rate, (process.cpu() - before) / result.sent, result)

    def warm(self) -> tuple[dict[str, float], list[Figure]]:
        """Compare each query with the floor, taking turns."""
        cpus: dict[str, float] = {}
        rates: list[Figure] = []
        shares: list[Figure] = []
        for name, count in _COUNTS.items():
            ours: list[Cost] = []
            floors: list[Cost] = []
            for process in (self.server, self._floor):
                before = _WARM_UP.get(name, 200)
                self.cost(process, self.questions.some(name, before), before)
            for _ in range(ROUNDS):
                ours.append(self.cost(self.server, self.questions.some(name, count), count))
                floors.append(self.cost(self._floor, self.questions.some(name, count), count))
            cpus[name] = statistics.fmean(cost.cpu for cost in ours)
            rate, busy = statistics.median(cost.rate for cost in ours), statistics.median(_busy(floors))
            print(f"  {name}: {rate:,.0f}/s; the generator was {busy:.0%} busy with the floor", file=sys.stderr)
            speed = [our.rate / floor.rate for our, floor in zip(ours, floors, strict=True)]
            label = f"discovery: {name} requests/s against the same bytes from memory"
            least = 0.5 if name == "q7" else 0.85
            rates.append(Figure(label, statistics.median(speed), "x", _spread(speed), least, "at least"))
            share = statistics.fmean(cost.cpu for cost in floors) / cpus[name]
            shares.append(Figure(f"discovery: {name} CPU of the floor against ours", share, "x"))
        return cpus, [*rates, *shares]

    def uncached(self, name: str) -> float:
        """Return the CPU of a query when every page that is asked for is another one.

        Each call goes on where the last one ended: the same pages within their second would be in the cache.
        """
        pages = [
            get("&".join(filter(None, (CACHED[name], f"limit={limit}&offset={offset}"))))
            for offset in range(400)
            for limit in range(96, 101)
        ]
        random.Random(8).shuffle(pages)  # noqa: S311 - the same order every time
        first = self._pages_asked % len(pages)
        self._pages_asked += _PAGES
        return self.cost(self.server, pages[first:] + pages[:first], _PAGES).cpu

    def poisson_and_cold(self, documents: list[dict[str, Any]]) -> list[Figure]:
        """Offer a mix at random times; then the same again while agents register."""
        job = Job(
            port=self.server.port, requests=[get(query) for query in CACHED.values()], kind="open", rate=SEED["rate"]
        )
        before = self.server.cpu()
        runs = [self.load.run(msgspec.structs.replace(job, seconds=3.0, seed=seed)) for seed in range(3)]
        warm = (self.server.cpu() - before) / sum(run.sent for run in runs)
        hits, misses = self._lookups()
        before, begin = self.server.cpu(), time.perf_counter()
        self.load.begin(msgspec.structs.replace(job, seconds=6.0, seed=9))
        for number in range(6):
            time.sleep(max(0.0, begin + number + 0.5 - time.perf_counter()))
            changed = {**documents[number * 17], "version": f"9.{number}.0"}
            if self.server.post("/api/v1/nodes/register", changed) != 201:
                raise RuntimeError("a registration was refused")
        run = self.load.results()[0]
        cold = (self.server.cpu() - before) / run.sent
        hits, misses = (now - then for now, then in zip(self._lookups(), (hits, misses), strict=True))
        limits = {name: SEED[name] for name in ("p50", "p95", "p99")}
        label, cold_label = "discovery: 1000/s offered", "discovery: 1000/s and a registration/s"
        return [
            *(
                _milliseconds(f"{label}, {name}", [getattr(run, name) for run in runs], target)
                for name, target in limits.items()
            ),
            Figure(f"{label}, errors", sum(run.errors for run in runs), "", target=0.0),
            Figure(f"{label}, CPU per request", warm * 1e6, "µs"),
            Figure(f"{cold_label}, CPU against none", cold / warm, "x", target=3.0),
            Figure(f"{cold_label}, p99", run.p99 * 1e3, "ms"),
            Figure(f"{cold_label}, errors", run.errors, "", target=0.0),
            Figure(
                f"{cold_label}, cache hit rate",
                hits / (hits + misses),
                "",
                target=SEED["hit rate"],
                sense="at least",
            ),
        ]

    def crowds(self) -> list[Figure]:
        """Let 1000 callers come at once."""
        found: list[Figure] = []
        errors = 0
        for name in ("q6", "q7", "304", "q1"):
            connecting: list[float] = []
            asking: list[float] = []
            ratios: list[float] = []
            for _ in range(3):
                first, second = self._crowd(self.server, name)
                errors += first.errors + second.errors
                connecting.append(first.p95)
                asking.append(second.p95)
                if name == "q1":
                    ratios.append(second.rate / self._crowd(self._floor, name)[1].rate)
            label = f"discovery: 1000 at once, {name}"
            limit = None if name == "q1" else 100.0
            found.append(_milliseconds(f"{label}, p95", asking, limit))
            found.append(_milliseconds(f"{label}, p95 with connecting", connecting, None))
            if ratios:
                ratio = statistics.median(ratios)
                against = f"{label}, requests/s against the floor"
                found.append(Figure(against, ratio, "x", _spread(ratios), 0.85, "at least"))
        return [*found, Figure("discovery: 1000 at once, errors", errors, "", target=0.0)]

    def heartbeats(self) -> list[Figure]:
        """Let every agent say that it lives."""
        body = msgspec.json.encode({"status": "ready", "timestamp": "2026-01-01T00:00:00Z"})
        requests = [post(f"/api/v1/nodes/{agents.agent_id(i)}/heartbeat", body) for i in range(agents.AGENTS)]
        self.cost(self.server, requests, 1000)
        runs = [self.cost(self.server, requests, 3000) for _ in range(ROUNDS)]
        rates = [run.rate for run in runs]
        return [
            Figure(
                "heartbeats: accepted", statistics.median(rates), "/s", _spread(rates), target=10_000, sense="at least"
            ),
            Figure("heartbeats: CPU each", statistics.fmean(run.cpu for run in runs) * 1e6, "µs"),
        ]

    def _crowd(self, process: Process, name: str) -> tuple[Result, Result]:
        etag = next(value.decode() for key, value in self.server.ask().headers if key == b"etag")
        requests = [get("", If_None_Match=etag)] if name == "304" else self.questions.some(name, 2 * CROWD)
        expected = (304,) if name == "304" else (200,)
        job = Job(port=process.port, requests=requests, kind="waves", connections=CROWD, expected=expected)
        self.load.begin(job)
        first, second = self.load.results()
        return first, second

    def _lookups(self) -> tuple[float, float]:
        lines = self.server.ask(path="/metrics").body.decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        name = "agentfield_discovery_cache_{}_total"
        return float(values[name.format("hits")]), float(values[name.format("misses")])


def _busy(costs: list[Cost]) -> list[float]:
    return [cost.result.busy for cost in costs]


def _spread(values: list[float]) -> float:
    return max(values) - min(values)


def _milliseconds(name: str, seconds: list[float], target: float | None) -> Figure:
    return Figure(name, statistics.median(seconds) * 1e3, "ms", _spread(seconds) * 1e3, target=target)


def _server(folder: Path) -> AbstractContextManager[Process]:
    command = str(Path(sys.executable).with_name("switchboard"))
    arguments = ["serve", "--port", "0", "--database-url", f"sqlite:///{folder}/plane.db"]
    return running([command, *arguments], lambda line: int(line.rpartition(":")[2]), folder / "server.log")


def _fill(folder: Path, load: LoadGenerator, documents: list[dict[str, Any]]) -> list[Figure]:
    """Register everybody over HTTP; what is measured later has read them back from its file, as after any restart."""
    requests = [post("/api/v1/nodes/register", msgspec.json.encode(document)) for document in documents]
    with _server(folder) as server:
        job = Job(port=server.port, requests=requests, connections=8, count=len(requests), expected=(201,))
        result = load.run(job)
        if result.errors:
            raise RuntimeError(f"{result.errors} registrations failed")
        return [
            Figure("registrations: accepted, 20 KB each, on SQLite", result.rate, "/s"),
            Figure("registrations: CPU each", server.cpu() / len(requests) * 1e6, "µs"),
        ]


def _floor(folder: Path, server: Process, questions: Questions) -> AbstractContextManager[Process]:
    asked = [*CACHED.values(), questions.some("q7", 1)[0].split()[1].decode().partition("?")[2]]
    answers = [server.ask(query) for query in asked]
    file = folder / "answers"
    file.write_bytes(msgspec.msgpack.encode(answers))
    sizes = ", ".join(f"q{number} {len(answer.body):,}" for number, answer in enumerate(answers, 1))
    print(f"  bytes: {sizes}", file=sys.stderr)
    return running([sys.executable, "-m", "bench.floor", str(file)], int, folder / "floor.log")


def _against_go(bench: _Bench, folder: Path, documents: list[dict[str, Any]]) -> list[Figure]:
    """Compare with the document's own algorithm, with our cache and without."""
    go = shutil.which("go")
    if go is None:
        print("  no go on the PATH: the comparison with bench/reference is left out", file=sys.stderr)
        return []
    binary, catalogue = folder / "reference", folder / "catalogue.json"
    catalogue.write_bytes(msgspec.json.encode(documents))
    source = Path(__file__).with_name("reference")
    subprocess.run([go, "build", "-o", str(binary), "."], cwd=source, check=True)  # noqa: S603
    found: list[Figure] = []
    with running([str(binary), str(catalogue)], int, folder / "reference.log", GOMAXPROCS="1") as reference:
        _same(bench.server, reference)
        for name, count in _GO_COUNTS.items():
            is_lookup = name in ("q6", "q7")
            connections, own = 8 if is_lookup else 1, 2 * _COUNTS[name]
            bench.cost(reference, bench.questions.some(name, count), count, connections)
            cached: list[float] = []
            uncached: list[float] = []
            for _ in range(3):
                theirs = bench.cost(reference, bench.questions.some(name, count), count, connections).cpu
                cached.append(theirs / bench.cost(bench.server, bench.questions.some(name, own), own).cpu)
                if not is_lookup:
                    uncached.append(theirs / bench.uncached(name))
            label = f"discovery: {name} CPU of the Go reference against ours"
            least = 3.0 if is_lookup else 100.0
            found.append(Figure(label, statistics.median(cached), "x", _spread(cached), least, "at least"))
            if uncached:
                ratio = statistics.median(uncached)
                found.append(Figure(f"{label}, no cache", ratio, "x", _spread(uncached), 8.0, "at least"))
    return found


def _same(server: Process, reference: Process) -> None:
    """See that both answer the same question with the same agents; otherwise the comparison says nothing."""
    for query in (CACHED["q1"], CACHED["q3"], CACHED["q6"]):
        ours, theirs = (json.loads(process.ask(query).body) for process in (server, reference))
        for key in ("total_agents", "total_reasoners", "total_skills", "pagination"):
            if ours[key] != theirs[key]:
                raise RuntimeError(f"{query!r}: {key} is {ours[key]} here and {theirs[key]} in the reference")


def allow_files(count: int = _FILES) -> None:
    """Let this process and its children hold as many connections as the crowd needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))

"""Three instances on one PostgreSQL, and stores with many agents.

    freshness    how long after the answer to a registration the others show it: nobody else waits for it, and while
                 all three are busy with discovery
    throughput   discovery on three instances at once, and one of them against one on SQLite: a store that is shared
                 must not be felt where nothing is written
    deaths       one of three is killed under load; callers try a broken connection once more, elsewhere
    growth       1,000 and 100,000 small agents in the store: start, memory, one registration, one query

All of it on one machine, with the database beside the instances; PostgreSQL is started for the purpose.
"""

import asyncio
import http.client
import json
import os
import random
import signal
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.databases import Postgres
from tests.databases import running as postgres_running

from bench import agents
from bench.figures import Figure, figure
from bench.http_servers import PATH, Process, asked, get, kept, running
from bench.load import Job, LoadGenerator
from switchboard.catalog.health import State
from switchboard.store.postgres import PostgresStore
from switchboard.store.postgres_agents import compressed, encoded
from switchboard.store.sqlite import SqliteStore
from switchboard.telemetry.clock import SharedClock

TARGETS = {"fresh": 250.0, "throughput": 0.85, "flat": 2.0, "registration": 5.0}
"""Milliseconds; of one instance on SQLite; times a query with a hundredth of the agents; milliseconds for the snapshot.

A registration waits for the disk, too, which differs from run to run; what grows is its part in the snapshot.
"""
_LIMIT_S = 30.0
_asyncpg: Any = import_module("asyncpg")


class Plan(NamedTuple):
    """How much is measured."""

    agents: int = agents.AGENTS
    registrations: int = 150
    queries: int = 2000
    seconds: float = 8.0
    rounds: int = 5
    death_s: float = 1.0
    sizes: tuple[int, int] = (1_000, 100_000)
    new: int = 30


QUICK = Plan(agents=5, registrations=3, queries=20, seconds=0.5, rounds=1, death_s=0.1, sizes=(5, 10), new=2)
"""Enough to see that measuring works; the figures mean nothing."""


def figures(plan: Plan | None = None) -> list[Figure]:
    """Measure everything on a PostgreSQL and on servers that are made for the purpose."""
    plan = plan or Plan()
    with tempfile.TemporaryDirectory() as name, postgres_running(fsync="on") as server:
        return [*_three(Path(name), server, plan), *_growth(Path(name), server, plan)]


def _three(folder: Path, server: Postgres, plan: Plan) -> list[Figure]:
    url = server.new()
    with ExitStack() as stack:
        planes = [stack.enter_context(_plane(folder / f"i{number}", url)) for number in range(3)]
        alone = stack.enter_context(_plane(folder / "alone", f"sqlite:///{folder}/alone.db"))
        documents = agents.registrations(count=plan.agents)
        for document in documents:
            for plane in (planes[0], alone):
                _register(plane, document)
        _wait_until(lambda: all(_count(plane) == len(documents) for plane in planes))
        loads = [stack.enter_context(LoadGenerator()) for _ in planes]
        found = _fresh("nothing else going on", planes, documents, plan)
        jobs = [_job(plane, kind="open", rate=100.0, seconds=plan.seconds) for plane in planes]
        for load, job in zip(loads, jobs, strict=True):
            load.begin(job)
        found += _fresh("300 discoveries a second", planes, documents, plan)
        errors = sum(load.results()[0].errors for load in loads)
        found += [Figure("cluster: errors of discovery meanwhile", errors, "", target=0)]
        return [*found, *_throughput(loads, planes, alone, plan), *_deaths(folder, url, planes, plan)]


def _fresh(label: str, planes: Sequence[Process], documents: Sequence[dict[str, Any]], plan: Plan) -> list[Figure]:
    """Change agents on one instance, and look at the others all the time."""
    waits: list[float] = []
    with ExitStack() as stack:
        first, *others = [stack.enter_context(kept(plane.port)) for plane in planes]
        for number in range(plan.registrations):
            document = dict(documents[number % len(documents)]) | {"version": f"{label} {number}"}
            status, _ = asked(first, "POST", "/api/v1/nodes/register", document)
            if status != 201:
                raise RuntimeError(f"a registration was answered {status}")
            answered = time.perf_counter()
            waiting = dict(enumerate(others))
            while waiting:
                for key, connection in list(waiting.items()):
                    if document["version"].encode() in asked(connection, "GET", f"{PATH}?agent={document['id']}")[1]:
                        waits.append(time.perf_counter() - answered)
                        del waiting[key]
                if time.perf_counter() - answered > _LIMIT_S:
                    raise RuntimeError("a registration was not seen on the others")
    waits.sort()
    name = f"cluster: a registration seen on the others, {label}"
    return [
        Figure(f"{name}, p50", waits[len(waits) // 2] * 1e3, "ms"),
        Figure(f"{name}, p99", waits[int(len(waits) * 0.99)] * 1e3, "ms", target=TARGETS["fresh"]),
    ]


def _throughput(loads: Sequence[LoadGenerator], planes: Sequence[Process], alone: Process, plan: Plan) -> list[Figure]:
    ratios: list[float] = []
    for _ in range(plan.rounds):
        shared = loads[0].run(_job(planes[1], count=plan.queries))
        single = loads[0].run(_job(alone, count=plan.queries))
        ratios.append(shared.rate / single.rate)
    for load, plane in zip(loads, planes, strict=True):
        load.begin(_job(plane, count=plan.queries))
    results = [load.results()[0] for load in loads]
    return [
        figure(
            "cluster: discovery of one instance on PostgreSQL against one on SQLite",
            ratios,
            "x",
            TARGETS["throughput"],
            "at least",
        ),
        Figure("cluster: discovery (q6) on three instances at once", sum(result.rate for result in results), "/s"),
        Figure("cluster: errors of that", sum(result.errors for result in results), "", target=0),
    ]


def _deaths(folder: Path, url: str, planes: Sequence[Process], plan: Plan) -> list[Figure]:
    """Kill one more instance while callers ask all four, each trying once more where a connection breaks."""
    with _plane(folder / "victim", url) as victim:
        ports = [plane.port for plane in (*planes[:2], victim)]
        done, counts, lock = threading.Event(), {"asked": 0, "again": 0, "failed": 0}, threading.Lock()
        callers = [threading.Thread(target=_ask, args=(ports, number, done, counts, lock)) for number in range(8)]
        for caller in callers:
            caller.start()
        time.sleep(plan.death_s)
        os.kill(victim.pid, signal.SIGKILL)
        time.sleep(2 * plan.death_s)
        done.set()
        for caller in callers:
            caller.join()
    return [
        Figure("cluster: discoveries while one of three is killed", counts["asked"], ""),
        Figure("cluster: of those tried once more", counts["again"], ""),
        Figure("cluster: of those failed", counts["failed"], "", target=0),
    ]


def _ask(ports: Sequence[int], turn: int, done: threading.Event, counts: dict[str, int], lock: threading.Lock) -> None:
    dice = random.Random(turn)  # noqa: S311 - the same order every time
    while not done.is_set():
        tries = dice.sample(list(ports), 2)
        outcomes = {"asked": 1, "again": 0, "failed": 1}
        for number, port in enumerate(tries):
            outcomes["again"] = number
            if _answers(port):
                outcomes["failed"] = 0
                break
        with lock:
            for key, value in outcomes.items():
                counts[key] += value


def _answers(port: int) -> bool:
    try:
        with kept(port) as connection:
            return asked(connection, "GET", f"{PATH}?agent=agent-0500")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def _growth(folder: Path, server: Postgres, plan: Plan) -> list[Figure]:
    found: list[Figure] = []
    for store in ("SQLite", "PostgreSQL"):
        measured: dict[int, dict[str, float]] = {}
        for size in plan.sizes:
            url = server.new() if store == "PostgreSQL" else f"sqlite:///{folder}/growth-{size}.db"
            asyncio.run(_filled(url, size))
            measured[size] = _measured(folder / f"{store}-{size}", url, size, plan.new)
        small, large = (measured[size] for size in plan.sizes)
        few, many = (f"{size:,}" for size in plan.sizes)
        name = f"cluster: {store}, {many} agents"
        found += [
            Figure(f"{name}: start until it answers", large["start"], "s"),
            Figure(f"cluster: {store}, {few} agents: start until it answers", small["start"], "s"),
            Figure(f"{name}: memory", large["memory"], "MB"),
            Figure(f"cluster: {store}, {few} agents: memory", small["memory"], "MB"),
            Figure(f"{name}: one registration", large["registration"] * 1e3, "ms"),
            Figure(
                f"{name}: one registration, more than with {few}",
                (large["registration"] - small["registration"]) * 1e3,
                "ms",
                target=TARGETS["registration"],
            ),
            Figure(f"{name}: one query (q6)", large["query"] * 1e3, "ms"),
            Figure(f"{name}: one query, against {few}", large["query"] / small["query"], "x", target=TARGETS["flat"]),
        ]
    return found


def _measured(folder: Path, url: str, size: int, new: int) -> dict[str, float]:
    begin = time.perf_counter()
    with _plane(folder, url) as plane, kept(plane.port) as connection:
        started = time.perf_counter() - begin
        if _count(plane) != size:
            raise RuntimeError("not every agent is there")
        queries = _times(lambda number: asked(connection, "GET", f"{PATH}?agent=small-{number * 7 % size:06}"), 300)
        registrations = _times(
            lambda number: asked(connection, "POST", "/api/v1/nodes/register", _small(size + number)), new
        )
        return {
            "start": started,
            "memory": plane.resident_mb(),
            "query": statistics.median(queries),
            "registration": statistics.median(registrations),
        }


async def _filled(url: str, size: int) -> None:
    """Write agents as a store has them after they registered, without waiting for each."""
    state = encoded(State(health="active", reason="registered", since=1.0))
    texts = ((f"small-{number:06}", msgspec.json.encode(_small(number))) for number in range(size))
    if url.startswith("sqlite"):
        store = SqliteStore(url.removeprefix("sqlite:///"))
        await store.open()
        await store.close()
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.executemany(
                "INSERT INTO agents (id, registration, state, registered_at, revision) VALUES (?, ?, ?, 1.0, ?)",
                ((key, text, state, number) for number, (key, text) in enumerate(texts, 1)),
            )
            connection.execute("UPDATE revision SET value = ?", (size,))
        return
    shared = PostgresStore(url, SharedClock())
    await shared.open()
    await shared.close()
    connection = await _asyncpg.connect(url, server_settings={"search_path": "switchboard"})
    rows = [(key, compressed(text), 1.0, number) for number, (key, text) in enumerate(texts, 1)]
    await connection.copy_records_to_table(
        "agents", records=rows, columns=["id", "registration", "registered_at", "revision"]
    )
    await connection.copy_records_to_table("life", records=[(row[0], state, row[3]) for row in rows])
    await connection.copy_records_to_table("beats", records=[(row[0], 1.0, 1.0) for row in rows])
    await connection.execute("UPDATE revision SET value = $1", size)
    await connection.close()


def _small(number: int) -> dict[str, Any]:
    """Return a registration with five capabilities and no schemas."""
    return {
        "id": f"small-{number:06}",
        "base_url": f"http://agent-{number}.internal:8080",
        "version": "1.0.0",
        "reasoners": [{"id": f"think_{number % 500}", "tags": ["ml"]}, {"id": "plan", "tags": ["nlp"]}],
        "skills": [{"id": f"do_{each}_{number % 300}", "tags": ["web"]} for each in range(3)],
    }


@contextmanager
def _plane(folder: Path, url: str) -> Generator[Process]:
    folder.mkdir(exist_ok=True)
    command = str(Path(sys.executable).with_name("switchboard"))
    arguments = ["serve", "--port", "0", "--database-url", url]
    with running(
        [command, *arguments],
        lambda line: int(line.rpartition(":")[2]),
        folder / "log.txt",
        XDG_DATA_HOME=str(folder),
        SWITCHBOARD_LOG_LEVEL="warning",
    ) as process:
        yield process


def _register(plane: Process, document: dict[str, Any]) -> None:
    if plane.post("/api/v1/nodes/register", document) != 201:
        raise RuntimeError("an agent was not registered")


def _count(plane: Process) -> int:
    return int(json.loads(plane.ask(path="/health").body)["agents"])


def _job(plane: Process, **options: Any) -> Job:
    return Job(port=plane.port, requests=[get("agent=agent-0500")], connections=16, **options)


def _times(work: Callable[[int], object], count: int) -> list[float]:
    found: list[float] = []
    for number in range(count):
        begin = time.perf_counter()
        work(number)
        found.append(time.perf_counter() - begin)
    return found


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("the others did not learn of everything in time")
        time.sleep(0.05)

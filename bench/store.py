"""What it costs to accept executions for good: how many a second, by how many ask at once.

Each is on disk before it counts. How fast that can be is the disk's business, so its own pace is measured beside it.
"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, figure
from switchboard.catalog.bindings import Json
from switchboard.catalog.executions import Execution
from switchboard.store.sqlite import SqliteStore

_RUNS = 5
_EACH = 2000
_TARGET = 500.0
_INPUT = Json(b'{"text":"' + b"x" * 500 + b'"}')


def execution(number: int) -> Execution:
    """Make an execution as callers ask for them: half a kilobyte of input."""
    return Execution(
        id=f"exec_{number:08}",
        run_id=f"run_{number:08}",
        agent_id="agent",
        kind="reasoner",
        capability="think",
        caller="bench",
        input=_INPUT,
        idempotency_key=f"key-{number}",
        created_at=float(number),
    )


def figures(runs: int = _RUNS, each: int = _EACH) -> list[Figure]:
    """Measure one, ten and a hundred acceptors, and the disk alone."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        alone = [_synced(Path(folder) / "pace") for _ in range(runs)]
        found = [figure("store: 4 kB written and synced by the disk alone", alone, "/s")]
        for acceptors in (1, 10, 100):
            pace = [_accepted(Path(folder) / f"{acceptors}.db", acceptors, each) for _ in range(runs)]
            name = f"store: executions accepted durably, {acceptors} at once"
            found.append(figure(name, pace, "/s", _TARGET, "at least"))
        return found


def _synced(path: Path) -> float:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        begin = time.perf_counter()
        for _ in range(200):
            os.write(descriptor, b"x" * 4096)
            os.fsync(descriptor)
        return 200 / (time.perf_counter() - begin)
    finally:
        os.close(descriptor)


def _accepted(path: Path, acceptors: int, each: int) -> float:
    async def run() -> float:
        store = SqliteStore(str(path))
        await store.open()
        before = len(await store.executions.unfinished())
        numbers = iter(range(before, before + each))

        async def accept() -> None:
            for number in numbers:
                await store.executions.accept(execution(number))

        begin = time.perf_counter()
        await asyncio.gather(*(accept() for _ in range(acceptors)))
        seconds = time.perf_counter() - begin
        await store.close()
        return each / seconds

    return asyncio.run(run())

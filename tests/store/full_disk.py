"""A program whose disk is full: files may not grow past a limit, which the system itself enforces.

It prints, as one JSON list, what came of it. `python -m tests.store.full_disk <file>`
"""

import asyncio
import json
import resource
import sys

from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.executions import Execution
from switchboard.store.sqlite import SqliteStore

LIMIT = 400_000


def execution(name: str, size: int) -> Execution:
    return Execution(
        id=name,
        run_id="run",
        agent_id="agent",
        kind="skill",
        capability="look",
        caller="ann",
        input=Json(b"x" * size),
        created_at=1.0,
    )


async def main(path: str) -> list[object]:
    store = SqliteStore(path)
    await store.open()
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    sizes = {"small-1": 100, "large": LIMIT, "small-2": 100}
    answers = await asyncio.gather(
        *(store.executions.accept(execution(name, size)) for name, size in sizes.items()), return_exceptions=True
    )
    kinds = [type(answer).__name__ for answer in answers]
    accepted: list[str] = []
    refused = False
    while not refused:
        name = f"next-{len(accepted)}"
        try:
            await store.executions.accept(execution(name, 10_000))
            accepted.append(name)
        except ServiceUnavailable:
            refused = True
    readable = len(await store.executions.executions(accepted)) == len(accepted)
    resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    await store.executions.accept(execution("afterwards", LIMIT))
    await store.close()
    return [kinds, accepted, readable]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))  # noqa: T201 - how it answers

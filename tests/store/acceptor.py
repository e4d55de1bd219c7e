"""A program that takes executions through their life and says each step once the store has returned from it.

Whoever runs it kills it. `python -m tests.store.acceptor <file> <round>`
"""

import asyncio
import os
import sys
from itertools import count

from switchboard.catalog.bindings import Json
from switchboard.catalog.executions import Ended, Execution
from switchboard.store.sqlite import SqliteStore

AT_ONCE = 8


def say(step: str, execution_id: str) -> None:
    os.write(1, f"{step} {execution_id}\n".encode())


async def live(store: SqliteStore, name: str) -> None:
    execution = Execution(
        id=name,
        run_id="run",
        agent_id="agent",
        kind="skill",
        capability="look",
        caller="ann",
        input=Json(b'"' + name.encode() * 50 + b'"'),
        idempotency_key=f"key of {name}",
        created_at=1.0,
    )
    await store.executions.accept(execution)
    say("queued", name)
    await store.executions.hand(name, 2.0, "instance")
    say("running", name)
    await store.executions.settle(name, Ended(status="succeeded", at=3.0, result=execution.input))
    say("succeeded", name)


async def main(path: str, number: str) -> None:
    store = SqliteStore(path)
    await store.open()
    numbers = count()

    async def work() -> None:
        for each in numbers:
            await live(store, f"{number}-{each}")

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

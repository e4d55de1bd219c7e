"""An agent for everything that can happen to one: files tell how far it is, and let it go on."""

import asyncio
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from agentfield import Agent

P = ParamSpec("P")
T = TypeVar("T")
app = Agent(os.environ.get("WORKER_ID", "worker"), heartbeat_interval=0.2, drain_seconds=20)


@app.reasoner(tags=["slow"])
async def work(file: str) -> str:
    """Begin, and end when a file is there.

    Args:
        file: Tells how far it is; with `.end` at its end, the file to wait for.
    """
    place = Path(file)
    place.write_text("begun")  # noqa: ASYNC240 - a word, for the test
    try:
        while not place.with_suffix(".end").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        place.write_text("cancelled")  # noqa: ASYNC240
        raise
    place.write_text("done")  # noqa: ASYNC240
    return f"done {place.name}"


@app.skill
def block(file: str) -> str:
    """Do the same without a coroutine."""
    place = Path(file)
    place.write_text("begun")
    while not place.with_suffix(".end").exists():
        if app.context is not None and app.context.cancelled:
            place.write_text("cancelled")
            return "cancelled"
        time.sleep(0.02)
    return f"done {place.name}"


@app.skill
def who() -> dict[str, str]:
    """Tell which execution this is."""
    here = app.context
    assert here is not None
    return {
        "id": here.execution_id,
        "run": here.run_id,
        "parent": here.parent_execution_id,
        "caller": here.caller_agent_id,
        "session": here.session_id,
    }


@app.reasoner
async def nested(deep: int = 2) -> dict[str, Any]:
    """Call ourselves, and at the bottom say who we are."""
    here = app.context
    assert here is not None
    if deep == 0:
        return {"id": here.execution_id, "child": await app.aexecute(f"{app.node_id}:skill:who")}
    return {"id": here.execution_id, "child": await app.aexecute(f"{app.node_id}:nested", {"deep": deep - 1})}


@app.reasoner
def nested_blocking(deep: int = 2) -> dict[str, Any]:
    """Do the same without a coroutine: each level holds a thread while it waits."""
    target = f"{app.node_id}:skill:who" if deep == 0 else f"{app.node_id}:nested_blocking"
    given = {} if deep == 0 else {"deep": deep - 1}
    here = app.context
    assert here is not None
    return {"id": here.execution_id, "child": app.execute(target, given)}


@app.reasoner
async def relay(target: str, given: dict[str, Any]) -> Any:
    """Have somebody else do it."""
    return await app.aexecute(target, given)


@app.reasoner
async def would_block() -> str:
    """Make the mistake."""
    return app.execute(f"{app.node_id}:skill:who")


@app.skill
def fail(message: str) -> None:
    """Raise an error with a message."""
    raise RuntimeError(message)


@app.skill
async def leave() -> None:
    """Try to end the process."""
    sys.exit(3)


@app.skill
def unwritable() -> object:
    """Return what no JSON has."""
    return object()


class Mute(Exception):
    """An error that fails when it is asked what it says."""

    def __str__(self) -> str:
        raise RuntimeError("not even that")


class Ending(BaseException):
    """One that most programs do not catch."""


class Unruly:
    """Looks like a model, and fails when it is to be written."""

    def model_dump(self, mode: str) -> None:
        """Fail."""
        raise KeyError(mode)


@app.skill
def end_strangely(how: Literal["mute", "ending", "unruly"]) -> object:
    """End in a way that nobody thinks of."""
    if how == "unruly":
        return Unruly()
    raise Mute if how == "mute" else Ending("the end")


@app.reasoner
async def end_strangely_awaited(how: Literal["mute", "ending", "cancelled"]) -> None:
    """Do the same in a coroutine."""
    if how == "cancelled":
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task
    raise Mute if how == "mute" else Ending("the end")


def noted(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate as most do: the coroutine function becomes a plain one."""

    @functools.wraps(function)
    def around(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    return around


@app.skill
@noted
async def decorated(value: str) -> str:
    """Return what was given."""
    return value


@app.skill
def large(size: int) -> str:
    """Return a text of a size."""
    return "x" * size


@app.skill
def echo(value: Any = None) -> Any:
    """Return what was given."""
    return value


if __name__ == "__main__":
    app.run(port=int(os.environ.get("WORKER_PORT", "0")))

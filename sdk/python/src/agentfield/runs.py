"""What an agent is working on: each execution is a task, can be cancelled, and is reported when it has ended."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec

from agentfield.capability import Capability
from agentfield.context import CURRENT, Context
from agentfield.links import AsyncLink
from agentfield.reports import deliver, failed, raised, succeeded

LOG = logging.getLogger("agentfield")


_NOBODY = ("It awaited something that was cancelled.", "CancelledError")
"""What is said of a cancellation that nobody asked us for."""


class Outbox:
    """Reports on their way. One that is not taken in is sent again, as long as the agent runs."""

    def __init__(self, link: AsyncLink) -> None:
        self._link = link
        self._tasks: set[asyncio.Task[bool]] = set()

    def put(self, execution_id: str, report: bytes) -> None:
        """Send a report, and return at once."""
        plan = deliver(execution_id, report, lambda what: LOG.warning("%s: %s", execution_id, what))
        task = asyncio.create_task(self._link.run(plan))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def flush(self, seconds: float) -> bool:
        """Wait until everything is delivered; tell whether it is."""
        return await all_gone(lambda: self._tasks, seconds)


class Active(msgspec.Struct, frozen=True):
    """One execution that is being worked on."""

    task: "asyncio.Task[None]"
    context: Context


class Runs:
    """The executions that are being worked on, by id."""

    def __init__(self, report: Callable[[str, bytes], None]) -> None:
        self._report = report
        self._active: dict[str, Active] = {}
        self._ending = False

    def begin(self, capability: Capability, given: dict[str, Any], context: Context) -> None:
        """Begin to work on an execution; one that is being worked on is not begun twice."""
        if context.execution_id in self._active:
            return
        task = asyncio.create_task(self._work(capability, given, context))
        self._active[context.execution_id] = Active(task, context)
        task.add_done_callback(lambda _: self._active.pop(context.execution_id, None))

    def cancel(self, execution_id: str) -> bool:
        """Cancel an execution; tell whether there is one."""
        active = self._active.get(execution_id)
        if active is None:
            return False
        active.context.stopped.set()
        active.task.cancel()
        return True

    async def drain(self, seconds: float) -> None:
        """Wait for what is being worked on, and for what still comes; after the time given, end it."""
        if await all_gone(self._tasks, seconds):
            return
        self._ending = True
        for execution_id in list(self._active):
            self.cancel(execution_id)
        await all_gone(self._tasks, 1.0)

    def _tasks(self) -> "set[asyncio.Task[None]]":
        return {active.task for active in self._active.values()}

    async def _work(self, capability: Capability, given: dict[str, Any], context: Context) -> None:
        CURRENT.set(context)
        begin = time.monotonic()
        execution_id = context.execution_id
        try:
            result = await capability.run(given)
            report = succeeded(execution_id, result, time.monotonic() - begin)
        except asyncio.CancelledError as error:
            if context.cancelled and not self._ending:
                return  # whoever cancelled it knows
            why, kind = ("The agent stopped.", "Stopped") if self._ending else _NOBODY
            report = failed(execution_id, why, kind, time.monotonic() - begin)
            LOG.debug("%s %s ended early", capability.id, execution_id, exc_info=error)
        except BaseException as error:  # whatever ends it, its caller must learn of it
            LOG.exception("%s %s failed", capability.id, execution_id)
            report = raised(execution_id, error, time.monotonic() - begin)
            if isinstance(error, KeyboardInterrupt):
                self._report(execution_id, report)
                raise
        self._report(execution_id, report)


async def all_gone(tasks: "Callable[[], set[asyncio.Task[Any]]]", seconds: float) -> bool:
    """Wait until there are no tasks, those too that come meanwhile; tell whether there are none."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while (left := {task for task in tasks() if not task.done()}) and loop.time() < end:
        await asyncio.wait(left, timeout=end - loop.time())
    return not left

"""Something that was submitted: wait for it, look at it, end it."""

import contextlib
from collections.abc import Generator
from typing import Any

import msgspec

from agentfield import execution
from agentfield.errors import AgentFieldError
from agentfield.execution import Execution, Times
from agentfield.links import AsyncLink, Link


class Handle:
    """One execution. `handle.wait()` blocks; `await handle` does not."""

    def __init__(self, execution_id: str, link: Link, alink: AsyncLink, times: Times) -> None:
        self.execution_id = execution_id
        self._link = link
        self._alink = alink
        self._times = times

    def __repr__(self) -> str:
        return f"Handle({self.execution_id!r})"

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the result; bound it with `asyncio.timeout`."""
        return self._awaited().__await__()

    def wait(self, timeout: float | None = None) -> Any:
        """Return the result when it is there.

        Raises:
            Timeout: It is not there after `timeout` seconds; the execution goes on.
            ExecutionFailed: There will be none.
        """
        times = msgspec.structs.replace(self._times, limit=timeout)
        return execution.result_of(self._link.run(execution.wait(self.execution_id, times)))

    def state(self) -> Execution:
        """Return what is known now."""
        return self._link.run(execution.state(self.execution_id, self._times))

    async def astate(self) -> Execution:
        """Return what is known now."""
        return await self._alink.run(execution.state(self.execution_id, self._times))

    def cancel(self, reason: str = "") -> None:
        """End it.

        Raises:
            Conflict: It has ended already.
        """
        self._link.run(execution.cancel(self.execution_id, reason, self._times))

    async def acancel(self, reason: str = "") -> None:
        """End it.

        Raises:
            Conflict: It has ended already.
        """
        await self._alink.run(execution.cancel(self.execution_id, reason, self._times))

    async def kept(self) -> Any:
        """Wait for the result, and end the execution when the wait is cancelled."""
        import asyncio  # noqa: PLC0415 - whoever has no event loop does not need it

        try:
            return await self
        except asyncio.CancelledError:
            with contextlib.suppress(AgentFieldError):  # it may have ended, and nobody is there to be told
                await self.acancel("its parent has ended")
            raise

    async def _awaited(self) -> Any:
        return execution.result_of(await self._alink.run(execution.wait(self.execution_id, self._times)))

"""An executor that has something to end."""

from typing import Protocol

from switchboard.actions.ports import Executor


class Closing(Executor, Protocol):
    """An executor that has something to end."""

    async def close(self) -> None:
        """End what was started, and wait until it is gone."""
        ...

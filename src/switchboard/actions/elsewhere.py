"""Executions that other instances look after, as far as somebody here wants to know how they end.

Ends are told by id, and a word may be lost; so whoever waits also looks for himself now and then.
"""

from asyncio import FIRST_COMPLETED, Event, get_running_loop, wait
from collections.abc import Sequence

from switchboard.actions.ports import Clock
from switchboard.actions.store_ports import ExecutionStore
from switchboard.catalog.executions import Execution

_LOOK_EVERY_S = 2.0


class Elsewhere:
    """Who waits here for what."""

    def __init__(self, store: ExecutionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiting: dict[str, set[Event]] = {}

    def told(self, execution_id: str) -> None:
        """Wake whoever waits for this end."""
        for event in self._waiting.get(execution_id, ()):
            event.set()

    def look(self) -> None:
        """Let everybody look for himself: something may have been missed."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def end_of(self, execution_id: str, within_s: float, stopped: Event) -> Execution | None:
        """Return an execution when it has ended, or as it is after that time or when this instance stops.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        until = self._clock.passed() + within_s
        news = Event()
        self._waiting.setdefault(execution_id, set()).add(news)
        try:
            while True:
                news.clear()
                found = (await self._store.executions([execution_id])).get(execution_id)
                left_s = until - self._clock.passed()
                if found is None or found.ended is not None or left_s <= 0 or stopped.is_set():
                    return found
                await first((news, stopped), min(left_s, _LOOK_EVERY_S))
        finally:
            self._waiting[execution_id].discard(news)
            if not self._waiting[execution_id]:
                del self._waiting[execution_id]


async def first(events: Sequence[Event], within_s: float) -> None:
    """Wait until one of some things has happened, but not longer than that."""
    if any(event.is_set() for event in events):
        return
    waits = [get_running_loop().create_task(event.wait()) for event in events]
    try:
        await wait(waits, timeout=within_s, return_when=FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()

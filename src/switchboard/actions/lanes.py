"""Who may run next on an agent: so many at once, and callers in turn, so that no flood keeps the others waiting."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from switchboard.catalog.errors import ServiceUnavailable

T = TypeVar("T", bound=Hashable)


class Lane(Generic[T]):
    """The work that waits for one agent."""

    def __init__(self, at_once: int, most_waiting: int) -> None:
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._waiting: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        self._count = 0
        self.running = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.running and not self._count

    def require_room(self) -> None:
        """Let one more come, if it can wait here.

        Raises:
            ServiceUnavailable: too many wait already.
        """
        if self._count >= self._most_waiting:
            raise ServiceUnavailable(f"{self._count} executions wait for this agent already. Try again later.")

    def add(self, caller: str, work: T) -> None:
        """Let work wait, behind what the same caller has waiting."""
        self._waiting.setdefault(caller, OrderedDict())[work] = None
        self._count += 1

    def drop(self, caller: str, work: T) -> None:
        """Let work wait no longer that nobody wants any more."""
        queue = self._waiting.get(caller)
        if queue is None or work not in queue:
            return
        del queue[work]
        self._count -= 1
        if not queue:
            del self._waiting[caller]

    def next(self) -> T | None:
        """Take the work that may begin now; the caller whose turn it was goes to the end of the row."""
        if self.running >= self._at_once or not self._count:
            return None
        caller, queue = self._waiting.popitem(last=False)
        work, _ = queue.popitem(last=False)
        if queue:
            self._waiting[caller] = queue
        self._count -= 1
        self.running += 1
        return work

    def ended(self) -> None:
        """Note that something that was taken has ended."""
        self.running -= 1

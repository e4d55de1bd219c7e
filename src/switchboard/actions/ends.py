"""Ends of calls, as they are waited for: by whoever performs a call, told by whoever learns of its end.

Only in memory. What must survive a crash is in the store; this is how the news travels inside one process, and stays
there for a while.
"""

from asyncio import Future, get_running_loop
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import final

from switchboard.actions.ports import Reports
from switchboard.catalog.executions import Ended, Execution

Acknowledge = Callable[[str], Awaitable[None]]

_MOST = 2000
_LARGEST = 32 * 1024 * 1024


@final
class Ends(Reports):
    """The ends that are expected in this process."""

    def __init__(self) -> None:
        self._expected: dict[str, Future[Ended]] = {}
        self._acknowledge: Acknowledge | None = None

    def on_acknowledge(self, note: Acknowledge) -> None:
        """Say who notes that an agent is at work."""
        self._acknowledge = note

    def expect(self, call_id: str) -> None:
        """Begin to expect an end: it may come before anybody waits for it."""
        if call_id not in self._expected:
            self._expected[call_id] = get_running_loop().create_future()

    def tell(self, call_id: str, ended: Ended) -> None:
        """Tell an end; only the first counts, and one that nobody expects is nobody's business."""
        expected = self._expected.get(call_id)
        if expected is not None and not expected.done():
            expected.set_result(ended)

    def forget(self, call_id: str) -> None:
        """Stop expecting."""
        expected = self._expected.pop(call_id, None)
        if expected is not None:
            expected.cancel()

    async def acknowledged(self, call_id: str) -> None:
        """Note that the agent is at work on a call."""
        if self._acknowledge is not None:
            await self._acknowledge(call_id)

    async def end_of(self, call_id: str) -> Ended:
        """Wait for the end of a call."""
        self.expect(call_id)
        return await self._expected[call_id]


@final
class Recent:
    """The executions that ended last: whoever asks soon need not ask the store. So many, and so much of them."""

    def __init__(self, most: int = _MOST, largest: int = _LARGEST) -> None:
        self._most = most
        self._largest = largest
        self._known: OrderedDict[str, Execution] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, execution_id: str) -> Execution | None:
        """Return one, if it is remembered."""
        return self._known.get(execution_id)

    def add(self, execution: Execution) -> None:
        """Remember one, and forget the oldest for it; the newest stays, however large it is."""
        known = self._known.pop(execution.id, None)
        self._size += _size(execution) - (_size(known) if known is not None else 0)
        self._known[execution.id] = execution
        while len(self._known) > max(1, self._most) or (self._size > self._largest and len(self._known) > 1):
            _, oldest = self._known.popitem(last=False)
            self._size -= _size(oldest)


def _size(execution: Execution) -> int:
    """Return about how much it holds: everything in it that somebody else chose the length of."""
    ended, webhook = execution.ended, execution.webhook
    pairs = (*execution.context, *(webhook.headers if webhook is not None else ()))
    held = len(execution.input) + sum(len(name) + len(value) for name, value in pairs)
    if ended is not None:
        held += sum(len(part or b"") for part in (ended.result, ended.error_details))
        held += sum(len(part or "") for part in (ended.error, ended.reason))
    return held

"""Checks that run beside each other, each within a limit: whatever hangs, the others are told, and the command ends.

Knows nothing of what is checked. A check that breaks is a problem, too.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import Condition, Thread
from time import monotonic
from typing import Literal, final

from msgspec import Struct

State = Literal["ok", "warning", "problem"]
LIMIT_S = 5.0
PROGRESS_S = 1.0


class Finding(Struct, frozen=True):
    """One thing that was looked at, in one line; with what to do, where something is to be done."""

    check: str
    state: State
    message: str
    remedy: str | None = None


class Check(Struct, frozen=True):
    """Something to look at; `late` is what to do when it gives no answer."""

    name: str
    look: Callable[[], Iterable[Finding]]
    late: str


def run_all(
    checks: Sequence[Check], waiting: Callable[[list[str]], None] = lambda _: None, limit_s: float = LIMIT_S
) -> list[Finding]:
    """Run every check and return what they found, in their order; `waiting` is told the names of slow ones."""
    round_ = _Round(checks)
    left = round_.wait(PROGRESS_S)
    if left:
        waiting(left)
        round_.wait(limit_s - PROGRESS_S)
    return [finding for check in checks for finding in round_.found(check, limit_s)]


@final
class _Round:
    def __init__(self, checks: Sequence[Check]) -> None:
        self._found: dict[str, list[Finding]] = {}
        self._changed = Condition()
        self._names = [check.name for check in checks]
        for check in checks:
            # Daemons, unlike the threads of an executor: the interpreter does not wait for them when it ends.
            Thread(target=self._run, args=(check,), name=check.name, daemon=True).start()

    def wait(self, seconds: float) -> list[str]:
        """Wait until all are done, or for so long; return the names of those that are not."""
        end = monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: len(self._found) == len(self._names), max(0.0, end - monotonic()))
            return [name for name in self._names if name not in self._found]

    def found(self, check: Check, limit_s: float) -> list[Finding]:
        with self._changed:
            late = Finding(check.name, "problem", f"gave no answer within {limit_s:g} s", check.late)
            return self._found.get(check.name, [late])

    def _run(self, check: Check) -> None:
        try:
            found = list(check.look())
        except Exception as error:  # noqa: BLE001 - the end of a thread; its words may hold anything
            remedy = "Report this, with the output of switchboard doctor --json."
            found = [Finding(check.name, "problem", f"could not be checked ({type(error).__name__})", remedy)]
        with self._changed:
            self._found[check.name] = found
            self._changed.notify_all()

"""How quick this machine is just now: what a fixed piece of work takes.

Machines are shared, and neighbours come and go. A figure that is no ratio tells of the machine as much as of the
program; so every run says how quick the machine was, and can wait until it is as quick as it was at its best.
"""

import sys
import time

_WORK = 150_000
_TRIES = 7
_QUIET = 1.15
"""Times the best that was seen: what counts as quiet."""
_LOOK_EVERY_S = 2.0


def pace() -> float:
    """Return the CPU milliseconds that a fixed piece of work takes: the least of some tries."""
    return min(_worked() for _ in range(_TRIES))


def _worked() -> float:
    begin, total = time.process_time(), 0
    for number in range(_WORK):
        total += number * number
    return (time.process_time() - begin) * 1e3


class Machine:
    """This machine over some runs; `best` is the quickest it was ever seen, where that is known from before."""

    def __init__(self, best: float | None = None) -> None:
        now = pace()
        self.best = min(now, best) if best else now

    def slowness(self) -> float:
        """Return how many times as long as at its best it takes for the same work just now."""
        now = pace()
        self.best = min(self.best, now)
        return now / self.best

    def wait(self, limit_s: float) -> None:
        """Wait until it is quiet, but no longer than that; standard error says how it went."""
        until = time.monotonic() + limit_s
        while (slowness := self.slowness()) > _QUIET:
            if time.monotonic() >= until:
                print(f"  not quiet: {slowness:.2f} x its best time; measured all the same", file=sys.stderr)
                return
            time.sleep(_LOOK_EVERY_S)

"""The clock of the machine, for everything that asks what time it is."""

import time
from typing import Protocol, final


@final
class SystemClock:
    """The real time. Fulfils `actions.ports.Clock`, which this room may not import."""

    now = staticmethod(time.time)
    """Return seconds since 1970."""
    passed = staticmethod(time.monotonic)
    """Return seconds that only ever grow."""


class Ticking(Protocol):
    """What a clock is here."""

    def now(self) -> float:
        """Return seconds since 1970."""
        ...

    def passed(self) -> float:
        """Return seconds that only ever grow."""
        ...


@final
class SharedClock:
    """The time of something that several processes share, as they hear it: how wrong this machine is does not matter.

    Between two settings it goes on with this machine's steady clock. Until the first it is `fallback`. Fulfils
    `actions.ports.Clock`.
    """

    def __init__(self, fallback: Ticking | None = None) -> None:
        self._fallback = fallback or SystemClock()
        self._ahead: float | None = None

    def now(self) -> float:
        """Return seconds since 1970, by the shared clock."""
        return self._fallback.now() if self._ahead is None else self._fallback.passed() + self._ahead

    def passed(self) -> float:
        """Return seconds that only ever grow."""
        return self._fallback.passed()

    def tune(self, now: float, asked_at: float) -> None:
        """Take the shared time in, which was true somewhere between asking and now."""
        self._ahead = now - (asked_at + self.passed()) / 2

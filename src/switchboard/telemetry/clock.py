"""The clock of the machine, for everything that asks what time it is."""

import time
from typing import final


@final
class SystemClock:
    """The real time. Fulfils `actions.ports.Clock`, which this room may not import."""

    def now(self) -> float:
        """Return seconds since 1970."""
        return time.time()

    def passed(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()

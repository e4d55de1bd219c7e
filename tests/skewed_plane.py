"""A control plane on a machine whose clock is wrong by so many seconds: `skewed_plane.py SECONDS serve …`.

The same process as `switchboard serve`, wired with another clock.
"""

import os
import sys
import time
from typing import final

from switchboard.actions.ports import Clock
from switchboard.serving import serve
from switchboard.settings import serve_settings


@final
class WrongClock(Clock):
    """Tells a time that it is not."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    def now(self) -> float:
        """Return the wrong time."""
        return time.time() + self._ahead_s

    def passed(self) -> float:
        """Return seconds that only ever grow, which are right everywhere."""
        return time.monotonic()


if __name__ == "__main__":
    arguments = dict(zip(sys.argv[3::2], sys.argv[4::2], strict=True))
    flags = {"port": int(arguments["--port"]), "database_url": arguments["--database-url"]}
    sys.exit(serve(serve_settings(flags, os.environ), WrongClock(float(sys.argv[1]))))

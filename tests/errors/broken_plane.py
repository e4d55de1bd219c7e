"""A control plane whose clock fails once for a file that is put there: `broken_plane.py FILE serve …`."""

import os
import sys
import time
from pathlib import Path
from typing import final

from switchboard.actions.ports import Clock
from switchboard.serving import serve
from switchboard.settings import serve_settings


@final
class BrokenClock(Clock):
    """Fails once, in a way nobody thought of, whenever a file is there."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> float:
        """Return the time, or fail."""
        if self._file.exists():
            self._file.unlink()
            raise ZeroDivisionError
        return time.time()

    def passed(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()


if __name__ == "__main__":
    arguments = dict(zip(sys.argv[3::2], sys.argv[4::2], strict=True))
    flags = {"port": int(arguments["--port"]), "database_url": arguments["--database-url"]}
    sys.exit(serve(serve_settings(flags, os.environ), BrokenClock(Path(sys.argv[1]))))

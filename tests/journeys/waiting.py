"""Waiting for something to happen, with a limit."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    """Wait for a condition, with a limit."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)

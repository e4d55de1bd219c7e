"""Pipes whose ends are closed once, by whoever comes first.

A number of a descriptor is given away again as soon as it is closed. Who closes it a second time closes what somebody
else has opened since: in a run of many tests, a file or a pipe of another thread.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from io import FileIO
from typing import NamedTuple


class Pipe(NamedTuple):
    """The end to read from, and the end to write to."""

    source: FileIO
    target: FileIO


@contextmanager
def open_pipe() -> Generator[Pipe]:
    """Open a pipe; a test may close either end before."""
    source, target = os.pipe()
    with FileIO(source, "rb") as reading, FileIO(target, "wb") as writing:
        yield Pipe(reading, writing)

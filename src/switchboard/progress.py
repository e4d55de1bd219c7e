"""What a person reads while they wait: nothing within the first second, and nothing where nobody watches.

One line on standard error, which counts the seconds and is gone afterwards.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TextIO

FIRST_S = 1.0
_CLEAR = "\r\x1b[K"


@contextmanager
def waiting(what: str | Callable[[], str], stream: TextIO | None = None) -> Generator[None]:
    """Say on a terminal what is being waited for, once it takes longer than a second."""
    target = stream or sys.stderr
    if not target.isatty():
        yield
        return
    over = Event()
    thread = Thread(target=_tell, args=(what, target, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _tell(what: str | Callable[[], str], target: TextIO, over: Event) -> None:
    begun = monotonic()
    said = False
    while not over.wait(FIRST_S):
        text = what if isinstance(what, str) else what()
        target.write(f"{_CLEAR}{text} ... {monotonic() - begun:.0f} s")
        target.flush()
        said = True
    if said:
        target.write(_CLEAR)
        target.flush()

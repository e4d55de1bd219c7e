"""Lines over standard input and output: one message a line, and nothing else on the output, ever.

Reading and writing never block the loop, whoever is at the other end. Where the system can wait for a descriptor, the
loop does; where it cannot (Windows, a file as input), a thread reads. A client that does not read is not listened to
either, so its own requests wait instead of our memory growing. Too long a line is dropped and answered, not kept.
"""

import os
import select
import sys
import threading
from asyncio import FIRST_COMPLETED, AbstractEventLoop, Event, Task, get_running_loop, wait, wait_for
from collections.abc import Callable

LONGEST = 16 * 1024 * 1024
"""The longest message that is taken."""
_CHUNK = 65536
_PIECE = 4096
"""What a pipe that can be written to takes without blocking (POSIX: PIPE_BUF is at least 512, and 4096 on Linux)."""
_MOST_UNSENT = 8 * 1024 * 1024
_LOOK_AFTER_S = 1.0


class Lines:
    """Cuts a stream of bytes into lines; a line that is too long is reported once and skipped."""

    def __init__(self, take: Callable[[bytes], None], refuse: Callable[[], None], longest: int = LONGEST) -> None:
        self._take = take
        self._refuse = refuse
        self._longest = longest
        self._pieces: list[bytes] = []
        self._length = 0
        self._skipping = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._add(piece)
            self.end()
        self._add(rest)

    def end(self) -> None:
        """Take what has gathered as a line."""
        line = b"".join(self._pieces)
        self._pieces.clear()
        self._length = 0
        skipped, self._skipping = self._skipping, False
        if not skipped and not line.isspace() and line:
            self._take(line)

    def _add(self, piece: bytes) -> None:
        if self._skipping or not piece:
            return
        self._length += len(piece)
        if self._length > self._longest:
            self._skipping = True
            self._pieces.clear()
            self._refuse()
        else:
            self._pieces.append(piece)


class Output:
    """Writes messages to a descriptor, in order, as fast as the other end reads."""

    def __init__(self, descriptor: int, loop: AbstractEventLoop, failed: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._failed = failed
        self._unsent = bytearray()
        self._waiting = False
        self._broken = False
        self._poll = _writable(descriptor)
        self.drained = Event()
        self.drained.set()

    @property
    def is_full(self) -> bool:
        """Whether so much is unsent that no more should be asked for."""
        return len(self._unsent) > _MOST_UNSENT

    def send(self, message: bytes) -> None:
        """Send one message; what the other end does not take now is sent when it does."""
        if self._broken:
            return
        self._unsent += message
        self._unsent += b"\n"
        if not self._waiting:
            self._flush()

    async def finish(self, within_s: float) -> None:
        """Wait until everything is sent, but not longer than that."""
        try:
            await wait_for(self.drained.wait(), within_s)
        except TimeoutError:
            self._rest()

    def _flush(self) -> None:
        try:
            while self._unsent and self._poll():
                sent = os.write(self._descriptor, self._unsent[:_PIECE])
                del self._unsent[:sent]
        except OSError:  # nobody is there any more
            self._broken = True
            self._unsent.clear()
            self._failed()
        self._wait() if self._unsent else self._rest()

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting = True
            self.drained.clear()
            self._loop.add_writer(self._descriptor, self._flush)

    def _rest(self) -> None:
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._descriptor)
        self.drained.set()


def _writable(descriptor: int) -> Callable[[], bool]:
    """Return how to tell whether a write of one piece would not block; where nobody can tell, it is tried."""
    if sys.platform == "win32":
        return lambda: True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return lambda: bool(poll.poll(0))


class Input:
    """Reads from a descriptor until it ends, pausing while `is_full` says so."""

    def __init__(self, descriptor: int, loop: AbstractEventLoop, feed: Callable[[bytes], None], output: Output) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._feed = feed
        self._output = output
        self._pause: Task[None] | None = None
        self.ended = Event()

    def start(self) -> None:
        """Begin to read."""
        try:
            self._loop.add_reader(self._descriptor, self._ready)
        except (NotImplementedError, PermissionError, ValueError):  # Windows; a file; a descriptor select refuses
            threading.Thread(target=self._read_in_thread, daemon=True).start()

    def _ready(self) -> None:
        data = _read(self._descriptor)
        if not data:
            self._loop.remove_reader(self._descriptor)
            self.ended.set()
            return
        self._feed(data)
        if self._output.is_full:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.create_task(self._until_read())

    async def _until_read(self) -> None:
        """Wait until the client reads again; look now and then whether it is still there at all."""
        while self._output.is_full:
            try:
                await wait_for(self._output.drained.wait(), _LOOK_AFTER_S)
            except TimeoutError:
                if _is_hung_up(self._descriptor):
                    self.ended.set()
                    return
        self.start()

    def _read_in_thread(self) -> None:
        while data := _read(self._descriptor):
            self._loop.call_soon_threadsafe(self._feed, data)
        self._loop.call_soon_threadsafe(self.ended.set)


def _is_hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:  # the other end is gone in a way that is an error on this system
        return b""


async def until_quiet(source: Input, failed: Event) -> None:
    """Wait until the client has closed its side, or cannot be written to."""
    loop = get_running_loop()
    waits = [loop.create_task(event.wait()) for event in (source.ended, failed)]
    try:
        await wait(waits, return_when=FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()

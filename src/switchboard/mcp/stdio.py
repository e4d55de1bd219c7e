"""Lines over standard input and output: one message a line, and nothing else on the output, ever.

Reading and writing never block the loop, whoever is at the other end. Where the system can wait for a descriptor, the
loop does; where it cannot (Windows, a file as input), a thread reads. A client that does not read is not listened to
either, so its own requests wait instead of our memory growing. Too long a line is dropped and answered, not kept.
"""

import os
import select
import stat
import sys
import threading
from asyncio import (
    FIRST_COMPLETED,
    AbstractEventLoop,
    Event,
    Task,
    get_running_loop,
    run_coroutine_threadsafe,
    wait,
    wait_for,
)
from collections.abc import Callable
from contextlib import suppress

if sys.platform == "linux":
    import fcntl

LONGEST = 16 * 1024 * 1024
"""The longest message that is taken."""
_CHUNK = 65536
_PIECE = 4096
"""What a pipe that can be written to takes without blocking (POSIX: PIPE_BUF is at least 512, and 4096 on Linux)."""
_ROOM = 256 * 1024
"""What a pipe of our own holds: a list of some hundred apps in one go, and a small part of what a user may have."""
_MOST_UNSENT = 8 * 1024 * 1024
_LOOK_AFTER_S = 1.0


class Lines:
    """Cuts a stream of bytes into lines; a line that is too long is reported once and skipped."""

    def __init__(self, take: Callable[[bytes], None], refuse: Callable[[], None], longest: int = LONGEST) -> None:
        self._take = take
        self._refuse = refuse
        self._longest = longest
        self._line = bytearray()  # not a list of pieces: a client that writes byte by byte would make millions of them
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
        line, self._line = bytes(self._line), bytearray()
        skipped, self._skipping = self._skipping, False
        if not skipped and not line.isspace() and line:
            self._take(line)

    def _add(self, piece: bytes) -> None:
        if self._skipping:
            return
        if len(self._line) + len(piece) > self._longest:
            self._skipping = True
            self._line = bytearray()
            self._refuse()
        else:
            self._line += piece


class Output:
    """Writes messages to a descriptor, in order, as fast as the other end reads."""

    def __init__(self, descriptor: int, loop: AbstractEventLoop, failed: Callable[[], None]) -> None:
        own = _own_way(descriptor)
        self._descriptor = descriptor if own is None else own
        self._may_write = _writable(descriptor) if own is None else None
        """For a descriptor that would keep us waiting; one of our own says itself that it is full."""
        self._loop = loop
        self._failed = failed
        self._unsent = bytearray()
        self._waiting = False
        self._broken = False
        self.sent = 0
        """Bytes that the other end, or the system for it, has taken."""
        self.drained = Event()
        self.drained.set()

    @property
    def is_full(self) -> bool:
        """Whether so much is unsent that no more should be asked for."""
        return len(self._unsent) > _MOST_UNSENT

    def send(self, message: bytes) -> None:
        """Send one message; what the other end does not take now is sent when it does."""
        sent = 0 if self._waiting or self._broken else self._write(message, b"\n")
        if self._broken:
            return
        if sent <= len(message):  # else the end of the line is sent, too
            self._unsent += memoryview(message)[sent:]
            self._unsent += b"\n"
        if not self._waiting:
            self._flush()

    async def finish(self, within_s: float) -> None:
        """Wait until everything is sent; give up on an other end that takes nothing for that long."""
        while not self.drained.is_set():
            before = self.sent
            try:
                await wait_for(self.drained.wait(), within_s)
            except TimeoutError:
                if self.sent == before or not within_s:
                    self._rest()

    def _flush(self) -> None:
        while self._unsent:
            with memoryview(self._unsent) as rest:
                sent = self._write(rest)
            if not sent:
                break
            del self._unsent[:sent]
        if self._broken:
            self._unsent.clear()
        self._wait() if self._unsent else self._rest()

    def _write(self, *pieces: bytes | memoryview) -> int:
        """Write what the other end takes now, and return how much that is; nothing if it is gone."""
        sent = 0
        try:
            if self._may_write is None:
                sent = os.writev(self._descriptor, pieces)
            elif self._may_write():
                sent = os.write(self._descriptor, pieces[0][:_PIECE])
        except BlockingIOError:  # it is taken later
            pass
        except OSError:  # nobody is there any more
            self._broken = True
            self._failed()
        self.sent += sent
        return sent

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


def _own_way(descriptor: int) -> int | None:
    """Return a descriptor to write to as much as it takes; None where there is only the one that we were given.

    Linux opens a pipe again for who holds it: a way of our own that may be told not to wait, without telling so whoever
    shares the one we were given. It is made larger where the system lets us: a long list that is sent in several goes
    takes twice the CPU, and four kilobytes at a time many times that.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # nobody reads it any more, or the system does not say what we hold
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
                with suppress(OSError):  # this user has no room left for pipes
                    if fcntl.fcntl(own, fcntl.F_GETPIPE_SZ) < _ROOM:
                        fcntl.fcntl(own, fcntl.F_SETPIPE_SZ, _ROOM)
                return own
    return None


def _writable(descriptor: int) -> Callable[[], bool]:
    """Return how to tell whether a write of one piece would not block; where nobody can tell, it is tried."""
    if sys.platform == "win32":
        return lambda: True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return lambda: bool(poll.poll(0))


class Input:
    """Reads from a descriptor until it ends, pausing while the output is full, even between two lines it has read."""

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
        if data is None:
            return
        if not data:
            self._loop.remove_reader(self._descriptor)
            self.ended.set()
            return
        rest = self._feed_some(data)
        if rest or self._output.is_full:
            self._loop.remove_reader(self._descriptor)
            self._pause = self._loop.create_task(self._go_on(rest))

    def _feed_some(self, data: bytes) -> bytes:
        """Pass on line by line until the output is full, for short requests have long answers; return what is left."""
        begin = 0
        while begin < len(data) and not self._output.is_full:
            end = data.find(b"\n", begin) + 1 or len(data)
            self._feed(data[begin:end])
            begin = end
        return data[begin:]

    async def _go_on(self, rest: bytes) -> None:
        if await self._feed_all(rest):
            self.start()
        else:
            self.ended.set()

    async def _feed_all(self, data: bytes) -> bool:
        """Pass on everything, as fast as the client reads the answers; tell whether it is still there to do so."""
        while data or self._output.is_full:
            if self._output.is_full and not await self._is_read():
                return False
            data = self._feed_some(data)
        return True

    async def _is_read(self) -> bool:
        """Wait until the client has read everything; tell whether it has, or has gone without."""
        while True:
            before = self._output.sent
            try:
                await wait_for(self._output.drained.wait(), _LOOK_AFTER_S)
            except TimeoutError:
                if self._output.sent == before and _is_hung_up(self._descriptor):
                    return False
            else:
                return True

    def _read_in_thread(self) -> None:
        with suppress(RuntimeError):  # the loop has ended before the input
            while data := _read(self._descriptor):
                if not run_coroutine_threadsafe(self._feed_all(data), self._loop).result():
                    break
            self._loop.call_soon_threadsafe(self.ended.set)


def _is_hung_up(descriptor: int) -> bool:
    if sys.platform == "win32":  # nobody can tell
        return False
    hung_up = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # the latter for a socket that is closed on one side
    poll = select.poll()
    poll.register(descriptor, hung_up)
    return any(events & hung_up for _, events in poll.poll(0))


def _read(descriptor: int) -> bytes | None:
    """Return what is there, nothing at the end, and None if it turns out that nothing is there yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:  # whoever shares the descriptor has made it so, and has read it
        return None
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

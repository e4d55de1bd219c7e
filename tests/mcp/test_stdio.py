"""Lines over descriptors: cut anywhere, read as fast as the answers are read, written without ever waiting."""

import asyncio
import os
import random
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from socket import SHUT_WR, socketpair

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.piping import Pipe, open_pipe

from switchboard.mcp.stdio import Input, Lines, Output, until_quiet

LIMIT_S = 20
MANY = 150_000
"""About the bytes of a list of five hundred apps."""
MUCH = 9 * 1024 * 1024
"""More than an output keeps before its input pauses."""


def cut(pieces: list[bytes], longest: int = 1000) -> list[bytes | None]:
    """Return the lines that come of some pieces, with None for one that was refused."""
    seen: list[bytes | None] = []
    lines = Lines(seen.append, lambda: seen.append(None), longest)
    for piece in pieces:
        lines.feed(piece)
    lines.end()
    return seen


@st.composite
def streams_in_pieces(draw: st.DrawFn) -> list[bytes]:
    text = draw(st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"{}", b" ", b"\0", b"\xff", b"longer"])).map(b"".join))
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(streams_in_pieces())
def test_lines_are_the_same_however_the_bytes_are_cut(pieces: list[bytes]) -> None:
    """Pipes cut where they like, in the middle of a line and of a character."""
    whole = b"".join(pieces)

    assert cut(pieces) == cut([whole])
    assert cut(pieces) == [line for line in whole.split(b"\n") if line.strip()]


@given(streams_in_pieces())
def test_too_long_a_line_is_refused_once_and_alone_however_it_is_cut(pieces: list[bytes]) -> None:
    """The lines around it are taken."""
    whole = b"".join(pieces)

    expected = [None if len(line) > 7 else line for line in whole.split(b"\n") if line.strip() or len(line) > 7]
    assert cut(pieces, longest=7) == expected


def test_a_line_of_exactly_the_limit_is_taken() -> None:
    """Its end does not count."""
    assert cut([b"1234567\n12345678\n1\n"], longest=7) == [b"1234567", None, b"1"]


def test_a_line_without_an_end_is_a_line_where_the_input_ends() -> None:
    """A client that forgets the last line end still gets its answer."""
    assert cut([b"one\ntw", b"o"]) == [b"one", b"two"]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with open_pipe() as found:
        yield found


async def read_from(source: int, size: int) -> bytes:
    """Read this many bytes as a client does that is in no hurry, without keeping the loop."""
    gathered = bytearray()
    while len(gathered) < size:
        gathered += await asyncio.to_thread(os.read, source, 65536)
    return bytes(gathered)


def within(story: Callable[[], Awaitable[None]]) -> None:
    """Tell a story, with a limit."""

    async def limited() -> None:
        await asyncio.wait_for(story(), LIMIT_S)

    asyncio.run(limited())


class Ends:
    """An output, and how often it has said that nobody is there any more."""

    def __init__(self, descriptor: int) -> None:
        self.gone = asyncio.Event()
        self.output = Output(descriptor, asyncio.get_running_loop(), self.gone.set)


def test_messages_are_lines_in_their_order(pipe: Pipe) -> None:
    """And are there at once where the other end has room."""

    async def story() -> None:
        output = Ends(pipe.target.fileno()).output
        output.send(b"one")
        output.send(b"two")

        assert output.drained.is_set()
        assert os.read(pipe.source.fileno(), 100) == b"one\ntwo\n"

    within(story)


def test_what_the_other_end_does_not_take_waits_without_keeping_anybody(pipe: Pipe) -> None:
    """The sender goes on, and everything arrives when somebody reads."""

    async def story() -> None:
        output = Ends(pipe.target.fileno()).output
        messages = [str(number).encode() * 1000 for number in range(500)]
        for message in messages:
            output.send(message)
        expected = b"".join(message + b"\n" for message in messages)

        assert not output.drained.is_set()
        assert await read_from(pipe.source.fileno(), len(expected)) == expected
        await output.drained.wait()
        assert output.sent == len(expected)

    within(story)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_messages_of_every_length_arrive_whole_however_they_are_read(pipe: Pipe, kind: str) -> None:
    """Sent in one go, cut anywhere by a full pipe, or behind others that wait."""
    dice = random.Random(kind)  # noqa: S311 - the same lengths every time
    messages = [dice.randbytes(int(10 ** dice.uniform(0, 5.7))) for _ in range(60)] + [b"", b"x" * MANY]
    expected = b"".join(message + b"\n" for message in messages)

    async def story(source: int, target: int) -> None:
        output, read = Ends(target).output, bytearray()
        for message in messages:
            output.send(message)
            read += await read_from(source, min(dice.choice((1, 5_000, MANY)), output.sent - len(read)))
        while len(read) < len(expected):
            read += await read_from(source, 1)
        await output.drained.wait()

        assert read == expected
        assert output.sent == len(expected)

    ours, theirs = socketpair()
    with ours, theirs:
        ends = (pipe.source.fileno(), pipe.target.fileno()) if kind == "pipe" else (ours.fileno(), theirs.fileno())
        within(lambda: story(*ends))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux makes a pipe larger when it is asked to")
def test_a_list_of_some_hundred_apps_fits_into_the_pipe(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one go, without waiting; where the system gives no more room, it is sent as it is taken."""
    few, many = b"x" * (MANY // 4), b"x" * MANY

    async def story() -> None:
        with open_pipe() as other, monkeypatch.context() as patch:
            patch.setattr("switchboard.mcp.stdio.fcntl.fcntl", refuse)
            small = Ends(other.target.fileno()).output
            small.send(many)
            assert not small.drained.is_set()
            assert await read_from(other.source.fileno(), len(many) + 1) == many + b"\n"
        output = Ends(pipe.target.fileno()).output
        for message in (many, few):
            output.send(message)
            assert output.drained.is_set()

    def refuse(*_: object) -> int:
        raise PermissionError

    within(story)


def test_a_descriptor_that_does_not_wait_loses_nothing(pipe: Pipe) -> None:
    """A client may have made it so; to be told to try again is not to be told that nobody is there."""
    os.set_blocking(pipe.target.fileno(), False)

    async def story() -> None:
        ends = Ends(pipe.target.fileno())
        ends.output.send(b"x" * MUCH)

        assert await read_from(pipe.source.fileno(), MUCH + 1) == b"x" * MUCH + b"\n"
        assert not ends.gone.is_set()

    within(story)


def test_an_other_end_that_is_gone_is_told_once_and_nothing_is_kept_for_it(pipe: Pipe) -> None:
    """Neither when it goes before a message nor when it goes while one waits."""

    async def story() -> None:
        ends = Ends(pipe.target.fileno())
        ends.output.send(b"x" * MUCH)
        assert ends.output.is_full
        pipe.source.close()
        await ends.gone.wait()
        ends.output.send(b"x" * MUCH)

        assert not ends.output.is_full
        assert ends.output.drained.is_set()

    within(story)


def test_finishing_gives_up_on_an_other_end_that_takes_nothing(pipe: Pipe) -> None:
    """Whether it is to wait a little or not at all."""

    async def story() -> None:
        for patience in (0, 0.05):
            output = Ends(pipe.target.fileno()).output
            output.send(b"x" * MUCH)
            await output.finish(patience)
            assert output.is_full

    within(story)


def test_finishing_waits_for_an_other_end_that_is_slow(pipe: Pipe) -> None:
    """As long as it takes something, everything is sent, however much longer than the patience that is."""

    async def story() -> None:
        output = Ends(pipe.target.fileno()).output
        output.send(b"x" * MUCH)
        reading = asyncio.create_task(read_from(pipe.source.fileno(), MUCH + 1))
        await output.finish(0.5)

        assert len(await reading) == MUCH + 1

    within(story)


class Conversation:
    """Requests of a line each, every one of them answered with as much as is said."""

    def __init__(self, source: int, target: int, answer: bytes = b"") -> None:
        self.ends = Ends(target)
        self.taken: list[bytes] = []
        self._answer = answer
        self._lines = Lines(self._take, lambda: None)
        self.input = Input(source, asyncio.get_running_loop(), self._lines.feed, self.ends.output)

    def _take(self, line: bytes) -> None:
        self.taken.append(line)
        if self._answer:
            self.ends.output.send(self._answer)


@pytest.fixture
def other() -> Iterator[Pipe]:
    """Open a second pipe, for the answers."""
    with open_pipe() as found:
        yield found


def test_input_is_passed_on_until_it_ends(pipe: Pipe, other: Pipe) -> None:
    """The end is told after the last line."""

    async def story() -> None:
        conversation = Conversation(pipe.source.fileno(), other.target.fileno())
        conversation.input.start()
        os.write(pipe.target.fileno(), b"one\ntwo\n")
        pipe.target.close()
        await until_quiet(conversation.input, conversation.ends.gone)

        assert conversation.taken == [b"one", b"two"]

    within(story)


def test_a_client_that_does_not_read_is_not_listened_to_even_within_what_was_read_already(
    pipe: Pipe, other: Pipe
) -> None:
    """A thousand short requests fit into one read; their long answers must not all wait in memory at once."""

    async def story() -> None:
        conversation = Conversation(pipe.source.fileno(), other.target.fileno(), answer=b"x" * 200_000)
        conversation.input.start()
        os.write(pipe.target.fileno(), b"ask\n" * 100)
        while not conversation.ends.output.is_full:  # noqa: ASYNC110 - what is waited for is no event
            await asyncio.sleep(0)
        before = len(conversation.taken)
        answers = await read_from(other.source.fileno(), 100 * 200_001)

        assert before < 60
        assert len(conversation.taken) == 100
        assert answers.count(b"\n") == 100

    within(story)


def test_a_client_that_neither_reads_nor_stays_is_noticed(pipe: Pipe, other: Pipe) -> None:
    """Its end of the input is closed, and nothing of the answers is taken."""

    async def story() -> None:
        conversation = Conversation(pipe.source.fileno(), other.target.fileno(), answer=b"x" * MUCH)
        conversation.input.start()
        os.write(pipe.target.fileno(), b"ask\nask\n")
        pipe.target.close()
        await until_quiet(conversation.input, conversation.ends.gone)

        assert conversation.taken == [b"ask"]

    within(story)


def test_a_client_on_a_socket_that_neither_reads_nor_writes_any_more_is_noticed(other: Pipe) -> None:
    """Node gives its children sockets, and ends them on one side first."""
    ours, theirs = socketpair()

    async def story() -> None:
        conversation = Conversation(ours.fileno(), other.target.fileno(), answer=b"x" * MUCH)
        conversation.input.start()
        theirs.sendall(b"ask\nask\n")
        theirs.shutdown(SHUT_WR)
        await until_quiet(conversation.input, conversation.ends.gone)

        assert conversation.taken == [b"ask"]

    with ours, theirs:
        within(story)


def test_a_client_that_cannot_be_written_to_ends_the_conversation(pipe: Pipe, other: Pipe) -> None:
    """Even while its end of the input stays open."""

    async def story() -> None:
        conversation = Conversation(pipe.source.fileno(), other.target.fileno(), answer=b"answer")
        conversation.input.start()
        other.source.close()
        os.write(pipe.target.fileno(), b"ask\n")
        await until_quiet(conversation.input, conversation.ends.gone)

        assert conversation.ends.gone.is_set()
        assert not conversation.input.ended.is_set()

    within(story)


def test_a_file_is_read_as_fast_as_its_answers_are_taken(tmp_path: Path, other: Pipe) -> None:
    """A loop cannot wait for a file, so a thread reads it, and waits as everybody does."""
    file = tmp_path / "requests"
    file.write_bytes(b"ask\n" * 200_000)
    source = os.open(file, os.O_RDONLY)

    async def story() -> None:
        conversation = Conversation(source, other.target.fileno(), answer=b"x" * 100)
        conversation.input.start()
        while not conversation.ends.output.is_full:  # noqa: ASYNC110 - what is waited for is no event
            await asyncio.sleep(0)
        position = os.lseek(source, 0, os.SEEK_CUR)
        answers = await read_from(other.source.fileno(), 200_000 * 101)
        await conversation.input.ended.wait()

        assert position < file.stat().st_size
        assert answers.count(b"\n") == len(conversation.taken) == 200_000

    within(story)
    os.close(source)


def test_nothing_as_input_ends_at_once(other: Pipe) -> None:
    """The null device cannot be waited for either."""
    source = os.open(os.devnull, os.O_RDONLY)

    async def story() -> None:
        conversation = Conversation(source, other.target.fileno())
        conversation.input.start()
        await until_quiet(conversation.input, conversation.ends.gone)

        assert conversation.taken == []

    within(story)
    os.close(source)

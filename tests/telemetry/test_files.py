"""The log of a gateway on disk and on standard error: neither stops it, whatever becomes of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import final

import pytest
from tests.piping import Pipe, open_pipe

from switchboard.telemetry.files import LogFile, Several, StandardError
from switchboard.telemetry.logs import Log, Stream

FULL = 1024 * 1024
"""More than any pipe holds."""


@final
class Notes(Stream):
    """Keeps what is written to it, a few bytes at a time."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, data: bytes, /) -> int:
        """Take at most three bytes."""
        self.text += data[:3]
        return len(data[:3])


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with open_pipe() as found:
        yield found


def test_a_log_file_is_made_with_its_folders_for_its_owner_alone(tmp_path: Path) -> None:
    """Nobody else reads what somebody's apps are called."""
    path = tmp_path / "state/log/gateway.log"

    LogFile(path).write(b"one\n")

    assert path.read_bytes() == b"one\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_second_gateway_appends_to_the_same_log(tmp_path: Path) -> None:
    """Two chats at once are two gateways with one log."""
    first, second = LogFile(tmp_path / "gateway.log"), LogFile(tmp_path / "gateway.log")

    for log, line in ((first, b"a\n"), (second, b"b\n"), (first, b"c\n")):
        log.write(line)

    assert (tmp_path / "gateway.log").read_bytes() == b"a\nb\nc\n"


def test_a_log_that_has_grown_too_long_is_put_aside(tmp_path: Path) -> None:
    """While it is being written too: a chat may stay open for weeks."""
    log = LogFile(tmp_path / "gateway.log", largest=5)

    for line in (b"first\n", b"second\n", b"third\n"):
        log.write(line)

    assert (tmp_path / "gateway.log").read_bytes() == b"third\n"
    assert (tmp_path / "gateway.old.log").read_bytes() == b"second\n"


def test_a_log_that_somebody_else_put_aside_is_followed_not_put_aside_again(tmp_path: Path) -> None:
    """Or two gateways would push each other's lines away."""
    first, second = LogFile(tmp_path / "gateway.log", largest=5), LogFile(tmp_path / "gateway.log", largest=5)
    first.write(b"before\n")
    first.write(b"x\n")

    second.write(b"y\n")

    assert (tmp_path / "gateway.log").read_bytes() == b"x\ny\n"
    assert (tmp_path / "gateway.old.log").read_bytes() == b"before\n"


def test_a_log_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    """A file where a folder should be, a folder where the file should be, a pipe that nobody reads."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.log").mkdir()
    os.mkfifo(tmp_path / "pipe.log")

    for path in ("file/gateway.log", "folder.log", "pipe.log"):
        with pytest.raises(OSError, match=path.split("/")[0]):
            LogFile(tmp_path / path)


def test_standard_error_that_nobody_reads_is_written_as_far_as_it_goes(pipe: Pipe) -> None:
    """And returns: the caller has better things to do than to wait for a reader."""
    source, target = pipe
    stream = StandardError(target.fileno())

    written = stream.write(b"x" * FULL)

    assert written == FULL
    assert 4096 <= len(os.read(source.fileno(), FULL)) < FULL


def test_a_line_that_was_cut_does_not_run_into_the_next_one(pipe: Pipe) -> None:
    """What a client shows stays readable after a pause."""
    source, target = pipe
    stream = StandardError(target.fileno())
    stream.write(b"x" * FULL)
    os.read(source.fileno(), FULL)

    stream.write(b"next\n")

    assert os.read(source.fileno(), FULL) == b"\nnext\n"


def test_a_descriptor_that_does_not_wait_is_full_not_broken(pipe: Pipe) -> None:
    """Whoever shares it may have made it so."""
    source, target = pipe
    os.set_blocking(target.fileno(), False)
    log = Several([StandardError(target.fileno())])
    log.write(b"x" * FULL)
    os.read(source.fileno(), FULL)

    log.write(b"next\n")

    assert os.read(source.fileno(), FULL) == b"\nnext\n"


def test_several_streams_get_everything_however_little_they_take_at_once() -> None:
    """A short write is not a lost one."""
    notes = [Notes(), Notes()]

    written = Several(notes).write(b"one line\n")

    assert written == 9
    assert [note.text for note in notes] == [b"one line\n"] * 2


def test_a_stream_that_fails_is_left_out_and_the_others_go_on(pipe: Pipe) -> None:
    """A client that has closed its end of standard error leaves the file."""
    source, target = pipe
    source.close()
    notes = Notes()
    several = Several([StandardError(target.fileno()), notes])

    several.write(b"one\n")
    target.close()
    several.write(b"two\n")

    assert notes.text == b"one\ntwo\n"


def test_a_log_without_any_stream_left_takes_events_all_the_same() -> None:
    """Nothing is lost that somebody could have read."""
    log = Log(Several([]))

    log.event("error", "nobody.reads", 0.0)

    assert log.lost == 0

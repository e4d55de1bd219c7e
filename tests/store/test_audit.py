"""The audit record: one line each, in the user's own folder, from which nobody reads what the arguments were."""

import os
import stat
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from switchboard.actions.ports import Entry
from switchboard.store.audit import AuditFile, read


def entry(call: str = "c1") -> Entry:
    return Entry(
        at=1.5,
        call=call,
        caller="a client",
        owner="com.example.mail",
        origin="file:///home/ann/.aai/com.example.mail/aai.json",
        capability="send_email",
        decision="allowed",
        outcome="OK",
        duration_ms=3,
        arguments_hash="00",
    )


def test_lines_are_appended_and_read_back_in_their_order(tmp_path: Path) -> None:
    """By several writers, as several gateways are."""
    path = tmp_path / "audit/gateway.jsonl"
    for call in ("a", "b"):
        AuditFile(path).note(entry(call))

    assert [line.call for line in read(path)] == ["a", "b"]


def test_only_the_user_can_read_the_record_and_its_key(tmp_path: Path) -> None:
    """Who called what when is nobody else's business."""
    path = tmp_path / "audit/gateway.jsonl"
    audit = AuditFile(path)
    audit.note(entry())
    audit.fingerprint(b"{}")

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"gateway.jsonl": 0o600, "key": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_line_that_a_crash_cut_off_hides_no_other(tmp_path: Path) -> None:
    """The rest is still a record."""
    path = tmp_path / "audit.jsonl"
    AuditFile(path).note(entry("a"))
    with path.open("ab") as file:
        file.write(b'{"at": 1.5, "call": "b"\n')
    AuditFile(path).note(entry("c"))

    assert [line.call for line in read(path)] == ["a", "c"]


def test_no_record_is_an_empty_one(tmp_path: Path) -> None:
    """Nothing was executed yet."""
    assert list(read(tmp_path / "none.jsonl")) == []


def test_a_record_that_cannot_be_written_stops_nothing_and_is_counted(tmp_path: Path) -> None:
    """A full disk must not keep a call from being put through."""
    (tmp_path / "file").touch()
    audit = AuditFile(tmp_path / "file/audit.jsonl")

    audit.note(entry())

    assert audit.lost == 1


def test_the_same_arguments_have_the_same_fingerprint_on_one_machine_only(tmp_path: Path) -> None:
    """Two processes of one user agree; a stranger who guesses arguments cannot check the guess."""
    mine, other = AuditFile(tmp_path / "a/gateway.jsonl"), AuditFile(tmp_path / "b/gateway.jsonl")
    program = "import sys; from pathlib import Path; from switchboard.store.audit import AuditFile; "
    program += "print(AuditFile(Path(sys.argv[1])).fingerprint(b'{}'))"

    prints = [mine.fingerprint(b"{}"), other.fingerprint(b"{}"), sha256(b"{}").hexdigest()[:32]]

    again = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program, str(tmp_path / "a/gateway.jsonl")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert again.stdout.strip() == prints[0]
    assert len(set(prints)) == 3
    assert mine.fingerprint(b'{"a":1}') != prints[0]

"""The demonstrations: what a newcomer sees after `make run`, and `switchboard demo` in a second terminal."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.gateways import environment_of

from switchboard.demo import AGENTS
from switchboard.demo_apps import NOTES, WEATHER

BIN = Path(sys.executable).parent
SWITCHBOARD = str(BIN / "switchboard")


def test_the_gateway_is_shown_at_work_with_apps_that_run(tmp_path: Path) -> None:
    """List, guide, refusal, consent, call, a web app, the record; and nothing of it stays."""
    done = subprocess.run(  # noqa: S603 - our own command
        [SWITCHBOARD, "demo", "--yes"],
        env=environment_of(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    order = (
        f"app:{NOTES}",
        "# Demo notes Operation Guide",
        "CONSENT_REQUIRED",
        "It is allowed.",
        '{"id":1,"text":"Buy tea"}',
        "# Demo weather Operation Guide",
        "First contact with this web app",
        '{"city":"Lisbon"',
        f"{WEATHER}:forecast",
        "3 executions",
    )
    places = [done.stdout.index(part) for part in order]
    assert places == sorted(places)
    assert "\x1b" not in done.stdout
    assert [file for file in tmp_path.rglob("*") if file.is_file() and file.name != "spawned.txt"] == []


def test_who_says_no_sees_that_nothing_runs(tmp_path: Path) -> None:
    """At a real terminal; exit code 1."""
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - another process
        os.execve(SWITCHBOARD, [SWITCHBOARD, "demo"], environment_of(tmp_path))  # noqa: S606 - our own command
    seen, answered = b"", False
    with suppress(OSError):  # that is how a terminal says that it was left
        while select.select([terminal], [], [], 60)[0] and (part := os.read(terminal, 65536)):
            seen += part
            if not answered and b"[y/N]" in seen:
                os.write(terminal, b"n\n")
                answered = True
    _, status = os.waitpid(child, 0)
    os.close(terminal)

    assert os.waitstatus_to_exitcode(status) == 1
    assert b"You did not allow it, so nothing was run." in seen
    assert b'"Buy tea"}\r\n\r\n4' not in seen


def test_a_script_has_to_say_yes_beforehand(tmp_path: Path) -> None:
    """Nobody could answer."""
    done = subprocess.run(  # noqa: S603 - our own command
        [SWITCHBOARD, "demo"],
        env=environment_of(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "Give --yes." in done.stderr


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[str]]:
    """What `switchboard serve --demo` prints, while it runs."""
    home = tmp_path_factory.mktemp("home")
    process = subprocess.Popen(  # noqa: S603 - our own command
        [SWITCHBOARD, "serve", "--demo", "--port", "0"],
        env=environment_of(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().rstrip("\n")]
    while "install cursor" not in lines[-1]:
        lines.append(process.stdout.readline().rstrip("\n"))
        assert len(lines) < 100
    yield lines
    process.terminate()
    process.communicate(timeout=30)


def test_make_run_shows_what_the_sample_agents_can_do(printed: list[str]) -> None:
    """The table of `switchboard discover`, once they have registered."""
    assert printed[0].startswith("Switchboard control plane on http://127.0.0.1:")
    head = next(line for line in printed if line.startswith("TARGET"))
    assert head.split() == ["TARGET", "KIND", "HEALTH", "TAGS", "DESCRIPTION"]
    assert f"{len(AGENTS)} agents, 1 reasoner, 2 skills" in printed


def test_everything_to_paste_works(printed: list[str], tmp_path: Path) -> None:
    """Each line as it stands, in another terminal."""
    at = printed.index("What to paste next, in another terminal:")
    lines = [line.strip() for line in printed[at + 1 :] if not line.strip().startswith("#")]
    outputs: dict[str, str] = {}
    for line in lines:
        command = f"{line} --yes" if line.endswith(" demo") else line
        done = subprocess.run(  # noqa: S603 - what was printed
            ["bash", "-c", command],  # noqa: S607 - wherever bash is
            env=environment_of(tmp_path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)
        outputs[line] = done.stdout

    assert len(lines) == 6
    assert "demo-writer:summarise" in outputs[lines[0]]
    assert '"summary": "One. Two."' in outputs[lines[1]]
    assert "demo-statistician" in outputs[lines[2]]
    assert outputs[lines[3]] == "1\n"
    assert "Nothing was changed" in outputs[lines[5]]

"""How both commands behave in a terminal and in a script: help, completion, colours, progress, pipes, Ctrl-C."""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Literal

import pytest
import typer.main
from tests.gateways import environment_of, install
from tests.servers import ControlPlane, registration
from tools import command_reference

from switchboard.cli import app
from switchboard.completions import script

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SWITCHBOARD, GATEWAY = str(BIN / "switchboard"), str(BIN / "aai-gateway")
NOT_FOR_SCRIPTS = {"serve", "completion", "demo"}
"""A server writes a log, a script for a shell is a script, a demonstration is for people."""


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command of `switchboard` with the words that lead to it."""
    command = command or typer.main.get_command(app)
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


EVERY = list(commands())


def typed(home: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own commands
        words,
        env={**environment_of(home), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def on_a_terminal(
    home: Path, *words: str, until: bytes = b"", environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Type something into a real terminal; return the exit code, and all that was seen. Ctrl-C once `until` is seen."""
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - another process
        os.execve(words[0], words, {**environment_of(home), "TERM": "xterm-256color", **(environment or {})})  # noqa: S606
    seen = b""
    with suppress(OSError):  # that is how a terminal says that it was left
        while select.select([terminal], [], [], 60)[0] and (part := os.read(terminal, 65536)):
            seen += part
            if until and until in seen:
                os.write(terminal, b"\x03")
                until = b""
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), seen.decode()


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(("switchboard", *path)) for path, _ in EVERY])
def test_every_command_has_help_with_examples_and_says_what_each_option_does(
    path: tuple[str, ...], command: Any
) -> None:
    """The examples begin with the command itself."""
    lines = [line.strip() for line in (command.epilog or "").split("\n\n")[1:]]

    assert command.help
    assert lines
    assert all(" ".join(("switchboard", *path)).removesuffix(" ") in line for line in lines)
    assert [one.name for one in command.params if one.param_type_name == "option" and not one.help] == []


def test_help_is_printed_and_is_no_failure(tmp_path: Path) -> None:
    """Of both commands, and of a command in a group, without colours in a pipe."""
    for words in ((SWITCHBOARD, "--help"), (SWITCHBOARD, "consent", "grant", "-h"), (GATEWAY, "--help")):
        done = typed(tmp_path, *words)

        assert (done.returncode, done.stderr) == (0, "")
        assert "xamples:" in done.stdout
        assert "\x1b" not in done.stdout


def test_every_command_that_prints_something_prints_json_for_scripts() -> None:
    """All but those that are not for scripts."""
    leaves = [(path, command) for path, command in EVERY if not hasattr(command, "commands")]
    without = {
        path[-1] for path, command in leaves if "--json" not in [name for one in command.params for name in one.opts]
    }

    assert without == NOT_FOR_SCRIPTS & {path[-1] for path, _ in leaves}


def test_json_has_the_keys_that_the_reference_promises(tmp_path: Path) -> None:
    """Each command is run; the first keys of its row are those of its document."""
    install(tmp_path, "com.example.mail")
    plane = ControlPlane(tmp_path)
    plane.register(registration("writer", skills={"go": []}))
    vault = {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_PASSPHRASE": "only for trying", "AGENTFIELD_SERVER": plane.url}
    grant = ("consent", "grant", "com.example.mail", "--caller", "x", "--yes")
    runs = {
        "switchboard agents": (SWITCHBOARD, "agents", "--json"),
        "switchboard check": (SWITCHBOARD, "check", "--json", str(tmp_path / ".aai/com.example.mail")),
        "switchboard install": (SWITCHBOARD, "install", "zed", "--force", "--dry-run", "--json"),
        "switchboard install --list": (SWITCHBOARD, "install", "--list", "--json"),
        "switchboard doctor": (SWITCHBOARD, "doctor", "--json"),
        "switchboard consent grant": (SWITCHBOARD, *grant, "--json"),
        "switchboard consent list": (SWITCHBOARD, "consent", "list", "--json"),
        "switchboard consent revoke": (SWITCHBOARD, "consent", "revoke", "com.example.mail", "--json"),
        "switchboard auth list": (SWITCHBOARD, "auth", "list", "--json"),
        "switchboard auth logout": (SWITCHBOARD, "auth", "logout", "com.example.mail", "--json"),
        "aai-gateway --scan": (GATEWAY, "--scan", "--json"),
    }

    printed = {name: typed(tmp_path, *words, **vault) for name, words in runs.items()}
    plane.stop()

    for name, done in printed.items():
        document = json.loads(done.stdout)
        promised, inside = promises(name)
        assert set(document) == promised, name
        for key, keys in inside.items():
            for row in document[key]:
                assert keys - {"tools"} <= set(row), (name, key)


def promises(name: str) -> tuple[set[str], dict[str, set[str]]]:
    """Return the keys that the reference names for a command, and those of the rows in them."""
    row = next(line for line in command_reference.DOCUMENT.read_text().splitlines() if line.startswith(f"| `{name}` |"))
    cell = row.split(" | ", 1)[1]
    inside = {key: set(re.findall(r"`(\w+)`", keys)) for key, keys in re.findall(r"`(\w+)` \(([^)]*)\)", cell)}
    return set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cell))), inside


def test_the_reference_is_what_the_commands_say() -> None:
    """To bring it up to date: python -m tools.command_reference."""
    assert command_reference.DOCUMENT.read_text(encoding="utf-8") == command_reference.reference()


def test_every_variable_that_is_read_stands_in_the_reference() -> None:
    """By its name, or by the end of it after the first of its family."""
    text = command_reference.DOCUMENT.read_text(encoding="utf-8")
    source = "\n".join(file.read_text() for file in (ROOT / "src/switchboard").rglob("*.py"))
    read = set(re.findall(r'"((?:SWITCHBOARD|AGENTFIELD|AAI)_[A-Z_]+)"', source))

    assert len(read) > 15
    assert [
        name for name in sorted(read) if f"`{name}`" not in text and f"`_{name.partition('_')[2]}`" not in text
    ] == []


def completed(shell_line: str, home: Path) -> list[str]:
    """Return what a real bash offers for a line."""
    program = (
        f'eval "$({SWITCHBOARD} completion bash)"; COMP_WORDS=({shell_line}); [[ "$1" == *" " ]] && COMP_WORDS+=("");'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); word=${COMP_WORDS[COMP_CWORD]}; before=${COMP_WORDS[COMP_CWORD - 1]};"
        'command=${COMP_WORDS[0]##*/}; call=$(complete -p "$command" | sed "s/.*-F \\([^ ]*\\) .*/\\1/");'
        '"$call" "${COMP_WORDS[0]}" "$word" "$before"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = typed(
        home, shutil.which("bash") or "bash", "-c", program, "bash", shell_line, PATH=f"{BIN}:{os.environ['PATH']}"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_both_commands(tmp_path: Path) -> None:
    """Commands, options, values of options, and the names of clients."""
    assert completed(f"{SWITCHBOARD} dis", tmp_path) == ["discover"]
    assert completed(f"{SWITCHBOARD} consent ", tmp_path) == ["list", "grant", "revoke"]
    assert "--include-examples" in completed(f"{SWITCHBOARD} discover --incl", tmp_path)
    assert completed(f"{SWITCHBOARD} install cl", tmp_path) == ["claude-desktop", "claude-code"]
    assert completed(f"{GATEWAY} --sc", tmp_path) == ["--scan"]
    assert completed(f"{GATEWAY} --consent d", tmp_path) == ["dialog", "deny"]


def test_completion_can_be_installed_for_good(tmp_path: Path) -> None:
    """By `--install-completion`, into the file that bash reads."""
    bash = shutil.which("bash") or "bash"
    done = typed(tmp_path, bash, "-c", f"{SWITCHBOARD} --install-completion; true")

    assert "completion installed" in done.stdout, done.stderr
    assert (tmp_path / ".bashrc").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_their_script(shell: Literal["zsh", "fish"], tmp_path: Path) -> None:
    """Each is checked by its shell, where that is here; both commands are in it."""
    text = script(shell)
    (tmp_path / "script").write_text(text)

    assert "switchboard" in text
    assert "aai-gateway" in text
    program = shutil.which(shell)
    if program is not None:
        assert typed(tmp_path, program, "-n", str(tmp_path / "script")).stderr == ""


def test_colours_are_for_terminals_whose_user_wants_them(tmp_path: Path) -> None:
    """Not for a pipe, not with NO_COLOR, not for a dumb terminal."""
    install(tmp_path, "com.example.mail")
    coloured = "\x1b["

    assert coloured not in typed(tmp_path, GATEWAY, "--scan").stdout
    assert coloured in on_a_terminal(tmp_path, GATEWAY, "--scan")[1]
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for words in ((GATEWAY, "--scan"), (SWITCHBOARD, "--help")):
            code, seen = on_a_terminal(tmp_path, *words, environment=more)
            assert (code, re.findall(r"\x1b\[[0-9;]*3[0-7]m", seen)) == (0, []), words


def test_who_waits_at_a_terminal_is_told_for_what_and_can_interrupt(tmp_path: Path) -> None:
    """After a second, on a line that is cleared; Ctrl-C ends with 130 and without a traceback."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code, seen = on_a_terminal(tmp_path, SWITCHBOARD, "execute", "a:b", "--server", url, until=b"Waiting for a:b")

    assert code == 130
    assert "Traceback" not in seen
    assert "Waiting for a:b ... 1 s" in seen


def test_a_script_that_waits_is_told_nothing_and_can_be_interrupted(tmp_path: Path) -> None:
    """Standard error is for what went wrong."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(  # noqa: S603 - our own command
            [SWITCHBOARD, "execute", "a:b", "--server", url],
            env=environment_of(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with closing(silent.accept()[0]) as asked:
            asked.recv(1)
            process.send_signal(signal.SIGINT)
            out, said = process.communicate(timeout=30)

    assert (process.returncode, out, said) == (130, "", "")


@pytest.mark.parametrize("words", [(SWITCHBOARD, "--help"), (SWITCHBOARD, "doctor", "--json"), (GATEWAY, "--scan")])
def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As with `| head`: nothing on standard error, and exit code 141."""
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(words, env=environment_of(tmp_path), stdout=writer, stderr=subprocess.PIPE, text=True)  # noqa: S603
    os.close(writer)
    _, said = process.communicate(timeout=60)

    assert (process.returncode, said) == (141, "")

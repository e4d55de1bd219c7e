"""`switchboard install` as a person types it: real files in a home, and a client that starts what was written."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.clients import inspector
from tests.clients_room.test_configs import CONFIGS, SAMPLES, as_the_client_reads, known
from tests.gateways import GATEWAY, environment_of
from tests.gateways import install as install_app
from tests.leaks import secret

from switchboard.clients.known import CLIENTS

SWITCHBOARD = str(Path(sys.executable).with_name("switchboard"))
Run = Callable[..., subprocess.CompletedProcess[str]]
HOMES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "zed": ".config/zed/settings.json",
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the command with a home of its own."""

    def command(*arguments: str, cwd: Path = tmp_path, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**environment_of(tmp_path), **more}
        environment.pop("XDG_CONFIG_HOME", None)
        return subprocess.run(  # noqa: S603 - our own command
            [SWITCHBOARD, "install", *arguments],
            env=environment,
            cwd=cwd,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return command


def give(home: Path, name: str) -> Path:
    """Put the configuration of a client into a home."""
    sample = next(sample for sample, (owner, _) in SAMPLES.items() if owner == name)
    file = home / HOMES[name]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes((CONFIGS / sample).read_bytes())
    return file


@pytest.mark.parametrize("name", [one.id for one in CLIENTS])
def test_a_client_starts_what_was_installed(name: str, run: Run, tmp_path: Path) -> None:
    """Read back as the client reads it, started with the official inspector, asked for its tools; and gone again."""
    file = give(tmp_path, name)
    original = file.read_bytes()
    install_app(tmp_path, "com.example.mail")

    done = run(name, "--arg=--tool-names", "--arg=portable", "--env", f"AAI_HOME={tmp_path / '.aai'}")
    entry: Any = as_the_client_reads(known(name), file)
    for key in (*known(name).shape.container, "aai-gateway"):
        entry = entry[key]
    environment = {**environment_of(tmp_path), **entry["env"]}
    listed = inspector([entry["command"], *entry["args"]], "tools/list", environment)
    removed = run(name, "--uninstall")

    assert (done.returncode, done.stderr) == (0, "")
    assert entry["command"] == GATEWAY[0]
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["app_com_example_mail", "web_discover", "aai_exec"]
    assert (removed.returncode, file.read_bytes()) == (0, original)


def test_the_list_shows_every_client_its_file_and_whether_the_gateway_is_in(run: Run, tmp_path: Path) -> None:
    """As a table, and for scripts; a file that cannot be read is named."""
    give(tmp_path, "cursor")
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_text("{")
    run("cursor", "--name", "apps")

    table, machine = run("--list"), run("--list", "--json")

    rows = [line.split() for line in table.stdout.splitlines()]
    clients = {row["id"]: row for row in json.loads(machine.stdout)["clients"]}
    assert (table.returncode, machine.returncode) == (0, 0)
    assert rows[0] == ["CLIENT", "NAME", "FOUND", "GATEWAY", "FILE"]
    assert ["cursor", "Cursor", "yes", "apps", str(tmp_path / ".cursor/mcp.json")] in rows
    assert ["zed", "Zed", "no", "no", str(tmp_path / ".config/zed/settings.json")] in rows
    assert f"{tmp_path}/.gemini/settings.json: line 1, column 2: the file ends here" in table.stdout
    assert list(clients) == [one.id for one in CLIENTS]
    assert clients["cursor"] == {
        "id": "cursor",
        "title": "Cursor",
        "file": str(tmp_path / ".cursor/mcp.json"),
        "project_file": ".cursor/mcp.json",
        "installed": True,
        "exists": True,
        "entries": [{"name": "apps", "command": GATEWAY[0]}],
        "problem": None,
    }


def test_a_dry_run_shows_the_change_and_makes_none(run: Run, tmp_path: Path) -> None:
    """A unified diff, in which nothing is secret."""
    file = give(tmp_path, "cursor")
    original, hidden = file.read_bytes(), secret("env")

    shown = run("cursor", "--dry-run", "--env", "TOKEN", TOKEN=hidden)
    machine = run("cursor", "--dry-run", "--json", "--env", "TOKEN", TOKEN=hidden)

    document = json.loads(machine.stdout)
    assert (shown.returncode, machine.returncode, file.read_bytes()) == (0, 0, original)
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]
    assert shown.stdout.startswith(f"--- {file}\n+++ {file}\n@@ ")
    assert f'+\t\t\t"command": "{GATEWAY[0]}",\n' in shown.stdout
    assert shown.stdout.endswith("Nothing was changed: this is what would be.\n")
    assert not [text for text in (shown.stdout, machine.stdout) if hidden in text or "SECRET" in text]
    assert {**document, "diff": ""} == {
        "client": "cursor",
        "name": "aai-gateway",
        "file": str(file),
        "action": "added",
        "dry_run": True,
        "command": GATEWAY[0],
        "backup": None,
        "warning": None,
        "diff": "",
    }


def test_a_change_says_what_it_did_and_where_the_copy_is(run: Run, tmp_path: Path) -> None:
    """And a second time there is nothing to do; taking out what is not there is no fault."""
    file = give(tmp_path, "zed")
    original = file.read_bytes()

    first, again = run("zed"), run("zed")
    removed = json.loads(run("zed", "--uninstall", "--json").stdout)
    absent = run("zed", "--uninstall")

    (copy,) = [line.removeprefix("The file as it was: ") for line in first.stdout.splitlines() if "as it was" in line]
    assert first.stdout.startswith(f"Added to Zed: {file}\n")
    assert Path(copy).read_bytes() == original
    assert (again.returncode, again.stdout) == (0, f"Zed has it already: {file}\n")
    assert (removed["action"], removed["command"], Path(removed["backup"]).exists()) == ("removed", None, True)
    assert (absent.returncode, absent.stdout) == (0, f"Zed does not have it: {file}\n")


def test_a_project_has_a_file_of_its_own(run: Run, tmp_path: Path) -> None:
    """In the folder where the command is typed, and whether the client is here or not."""
    project = tmp_path / "work"
    project.mkdir()

    done = [run(name, "--project", cwd=project) for name in ("vscode", "codex", "claude-code")]

    assert [one.returncode for one in done] == [0, 0, 0]
    assert json.loads((project / ".vscode/mcp.json").read_text())["servers"]["aai-gateway"]["command"] == GATEWAY[0]
    assert tomllib.loads((project / ".codex/config.toml").read_text())["mcp_servers"]["aai-gateway"]["command"]
    assert json.loads((project / ".mcp.json").read_text())["mcpServers"]["aai-gateway"]["type"] == "stdio"
    assert run("windsurf", "--project", cwd=project).returncode == 1


def test_a_client_that_is_not_here_is_not_written_for(run: Run, tmp_path: Path) -> None:
    """Unless a file is named, or it is wished all the same."""
    refused = run("windsurf")
    named = run("windsurf", "--config", "own.json")
    forced = run("windsurf", "--force")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("switchboard: Windsurf does not seem to be on this machine: there is no ")
    assert (named.returncode, forced.returncode) == (0, 0)
    assert "aai-gateway" in json.loads((tmp_path / "own.json").read_text())["mcpServers"]
    assert (tmp_path / HOMES["windsurf"]).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Name a client"),
        (("curser",), "'curser' is no client that is known. Did you mean cursor?"),
        (("cursor", "--config", "x", "--project"), "choose one"),
        (("cursor", "--uninstall", "--arg=--dev"), "leave out --arg and --env"),
        (("cursor", "--config", "x", "--env", "NOT_SET_ANYWHERE"), "--env is NAME=VALUE"),
        (("cursor", "--config", "x", "--name", " "), "--name is empty"),
        (("cursor", "--config", "."), "Is a directory"),
    ],
)
def test_what_makes_no_sense_is_an_error_of_use(
    arguments: tuple[str, ...], said: str, run: Run, tmp_path: Path
) -> None:
    """Exit code 2, one line, and nothing written."""
    result = run(*arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_a_broken_file_is_named_with_its_place(run: Run, tmp_path: Path) -> None:
    """Exit code 2; nothing is touched."""
    file = give(tmp_path, "gemini")
    file.write_text('{\n  "mcpServers": {\n    "a": {}\n    "b": {}\n  }\n}\n')

    result = run("gemini")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f'switchboard: {file}:4:5: "," or "}}" is expected here. Gemini CLI cannot read it either. '
        "Correct it, and try again; nothing was changed.\n"
    )
    assert [path.name for path in file.parent.iterdir()] == ["settings.json"]


def test_an_entry_of_somebody_else_needs_force(run: Run, tmp_path: Path) -> None:
    """Exit code 1; with the option, it is replaced, and the copy has theirs."""
    file = give(tmp_path, "cursor")
    file.write_text('{"mcpServers": {"aai-gateway": {"command": "npx", "args": ["-y", "aai-gateway"]}}}')

    refused, forced = run("cursor"), run("cursor", "--force")

    assert refused.returncode == 1
    assert "there is an entry 'aai-gateway' already, which starts something else." in refused.stderr
    assert forced.returncode == 0
    assert json.loads(file.read_text())["mcpServers"]["aai-gateway"] == {"type": "stdio", "command": GATEWAY[0]}

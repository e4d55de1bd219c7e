"""`switchboard doctor` as a person types it, on machines on which something is really wrong."""

import json
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.executors.grounds import message_bus
from tests.gateways import GATEWAY, environment_of
from tests.leaks import WATCH, secret
from tests.servers import ControlPlane
from tests.vaults.keyrings import secret_service, write_key

from switchboard.doctor import machine
from switchboard.doctor.checks import Check, Finding, run_all

SWITCHBOARD = str(Path(sys.executable).with_name("switchboard"))
CHECKS = [
    *("python", "installation", "clients", "apps", "vault", "dialogs", "browser", "bus"),
    *("data-folder", "log-folder", "control-plane", "registries", "clock", "disk"),
]
Findings = dict[str, list[dict[str, Any]]]


class Machine:
    """A home in which all is well, and an environment to spoil."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = environment_of(home)
        del self.environment["PYTHONPATH"], self.environment["AAI_HOME"]
        self.programs = home / "bin"
        self.programs.mkdir()
        self.environment |= {
            "PATH": str(self.programs),
            "DISPLAY": ":99",
            "SWITCHBOARD_KEY_FILE": str(write_key(home / "key")),
            "SWITCHBOARD_VAULT": "file",
        }
        self.program("zenity")
        self.program("xdg-open")
        WATCH.homes.add(home)

    def program(self, name: str) -> Path:
        """Make a program that can be found."""
        file = self.programs / name
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
        return file

    def examine(self, code: int, **more: str) -> Findings:
        """Run the command for scripts, and return its findings by check."""
        done = self.run("--json", **more)
        WATCH.said.append(("doctor", (done.stdout + done.stderr).encode()))
        document = json.loads(done.stdout)
        assert (done.returncode, document["ok"]) == (code, code == 0), done.stdout
        assert list(dict.fromkeys(finding["check"] for finding in document["findings"])) == CHECKS
        assert all(finding["remedy"] for finding in document["findings"] if finding["state"] != "ok")
        return {check: [one for one in document["findings"] if one["check"] == check] for check in CHECKS}

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        return subprocess.run(  # noqa: S603 - our own command
            [SWITCHBOARD, "doctor", *arguments],
            env={**self.environment, **more},
            cwd=self.home,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    """Return a machine."""
    return Machine(tmp_path)


def only(found: Findings, check: str) -> tuple[str, str, str]:
    """Return the one finding of a check."""
    (finding,) = found[check]
    return finding["state"], finding["message"], finding["remedy"] or ""


def test_a_machine_on_which_all_is_well(here: Machine) -> None:
    """With a bus, a client that starts the gateway, and a key: exit code 0, and nothing is left behind."""
    (here.home / ".cursor").mkdir()
    (here.home / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"apps": {"command": GATEWAY[0]}}}))
    before = sorted(here.home.rglob("*"))

    with message_bus() as (_, bus):
        found = here.examine(0, DBUS_SESSION_BUS_ADDRESS=bus["DBUS_SESSION_BUS_ADDRESS"])

    assert {one["state"] for findings in found.values() for one in findings} == {"ok"}
    assert only(found, "clients")[1] == f"Cursor starts {GATEWAY[0]}"
    assert only(found, "dialogs")[1] == f"{here.programs}/zenity on :99"
    assert only(found, "browser")[1] == f"{here.programs}/xdg-open"
    assert only(found, "vault")[1].startswith("encrypted file, ")
    assert sorted(file for file in here.home.rglob("*") if file.name != "spawned.txt") == before


def test_people_get_lines_with_remedies_and_a_count(here: Machine) -> None:
    """No colours where nobody sees them."""
    done = here.run(AAI_HOME=str(here.home / "nowhere"))

    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].split()[:3] == ["ok", "python", "Python"]
    at = next(number for number, line in enumerate(lines) if line.startswith("warning  apps"))
    assert "there is no such folder" in lines[at]
    assert lines[at + 1].strip() == "Make it, or correct AAI_HOME."
    assert lines[-1].endswith(" warnings, 0 problems")
    assert "\x1b" not in done.stdout


def test_an_old_python_is_a_problem() -> None:
    """Nobody can start this with one, so the question is asked directly."""
    (old,), (new,) = machine.python((3, 10, 4)), machine.python((3, 12, 0))

    assert (old.state, old.message) == ("problem", "Python 3.10.4 is too old")
    assert new.state == "ok"


def test_a_broken_descriptor_is_named_with_the_command_that_explains_it(here: Machine) -> None:
    """A warning: other apps work."""
    file = here.home / ".aai/com.example.half/aai.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"half": ')

    state, message, remedy = only(here.examine(0), "apps")

    assert (state, message) == ("warning", f"{file} cannot be used")
    assert remedy.endswith(f"switchboard check {file}")


@pytest.fixture
def without_vault(here: Machine) -> Machine:
    """Return a machine without a key."""
    del here.environment["SWITCHBOARD_KEY_FILE"], here.environment["SWITCHBOARD_VAULT"]
    return here


def test_a_keychain_that_works_is_named_and_nothing_stays_in_it(without_vault: Machine) -> None:
    """A real Secret Service."""
    with secret_service() as keyring:
        found = without_vault.examine(0, **leading_to(keyring.environment))
        left = keyring.accounts("aai-gateway probe")

    assert only(found, "vault")[:2] == ("ok", "keychain (keyring.backends.SecretService.Keyring)")
    assert left == []
    assert not (without_vault.home / ".local/share/switchboard").exists()


def test_a_locked_keychain_is_a_problem(without_vault: Machine) -> None:
    """Nobody answers its dialog; the command ends all the same."""
    with secret_service() as keyring:
        keyring.lock()
        found = without_vault.examine(1, **leading_to(keyring.environment))

    state, _, remedy = only(found, "vault")
    assert state == "problem"
    assert "nlock" in remedy


def test_no_keychain_and_no_key_is_a_problem_with_two_ways_out(without_vault: Machine) -> None:
    """Install one, or make a key."""
    state, message, remedy = only(without_vault.examine(1), "vault")

    assert (state, message.split(":")[0]) == ("problem", "there is no keychain that can be used")
    assert "gnome-keyring" in remedy
    assert "SWITCHBOARD_KEY_FILE=~/.switchboard-key" in remedy


def test_no_keychain_but_a_key_is_well(without_vault: Machine) -> None:
    """Then the file is used."""
    found = without_vault.examine(0, SWITCHBOARD_PASSPHRASE=secret("passphrase"))

    assert only(found, "vault")[1].startswith("encrypted file")


def test_a_key_that_others_can_read_is_a_problem(here: Machine) -> None:
    """As the vault itself sees it."""
    (here.home / "key").chmod(0o644)

    state, _, remedy = only(here.examine(1), "vault")

    assert (state, "chmod" in remedy) == ("problem", True)


def leading_to(environment: dict[str, str]) -> dict[str, str]:
    return {"DBUS_SESSION_BUS_ADDRESS": environment["DBUS_SESSION_BUS_ADDRESS"]}


def test_without_zenity_the_browser_is_used(here: Machine) -> None:
    """A warning that names what to install."""
    (here.programs / "zenity").unlink()

    state, message, remedy = only(here.examine(0), "dialogs")

    assert (state, message.split(":")[0]) == ("warning", "neither zenity nor kdialog")
    assert "install zenity" in remedy


def test_without_a_display_and_a_browser_nobody_can_be_asked(here: Machine) -> None:
    """Two warnings, with what to do instead."""
    del here.environment["DISPLAY"]

    found = here.examine(0)

    assert only(found, "dialogs")[1].startswith("no display")
    assert only(found, "browser")[:2] == ("warning", "nothing here opens a page: sign-in and questions have no page")
    assert "switchboard consent grant" in only(found, "browser")[2]


def test_a_bus_that_is_gone_is_a_problem_and_none_is_a_warning(here: Machine) -> None:
    """What the environment names must be there."""
    gone = only(here.examine(1, DBUS_SESSION_BUS_ADDRESS=f"unix:path={here.home}/bus"), "bus")
    none = only(here.examine(0), "bus")

    assert (gone[0], none[0]) == ("problem", "warning")
    assert "does not answer" in gone[1]


def test_folders_that_others_use(here: Machine) -> None:
    """A file that others can read is a warning, a folder that they can write is a problem; the remedy works."""
    data, logs = here.home / ".local/share/switchboard", here.home / ".local/state/switchboard/log"
    data.mkdir(parents=True)
    logs.mkdir(parents=True)
    (data / "control-plane.db").write_text("")
    (data / "control-plane.db").chmod(0o644)
    data.chmod(0o755)
    logs.chmod(0o777)

    found = here.examine(1)
    for check in ("data-folder", "log-folder"):
        subprocess.run(["sh", "-c", only(found, check)[2].removeprefix("Close it: ")], check=True)  # noqa: S603, S607
    mended = here.examine(0)

    assert only(found, "data-folder")[:2] == ("warning", f"others can read {data}/control-plane.db")
    assert only(found, "log-folder")[:2] == ("problem", f"others can write into {logs}")
    assert [only(mended, check)[0] for check in ("data-folder", "log-folder")] == ["ok", "ok"]


def test_a_vault_folder_that_others_look_into_is_a_problem(here: Machine) -> None:
    """The gateway refuses to keep anything there."""
    folder = here.home / ".local/share/switchboard/vault"
    folder.mkdir(parents=True)
    folder.chmod(0o755)

    state, message, remedy = only(here.examine(1), "vault")

    assert (state, message) == ("problem", f"others can look into {folder}, so nothing is kept there")
    assert remedy == f"Close it: chmod 700 {folder}"


def test_a_folder_that_cannot_be_written(here: Machine) -> None:
    """Something else is in its place."""
    (here.home / ".local").write_text("a file")

    found = here.examine(1)

    assert only(found, "data-folder")[0] == only(found, "log-folder")[0] == "problem"
    assert "cannot be written" in only(found, "data-folder")[1]


@pytest.fixture
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[ControlPlane, str]]:
    """A control plane with a key."""
    key = secret("key")
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), SWITCHBOARD_API_KEY=key)
    yield plane, key
    plane.stop()


def test_the_control_plane_answers_and_takes_the_key(here: Machine, keyed: tuple[ControlPlane, str]) -> None:
    """Or wants one, or does not take this one; the key itself is never shown."""
    plane, key = keyed

    right = only(here.examine(0, AGENTFIELD_SERVER=plane.url, AGENTFIELD_API_KEY=key), "control-plane")
    wrong = only(here.examine(1, AGENTFIELD_SERVER=plane.url, AGENTFIELD_API_KEY=secret("x")), "control-plane")
    none = only(here.examine(1, AGENTFIELD_SERVER=plane.url), "control-plane")

    assert right[:2] == ("ok", f"{plane.url} answers, and takes the key")
    assert wrong[:2] == ("problem", f"{plane.url} does not take the key")
    assert none == ("problem", f"{plane.url} wants a key", "Set AGENTFIELD_API_KEY to a key of that control plane.")


def test_a_registry_answers_and_takes_the_key(here: Machine, keyed: tuple[ControlPlane, str]) -> None:
    """Or wants one; a count of keys that does not fit is named, and no key is shown."""
    plane, key = keyed
    named = {"AAI_REGISTRY_URL": plane.url}

    right = only(here.examine(0, **named, AAI_REGISTRY_KEY=key), "registries")
    none = only(here.examine(1, **named), "registries")
    many = only(here.examine(1, **named, AAI_REGISTRY_KEY=f"{key} {key}"), "registries")

    assert right[:2] == ("ok", f"{plane.url} answers")
    assert none == ("problem", f"{plane.url} wants a key", "Set AAI_REGISTRY_KEY to a key of that registry.")
    assert many[0] == "problem"
    assert many[1].startswith("AAI_REGISTRY_KEY has 2 keys for 1 addresses")


def test_nobody_answers(here: Machine) -> None:
    """Neither the control plane nor the registry; passwords in addresses are not shown."""
    hidden = secret("password")

    found = here.examine(
        1,
        AGENTFIELD_SERVER=f"http://ada:{hidden}@127.0.0.1:1",
        AAI_REGISTRY_URL="http://127.0.0.1:1 http://127.0.0.1:2",
    )
    odd = here.examine(1, AAI_REGISTRY_URL=f"http://127.0.0.1:1 https://ada:{hidden}@[")

    assert only(found, "control-plane")[:2] == ("problem", "http://127.0.0.1:1 does not answer")
    assert [one["state"] for one in found["registries"]] == ["problem", "problem"]
    assert found["registries"][0]["message"].startswith("http://127.0.0.1:1 cannot be asked")
    assert only(odd, "registries")[1].startswith("a registry is written https://host")


def test_a_server_that_never_answers_holds_nobody(here: Machine) -> None:
    """After five seconds the command ends; what it waits for is said on a terminal only, and here is none."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = here.run("--json", AGENTFIELD_SERVER=url, AAI_REGISTRY_URL=url)

    findings = json.loads(done.stdout)["findings"]
    states = {one["check"]: one["state"] for one in findings}
    assert done.returncode == 1
    assert (states["control-plane"], states["registries"]) == ("problem", "problem")
    assert done.stderr == ""


def test_a_client_that_starts_what_is_gone_is_a_problem(here: Machine) -> None:
    """With the command that mends it, which does."""
    (here.home / ".codex").mkdir()
    (here.home / ".codex/config.toml").write_text('[mcp_servers.aai-gateway]\ncommand = "/gone/bin/aai-gateway"\n')
    (here.home / ".gemini").mkdir()
    (here.home / ".gemini/settings.json").write_text('{"mcpServers": ')

    found = here.examine(1)
    subprocess.run([SWITCHBOARD, "install", "codex"], env=here.environment, check=True, capture_output=True)  # noqa: S603
    mended = here.examine(0)

    stale, broken = found["clients"]
    assert stale == {
        "check": "clients",
        "state": "problem",
        "message": "Codex starts /gone/bin/aai-gateway, which is not there",
        "remedy": "switchboard install codex",
    }
    assert broken["state"] == "warning"
    assert "Gemini CLI: " in broken["message"]
    assert mended["clients"][0]["message"] == f"Codex starts {GATEWAY[0]}"


def test_a_machine_without_clients_is_told_how_to_go_on(here: Machine) -> None:
    """A warning."""
    (finding,) = here.examine(0)["clients"]

    assert finding["message"] == "no agent client starts the gateway; found: no client that is known"
    assert finding["remedy"] == "switchboard install CLIENT"


def test_a_clock_that_cannot_be_right_and_a_full_disk(tmp_path: Path) -> None:
    """Asked directly: nobody sets this machine's clock, or fills its disk, for a test."""
    built = 1_790_000_000.0

    assert [one.state for one in machine.clock(built - 10 * 86_400, built)] == ["problem"]
    assert [one.state for one in machine.clock(built + 1, built)] == ["ok"]
    assert [one.state for one in machine.clock(5_000_000_000.0, built)] == ["problem"]
    sizes = (10 * 1024**2, 100 * 1024**2, 10 * 1024**3)
    assert [one.state for size in sizes for one in machine.disk(tmp_path, size)] == ["problem", "warning", "ok"]
    assert [one.state for one in machine.disk(tmp_path / "not/there")] == ["ok"]


def test_checks_that_hang_or_break_are_told_and_hold_nobody() -> None:
    """In their order, with what to do; the words of an error are not shown."""
    never, told = Event(), list[list[str]]()

    def hangs() -> list[Finding]:
        never.wait(60)
        return []

    def breaks() -> list[Finding]:
        raise ValueError(secret("inside"))

    found = run_all(
        [
            Check("hangs", hangs, "wake it"),
            Check("breaks", breaks, ""),
            Check("is well", lambda: [Finding("is well", "ok", "yes")], ""),
        ],
        told.append,
        limit_s=1.2,
    )
    never.set()

    assert told == [["hangs"]]
    assert found[0] == Finding("hangs", "problem", "gave no answer within 1.2 s", "wake it")
    assert (found[1].check, found[1].message) == ("breaks", "could not be checked (ValueError)")
    assert found[2].state == "ok"


def test_every_check_stands_in_the_document() -> None:
    """By its name."""
    text = (Path(__file__).parents[2] / "docs/install.md").read_text(encoding="utf-8")

    assert [check for check in CHECKS if f"`{check}`" not in text] == []

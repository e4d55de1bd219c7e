"""Both commands as a person types them: real processes, real files."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import requirement

from switchboard import __version__

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "contract/examples/aai-stdio.json"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command of this environment with an empty home."""

    def command(name: str, *arguments: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "AAI_"))}
        return subprocess.run(  # noqa: S603 - our own commands
            [str(Path(sys.executable).with_name(name)), *arguments],
            env={
                **environment,
                "HOME": str(tmp_path),
                "AAI_HOME": str(home or tmp_path / "aai"),
                "XDG_DATA_DIRS": str(tmp_path / "share"),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    return command


@requirement("cli:gateway:version")
@pytest.mark.parametrize("name", ["aai-gateway", "switchboard"])
def test_version_is_shown(run: Run, name: str) -> None:
    """One line, nothing else."""
    result = run(name, "--version")

    assert (result.returncode, result.stdout, result.stderr) == (0, f"{name} {__version__}\n", "")


@requirement("cli:gateway:scan")
def test_scan_lists_the_sample_home(run: Run) -> None:
    """One line an app, its problems below, and exit code 0."""
    result = run("aai-gateway", "--scan", home=ROOT / "examples/home")

    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert lines[0] == ["ID", "NAME", "PLATFORM", "TOOLS", "SOURCE", "PROBLEMS"]
    assert lines[1][:7] == ["com.example.notes", "Notes", "|", "笔记", "linux", "2", "home"]
    assert lines[2][:10] == [
        "com.example.weather",
        "Weather",
        "|",
        "天气",
        "web",
        "1",
        "registry",
        "copy",
        "3",
        "warnings",
    ]
    assert "$.execution.base_url: old spelling of baseUrl" in result.stdout
    assert result.stdout.endswith("3 apps, 0 descriptors that cannot be used\n")
    assert "\x1b" not in result.stdout


def test_scan_shows_broken_descriptors_with_their_reason_and_still_succeeds(run: Run, tmp_path: Path) -> None:
    """For people and for scripts; hostile text does not reach the terminal as it is."""
    home = tmp_path / "home"
    (home / "broken").mkdir(parents=True)
    (home / "broken/aai.json").write_text('{"half": ')
    evil = json.loads(EXAMPLE.read_text())
    evil["app"]["name"] = {"en": "Evil\x1b[2J\u202eName"}
    evil["\x9b2Jkey"] = "\u202e"
    (home / "evil").mkdir()
    (home / "evil/aai.json").write_text(json.dumps({**evil, "app": {**evil["app"], "id": "com.example.evil"}}))

    table, machine = run("aai-gateway", "--scan", home=home), run("aai-gateway", "--scan", "--json", home=home)

    assert (table.returncode, machine.returncode) == (0, 0)
    assert f"{home}/broken/aai.json (home)\n    $: the JSON ends too early" in table.stdout
    assert "Evil[2JName" in table.stdout
    checked = run("switchboard", "check", str(home / "evil"))
    assert not {"\x1b", "\x9b", "\u202e"} & set(table.stdout + checked.stdout)
    document = json.loads(machine.stdout)
    assert [app["id"] for app in document["apps"]] == ["com.example.evil"]
    assert document["apps"][0]["tools"] == ["add_note", "list_notes"]
    assert document["unusable"][0]["problems"][0]["kind"] == "syntax"


def test_scan_prints_names_no_encoding_can_hold(run: Run, tmp_path: Path) -> None:
    """A folder whose name is not UTF-8 does not stop anybody."""
    folder = tmp_path / "home" / os.fsdecode(b"bad\xff")
    folder.mkdir(parents=True)
    (folder / "aai.json").write_bytes(EXAMPLE.read_bytes())

    machine = run("aai-gateway", "--scan", "--json", home=tmp_path / "home")

    assert json.loads(machine.stdout)["apps"][0]["location"].endswith("bad\\xff/aai.json")


def test_an_empty_machine_has_no_apps(run: Run) -> None:
    """And says so."""
    assert run("aai-gateway", "--scan").stdout == "0 apps, 0 descriptors that cannot be used\n"


def test_check_says_what_is_wrong_where_and_fails(run: Run, tmp_path: Path) -> None:
    """Every problem with its JSON path; exit code 1."""
    wrong = json.loads(EXAMPLE.read_text())
    wrong["tools"][0]["parameters"] = {"type": "object", "properties": {"x": {"type": "nonsense"}}}
    wrong["tools"][1]["name"] = 5
    file = tmp_path / "aai.json"
    file.write_text(json.dumps(wrong))

    first = run("switchboard", "check", str(file))
    wrong["tools"][1]["name"] = "list_notes"
    file.write_text(json.dumps(wrong))
    second = run("switchboard", "check", "--json", str(tmp_path))

    assert (first.returncode, second.returncode) == (1, 1)
    assert f"{file}: error: $.tools[1].name: expected a string, found a number\n" in first.stdout
    assert first.stdout.endswith("aai.json is not right: 1 error, 0 warnings\n")
    document = json.loads(second.stdout)
    assert (document["usable"], [problem["path"] for problem in document["problems"]]) == (
        False,
        ["$.tools[0].parameters"],
    )


def test_check_is_content_with_a_good_descriptor_and_strict_only_with_a_perfect_one(run: Run) -> None:
    """Warnings pass, unless `--strict`."""
    good, old = str(EXAMPLE), str(ROOT / "examples/home/web/com.example.weather")

    assert run("switchboard", "check", "--strict", good).returncode == 0
    assert run("switchboard", "check", old).returncode == 0
    assert run("switchboard", "check", "--strict", old).returncode == 1


def test_check_writes_the_canonical_form(run: Run, tmp_path: Path) -> None:
    """An old descriptor becomes a perfect one; what was wrong goes to stderr."""
    result = run("switchboard", "check", "--canonical", str(ROOT / "examples/home/web/com.example.weather/aai.json"))
    file = tmp_path / "aai.json"
    file.write_text(result.stdout, encoding="utf-8")

    assert "old spelling of schemaVersion" in result.stderr
    assert run("switchboard", "check", "--strict", str(file)).returncode == 0


def test_check_without_a_file_says_so(run: Run, tmp_path: Path) -> None:
    """A missing file and a missing argument are errors of use: exit code 2."""
    missing = run("switchboard", "check", str(tmp_path / "nowhere.json"))

    assert missing.returncode == 2
    assert missing.stderr == f"switchboard: {tmp_path}/nowhere.json cannot be read: No such file or directory\n"
    assert run("switchboard", "check").returncode == 2
    assert "checks files only" in run("switchboard", "check", "https://example.com/aai.json").stderr
    assert "choose one" in run("switchboard", "check", "--json", "--canonical", str(EXAMPLE)).stderr
    assert run("aai-gateway", "--sc").returncode == 2

"""Both commands as a person types them: real processes, real files."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from tests.gateways import Site, web_app
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane
from tests.support import requirement

from switchboard import __version__

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "contract/examples/aai-stdio.json"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command of this environment with an empty home."""

    def command(
        name: str, *arguments: str, home: Path | None = None, given: str | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "AAI_"))}
        return subprocess.run(  # noqa: S603 - our own commands
            [str(Path(sys.executable).with_name(name)), *arguments],
            env={
                **environment,
                "HOME": str(tmp_path),
                "AAI_HOME": str(home or tmp_path / "aai"),
                "XDG_DATA_DIRS": str(tmp_path / "share"),
                **more,
            },
            cwd=tmp_path,
            input=given,
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


def test_check_asks_a_site_for_its_descriptor_and_judges_it_as_a_gateway_does(run: Run) -> None:
    """By the site alone or by the whole address; a program that would run here is wrong on the web."""
    with Site() as site:
        site.publish(web_app("com.example.shop", site.url, "Shop"))
        site.publish(json.loads(EXAMPLE.read_text(encoding="utf-8")), "/desktop.json")
        usable = run("switchboard", "check", "--dev", site.url)
        named = run("switchboard", "check", "--dev", "--json", f"{site.url}/.well-known/aai.json?key=hidden")
        refused = run("switchboard", "check", "--dev", f"{site.url}/desktop.json")

    place = f"{site.url}/.well-known/aai.json"
    assert (usable.returncode, usable.stderr) == (0, "")
    assert usable.stdout.splitlines()[-1].startswith(f"{place} is usable: com.example.shop ")
    assert (json.loads(named.stdout)["location"], json.loads(named.stdout)["usable"]) == (place, True)
    assert refused.returncode == 1
    assert f"{site.url}/desktop.json: error: $.execution.type: stdio runs on this machine" in refused.stdout
    assert site.paths() == ["/.well-known/aai.json", "/.well-known/aai.json?key=hidden", "/desktop.json"]


def test_check_without_a_file_says_so(run: Run, tmp_path: Path) -> None:
    """A missing file and a missing argument are errors of use: exit code 2."""
    missing = run("switchboard", "check", str(tmp_path / "nowhere.json"))

    assert missing.returncode == 2
    assert missing.stderr.startswith(
        f"switchboard: {tmp_path}/nowhere.json cannot be read: No such file or directory. "
    )
    assert run("switchboard", "check").returncode == 2
    assert "Choose one" in run("switchboard", "check", "--json", "--canonical", str(EXAMPLE)).stderr
    assert run("aai-gateway", "--sc").returncode == 2


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, str]]:
    """A control plane with the sample agents, and the environment in which commands find it and its audit record."""
    folder = tmp_path_factory.mktemp("demo")
    plane = ControlPlane(folder, "--demo", XDG_DATA_HOME=str(folder))
    wait_until(lambda: plane.discover()["total_agents"] == 2)
    yield {"AGENTFIELD_SERVER": plane.url, "XDG_DATA_HOME": str(folder)}
    plane.stop()


@pytest.mark.parametrize("keys", ["one two", "- two", "both"])
def test_a_command_asks_the_first_of_several_control_planes(run: Run, demo: dict[str, str], keys: str) -> None:
    """A gateway takes all that the variable names, and their keys; a command that was given one takes that one."""
    several = {
        **demo,
        "AGENTFIELD_SERVER": f"{demo['AGENTFIELD_SERVER']} http://127.0.0.1:1",
        "AGENTFIELD_API_KEY": keys,
    }

    assert run("switchboard", "discover", **several).stdout.endswith("2 agents, 1 reasoner, 2 skills\n")
    assert run("switchboard", "agents", "--server", "http://127.0.0.1:1", **several).returncode == 1


@requirement("execute:input:result")
def test_execute_prints_the_result(run: Run, demo: dict[str, str]) -> None:
    """For people the result alone; the input may come from standard input."""
    text = '{"text": "Tea is hot. Tea is green. Coffee."}'
    numbers = '{"numbers": [1, 2, 6]}'

    first = run("switchboard", "execute", "demo-writer:skill:keywords", "--input", text, **demo)
    second = run("switchboard", "execute", "demo-statistician:describe_numbers", "--input", "-", given=numbers, **demo)

    assert (first.returncode, first.stderr, json.loads(first.stdout)) == (0, "", ["coffee", "green"])
    assert (second.returncode, json.loads(second.stdout)["mean"]) == (0, 3.0)


def test_execute_prints_the_whole_execution_for_scripts(run: Run, demo: dict[str, str]) -> None:
    """With its id, and one line long."""
    result = run("switchboard", "execute", "demo-writer:summarise", "--input", '{"text": "One."}', "--json", **demo)

    document = json.loads(result.stdout)
    assert (document["status"], document["result"]) == ("succeeded", {"summary": "One."})
    assert document["execution_id"].startswith("exec_")
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("given", ['{"text"', "[1]"])
def test_execute_takes_nothing_but_a_json_object(run: Run, given: str) -> None:
    """Anything else is an error of use, found before anybody is asked: exit code 2."""
    result = run("switchboard", "execute", "a:b", "--input", given, "--server", "http://127.0.0.1:1")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == 'switchboard: --input must be a JSON object, for example \'{"text": "hello"}\'\n'


@pytest.mark.parametrize(
    ("target", "nearest"), [("demo-writer:sumarise", "summarise"), ("demo-writter:summarise", "demo-writer")]
)
def test_execute_of_what_is_not_there_names_what_is_nearest(
    run: Run, demo: dict[str, str], target: str, nearest: str
) -> None:
    """A wrong name of an agent or of what it can do: exit code 1."""
    result = run("switchboard", "execute", target, **demo)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith(f"Did you mean {nearest}?\n")


def test_execute_with_an_input_that_does_not_fit_shows_the_schema(run: Run, demo: dict[str, str]) -> None:
    """And what is wrong with it."""
    result = run("switchboard", "execute", "demo-writer:summarise", "--input", '{"txet": "One."}', **demo)

    said, _, schema = result.stderr.partition(" The schema: ")
    assert result.returncode == 1
    assert said.startswith('switchboard: The arguments do not fit: $: "text" is a required property. ')
    assert json.loads(schema)["required"] == ["text"]


def test_execute_that_fails_prints_what_the_agent_says(run: Run, demo: dict[str, str]) -> None:
    """In its own words, with exit code 1."""
    result = run("switchboard", "execute", "demo-statistician:describe_numbers", "--input", '{"numbers": []}', **demo)

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("switchboard: demo-statistician answers 422: cannot work with this input")


def test_execute_without_a_control_plane_says_how_to_start_one(run: Run) -> None:
    """One line, exit code 1."""
    result = run("switchboard", "execute", "a:b", "--server", "http://127.0.0.1:1")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "switchboard: No control plane answers at http://127.0.0.1:1. "
        "Start one with `switchboard serve`, or name another with --server.\n"
    )


def test_audit_shows_who_executed_what_and_how_it_ended(run: Run, demo: dict[str, str]) -> None:
    """Allowed or refused, in a table or as JSON; never with what: that is a hash."""
    for given in ('{"text": "A secret word."}', '{"secret": 1}'):
        run("switchboard", "execute", "demo-writer:summarise", "--input", given, **demo)

    table = run("switchboard", "audit", **demo).stdout.splitlines()
    newest = run("switchboard", "audit", "--json", "--limit", "2", **demo).stdout

    assert table[0].split() == ["WHEN", "CALLER", "WHAT", "DECISION", "OUTCOME", "TOOK"]
    assert table[-4].split()[1:5] == ["anonymous", "demo-writer:summarise", "allowed", "OK"]
    assert table[-3].split()[1:6] == ["anonymous", "demo-writer:summarise", "not", "asked", "INVALID_PARAMS"]
    assert table[-1].endswith(" executions")
    assert [json.loads(line)["outcome"] for line in newest.splitlines()] == ["OK", "INVALID_PARAMS"]
    assert "secret" not in run("switchboard", "audit", "--json", **demo).stdout


def test_an_empty_audit_record_says_so(run: Run) -> None:
    """For people; for scripts there is nothing to print."""
    table, lines = run("switchboard", "audit"), run("switchboard", "audit", "--json")

    assert (table.returncode, table.stdout) == (0, "0 executions\n")
    assert (lines.returncode, lines.stdout) == (0, "")

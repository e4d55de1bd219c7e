"""The README of the Go SDK: every piece of its code is built, and run as a reader would."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.documents import blocks, commands
from tests.sdk_go.golang import ROOT, SDK, Agent, build, go, module_file, need_go, run
from tests.servers import ControlPlane

BLOCK = re.compile(r"^```go\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PIECE = """package main

import (
	"context"
{imports}
	"github.com/Agent-Field/agentfield/sdk/go/agent"
)

func main() {{
	if err := run(agent.NewAgent(), context.Background()); err != nil {{
		panic(err)
	}}
}}

func run(app *agent.Agent, ctx context.Context) error {{
{code}
	return nil
}}
"""
README = (SDK / "README.md").read_text(encoding="utf-8")
PIECES = [block for block in BLOCK.findall(README) if not block.startswith("package ")]


def programs() -> dict[str, str]:
    """Return the whole programs as they are, and pieces of code in a function."""
    agent, caller = (block for block in BLOCK.findall(README) if block.startswith("package "))
    made = {"agent": agent, "caller": caller}
    for number, code in enumerate(PIECES):
        imports = "\n".join(f'\t"{name}"' for name in ("errors", "fmt") if f"{name}." in code)
        made[f"piece{number}"] = PIECE.format(imports=imports, code=code)
    return made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_go()
    module = tmp_path_factory.mktemp("readme")
    module_file(module)
    for name, code in programs().items():
        (module / name).mkdir()
        (module / name / "main.go").write_text(code, encoding="utf-8")
    go("vet", "./...", folder=module)
    return build(module, module / "bin")


@pytest.fixture(scope="module")
def plane(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start the agent of the README."""
    folder = tmp_path_factory.mktemp("librarian")
    running = ControlPlane(folder)
    agent = Agent(folder, running.url, "librarian", str(built / "agent"))
    try:
        yield agent.ready(running) and running
    finally:
        code = agent.stop()
        running.stop()
        assert code == 0


def test_the_quick_start_prints_what_the_readme_says(built: Path, plane: ControlPlane) -> None:
    """An agent, and a caller that finds it."""
    assert run(built / "caller", plane.url) in OUTPUT.findall(README)


@pytest.mark.parametrize("number", range(len(PIECES)))
def test_every_piece_of_code_runs(built: Path, plane: ControlPlane, number: int) -> None:
    """With the agent of the quick start."""
    said = run(built / f"piece{number}", plane.url)

    assert said
    assert "errors.As" not in PIECES[number] or said in OUTPUT.findall(README)


def test_a_module_of_ones_own_uses_the_sdk(tmp_path: Path) -> None:
    """As the README tells to install it: beside a clone, without anything to download."""
    need_go()
    (shown,) = [block for block in blocks(SDK / "README.md") if block.language == "console"]
    (tmp_path / "switchboard").symlink_to(ROOT)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "main.go").write_text(programs()["caller"], encoding="utf-8")
    go("mod", "init", "example.org/mine", folder=mine)
    for command in commands(shown):
        go(*command.text.split()[1:], folder=mine)
    go("build", "-o", "mine", ".", folder=mine)

    assert (mine / "mine").stat().st_mode & 0o100

"""The import contracts hold, and break when the architecture is broken: a copy of the product is broken on purpose."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts on the product in a folder."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold_for_the_product(copy: Path) -> None:
    """The copy is as good as the original."""
    assert lint(copy).returncode == 0


def test_every_folder_of_the_product_is_a_room() -> None:
    """A folder without `__init__` would be seen by nobody."""
    folders = {file.parent for file in (ROOT / "src/switchboard").rglob("*.py")}

    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        (
            "catalog/model.py",
            "import switchboard.descriptors.aai",
            "switchboard.catalog.model may not import switchboard.descriptors.aai",
        ),
        ("catalog/text.py", "import socket", "switchboard.catalog.text may not import socket"),
        ("catalog/text.py", "import urllib.request", "switchboard.catalog.text may not import urllib"),
        ("descriptors/aai.py", "import pathlib", "switchboard.descriptors.aai may not import pathlib"),
        ("__init__.py", "import switchboard.catalog.model", "switchboard may not import switchboard.catalog.model"),
        (
            "cli.py",
            "import switchboard.catalog.model",
            "switchboard.cli may not import switchboard.catalog.model",
        ),
        ("utils/__init__.py", "", "switchboard.utils is in no line of the table"),
    ],
)
def test_a_broken_contract_fails_the_check_and_says_where(copy: Path, file: str, line: str, reason: str) -> None:
    """Wrong direction, I/O in a pure room, a shortcut past the wiring, a room nobody planned."""
    target = copy / "src/switchboard" / file
    target.parent.mkdir(exist_ok=True)
    text = target.read_text() if target.exists() else '"""A room."""\n'
    target.write_text(f"{text}\n{line}\n")

    run = lint(copy)

    assert run.returncode == 1
    assert reason in run.stdout

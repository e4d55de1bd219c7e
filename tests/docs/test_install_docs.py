"""docs/install.md is true: every command is typed in a home, and prints what the document says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.documents import ROOT, blocks, broken_links, commands
from tests.gateways import environment_of

from switchboard.clients.known import CLIENTS

DOCUMENT = ROOT / "docs/install.md"
SWITCHBOARD = str(Path(sys.executable).with_name("switchboard"))
GEMINI = """{
  // the token is Ada's
  "mcpServers": {
    "github": { "httpUrl": "https://api.githubcopilot.com/mcp/", "headers": { "Authorization": "Bearer x" } }
  }
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the home of somebody who has two clients, in a checkout."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "home/.cursor").mkdir(parents=True)
    (tmp_path / "home/.cursor/mcp.json").write_text('{"mcpServers": {}}\n')
    (tmp_path / "home/.gemini").mkdir()
    (tmp_path / "home/.gemini/settings.json").write_text(GEMINI)
    return tmp_path / "home"


def typed(text: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Type a command into a terminal in the checkout."""
    environment = environment_of(home)
    del environment["PYTHONPATH"]
    return subprocess.run(  # noqa: S603 - our own document
        ["bash", "-c", text],  # noqa: S607 - wherever bash is
        cwd=home.parent,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def settled(text: str, home: Path) -> str:
    """Return what was printed with the paths of the document, and without the time."""
    text = text.replace(f"{home.parent}/", "/path/to/").replace(f"{sys.prefix}/", "/path/to/.venv/")
    return re.sub(r"\d{8}T\d{6}Z(-\d+)?", "TIME", text).strip()


def section(heading: str) -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_every_command_prints_what_is_shown(home: Path) -> None:
    """From top to bottom, in one home; afterwards its files are what they were."""
    found = [command for block in blocks(DOCUMENT) for command in commands(block)]
    before = [(home / file).read_bytes() for file in (".cursor/mcp.json", ".gemini/settings.json")]

    for command in found:
        done = typed(command.text, home)
        if command.text.endswith("doctor"):
            assert done.stdout.startswith("ok       python ")
        else:
            assert (done.returncode, settled(done.stdout, home)) == (0, command.output.strip()), command.text

    assert {block.language for block in blocks(DOCUMENT)} == {"console"}
    assert [(home / file).read_bytes() for file in (".cursor/mcp.json", ".gemini/settings.json")] == before


def test_every_option_stands_in_the_document() -> None:
    """The table and `--help` have the same ones."""
    table = "\n".join(re.findall(r"^\| (`.*?) \|", section("Options"), re.MULTILINE))
    shown = subprocess.run(  # noqa: S603 - our own command
        [SWITCHBOARD, "install", "--help"],
        env={**os.environ, "COLUMNS": "200", "TERM": "dumb"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout.partition("Examples:")[0]

    offered = set(re.findall(r"^\W*(--[a-z-]+)", shown, re.MULTILINE)) - {"--help"}
    assert set(re.findall(r"`(--[a-z-]+)", table)) == offered


def test_every_client_stands_in_the_document_with_its_file_and_its_source() -> None:
    """One row each; the format comes from somewhere that a reader can look at."""
    rows = re.findall(r"^\| `(\S+)` \| (.*)$", section("Clients"), re.MULTILINE)

    assert [name for name, _ in rows] == [one.id for one in CLIENTS]
    for one, (_, row) in zip(CLIENTS, rows, strict=True):
        assert "](https://" in row
        assert one.shape.container[0] in row
        assert one.project is None or f"`{one.project}`" in row
    assert list(broken_links(DOCUMENT)) == []

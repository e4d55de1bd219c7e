"""The configuration of every client as people have it: our entry goes in as the client reads it, and out again."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from switchboard.clients.entries import Entry
from switchboard.clients.install import Outcome, Wish, carry_out
from switchboard.clients.known import CLIENTS, Client, client
from switchboard.clients.refusals import NotOurs, Refusal

CONFIGS = Path(__file__).with_name("configs")
NOW = 1_800_000_000.0
ENTRY = Entry("/opt/sw/bin/aai-gateway", ("--dev",), {"AAI_KEY": "SECRET-of-ours"})
SAMPLES = {
    "claude-desktop.json": ("claude-desktop", "claude_desktop_config.json"),
    "claude-code.json": ("claude-code", ".claude.json"),
    "claude-code-project.json": ("claude-code", ".mcp.json"),
    "cursor.json": ("cursor", "mcp.json"),
    "vscode.json": ("vscode", "mcp.json"),
    "vscode-settings.json": ("vscode", "settings.json"),
    "windsurf.json": ("windsurf", "mcp_config.json"),
    "codex.toml": ("codex", "config.toml"),
    "gemini.json": ("gemini", "settings.json"),
    "zed.json": ("zed", "settings.json"),
}
EVERY_SAMPLE = pytest.mark.parametrize("sample", SAMPLES)


def known(name: str) -> Client:
    found = client(name)
    assert found is not None
    return found


def given(sample: str, folder: Path) -> tuple[Client, Path]:
    """Put a sample into a folder, under the name that it has at its owner's."""
    name, file = SAMPLES[sample]
    (folder / file).write_bytes((CONFIGS / sample).read_bytes())
    return known(name), folder / file


def act(meant: Client, file: Path, entry: Entry | None = ENTRY, **more: Any) -> Outcome:
    return carry_out(Wish(client=meant, file=file, name="aai-gateway", entry=entry, **more), NOW)


def as_the_client_reads(meant: Client, file: Path) -> dict[str, Any]:
    """Read a configuration with a reader that is none of ours."""
    text = file.read_text(encoding="utf-8-sig")
    if meant.shape.dialect == "toml":
        return tomllib.loads(text)
    if meant.shape.dialect == "json":
        return json.loads(text)
    # Texts are left alone, comments and commas before a closing bracket go.
    bare = re.sub(r'("(?:\\.|[^"\\])*")|//[^\r\n]*|/\*.*?\*/', lambda found: found[1] or "", text, flags=re.DOTALL)
    return json.loads(re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda found: found[1] or "", bare))


def entry_in(meant: Client, file: Path) -> dict[str, Any]:
    node = as_the_client_reads(meant, file)
    for key in (*meant.shape_of(file.name).container, "aai-gateway"):
        node = node[key]
    return node


def test_every_client_has_a_sample() -> None:
    """A client that is added brings one."""
    assert {name for name, _ in SAMPLES.values()} == {one.id for one in CLIENTS}


@EVERY_SAMPLE
def test_the_client_finds_our_entry_and_everything_else_as_it_was(sample: str, tmp_path: Path) -> None:
    """Read as the client does; and the file is what it was, to the byte, after it was taken out again."""
    meant, file = given(sample, tmp_path)
    before, original = as_the_client_reads(meant, file), file.read_bytes()

    added = act(meant, file)
    entry, after = entry_in(meant, file), as_the_client_reads(meant, file)
    removed = act(meant, file, None)

    container = meant.shape_of(file.name).container
    for key in container[:-1]:
        after, before = after[key], before.get(key, {})
    del after[container[-1]]["aai-gateway"]
    assert (added.action, removed.action) == ("added", "removed")
    assert {**entry} == {
        **meant.shape.fixed,
        "command": ENTRY.command,
        "args": ["--dev"],
        "env": {"AAI_KEY": "SECRET-of-ours"},
    }
    assert after == {container[-1]: {}, **before}
    assert file.read_bytes() == original


@EVERY_SAMPLE
def test_nothing_secret_is_shown(sample: str, tmp_path: Path) -> None:
    """Neither ours nor others', whether it is added, changed or removed; the command is."""
    meant, file = given(sample, tmp_path)

    shown = [
        act(meant, file, dry_run=True).diff,
        act(meant, file).diff,
        act(meant, file, Entry("/new/aai-gateway", None, {"AAI_KEY": "SECRET-new"})).diff,
        act(meant, file, None).diff,
    ]

    assert not [text for text in shown if "SECRET" in text or "ghp_" in text]
    assert "/opt/sw/bin/aai-gateway" in shown[0]
    assert "/new/aai-gateway" in shown[2]


@EVERY_SAMPLE
def test_the_lines_around_keep_their_looks(sample: str, tmp_path: Path) -> None:
    """Line ends, the mark of the byte order, and whether there is a last line end."""
    meant, file = given(sample, tmp_path)
    original = file.read_bytes()

    act(meant, file)

    changed = file.read_bytes()
    assert changed.startswith(b"\xef\xbb\xbf") == original.startswith(b"\xef\xbb\xbf")
    assert changed.endswith(b"\n") == original.endswith(b"\n")
    if b"\r\n" in original:
        assert changed.count(b"\n") == changed.count(b"\r\n")
    else:
        assert b"\r" not in changed


@EVERY_SAMPLE
def test_what_was_added_to_our_entry_stays(sample: str, tmp_path: Path) -> None:
    """The command is brought up to date; arguments and variables that nobody mentions stay."""
    meant, file = given(sample, tmp_path)
    act(meant, file)

    again = act(meant, file)
    updated = act(meant, file, Entry("/new/bin/aai-gateway"))

    assert (again.action, again.backup, updated.action) == ("unchanged", None, "updated")
    assert entry_in(meant, file)["command"] == "/new/bin/aai-gateway"
    assert entry_in(meant, file)["env"] == {"AAI_KEY": "SECRET-of-ours"}


def test_what_a_client_wrote_into_our_entry_stays(tmp_path: Path) -> None:
    """Codex keeps what the person approved below the entry, and others put a switch into it."""
    codex, zed = tmp_path / "config.toml", tmp_path / "settings.json"
    codex.write_text(
        '[mcp_servers.aai-gateway]\ncommand = "/old/aai-gateway" # mine\nenabled = true\n\n'
        '[mcp_servers.aai-gateway.env]\nA = "SECRET"\n\n'
        '[mcp_servers.aai-gateway.tools.search]\napproval_mode = "approve"\n'
    )
    zed.write_text('{"context_servers": {"aai-gateway": {"enabled": false, "command": "/old/aai-gateway"}}}')

    act(known("codex"), codex)
    act(known("zed"), zed)

    assert entry_in(known("codex"), codex) == {
        "command": ENTRY.command,
        "enabled": True,
        "args": ["--dev"],
        "env": {"AAI_KEY": "SECRET-of-ours"},
        "tools": {"search": {"approval_mode": "approve"}},
    }
    assert f'command = "{ENTRY.command}" # mine\n' in codex.read_text()
    assert entry_in(known("zed"), zed)["enabled"] is False
    act(known("codex"), codex, None)
    assert tomllib.loads(codex.read_text()).get("mcp_servers", {}) == {}


@pytest.mark.parametrize("sample", ["cursor.json", "codex.toml"])
def test_an_entry_of_somebody_else_is_left_alone_unless_forced(sample: str, tmp_path: Path) -> None:
    """Our name may be theirs."""
    meant, file = given(sample, tmp_path)
    theirs = file.read_bytes().replace(b"postgres", b"aai-gateway", 1).replace(b"context7]", b"aai-gateway]", 1)
    file.write_bytes(theirs)

    with pytest.raises(NotOurs, match=r"starts something else.*--name.*--force"):
        act(meant, file)
    with pytest.raises(NotOurs, match="--force"):
        act(meant, file, None)
    assert file.read_bytes() == theirs

    act(meant, file, force=True)
    assert entry_in(meant, file)["command"] == ENTRY.command


BROKEN = {
    "missing comma": ("cursor", '{\n  "mcpServers": {\n    "a": {} "b": {}\n  }\n}', "3:13"),
    "half": ("cursor", '{\n  "mcpServers": {', "2:18"),
    "single quotes": ("vscode", "{'servers': {}}", "1:2"),
    "text without end": ("zed", '{"a": "b\n}', "1:7"),
    "comment without end": ("zed", "{} /* and", "1:4"),
    "two documents": ("gemini", "{}\n{}", "2:1"),
    "a word": ("gemini", '{"a": yes}', "1:7"),
    "leading comma": ("windsurf", '{,"a": 1}', "1:2"),
    "toml twice": ("codex", "a = 1\na = 2\n", "2:6"),
    "toml open": ("codex", 'a = 1\nb = "x\n', "2:7"),
    "toml value": ("codex", "a = 1\r\n  b = yes\r\n", "2:7"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_place(case: str, tmp_path: Path) -> None:
    """Line and column, what to do, and not a byte of it touched."""
    name, text, place = BROKEN[case]
    file = tmp_path / "config.toml" if name == "codex" else tmp_path / "mcp.json"
    file.write_bytes(text.encode())

    with pytest.raises(Refusal) as refused:
        act(known(name), file)

    assert f"{file}:{place}: " in str(refused.value)
    assert "Correct it, and try again; nothing was changed." in str(refused.value)
    assert refused.value.code == 2
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert file.read_bytes() == text.encode()


def test_what_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """With the line, and with what to do."""
    file = tmp_path / "mcp.json"
    file.write_bytes('{\n "ä": 1}'.encode("latin-1"))

    with pytest.raises(Refusal, match=r"mcp\.json:2:3: this is not UTF-8"):
        act(known("cursor"), file)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cursor", "[]"),
        ("cursor", '"text"'),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", '{"mcpServers": null}'),
        ("cursor", '{"mcpServers": {"aai-gateway": 5}}'),
        ("codex", "mcp_servers = 5"),
        ("codex", 'mcp_servers = { a = { command = "x" } }'),
        ("codex", 'mcp_servers.aai-gateway.command = "/x/aai-gateway"'),
    ],
)
def test_a_file_with_something_else_in_our_place_is_refused(name: str, text: str, tmp_path: Path) -> None:
    """It is right, and still nothing can be added safely: the person is told to do it."""
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(Refusal, match="by hand") as refused:
        act(known(name), file)

    assert (refused.value.code, file.read_text()) == (1, text)


def test_a_client_that_reads_plain_json_is_warned_about(tmp_path: Path) -> None:
    """Comments are kept, though the client may stumble over them; that is said, with the place."""
    file = tmp_path / "claude_desktop_config.json"
    file.write_text('{\n  // mine\n  "mcpServers": {},\n}\n')

    done = act(known("claude-desktop"), file)

    assert done.warning is not None
    assert f"{file}:2:3: there is a comment, and Claude Desktop reads plain JSON" in done.warning


@pytest.mark.parametrize("name", [one.id for one in CLIENTS])
def test_a_file_that_was_made_is_removed_again(name: str, tmp_path: Path) -> None:
    """And one that was empty is empty again."""
    file = tmp_path / "folder/config"
    (tmp_path / "empty").touch()

    assert act(known(name), file).backup is None
    assert entry_in(known(name), file)["command"] == ENTRY.command
    act(known(name), file, None)
    assert not file.exists()

    act(known(name), tmp_path / "empty")
    assert entry_in(known(name), tmp_path / "empty")["command"] == ENTRY.command
    act(known(name), tmp_path / "empty", None)
    assert (tmp_path / "empty").read_bytes() == b""


def test_one_of_two_equal_names_is_the_one_that_counts(tmp_path: Path) -> None:
    """Clients take the last; so do we, and the first stays."""
    file = tmp_path / "mcp.json"
    text = '{"mcpServers": {"a": {}}, "mcpServers": {"b": {}, "b": {"x": 1}}}'
    file.write_text(text)

    act(known("cursor"), file)

    assert list(json.loads(file.read_text())["mcpServers"]) == ["b", "aai-gateway"]
    act(known("cursor"), file, None)
    assert file.read_text() == text

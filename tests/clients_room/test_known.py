"""Where every client has its file, on every system; and which of them is meant."""

from pathlib import Path

import pytest

from switchboard.clients import place
from switchboard.clients.known import CLIENTS, Machine, System, client
from switchboard.clients.refusals import NotFound

HOMES = {"macos": "/Users/ada", "linux": "/home/ada", "windows": r"C:\Users\ada"}
VARIABLES = {
    "windows": {"APPDATA": r"D:\Roaming", "LOCALAPPDATA": r"D:\Local"},
    "macos": {"XDG_CONFIG_HOME": "/elsewhere"},
    "linux": {},
}
PLACES = {
    "claude-desktop": (
        "/Users/ada/Library/Application Support/Claude/claude_desktop_config.json",
        "/home/ada/.config/Claude/claude_desktop_config.json",
        r"D:\Roaming\Claude\claude_desktop_config.json",
    ),
    "claude-code": ("/Users/ada/.claude.json", "/home/ada/.claude.json", r"C:\Users\ada\.claude.json"),
    "cursor": ("/Users/ada/.cursor/mcp.json", "/home/ada/.cursor/mcp.json", r"C:\Users\ada\.cursor\mcp.json"),
    "vscode": (
        "/Users/ada/Library/Application Support/Code/User/mcp.json",
        "/home/ada/.config/Code/User/mcp.json",
        r"D:\Roaming\Code\User\mcp.json",
    ),
    "windsurf": (
        "/Users/ada/.codeium/windsurf/mcp_config.json",
        "/home/ada/.codeium/windsurf/mcp_config.json",
        r"C:\Users\ada\.codeium\windsurf\mcp_config.json",
    ),
    "codex": ("/Users/ada/.codex/config.toml", "/home/ada/.codex/config.toml", r"C:\Users\ada\.codex\config.toml"),
    "gemini": (
        "/Users/ada/.gemini/settings.json",
        "/home/ada/.gemini/settings.json",
        r"C:\Users\ada\.gemini\settings.json",
    ),
    "zed": (
        "/Users/ada/.config/zed/settings.json",
        "/home/ada/.config/zed/settings.json",
        r"D:\Roaming\Zed\settings.json",
    ),
}


def machine(system: System, **environment: str) -> Machine:
    return Machine(system=system, home=HOMES[system], environment={**VARIABLES[system], **environment})


@pytest.mark.parametrize("name", PLACES)
def test_each_client_has_its_file_where_its_documentation_says(name: str) -> None:
    """On macOS, Linux and Windows, on whichever of them this runs."""
    found = client(name)
    assert found is not None

    systems: tuple[System, ...] = ("macos", "linux", "windows")
    assert tuple(str(found.files(machine(system))[-1]) for system in systems) == PLACES[name]
    assert set(PLACES) == {one.id for one in CLIENTS}


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "/own/.claude.json"),
        ("codex", "CODEX_HOME", "/own/config.toml"),
        ("claude-desktop", "XDG_CONFIG_HOME", "/own/Claude/claude_desktop_config.json"),
        ("vscode", "XDG_CONFIG_HOME", "/own/Code/User/mcp.json"),
        ("zed", "XDG_CONFIG_HOME", "/own/zed/settings.json"),
    ],
)
def test_variables_move_files(name: str, variable: str, file: str) -> None:
    """Those that the clients themselves obey; a relative one is none."""
    found = client(name)
    assert found is not None

    assert str(found.files(machine("linux", **{variable: "/own"}))[0]) == file
    assert str(found.files(machine("linux", **{variable: "own"}))[0]) == PLACES[name][1]


def test_a_packaged_claude_on_windows_has_a_file_of_its_own() -> None:
    """Windows shows it a copy of the usual folder, and it never sees the usual one."""
    found = client("claude")
    assert found is not None

    assert str(found.files(machine("windows"))[0]) == (
        r"D:\Local\Packages\Claude_*\LocalCache\Roaming\Claude\claude_desktop_config.json"
    )


def test_the_packaged_file_wins_over_one_that_is_left_from_before(tmp_path: Path) -> None:
    """Whatever the name of the package; tried with the layout of Windows below a folder of our own."""
    found = client("claude-desktop")
    assert found is not None
    here = Machine(system="windows", home=str(tmp_path), environment={})
    usual = tmp_path / "AppData/Roaming/Claude/claude_desktop_config.json"
    usual.parent.mkdir(parents=True)
    usual.touch()
    alone = place.user_file(found, here)
    packaged = tmp_path / "AppData/Local/Packages/Claude_pzs8/LocalCache/Roaming/Claude/claude_desktop_config.json"
    packaged.parent.mkdir(parents=True)

    assert alone == usual
    assert place.user_file(found, here) == packaged
    assert place.is_here(found, here)


def test_a_client_is_here_when_a_trace_of_it_is(tmp_path: Path) -> None:
    """Its folder, or its file."""
    here = Machine(system="linux", home=str(tmp_path), environment={})
    clients = {name: client(name) for name in ("cursor", "claude-code", "zed")}

    assert not any(found and place.is_here(found, here) for found in clients.values())
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".claude.json").write_text("{}")
    assert {name for name, found in clients.items() if found and place.is_here(found, here)} == {
        "cursor",
        "claude-code",
    }


def test_a_client_without_a_file_for_projects_says_so(tmp_path: Path) -> None:
    """Two have none."""
    found = client("windsurf")
    assert found is not None

    with pytest.raises(NotFound, match="Windsurf has no file for a project"):
        place.project_file(found, tmp_path)
    assert [one.id for one in CLIENTS if one.project is None] == ["claude-desktop", "windsurf"]

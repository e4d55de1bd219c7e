"""The agent clients that are known: what each calls its servers, and in which file, on which system.

Each format is the one of the client's own documentation, which docs/install.md names. Pure: whether a file is there,
`place` says.
"""

from collections.abc import Callable, Mapping
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from msgspec import Struct

System = Literal["macos", "linux", "windows"]
Dialect = Literal["json", "jsonc", "toml"]
"""`json` is what a client reads that takes neither comments nor trailing commas."""
SETTINGS = "settings.json"


class Machine(Struct, frozen=True, kw_only=True):
    """What the places of files depend on."""

    system: System
    home: str
    environment: Mapping[str, str]

    def path(self, *parts: str) -> PurePath:
        """Return a path as this system writes it."""
        return (PureWindowsPath if self.system == "windows" else PurePosixPath)(*parts)

    def at_home(self, *parts: str) -> PurePath:
        """Return a path below the user's folder."""
        return self.path(self.home, *parts)

    def named(self, variable: str, *otherwise: str) -> PurePath:
        """Return the folder that a variable names, or one below the user's folder."""
        value = self.environment.get(variable, "")
        return self.path(value) if value and self.path(value).is_absolute() else self.at_home(*otherwise)

    @property
    def settings(self) -> PurePath:
        """Where programs keep their settings on this system."""
        match self.system:
            case "macos":
                return self.at_home("Library", "Application Support")
            case "windows":
                return self.named("APPDATA", "AppData", "Roaming")
            case "linux":
                return self.named("XDG_CONFIG_HOME", ".config")


class Shape(Struct, frozen=True):
    """How an entry is written: in which object, with which words that every entry has."""

    dialect: Dialect
    container: tuple[str, ...]
    fixed: Mapping[str, Any] = {}
    needs_args: bool = False
    """Whether a client refuses an entry without arguments, even if there are none."""


class Client(Struct, frozen=True, kw_only=True):
    """One agent client."""

    id: str
    title: str
    shape: Shape
    project: str | None = None
    """Its file inside a project, if it reads one."""
    note: str
    """What a person does next."""

    def files(self, machine: Machine) -> tuple[PurePath, ...]:
        """Return the user's own files of this client, the preferred one first; `*` stands for any name."""
        return _FILES[self.id](machine)

    def traces(self, machine: Machine) -> tuple[PurePath, ...]:
        """Return files and folders one of which is there where the client is."""
        more = (machine.at_home(".claude"),) if self.id == "claude-code" else ()
        return (*(file.parent for file in self.files(machine) if file.parent != machine.at_home()), *more)

    def shape_of(self, file: str) -> Shape:
        """Return how an entry is written in a file of that name: older versions of VS Code had it in their settings."""
        if self.id == "vscode" and file == SETTINGS:
            return Shape("jsonc", ("mcp", "servers"), self.shape.fixed)
        return self.shape


_STDIO = {"type": "stdio"}
CLIENTS: tuple[Client, ...] = (
    Client(
        id="claude-desktop",
        title="Claude Desktop",
        shape=Shape("json", ("mcpServers",)),
        note="Quit Claude Desktop, from its menu and not only its window, and start it again.",
    ),
    Client(
        id="claude-code",
        title="Claude Code",
        shape=Shape("json", ("mcpServers",), _STDIO),
        project=".mcp.json",
        note="Start a new session of Claude Code; `/mcp` shows it. Of a project's file it asks you first.",
    ),
    Client(
        id="cursor",
        title="Cursor",
        shape=Shape("jsonc", ("mcpServers",), _STDIO),
        project=".cursor/mcp.json",
        note="Turn it on in the settings of Cursor, under MCP, if it is not on.",
    ),
    Client(
        id="vscode",
        title="VS Code",
        shape=Shape("jsonc", ("servers",), _STDIO),
        project=".vscode/mcp.json",
        note="VS Code asks whether you trust it when it is first started; `MCP: List Servers` shows it.",
    ),
    Client(
        id="windsurf",
        title="Windsurf",
        shape=Shape("json", ("mcpServers",)),
        note="Press the refresh button of the MCP servers in Windsurf.",
    ),
    Client(
        id="codex",
        title="Codex",
        shape=Shape("toml", ("mcp_servers",)),
        project=".codex/config.toml",
        note="Start a new session of Codex; `/mcp` shows it. It reads a project's file only if you trust the project.",
    ),
    Client(
        id="gemini",
        title="Gemini CLI",
        shape=Shape("jsonc", ("mcpServers",)),
        project=".gemini/settings.json",
        note="Start Gemini CLI again; `/mcp` shows it.",
    ),
    Client(
        id="zed",
        title="Zed",
        shape=Shape("jsonc", ("context_servers",), {"source": "custom"}, needs_args=True),
        project=".zed/settings.json",
        note="Zed starts it at once; the settings of the agent panel show it.",
    ),
)
_ALIASES = {"claude": "claude-desktop", "code": "vscode", "vs-code": "vscode", "gemini-cli": "gemini"}


def client(name: str) -> Client | None:
    """Return the client of that name, if it is known."""
    wanted = name.strip().lower()
    return next((one for one in CLIENTS if one.id == _ALIASES.get(wanted, wanted)), None)


def _claude_desktop(machine: Machine) -> tuple[PurePath, ...]:
    usual = machine.settings / "Claude" / "claude_desktop_config.json"
    if machine.system != "windows":
        return (usual,)
    # The installer of today makes a package, which sees a copy of %APPDATA% of its own.
    local = machine.named("LOCALAPPDATA", "AppData", "Local")
    packaged = local / "Packages" / "Claude_*" / "LocalCache" / "Roaming" / "Claude" / usual.name
    return packaged, usual


def _claude_code(machine: Machine) -> tuple[PurePath, ...]:
    return (machine.named("CLAUDE_CONFIG_DIR") / ".claude.json",)


def _zed(machine: Machine) -> tuple[PurePath, ...]:
    match machine.system:
        case "windows":
            return (machine.settings / "Zed" / SETTINGS,)
        case "macos":
            return (machine.at_home(".config", "zed", SETTINGS),)
        case "linux":
            return (machine.settings / "zed" / SETTINGS,)


_FILES: dict[str, Callable[[Machine], tuple[PurePath, ...]]] = {
    "claude-desktop": _claude_desktop,
    "claude-code": _claude_code,
    "cursor": lambda machine: (machine.at_home(".cursor", "mcp.json"),),
    "vscode": lambda machine: (machine.settings / "Code" / "User" / "mcp.json",),
    "windsurf": lambda machine: (machine.at_home(".codeium", "windsurf", "mcp_config.json"),),
    "codex": lambda machine: (machine.named("CODEX_HOME", ".codex") / "config.toml",),
    "gemini": lambda machine: (machine.at_home(".gemini", SETTINGS),),
    "zed": _zed,
}

"""Which folders hold descriptors on which system, in order of precedence: an earlier place wins over a later one.

Development builds come first, because whoever asked for them wants to see them; then what the person installed, then
what the system has, and the registry's copies last. Everything is passed in, so each system's layout can be tried on
any other.
"""

from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Literal

from msgspec import Struct

from switchboard.catalog.model import Platform

Shape = Literal["apps", "files", "bundles", "entries", "file"]
"""How descriptors lie in a place: `*/aai.json`, `*.json`, `*/Contents/Resources/aai.json`, `*.desktop`, or one file."""

_WEB_COPIES = "web"
_CACHE = "aai-gateway"


class Place(Struct, frozen=True):
    """One folder (or file) to look into; `label` is what people see as the source."""

    label: str
    path: Path
    shape: Shape
    skip: frozenset[str] = frozenset()
    holds_copies: bool = False
    """Whether descriptors here came over the network, with a note of where from beside them."""

    def holds(self, name: str) -> bool:
        """Tell whether something of that name in this place can be an app; copies that are being made are none."""
        return name not in self.skip and not (self.holds_copies and name.startswith("."))


class Surroundings(Struct, frozen=True, kw_only=True):
    """What a scan depends on: the system, the person's folders, the environment."""

    system: Platform
    home: Path
    working: Path
    environment: Mapping[str, str]
    root: Path = Path("/")
    """Where the system's own folders begin; tests put a whole system under a folder of their own."""

    @property
    def aai_home(self) -> Path:
        """The person's own descriptors: `AAI_HOME`, or `~/.aai`."""
        chosen = self.environment.get("AAI_HOME") or "~/.aai"
        if chosen == "~" or chosen.startswith("~/"):
            return self.home / chosen[2:]
        return self.working / chosen


def places(around: Surroundings, *, dev: bool = False) -> tuple[Place, ...]:
    """Return where to look, first come first."""
    home = around.aai_home
    return (
        *(_development(around) if dev else ()),
        Place("home", home, "apps", frozenset({_WEB_COPIES})),
        *_system(around),
        Place("registry copy", web_copies(around), "apps", holds_copies=True),
    )


def web_copies(around: Surroundings) -> Path:
    """Return where the descriptors of registries are kept."""
    return around.aai_home / _WEB_COPIES


def site_copies(around: Surroundings) -> Path:
    """Return where the descriptors of web sites are kept: the user's cache folder."""
    chosen = around.environment.get("XDG_CACHE_HOME", "")
    if chosen.startswith("/"):
        return Path(chosen) / _CACHE
    match around.system:
        case "macos":
            return around.home / "Library/Caches" / _CACHE
        case "windows":
            local = around.environment.get("LOCALAPPDATA")
            return (_under(around.root, local) if local else around.home / "AppData/Local") / _CACHE
        case _:
            return around.home / ".cache" / _CACHE


def _development(around: Surroundings) -> tuple[Place, ...]:
    if around.system == "macos":
        derived = around.home / "Library/Developer/Xcode/DerivedData"
        projects = sorted(derived.glob("*/Build/Products")) if derived.is_dir() else []
        return tuple(
            Place("development", products / build, "bundles") for products in projects for build in ("Debug", "Release")
        )
    return tuple(Place("development", around.working / name, "file") for name in _BUILD_FILES)


_BUILD_FILES = ("aai.json", "dist/aai.json", "build/aai.json")


def _system(around: Surroundings) -> tuple[Place, ...]:
    match around.system:
        case "macos":
            return _macos(around)
        case "windows":
            return _windows(around)
        case _:
            return _linux(around)


def _macos(around: Surroundings) -> tuple[Place, ...]:
    # `find -maxdepth 4` of seed 002 does not reach into Utilities, where the system keeps many apps.
    folders = (
        around.home / "Applications",
        around.root / "Applications",
        around.root / "Applications/Utilities",
    )
    return tuple(Place("applications", folder, "bundles") for folder in folders)


def _linux(around: Surroundings) -> tuple[Place, ...]:
    folders = [folder / "applications" for folder in _xdg_folders(around)]
    return (
        *(Place("xdg", folder / "aai", "files") for folder in folders),
        *(Place("desktop entry", folder, "entries") for folder in folders),
        Place("opt", around.root / "opt", "apps"),
    )


def _xdg_folders(around: Surroundings) -> list[Path]:
    """Return the data folders of the XDG specification; relative ones are invalid there, and are not used."""
    own = around.environment.get("XDG_DATA_HOME", "")
    shared = around.environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    first = Path(own) if own.startswith("/") else around.home / ".local/share"
    folders = [first, *(around.root / entry.lstrip("/") for entry in shared.split(":") if entry.startswith("/"))]
    return list(dict.fromkeys(folders))


def _windows(around: Surroundings) -> tuple[Place, ...]:
    found: list[Place] = []
    for variable in ("APPDATA", "PROGRAMDATA"):
        value = around.environment.get(variable)
        if value:
            folder = _under(around.root, value)
            found += [
                Place(variable.lower(), folder / "aai", "files"),
                Place(variable.lower(), folder, "apps", frozenset({"aai"})),
            ]
    return tuple(found)


def _under(root: Path, value: str) -> Path:
    """Return a Windows folder as it is on Windows, and below `root` where another system plays Windows."""
    parts = PureWindowsPath(value)
    return Path(value) if Path(value).is_absolute() else root.joinpath(*parts.parts[1:])

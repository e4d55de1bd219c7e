"""The desktop session of this user, for a process that was not told of it.

Agent clients start a gateway with few variables; many leave out where the screen is. The system says that itself: the
sockets of a Wayland or X server of this user, in the user's own runtime folder and where X puts them.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

_X_SOCKETS = Path("/tmp/.X11-unix")  # noqa: S108 - where X has them, on every system
_TOLD = ("DISPLAY", "WAYLAND_DISPLAY")


def session(environment: Mapping[str, str], x_sockets: Path = _X_SOCKETS) -> dict[str, str]:
    """Return the environment, with the one screen of this user added where it names none."""
    around = dict(environment)
    if any(environment.get(name) for name in _TOLD) or not hasattr(os, "getuid"):
        return around
    runtime = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    if not _is_ours(runtime, stat.S_ISDIR):
        return around  # nobody is signed in at this machine
    waylands = [path.name for path in sorted(runtime.glob("wayland-?")) if _is_ours(path, stat.S_ISSOCK)]
    screens = [path.name for path in sorted(x_sockets.glob("X*")) if _is_ours(path, stat.S_ISSOCK)]
    if len(waylands) == 1:
        around |= {"WAYLAND_DISPLAY": waylands[0]}
    if len(screens) == 1 and screens[0][1:].isdecimal():
        around |= {"DISPLAY": f":{screens[0][1:]}"}
    return around | ({"XDG_RUNTIME_DIR": str(runtime)} if around != environment else {})


def _is_ours(path: Path, kind: object) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and callable(kind) and bool(kind(found.st_mode))

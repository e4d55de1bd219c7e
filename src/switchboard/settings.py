"""What the outside says about this run: which system it is. Reads the process and its environment, decides nothing."""

import sys
from typing import Literal


def system() -> Literal["macos", "linux", "windows"]:
    """Return the operating system; every Unix that is not macOS keeps its apps where Linux does."""
    if sys.platform == "darwin":
        return "macos"
    return "windows" if sys.platform == "win32" else "linux"

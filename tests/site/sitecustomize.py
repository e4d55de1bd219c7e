"""Imported by every Python that a test starts: notes each program that is started from there, with its arguments.

Where a test wants to know, also every file that is opened for writing. And where a test has an authority of its own,
the trust store of the operating system is that one: Python finds it under the path that OpenSSL was built with.
"""

import os
import sys
from pathlib import Path
from typing import Any

_SPAWNED = os.environ.get("SWITCHBOARD_TESTS_SPAWNED")
_WRITTEN = os.environ.get("SWITCHBOARD_TESTS_WRITTEN")
_AUTHORITY = os.environ.get("SWITCHBOARD_TESTS_AUTHORITY")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if _SPAWNED and event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
        _add(_SPAWNED, f"{event} {arguments[:2]!r}")
    elif _WRITTEN and event == "open" and arguments[2] & _WRITING and arguments[0] != _WRITTEN:
        _add(_WRITTEN, str(arguments[0]))


def _add(file: str, line: str) -> None:
    with Path(file).open("a", encoding="utf-8") as notes:
        notes.write(f"{line}\n")


if _SPAWNED or _WRITTEN:
    sys.addaudithook(_note)

if _AUTHORITY:
    import ssl

    _paths = ssl.get_default_verify_paths()._replace(openssl_cafile=_AUTHORITY, openssl_capath="/nowhere")
    ssl.get_default_verify_paths = lambda: _paths

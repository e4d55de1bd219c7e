"""What must never be said: every secret of the tests bears one mark, which is looked for in all that a gateway leaves.

After every test of the whole run: its messages and its standard error, its logs and its audit record, the descriptors
it keeps, whatever else it wrote, and the arguments of every program it started or that was seen running.
"""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Thread

from tests.processes import running

MARK = "Gehe1m"
"""The beginning of every secret of the tests: no other text has it."""
_EVERY_S = 0.05


def secret(name: str) -> str:
    """Make a secret that will be noticed wherever it turns up."""
    return f"{MARK}-{name}-{token_hex(8)}"


class Watch:
    """Sees the arguments of every process of this machine, as any user can, and collects what gateways said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, bytes]] = []
        """What was said, and by what."""
        self.homes: set[Path] = set()
        self.secrets: set[bytes] = set()
        """Secrets that somebody else made up, without the mark."""
        self._seen: set[str] = set()
        self._ended = Event()
        self._thread = Thread(target=self._look, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no longer."""
        self._ended.set()
        self._thread.join(10)

    def leaks(self) -> list[str]:
        """Return where the mark was found, and begin anew."""
        said = [*self.said, *((str(file), text) for file, text in _written(self.homes))]
        found = [f"{where}: {_around(text, secret)}" for where, text in said if (secret := self._found(text))]
        found += sorted(self._seen)
        self.said, self.homes, self.secrets, self._seen = [], set(), set(), set()
        return found

    def _found(self, text: bytes) -> bytes | None:
        return next((secret for secret in (MARK.encode(), *self.secrets) if secret in text), None)

    def _look(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for process in running():
                with suppress(OSError):  # just gone
                    arguments = (process / "cmdline").read_bytes()
                    secret = self._found(arguments)
                    if secret and self._is_ours(process):
                        self._seen.add(f"process list: {_around(arguments, secret)}")

    def _is_ours(self, process: Path) -> bool:
        """Tell whether a process belongs to this run: others may test beside it."""
        parent = f"PPid:\t{os.getpid()}\n".encode()
        around = (process / "environ").read_bytes()
        return parent in (process / "status").read_bytes() or any(
            str(home).encode() in around for home in tuple(self.homes)
        )


WATCH = Watch()


def notes_of(home: Path) -> Path:
    """Return where the programs are noted that a gateway of this home starts."""
    return home / "spawned.txt"


def _written(homes: set[Path]) -> list[tuple[Path, bytes]]:
    found: list[tuple[Path, bytes]] = []
    for home in homes:
        for folder, _, names in os.walk(home):
            for file in (Path(folder) / name for name in names):
                with suppress(OSError):
                    if file.is_file() and not file.is_symlink():
                        found.append((file, file.read_bytes()))
    return found


def _around(text: bytes, secret: bytes) -> str:
    """Return enough of a text to find the place, and nothing of the secret."""
    at = text.index(secret)
    return f"{text[max(0, at - 80) : at]!r} …"

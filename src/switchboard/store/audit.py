"""The audit record: one JSON line for each execution, in a file that is only ever appended to."""

import hmac
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import final

import msgspec

from switchboard.actions.ports import Audit, Entry

_KEY_BYTES = 32


@final
class AuditFile(Audit):
    """Appends to one file, which is made with the first line. Several processes may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._key: bytes | None = None
        self.lost = 0
        """Lines that could not be written."""

    def note(self, entry: Entry) -> None:
        """Append one line, in one write, so that lines of several processes never mix."""
        try:
            if self._descriptor is None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(self._descriptor, msgspec.json.encode(entry) + b"\n")
        except OSError:
            self.lost += 1

    def fingerprint(self, arguments: bytes) -> str:
        """Return what stands for arguments: keyed, because short ones could be guessed from a plain hash."""
        if self._key is None:
            self._key = _key(self._path.with_name("key"))
        return hmac.digest(self._key, arguments, "sha256").hex()[:32]


def _key(path: Path) -> bytes:
    """Return the key of this installation, made when it is first needed; where it cannot be kept, one for this run."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
        except FileExistsError:
            pass
        key = path.read_bytes()
    except OSError:
        key = b""
    return key if len(key) >= _KEY_BYTES else secrets.token_bytes(_KEY_BYTES)


def read(path: Path) -> Iterator[Entry]:
    """Yield the record in its order; a line that was cut off by a crash is left out."""
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    yield msgspec.json.decode(line, type=Entry)
                except msgspec.DecodeError:
                    continue
    except FileNotFoundError:
        return

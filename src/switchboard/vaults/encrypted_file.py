"""Secrets in one encrypted file, for machines without a keychain.

AES-256-GCM, with a key from a passphrase (scrypt) or from a file of random bytes (HKDF). All of the file is
authenticated. A change writes a new file beside the old one and puts it in its place, so a crash leaves one of the two;
a file that the key does not open is never written over. What it cannot notice: an older copy of the same file put back.
"""

import os
import secrets
import shlex
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, final

import msgspec

from switchboard.catalog.errors import VaultUnavailable
from switchboard.vaults.locks import LIMIT_S, Stamp, later, locked, open_own, stamp
from switchboard.vaults.vault import Change, Vault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_MAGIC = b"SWBVAULT"
_FORMAT = 1
_HEADER = struct.Struct(">8sBBBBB16s")
"""Magic, format, kind of key, scrypt's log2(n), r and p (0 for a key file), salt. Authenticated with the rest."""
_NONCE, _TAG = 12, 16
_KINDS = {"passphrase": 1, "key file": 2}
_COST = (15, 8, 3)
"""32 MB and about 0.2 s. OWASP's equal of n=2**17, p=1, with a quarter of the memory."""
_LARGEST_COST = (17, 8, 4)
"""A file that asks for more is not ours: whoever wrote it wants our memory."""
_SHORTEST_KEY, _LONGEST_KEY = 32, 1024 * 1024
_KEY_MODES = (0o600, 0o400)
_UNFINISHED = ".unfinished"


@dataclass(frozen=True, slots=True)
class Key:
    """Where the key comes from: asked for when it is first needed, and again where it was the wrong one."""

    kind: Literal["passphrase", "key file"]
    load: Callable[[], bytes]


def passphrase(ask: Callable[[], str]) -> Key:
    """Take the key from words that somebody knows."""

    def load() -> bytes:
        words = ask()
        if not words:
            raise VaultUnavailable("The passphrase for the encrypted secrets is empty. Give one.")
        return words.encode("utf-8", "surrogateescape")

    return Key("passphrase", load)


def key_file(path: Path) -> Key:
    """Take the key from a file of this user alone."""
    return Key("key file", lambda: _key_of_file(path))


def credential(path: Path) -> Key:
    """Take the key from a file that systemd has put there for this service alone."""
    return Key("key file", lambda: _key_of_credential(path))


class _Header(NamedTuple):
    kind: int
    cost: tuple[int, int, int]
    salt: bytes

    def packed(self) -> bytes:
        return _HEADER.pack(_MAGIC, _FORMAT, self.kind, *self.cost, self.salt)


@final
class EncryptedFile(Vault):
    """Keeps everything in one file. The key is derived once, and stays in memory."""

    def __init__(self, path: Path, key: Key, *, limit_s: float = LIMIT_S) -> None:
        self._path = path
        self._key = key
        self._limit_s = limit_s
        self._derived: tuple[_Header, AESGCM] | None = None

    def read(self, name: str) -> str | None:
        """Return what is kept under a name."""
        return self._texts().get(name)

    def names(self) -> list[str]:
        """Return every name, sorted."""
        return sorted(self._texts())

    def version(self) -> Stamp | None:
        """Return what is known of the file without opening it."""
        return stamp(self._path)

    def change(self, name: str, change: Change) -> str | None:
        """Replace what is kept, with nobody else in between."""
        with locked(self._path.parent, self._limit_s):
            self._remove_unfinished()
            header, texts = self._opened()
            before = texts.get(name)
            after = change(before)
            if after == before:
                return after
            if after is None:
                del texts[name]
            else:
                texts[name] = after
            self._replace(self._sealed(header, texts))
            return after

    def _texts(self) -> dict[str, str]:
        # Windows does not replace a file that somebody reads, so there readers wait for writers, and writers for them.
        alone = locked(self._path.parent, self._limit_s) if sys.platform == "win32" else nullcontext()
        with alone:
            return self._opened()[1]

    def _opened(self) -> tuple[_Header, dict[str, str]]:
        try:
            descriptor = open_own(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return self._new_header(), {}
        try:
            with os.fdopen(descriptor, "rb") as file:
                raw = file.read()
        except OSError as error:
            raise VaultUnavailable(
                f"{self._path} cannot be read: {error.strerror}. Make it yours, or move it away."
            ) from error
        return self._unsealed(raw)

    def _new_header(self) -> _Header:
        cost = _COST if self._key.kind == "passphrase" else (0, 0, 0)
        return _Header(_KINDS[self._key.kind], cost, secrets.token_bytes(16))

    def _unsealed(self, raw: bytes) -> tuple[_Header, dict[str, str]]:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - on first use

        header = self._read_header(raw)
        cipher = self._cipher(header)
        nonce, sealed = raw[_HEADER.size : _HEADER.size + _NONCE], raw[_HEADER.size + _NONCE :]
        try:
            texts = msgspec.json.decode(cipher.decrypt(nonce, sealed, raw[: _HEADER.size]), type=dict[str, str])
        except (InvalidTag, msgspec.DecodeError):
            raise self._does_not_open() from None
        self._derived = header, cipher
        return header, texts

    def _read_header(self, raw: bytes) -> _Header:
        if len(raw) < _HEADER.size + _NONCE + _TAG:
            raise self._does_not_open()
        magic, version, kind, *cost, salt = _HEADER.unpack_from(raw)
        if magic != _MAGIC or version != _FORMAT or kind not in _KINDS.values():
            raise self._does_not_open()
        if kind != _KINDS[self._key.kind]:
            made = "a passphrase" if kind == _KINDS["passphrase"] else "a key file"
            raise VaultUnavailable(f"{self._path} was made with {made}, not with a {self._key.kind}. Give that one.")
        header = _Header(kind, (cost[0], cost[1], cost[2]), salt)
        smallest, largest = (_COST, _LARGEST_COST) if kind == _KINDS["passphrase"] else ((0, 0, 0), (0, 0, 0))
        if not all(low <= given <= high for low, given, high in zip(smallest, header.cost, largest, strict=True)):
            raise self._does_not_open()
        return header

    def _does_not_open(self) -> VaultUnavailable:
        return VaultUnavailable(
            f"{self._path} does not open: the {self._key.kind} is not the one it was made with, or the file was "
            "damaged. It stays as it is. Give the right one, or move the file away to begin anew."
        )

    def _cipher(self, header: _Header) -> "AESGCM":
        """Return the cipher for a header; only one that has opened or made the file is kept."""
        if self._derived and self._derived[0] == header:
            return self._derived[1]
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - on first use

        return AESGCM(_derive(header, self._key.load()))

    def _sealed(self, header: _Header, texts: dict[str, str]) -> bytes:
        try:
            plain = msgspec.json.encode(texts)
        except UnicodeEncodeError:  # which holds the text
            raise VaultUnavailable("This is no text that can be kept: half a character is in it.") from None
        cipher = self._cipher(header)
        self._derived = header, cipher
        nonce = secrets.token_bytes(_NONCE)
        return header.packed() + nonce + cipher.encrypt(nonce, plain, header.packed())

    def _replace(self, content: bytes) -> None:
        unfinished = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}{_UNFINISHED}")
        time = later(self._path)
        try:
            descriptor = open_own(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            os.utime(unfinished, ns=(time, time))
            unfinished.replace(self._path)
            _keep_entry(self._path.parent)
        except OSError as error:
            raise VaultUnavailable(
                f"{self._path} cannot be written: {error.strerror}. Make room, or make it yours."
            ) from error
        finally:
            with suppress(OSError):
                unfinished.unlink()

    def _remove_unfinished(self) -> None:
        """Remove what a process left that ended while it wrote; we have the lock, so nobody writes it now."""
        with suppress(OSError):
            for path in self._path.parent.glob(f"{self._path.name}.*{_UNFINISHED}"):
                path.unlink()


def _keep_entry(folder: Path) -> None:
    """Have the system write down that a file has another content; without that a power cut brings the old one back."""
    if sys.platform == "win32":  # which does so by itself, and opens no folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _derive(header: _Header, material: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - on first use
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - on first use
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415 - on first use

    if header.kind == _KINDS["passphrase"]:
        log_n, r, p = header.cost
        return Scrypt(salt=header.salt, length=32, n=2**log_n, r=r, p=p).derive(material)
    return HKDF(algorithm=SHA256(), length=32, salt=header.salt, info=b"switchboard vault").derive(material)


def _key_of_file(path: Path) -> bytes:
    quoted = shlex.quote(str(path))

    def check(status: os.stat_result) -> None:
        if sys.platform == "win32":
            return
        if status.st_uid != os.geteuid():
            raise VaultUnavailable(f"The key file {path} belongs to another user. Make one of your own.")
        if stat.S_IMODE(status.st_mode) not in _KEY_MODES:
            raise VaultUnavailable(f"The key file {path} must be this user's alone. Close it with: chmod 600 {quoted}")

    return _read_key(path, check)


def _key_of_credential(path: Path) -> bytes:
    def check(status: os.stat_result) -> None:
        # systemd gives it to the service's user by an access list: it belongs to root, and the group's bits show the
        # list's mask.
        if status.st_uid not in (0, os.geteuid()) or stat.S_IMODE(status.st_mode) & 0o027:
            raise VaultUnavailable(f"The credential {path} is open to others. Pass it with LoadCredential= of systemd.")

    return _read_key(path, check)


def _read_key(path: Path, check: Callable[[os.stat_result], None]) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if path.is_symlink():
        raise VaultUnavailable(f"The key file {path} is a link. Name the file itself: {path.resolve()}")
    try:
        descriptor = os.open(path, flags)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise VaultUnavailable(f"The key file {path} is no file. Name a file.")
            check(status)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                key = file.read(_LONGEST_KEY + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise VaultUnavailable(
            f"The key file {path} cannot be read: {error.strerror}. Make one with: {make_key(path)}"
        ) from error
    if not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        raise VaultUnavailable(
            f"The key file {path} must have {_SHORTEST_KEY} bytes at least and {_LONGEST_KEY} at most. Make one with: "
            f"{make_key(path)}"
        )
    return key


def make_key(path: Path) -> str:
    """Return the command that makes a key file."""
    return f"(umask 077; head -c 32 /dev/urandom > {shlex.quote(str(path))})"

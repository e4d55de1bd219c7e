"""Where secrets are kept on this machine: chosen once, when first needed, and never plain text.

`SWITCHBOARD_VAULT` says `keychain` or `file`. Otherwise it is where things are kept already; else the keychain, where
one works; else an encrypted file, where the user has given a key for it; else nowhere, with what to do about it.
Nothing goes from one to the other by itself: what the user decided must not be lost because a keychain was locked.

`SWITCHBOARD_PASSPHRASE` is read once, when the vault is opened: whoever opens it takes it out of the environment then,
for the processes that are started later.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock
from typing import final

from switchboard.catalog.errors import VaultUnavailable
from switchboard.vaults.encrypted_file import EncryptedFile, Key, credential, key_file, passphrase
from switchboard.vaults.keychain import Keychain, marker
from switchboard.vaults.keyring_backends import choose
from switchboard.vaults.locks import stamp
from switchboard.vaults.vault import Change, Vault

CHOICE_VARIABLE = "SWITCHBOARD_VAULT"
KEY_FILE_VARIABLE = "SWITCHBOARD_KEY_FILE"
PASSPHRASE_VARIABLE = "SWITCHBOARD_PASSPHRASE"  # noqa: S105 - a name
FILE = "vault"
_CREDENTIALS = "CREDENTIALS_DIRECTORY"
_CREDENTIAL = "switchboard-key"
_MAKE_A_KEY = (
    "make a key with (umask 077; head -c 32 /dev/urandom > ~/.switchboard-key) and set "
    f"{KEY_FILE_VARIABLE}=~/.switchboard-key."
)


def open_vault(
    environment: Mapping[str, str], folder: Path, *, passphrase: Callable[[], str] | None = None
) -> "ChosenVault":
    """Return the vault of this user, which opens when something is first read or changed.

    `folder` is for the vault alone. `passphrase` asks a person, and only where the user has chosen the file.
    """
    key = _key(environment)
    keychain = Keychain(folder, partial(choose, environment))
    return ChosenVault(environment.get(CHOICE_VARIABLE) or "", folder, keychain, key, passphrase)


def _key(environment: Mapping[str, str]) -> Key | None:
    """Return the key that the user has set up, if there is one."""
    if path := environment.get(KEY_FILE_VARIABLE):
        return key_file(Path(path).expanduser())
    if folder := environment.get(_CREDENTIALS):
        path = Path(folder, _CREDENTIAL)
        if stamp(path):
            return credential(path)
    words = environment.get(PASSPHRASE_VARIABLE)
    return passphrase(lambda: words) if words else None


@final
class ChosenVault(Vault):
    """One of the vaults, chosen at the first question that it can answer, and then for good."""

    def __init__(
        self, choice: str, folder: Path, keychain: Keychain, key: Key | None, ask: Callable[[], str] | None
    ) -> None:
        self._choice = choice
        self._path = folder / FILE
        self._marker = marker(folder)
        self._keychain = keychain
        self._key = key
        self._ask = ask
        self._lock = Lock()
        self._vault: Vault | None = None

    def read(self, name: str) -> str | None:
        """Return what is kept under a name."""
        return self._chosen().read(name)

    def change(self, name: str, change: Change) -> str | None:
        """Replace what is kept."""
        return self._chosen().change(name, change)

    def names(self) -> list[str]:
        """Return every name."""
        return self._chosen().names()

    def version(self) -> object:
        """Return what is known of either without choosing one."""
        return self._marker.version(), stamp(self._path)

    def _chosen(self) -> Vault:
        if self._vault is None:
            with self._lock:
                if self._vault is None:
                    self._vault = self._choose()
        return self._vault

    def _choose(self) -> Vault:
        match self._choice:
            case "keychain":
                return self._keychain
            case "file":
                return self._file()
            case "":
                return self._find()
            case _:
                raise VaultUnavailable(
                    f"{CHOICE_VARIABLE} is {self._choice!r}, and can be keychain or file. Correct or remove it."
                )

    def _find(self) -> Vault:
        in_file, in_keychain = stamp(self._path) is not None, self._marker.exists()
        if in_file and not in_keychain:
            return self._file()
        try:
            self._keychain.check()
        except VaultUnavailable as error:
            if self._key is not None and not in_keychain:
                return self._file()
            raise VaultUnavailable(f"{error.message} {self._otherwise(in_keychain=in_keychain)}") from error
        return self._keychain

    def _file(self) -> EncryptedFile:
        key = self._key or (passphrase(self._ask) if self._ask else None)
        if key is None:
            raise VaultUnavailable(
                f"Secrets are kept in {self._path}, and there is no key for it. If it has one already, set "
                f"{KEY_FILE_VARIABLE} or {PASSPHRASE_VARIABLE}; else {_MAKE_A_KEY} To use the keychain instead, set "
                f"{CHOICE_VARIABLE}=keychain."
            )
        return EncryptedFile(self._path, key)

    def _otherwise(self, *, in_keychain: bool) -> str:
        if in_keychain:
            return f"Secrets are in the keychain already; to begin anew in a file, set {CHOICE_VARIABLE}=file."
        return f"Or keep secrets in an encrypted file: {_MAKE_A_KEY}"

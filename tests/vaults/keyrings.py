"""A real Secret Service for tests, with its own bus and its own home; and the vaults that all tests run over.

Run as a program it is somebody else who uses the same vault: `keyrings KIND FOLDER count 50`.
"""

import gc
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.executors.grounds import ROOT, message_bus

from switchboard.vaults.encrypted_file import EncryptedFile, key_file
from switchboard.vaults.keychain import Keychain
from switchboard.vaults.keyring_backends import choose
from switchboard.vaults.vault import Vault

PATIENCE_S = 20.0
LEFT_OPEN = pytest.mark.filterwarnings("ignore:unclosed <socket.socket .*/bus:ResourceWarning")
"""For tests over a real keyring: `keyring` leaves its connection open when the daemon ends, or is locked."""
_BUS = "DBUS_SESSION_BUS_ADDRESS"


@dataclass(frozen=True)
class Keyring:
    """A Secret Service that runs: what leads a process to it, and where it keeps its files."""

    environment: dict[str, str]
    home: Path

    def lock(self) -> None:
        """Lock it, as a desktop does after a while."""
        import secretstorage  # noqa: PLC0415

        with closing(self._connection()) as connection:
            secretstorage.get_default_collection(connection).lock()

    def forget_by_default(self) -> None:
        """Make the collection the default that is gone with the daemon."""
        from secretstorage.util import DBusAddressWrapper  # noqa: PLC0415

        with closing(self._connection()) as connection:
            service = DBusAddressWrapper("/org/freedesktop/secrets", "org.freedesktop.Secret.Service", connection)
            service.call("SetAlias", "so", "default", "/org/freedesktop/secrets/collection/session")

    def accounts(self, service: str) -> list[str]:
        """Return the accounts of all items of a service, sorted."""
        import secretstorage  # noqa: PLC0415

        with closing(self._connection()) as connection:
            found = list(secretstorage.search_items(connection, {"service": service}))
            return sorted(item.get_attributes()["username"] for item in found)

    def is_ready(self) -> bool:
        """Tell whether it is there and unlocked."""
        import secretstorage  # noqa: PLC0415

        with closing(self._connection()) as connection:
            try:
                return not secretstorage.get_collection_by_alias(connection, "default").is_locked()
            except secretstorage.SecretStorageException:
                return False

    @property
    def process(self) -> int:
        """The daemon, as it runs now."""
        return int((self.home / "pid").read_text(encoding="utf-8"))

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the daemon; the bus runs another one for who asks next."""
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(self.process, number)

    def _connection(self):  # noqa: ANN202 - the library's own
        from jeepney.io.blocking import open_dbus_connection  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

        return open_dbus_connection(bus=self.environment[_BUS])


def require(program: str) -> None:
    """Skip where a program is missing; where CI has none, that is a failure and no excuse."""
    if shutil.which(program) is None:
        reason = f"no {program} on this machine: no keyring was used"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@contextmanager
def secret_service() -> Generator[Keyring]:
    """Let the bus run gnome-keyring when it is needed, as on a desktop; unlocked, and without any dialog.

    With a password of the test. The bus runs another one when it ends, which it does by itself once in a while.
    """
    require("gnome-keyring-daemon")
    # A socket has a short name, and the folders of tests have long ones.
    with message_bus() as (services, environment), tempfile.TemporaryDirectory(prefix="keyring") as name:
        home = Path(name)
        (home / "run").mkdir(mode=0o700)
        environment |= {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": str(home / "cache"),
        }
        for variable in ("DISPLAY", "WAYLAND_DISPLAY", "PYTHON_KEYRING_BACKEND"):
            environment.pop(variable, None)
        (home / "password").write_text("password of a test", encoding="utf-8")
        (home / "keyring.sh").write_text(_daemon(home, environment), encoding="utf-8")
        (services / "secrets.service").write_text(
            f"[D-BUS Service]\nName=org.freedesktop.secrets\nExec=/bin/sh {home}/keyring.sh\n", encoding="utf-8"
        )
        keyring = Keyring(environment, home)
        until(keyring.is_ready)
        first = keyring.process
        try:
            yield keyring
        finally:
            keyring.end()
            if keyring.process != first:
                gc.collect()  # see LEFT_OPEN


def _daemon(home: Path, environment: Mapping[str, str]) -> str:
    """Return what the bus runs: it knows nothing of the test's environment."""
    around = "".join(
        f"export {name}={shlex.quote(value)}\n"
        for name, value in environment.items()
        if name in ("HOME", _BUS) or name.startswith("XDG_")
    )
    return (
        f"{around}unset DISPLAY WAYLAND_DISPLAY\necho $$ > {home}/pid\n"
        f"exec gnome-keyring-daemon --foreground --unlock --components=secrets --control-directory={home}/run"
        f" < {home}/password > {home}/daemon.log 2>&1\n"
    )


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it does not come true"
        time.sleep(0.02)


KINDS = ("file", "keychain", "keychain in parts")


def open_kind(kind: str, folder: Path, environment: Mapping[str, str] | None = None) -> Vault:
    """Return one of the vaults; `folder` holds all of it but what the keychain keeps."""
    if kind == "file":
        return EncryptedFile(folder / "vault", key_file(folder.parent / "key"))
    return Keychain(folder, lambda: choose(environment or os.environ), part=1000 if kind.endswith("parts") else None)


@dataclass(frozen=True)
class Place:
    """A vault, and how other processes come to it."""

    kind: str
    folder: Path
    home: Path
    environment: dict[str, str]

    def open(self) -> Vault:
        """Return the vault, as another process would have it."""
        return open_kind(self.kind, self.folder, self.environment)

    def other(self, *words: str) -> "subprocess.Popen[str]":
        """Start somebody else, who uses the same vault."""
        command = [sys.executable, "-m", "tests.vaults.keyrings", self.kind, str(self.folder), *words]
        return subprocess.Popen(command, env=self.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603


@contextmanager
def place(kind: str, monkeypatch: pytest.MonkeyPatch) -> Generator[Place]:
    """Prepare a place for one kind of vault, with a home of its own."""
    if kind == "file":
        with tempfile.TemporaryDirectory(prefix="vault") as name:
            home = Path(name)
            write_key(home / "key")
            yield Place(kind, home / "vault", home, dict(os.environ))
        return
    with secret_service() as keyring:
        # The library looks nowhere but in the environment of the process.
        monkeypatch.setenv(_BUS, keyring.environment[_BUS])
        monkeypatch.setenv("XDG_CONFIG_HOME", keyring.environment["XDG_CONFIG_HOME"])
        yield Place(kind, keyring.home / "vault", keyring.home, keyring.environment)


def write_key(path: Path, content: bytes = bytes(range(32)), mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


LONG = 5000


def _main(kind: str, folder: str, what: str, *words: str) -> None:
    vault = open_kind(kind, Path(folder))
    match what:
        case "count":
            for _ in range(int(words[0])):
                vault.change("counter", lambda kept: str(int(kept or "0") + 1))
        case "replace":
            while True:
                for letter in "ab":
                    print(letter, flush=True)  # noqa: T201
                    vault.change("it", lambda _, letter=letter: letter * LONG)
        case _:
            raise ValueError(what)


if __name__ == "__main__":
    _main(*sys.argv[1:])

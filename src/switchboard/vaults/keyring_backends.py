"""Which of the system's keychains is used: one of a short list, or none.

The library `keyring` takes whatever an environment variable, a settings file or an installed package names, plain text
files among it. Here a name decides before anything is imported, and only what really keeps secrets is on the list.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Protocol, cast

from switchboard.catalog.errors import VaultUnavailable

_ALLOWED = {
    "darwin": ("keyring.backends.macOS.Keyring",),
    "win32": ("keyring.backends.Windows.WinVaultKeyring",),
}
_SECRET_SERVICE = "keyring.backends.SecretService.Keyring"  # noqa: S105 - a name
_ALLOWED_ELSEWHERE = (
    _SECRET_SERVICE,
    "keyring.backends.kwallet.DBusKeyring",
    "keyring.backends.kwallet.DBusKeyringKWallet4",
)
_CHAINER = "keyring.backends.chainer.ChainerBackend"
_WINDOWS_PART = 1000
"""Windows takes 2560 bytes of UTF-16 in one item."""
_VARIABLE = "PYTHON_KEYRING_BACKEND"
_BUS = "DBUS_SESSION_BUS_ADDRESS"
_PROBE = "aai-gateway probe"
REMEDY = "Unlock the keyring of your desktop, or install one (gnome-keyring, KWallet, KeePassXC), and try again."


class Backend(Protocol):
    """What we use of a backend of `keyring`."""

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return the text of an item."""
        ...

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Replace the text of an item."""
        ...

    def delete_password(self, service: str, username: str, /) -> None:
        """Remove an item; PasswordDeleteError where there is none."""
        ...


def choose(environment: Mapping[str, str], platform: str = sys.platform) -> Backend:
    """Return the best keychain that is on the list and runs here.

    Raises:
        VaultUnavailable: there is none, or another one was asked for.
    """
    names = _ALLOWED.get(platform, _ALLOWED_ELSEWHERE)
    asked = environment.get(_VARIABLE) or _from_settings()
    if asked and asked != _CHAINER:  # which only means the best one first, and that is what is taken here
        if asked not in names:
            raise VaultUnavailable(
                f"The keyring backend {asked} is not used: it is not known to keep secrets. Remove {_VARIABLE} or "
                "default-keyring in keyringrc.cfg, or set SWITCHBOARD_VAULT=file."
            )
        names = (asked,)
    if platform.startswith("linux"):
        _lead_to_the_bus(environment)
    backend = _best(names)
    if name_of(backend) == _SECRET_SERVICE:
        _refuse_volatile(backend)
    return backend


def probe(backend: Backend, account: str = "") -> None:
    """Keep something, read it and remove it: a keychain may be there and not work.

    Whoever may probe twice names one account for both times, so that nothing stays behind.

    Raises:
        VaultUnavailable: it does not.
    """
    account, text = account or token_hex(8), token_hex(8)
    backend.set_password(_PROBE, account, text)
    kept = backend.get_password(_PROBE, account)
    backend.delete_password(_PROBE, account)
    if kept != text:
        raise VaultUnavailable(f"The keychain ({name_of(backend)}) does not keep what is put into it. {REMEDY}")


def is_passing(error: BaseException | None) -> bool:
    """Tell whether a keychain that failed so may well be there again: a Secret Service whose daemon has just ended.

    The bus starts another one. Under load gnome-keyring also names paths that lead nowhere, just before it ends.
    """
    while error is not None:
        if isinstance(error, _known("secretstorage", "PromptDismissedException")):
            return False  # of the kind below, for the library; the user has said no
        if isinstance(error, _known("secretstorage", "ItemNotFoundException")):
            return True
        if isinstance(error, _known("jeepney.wrappers", "DBusErrorResponse")):
            return getattr(error, "name", "") == "org.freedesktop.DBus.Error.NoReply"
        error = error.__cause__
    return False


def longest(backend: Backend) -> int | None:
    """Return how much text an item of this backend takes, in units of UTF-16; None where it takes any."""
    return _WINDOWS_PART if name_of(backend) in _ALLOWED["win32"] else None


def name_of(backend: Backend) -> str:
    """Return the name that `keyring` has for a backend."""
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def _from_settings() -> str | None:
    from configparser import Error, RawConfigParser  # noqa: PLC0415 - on first use

    from keyring.util.platform_ import config_root  # noqa: PLC0415 - on first use

    path = Path(config_root()) / "keyringrc.cfg"
    settings = RawConfigParser()
    try:
        settings.read(path, encoding="utf-8")
    except (Error, UnicodeDecodeError) as error:
        raise VaultUnavailable(f"{path} cannot be read. Correct or remove it.") from error
    return settings.get("backend", "default-keyring", fallback="").strip() or None


def _lead_to_the_bus(environment: Mapping[str, str]) -> None:
    """Say where the session's bus is, where whoever started us did not pass it on, as MCP clients rarely do.

    `keyring` looks nowhere but in this process's environment.
    """
    if os.environ.get(_BUS):
        return
    folder = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    socket = Path(folder, "bus")
    if socket.is_socket() and socket.stat().st_uid == os.geteuid():
        os.environ[_BUS] = f"unix:path={socket}"


def _best(names: tuple[str, ...]) -> Backend:
    found: list[tuple[float, str]] = []
    reasons: list[str] = []
    for name in names:
        try:
            found.append((float(_class(name).priority), name))
        except Exception as error:  # noqa: BLE001 - whatever keeps a backend from running here, another may
            reasons.append(str(error))
    if not found:
        raise VaultUnavailable(f"There is no keychain here ({'; '.join(reasons)}). {REMEDY}")
    return _class(max(found)[1])()


def _known(module: str, name: str) -> tuple[type[Exception], ...]:
    """Return a kind of error of a library, if that is in use; else nothing can be of that kind."""
    return (getattr(sys.modules[module], name),) if module in sys.modules else ()


class _Class(Protocol):
    priority: float

    def __call__(self) -> Backend: ...


def _class(name: str) -> _Class:
    module, _, attribute = name.rpartition(".")
    return cast("_Class", getattr(import_module(module), attribute))


def _refuse_volatile(backend: Backend) -> None:
    """Refuse a Secret Service that forgets: its `session` collection is gone when the daemon ends (codex#34943)."""
    import secretstorage  # noqa: PLC0415 - on first use
    from secretstorage.collection import SESSION_COLLECTION  # noqa: PLC0415 - on first use

    path = cast("str | None", getattr(backend, "preferred_collection", None))
    with closing(secretstorage.dbus_init()) as connection:
        try:
            path = path or secretstorage.get_collection_by_alias(connection, "default").collection_path
        except secretstorage.ItemNotFoundException:
            return  # none yet: the desktop asks the user to make one
    if path == SESSION_COLLECTION:
        raise VaultUnavailable(
            "The keyring keeps secrets only until the next login: its default collection is `session`. Make a lasting "
            "one the default, in Passwords and Keys (seahorse): File, New, Password Keyring, Set as default."
        )

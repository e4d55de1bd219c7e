"""What it takes to ask the person at this machine, and to keep what they said: keychain, dialogs, browser, bus."""

import asyncio
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from switchboard.catalog.errors import VaultUnavailable
from switchboard.doctor.checks import Finding
from switchboard.prompts import browser
from switchboard.prompts.dialogs import Dialogs, System
from switchboard.prompts.session import session
from switchboard.vaults.choice import CHOICE_VARIABLE, FILE, KEY_FILE_VARIABLE, PASSPHRASE_VARIABLE, open_vault
from switchboard.vaults.keychain import marker
from switchboard.vaults.keyring_backends import choose, name_of, probe

_BUS_S = 4.0
_BUS = "DBUS_SESSION_BUS_ADDRESS"
_KEYS = (KEY_FILE_VARIABLE, PASSPHRASE_VARIABLE, "CREDENTIALS_DIRECTORY")
_OR_A_FILE = (
    "Or keep secrets in an encrypted file: make a key with (umask 077; head -c 32 /dev/urandom > ~/.switchboard-key) "
    f"and set {KEY_FILE_VARIABLE}=~/.switchboard-key."
)
_INSTEAD = "allow operations beforehand with switchboard consent grant"


def vault(environment: Mapping[str, str], folder: Path) -> Iterator[Finding]:
    """Say where secrets and decisions are kept, and whether that works; nothing is left behind by trying."""
    if sys.platform != "win32" and folder.is_dir() and folder.stat().st_mode & 0o077:
        remedy = f"Close it: chmod 700 {shlex.quote(str(folder))}"
        yield Finding("vault", "problem", f"others can look into {folder}, so nothing is kept there", remedy)
        return
    choice, file = environment.get(CHOICE_VARIABLE, ""), folder / FILE
    in_file = choice == "file" or (not choice and file.exists() and not marker(folder).exists())
    try:
        yield _file(environment, folder) if in_file else _keychain(environment, folder)
    except VaultUnavailable as error:
        kept = f"{file} cannot be used" if in_file else "there is no keychain that can be used"
        yield Finding("vault", "problem", f"{kept}: decisions last for one chat, and nobody can sign in", error.message)


def _keychain(environment: Mapping[str, str], folder: Path) -> Finding:
    try:
        backend = choose(environment)
        probe(backend)
    except Exception as error:  # backends are somebody else's code, and raise what they like
        refused = _refused(error)
        if environment.get(CHOICE_VARIABLE) == "keychain" or marker(folder).exists():
            raise VaultUnavailable(refused) from error
        if not any(environment.get(name) for name in _KEYS):
            raise VaultUnavailable(f"{refused} {_OR_A_FILE}") from error
        return _file(environment, folder)
    return Finding("vault", "ok", f"keychain ({name_of(backend)})")


def _refused(error: Exception) -> str:
    """Say why without the error's own words, unless they are ours: who knows what a backend puts into them."""
    if isinstance(error, VaultUnavailable):
        return error.message
    from keyring.errors import KeyringLocked  # noqa: PLC0415 - on first use

    if isinstance(error, KeyringLocked):
        return "The keychain is locked. Unlock it, and try again."
    return f"The keychain does not work here ({type(error).__name__}). Unlock the keyring of your desktop."


def _file(environment: Mapping[str, str], folder: Path) -> Finding:
    """Open the file, or where there is none, see whether one could be written: in a folder that is gone again."""
    chosen = {**environment, CHOICE_VARIABLE: "file"}
    if (folder / FILE).exists():
        open_vault(chosen, folder).names()
    else:
        with TemporaryDirectory() as elsewhere:
            open_vault(chosen, Path(elsewhere)).change("probe", lambda _: "kept")
    return Finding("vault", "ok", f"encrypted file, {folder / FILE}")


def dialogs(environment: Mapping[str, str], system: System) -> Iterator[Finding]:
    """Say which program shows the questions."""
    around = session(environment)
    program = Dialogs(system, around).program()
    if program is not None:
        screen = around.get("WAYLAND_DISPLAY") or around.get("DISPLAY") or "the screen"
        yield Finding("dialogs", "ok", f"{program} on {screen}")
    elif system == "linux" and not (around.get("DISPLAY") or around.get("WAYLAND_DISPLAY")):
        remedy = f"Start the client on a desktop, or {_INSTEAD}."
        yield Finding(
            "dialogs", "warning", "no display: questions come as a page in the browser, or not at all", remedy
        )
    elif system == "linux":
        remedy = "Install zenity or kdialog, for example: apt-get install zenity"
        yield Finding(
            "dialogs", "warning", "neither zenity nor kdialog: questions come as a page in the browser", remedy
        )
    else:
        remedy = f"Sit at the machine itself, or {_INSTEAD}."
        yield Finding("dialogs", "warning", "no windows in this session: questions come as a page", remedy)


def browsers(environment: Mapping[str, str], system: System) -> Iterator[Finding]:
    """Say which program opens pages."""
    program = browser.program(system, session(environment))
    if program is not None:
        yield Finding("browser", "ok", program)
        return
    remedy = f"Install a browser and xdg-utils, or sign in with switchboard auth login --device and {_INSTEAD}."
    yield Finding("browser", "warning", "nothing here opens a page: sign-in and questions have no page", remedy)


def bus(environment: Mapping[str, str], system: System) -> Iterator[Finding]:
    """Say whether apps on the session's bus can be reached."""
    if system != "linux":
        yield Finding("bus", "ok", "not needed on this system")
        return
    address = _address(environment)
    remedy = "Sign in to a desktop session, or run the client with dbus-run-session."
    if address is None:
        yield Finding("bus", "warning", "no D-Bus session: apps on it, and most keychains, are out of reach", remedy)
        return
    try:
        asyncio.run(asyncio.wait_for(_greet(address), _BUS_S))
    except Exception as error:  # noqa: BLE001 - whatever the library says, the bus is not there
        yield Finding(
            "bus", "problem", f"the D-Bus session at {address} does not answer ({type(error).__name__})", remedy
        )
        return
    yield Finding("bus", "ok", address)


def _address(environment: Mapping[str, str]) -> str | None:
    if environment.get(_BUS):
        return environment[_BUS]
    socket = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}", "bus")
    return f"unix:path={socket}" if socket.is_socket() else None


async def _greet(address: str) -> None:
    from dbus_fast.aio import MessageBus  # noqa: PLC0415 - Linux alone has it

    connection = await MessageBus(bus_address=address).connect()
    connection.disconnect()

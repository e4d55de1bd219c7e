"""Every check of `switchboard doctor`, in the order in which they are told."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import time

import platformdirs

from switchboard import local_apps
from switchboard.clients.known import Machine
from switchboard.doctor import agents, machine, network, person
from switchboard.doctor.checks import Check, Finding, run_all
from switchboard.settings import data_folder, system


def examine(waiting: Callable[[list[str]], None]) -> list[Finding]:
    """Look at everything; `waiting` is told what takes longer than a second."""
    return run_all(checks(), waiting)


def checks() -> list[Check]:
    """Return what is looked at on this machine."""
    around, here, data = dict(os.environ), system(), data_folder()
    logs = Path(platformdirs.user_log_dir("switchboard", appauthor=False))
    clients = Machine(system=here, home=str(local_apps.surroundings().home), environment=around)
    slow = "Something on this machine hangs; try again, and look at the disk."
    unlock = "Unlock the keyring: it may be showing a dialog. Or set SWITCHBOARD_VAULT=file."
    network_late = "Look at the network, or correct the address."
    return [
        Check("python", lambda: machine.python(sys.version_info[:3]), slow),
        Check("installation", machine.installation, slow),
        Check("clients", lambda: agents.clients(clients), slow),
        Check("apps", agents.apps, "A folder with apps hangs; see AAI_HOME."),
        Check("vault", lambda: person.vault(around, data / "vault"), unlock),
        Check("dialogs", lambda: person.dialogs(around, here), slow),
        Check("browser", lambda: person.browsers(around, here), slow),
        Check("bus", lambda: person.bus(around, here), "Sign in to a desktop session again."),
        Check("data-folder", lambda: machine.folder("data-folder", data), slow),
        Check("log-folder", lambda: machine.folder("log-folder", logs), slow),
        Check("control-plane", lambda: network.control_plane(around), network_late),
        Check("registries", lambda: network.registries(around), network_late),
        Check("clock", lambda: machine.clock(time(), agents.package().stat().st_mtime), slow),
        Check("disk", lambda: machine.disk(data), slow),
    ]

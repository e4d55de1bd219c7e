"""What the gateway offers, and who starts it: descriptors of apps, and the configurations of agent clients."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from switchboard import local_apps
from switchboard.catalog.findings import Finding as Descriptor
from switchboard.catalog.text import clean
from switchboard.clients import place
from switchboard.clients.known import CLIENTS, Machine
from switchboard.doctor.checks import Finding

_MOST = 10
_CHECK = "Say what is wrong with it: switchboard check"


def apps(scan: Callable[[], Sequence[Descriptor]] = local_apps.scan) -> Iterator[Finding]:
    """Count the apps, and name descriptors that cannot be used."""
    home = local_apps.surroundings().aai_home
    if "AAI_HOME" in os.environ and not home.is_dir():
        yield Finding(
            "apps", "warning", f"AAI_HOME is {home}, and there is no such folder", "Make it, or correct AAI_HOME."
        )
    found = scan()
    broken = [one for one in found if not one.usable]
    for one in broken[:_MOST]:
        yield Finding("apps", "warning", f"{clean(one.location)} cannot be used", f"{_CHECK} {clean(one.location)}")
    if len(broken) > _MOST:
        more = f"{len(broken) - _MOST} more descriptors cannot be used"
        yield Finding("apps", "warning", more, "See them all: aai-gateway --scan")
    if not broken:
        yield Finding("apps", "ok", f"{len(found)} found, {home} is yours for more")


def clients(machine: Machine) -> Iterator[Finding]:
    """Say in which clients the gateway is, and whether what they start is still there."""
    here = [status for status in (place.status(one, machine) for one in CLIENTS) if status.installed]
    for status in here:
        yield from _client(status)
    if not any(status.commands for status in here):
        found = ", ".join(status.client.title for status in here) or "no client that is known"
        remedy = f"switchboard install {here[0].client.id if here else 'CLIENT'}"
        yield Finding("clients", "warning", f"no agent client starts the gateway; found: {found}", remedy)


def _client(status: place.Status) -> Iterator[Finding]:
    title, install = status.client.title, f"switchboard install {status.client.id}"
    if status.problem is not None:
        remedy = f"Correct it; then {install}"
        yield Finding("clients", "warning", f"{title}: {status.file} cannot be read: {clean(status.problem)}", remedy)
        return
    for name, command in status.commands.items():
        if os.path.isabs(command) and not os.access(command, os.X_OK):  # noqa: PTH117 - somebody else's text
            again = f"{install} --name {name}" if name != "aai-gateway" else install
            yield Finding("clients", "problem", f"{title} starts {clean(command)}, which is not there", again)
        else:
            yield Finding("clients", "ok", f"{title} starts {clean(command)}")
    if not status.commands:
        yield Finding("clients", "ok", f"{title} is here, without the gateway", f"To add it: {install}")


def package() -> Path:
    """Return a file of this program, whose time is that of its making."""
    return Path(__file__)

"""What is on this machine, for the commands: its apps, the one that somebody means, and whether a descriptor is right.

Imports only what each answer needs: the gateway starts with every chat.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from switchboard.catalog.caches import Caches
    from switchboard.catalog.findings import Finding
    from switchboard.catalog.model import App, Owner
    from switchboard.net.fetch import Fetch
    from switchboard.sources.places import Surroundings


def scan(*, dev: bool = False, around: "Surroundings | None" = None) -> "tuple[Finding, ...]":
    """Find every descriptor on this machine, with conflicts settled."""
    from switchboard.catalog.findings import settle
    from switchboard.sources.desktop import Desktop
    from switchboard.sources.places import places

    here = around or surroundings()
    return settle(Desktop(places(here, dev=dev), here.system).scan())


def find(text: str, *, dev: bool = False) -> "App":
    """Return the app that somebody means, on this machine or on the web.

    Raises:
        SwitchboardError: there is none, there are several, or it cannot be asked for.
    """
    from asyncio import run

    return run(_find(text, dev=dev))


async def _find(text: str, *, dev: bool) -> "App":
    from switchboard.actions.collection import Collection
    from switchboard.actions.lookup import Lookup
    from switchboard.sources.desktop import Desktop
    from switchboard.sources.places import places, site_copies
    from switchboard.sources.wellknown import WellKnown
    from switchboard.telemetry.clock import SystemClock

    here, fetch = surroundings(), strangers(dev=dev)
    collection = Collection([Desktop(places(here, dev=dev), here.system)])
    await collection.load()
    try:
        web = WellKnown(site_copies(here), lambda: fetch, SystemClock(), here.system)
        return (await Lookup(collection, web).discover(text)).app
    finally:
        await fetch.close()


def namesakes(owner: "Owner", *, dev: bool = False) -> "list[str]":
    """Return where other apps on this machine are from that have the same id."""
    origins = (finding.app.origin for finding in scan(dev=dev) if finding.app and finding.app.id == owner.id)
    return [origin for origin in origins if origin != getattr(owner, "origin", "")]


def strangers(*, dev: bool = False, caches: "Caches | None" = None) -> "Fetch":
    """Return a client for addresses that somebody else wrote down."""
    from switchboard.catalog.caches import USUAL
    from switchboard.net.fetch import Fetch

    return Fetch(loopback=dev, caches=caches or USUAL)


def surroundings() -> "Surroundings":
    """Return what this process sees of its machine."""
    from switchboard.settings import system
    from switchboard.sources.places import Surroundings

    return Surroundings(system=system(), home=_home(), working=_working(), environment=os.environ)


def _home() -> "Path":
    from pathlib import Path

    try:
        return Path.home()
    except RuntimeError:  # a user without a home, as in some containers
        return Path("/")


def _working() -> "Path":
    from pathlib import Path

    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder was deleted under us
        return Path("/")


def check(path: "Path") -> "tuple[Finding, bytes | None]":
    """Read one descriptor as strictly as a publisher wants it; also return its canonical form where it has one.

    Raises:
        OSError: the file cannot be read.
    """
    from switchboard.catalog.findings import Finding
    from switchboard.descriptors import aai
    from switchboard.descriptors.check import schema_problems
    from switchboard.descriptors.document import LARGEST
    from switchboard.settings import system
    from switchboard.sources.files import read_regular, shown

    raw, _ = read_regular(path, LARGEST)
    reading = aai.read(raw, system=system(), folder=path.resolve().parent.name, origin=path.resolve().as_uri())
    problems = (*reading.problems, *schema_problems(reading))
    finding = Finding(source="file", location=shown(path), app=reading.app, problems=problems)
    return finding, aai.write(reading.app) if reading.app else None

"""What is on this machine, for the commands: its apps, whether a descriptor is right, and what was executed.

Imports only what each answer needs: the gateway starts with every chat.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from switchboard.actions.ports import Clock
    from switchboard.catalog.caches import Caches
    from switchboard.catalog.findings import Finding
    from switchboard.catalog.model import App, Owner
    from switchboard.named import Named
    from switchboard.net.fetch import Fetch
    from switchboard.sources.control_plane import ControlPlanes
    from switchboard.sources.places import Surroundings
    from switchboard.sources.published import Published
    from switchboard.telemetry.logs import Log


def scan(*, dev: bool = False, around: "Surroundings | None" = None) -> "tuple[Finding, ...]":
    """Find every descriptor on this machine, with conflicts settled."""
    from switchboard.catalog.findings import settle
    from switchboard.sources.desktop import Desktop
    from switchboard.sources.places import places

    here = around or surroundings()
    return settle(Desktop(places(here, dev=dev), here.system).scan())


def find(text: str, *, dev: bool = False, control_planes: "Sequence[Named]" = ()) -> "App":
    """Return the app that somebody means, on this machine or on the web, or the agent of a control plane.

    Raises:
        SwitchboardError: there is none, there are several, or it cannot be asked for.
    """
    from asyncio import run

    return run(_find(text, dev=dev, control_planes=control_planes))


async def _find(text: str, *, dev: bool, control_planes: "Sequence[Named]") -> "App":
    from io import BytesIO

    from switchboard.actions.collection import Collection
    from switchboard.actions.lookup import Lookup
    from switchboard.sources.desktop import Desktop
    from switchboard.sources.places import places, site_copies
    from switchboard.sources.wellknown import WellKnown
    from switchboard.telemetry.clock import SystemClock
    from switchboard.telemetry.logs import Log

    here, fetch, known = surroundings(), strangers(dev=dev), familiar()
    planes = agents_of(control_planes, lambda: known, SystemClock(), Log(BytesIO()))
    collection = Collection([Desktop(places(here, dev=dev), here.system), *([planes] if planes else [])])
    try:
        if planes is not None:
            await planes.look()
        await collection.load()
        web = WellKnown(site_copies(here), lambda: fetch, SystemClock(), here.system)
        return (await Lookup(collection, web).discover(text)).app
    finally:
        await fetch.close()
        await known.close()


def agents_of(
    named: "Sequence[Named]", fetch: "Callable[[], Fetch]", clock: "Clock", log: "Log"
) -> "ControlPlanes | None":
    """Return the agents of the control planes that the user named; None where there are none."""
    if not named:
        return None
    from switchboard.actions.ports import Plane
    from switchboard.sources.control_plane import ControlPlanes

    planes = [Plane(url=one.url, headers=(("X-API-Key", one.key),) if one.key else ()) for one in named]
    return ControlPlanes(planes, fetch, clock, log)


def namesakes(owner: "Owner", *, dev: bool = False) -> "list[str]":
    """Return where other apps on this machine are from that have the same id."""
    origins = (finding.app.origin for finding in scan(dev=dev) if finding.app and finding.app.id == owner.id)
    return [origin for origin in origins if origin != getattr(owner, "origin", "")]


def strangers(*, dev: bool = False, caches: "Caches | None" = None) -> "Fetch":
    """Return a client for addresses that somebody else wrote down."""
    from switchboard.catalog.caches import USUAL
    from switchboard.net.fetch import Fetch

    return Fetch(loopback=dev, caches=caches or USUAL)


def familiar() -> "Fetch":
    """Return a client for addresses that the user wrote down, which may be inside their own network."""
    from switchboard.net.fetch import Fetch
    from switchboard.net.guard import is_reachable

    return Fetch(loopback=True, permitted=is_reachable)


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


def check_at(url: str, *, dev: bool = False) -> "tuple[Finding, bytes | None]":
    """Read the descriptor at an address, or that of a site, as `check` does; what only a program could run is wrong.

    Raises:
        SwitchboardError: it cannot be fetched.
    """
    from asyncio import run

    from switchboard.catalog.findings import Finding
    from switchboard.descriptors import aai
    from switchboard.descriptors.check import schema_problems
    from switchboard.descriptors.web import read_web
    from switchboard.settings import system

    found = run(_published(url, dev=dev))
    reading = read_web(found.raw, system=system(), origin=found.origin)
    problems = (*reading.problems, *schema_problems(reading))
    finding = Finding(source="web", location=found.shown, app=reading.app, problems=problems)
    return finding, aai.write(reading.app) if reading.app else None


async def _published(url: str, *, dev: bool) -> "Published":
    from switchboard.sources.published import published

    fetch = strangers(dev=dev)
    try:
        return await published(url, fetch)
    finally:
        await fetch.close()


def publishable(path: "Path") -> "tuple[Finding, bytes]":
    """Read one descriptor as a registry would; also return its text as it is.

    Addresses on this machine pass: whether they may be published is for the control plane to say.

    Raises:
        OSError: the file cannot be read.
    """
    from switchboard.catalog.findings import Finding
    from switchboard.descriptors import publishing
    from switchboard.descriptors.document import LARGEST
    from switchboard.sources.files import read_regular, shown

    raw, _ = read_regular(path, LARGEST)
    reading = publishing.read(raw, loopback=True)
    return Finding(source="file", location=shown(path), app=reading.app, problems=reading.problems), raw


def audit(most: int) -> bytes:
    """Return the newest lines of both audit records of this machine, oldest first, a JSON object each.

    Raises:
        OSError: one cannot be read.
    """
    import msgspec

    from switchboard.settings import AUDITED, audit_file
    from switchboard.store.audit import read
    from switchboard.telemetry.logs import timestamp

    entries = [entry for half in AUDITED for entry in read(audit_file(half))]
    newest = sorted(entries, key=lambda entry: entry.at)[-most:]
    return b"".join(
        msgspec.json.encode({**msgspec.structs.asdict(entry), "at": timestamp(entry.at)}) + b"\n" for entry in newest
    )

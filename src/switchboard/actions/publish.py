"""Publish an app and withdraw it: read, may this caller, does the version keep its promise, remember.

An id belongs to who published it first. Versions only ever rise, one version is one text for ever, and a change that
breaks callers needs the version that says so. What was answered is in the store, so that every instance serves it.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.app_ports import MOST_EDITIONS, AppStore, Edition, Reading, Record, StoredApp
from switchboard.actions.ports import Clock, Gate
from switchboard.actions.shelf import Published, Shelf, published
from switchboard.catalog import differences, versions
from switchboard.catalog.differences import Change, Described
from switchboard.catalog.errors import Conflict, ConsentRequired, InvalidDescriptor, NotFound, ServiceUnavailable
from switchboard.catalog.findings import folded
from switchboard.catalog.model import App, Caller
from switchboard.catalog.names import is_folder_name
from switchboard.catalog.versions import Step, Version
from switchboard.telemetry.logs import Log

MOST_APPS = 5000
"""How many apps are published at once: gateways take no more from one registry."""
MOST_BYTES = 64 * 1024 * 1024
"""How much all their descriptors are together: every instance has them in memory."""
_OPERATORS = ("default", "anonymous")
"""Who may change every app: the operator's own key, and whoever asks a server that has no keys."""
_TRIES = 5
_MOST_CHANGES = 50

Done = Literal["published", "updated", "unchanged"]
Result = TypeVar("Result")


class Publication(Struct, frozen=True, kw_only=True):
    """What became of a descriptor that was sent."""

    done: Done
    app: Published
    warnings: tuple[str, ...] = ()


class Publish:
    """Lets apps in and out of the registry."""

    def __init__(  # noqa: PLR0913 - what a publication meets
        self,
        store: AppStore,
        shelf: Shelf,
        clock: Clock,
        read: Callable[[bytes], Reading],
        *,
        gate: Gate,
        log: Log,
        most: int = MOST_APPS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Build it; `most` is how many apps there may be at once, and `most_bytes` how much their descriptors are."""
        self._most = most
        self._most_bytes = most_bytes
        self._store = store
        self._shelf = shelf
        self._clock = clock
        self._read = read
        self._gate = gate
        self._log = log

    async def publish(self, app_id: str, raw: bytes, caller: Caller) -> Publication:
        """Publish a descriptor under an id, new or in the place of an older version.

        Raises:
            InvalidDescriptor: it cannot be published; every problem has its JSON path.
            ConsentRequired: the id is somebody else's, or the operator's rules keep it from this caller.
            Conflict: the version does not go with those before it.
            ServiceUnavailable: it could not be remembered, so it is not published.
        """
        self._require_open(caller, app_id)
        reading = self._read(raw)
        new = _usable(reading, app_id)
        for _ in range(_TRIES):
            before = await self._asked(self._store.app(app_id))
            owner = _owner(caller, before)
            self._require_room(app_id, raw, owner)
            judged = await self._judged(before, new, raw)
            if before is not None and before.descriptor == raw:
                return self._unchanged(before, new.app, reading)
            stored = self._next(before, owner, caller, new.app, raw)
            revision = await self._asked(self._store.keep(stored, before.revision if before else 0))
            if revision is not None:
                self._shelf.apply(replace(stored, revision=revision))
                done: Done = "published" if before is None or before.descriptor is None else "updated"
                self._say("app published", caller, app_id, new.app.version)
                app = published(new.app, raw, stored.record)
                return Publication(done=done, app=app, warnings=(*_warnings(reading), *judged))
        raise Conflict(f"{app_id} is being published by somebody else at this moment. Try again.", app=app_id)

    async def withdraw(self, app_id: str, caller: Caller) -> Record:
        """Take an app out of the registry; its versions stay readable, and its id stays its owner's.

        Raises:
            NotFound: it is not published.
            ConsentRequired: it is somebody else's, or the operator's rules keep it from this caller.
            ServiceUnavailable: it could not be withdrawn, so it is still there.
        """
        self._require_open(caller, app_id)
        for _ in range(_TRIES):
            # Nothing is published under a name that it could not have, and not every store could look for it.
            before = await self._asked(self._store.app(app_id)) if is_folder_name(app_id) else None
            if before is None or before.descriptor is None:
                raise NotFound(f"There is no published app {app_id!r}.", app=app_id)
            _owner(caller, before)
            record = replace(before.record, withdrawn_at=self._clock.now(), withdrawn_by=caller.name)
            stored = StoredApp(id=app_id, record=record, descriptor=None)
            revision = await self._asked(self._store.keep(stored, before.revision))
            if revision is not None:
                self._shelf.apply(replace(stored, revision=revision))
                self._say("app withdrawn", caller, app_id, record.newest.version)
                return record
        raise Conflict(f"{app_id} is being changed by somebody else at this moment. Try again.", app=app_id)

    async def edition(self, app_id: str, version: str) -> bytes:
        """Return the descriptor of one version that is kept, also of an app that is withdrawn.

        Raises:
            NotFound: there is no such version.
            ServiceUnavailable: it is in the store only, and that does not answer.
        """
        app = self._shelf.apps().get(app_id)
        if app is not None and app.edition.version == version:
            return app.raw
        possible = is_folder_name(app_id) and versions.parse(version) is not None
        raw = await self._asked(self._store.edition(app_id, version)) if possible else None
        if raw is None:
            raise NotFound(f"There is no version {version!r} of {app_id!r}.", app=app_id, version=version)
        return raw

    async def _judged(self, before: StoredApp | None, new: Described, raw: bytes) -> tuple[str, ...]:
        """Return warnings about the step to a version.

        Raises:
            Conflict: the step is not allowed.
        """
        if before is None or before.descriptor == raw:
            return ()
        given, current = _version(new.app.version), _version(before.record.newest.version)
        if given < current:
            raise Conflict(
                f"{new.app.id} is published as {before.record.newest.version}; {new.app.version} is lower.",
                app=new.app.id,
                current=before.record.newest.version,
                provided=new.app.version,
            )
        compared = await self._released(before)
        found = [] if compared is None else differences.changes(compared[1], new)
        if given == current:
            return await self._same_version(before, new, raw, found)
        return () if compared is None else _kept_promise(compared[0], given, new.app, found)

    async def _same_version(
        self, before: StoredApp, new: Described, raw: bytes, found: list[Change]
    ) -> tuple[str, ...]:
        """Let the text of a withdrawn version come back; any other text needs a version of its own."""
        current = before.record.newest.version
        if await self._asked(self._store.edition(before.id, current)) == raw:
            return ()
        following = str(_version(current).after(_needed(found)))
        raise Conflict(
            f"{new.app.id} {current} is published with another text, and one version is one text for ever. "
            f"Publish this one as {following} or higher.",
            app=new.app.id,
            current=current,
            provided=new.app.version,
            next=following,
        )

    async def _released(self, before: StoredApp) -> tuple[Version, Described] | None:
        """Return the newest release before: it made a promise, which no pre-release does."""
        for edition in reversed(before.record.editions):
            version = _version(edition.version)
            if version.is_stable:
                raw = await self._asked(self._store.edition(before.id, edition.version))
                reading = None if raw is None else self._read(raw)
                if reading is None or reading.app is None:
                    return None
                return version, Described(reading.app, reading.tool_paths)
        return None

    def _next(self, before: StoredApp | None, owner: str, caller: Caller, app: App, raw: bytes) -> StoredApp:
        known = before.record.editions if before is not None else ()
        if not known or known[-1].version != app.version:
            known = (*known, Edition(version=app.version, at=self._clock.now(), by=caller.name))
        return StoredApp(id=app.id, record=Record(owner=owner, editions=known[-MOST_EDITIONS:]), descriptor=raw)

    def _unchanged(self, before: StoredApp, app: App, reading: Reading) -> Publication:
        self._shelf.apply(before)  # another instance may have published it a moment ago
        found = published(app, before.descriptor or b"", before.record)
        return Publication(done="unchanged", app=found, warnings=_warnings(reading))

    def _require_open(self, caller: Caller, app_id: str) -> None:
        if not self._gate.is_open(caller, app_id):
            message = f"{caller.name} may not publish or withdraw {app_id} here. The operator's rules decide that."
            raise ConsentRequired(message, app=app_id, caller=caller.name)

    def _require_room(self, app_id: str, raw: bytes, owner: str) -> None:
        """Refuse what the registry could not list; a new version may be many times as large as the one before."""
        apps = self._shelf.apps()
        others = {other: app for other, app in apps.items() if other != app_id}
        # One that is withdrawn may come back, so its id is kept free for whoever it belongs to.
        resting = (other for other, record in self._shelf.withdrawn().items() if record.owner != owner)
        for other in (*others, *resting) if app_id not in apps else ():
            if other != app_id and folded(other) == folded(app_id):
                raise Conflict(f"{app_id} cannot be told from {other}, which is taken.", app=app_id, published=other)
        if len(others) >= self._most or sum(len(app.raw) for app in others.values()) + len(raw) > self._most_bytes:
            raise Conflict("The registry is full. Withdraw an app first.", app=app_id, published=len(apps))

    async def _asked(self, asking: Awaitable[Result]) -> Result:
        try:
            return await asking
        except ServiceUnavailable:
            self._shelf.note_silence()
            raise

    def _say(self, what: str, caller: Caller, app_id: str, version: str) -> None:
        self._log.event("info", what, self._clock.now(), app=app_id, version=version, caller=caller.name)


def _usable(reading: Reading, app_id: str) -> Described:
    problems = [str(problem) for problem in reading.problems if problem.severity == "error"]
    app = reading.app
    if app is not None and app.id != app_id:
        problems.append(f"$.app.id: is {app.id}, and the address says {app_id}")
    if app is None or problems:
        count = f"{len(problems)} problems" if len(problems) != 1 else problems[0]
        raise InvalidDescriptor(f"The descriptor cannot be published: {count}.", problems=problems)
    return Described(app, reading.tool_paths)


def _owner(caller: Caller, before: StoredApp | None) -> str:
    """Return whose id it is after this caller's change.

    Raises:
        ConsentRequired: somebody else's.
    """
    owner = before.record.owner if before is not None else caller.name
    if owner == "anonymous":
        return caller.name  # published when there were no keys: it belongs to the first who comes with one
    if caller.name not in (owner, *_OPERATORS):
        app_id = before.id if before is not None else ""
        raise ConsentRequired(f"{app_id} belongs to {owner}, who published it first.", app=app_id, caller=caller.name)
    return owner


def _kept_promise(before: Version, given: Version, app: App, found: list[Change]) -> tuple[str, ...]:
    """Return warnings about a version that is too small for what is new.

    Raises:
        Conflict: it is too small for what breaks.
    """
    breaking = [str(change) for change in found if change.weight == "major"]
    if breaking and not given.allows("major", before):
        following = str(before.after("major"))
        count = "A change breaks" if len(breaking) == 1 else f"{len(breaking)} changes break"
        raise Conflict(
            f"{count} what {before} promised, so this has to be {following} or higher"
            f"{': ' + breaking[0] if len(breaking) == 1 else ''}.",
            app=app.id,
            current=str(before),
            provided=app.version,
            next=following,
            changes=breaking[:_MOST_CHANGES],
        )
    added = [] if given.allows("minor", before) else [change for change in found if change.weight == "minor"]
    unclear = [] if given.allows("major", before) else [change for change in found if change.weight == "unclear"]
    following = before.after("minor")
    return (*(f"{change}; that wants {following} or higher" for change in added), *map(str, unclear))


def _needed(found: list[Change]) -> Step:
    weights = {change.weight for change in found}
    return "major" if "major" in weights else "minor" if "minor" in weights else "patch"


def _version(text: str) -> Version:
    return versions.parse(text) or Version(0, 0, 0)


def _warnings(reading: Reading) -> tuple[str, ...]:
    return tuple(str(problem) for problem in reading.problems if problem.severity == "warning")

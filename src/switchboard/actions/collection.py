"""The apps of a gateway, gathered from its sources: what is there now, and what is still being looked at.

Sources come in order of precedence and are loaded side by side; the catalogue is complete when each has answered once,
and a source that asks others has heard of each of them, or knows that it does not answer.
A source that is loaded again replaces what it said before; one that fails is a finding, and what it said before stays.
Nothing here waits for a slow source but who asks to.
"""

from asyncio import Event, Lock, gather, wait_for
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import final

from switchboard.actions.ports import Catalogue, Clock, Readiness, Source
from switchboard.catalog.errors import NotFound
from switchboard.catalog.findings import Finding, Problem, apps, settle
from switchboard.catalog.model import App
from switchboard.catalog.snapshot import Snapshot


@final
class Collection(Catalogue):
    """Holds the current snapshot of apps, and tells whoever listens when it changes, or how complete it is."""

    def __init__(self, sources: Sequence[Source], clock: Clock | None = None) -> None:
        self._sources = tuple(sources)
        self._clock = clock
        self._said: dict[int, tuple[Finding, ...]] = {}
        self._failed: dict[int, Finding] = {}
        self._failed_at: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._noted: dict[str, Readiness] = {}
        self._readiness: tuple[Readiness, ...] = ()
        self._locks = [Lock() for _ in self._sources]
        self._complete = Event()
        self._settled = Event()
        self._expected = 0
        self._listeners: list[Callable[[], None]] = []
        self._snapshot = Snapshot()
        self._findings: tuple[Finding, ...] = ()
        self._settle()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that was found, broken and losing descriptors included."""
        return self._findings

    def current(self) -> Snapshot:
        """Return the apps as they are known now."""
        return self._snapshot

    @property
    def is_complete(self) -> bool:
        """Whether every source has answered at least once."""
        return self._complete.is_set()

    @property
    def is_settled(self) -> bool:
        """Whether, beyond that, nobody is known to be fetching more."""
        return self._settled.is_set()

    @contextmanager
    def expecting_more(self) -> Generator[None]:
        """Say that more apps may come until this block ends."""
        self._expected += 1
        self._note_settled()
        try:
            yield
        finally:
            self._expected -= 1
            self._note_settled()

    def readiness(self) -> tuple[Readiness, ...]:
        """Return how far every source is, and whoever else brings apps."""
        return self._readiness

    def note(self, readiness: Readiness) -> None:
        """Take note how far somebody is who brings apps to one of the sources."""
        self._noted[readiness.source] = readiness
        self._settle()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call somebody after every change of the apps, or of how complete they are."""
        self._listeners.append(listener)

    async def complete(self, within_s: float) -> bool:
        """Wait until every source has answered, but not longer than that; tell whether they have."""
        return await _happens(self._complete, within_s)

    async def settled(self, within_s: float) -> bool:
        """Wait until nothing more is expected, but not longer than that; tell whether it is so."""
        return await _happens(self._settled, within_s)

    async def load(self, *sources: Source) -> None:
        """Ask these sources what is there, all of them if none is named."""
        wanted = sources or self._sources
        await gather(*(self._load(self._sources.index(source)) for source in wanted))

    async def published(self, app: App) -> bytes:
        """Return the descriptor of an app as it was published.

        Raises:
            NotFound: it is no longer where it was.
        """
        if app.raw:
            return app.raw
        for source in self._sources:
            text = await source.published(app)
            if text is not None:
                return text
        raise NotFound(f"The descriptor of {app.id} is no longer there. Ask for the list of apps again.", app=app.id)

    async def _load(self, number: int) -> None:
        source = self._sources[number]
        async with self._locks[number]:
            try:
                self._said[number] = await source.load()
                self._counts[number] = len(apps(self._said[number]))
                self._failed.pop(number, None)
            except Exception as error:  # noqa: BLE001 - the end of a source's task: the others go on, and it is shown
                self._said.setdefault(number, ())
                if number not in self._failed and self._clock is not None:
                    self._failed_at[number] = self._clock.now()
                self._failed[number] = _failure(source, error)
        self._settle()

    def _settle(self) -> None:
        said = [finding for number in sorted(self._said) for finding in self._said[number]]
        self._findings = settle([*said, *(self._failed[number] for number in sorted(self._failed))])
        found = {app.id: app for app in apps(self._findings)}
        changed = found != dict(self._snapshot.apps.items())
        if changed:
            self._snapshot = Snapshot.of(found.values(), version=self._snapshot.version + 1)
        before, self._readiness = self._readiness, tuple(self._all_readiness())
        ours = self._readiness[: len(self._readiness) - len(self._noted)]
        if len(self._said) == len(self._sources) and all(one.status != "loading" for one in ours):
            self._complete.set()
        self._note_settled()
        if changed or _missing(before) != _missing(self._readiness):
            for listener in self._listeners:
                listener()

    def _all_readiness(self) -> Generator[Readiness]:
        for number, source in enumerate(self._sources):
            yield from source.readiness() or [self._ready(number, source)]
        yield from self._noted.values()

    def _ready(self, number: int, source: Source) -> Readiness:
        name, count = type(source).__name__.lower(), self._counts.get(number, 0)
        if number in self._failed:
            reason = self._failed[number].problems[0].message
            return Readiness(source=name, status="down", apps=count, since=self._failed_at.get(number), reason=reason)
        return Readiness(source=name, status="loading" if number not in self._said else "ready", apps=count)

    def _note_settled(self) -> None:
        if self._complete.is_set() and not self._expected:
            self._settled.set()
        else:
            self._settled.clear()


def _missing(readiness: Sequence[Readiness]) -> list[tuple[object, ...]]:
    """Return who is not ready; how many apps each has is no news beside the apps."""
    return [(one.source, one.status, one.since, one.reason) for one in readiness if one.status != "ready"]


def _failure(source: Source, error: Exception) -> Finding:
    """Say that a source could not be asked; what kind of error it is, because its text may hold anything."""
    name = type(source).__name__
    problem = Problem("error", "unreadable", "$", f"cannot be looked at: {type(error).__name__}")
    return Finding(source=name.lower(), location=f"<{name}>", problems=(problem,))


async def _happens(event: Event, within_s: float) -> bool:
    if not event.is_set():
        try:
            await wait_for(event.wait(), within_s)
        except TimeoutError:
            return False
    return True

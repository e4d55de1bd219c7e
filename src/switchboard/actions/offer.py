"""What a control plane offers to whoever speaks MCP with it: its registered agents, and the apps published to it.

Kept in step with both: a change of one agent replaces one app, whatever their number. An agent comes before an app of
the same id. Whoever listens is told of many changes at once as one.
"""

from asyncio import TimerHandle, gather, get_running_loop
from collections.abc import Callable, Mapping, Sequence
from typing import final

from switchboard.actions.directory import Directory
from switchboard.actions.ports import Catalogue, Readiness, Web, WebApp
from switchboard.actions.shelf import Published, Shelf
from switchboard.actions.store_ports import Identified
from switchboard.catalog.agent_apps import as_app
from switchboard.catalog.bindings import Http
from switchboard.catalog.changes import Change, Gap
from switchboard.catalog.errors import NotFound, UnknownApp
from switchboard.catalog.findings import Finding
from switchboard.catalog.health import State
from switchboard.catalog.model import Agent, App, Standing
from switchboard.catalog.snapshot import Snapshot

_TELL_S = 0.1
"""How long changes are gathered before somebody is told: a deployment registers hundreds in one go."""


@final
class Offer(Catalogue, Web):
    """Holds both as one catalogue of apps; it is also all that is known here of web sites."""

    def __init__(  # noqa: PLR0913 - two sources, and what is known of their things
        self,
        directory: Directory,
        shelf: Shelf,
        store: Identified,
        *,
        states: Callable[[str], State | None],
        describe: Callable[[App], bytes],
        is_shared: bool = False,
    ) -> None:
        """Prepare to follow; `describe` writes the descriptor of an agent, which has published none."""
        self._directory = directory
        self._shelf = shelf
        self._store = store
        self._states = states
        self._describe = describe
        self._on_shelf: Mapping[str, Published] = {}
        self._is_shared = is_shared
        self._listeners: list[Callable[[], None]] = []
        self._snapshot = Snapshot()
        self._findings: Sequence[Finding] = []
        self._is_outdated = True
        self._telling: TimerHandle | None = None
        directory.follow(self._follow)
        shelf.listen(self._restocked)

    @property
    def findings(self) -> Sequence[Finding]:
        """Nothing that is broken comes in here; another list after every change."""
        self.current()
        return self._findings

    @property
    def is_complete(self) -> bool:
        """Always: nobody is answered before everything was read."""
        return True

    @property
    def is_settled(self) -> bool:
        """Whether nobody else can have taken something in that is not here yet."""
        return not self._is_shared

    def current(self) -> Snapshot:
        """Return agents and apps as they are known now."""
        if self._is_outdated:
            self._is_outdated = False
            self._on_shelf = self._shelf.apps()
            found = {app_id: published.app for app_id, published in self._on_shelf.items()}
            agents = self._directory.current().agents.values()
            found |= {agent.id: self._app(agent, self._states(agent.id)) for agent in agents}
            self._place(Snapshot.of(found.values(), version=self._snapshot.version + 1))
        return self._snapshot

    def readiness(self) -> Sequence[Readiness]:
        """Return how far both are."""
        return (
            _ready("agents", len(self._directory.current().agents), self._directory.stale_since),
            _ready("published apps", len(self._shelf.apps()), self._shelf.stale_since),
        )

    def listen(self, listener: Callable[[], None]) -> None:
        """Call somebody soon after every change."""
        self._listeners.append(listener)

    async def complete(self, within_s: float) -> bool:
        """Wait for nothing: everything is there."""
        del within_s
        return True

    async def settled(self, within_s: float) -> bool:
        """Ask the store what others have taken in a moment ago."""
        del within_s  # both have a limit of their own
        await gather(self._directory.look_again(), self._shelf.look_again())
        return True

    async def published(self, app: App) -> bytes:
        """Return the descriptor of an app as it was published, or one that says the same of an agent.

        Raises:
            NotFound: it is gone.
        """
        if app.platform == "agent":
            return self._describe(app)
        found = self._shelf.apps().get(app.id)
        if found is None:
            raise NotFound(f"The descriptor of {app.id} is no longer there.", app=app.id)
        return found.raw

    async def at(self, origin: str) -> WebApp:
        """Return the published app that calls this site; no site is ever asked from here.

        Raises:
            UnknownApp: none does.
        """
        found = next((app for app in self.current().apps.values() if _site(app) == origin), None)
        if found is None:
            raise UnknownApp(origin, because="it is not published here, and this server asks no web sites")
        return WebApp(app=found, origin=found.id)

    async def remembered(self) -> Sequence[WebApp]:
        """Return nothing: what is known of sites is in the catalogue."""
        return ()

    def _follow(self, change: Change | Gap) -> None:
        if isinstance(change, Gap):
            self._is_outdated = True  # built anew at the next look: who tells of it has not told everybody yet
        elif not self._is_outdated:
            state = change.state or self._states(change.agent_id)
            self._replace(change.agent_id, None if change.after is None else self._app(change.after, state))
        self._tell()

    def _restocked(self) -> None:
        """Take over what has changed on the shelf, except where an agent has the id."""
        if self._is_outdated:
            self._tell()
            return
        before, self._on_shelf = self._on_shelf, self._shelf.apps()
        agents = self._directory.current().agents
        for app_id in before.keys() | self._on_shelf.keys():
            if before.get(app_id) is not self._on_shelf.get(app_id) and app_id not in agents:
                self._replace(app_id, None)
        self._tell()

    def _replace(self, app_id: str, app: App | None) -> None:
        """Put an app in the place of what had its id; without one, what is published under it."""
        published = self._on_shelf.get(app_id)
        found = app or (None if published is None else published.app)
        self._place(self._snapshot.without_app(app_id) if found is None else self._snapshot.with_app(found))

    def _place(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._findings = []

    def _tell(self) -> None:
        if self._telling is None and self._listeners:
            self._telling = get_running_loop().call_later(_TELL_S, self._told)

    def _told(self) -> None:
        self._telling = None
        for listener in self._listeners:
            listener()

    def _app(self, agent: Agent, state: State | None) -> App:
        since, reason = (state.since, state.reason) if state is not None else (None, "")
        standing = Standing(health=agent.health, since=since, reason=reason)
        return as_app(agent, service=self._store.id, origin=f"agents:{self._store.id}", standing=standing)


def _ready(source: str, count: int, since: float | None) -> Readiness:
    if since is None:
        return Readiness(source=source, status="ready", apps=count)
    return Readiness(source=source, status="down", apps=count, since=since, reason="the store does not answer")


def _site(app: App) -> str:
    """Return the site that an app calls, as addresses name it."""
    if not isinstance(app.execution, Http):
        return ""
    scheme, _, rest = app.execution.base_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}".lower()

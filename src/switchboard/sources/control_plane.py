"""Agents of the control planes that the user named, as apps; those that share a store are one service.

An agent of a service stays the same whichever of its control planes tells of it: a fail-over changes nothing of what
the user has allowed. One that is down hides nobody: what it said last is there, and marked as old. Of two services with
an agent of the same id the one named first has it.
"""

from asyncio import Event, TaskGroup, get_running_loop, sleep
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, final
from urllib.parse import quote

from msgspec.structs import replace

from switchboard.actions.ports import Clock, Plane, Planes, Readiness, Source
from switchboard.catalog.agent_apps import as_app
from switchboard.catalog.bindings import Registered
from switchboard.catalog.findings import Finding
from switchboard.catalog.model import App, Standing
from switchboard.descriptors import aai
from switchboard.descriptors.discovered import Discovered
from switchboard.sources.plane import FIRST_S, POLL_S, Link
from switchboard.telemetry.logs import Log

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

_GATHER_S = 0.05
_LONGEST_GATHER_S = 0.5
"""So that a change is known within a second, however many come before it."""
STORE_PREFIX = "agents:"
"""What the name of a service begins with that says which store it has."""


class _Made(NamedTuple):
    """An app that was made of an agent, for as long as both are the same."""

    agent: Discovered
    standing: Standing
    app: App


@final
class ControlPlanes(Source, Planes):
    """Holds what every control plane has said, and follows them while `keep` runs."""

    def __init__(  # noqa: PLR0913 - whom, how, and settings for tests
        self,
        planes: Sequence[Plane],
        fetch: "Callable[[], Fetch]",
        clock: Clock,
        log: Log,
        *,
        gather_s: float = _GATHER_S,
        poll_s: float = POLL_S,
        first_s: float = FIRST_S,
    ) -> None:
        self._links = tuple(Link(plane, fetch, clock, poll_s=poll_s, first_s=first_s) for plane in planes)
        self._clock = clock
        self._log = log
        self._gather_s = gather_s
        self._made: dict[tuple[str, str], _Made] = {}
        self._told: dict[str, str] = {}
        self._readiness = self._now_ready()

    async def load(self) -> tuple[Finding, ...]:
        """Return the agents as they are known now."""
        services: dict[str, list[Link]] = {}
        for link in self._links:
            services.setdefault(_service(link), []).append(link)
        made: dict[tuple[str, str], _Made] = {}
        found = [finding for name, links in services.items() for finding in self._findings(name, links, made)]
        self._made, self._readiness = made, self._now_ready()
        return tuple(found)

    async def published(self, app: App) -> bytes | None:
        """Return the descriptor of an agent, which is written here: it registered with something else."""
        return aai.write(app) if isinstance(app.execution, Registered) else None

    def readiness(self) -> tuple[Readiness, ...]:
        """Return how far every control plane was when its agents were last asked for: not further than they are."""
        return self._readiness

    def _now_ready(self) -> tuple[Readiness, ...]:
        return tuple(
            Readiness(
                source=link.plane.url,
                status=link.said.status,
                apps=len(link.said.agents),
                since=link.said.since,
                reason=link.said.reason,
            )
            for link in self._links
        )

    def of(self, service: str) -> list[Plane]:
        """Return the control planes of a service, those that answer first."""
        known = [link for link in self._links if _service(link) == service]
        ordered = sorted(known, key=lambda link: link.said.status == "down")
        return [
            replace(link.plane, down_since=link.said.since if link.said.status == "down" else None) for link in ordered
        ]

    async def look(self) -> None:
        """Ask every control plane once; one that does not say who is there is down."""
        for link in self._links:
            await link.look()

    async def keep(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Follow all of them until cancelled; changes that come close together are told as one.

        While they keep coming they are told less and less often: every client asks for whole lists each time.
        """
        news, loop = Event(), get_running_loop()
        gather_s, told = self._gather_s, -_LONGEST_GATHER_S
        async with TaskGroup() as group:
            for link in self._links:
                group.create_task(link.keep(news.set))
            while True:
                await news.wait()
                gather_s = pause(gather_s, loop.time() - told, self._gather_s)
                await sleep(gather_s)
                news.clear()
                told = loop.time()
                self._tell()
                await changed()

    def _findings(self, service: str, links: Sequence[Link], made: dict[tuple[str, str], _Made]) -> Iterator[Finding]:
        """Yield the agents of a service, as the control plane says that is up, or was so last."""
        chosen = max(links, key=_trusted)
        said, url = chosen.said, chosen.plane.url
        planes = tuple(link.plane.url for link in links)
        stale_since = said.since if said.status == "down" else None
        for agent_id, one in said.agents.items():
            standing = Standing(
                health=one.agent.health,
                since=one.since,
                reason=one.reason,
                stale_since=stale_since,
                planes=planes,
            )
            before = self._made.get((service, agent_id))
            if before is None or before.agent is not one or before.standing != standing:
                app = as_app(one.agent, service=service, origin=service, standing=standing)
                before = _Made(one, standing, app)
            made[(service, agent_id)] = before
            yield Finding(source="control-plane", location=f"{url}/agents/{quote(agent_id, safe='')}", app=before.app)
        if said.problems:
            yield Finding(source="control-plane", location=f"{url}/", problems=said.problems)

    def _tell(self) -> None:
        """Log who has come up or gone down."""
        for link in self._links:
            said, url = link.said, link.plane.url
            if self._told.get(url, "loading") != said.status:
                self._told[url] = said.status
                level = "warning" if said.status == "down" else "info"
                fields = {"reason": said.reason} if said.status == "down" else {"agents": len(said.agents)}
                self._log.event(level, f"control_plane.{said.status}", self._clock.now(), plane=url, **fields)
        self._log.flush()


def pause(before_s: float, quiet_s: float, shortest_s: float = _GATHER_S) -> float:
    """Return how long changes are gathered: longer and longer for as long as one comes soon after another."""
    return min(2 * before_s, _LONGEST_GATHER_S) if quiet_s < _LONGEST_GATHER_S else shortest_s


def _service(link: Link) -> str:
    return f"{STORE_PREFIX}{link.said.store}" if link.said.store else link.plane.url


def _trusted(link: Link) -> tuple[int, float]:
    """Return how much what a control plane says counts: up before down, and the later down the better."""
    said = link.said
    match said.status:
        case "ready":
            return 2, 0.0
        case "down":
            return 1, said.since or 0.0
        case _:
            return 0, 0.0

"""Several control planes on one PostgreSQL, each a process of its own."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.journeys.waiting import wait_until
from tests.servers import COMMAND, ControlPlane

FAST = {
    "SWITCHBOARD_INSTANCE_LEASE": "2",
    "SWITCHBOARD_AGENT_CONCURRENCY": "16",
    "SWITCHBOARD_REPORT_TIMEOUT": "5",
    "SWITCHBOARD_AGENT_LOST_AFTER": "1",
}
"""Less patience than people have."""


class Instances:
    """So many instances, which come back where they were."""

    def __init__(self, folder: Path, url: str, count: int, **environment: str) -> None:
        self._folder = folder
        self.database_url = url
        self._environment = {**FAST, **environment}
        self.planes = [self.start(number) for number in range(count)]

    def __getitem__(self, number: int) -> ControlPlane:
        return self.planes[number]

    @property
    def urls(self) -> list[str]:
        """Where they are."""
        return [plane.url for plane in self.planes]

    def start(
        self,
        number: int,
        port: str = "0",
        command: Sequence[str] = (COMMAND,),
        url: str | None = None,
        **environment: str,
    ) -> ControlPlane:
        """Start one, which may reach the database by another address than the others."""
        folder = self._folder / str(number)
        folder.mkdir(exist_ok=True)
        arguments = ("--port", port, "--database-url", url or self.database_url)
        every = {**self._environment, **environment}
        return ControlPlane(folder, *arguments, command=command, **every)

    def restart(self, number: int) -> None:
        """Start one again after its end, at the same address."""
        port = self.planes[number].url.rpartition(":")[2]
        self.planes[number] = self.start(number, port)

    def close(self) -> None:
        """End all of them, whatever state they are in."""
        for plane in self.planes:
            if plane.process.poll() is None:
                plane.wake()
                plane.kill()


@contextmanager
def running(folder: Path, url: str, count: int, **environment: str) -> Generator[Instances]:
    """Have some for a while."""
    found = Instances(folder, url, count, **environment)
    try:
        yield found
    finally:
        found.close()


def agents_of(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """Return every agent by its id."""
    nodes = plane.client.get("/api/v1/nodes", params={"show_all": "true"}).json()["nodes"]
    return {node["id"]: node for node in nodes}


def health_of(plane: ControlPlane, agent_id: str) -> str:
    """Return an agent's health, as one instance shows it."""
    return agents_of(plane).get(agent_id, {}).get("health_status", "")


def until(condition: Any, limit_s: float = 30.0) -> None:
    """Wait for a condition, through instances that do not answer for a moment."""

    def holds() -> bool:
        try:
            return bool(condition())
        except httpx2.HTTPError:
            return False

    wait_until(holds, limit_s)

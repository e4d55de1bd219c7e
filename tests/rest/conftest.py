"""One server for the tests of a file; agents are removed after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.caching import ON
from tests.servers import ControlPlane


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp("plane"), "--log-level", "debug")
    yield plane
    if plane.process.poll() is None:
        plane.stop()


@pytest.fixture
def plane(running: ControlPlane) -> Iterator[ControlPlane]:
    yield running
    for node in running.client.get("/api/v1/nodes?show_all=true").json()["nodes"]:
        running.client.delete(f"/api/v1/nodes/{node['id']}")


@pytest.fixture
def own_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """Start a server for one test alone, with quick answers about the store."""
    plane = ControlPlane(tmp_path, "--log-level", "debug")
    yield plane
    if plane.process.poll() is None:
        plane.stop()


@pytest.fixture
def caching_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """Start a server for a test about what it remembers, whatever the others of this run do."""
    plane = ControlPlane(tmp_path, "--log-level", "debug", **ON)
    yield plane
    if plane.process.poll() is None:
        plane.stop()

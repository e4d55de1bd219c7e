"""One control plane for a file, with the agents of the discovery document's examples, or with a worker."""

from collections.abc import Iterator

import pytest
from tests.sdk_python.running import Program, environment
from tests.servers import ControlPlane

from agentfield import Agent


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    running = ControlPlane(tmp_path_factory.mktemp("plane"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def researchers(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start the agents of the examples, and give the server they are registered with."""
    program = Program(tmp_path_factory.mktemp("researchers"), "researchers", environment(plane))
    try:
        program.wait_for(plane, "agent-research-001", "agent-001", "a1", "a2")
        yield plane
    finally:
        assert program.stop() == 0, program.log()


@pytest.fixture(scope="module")
def worker(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Start the worker."""
    program = Program(tmp_path_factory.mktemp("worker"), "worker", environment(plane))
    try:
        program.wait_for(plane, "worker")
        yield program
    finally:
        assert program.stop() == 0, program.log()


@pytest.fixture
def app(plane: ControlPlane) -> Iterator[Agent]:
    """Give a caller."""
    with Agent(agentfield_server=plane.url) as caller:
        yield caller

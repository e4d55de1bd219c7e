"""The programs, built once, and a control plane with the agents of the seed's examples, all of them in Go."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk_go.golang import HERE, Agent, Asker, build, need_go
from tests.servers import ControlPlane

RESEARCHERS = ("agent-001", "agent-research-001", "a1")


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the programs."""
    need_go()
    return build(HERE / "programs", tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a control plane, and agents that really run."""
    folder = tmp_path_factory.mktemp("researchers")
    running = ControlPlane(folder)
    agents = [Agent(folder, running.url, name, str(programs / "research"), name) for name in RESEARCHERS]
    try:
        for agent in agents:
            agent.ready(running)
        yield running
    finally:
        ends = [agent.stop() for agent in agents]
        running.stop()
        assert ends == [0] * len(agents)


@pytest.fixture
def ask(programs: Path, plane: ControlPlane) -> Asker:
    """Ask that control plane with the SDK."""
    return Asker(programs / "ask", plane.url)

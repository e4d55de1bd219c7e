"""The published AgentField SDK, unmodified, in its own environment, against our control plane."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-agentfield/bin/python"
PROGRAMS = Path(__file__).parent / "sdk"


@pytest.fixture
def interpreter() -> Path:
    if not PYTHON.exists() and not os.environ.get("CI"):
        pytest.skip("the published SDK is not installed; `make setup` does it")
    return PYTHON


def environment(plane: ControlPlane, port: int = 0) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "AGENTFIELD_SERVER": plane.url,
        "AGENTFIELD_API_KEY": "k-123",
        "AGENTFIELD_DISABLE_IP_DETECTION": "1",
        "AGENT_CALLBACK_URL": f"http://127.0.0.1:{port}",
        "PORT": str(port),
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_an_agent_of_the_published_sdk_registers_beats_is_discovered_and_leaves(
    interpreter: Path, tmp_path: Path
) -> None:
    """From its start to its clean end, with its own `discover()` in all three formats."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_API_KEY="k-123")
    plane.client.headers["X-API-Key"] = "k-123"
    port = free_port()
    with (tmp_path / "agent.log").open("wb") as log:
        agent = subprocess.Popen(  # noqa: S603 - our own program
            [str(interpreter), str(PROGRAMS / "published_agent.py")],
            env=environment(plane, port),
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def node() -> httpx2.Response:
        return plane.client.get("/api/v1/nodes/published-agent")

    wait_until(lambda: node().status_code == 200 and node().json()["health_status"] == "active", 60)
    status = plane.client.get("/api/v1/nodes/published-agent/status").json()["status"]
    assert status["expected_every_s"] == 2
    first = status["last_seen"]
    wait_until(lambda: node().json()["last_heartbeat"] > first)

    orchestrator = subprocess.run(  # noqa: S603 - our own program
        [str(interpreter), str(PROGRAMS / "published_discover.py")],
        env=environment(plane),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    seen = json.loads(orchestrator.stdout.strip().splitlines()[-1])
    assert '<agent id="published-agent"' in seen.pop("xml")
    assert seen == {
        "total_agents": 1,
        "agent_id": "published-agent",
        "reasoner": "deep_research",
        "target": "published-agent:deep_research",
        "required": ["query"],
        "compact": ["published-agent:deep_research", "published-agent:skill:web_search"],
    }

    agent.send_signal(signal.SIGTERM)
    # Its server raises the signal again once it has stopped in good order, so the exit code is that signal's.
    assert agent.wait(60) in (0, -signal.SIGTERM)
    assert "Application shutdown complete" in (tmp_path / "agent.log").read_text()
    gone = plane.client.get("/api/v1/nodes/published-agent/status").json()["status"]
    assert (gone["health_status"], gone["reason"]) == ("inactive", "shut down (signal)")
    plane.stop()

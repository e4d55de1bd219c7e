"""The sample agent runs as its README says: registered, executed both ways, gone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    running = ControlPlane(tmp_path)
    yield running
    running.process.terminate()
    running.process.wait(30)
    running.client.close()
    assert running.process.stdout is not None
    running.process.stdout.close()


def test_the_sample_agent_registers_answers_reports_and_says_goodbye(plane: ControlPlane) -> None:
    """A skill at once, a reasoner later, and a clean end."""
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(ROOT / "examples/agent/agent.py")],
        env={**os.environ, "AGENTFIELD_SERVER": plane.url},
        stdout=subprocess.PIPE,
    ) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline().startswith(b"sample-agent is registered")
        given = json.dumps({"input": {"text": "Storms moved north. The harbour was closed."}})
        answers = [
            plane.client.post(f"/api/v1/execute/sample-agent:{name}", content=given).json()
            for name in ("skill:count_words", "outline")
        ]
        agent.send_signal(signal.SIGTERM)
        code = agent.wait(30)

    assert [answer["result"] for answer in answers] == [
        {"words": 7, "different": 7},
        ["Storms moved north", "The harbour was closed"],
    ]
    assert code == 0
    wait_until(lambda: plane.discover(agent="sample-agent")["capabilities"][0]["health_status"] == "inactive")

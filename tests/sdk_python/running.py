"""Programs that tests of the SDK run: agents in processes of their own, and short scripts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def environment(plane: ControlPlane | None, **more: str) -> dict[str, str]:
    """Return the environment of a program that has our control plane and nothing else of ours."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    server = {"AGENTFIELD_SERVER": plane.url} if plane is not None else {}
    return {**own, "PYTHONPATH": str(HERE / "stand_ins"), **server, **more}


def run(plane: ControlPlane, code: str, **more: str) -> str:
    """Run a script to its end, and return what it printed."""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "error", "-c", code],
        env=environment(plane, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


class Program:
    """An agent in a process of its own."""

    def __init__(self, folder: Path, name: str, environment: dict[str, str]) -> None:
        self._log = folder / f"{name}.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, str(HERE / "programs" / f"{name}.py")],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, plane: ControlPlane, *agents: str) -> None:
        """Wait until agents are there and well."""
        for agent in agents:
            wait_until(lambda agent=agent: self._is_active(plane, agent))

    def log(self) -> str:
        """Return what it said."""
        return self._log.read_text()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(30)

    def _is_active(self, plane: ControlPlane, agent: str) -> bool:
        assert self.process.poll() is None, self.log()[-3000:]
        answer = plane.client.get(f"/api/v1/nodes/{agent}")
        return answer.status_code == 200 and answer.json()["health_status"] == "active"

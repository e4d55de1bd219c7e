"""A real control plane in a process of its own, as tests start, ask, stop and kill it."""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
from tests.caching import SETTING

COMMAND = str(Path(sys.executable).with_name("switchboard"))


def registration(
    agent_id: str,
    reasoners: dict[str, list[str]] | None = None,
    skills: dict[str, list[str]] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Build a registration from the names and tags of reasoners and skills."""
    return {
        "id": agent_id,
        "base_url": "http://127.0.0.1:1",
        "version": "1.0.0",
        "reasoners": [{"id": name, "tags": tags} for name, tags in (reasoners or {}).items()],
        "skills": [{"id": name, "tags": tags} for name, tags in (skills or {}).items()],
        **changes,
    }


class ControlPlane:
    """One server process."""

    def __init__(self, folder: Path, *arguments: str, command: Sequence[str] = (COMMAND,), **environment: str) -> None:
        self._log = folder / "server.log"
        self._log.touch()
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))
        }
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [*command, "serve", "--port", "0", "--database-url", f"sqlite:///{folder}/plane.db", *arguments],
                env={**own, **SETTING, "XDG_DATA_HOME": str(folder), **environment},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        # A test that fails in the middle leaves nothing behind.
        atexit.register(self.process.kill)
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("Switchboard control plane on "), first + self._log.read_text()
        self.url = first.split()[-1]
        self.client = httpx2.Client(base_url=self.url, timeout=30, trust_env=False)

    def discover(self, **parameters: str) -> dict[str, Any]:
        """Ask and return the JSON answer."""
        answer = self.client.get("/api/v1/discovery/capabilities", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def raw(self, query: str = "", **headers: str) -> httpx2.Response:
        """Ask with a query as it is."""
        return self.client.get(f"/api/v1/discovery/capabilities?{query}", headers=headers)

    def register(self, *documents: dict[str, Any]) -> None:
        """Register agents."""
        for document in documents:
            answer = self.client.post("/api/v1/nodes/register", json=document)
            assert answer.status_code == 201, answer.text

    def metric(self, name: str) -> float:
        """Return one number from /metrics, by its name with labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name} ")), 0.0)

    def events(self) -> list[dict[str, Any]]:
        """Return what was logged; the server writes in batches, so stop it first."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def log_text(self) -> str:
        """Return everything that it said."""
        return self._log.read_text()

    def pause(self) -> None:
        """Let it sleep in the middle of whatever it does."""
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self, within_s: float = 30) -> int:
        """Ask it to stop, and return its exit code."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(within_s)
        self._close()
        return code

    def kill(self) -> None:
        """End it at once."""
        self.client.close()
        self.process.kill()
        self.process.wait(30)
        self._close()

    def _close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

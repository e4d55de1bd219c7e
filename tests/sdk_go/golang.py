"""Go programs as tests build and run them: with the Go on the PATH or in .venv, offline, beside the repository."""

import atexit
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SDK = ROOT / "sdk/go"
GO = str(ROOT / "tools/go")
Told = dict[str, Any]


def environment(server: str = "", **more: str) -> dict[str, str]:
    """Return an environment with nothing of ours but the control plane."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    return {**own, **({"AGENTFIELD_SERVER": server} if server else {}), **more}


def need_go() -> None:
    """Skip the test where there is no Go; in continuous integration that is a failure."""
    found = subprocess.run([GO, "version"], check=False, capture_output=True, text=True)  # noqa: S603 - our own tool
    if found.returncode != 0 and not os.environ.get("CI"):
        pytest.skip(found.stderr.strip())


def go(*arguments: str, folder: Path, **more: str) -> str:
    """Run Go in a folder, and return what it printed."""
    done = subprocess.run(  # noqa: S603 - our own tool
        [GO, *arguments],
        cwd=folder,
        env=environment(**more),
        check=False,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def module_file(folder: Path) -> None:
    """Make a folder a module that uses the SDK of this repository."""
    name = "github.com/Agent-Field/agentfield/sdk/go"
    lines = ["module example.org/made", "go 1.22", f"require {name} v0.0.0", f"replace {name} => {SDK}"]
    (folder / "go.mod").write_text("\n\n".join(lines) + "\n", encoding="utf-8")


def build(module: Path, into: Path) -> Path:
    """Build every program of a module, and return the folder they are in."""
    into.mkdir(parents=True, exist_ok=True)
    go("build", "-o", str(into), "./...", folder=module)
    return into


def run(program: Path, server: str, *arguments: str, **more: str) -> str:
    """Run a program to its end, and return what it printed."""
    done = subprocess.run(  # noqa: S603 - our own programs
        [str(program), *arguments],
        env=environment(server, **more),
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


class Agent:
    """An agent in a process of its own, written in Go or not."""

    def __init__(self, folder: Path, server: str, name: str, *command: str, **more: str) -> None:
        self.id = name
        self._log = folder / f"{self.id}.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own programs
                command, env=environment(server, **more), stdout=log, stderr=subprocess.STDOUT
            )
        # A test that fails in the middle leaves nothing behind.
        atexit.register(self.process.kill)

    def ready(self, plane: ControlPlane) -> "Agent":
        """Wait until it is known and well."""
        wait_until(lambda: self.health(plane) == "active", 60)
        return self

    def health(self, plane: ControlPlane) -> str:
        """Return what the control plane thinks of it."""
        assert self.process.poll() is None, self.log()[-3000:]
        try:
            answer = plane.client.get(f"/api/v1/nodes/{self.id}")
        except httpx2.HTTPError:
            return ""
        return str(answer.json().get("health_status", ""))

    def log(self) -> str:
        """Return what it said."""
        return self._log.read_text()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(30)


class Asker:
    """The program that asks with the SDK what a test wants to know."""

    def __init__(self, program: Path, server: str, **more: str) -> None:
        self._program = program
        self._server = server
        self._more = more

    def __call__(self, **wish: Any) -> Told:
        """Ask anything."""
        return json.loads(run(self._program, self._server, json.dumps(wish), **self._more))

    def discover(self, **options: Any) -> Told:
        """Discover with options by their Go names, and return the answer as the SDK read it."""
        told = self(options=options)
        assert "said" not in told, told
        return told["found"]

    def execute(self, target: str, given: Told | None = None, *, submit: bool = False) -> Told:
        """Execute a target."""
        return self(execute={"target": target, "input": given or {}}, submit=submit)


def targets(found: Told) -> list[str]:
    """Return every target of an answer."""
    return [
        one["invocation_target"] for agent in found["capabilities"] for one in (*agent["reasoners"], *agent["skills"])
    ]

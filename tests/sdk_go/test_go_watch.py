"""`Watch` of the Go SDK against real servers: across broken lines and restarts, and where nobody tells."""

import atexit
import json
import random
import subprocess
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.waiting import wait_until
from tests.sdk_go.golang import environment, need_go
from tests.sdk_python.test_watch import Old, change_things
from tests.servers import ControlPlane, registration
from tests.watchers import cable, everything


class Watcher(threading.Thread):
    """The program that watches, and a list that is kept by what it prints."""

    def __init__(self, programs: Path, url: str, *arguments: str, **more: str) -> None:
        super().__init__(daemon=True)
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [str(programs / "watch"), "a*", *arguments],
            env=environment(url, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.process.kill)
        self.changes: list[dict[str, Any]] = []
        self.known: dict[str, dict[str, Any]] = {}
        self.wrong: list[dict[str, Any]] = []
        self.start()

    def run(self) -> None:
        """Apply every change; each has to fit what is known."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            change = json.loads(line)
            name = change["agent"]["agent_id"]
            fits = (change["kind"] == "added") == (name not in self.known)
            if not fits or change.get("before") != self.known.get(name):
                self.wrong.append(change)
            if change["kind"] == "removed":
                self.known.pop(name, None)
            else:
                self.known[name] = change["agent"]
            self.changes.append(change)

    def ends_with(self, plane: ControlPlane) -> None:
        """Wait until it knows what discovery knows, and end it."""

        def truth(agents: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
            return {name: (agent["version"], agent["health_status"]) for name, agent in agents.items()}

        wait_until(lambda: truth(self.known) == truth(everything(plane.url, agent="a*")))
        self.close()
        assert self.wrong == []

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait(30)
        self.join(30)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[ControlPlane]:
    need_go()
    plane = ControlPlane(tmp_path)
    yield plane
    if plane.process.poll() is None:
        plane.stop()


def test_changes_are_told_with_what_was_before_and_why(programs: Path, own: ControlPlane) -> None:
    """Added, health with reason and since, changed, removed."""
    own.register(registration("a1", {"r": []}))
    watcher = Watcher(programs, own.url)
    wait_until(lambda: len(watcher.changes) == 1)
    own.client.post("/api/v1/nodes/a1/shutdown")
    own.register(registration("a1", {"r": [], "more": []}))
    own.client.delete("/api/v1/nodes/a1")
    wait_until(lambda: len(watcher.changes) == 4)
    watcher.ends_with(own)

    assert [change["kind"] for change in watcher.changes] == ["added", "health", "changed", "removed"]
    worse, gone = watcher.changes[1], watcher.changes[3]
    assert (worse["reason"], worse["since"][:2], gone["reason"]) == ("shut down", "20", "deregistered")
    assert (worse["before"]["health_status"], worse["agent"]["health_status"]) == ("active", "inactive")


def test_a_line_that_is_cut_for_a_while_loses_nothing(programs: Path, own: ControlPlane) -> None:
    """Each change fits what was known: none twice, none missing."""
    dice = random.Random(2)  # noqa: S311 - the same every time
    with cable(own.url) as line:
        watcher = Watcher(programs, line.url)
        for _ in range(3):
            change_things(own, dice, 10)
            line.cut()
            change_things(own, dice, 10)
            line.mend()
        watcher.ends_with(own)


def test_a_restart_in_between_is_bridged(programs: Path, tmp_path: Path) -> None:
    """What changed meanwhile is told as changes; what did not is not told again."""
    plane = ControlPlane(tmp_path)
    port = plane.url.rpartition(":")[2]
    plane.register(registration("a1", {"r": []}), registration("a2", {"r": []}))
    watcher = Watcher(programs, plane.url)
    wait_until(lambda: len(watcher.changes) == 2)
    plane.kill()
    plane = ControlPlane(tmp_path, "--port", port)
    plane.client.delete("/api/v1/nodes/a1")
    plane.register(registration("a3", {"r": []}))
    wait_until(lambda: {change["agent"]["agent_id"] for change in watcher.changes[2:]} == {"a1", "a3"})

    watcher.ends_with(plane)
    plane.stop()


def test_one_who_is_slow_over_each_change_gets_all_of_them(programs: Path, own: ControlPlane) -> None:
    """The server goes on meanwhile."""
    watcher = Watcher(programs, own.url, "20")
    for number in range(40):
        own.register(registration("a1", {"r": []}, version=str(number)))

    watcher.ends_with(own)
    assert watcher.changes[-1]["agent"]["version"] == "39"


def test_a_server_without_a_watch_is_asked_again_and_again(programs: Path, own: ControlPlane) -> None:
    """Once a second."""
    handler = type("OldPlane", (Old,), {"plane_url": own.url})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        own.register(registration("a1", {"r": []}))
        watcher = Watcher(programs, f"http://127.0.0.1:{server.server_port}")
        wait_until(lambda: len(watcher.changes) == 1)
        own.client.post("/api/v1/nodes/a1/shutdown")
        wait_until(lambda: len(watcher.changes) == 2)
        watcher.ends_with(own)
        server.shutdown()

    assert [change["kind"] for change in watcher.changes] == ["added", "health"]


def test_a_key_that_is_wrong_ends_the_watch(programs: Path, tmp_path: Path) -> None:
    """With the server's words, and without the key."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_API_KEY="right-one")
    watcher = Watcher(programs, plane.url, AGENTFIELD_API_KEY="wrong-one")
    assert watcher.process.wait(30) == 3
    assert watcher.process.stderr is not None
    said = watcher.process.stderr.read()
    watcher.close()
    plane.stop()

    assert said.startswith("watch: ")
    assert "401 unauthorized" in said
    assert "wrong-one" not in said

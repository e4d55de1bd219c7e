"""What the README shows is what a person sees."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
from tests.journeys.waiting import wait_until
from tests.servers import COMMAND, ControlPlane

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def shown(command: str) -> str:
    """Return the output that the README shows for a command."""
    found = re.search(rf"^\$ {re.escape(command)}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None, command
    return found[1]


def run(*arguments: str, **environment: str) -> str:
    result = subprocess.run(  # noqa: S603 - our own command
        [COMMAND, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return result.stdout


def test_the_check_of_the_sample_prints_what_the_readme_shows() -> None:
    """Line by line."""
    file = "examples/home/web/com.example.weather/aai.json"

    assert run("check", file) == shown(f".venv/bin/switchboard check {file}")


def test_the_first_steps_with_agents_work_as_pasted(tmp_path: Path) -> None:
    """The table, the two questions, the registration and the heartbeat."""
    plane = ControlPlane(tmp_path, "--demo")
    wait_until(lambda: plane.discover()["total_agents"] == 2)
    assert run("discover", AGENTFIELD_SERVER=plane.url) == shown(".venv/bin/switchboard discover")

    for address in re.findall(r"^\$ curl '(http://127\.0\.0\.1:8080[^']+)'", README, re.MULTILINE):
        answer = plane.client.get(address.replace("http://127.0.0.1:8080", plane.url))
        assert answer.status_code == 200
        assert "demo-writer" in answer.text
    registration = re.search(r"nodes/register -d '(.*?)'", README, re.DOTALL)
    assert registration is not None
    # curl sends -d as a form; the server reads JSON whatever it is called.
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    registered: httpx2.Response = plane.client.post("/api/v1/nodes/register", content=registration[1], headers=form)
    assert registered.status_code == 201
    assert plane.client.post("/api/v1/nodes/my-agent/heartbeat").status_code == 200
    assert plane.discover(tags="demo")["capabilities"][0]["agent_id"] == "my-agent"
    plane.stop()


def test_the_lines_of_python_work_as_pasted(tmp_path: Path) -> None:
    """Against the sample agents of `make run`."""
    program = re.search(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert program is not None
    plane = ControlPlane(tmp_path, "--demo")
    wait_until(lambda: plane.discover()["total_agents"] == 2)
    printed = subprocess.run(  # noqa: S603 - what the README shows
        [sys.executable, "-c", program[1]],
        env={**os.environ, "AGENTFIELD_SERVER": plane.url},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    plane.stop()

    assert printed.stdout == "1\n{'summary': 'One. Two.'}\n"

"""What the SDK's documents show is what happens: every program in them is run against the sample agents."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest
from tests.docs.documents import blocks, commands
from tests.journeys.waiting import wait_until
from tests.sdk_python.running import ROOT, environment, run
from tests.servers import ControlPlane

README = ROOT / "sdk/python/README.md"
GUIDES = {
    "AI_ORCHESTRATOR": "examples/orchestrator/orchestrator.py",
    "DYNAMIC_ROUTING": "examples/dynamic_routing/routing.py",
    "SCHEMA_VALIDATION": "examples/schema_validation/validation.py",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a server with the sample agents."""
    plane = ControlPlane(tmp_path_factory.mktemp("demo"), "--demo")
    wait_until(lambda: plane.client.get("/health").json()["agents"] == 2)
    yield plane
    plane.stop()


@pytest.mark.parametrize(("guide", "program"), GUIDES.items())
def test_a_guide_shows_its_program_and_what_it_prints(demo: ControlPlane, guide: str, program: str) -> None:
    """Word by word."""
    shown = blocks(ROOT / f"docs/guides/{guide}.md")
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-W", "error", program],
        cwd=ROOT,
        env=environment(demo),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert [block.text for block in shown if block.language == "python"] == [(ROOT / program).read_text()]
    run_as_shown = [command for block in shown if block.language == "console" for command in commands(block)]
    assert [command.output.strip() for command in run_as_shown if program in command.text] == [done.stdout.strip()]


def test_every_program_of_the_readme_prints_what_it_shows(demo: ControlPlane) -> None:
    """In the order they stand there; the agent, which would run for ever, is only compiled."""
    found = blocks(README)
    for block, after in pairwise(found):
        if block.language == "python" and not block.marker:
            assert after.language == "text", str(block)
            assert run(demo, block.text).strip() == after.text.strip(), str(block)
    for block in found:
        if block.language == "python":
            compile(block.text, str(block), "exec")

"""The official conformance suites, unmodified, against our protocol layer behind a front for HTTP (`tests/mcp`)."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.clients.clients import MODULES, NODE

ROOT = Path(__file__).parents[2]
NOW = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
NEXT = MODULES / "conformance-next/dist/index.js"
SUITES: dict[str, tuple[list[str], int]] = {
    "0.1.16": ([str(NOW), "server"], 30),
    "2025-11-25": ([str(NEXT), "server", "--requirements", "2025-11-25"], 33),
    "2026-07-28": ([str(NEXT), "server", "--requirements", "2026-07-28"], 50),
}
"""The command of each suite, and how many scenarios it has, so that none is lost without being noticed."""
TASKS = "io.modelcontextprotocol/tasks is an extension, which we do not offer: long calls tell their progress"
NOT_FOR_US = {
    "tasks-capability-negotiation": TASKS,
    "tasks-dispatch-and-envelope": TASKS,
    "tasks-lifecycle": TASKS,
    "tasks-mrtr-composition": TASKS,
    "tasks-mrtr-input": TASKS,
    "tasks-request-headers": TASKS,
    "tasks-request-state-removal": TASKS,
    "tasks-required-task-error": TASKS,
    "tasks-status-notifications": f"{TASKS}; and the suite itself skips it until it is rewritten",
    "tasks-wire-fields": TASKS,
    "server-sse-polling": "resuming a broken HTTP stream is the transport's, and no transport of ours does",
}
"""Scenarios that we do not pass, and why that is right."""
Results = dict[str, set[str]]
"""The kinds of outcome that the checks of each scenario had."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Results]:
    if not MODULES.exists() and not os.environ.get("CI"):
        pytest.skip("the official MCP clients are not installed; `make setup` does it")
    folder = tmp_path_factory.mktemp("conformance")
    with front(folder / "front.log") as url:
        found = {suite: run(command, url, folder / suite) for suite, (command, _) in SUITES.items()}
    # Whatever the suites send, nothing may fail inside.
    assert (folder / "front.log").read_text() == ""
    return found


@contextmanager
def front(log: Path, program: str = "tests.mcp.conformance.front") -> Generator[str]:
    """Run a front as a process of its own, and give its address."""
    with (
        log.open("wb") as errors,
        subprocess.Popen(  # noqa: S603 - one of our own
            [sys.executable, "-m", program],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url, log.read_text()
            yield url
        finally:
            process.kill()


def run(command: list[str], url: str, folder: Path) -> Results:
    """Run one suite, and return what it found; its folders are called `server-<scenario>-<time>`."""
    done = subprocess.run(  # noqa: S603 - the suites that the tests bring
        [str(NODE), *command, "--url", url, "-o", str(folder)],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "=== SUMMARY ===" in done.stdout, done.stdout + done.stderr
    return {
        re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name): {
            check["status"] for check in json.loads(file.read_text())
        }
        for file in folder.glob("*/checks.json")
    }


def passes(statuses: set[str]) -> bool:
    """Tell whether something was checked and all of it is well: a warning or a skipped check is not."""
    return "SUCCESS" in statuses and statuses <= {"SUCCESS", "INFO"}


@pytest.mark.parametrize("suite", SUITES)
def test_every_scenario_that_is_for_us_passes_completely(suite: str, results: dict[str, Results]) -> None:
    """Both generations, whether the suite scores a scenario or only runs it; a warning counts as a failure."""
    found = results[suite]

    failing = {name: statuses for name, statuses in found.items() if name not in NOT_FOR_US and not passes(statuses)}
    assert failing == {}
    assert len(found) == SUITES[suite][1]


def test_what_is_not_for_us_was_tried_and_does_not_pass(results: dict[str, Results]) -> None:
    """The table is honest: no entry outlives its reason, and none names a scenario that is not there."""
    tried = {name: statuses for found in results.values() for name, statuses in found.items() if name in NOT_FOR_US}

    assert {name for name, statuses in tried.items() if not passes(statuses)} == set(NOT_FOR_US)

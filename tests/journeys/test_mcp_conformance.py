"""The official conformance suites, unmodified, over the product's own HTTP.

Twice: against its transport with everything the suites look for behind it, and against a real control plane, which has
its agents and nothing else.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.instances import agents_of, until
from tests.journeys.test_conformance import NOT_FOR_US, SUITES, Results, front, passes, run
from tests.servers import ControlPlane

NO_QUESTIONS = "asks the client something in the middle of a call, which takes a session; nobody is asked on a server"
NO_SESSIONS = "is about sessions and resuming them; every request stands for itself here"
NO_HEADERS = "no tool that is listed wants its arguments in headers"
TRANSPORT = NOT_FOR_US | {
    "elicitation-sep1034-defaults": NO_QUESTIONS,
    "elicitation-sep1330-enums": NO_QUESTIONS,
    "tools-call-elicitation": NO_QUESTIONS,
    "tools-call-sampling": NO_QUESTIONS,
    "server-session-lifecycle": NO_SESSIONS,
    "server-sse-polling": NO_SESSIONS,
    "http-custom-header-server-validation": NO_HEADERS,
}
"""What does not pass over our transport, and why that is right."""

NO_FIXTURE = "wants the suite's own tool or resource, which no agent here has; over the transport alone it passes"
NO_PROMPTS = "there are no prompts, and none are announced"
NO_COMPLETIONS = "there are no completions, and none are announced"
NO_LOGGING = "there is no logging to clients, and none is announced"
NO_UPDATES = "single resources are not subscribed to, and that is not announced"
MRTR = "wants the suite's own tool, which asks for input; nothing here does"
PLANE = TRANSPORT | {
    "caching": NO_PROMPTS,
    "completion-complete": NO_COMPLETIONS,
    "input-required-result-basic-elicitation": MRTR,
    "input-required-result-basic-list-roots": MRTR,
    "input-required-result-basic-sampling": MRTR,
    "input-required-result-capability-check": MRTR,
    "input-required-result-missing-input-response": MRTR,
    "input-required-result-multi-round": MRTR,
    "input-required-result-multiple-input-requests": MRTR,
    "input-required-result-non-tool-request": MRTR,
    "input-required-result-request-state": MRTR,
    "input-required-result-result-type": MRTR,
    "input-required-result-tampered-state": MRTR,
    "json-schema-2020-12": NO_FIXTURE,
    "logging-set-level": NO_LOGGING,
    "prompts-get-embedded-resource": NO_PROMPTS,
    "prompts-get-simple": NO_PROMPTS,
    "prompts-get-with-args": NO_PROMPTS,
    "prompts-get-with-image": NO_PROMPTS,
    "prompts-list": NO_PROMPTS,
    "resources-read-binary": NO_FIXTURE,
    "resources-read-text": NO_FIXTURE,
    "resources-subscribe": NO_UPDATES,
    "resources-templates-read": NO_FIXTURE,
    "resources-unsubscribe": NO_UPDATES,
    "server-stateless": "wants the suite's own tools for three of its checks; over the transport alone it passes",
    "tools-call-audio": NO_FIXTURE,
    "tools-call-embedded-resource": NO_FIXTURE,
    "tools-call-image": NO_FIXTURE,
    "tools-call-mixed-content": NO_FIXTURE,
    "tools-call-with-logging": NO_LOGGING,
    "tools-call-with-progress": NO_FIXTURE,
}
"""What does not pass against a control plane, and why that is right."""


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Results]:
    folder = tmp_path_factory.mktemp("transport")
    with front(folder / "front.log", "tests.mcp.conformance.served") as url:
        found = {suite: run(command, url, folder / suite) for suite, (command, _) in SUITES.items()}
    # Whatever the suites send, nothing may fail inside.
    assert (folder / "front.log").read_text() == ""
    return found


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Results]]:
    folder: Path = tmp_path_factory.mktemp("plane")
    server = ControlPlane(folder, "--demo", "--log-level", "warning")
    until(lambda: len(agents_of(server)) == 2)
    found = {suite: run(command, f"{server.url}/mcp", folder / suite) for suite, (command, _) in SUITES.items()}
    yield found
    server.stop()
    assert server.log_text() == ""


def failing(found: Results, known: dict[str, str]) -> dict[str, set[str]]:
    return {name: statuses for name, statuses in found.items() if name not in known and not passes(statuses)}


@pytest.mark.parametrize("suite", SUITES)
def test_every_scenario_that_is_for_our_transport_passes_completely(suite: str, transport: dict[str, Results]) -> None:
    """Both generations, whether the suite scores a scenario or only runs it; a warning counts as a failure."""
    found = transport[suite]

    assert failing(found, TRANSPORT) == {}
    assert len(found) == SUITES[suite][1]


@pytest.mark.parametrize("suite", SUITES)
def test_every_scenario_that_is_for_a_control_plane_passes_completely(suite: str, plane: dict[str, Results]) -> None:
    """What it announces, it does; what it does not announce is refused in the words of the protocol."""
    found = plane[suite]

    assert failing(found, PLANE) == {}
    assert len(found) == SUITES[suite][1]


def test_what_is_not_for_us_was_tried_and_does_not_pass(
    transport: dict[str, Results], plane: dict[str, Results]
) -> None:
    """Both tables are honest: no entry outlives its reason, and none names a scenario that is not there."""
    for results, known in ((transport, TRANSPORT), (plane, PLANE)):
        tried = {name for found in results.values() for name, statuses in found.items() if not passes(statuses)}
        assert tried == set(known)

"""The documents of the control plane are true: every example in them is run against a real server and compared.

In a document, `http://localhost:8080` is a server with the sample agents and `http://localhost:9000` one with a key.
A second word after the language of an example says where its answer comes from: `log` is the server's log, `store-down`
a server without its store, `failure` an error inside, `settings` a file that a server is started with, `refused` what
that server answers somebody whom its rules do not name and `allowed` what others get, `config` an entry in the
configuration of a client.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import httpx2
import pytest
from tests.caching import ON, SETTING
from tests.docs.documents import ROOT, Block, blocks, commands, headings, steady, steady_json
from tests.servers import ControlPlane, registration
from tests.support import requirement

from switchboard.catalog.executions import Status
from switchboard.rest.answers import error_body

DISCOVERY = ROOT / "docs/api/DISCOVERY_API.md"
REGISTRATION = ROOT / "docs/api/AGENT_REGISTRATION.md"
EXECUTION = ROOT / "docs/api/EXECUTION_API.md"
REGISTRY = ROOT / "docs/api/REGISTRY_API.md"
MCP = ROOT / "docs/api/MCP_HTTP.md"
WATCH = ROOT / "docs/api/WATCH_API.md"
GUIDE = ROOT / "docs/guides/USING_DISCOVERY_API.md"
DOCUMENTS = (DISCOVERY, REGISTRATION, EXECUTION, REGISTRY, MCP, WATCH, GUIDE)
BLOCKS = {document: blocks(document) for document in DOCUMENTS}
KEY = "open-sesame"
LANGUAGES = {"console", "python", "text", "json", "xml", "http", "toml"}
SERVE = re.compile(r"\bswitchboard serve\b")
BETWEEN = "\x1e"
"""Printed between the outputs of two commands: the ASCII character for this purpose."""


class Reader:
    """Somebody who follows a document from top to bottom and does what it shows."""

    def __init__(self, demo: ControlPlane, keyed: ControlPlane) -> None:
        self._addresses = {"http://localhost:8080": demo.url, "http://localhost:9000": keyed.url}
        self._environment = environment(AGENTFIELD_SERVER=demo.url)
        self._answer = ""

    def follow(self, block: Block) -> None:
        """Do what one example shows; what it shows as an answer must be the answer."""
        match block.language:
            case "console":
                self._type(block)
            case "python":
                self._answer = self._run(block, sys.executable, "-c", block.text)
            case "json":
                assert steady_json(self._answer) == steady_json(block.text), str(block)
            case _:
                assert steady(self._answer) == steady(block.text), str(block)

    def _type(self, block: Block) -> None:
        typed = commands(block)
        script = "".join(f"{command.text}\nprintf '{BETWEEN}'\n" for command in typed)
        printed = self._run(block, "bash", "-e", "-o", "pipefail", "-c", script).split(BETWEEN)
        for command, output in zip(typed, printed, strict=False):
            if command.output:
                assert steady(output) == steady(command.output), f"{block}: {command.text}"
        self._answer = printed[len(typed) - 1]

    def _run(self, block: Block, *arguments: str) -> str:
        run = [self._addressed(argument) for argument in arguments]
        done = subprocess.run(run, env=self._environment, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - our own documents
        assert done.returncode == 0, f"{block}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _addressed(self, text: str) -> str:
        for shown, real in self._addresses.items():
            text = text.replace(shown, real)
        return text


@pytest.fixture
def shell() -> None:
    """Examples are for a shell with curl; where CI has none, that is a failure and no excuse."""
    missing = [name for name in ("bash", "curl") if shutil.which(name) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"CI has no {' and no '.join(missing)}: the examples in the documents were not run")
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on this machine: the examples in the documents were not run")


@pytest.fixture
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a server with the sample agents, and wait until they are there; examples show what it remembers."""
    plane = ControlPlane(tmp_path_factory.mktemp("demo"), "--demo", **ON)
    try:
        wait_until(lambda: plane.client.get("/health").json()["agents"] == 2)
        yield plane
    finally:
        stop(plane)


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a server with a key."""
    plane = ControlPlane(tmp_path_factory.mktemp("keyed"), SWITCHBOARD_API_KEY=KEY)
    yield plane
    stop(plane)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of somebody who has just installed us and set nothing."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**own, **SETTING, "PATH": path, "no_proxy": "127.0.0.1,localhost", **more}


def wait_until(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"


def stop(plane: ControlPlane) -> None:
    if plane.process.poll() is None:
        plane.stop()


def is_serving(block: Block) -> bool:
    return block.language == "console" and any(SERVE.search(command.text) for command in commands(block))


@requirement("docs:api:file", "docs:api:sections")
def test_the_discovery_reference_has_every_section() -> None:
    """Seed 004, 6.1, and what callers ask besides."""
    wanted = {
        "Overview and purpose",
        "Authentication",
        "Endpoint",
        "Query parameters",
        "Response formats",
        "Paging, caching and compression",
        "Error codes and handling",
        "Rate limiting",
        "Metrics and logs",
        "Best practices",
    }

    assert wanted - set(headings(DISCOVERY)) == set()
    assert {"JSON", "XML", "Compact"} - set(headings(DISCOVERY)) == set()


@requirement("docs:guide:file", "docs:guide:topics")
def test_the_guide_treats_every_topic() -> None:
    """Seed 004, 6.2."""
    wanted = {
        "Common use cases",
        "Example: AI orchestrator pattern",
        "Example: Dynamic routing",
        "Example: Schema validation",
        "Performance tips",
        "Troubleshooting",
    }

    assert wanted - set(headings(GUIDE)) == set()


@requirement("docs:reference:registration")
def test_the_registration_reference_treats_the_whole_life_of_an_agent() -> None:
    """Seed 004, section 14, names this document."""
    wanted = {
        "Register",
        "Heartbeat",
        "Lease",
        "Get, list and status",
        "Shutdown",
        "Delete",
        "The health of an agent",
        "Limits",
        "When the server restarts",
    }

    assert wanted - set(headings(REGISTRATION)) == set()


@requirement("docs:reference:execution")
def test_the_execution_reference_treats_the_whole_life_of_an_execution() -> None:
    """Seed 004, section 14, names this document; its tables have every status, reason, limit and path there is."""
    wanted = {
        "Targets",
        "Input",
        "Execute and wait",
        "Execute without waiting",
        "Webhooks",
        "Idempotency",
        "Cancel",
        "Reports of agents",
        "Statuses and reasons",
        "Limits",
        "What is promised",
        "Keys and rules",
        "Error codes and handling",
    }
    contract = json.loads((ROOT / "contract/openapi.json").read_text(encoding="utf-8"))
    text = EXECUTION.read_text(encoding="utf-8").replace("{id}", "{execution_id}")
    paths = [path for path in contract["paths"] if path.startswith(("/api/v1/execut", "/api/v1/workflow"))]

    assert wanted - set(headings(EXECUTION)) == set()
    assert [path for path in paths if path not in text] == []
    assert [status for status in get_args(Status) if f"| `{status}` |" not in text] == []


def test_the_watch_reference_has_every_event_reason_and_parameter() -> None:
    """As the contract has them."""
    contract = json.loads((ROOT / "contract/openapi.json").read_text(encoding="utf-8"))
    text = WATCH.read_text(encoding="utf-8")
    schemas: dict[str, Any] = contract["components"]["schemas"]
    events = [name.removeprefix("Watch").lower() for name in schemas if name.startswith("Watch")]
    reasons = schemas["WatchSnapshot"]["properties"]["reason"]["enum"]
    parameters = [entry["name"] for entry in contract["paths"]["/api/v1/discovery/watch"]["get"]["parameters"]]

    assert len(events) == 6
    assert [name for name in (*events, *reasons) if f"| `{name}` |" not in text] == []
    assert [name for name in parameters if f"`{name}`" not in text] == []


@requirement("docs:reference:architecture")
def test_the_architecture_names_every_room() -> None:
    """A room that is built stands in docs/ARCHITECTURE.md."""
    text = (ROOT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = sorted(init.parent.name for init in (ROOT / "src/switchboard").glob("*/__init__.py"))
    unnamed = [room for room in rooms if not re.search(rf"(?:^ *|[*`]){room}[*`/]", text, re.MULTILINE)]

    assert rooms
    assert unnamed == []


def test_every_query_parameter_stands_in_the_reference() -> None:
    """The table and the contract have the same parameters."""
    contract = json.loads((ROOT / "contract/openapi.json").read_text(encoding="utf-8"))
    names = {entry["name"] for entry in contract["paths"]["/api/v1/discovery/capabilities"]["get"]["parameters"]}
    table = DISCOVERY.read_text(encoding="utf-8").partition("## Query parameters")[2].partition("| topic |")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)

    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == names


def test_every_example_is_of_a_kind_that_is_run() -> None:
    """Nothing that looks like an example escapes: known languages only, and answers follow something that was asked."""
    for found in BLOCKS.values():
        assert [str(block) for block in found if block.language not in LANGUAGES] == []
        for before, block in pairwise(found):
            asked = {"json": "console", "xml": "console", "text": "python"}.get(block.language)
            if asked and not block.marker:
                assert before.language == asked, f"{block} shows an answer, but nothing was asked before it"


def test_every_answer_shown_can_be_parsed() -> None:
    """What is copied out of a document works elsewhere, too."""
    for block in (block for found in BLOCKS.values() for block in found):
        match block.language:
            case "json":
                assert isinstance(json.loads(block.text), dict), str(block)
            case "xml":
                assert ET.fromstring(block.text.encode()).tag == "discovery", str(block)  # noqa: S314 - our own document
            case _:
                assert block.text.strip(), str(block)


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_example_of_a_document_does_what_it_shows(
    document: Path, demo: ControlPlane, keyed: ControlPlane
) -> None:
    """Commands and programs are run from top to bottom, and print what the document says they print."""
    reader = Reader(demo, keyed)
    for block in BLOCKS[document]:
        if not block.marker and not is_serving(block):
            reader.follow(block)

    shown = [json.loads(block.text) for block in BLOCKS[document] if block.marker == "log"]
    stop(demo)
    logged = {steady_json(json.dumps(event)) for event in demo.events()}
    assert [event for event in shown if steady_json(json.dumps(event)) not in logged] == []


@pytest.mark.usefixtures("shell")
def test_every_server_shown_starts_and_says_where_it_is(tmp_path: Path) -> None:
    """`switchboard serve` as the documents spell it, only on a free port and with a database of its own."""
    shown = {
        command.text: command.output.splitlines()
        for found in BLOCKS.values()
        for block in found
        if is_serving(block)
        for command in commands(block)
    }
    assert shown
    for text, output in shown.items():
        command = f"{text} --port 0 --database-url sqlite:///{tmp_path}/shown.db"
        with subprocess.Popen(  # noqa: S603 - our own documents
            ["bash", "-c", command],  # noqa: S607 - wherever bash is
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            printed = [process.stdout.readline() for _ in output]
            health = httpx2.get(f"{printed[0].split()[-1]}/health", timeout=30, trust_env=False)
            process.terminate()

        assert health.json()["status"] == "healthy"
        assert list(map(steady, printed)) == list(map(steady, output))


def test_a_server_without_its_store_answers_as_shown(tmp_path: Path) -> None:
    """Discovery goes on from memory and says so; what must be written is refused; heartbeats are taken in."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_CACHE_TTL="0")
    try:
        plane.register(registration("weather", {}, {"forecast": []}))
        with closing(sqlite3.connect(tmp_path / "plane.db")) as database:
            database.execute("ALTER TABLE agents RENAME TO away")
        answer = plane.raw()
        health = plane.client.get("/health")
        refused = plane.client.post("/api/v1/nodes/register", json=registration("late"))
        heartbeat = plane.client.post("/api/v1/nodes/weather/heartbeat")
        real = {steady(f"Warning: {answer.headers['warning']}"), steady_json(health.text), steady_json(refused.text)}
        down = plane.metric("switchboard_store_up")
        with closing(sqlite3.connect(tmp_path / "plane.db")) as database:
            database.execute("ALTER TABLE away RENAME TO agents")
    finally:
        stop(plane)

    shown = [block for found in BLOCKS.values() for block in found if block.marker == "store-down"]
    texts = [steady_json(block.text) if block.language == "json" else steady(block.text) for block in shown]
    assert (answer.status_code, answer.json()["total_agents"], health.status_code) == (200, 1, 200)
    assert (refused.status_code, refused.headers["retry-after"], heartbeat.status_code, down) == (503, "1", 200, 0.0)
    assert sorted(texts) == sorted(real)


def test_the_settings_file_shown_gives_callers_names_and_rules(tmp_path: Path) -> None:
    """Somebody whom the rules name is let through, somebody else gets the refusal shown, a stranger none of it."""
    (shown,) = (block.text for block in BLOCKS[EXECUTION] if block.marker == "settings")
    (refusal,) = (block.text for block in BLOCKS[EXECUTION] if block.marker == "refused")
    (tmp_path / "settings.toml").write_text(shown)
    plane = ControlPlane(tmp_path, "--config", str(tmp_path / "settings.toml"), XDG_DATA_HOME=str(tmp_path))
    try:
        plane.client.headers["X-API-Key"] = "another-secret"
        plane.register(registration("billing-eu", {"pay": []}))
        plane.client.headers["X-API-Key"] = "open-sesame"
        plane.register(registration("weather", {"look": []}, base_url="http://127.0.0.1:2"))
        answers = [
            plane.client.post(f"/api/v1/execute/{target}", headers={"X-API-Key": key})
            for key, target in (
                ("open-sesame", "billing-eu:pay"),
                ("open-sesame", "weather:look"),
                ("another-secret", "billing-eu:pay"),
                ("wrong", "weather:look"),
            )
        ]
    finally:
        stop(plane)

    # Nobody listens at the addresses of these agents: 503 means that the call was put through.
    assert [answer.status_code for answer in answers] == [403, 503, 503, 401]
    assert steady_json(answers[0].text) == steady_json(refusal)


def test_the_settings_shown_open_the_registry_for_reading(tmp_path: Path) -> None:
    """Without a key it is read, under the address that is set, and nothing is published."""
    (shown,) = (block.text for block in BLOCKS[REGISTRY] if block.marker == "settings")
    (tmp_path / "settings.toml").write_text(shown)
    descriptor = (ROOT / "contract/examples/registry-descriptor.json").read_bytes()
    address = "/api/v1/apps/com.example.shop"
    plane = ControlPlane(tmp_path, "--config", str(tmp_path / "settings.toml"))
    try:
        refused = plane.client.put(address, content=descriptor)
        published = plane.client.put(address, content=descriptor, headers={"X-API-Key": "a-long-secret"})
        (listed,) = plane.client.get("/v1/apps").json()["apps"]
    finally:
        stop(plane)

    assert (refused.status_code, published.status_code) == (401, 201)
    assert listed["descriptor_url"] == f"https://agents.example.com{address}/aai.json"


def test_the_registry_reference_names_every_path_of_the_contract() -> None:
    """A request that is possible stands in the table."""
    contract = json.loads((ROOT / "contract/openapi.json").read_text(encoding="utf-8"))
    text = REGISTRY.read_text(encoding="utf-8").replace("{id}", "{app_id}")
    requests = {
        (method.upper(), path) for path in contract["paths"] if "/apps" in path for method in contract["paths"][path]
    }

    assert [found for found in requests if f"`{' '.join(found)}`" not in text] == []


def test_a_failure_inside_has_the_body_shown() -> None:
    """The shape of every error, with a message that tells nothing about the inside."""
    shown = [block for found in BLOCKS.values() for block in found if block.marker == "failure"]
    body = error_body("internal_error", "Failed to retrieve agent capabilities", None, "req_0").decode()

    assert [steady_json(block.text) for block in shown] == [steady_json(body)]


def test_the_rules_shown_let_the_call_pass_that_was_refused(tmp_path: Path) -> None:
    """With the key that the settings name, and the answer that the page shows."""
    (settings,) = (block.text for block in BLOCKS[MCP] if block.marker == "settings")
    (allowed,) = (block.text for block in BLOCKS[MCP] if block.marker == "allowed")
    refused = json.loads(next(block.text for block in BLOCKS[MCP] if block.language == "json" and not block.marker))
    told = refused["result"]["structuredContent"]
    (tmp_path / "settings.toml").write_text(settings)
    plane = ControlPlane(tmp_path, "--config", str(tmp_path / "settings.toml"), "--demo")
    message = {"jsonrpc": "2.0", "id": refused["id"], "method": "tools/call"}
    try:
        wait_until(lambda: plane.client.get("/health").json()["agents"] == 2)
        answer = plane.client.post(
            "/mcp",
            headers={"X-API-Key": "open-sesame"},
            json={**message, "params": {"name": told["rule"], "arguments": {"numbers": [1, 2, 6]}}},
        )
    finally:
        stop(plane)

    assert steady_json(answer.text) == steady_json(allowed)


def test_the_configuration_shown_opens_the_door(keyed: ControlPlane) -> None:
    """Its address, on another port here, and its headers."""
    (config,) = (block.text for block in BLOCKS[MCP] if block.marker == "config")
    entry = json.loads(config)["mcpServers"]["switchboard"]
    address = entry["url"].replace("http://localhost:9000", keyed.url)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    found = httpx2.post(address, json=message, headers=entry["headers"], timeout=30, trust_env=False)

    assert (entry["type"], found.status_code) == ("http", 200)
    assert [tool["name"] for tool in found.json()["result"]["tools"]] == ["web_discover", "aai_exec"]

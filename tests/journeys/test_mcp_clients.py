"""The official MCP clients speak with a real control plane over HTTP, in both generations of the protocol."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.clients.clients import CLIENTS, Client, inspector, run
from tests.databases import Postgres
from tests.instances import agents_of, running, until
from tests.journeys.round_robin import RoundRobin, round_robin
from tests.servers import ControlPlane, registration

KEY = "key-of-the-tests"
HEADERS = {"X-API-Key": KEY}
SETTINGS = f"""\
[keys]
tester = "{KEY}"
reader = "key-of-a-reader"
[mcp_allow]
tester = ["demo-*:summarise"]
"""
TEXT = "First things come first. Second things come second. Nobody counts the third."
CALL = {"app": "demo-writer", "tool": "summarise", "args": {"text": TEXT, "sentences": 1}}
ERAS: tuple[Literal["legacy", "modern"], ...] = ("legacy", "modern")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    plane = demo(folder, "--demo")
    plane.client.headers.update(HEADERS)
    until(lambda: len(agents_of(plane)) >= 2)
    yield plane
    plane.stop()


def demo(folder: Path, *arguments: str) -> ControlPlane:
    """Start a control plane with two keys, and rules for one of them."""
    settings = folder / "settings.toml"
    settings.write_text(SETTINGS)
    return ControlPlane(folder, "--config", str(settings), *arguments)


@contextmanager
def sample_agents(url: str) -> Generator[None]:
    """Have the sample agents registered with one server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "switchboard.demo"],
        env={**os.environ, "AGENTFIELD_SERVER": url, "AGENTFIELD_API_KEY": KEY},
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def names(result: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in result["tools"]]


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def steps(plane_url: str, late: str) -> list[dict[str, Any]]:
    """Return a conversation: looks, reads, runs what is allowed, is refused the rest, and sees an agent come."""
    come = {
        "do": "fetch",
        "method": "POST",
        "url": f"{plane_url}/api/v1/nodes/register",
        "headers": {**HEADERS, "Content-Type": "application/json"},
        "body": json.dumps(registration(late, {"think": []})),
    }
    return [
        {"do": "server_info"},
        {"do": "list_tools"},
        {"do": "call_tool", "name": "app_demo-writer"},
        {"do": "call_tool", "name": "aai_exec", "arguments": CALL},
        {"do": "call_tool", "name": "demo-writer:summarise", "arguments": CALL["args"]},
        {"do": "call_tool", "name": "aai_exec", "arguments": {**CALL, "tool": "keywords", "args": {"text": TEXT}}},
        {"do": "list_resources"},
        {"do": "read_resource", "uri": "app:demo-writer"},
        come,
        {"do": "wait_notification", "method": "notifications/tools/list_changed"},
        {"do": "wait_notification", "method": "notifications/resources/list_changed"},
        {"do": "list_tools", "cache": "refresh"},
        {"do": "close"},
    ]


def check(outcomes: list[dict[str, Any]], late: str, *, modern: bool) -> None:
    """Make sure that a conversation went as it should."""
    errors = [outcome for outcome in outcomes if "error" in outcome]
    assert errors == []
    server, tools, guide, done, directly, refused, resources, read, come, _, _, more, _ = (
        outcome["result"] for outcome in outcomes
    )
    assert (server["name"], server["protocol_version"]) == ("switchboard", "2026-07-28" if modern else "2025-11-25")
    assert {"app_demo-statistician", "app_demo-writer", "web_discover", "aai_exec"} <= set(names(tools))
    assert f"app_{late}" not in names(tools)
    assert text(guide).startswith("# demo-writer Operation Guide\n")
    assert json.loads(text(done))["summary"] == "First things come first."
    assert done["structuredContent"] == directly["structuredContent"]
    assert (refused["isError"], refused["structuredContent"]["code"]) == (True, "CONSENT_REQUIRED")
    assert '[mcp_allow], "tester" = ["demo-writer:keywords"]' in refused["structuredContent"]["message"]
    assert "app:demo-writer" in [resource["uri"] for resource in resources["resources"]]
    assert [tool["name"] for tool in json.loads(read["contents"][0]["text"])["tools"]] == ["summarise", "keywords"]
    assert come["status"] == 201
    assert f"app_{late}" in names(more)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_official_client_sees_runs_and_hears_of_changes(plane: ControlPlane, client: Client) -> None:
    """Lists, a guide, calls that a rule allows and one that none does, a resource, and an agent that comes."""
    late = f"late-{client}"
    outcomes = run(client, [f"{plane.url}/mcp"], steps(plane.url, late), {}, headers=HEADERS)

    check(outcomes, late, modern=client.endswith("modern"))


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_shows_everything_and_runs_what_is_allowed(
    plane: ControlPlane, era: Literal["legacy", "modern"]
) -> None:
    """One process a question, each of them with the key."""
    server = [f"{plane.url}/mcp"]
    tools = inspector(server, "tools/list", {}, era=era, headers=HEADERS)["result"]
    resources = inspector(server, "resources/list", {}, era=era, headers=HEADERS)["result"]
    read = inspector(server, "resources/read", {}, era=era, headers=HEADERS, uri="app:demo-writer")["result"]
    done = inspector(server, "tools/call", {}, era=era, headers=HEADERS, tool="aai_exec", arguments=CALL)["result"]

    assert "app_demo-writer" in names(tools)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,39}", name) for name in names(tools))
    assert "app:demo-writer" in [resource["uri"] for resource in resources["resources"]]
    assert json.loads(read["contents"][0]["text"])["app"]["id"] == "demo-writer"
    assert json.loads(text(done))["summary"] == "First things come first."


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[RoundRobin]:
    """Two instances on one database, behind a proxy that asks them in turn."""
    folder = tmp_path_factory.mktemp("two")
    settings = folder / "settings.toml"
    settings.write_text(SETTINGS)
    with running(folder, postgres.new(), 2, SWITCHBOARD_CONFIG=str(settings)) as found:
        for one in found.planes:
            one.client.headers.update(HEADERS)
        with sample_agents(found[0].url), round_robin(found.urls) as proxy:
            until(lambda: all(len(agents_of(one)) >= 2 for one in found.planes))
            yield proxy


@pytest.mark.parametrize("client", CLIENTS)
def test_two_instances_take_turns_in_one_conversation(two: RoundRobin, client: Client) -> None:
    """Nothing is remembered between two requests: every other one reaches the other instance, and nobody notices."""
    before, late = list(two.asked), f"late-{client}"
    outcomes = run(client, [f"{two.url}/mcp"], steps(two.url, late), {}, headers=HEADERS)

    check(outcomes, late, modern=client.endswith("modern"))
    assert all(now - then >= 4 for now, then in zip(two.asked, before, strict=True))

"""Who may do what over MCP on a control plane: keys, rules, published apps, and what the record says of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.gateways import Page, Site, web_app
from tests.instances import agents_of, until
from tests.servers import ControlPlane, registration

from switchboard.store.audit import read as read_audit

SETTINGS = """\
mcp_origins = ["https://chat.example"]

[keys]
writer = "key-of-the-writer"
reader = "key-of-the-reader"

[mcp_allow]
writer = ["com.example.*:*", "demo-*:sum*"]
reader = ["demo-statistician:*"]
"*" = ["com.example.open:change"]

[allow]
"demo-statistician" = ["writer"]
"com.example.closed" = ["writer"]
"""
CONFIRMED = {"text": "One. Two."}


def tool(name: str, method: str, **changes: Any) -> dict[str, Any]:
    """Return a tool that calls the site's own page of that name."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    execution = {"path": f"/{name}", "method": method}
    return {"name": name, "description": name, "parameters": schema, "execution": execution, **changes}


TOOLS = [
    tool("look", "GET"),
    tool("change", "POST"),
    tool("remove", "DELETE", annotations={"readOnlyHint": True}),
    tool("search", "POST", annotations={"readOnlyHint": True}),
    tool("replace", "PUT", annotations={"readOnlyHint": True}),
    tool("ruin", "GET", annotations={"destructiveHint": True}),
]


class Place(NamedTuple):
    """A control plane with sample agents and published apps, and the site that those call."""

    plane: ControlPlane
    site: Site
    folder: Path

    def call(self, name: str, who: str = "reader", **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        answer = self.plane.client.post("/mcp", json=message, headers={"X-API-Key": f"key-of-the-{who}"})
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    def publish(self, app_id: str, **changes: Any) -> None:
        """Publish an app whose calls go to the site."""
        answer = self.plane.client.put(f"/api/v1/apps/{app_id}", json=web_app(app_id, self.site.url, **changes))
        assert answer.status_code in (200, 201), answer.text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("plane")
    (folder / "settings.toml").write_text(SETTINGS)
    pages = {
        f"/{one['name']}": Page(body=f'{{"did":"{one["name"]}"}}'.encode(), kind="application/json") for one in TOOLS
    }
    with Site(pages) as site:
        plane = ControlPlane(folder, "--config", str(folder / "settings.toml"), "--demo")
        plane.client.headers["X-API-Key"] = "key-of-the-writer"
        until(lambda: len(agents_of(plane)) == 2)
        found = Place(plane, site, folder)
        found.publish("com.example.shop", tools=TOOLS)
        found.publish("com.example.open", tools=TOOLS)
        yield found
        plane.stop()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-API-Key": "key-of-the-reader"}, 200),
        ({"Authorization": "Bearer key-of-the-reader"}, 200),
        ({"X-API-Key": "another"}, 401),
        ({"X-API-Key": ""}, 401),
        ({"Authorization": "Basic a2V5"}, 401),
        ({}, 401),
    ],
)
def test_nobody_comes_in_without_a_key(place: Place, headers: dict[str, str], status: int) -> None:
    """For requests, and for the stream of older clients; a refusal says what kind of key there is."""
    given = {"X-API-Key": "", **headers}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = place.plane.client.post("/mcp", json=message, headers=given)
    assert answer.status_code == status
    if status == 401:
        stream = place.plane.client.get("/mcp", headers={**given, "Accept": "text/event-stream"})
        assert (stream.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "tools" not in answer.text


@pytest.mark.parametrize(
    ("who", "name", "code"),
    [
        ("reader", "com.example.shop:look", None),
        ("reader", "com.example.shop:search", None),
        ("reader", "com.example.shop:change", "CONSENT_REQUIRED"),
        ("reader", "com.example.shop:remove", "CONSENT_REQUIRED"),
        ("reader", "com.example.shop:replace", "CONSENT_REQUIRED"),
        ("reader", "com.example.shop:ruin", "CONSENT_REQUIRED"),
        ("reader", "com.example.open:change", None),
        ("writer", "com.example.shop:change", None),
        ("writer", "com.example.shop:remove", None),
        ("reader", "demo-writer:summarise", "CONSENT_REQUIRED"),
        ("writer", "demo-writer:summarise", None),
        ("writer", "demo-writer:keywords", "CONSENT_REQUIRED"),
    ],
)
def test_what_only_reads_runs_and_everything_else_takes_a_rule(
    place: Place, who: str, name: str, code: str | None
) -> None:
    """By its method, or by its own word where the method leaves that open; an agent says nothing of the kind."""
    before = len(place.site.asked)
    result = place.call(name, who, **(CONFIRMED if name.startswith("demo") else {"query": "q"}))

    assert result.get("structuredContent", {}).get("code") == code
    assert bool(result.get("isError")) == (code is not None)
    if code is not None:
        owner, _, tool_name = name.partition(":")
        assert f'[mcp_allow], "{who}" = ["{owner}:{tool_name}"]' in result["content"][0]["text"]
        assert len(place.site.asked) == before


def test_the_rules_of_the_other_face_hold_here_too(place: Place) -> None:
    """What a caller may not execute over REST, it may not over MCP, whatever is allowed there, or only reads."""
    place.publish("com.example.closed", tools=TOOLS)
    refusals = [
        place.call("demo-statistician:describe_numbers", "reader", numbers=[1, 2, 3])["structuredContent"],
        place.call("com.example.closed:look", "reader")["structuredContent"],
    ]

    for refused in refusals:
        assert refused["code"] == "CONSENT_REQUIRED"
        assert "The operator's rules decide that" in refused["message"]
    assert place.call("com.example.closed:look", "writer")["structuredContent"] == {"did": "look"}


def test_an_app_that_wants_a_sign_in_says_where_there_is_somebody_to_do_it(place: Place) -> None:
    """A server has nobody who could sign in, and no key that it could use."""
    key = {"type": "apiKey", "location": "header", "name": "X-Key"}
    place.publish("com.example.locked", tools=TOOLS, auth=key)
    before = len(place.site.asked)

    result = place.call("com.example.locked:look")
    assert result["structuredContent"]["code"] == "AUTH_REQUIRED"
    assert "aai-gateway" in result["content"][0]["text"]
    assert len(place.site.asked) == before


def test_an_agent_that_is_not_there_is_listed_as_such_and_not_called(place: Place) -> None:
    """The refusal says since when; no execution is begun for nothing."""
    place.plane.register(registration("com.example.gone", {"think": []}))
    place.plane.client.post("/api/v1/nodes/com.example.gone/shutdown", json={"reason": "done"})

    refused = place.call("com.example.gone:think", "writer")["structuredContent"]
    listed = place.plane.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()
    place.plane.client.delete("/api/v1/nodes/com.example.gone")
    (line,) = (tool for tool in listed["result"]["tools"] if tool["title"] == "app:com.example.gone")
    assert (refused["code"], refused["health"]) == ("SERVICE_UNAVAILABLE", "inactive")
    assert refused["since"] in refused["message"]
    assert "(inactive)" in line["description"]


def test_an_agent_comes_before_an_app_of_its_id_and_the_app_is_there_again_when_it_goes(place: Place) -> None:
    """One list has both kinds, each id once, and follows every change."""

    def platform() -> str | None:
        message = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "app:com.example.twice"}}
        answer = place.plane.client.post("/mcp", json=message).json()
        return json.loads(answer["result"]["contents"][0]["text"])["platform"] if "result" in answer else None

    seen = [platform()]
    place.publish("com.example.twice")
    seen.append(platform())
    place.plane.register(registration("com.example.twice", {"think": []}))
    seen.append(platform())
    place.plane.client.delete("/api/v1/nodes/com.example.twice")
    seen.append(platform())
    place.plane.client.delete("/api/v1/apps/com.example.twice")
    seen.append(platform())

    assert seen == [None, "web", "agent", "web", None]


def test_a_published_app_is_found_by_its_address_and_no_site_is_asked(place: Place) -> None:
    """`web_discover` looks at what is published here; the server fetches nothing that a model names."""
    before = len(place.site.asked)
    known = place.call("web_discover", url=place.site.url)
    unknown = place.call("web_discover", url="https://unknown.example")

    assert known["content"][0]["text"].startswith("# Notion Operation Guide")
    assert unknown["structuredContent"]["code"] == "UNKNOWN_APP"
    assert len(place.site.asked) == before


def test_the_record_names_the_owner_of_the_key_and_the_log_what_the_program_calls_itself(tmp_path: Path) -> None:
    """One line for each call, whoever it went to; what a client says of itself is no proof of anything."""
    (tmp_path / "settings.toml").write_text(SETTINGS)
    with Site({"/look": Page(body=b"ok")}) as site:
        plane = ControlPlane(tmp_path, "--config", str(tmp_path / "settings.toml"), "--demo")
        plane.client.headers["X-API-Key"] = "key-of-the-writer"
        until(lambda: len(agents_of(plane)) == 2)
        place = Place(plane, site, tmp_path)
        place.publish("com.example.shop", tools=TOOLS)
        place.call("demo-writer:summarise", "writer", **CONFIRMED)
        place.call("demo-writer:summarise", "reader", **CONFIRMED)
        place.call("com.example.shop:look", "reader", query="q")
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "writer", "version": "9"},
        }
        params = {"name": "demo-writer:summarise", "arguments": CONFIRMED, "_meta": meta}
        headers = {
            "X-API-Key": "key-of-the-reader",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "demo-writer:summarise",
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        assert plane.client.post("/mcp", json=message, headers=headers).json()["result"]["isError"]
        assert plane.metric('switchboard_mcp_requests_total{method="tools/call",status="success"}') == 4
        plane.stop()

    lines = list(read_audit(tmp_path / "switchboard/audit/control-plane.jsonl"))
    assert [(line.caller, line.owner, line.capability, line.decision, line.outcome) for line in lines] == [
        ("writer", "demo-writer", "summarise", "allowed", "OK"),
        ("reader", "demo-writer", "summarise", "denied", "CONSENT_REQUIRED"),
        ("reader", "com.example.shop", "look", "allowed", "OK"),
        ("reader", "demo-writer", "summarise", "denied", "CONSENT_REQUIRED"),
    ]
    logged = [event for event in plane.events() if event["message"] == "mcp request"]
    assert [(event["caller"], event["client"]) for event in logged] == [
        ("writer", ""),
        ("reader", ""),
        ("reader", ""),
        ("reader", "writer 9"),
    ]


def test_pages_that_the_settings_name_may_come_and_read(place: Place) -> None:
    """A browser asks first, without a key; others, and pages that are not named, get nothing to read."""
    named = place.plane.client.options("/mcp", headers={"Origin": "https://chat.example", "X-API-Key": ""})
    other = place.plane.client.options("/mcp", headers={"Origin": "https://other.example"})

    assert (named.status_code, named.headers["access-control-allow-origin"]) == (204, "https://chat.example")
    assert other.status_code == 403


def test_behind_a_proxy_its_name_is_taken_and_nothing_on_the_machine_is_called(tmp_path: Path) -> None:
    """Others come there, and what they publish must not reach what only the machine itself can."""
    with Site({"/look": Page(body=b'{"did":"look"}', kind="application/json")}) as site:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "com.example.shop:look"}}
        document = web_app("com.example.shop", site.url, tools=TOOLS)
        alone = ControlPlane(tmp_path)
        assert alone.client.put("/api/v1/apps/com.example.shop", json=document).status_code == 201
        alone.stop()
        behind = ControlPlane(tmp_path, SWITCHBOARD_PUBLIC_URL="https://agents.example/switchboard")
        own = behind.client.options("/mcp", headers={"Origin": "https://agents.example", "Host": "agents.example"})
        refused = behind.client.put("/api/v1/apps/com.example.shop", json={**document, "version": "9.0.0"})
        called = behind.client.post("/mcp", json=message).json()["result"]
        behind.stop()

        assert own.status_code == 204
        assert "$.execution.baseUrl: is on the machine of whoever calls it" in refused.json()["message"]
        assert called["isError"]
        assert not site.asked


def test_without_it_there_is_nothing_there(tmp_path: Path) -> None:
    """`AGENTFIELD_MCP_ENABLED=false` is understood, as AgentField has it."""
    plane = ControlPlane(tmp_path, AGENTFIELD_MCP_ENABLED="false")
    answer = plane.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    plane.stop()

    assert answer.status_code == 404

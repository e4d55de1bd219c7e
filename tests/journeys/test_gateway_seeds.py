"""Every JSON example of seeds 000, 001 and 002, sent and compared as it stands there, with the real gateway.

A request is the seed's text, put on one line. Of an answer everything that the seed shows has to be there; the gateway
may say more where the seed says nothing (`mimeType` in seed 000, `annotations` of tools). `[...]` and comments in the
seeds stand for what they leave out. The seeds show one order of apps; ours is by id.
"""

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from tests.gateways import (
    ALLOWED,
    GATEWAY,
    ROOT,
    Gateway,
    Message,
    Page,
    Site,
    certificate,
    install,
    left_behind,
    web_app,
)
from tests.support import requirement


def asked(gateway: Gateway, text: str) -> Message:
    """Send a seed's request, on one line because that is what stdio asks for, and return the whole answer."""
    request = cast("Message", json.loads(text))
    gateway.write(b" ".join(line.strip().encode() for line in text.splitlines()) + b"\n")
    return gateway.answer(request["id"])


def shows(answer: object, seed: object) -> bool:
    """Tell whether everything that the seed shows is in the answer; resources are compared by their address."""
    if isinstance(seed, dict):
        found = cast("Message", answer) if isinstance(answer, dict) else {}
        return all(key in found and shows(found[key], value) for key, value in cast("Message", seed).items())
    if isinstance(seed, list):
        wanted, had = cast("list[Any]", seed), cast("list[Any]", answer) if isinstance(answer, list) else []
        if wanted and "uri" in wanted[0]:
            wanted, had = (sorted(entries, key=lambda entry: entry["uri"]) for entries in (wanted, had))
        return len(wanted) == len(had) and all(shows(*pair) for pair in zip(had, wanted, strict=True))
    return answer == seed


def described(app_id: str, name: str, description: str) -> Message:
    return {"id": app_id, "name": {"en": name}, "defaultLang": "en", "description": description}


def sending(to: Message) -> list[Message]:
    """Return the tool of both seeds; one passes `to` as a list, the other as a text."""
    properties = {"to": to, "subject": {"type": "string"}, "body": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["to", "body"]}
    route = {"path": "/send", "method": "POST"}
    return [{"name": "send_email", "description": "Send an email", "parameters": schema, "execution": route}]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Site]]:
    """Seed 000: Mail and Calendar in `~/.aai`, and a user who says yes."""
    home = tmp_path_factory.mktemp("seed-000")
    with Site({"/send": Page(body=b"Email sent. Message ID: msg_123")}) as site:
        install(
            home,
            "com.example.mail",
            app=described("com.example.mail", "Mail", "Email client"),
            execution={"type": "http", "baseUrl": site.url},
            tools=sending({"type": "array", "items": {"type": "string"}}),
        )
        install(
            home,
            "com.example.calendar",
            app=described("com.example.calendar", "Calendar", "Calendar application"),
        )
        with Gateway(home, command=ALLOWED) as gateway:
            yield gateway, site


@requirement(
    "mcp:resources:list",
    "mcp:resources:uri",
    "mcp:resources:name-description",
    "mcp:startup:scan",
    "mcp:startup:ready",
)
def test_seed_000_step_1_lists_the_apps(example: tuple[Gateway, Site]) -> None:
    """Also before any handshake, as the seed shows it; `mimeType` is more than this seed has, and what 001 has."""
    gateway, _ = example

    answer = asked(
        gateway,
        """
        {
          "jsonrpc": "2.0",
          "id": 1,
          "method": "resources/list"
        }
        """,
    )

    seed = """
    {
      "jsonrpc": "2.0",
      "id": 1,
      "result": {
        "resources": [
          {
            "uri": "app:com.example.mail",
            "name": "Mail",
            "description": "Email client"
          },
          {
            "uri": "app:com.example.calendar",
            "name": "Calendar",
            "description": "Calendar application"
          }
        ]
      }
    }
    """
    assert shows(answer, json.loads(seed))


@requirement("mcp:resources:read", "mcp:resources:read-mime-type", "mcp:resources:read-text")
def test_seed_000_step_2_returns_the_full_descriptor(example: tuple[Gateway, Site]) -> None:
    """The text is the file, byte for byte; the seed shows only that `tools` is in it."""
    gateway, _ = example

    answer = asked(
        gateway,
        """
        {
          "jsonrpc": "2.0",
          "id": 2,
          "method": "resources/read",
          "params": {
            "uri": "app:com.example.mail"
          }
        }
        """,
    )

    published = (gateway.home / ".aai/com.example.mail/aai.json").read_text(encoding="utf-8")
    seed = """
    {
      "jsonrpc": "2.0",
      "id": 2,
      "result": {
        "contents": [{
          "uri": "app:com.example.mail",
          "mimeType": "application/json",
          "text": "{ \\"tools\\": [...] }"
        }]
      }
    }
    """
    expected = json.loads(seed)
    expected["result"]["contents"][0]["text"] = published
    assert answer == expected
    assert json.loads(published)["tools"]


@requirement("mcp:direct-call:runs", "mcp:direct-call:arguments", "mcp:direct-call:result")
def test_seed_000_step_3_calls_the_tool(example: tuple[Gateway, Site]) -> None:
    """The app gets the arguments as they were sent, a list included, and its message comes back as text."""
    gateway, site = example

    answer = asked(
        gateway,
        """
        {
          "jsonrpc": "2.0",
          "id": 3,
          "method": "tools/call",
          "params": {
            "name": "com.example.mail:send_email",
            "arguments": {
              "to": ["alice@example.com"],
              "body": "Hello!"
            }
          }
        }
        """,
    )

    seed = """
    {
      "jsonrpc": "2.0",
      "id": 3,
      "result": {
        "content": [{
          "type": "text",
          "text": "Email sent. Message ID: msg_123"
        }]
      }
    }
    """
    assert shows(answer, json.loads(seed))
    assert "isError" not in answer["result"]
    assert site.asked[-1].document == {"to": ["alice@example.com"], "body": "Hello!"}


@pytest.fixture(scope="module")
def apple(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Site]]:
    """Seed 001 (and 003, which is the same in Chinese): Apple's Mail and Calendar, and a user who says yes."""
    home = tmp_path_factory.mktemp("seed-001")
    with Site({"/send": Page(body=b"Email sent successfully. Message ID: 12345")}) as site:
        install(
            home,
            "com.apple.mail",
            app=described("com.apple.mail", "Mail", "Apple's native email client"),
            execution={"type": "http", "baseUrl": site.url},
            tools=sending({"type": "string"}),
        )
        install(
            home,
            "com.apple.calendar",
            app=described("com.apple.calendar", "Calendar", "Apple's calendar application"),
        )
        with Gateway(home, command=ALLOWED) as gateway:
            yield gateway, site


@requirement("mcp:resources:list", "mcp:resources:uri", "mcp:resources:name-description", "mcp:resources:mime-type")
def test_seed_001_step_1_lists_the_apps_with_their_type(apple: tuple[Gateway, Site]) -> None:
    """Nothing more than the seed shows is in the answer, but for what programs may read about it."""
    gateway, _ = apple

    answer = asked(
        gateway,
        """
        {
          "jsonrpc": "2.0",
          "id": 1,
          "method": "resources/list"
        }
        """,
    )

    seed = """
    {
      "jsonrpc": "2.0",
      "id": 1,
      "result": {
        "resources": [
          {
            "uri": "app:com.apple.mail",
            "name": "Mail",
            "description": "Apple's native email client",
            "mimeType": "application/aai+json"
          },
          {
            "uri": "app:com.apple.calendar",
            "name": "Calendar",
            "description": "Apple's calendar application",
            "mimeType": "application/aai+json"
          }
        ]
      }
    }
    """
    answer["result"]["resources"].reverse()  # ours is by id
    del answer["result"]["_meta"]
    assert answer == json.loads(seed)


@requirement("mcp:resources:read", "mcp:resources:read-mime-type", "mcp:resources:read-text")
def test_seed_001_step_2_returns_the_descriptor_as_it_was_published(tmp_path: Path) -> None:
    """The published file is the seed's own text, with an empty list for what it leaves out."""
    seed = r"""
    {
      "jsonrpc": "2.0",
      "id": 2,
      "result": {
        "contents": [
          {
            "uri": "app:com.apple.mail",
            "mimeType": "application/json",
            "text": "{\n  \"schema_version\": \"1.0\",\n  \"appId\": \"com.apple.mail\",\n  \"tools\": [...]\n}"
          }
        ]
      }
    }
    """
    expected = json.loads(seed.replace("[...]", "[]"))
    file = tmp_path / ".aai/com.apple.mail/aai.json"
    file.parent.mkdir(parents=True)
    file.write_text(expected["result"]["contents"][0]["text"], encoding="utf-8")
    with Gateway(tmp_path) as gateway:
        answer = asked(
            gateway,
            """
            {
              "jsonrpc": "2.0",
              "id": 2,
              "method": "resources/read",
              "params": {
                "uri": "app:com.apple.mail"
              }
            }
            """,
        )

    assert answer == expected


@requirement("mcp:direct-call:runs", "mcp:direct-call:arguments", "mcp:direct-call:result")
def test_seed_001_step_3_calls_the_skill(apple: tuple[Gateway, Site]) -> None:
    """Here `to` is one text."""
    gateway, site = apple

    answer = asked(
        gateway,
        """
        {
          "jsonrpc": "2.0",
          "id": 3,
          "method": "tools/call",
          "params": {
            "name": "com.apple.mail:send_email",
            "arguments": {
              "to": "alice@example.com",
              "subject": "Hello",
              "body": "Hi Alice, ..."
            }
          }
        }
        """,
    )

    seed = """
    {
      "jsonrpc": "2.0",
      "id": 3,
      "result": {
        "content": [
          {
            "type": "text",
            "text": "Email sent successfully. Message ID: 12345"
          }
        ]
      }
    }
    """
    assert shows(answer, json.loads(seed))
    assert site.asked[-1].document == {"to": "alice@example.com", "subject": "Hello", "body": "Hi Alice, ..."}


@requirement(
    "registry:startup:fetch",
    "registry:directory:v1-apps",
    "registry:descriptor:download",
    "registry:cache:path",
)
def test_seed_000_registry_is_read_at_start_and_its_descriptors_are_kept(tmp_path: Path) -> None:
    """The seed's directory at `/v1/apps`, with our site in the place of Notion's."""
    with Site() as site:
        seed = """
        {
          "apps": [
            {
              "id": "com.notion.api",
              "name": "Notion",
              "descriptor_url": "https://api.notion.com/.well-known/aai.json"
            }
          ]
        }
        """
        site.publish(json.loads(seed.replace("https://api.notion.com", site.url)), "/v1/apps")
        site.publish(web_app("com.notion.api", "https://api.notion.com"))
        with Gateway(tmp_path, "--dev", "--registry", site.url) as gateway:
            guide = gateway.call("app:com.notion.api")

        copy = tmp_path / ".aai/web/com.notion.api/aai.json"
        assert guide["structuredContent"]["app"] == "com.notion.api"
        assert copy.read_bytes() == site.pages["/.well-known/aai.json"].body
        assert {"/v1/apps", "/.well-known/aai.json"} <= set(site.paths())


@requirement(
    "registry:startup:fetch",
    "registry:directory:api-v1-apps",
    "registry:descriptor:download",
    "registry:cache:path",
    "registry:apps:listed",
)
def test_seed_001_registry_apps_stand_beside_the_desktop_apps(tmp_path: Path) -> None:
    """The seed's directory at `/api/v1/apps`, with paths of our site in the place of the two hosts."""
    install(tmp_path, "com.apple.mail")
    with Site() as site:
        seed = """
        {
          "apps": [
            {
              "appId": "com.notion.api",
              "name": "Notion",
              "descriptor_url": "https://api.notion.com/.well-known/aai.json"
            },
            {
              "appId": "com.slack.api",
              "name": "Slack",
              "descriptor_url": "https://slack.com/.well-known/aai.json"
            }
          ]
        }
        """
        here = seed.replace("https://api.notion.com", f"{site.url}/notion").replace("https://slack.com", site.url)
        site.publish(json.loads(here), "/api/v1/apps")
        site.publish(web_app("com.notion.api", "https://api.notion.com"), "/notion/.well-known/aai.json")
        site.publish(web_app("com.slack.api", "https://slack.com", "Slack"))
        with Gateway(tmp_path, "--dev", "--registry", site.url) as gateway:
            # A call waits for the registry, a list does not; a slow machine has to be asked twice.
            assert any(not gateway.call("app:com.slack.api").get("isError") for _ in range(5))
            listed = gateway.ask("resources/list")["resources"]

    assert [entry["uri"] for entry in listed] == ["app:com.apple.mail", "app:com.notion.api", "app:com.slack.api"]
    assert sorted(file.parent.name for file in (tmp_path / ".aai/web").glob("*/aai.json")) == [
        "com.notion.api",
        "com.slack.api",
    ]


REMINDERS: Message = {
    "app": {
        "id": "com.apple.reminders",
        "name": {"en": "Reminders", "zh-CN": "提醒事项"},
        "defaultLang": "en",
        "description": "macOS reminders",
        "aliases": ["todo", "待办"],
    },
    "tools": [
        {
            "name": "create_reminder",
            "description": "Create a reminder",
            "parameters": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "What to do"},
                    "due": {"type": "string", "description": "When it is due"},
                },
                "required": ["title"],
            },
            "execution": {"path": "/reminders", "method": "POST"},
        },
        {"name": "list_reminders", "description": "List them", "execution": {"path": "/reminders", "method": "GET"}},
    ],
}


@pytest.fixture(scope="module")
def reminders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Site]]:
    """Seed 002: Reminders with two names and two aliases, and a user who says yes."""
    home = tmp_path_factory.mktemp("seed-002")
    with Site({"/reminders": Page(body=b'{"id": "r1"}', kind="application/json")}) as site:
        install(home, "com.apple.reminders", **REMINDERS, execution={"type": "http", "baseUrl": site.url})
        with Gateway(home, command=ALLOWED) as gateway:
            gateway.initialize()
            yield gateway, site


@requirement(
    "guide:list:one-per-app",
    "guide:list:app-name",
    "guide:list:app-description",
    "guide:list:app-schema",
    "guide:web-discover:listed",
    "guide:web-discover:schema",
    "guide:exec:listed",
    "guide:exec:schema",
)
def test_seed_002_tools_list_is_the_one_of_the_seed(reminders: tuple[Gateway, Site]) -> None:
    """In the seed's order; `annotations` are more than it has, for clients that show what a tool may do."""
    gateway, _ = reminders

    result = gateway.ask("tools/list")

    seed = """
    {
      "tools": [
        {
          "name": "app:com.apple.reminders",
          "description": "【Reminders|提醒事项】macOS reminders. Aliases: todo, 待办. Call to get guide.",
          "inputSchema": { "type": "object", "properties": {} }
        },
        {
          "name": "web:discover",
          "description": "Discover web app guide. Use when user mentions a web service not in list.",
          "inputSchema": {
            "type": "object",
            "properties": {
              "url": {
                "type": "string",
                "description": "Web app URL, domain, or name"
              }
            },
            "required": ["url"]
          }
        },
        {
          "name": "aai:exec",
          "description": "Execute app operation. Use after reading operation guide.",
          "inputSchema": {
            "type": "object",
            "properties": {
              "app": { "type": "string", "description": "App ID or URL" },
              "tool": { "type": "string", "description": "Operation name" },
              "args": { "type": "object", "description": "Operation parameters" }
            },
            "required": ["app", "tool"]
          }
        }
      ]
    }
    """
    for tool in result["tools"]:
        tool.pop("annotations", None)
    del result["_meta"]
    assert result == json.loads(seed)


@requirement("guide:app:call", "guide:app:tools", "guide:app:parameters", "guide:app:examples")
def test_seed_002_app_guide_request_returns_a_guide_whose_example_runs(reminders: tuple[Gateway, Site]) -> None:
    """Tools, parameters and examples are in it, and its first example works as it stands."""
    gateway, site = reminders
    request = """
    {
      "name": "app:com.apple.reminders",
      "arguments": {}
    }
    """

    text = gateway.ask("tools/call", json.loads(request))["content"][0]["text"]

    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# Reminders Operation Guide",
        "## App Info",
        "## Authentication",
        "## Available Operations",
        "### create_reminder",
        "### list_reminders",
    ]
    assert "- title (string, required): What to do." in text
    assert "- due (string, optional): When it is due." in text
    example = next(line for line in text.splitlines() if line.startswith("aai:exec("))
    result = gateway.call("aai:exec", json.loads(example.removeprefix("aai:exec(").removesuffix(")")))
    assert result["structuredContent"] == {"id": "r1"}
    assert site.asked[-1].document["title"] == "Example title"


@requirement("exec:call:runs", "exec:order:resolve", "exec:order:result")
def test_seed_002_tool_execution_runs_the_operation(reminders: tuple[Gateway, Site]) -> None:
    """What the app answers comes back as text and as data."""
    gateway, site = reminders
    request = """
    {
      "name": "aai:exec",
      "arguments": {
        "app": "com.apple.reminders",
        "tool": "create_reminder",
        "args": {
          "title": "Submit report",
          "due": "2024-12-31 15:00"
        }
      }
    }
    """

    result = gateway.ask("tools/call", json.loads(request))

    assert site.asked[-1] == ("POST", "/reminders", b'{"title":"Submit report","due":"2024-12-31 15:00"}')
    assert result == {"content": [{"type": "text", "text": '{"id":"r1"}'}], "structuredContent": {"id": "r1"}}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Site]]:
    """A gateway with nothing installed, and a site that describes itself."""
    with (
        Site() as site,
        Gateway(tmp_path_factory.mktemp("web"), command=ALLOWED) as gateway,
    ):
        site.publish(web_app("com.notion.api", site.url))
        gateway.initialize()
        yield gateway, site


@requirement(
    "wellknown:discover:fetch",
    "wellknown:discover:guide",
    "storage:cache:path",
    "storage:cache:meta-file",
    "storage:cache:meta-fetched-at",
    "storage:cache:meta-ttl",
    "storage:cache:meta-source",
)
def test_seed_002_web_discovery_fetches_keeps_and_notes_the_descriptor(web: tuple[Gateway, Site]) -> None:
    """The seed's request with our site in the place of notion.com, and the seed's note with its keys and no others."""
    gateway, site = web
    request = """
    {
      "name": "web:discover",
      "arguments": { "url": "notion.com" }
    }
    """
    before = datetime.now(UTC).replace(microsecond=0)

    result = gateway.ask("tools/call", json.loads(request.replace("notion.com", site.url)))

    seed = """
    {
      "fetched_at": "2026-02-24T10:00:00Z",
      "ttl_seconds": 86400,
      "source_url": "https://notion.so/.well-known/aai.json"
    }
    """
    folder = gateway.home / ".cache/aai-gateway" / site.host.replace(":", "_")
    meta = json.loads((folder / "aai.json.meta").read_text(encoding="utf-8"))
    assert result["content"][0]["text"].startswith("# Notion Operation Guide\n")
    assert "### search" in result["content"][0]["text"]
    assert (folder / "aai.json").read_bytes() == site.pages["/.well-known/aai.json"].body
    assert list(meta) == list(json.loads(seed))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["fetched_at"])
    assert before <= datetime.fromisoformat(meta["fetched_at"]) <= datetime.now(UTC)
    assert (meta["ttl_seconds"], meta["source_url"]) == (86400, f"{site.url}/.well-known/aai.json")


@requirement("exec:call:app-url", "exec:order:resolve")
def test_seed_002_execution_takes_the_address_of_a_web_app(web: tuple[Gateway, Site]) -> None:
    """`App ID or URL`: the descriptor of a site that nobody has discovered is fetched first, and the tool runs."""
    gateway, _ = web
    with Site({"/search": Page(body=b"Found: one page")}) as site:
        site.publish(web_app("com.slack.api", site.url, "Slack"))
        result = gateway.call("aai:exec", {"app": site.url, "tool": "search", "args": {"query": "a b"}})

        assert result["content"] == [{"type": "text", "text": "Found: one page"}]
        assert site.paths() == ["/.well-known/aai.json", "/search?query=a+b"]


@requirement("wellknown:discover:forms")
def test_web_discover_takes_an_address_a_domain_or_a_name(tmp_path: Path) -> None:
    """All three lead to the same copy, which is fresh, so that nobody is asked."""
    folder = tmp_path / ".cache/aai-gateway/notion.so"
    folder.mkdir(parents=True)
    (folder / "aai.json").write_text(json.dumps(web_app("com.notion.api", "https://api.notion.com")), encoding="utf-8")
    note = {
        "fetched_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ttl_seconds": 86400,
        "source_url": "https://notion.so/.well-known/aai.json",
    }
    (folder / "aai.json.meta").write_text(json.dumps(note), encoding="utf-8")
    with Gateway(tmp_path) as gateway:
        found = [
            gateway.call("web:discover", {"url": url})["structuredContent"].get("app")
            for url in ("https://notion.so/some/page", "notion.so", "Notion", "com.notion.api")
        ]

    assert found == ["https://notion.so"] * 4


@requirement("wellknown:discover:fetch")
def test_a_bare_domain_is_asked_over_https_at_its_well_known_address(tmp_path: Path) -> None:
    """The site is reached and turned down for its certificate, which no system trusts; the message says where."""
    with Site(certificate=certificate(tmp_path)) as site, Gateway(tmp_path, "--dev") as gateway:
        refusal = gateway.call("web:discover", {"url": site.host})["structuredContent"]

    assert refusal["code"] == "SERVICE_UNAVAILABLE"
    assert refusal["message"].startswith(f"https://{site.host}/.well-known/aai.json does not answer: its certificate")


@requirement("errors:gateway:not-found", "errors:gateway:invalid-descriptor")
def test_seed_002_errors_of_web_discovery_have_their_codes(web: tuple[Gateway, Site]) -> None:
    """No descriptor is UNKNOWN_APP, one that cannot be used INVALID_REQUEST with every problem."""
    gateway, _ = web
    with Site() as empty, Site() as broken:
        broken.publish({"schemaVersion": "1.0", "platform": "web", "app": {"id": "com.broken.api"}})
        missing, invalid = (gateway.call("web:discover", {"url": site.url}) for site in (empty, broken))

    assert (missing["isError"], missing["structuredContent"]["code"]) == (True, "UNKNOWN_APP")
    assert (invalid["isError"], invalid["structuredContent"]["code"]) == (True, "INVALID_REQUEST")
    assert any("$.execution" in problem for problem in invalid["structuredContent"]["problems"])


@requirement("errors:gateway:network-timeout")
def test_seed_002_network_timeout_is_answered_from_the_copy(tmp_path: Path) -> None:
    """The copy is older than its day, the site is asked and says nothing; the guide says how old it is."""
    with Site({"/.well-known/aai.json": Page(silent=True)}) as site:
        folder = tmp_path / ".cache/aai-gateway" / site.host.replace(":", "_")
        folder.mkdir(parents=True)
        (folder / "aai.json").write_text(json.dumps(web_app("com.notion.api", site.url)), encoding="utf-8")
        source = f"{site.url}/.well-known/aai.json"
        note = {"fetched_at": "2026-02-24T10:00:00Z", "ttl_seconds": 86400, "source_url": source}
        (folder / "aai.json.meta").write_text(json.dumps(note), encoding="utf-8")
        with Gateway(tmp_path, "--dev") as gateway:
            result = gateway.call("web:discover", {"url": site.url})

        text = result["content"][0]["text"]
        assert "isError" not in result
        assert "Note: This is a copy from 2026-02-24T10:00:00Z, because the site cannot be asked now: " in text
        assert "### search" in text
        assert site.paths() == ["/.well-known/aai.json"]


@requirement("mcp:process:config", "mcp:process:stdio", "cli:gateway:default")
def test_seed_002_client_configuration_starts_the_server(tmp_path: Path) -> None:
    """The seed's `args` name the command; npx, which would fetch it, is left out."""
    seed = """
    {
      "mcpServers": {
        "aai-gateway": {
          "command": "npx",
          "args": ["aai-gateway"]
        }
      }
    }
    """
    command = json.loads(seed)["mcpServers"]["aai-gateway"]["args"]
    install(tmp_path, "com.example.mail")
    with Gateway(tmp_path, command=command, environment=on_path()) as gateway:
        name = gateway.initialize()["serverInfo"]["name"]
        tools = [tool["name"] for tool in gateway.ask("tools/list")["tools"]]

    assert (name, tools) == ("aai-gateway", ["app:com.example.mail", "web:discover", "aai:exec"])


@requirement("mcp:process:config-dev")
def test_seed_002_development_configuration_lists_development_builds(tmp_path: Path) -> None:
    """On Linux a build is `./dist/aai.json` and its like under the folder that the gateway was started in."""
    seed = """
    {
      "mcpServers": {
        "aai-gateway": {
          "command": "npx",
          "args": ["aai-gateway", "--dev"]
        }
      }
    }
    """
    command = json.loads(seed)["mcpServers"]["aai-gateway"]["args"]
    built = install(tmp_path, "com.example.built")
    (tmp_path / "dist").mkdir()
    built.rename(tmp_path / "dist/aai.json")
    listed: list[list[str]] = []
    for arguments in (command, command[:1]):
        with Gateway(tmp_path, command=arguments, environment=on_path()) as gateway:
            listed.append([tool["name"] for tool in gateway.ask("tools/list")["tools"]])

    assert listed == [["app:com.example.built", "web:discover", "aai:exec"], ["web:discover", "aai:exec"]]


@requirement("mcp:process:life", "mcp:process:no-daemon")
def test_the_gateway_ends_with_its_client_and_leaves_nobody_behind(tmp_path: Path) -> None:
    """The client goes by closing the pipe; no process of that home is left."""
    with Gateway(tmp_path) as gateway:
        gateway.initialize()
        running = left_behind(tmp_path)
        gateway.end_input()
        code = gateway.wait()

        assert len(running) == 1
        assert (code, left_behind(tmp_path)) == (0, [])


@requirement("mcp:tools:everything", "guide:list:context", "mcp:resources:no-tools", "cli:gateway:mcp-does-all")
def test_a_client_that_knows_only_tools_can_do_everything(tmp_path: Path) -> None:
    """From the list alone: the guide of an app with many tools, a site that is not listed, and the call itself."""
    tools = [
        {"name": f"tool_{number}", "description": "One of many", "execution": {"path": "/do"}} for number in range(40)
    ]
    with Site({"/do": Page(body=b"Done")}) as site:
        install(tmp_path, "com.example.many", execution={"type": "http", "baseUrl": site.url}, tools=tools)
        install(tmp_path, "com.example.mail")
        site.publish(web_app("com.notion.api", site.url))
        with Gateway(tmp_path, command=ALLOWED) as gateway:
            listed = gateway.ask("tools/list")["tools"]
            guide = gateway.call(listed[1]["name"])["content"][0]["text"]
            discovered = gateway.call(listed[2]["name"], {"url": site.url})["content"][0]["text"]
            done = gateway.call(listed[3]["name"], {"app": "com.example.many", "tool": "tool_39"})
            resources = gateway.ask("resources/list")["resources"]

    assert [tool["name"] for tool in listed] == [
        "app:com.example.mail",
        "app:com.example.many",
        "web:discover",
        "aai:exec",
    ]
    assert ("### tool_0\n" in guide, "### search\n" in discovered) == (True, True)
    assert done["content"] == [{"type": "text", "text": "Done"}]
    assert "tool_" not in json.dumps([listed, resources])


def on_path() -> dict[str, str]:
    """Return an environment that finds the command by its name."""
    return {"PATH": os.pathsep.join([str(Path(GATEWAY[0]).parent), os.environ["PATH"]]), "PYTHONPATH": str(ROOT)}

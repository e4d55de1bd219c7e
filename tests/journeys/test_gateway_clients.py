"""The official MCP clients drive the real gateway, and picky ones get names of tools that they accept."""

import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.clients.clients import CLIENTS, Client, inspector, run
from tests.gateways import ALLOWED, GATEWAY, Gateway, Message, Page, Site, environment_of, install, web_app
from tests.support import requirement

PORTABLE = re.compile(r"[a-zA-Z0-9_-]{1,39}")
CALL = {"app": "com.example.mail", "tool": "send_email", "args": {"to": "alice@example.com"}}
INSTRUCTIONS = "Apps of this computer and of the web, one tool each."
ERAS: tuple[Literal["legacy", "modern"], ...] = ("legacy", "modern")


def spelled(name: str, *, modern: bool) -> str:
    """Return a tool's name as a client of this era sees it."""
    return re.sub(r"[:.]", "_", name) if modern else name


def online(home: Path, site: Site) -> None:
    """Install Mail, which sends its mails to the site, and let the site describe itself."""
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    tool = {"name": "send_email", "description": "Send", "parameters": schema, "execution": {"path": "/send"}}
    install(home, "com.example.mail", execution={"type": "http", "baseUrl": site.url}, tools=[tool])
    site.pages["/send"] = Page(body=b"Email sent. Message ID: msg_123")
    site.publish(web_app("com.notion.api", site.url))


def text(result: Message) -> str:
    return result["content"][0]["text"]


@requirement("mcp:process:stdio", "mcp:process:life")
@pytest.mark.parametrize("client", CLIENTS)
def test_an_official_client_sees_reads_and_asks(tmp_path: Path, client: Client) -> None:
    """Lists, a resource, a guide, a site, a call that nobody allowed, and an app that comes while it looks on."""
    modern = client.endswith("modern")
    notes = install(tmp_path, "com.example.notes")
    descriptor = notes.read_text(encoding="utf-8")
    notes.unlink()
    with Site() as site:
        online(tmp_path, site)
        steps: list[dict[str, Any]] = [
            {"do": "server_info"},
            {"do": "list_tools"},
            {"do": "list_resources"},
            {"do": "read_resource", "uri": "app:com.example.mail"},
            {"do": "call_tool", "name": spelled("app:com.example.mail", modern=modern)},
            {"do": "call_tool", "name": spelled("web:discover", modern=modern), "arguments": {"url": site.url}},
            {"do": "call_tool", "name": spelled("aai:exec", modern=modern), "arguments": CALL},
            {"do": "write_file", "path": str(notes), "text": descriptor},
            {"do": "wait_notification", "method": "notifications/tools/list_changed"},
            {"do": "wait_notification", "method": "notifications/resources/list_changed"},
            {"do": "list_tools"},
            {"do": "list_resources"},
            {"do": "close"},
        ]
        outcomes = run(client, [*GATEWAY, "--dev"], steps, environment_of(tmp_path))

    errors = [outcome for outcome in outcomes if "error" in outcome]
    server, tools, resources, read, guide, web, refusal, _, _, _, more, more_resources, end = (
        outcome.get("result", {}) for outcome in outcomes
    )
    mail, fixed = "app:com.example.mail", ["web:discover", "aai:exec"]
    published = (tmp_path / ".aai/com.example.mail/aai.json").read_text(encoding="utf-8")
    assert errors == []
    assert (server["name"], server["protocol_version"]) == ("aai-gateway", "2026-07-28" if modern else "2025-11-25")
    assert server["instructions"].startswith(INSTRUCTIONS)
    assert [tool["name"] for tool in tools["tools"]] == [spelled(name, modern=modern) for name in (mail, *fixed)]
    assert [resource["uri"] for resource in resources["resources"]] == [mail]
    assert [content["text"] for content in read["contents"]] == [published]
    assert text(guide).startswith("# Mail Operation Guide\n")
    assert f"{spelled('aai:exec', modern=modern)}({{" in text(guide)
    assert text(web).startswith("# Notion Operation Guide\n")
    assert (refusal["isError"], refusal["structuredContent"]["code"]) == (True, "CONSENT_REQUIRED")
    assert [tool["name"] for tool in more["tools"]] == [
        spelled(name, modern=modern) for name in (mail, "app:com.example.notes", *fixed)
    ]
    assert [resource["uri"] for resource in more_resources["resources"]] == [mail, "app:com.example.notes"]
    assert end["exit_code"] in (0, None)  # Python's does not say


@requirement("exec:call:runs", "mcp:direct-call:runs", "exec:order:result")
@pytest.mark.parametrize("client", CLIENTS)
def test_an_official_client_runs_what_the_user_allows(tmp_path: Path, client: Client) -> None:
    """Through the universal tool in both spellings, and by the app's own name for it."""
    with Site() as site:
        online(tmp_path, site)
        steps = [
            {"do": "list_tools"},
            {"do": "call_tool", "name": "aai:exec", "arguments": CALL},
            {"do": "call_tool", "name": "aai_exec", "arguments": {**CALL, "args": json.dumps(CALL["args"])}},
            {"do": "call_tool", "name": "com.example.mail:send_email", "arguments": CALL["args"]},
        ]
        outcomes = run(client, ALLOWED, steps, environment_of(tmp_path))

        assert [text(outcome["result"]) for outcome in outcomes[1:]] == ["Email sent. Message ID: msg_123"] * 3
        assert [asked.document for asked in site.asked] == [CALL["args"]] * 3


@requirement("mcp:process:stdio")
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_shows_everything(tmp_path: Path, era: Literal["legacy", "modern"]) -> None:
    """One process a question; what it calls it has to find in the list first."""
    modern = era == "modern"
    environment = environment_of(tmp_path)
    command = [*GATEWAY, "--dev"]
    called = {name: spelled(name, modern=modern) for name in ("app:com.example.mail", "web:discover", "aai:exec")}
    with Site() as site:
        online(tmp_path, site)
        tools = inspector(command, "tools/list", environment, era=era)["result"]
        resources = inspector(command, "resources/list", environment, era=era)["result"]
        read = inspector(command, "resources/read", environment, era=era, uri="app:com.example.mail")["result"]
        guide, web, done = (
            inspector(ALLOWED, "tools/call", environment, era=era, tool=called[name], arguments=arguments)["result"]
            for name, arguments in (
                ("app:com.example.mail", {}),
                ("web:discover", {"url": site.url}),
                ("aai:exec", CALL),
            )
        )

    assert [tool["name"] for tool in tools["tools"]] == list(called.values())
    assert [resource["name"] for resource in resources["resources"]] == ["Mail"]
    assert json.loads(read["contents"][0]["text"])["app"]["id"] == "com.example.mail"
    assert text(guide).startswith("# Mail Operation Guide\n")
    assert text(web).startswith("# Notion Operation Guide\n")
    assert text(done) == "Email sent. Message ID: msg_123"


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_runs_nothing_that_the_user_has_not_allowed(
    tmp_path: Path, era: Literal["legacy", "modern"]
) -> None:
    """It only says that the tool refused; why is in the result, which the other clients show."""
    install(tmp_path, "com.example.mail")
    tool = spelled("aai:exec", modern=era == "modern")

    outcome = inspector(GATEWAY, "tools/call", environment_of(tmp_path), era=era, tool=tool, arguments=CALL)

    assert outcome["error"]["code"] == "tool_is_error"


@pytest.mark.parametrize(
    "client",
    [
        "claude-ai",
        "Anthropic/ClaudeAI",
        "claude-code",
        "Cursor",
        "cursor-vscode",
        "codex",
        "codex-mcp-client",
        "Visual Studio Code",
        "github-copilot-developer",
        "antigravity-client",
    ],
)
def test_a_client_whose_model_is_picky_gets_names_that_it_accepts(tmp_path: Path, client: str) -> None:
    """Letters, digits, `_` and `-`; the AAI name stands beside, and both can be called."""
    long = f"com.example.{'very' * 20}.long"
    for app_id in ("com.example.mail", long):
        install(tmp_path, app_id)
    with Gateway(tmp_path) as gateway:
        gateway.initialize(client)
        tools = gateway.ask("tools/list")["tools"]
        guides = [text(gateway.call(name)) for name in (tools[0]["name"], tools[0]["title"])]

    proper = ["app:com.example.mail", f"app:{long}", "web:discover", "aai:exec"]
    assert [tool["name"] for tool in tools if not PORTABLE.fullmatch(tool["name"])] == []
    assert [tool["title"] for tool in tools] == proper
    assert [tool["_meta"] for tool in tools] == [{"org.aai-protocol/name": name} for name in proper]
    assert guides[0] == guides[1]
    assert 'aai_exec({"app":"com.example.mail"' in guides[0]


def test_a_client_of_the_stateless_protocol_gets_portable_names_whoever_it_is(tmp_path: Path) -> None:
    """There a list must be the same for everyone."""
    install(tmp_path, "com.example.mail")
    with Gateway(tmp_path) as gateway:
        tools = gateway.modern("tools/list")["tools"]
        guide = gateway.modern("tools/call", name="app:com.example.mail")

    assert [tool["name"] for tool in tools] == ["app_com_example_mail", "web_discover", "aai_exec"]
    assert 'aai_exec({"app":' in text(guide)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("aai", ["app:com.example.mail", "web:discover", "aai:exec"]),
        ("portable", ["app_com_example_mail", "web_discover", "aai_exec"]),
    ],
)
def test_the_person_who_starts_the_gateway_can_choose_the_spelling(
    tmp_path: Path, choice: str, expected: list[str]
) -> None:
    """For every client and both protocols."""
    install(tmp_path, "com.example.mail")
    with Gateway(tmp_path, "--tool-names", choice) as gateway:
        gateway.initialize("claude-ai" if choice == "aai" else "some other client")
        lists = [gateway.ask("tools/list"), gateway.modern("tools/list")]

    assert [[tool["name"] for tool in listed["tools"]] for listed in lists] == [expected, expected]


def test_apps_whose_portable_names_would_be_equal_are_told_apart(tmp_path: Path) -> None:
    """Each has a name of its own that leads to it; the plain one fits both, and says so."""
    ids = ["com.a.b_c", "com.a_b.c"]
    for app_id in ids:
        install(tmp_path, app_id)
    with Gateway(tmp_path, "--tool-names", "portable") as gateway:
        tools = gateway.ask("tools/list")["tools"][:2]
        reached = [gateway.call(tool["name"])["structuredContent"]["app"] for tool in tools]
        ambiguous = gateway.call("app_com_a_b_c")

    names = [tool["name"] for tool in tools]
    assert len({*names, "app_com_a_b_c"}) == 3
    assert [name for name in names if not PORTABLE.fullmatch(name)] == []
    assert reached == ids
    assert ambiguous["isError"] is True
    assert ambiguous["structuredContent"]["candidates"] == ids
    assert all(app_id in text(ambiguous) for app_id in ids)

"""Who may do what, through the MCP face, for each way to ask: callers, apps, tools, decisions, changes in a table."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.gateways import ROOT, Gateway, Message, environment_of, install
from tests.prompts.displays import display
from tests.support import requirement
from tests.users import Caller, ClientUser, DialogUser, PageUser, User, fetched, pressed
from tests.vaults.keyrings import secret_service

ECHO = str(ROOT / "tests/executors/app.py")
NOTES, MAIL = "com.example.notes", "com.example.mail"
WAYS = ("dialog", "page", "client, handshake", "client, stateless")


@pytest.fixture
def key(tmp_path: Path) -> dict[str, str]:
    """Give the gateway a vault of its own: the kind that needs no daemon."""
    file = tmp_path / "key"
    file.write_bytes(os.urandom(32))
    file.chmod(0o600)
    return {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(file)}


@pytest.fixture
def user(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[User]:
    """Sit down where this way asks."""
    match request.param:
        case "dialog":
            with display() as screen:
                yield DialogUser(screen)
        case "page":
            yield PageUser(tmp_path / "browser")
        case _:
            yield ClientUser()


def put(home: Path, app: str, **changed: str) -> None:
    """Install an app with two tools that answer; `changed` are descriptions of tools."""
    tools = [
        {"name": name, "description": changed.get(name, f"It does {name}"), "parameters": {"type": "object"}}
        for name in ("read", "write", *(name for name in changed if name not in ("read", "write")))
    ]
    names = {"en": app.rpartition(".")[2].title()}
    about = {"id": app, "name": names, "defaultLang": "en", "description": "An app"}
    program = {"type": "stdio", "command": sys.executable, "args": ["-c", ANSWERS]}
    install(home, app, app=about, execution=program, tools=tools)


ANSWERS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    said = {"version": "1.0", "request_id": asked["request_id"], "status": "success", "result": {"did": asked["tool"]}}
    print(json.dumps(said), flush=True)
"""


def ran(result: Message) -> bool:
    """Tell whether a call was put through; if not, that it was for want of consent, and nothing else."""
    if not result.get("isError"):
        assert "did" in result["structuredContent"]
        return True
    assert result["structuredContent"]["code"] == "CONSENT_REQUIRED", result
    assert result["structuredContent"]["decision"] == "denied", result
    return False


def story(user: User, modern: bool, home: Path, environment: dict[str, str], decision: str) -> dict[str, str]:
    """Decide once; then try everything that the decision might be about, and return what became of each.

    Whoever is asked later says `once`, which changes nothing.
    """
    put(home, NOTES)
    put(home, MAIL)
    around = {**environment, **user.environment}
    outcomes: dict[str, str] = {}

    def attempt(what: str, caller: str, app: str, tool: str, choice: str = "once") -> None:
        result, asked = Caller(gateway, caller, user, modern=modern).call(app, tool, choice)
        assert len(asked) <= 1, asked
        outcomes[what] = ("asked, " if asked else "") + ("ran" if ran(result) else "refused")

    with Gateway(home, "--consent", user.way, environment=around) as gateway:
        attempt("first", "alice", NOTES, "read", decision)
        attempt("again", "alice", NOTES, "read")
        attempt("other tool", "alice", NOTES, "write")
        attempt("other app", "alice", MAIL, "read")
        attempt("other caller", "bob", NOTES, "read")
    put(home, NOTES, read="It reads, and sends it away")
    with Gateway(home, "--consent", user.way, environment=around) as gateway:
        attempt("changed", "alice", NOTES, "read")
        attempt("unchanged", "alice", NOTES, "write")
    put(home, NOTES, steal="It is new")
    with Gateway(home, "--consent", user.way, environment=around) as gateway:
        attempt("after a restart", "alice", NOTES, "read")
        attempt("new tool", "alice", NOTES, "steal")
    return outcomes


EXPECTED: dict[str, dict[str, str]] = {
    "deny": {
        "first": "asked, refused",
        "again": "refused",
        "other tool": "asked, ran",
        "changed": "refused",
        "unchanged": "asked, ran",
        "after a restart": "refused",
    },
    "once": {
        "first": "asked, ran",
        "again": "asked, ran",
        "other tool": "asked, ran",
        "changed": "asked, ran",
        "unchanged": "asked, ran",
        "after a restart": "asked, ran",
    },
    "tool": {
        "first": "asked, ran",
        "again": "ran",
        "other tool": "asked, ran",
        "changed": "asked, ran",
        "unchanged": "asked, ran",
        "after a restart": "ran",
    },
    "all": {
        "first": "asked, ran",
        "again": "ran",
        "other tool": "ran",
        "changed": "asked, ran",
        "unchanged": "ran",
        "after a restart": "ran",
    },
}
ALWAYS = {"other app": "asked, ran", "other caller": "asked, ran", "new tool": "asked, ran"}


@requirement(
    "consent:first:asks",
    "consent:choice:deny",
    "consent:choice:tool",
    "consent:choice:all",
    "consent:choice:one-click",
    "consent:choice:remembered",
    "exec:order:consent",
    "mcp:startup:consents",
)
@pytest.mark.parametrize(
    ("user", "modern"),
    [("dialog", True), ("page", True), ("client, handshake", False), ("client, stateless", True)],
    indirect=["user"],
)
@pytest.mark.parametrize("decision", ["deny", "once", "tool", "all"])
def test_a_decision_holds_for_its_caller_app_and_tool_as_it_was(
    user: User, modern: bool, decision: str, tmp_path: Path, key: dict[str, str]
) -> None:
    """Every row of the table, asked in this way; a question is one click, and is asked once."""
    home = tmp_path / "home"
    home.mkdir()

    outcomes = story(user, modern, home, key, decision)

    assert outcomes == EXPECTED[decision] | ALWAYS


@requirement("consent:dialog:content", "consent:dialog:choices")
def test_the_dialog_is_the_one_of_the_seed(tmp_path: Path, key: dict[str, str]) -> None:
    """It says that AAI Gateway asks, for which app and which operation, with the three choices, in Chinese."""
    put(tmp_path, NOTES)
    with display() as screen:
        user = DialogUser(screen, "zh")
        around = {**key, **user.environment, "LANG": "zh_CN.UTF-8"}
        with Gateway(tmp_path, "--consent", "dialog", environment=around) as gateway:
            result, asked = Caller(gateway, "Claude", user, modern=True).call(NOTES, "write", "all")

    assert ran(result)
    (text,) = asked
    for expected in (
        "AAI Gateway 请求权限",
        "应用: Notes",
        "请求执行操作: write",
        "拒绝",
        "授权此操作",
        "授权所有操作",
    ):
        assert expected in text.replace("：", ": ").replace("\xa0", " ")


@pytest.mark.parametrize("way", ["auto", "browser"])
def test_without_a_screen_the_refusal_says_where_the_question_is(way: str, tmp_path: Path, key: dict[str, str]) -> None:
    """At once, with an address that only this machine has; what is decided there holds for the next call."""
    put(tmp_path, NOTES)
    with Gateway(tmp_path, "--consent", way, environment=key) as gateway:
        gateway.initialize()
        asked = gateway.call("aai:exec", {"app": NOTES, "tool": "read"})["structuredContent"]
        assert (asked["code"], asked["decision"]) == ("CONSENT_REQUIRED", "pending")
        assert asked["consentUrl"].startswith("http://127.0.0.1:")
        assert "It does read" in fetched(asked["consentUrl"])
        pressed(asked["consentUrl"], "tool")

        assert ran(gateway.call("aai:exec", {"app": NOTES, "tool": "read"}))
        with pytest.raises(HTTPError, match="410"):
            pressed(asked["consentUrl"], "all")


def test_deny_asks_nobody_and_says_how_to_allow_it(tmp_path: Path, key: dict[str, str]) -> None:
    """The command in the refusal does what it says, in another process, while the gateway runs; so does revoking."""
    put(tmp_path, NOTES)
    with Gateway(tmp_path, "--consent", "deny", environment=key) as gateway:
        gateway.initialize("Bob's agent")
        refused = gateway.call("aai:exec", {"app": NOTES, "tool": "read"})["structuredContent"]
        assert refused["decision"] == "nobody"
        command = refused["message"].partition("in a terminal: ")[2]
        told = terminal(gateway, *shlex.split(command), given="y\n")
        assert "It does read" in told
        assert told.endswith("It is allowed.\n")
        assert ran(gateway.call("aai:exec", {"app": NOTES, "tool": "read"}))
        assert not ran_at_all(gateway.call("aai:exec", {"app": NOTES, "tool": "write"}))
        listed = json.loads(terminal(gateway, "switchboard", "consent", "list", "--json"))["consents"]
        assert [(row["app"], row["caller"], row["tool"], row["decision"]) for row in listed] == [
            (NOTES, "Bob's agent", "read", "allow")
        ]
        terminal(gateway, "switchboard", "consent", "revoke", NOTES)

        assert not ran_at_all(gateway.call("aai:exec", {"app": NOTES, "tool": "read"}))


def test_a_caller_is_who_it_says_however_that_is_written(tmp_path: Path, key: dict[str, str]) -> None:
    """The name that a client gives itself is the one to grant to and to revoke from; no name is nobody."""
    put(tmp_path, NOTES)
    with Gateway(tmp_path, "--consent", "deny", environment=key) as gateway:
        gateway.initialize("Bob's \u200b agent ")
        granting = ("switchboard", "consent", "grant", NOTES, "--yes", "--caller")
        terminal(gateway, *granting, "Bob's \u200b agent ")
        assert ran(gateway.call("aai:exec", {"app": NOTES, "tool": "read"}))
        terminal(gateway, "switchboard", "consent", "revoke", NOTES, "--caller", "Bob's  agent")

        assert not ran_at_all(gateway.call("aai:exec", {"app": NOTES, "tool": "read"}))
        with pytest.raises(subprocess.CalledProcessError, match="exit status 2"):
            terminal(gateway, *granting, " ")


def terminal(gateway: Gateway, *command: str, given: str = "") -> str:
    """Run a command of ours beside a gateway, for the same user."""
    program = str(Path(sys.executable).with_name(command[0]))
    done = subprocess.run(  # noqa: S603 - our own command
        [program, *command[1:]],
        env=gateway.environment,
        input=given,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


def ran_at_all(result: Message) -> bool:
    """Tell whether a call was put through, whatever the reason if not."""
    return not result.get("isError")


@pytest.mark.parametrize("modern", [False, True])
def test_a_client_that_can_show_pages_is_given_the_address(modern: bool, tmp_path: Path, key: dict[str, str]) -> None:
    """By URL elicitation, where it has declared that; the call goes on once the page is answered."""
    put(tmp_path, NOTES)
    user = ClientUser()
    user.capabilities = {"elicitation": {"url": {}}}
    addresses: list[str] = []

    def shown(asked: Message) -> Message:
        addresses.append(asked["params"]["url"])
        pressed(asked["params"]["url"], "tool")
        return {"action": "accept"}

    user.answer = shown
    with Gateway(tmp_path, environment=key) as gateway:
        result, _ = Caller(gateway, "a client", user, modern=modern).call(NOTES, "read", "")
        again, _ = Caller(gateway, "a client", user, modern=modern).call(NOTES, "read", "")

    assert ran(result)
    assert ran(again)
    assert len(addresses) == 1


@requirement("storage:consent:keychain", "storage:user-space:only")
def test_decisions_are_in_the_keychain_and_every_file_is_the_users(tmp_path: Path) -> None:
    """In the Secret Service, encrypted; the next process finds them there; nothing is written outside of home."""
    put(tmp_path, NOTES)
    user = PageUser(tmp_path / "browser")
    written = tmp_path / "written.txt"
    with secret_service() as keyring:
        around = {**user.environment, **keyring.environment, "SWITCHBOARD_TESTS_WRITTEN": str(written)}
        around = {name: value for name, value in around.items() if name in WANTED}
        with Gateway(tmp_path, "--consent", "browser", environment=around) as gateway:
            result, asked = Caller(gateway, "alice", user, modern=True).call(NOTES, "read", "tool")
            assert ran(result)
            assert len(asked) == 1
        with Gateway(tmp_path, "--consent", "deny", environment=around) as gateway:
            result, _ = Caller(gateway, "alice", user, modern=True).call(NOTES, "read", "deny")
            assert ran(result)
        origin = (tmp_path / ".aai" / NOTES / "aai.json").as_uri()
        assert f"consent {origin} {NOTES}" in keyring.accounts("aai-gateway")
        kept = b"".join(file.read_bytes() for file in keyring.home.rglob("*") if file.is_file())
        assert b"alice" not in kept

    outside = {line for line in written.read_text(encoding="utf-8").splitlines() if line.startswith("/")}
    allowed = (str(tmp_path), "/dev/", "/proc/")
    assert outside
    assert [line for line in sorted(outside) if not line.startswith(allowed)] == []


WANTED = ("BROWSER", "DBUS_SESSION_BUS_ADDRESS", "SWITCHBOARD_TESTS_WRITTEN")


def test_a_key_that_others_can_read_is_refused_and_nothing_is_said_to_be_allowed(tmp_path: Path) -> None:
    """What was not kept was not allowed: the command fails, and says what to type."""
    put(tmp_path, NOTES)
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    command = [str(Path(sys.executable).with_name("switchboard")), "consent", "grant", NOTES, "--caller", "a", "--yes"]
    around = {**environment_of(tmp_path), "SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(key)}
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - ours

    assert done.returncode == 1
    assert "It is allowed." not in done.stdout
    assert f"chmod 600 {key}" in done.stderr

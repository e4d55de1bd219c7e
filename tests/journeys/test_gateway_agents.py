"""Agents of real control planes in a real gateway: listed, explained, allowed, called; and who of them goes down."""

import json
import os
import shlex
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.databases import Postgres
from tests.gateways import ALLOWED, Gateway, Message, environment_of, install
from tests.instances import running, until
from tests.journeys.recording_agent import AGENT
from tests.journeys.test_executions import Recorder
from tests.journeys.waiting import wait_until
from tests.leaks import secret
from tests.planes import Said, SmallPlane, item
from tests.servers import COMMAND, ControlPlane, registration
from tests.users import PageUser

from switchboard.catalog.text import clean

LISTS = "notifications/tools/list_changed"


@pytest.fixture
def plane(tmp_path: Path) -> Generator[ControlPlane]:
    folder = tmp_path / "plane"
    folder.mkdir()
    found = ControlPlane(folder)
    yield found
    if found.process.poll() is None:
        found.kill()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "home"
    found.mkdir()
    return found


@pytest.fixture
def key(tmp_path: Path) -> dict[str, str]:
    """Give the gateway a vault of its own: the kind that needs no daemon."""
    file = tmp_path / "key"
    file.write_bytes(os.urandom(32))
    file.chmod(0o600)
    return {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(file)}


def recorder(folder: Path, *planes: ControlPlane) -> Recorder:
    """Start the recording agent, and wait until it is known everywhere."""
    found = Recorder(folder, ",".join(plane.url for plane in planes))
    until(lambda: all(AGENT in _ids(plane) for plane in planes))
    return found


def _ids(plane: ControlPlane) -> list[str]:
    return [agent["agent_id"] for agent in plane.discover()["capabilities"]]


def allowed(home: Path, *planes: str, **environment: str) -> Gateway:
    """Start a gateway whose user says yes."""
    return Gateway(home, command=ALLOWED, environment={"AGENTFIELD_SERVER": " ".join(planes), **environment})


def tools(gateway: Gateway) -> dict[str, str]:
    """Return the tools by name, with their descriptions."""
    return {tool["name"]: tool["description"] for tool in gateway.ask("tools/list")["tools"]}


def listed(gateway: Gateway, name: str, says: str = "") -> None:
    """Wait until a tool is listed, with these words; every look after the first waits for a change to be told."""
    while name not in (found := tools(gateway)) or says not in found[name]:
        gateway.notification(LISTS, 60)


def code(result: Message) -> str:
    return str(result["structuredContent"]["code"])


def text(result: Message) -> str:
    return str(result["content"][0]["text"])


def test_an_agent_is_listed_explained_and_called_after_consent(
    plane: ControlPlane, home: Path, tmp_path: Path, key: dict[str, str]
) -> None:
    """The user reads which agent of which control plane it is, once: not again after either has ended and come back."""
    recorder(tmp_path, plane)
    user = PageUser(tmp_path / "browser")
    around = {**key, **user.environment}
    options = ("--control-plane", plane.url, "--consent", "browser")
    with Gateway(home, *options, environment=around) as gateway, user.at_hand("tool") as read:
        gateway.initialize()
        listed(gateway, f"app:{AGENT}")
        guide = text(gateway.call(f"app:{AGENT}"))
        first = gateway.call("aai:exec", {"app": AGENT, "tool": "at_once", "args": {"mark": "1"}})
        again = gateway.call(f"{AGENT}:at_once", {"mark": "2"})
        as_target = gateway.call(f"{AGENT}:skill:at_once", {"mark": "3"})
    questions = len(read)
    port = plane.url.rpartition(":")[2]
    plane.kill()
    back = ControlPlane(tmp_path / "plane", "--port", port)
    with Gateway(home, *options, environment=around) as gateway, user.at_hand("deny") as later:
        gateway.initialize()
        listed(gateway, f"app:{AGENT}")
        after = gateway.call(f"{AGENT}:at_once", {"mark": "4"})
    back.kill()

    assert "- Platform: agent\n" in guide
    assert f"- Control plane: {plane.url}\n- Operations: 5, 5 shown\n" in guide
    assert [result["structuredContent"] for result in (first, again, as_target, after)] == [
        {"mark": str(number)} for number in (1, 2, 3, 4)
    ]
    assert (questions, later) == (1, [])
    assert f"{plane.url}, the control plane that runs this agent" in read[0]
    assert f"{AGENT}:skill:at_once (agent)" in read[0]


def test_without_a_yes_nothing_reaches_an_agent(plane: ControlPlane, home: Path, tmp_path: Path) -> None:
    """The refusal has the command that allows it, and that works."""
    agent = recorder(tmp_path, plane)
    file = tmp_path / "file"
    file.write_bytes(os.urandom(32))
    file.chmod(0o600)
    around = {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(file)}
    with Gateway(home, "--control-plane", plane.url, "--consent", "deny", environment=around) as gateway:
        gateway.initialize()
        listed(gateway, f"app:{AGENT}")
        refused = gateway.call(f"{AGENT}:at_once", {"mark": "x"})
        calls = len(agent.calls)
        grant = refused["structuredContent"]["message"].partition("terminal: switchboard ")[2]
        command = [COMMAND, *shlex.split(grant), "--yes"]
        granted = subprocess.run(  # noqa: S603 - our own command, as it was told
            command, env=environment_of(home) | around, capture_output=True, text=True, check=False
        )
        after = gateway.call(f"{AGENT}:at_once", {"mark": "x"})

    assert (code(refused), calls) == ("CONSENT_REQUIRED", 0)
    assert granted.returncode == 0, granted.stderr
    assert f"{plane.url}, the control plane that runs this agent" in granted.stdout
    assert after["structuredContent"] == {"mark": "x"}


def test_a_change_of_an_agent_is_told_and_asked_about_again(
    plane: ControlPlane, home: Path, key: dict[str, str], tmp_path: Path
) -> None:
    """What was allowed was the operation as it was."""
    agent = registration("writer", skills={"write": []})
    plane.register(agent)
    user = PageUser(tmp_path / "browser")
    around = {**key, **user.environment}
    options = ("--control-plane", plane.url, "--consent", "browser")
    with Gateway(home, *options, environment=around) as gateway, user.at_hand("tool") as read:
        gateway.initialize()
        listed(gateway, "app:writer")
        gateway.call("writer:write")
        gateway.call("writer:write")
        before = len(read)
        plane.register({**agent, "skills": [{"id": "write", "description": "Now it deletes"}]})
        wait_until(lambda: "Now it deletes" in text(gateway.call("app:writer")))
        gateway.call("writer:write")

    assert (before, len(read)) == (1, 2)
    assert "has changed since you allowed it" in read[1]


def test_an_agent_that_is_killed_is_inactive_within_its_lease(plane: ControlPlane, home: Path, tmp_path: Path) -> None:
    """The list says so, the guide since when; a call is refused before anybody is asked."""
    agent = recorder(tmp_path, plane)
    with Gateway(home, "--control-plane", plane.url, "--consent", "deny") as gateway:
        gateway.initialize()
        listed(gateway, f"app:{AGENT}")
        agent.kill()
        listed(gateway, f"app:{AGENT}", "(inactive)")
        guide = text(gateway.call(f"app:{AGENT}"))
        refused = gateway.call(f"{AGENT}:at_once", {"mark": "x"})

    assert "Note: This agent is inactive since 20" in guide
    assert code(refused) == "SERVICE_UNAVAILABLE"
    assert refused["structuredContent"]["since"].startswith("20")
    assert "Tell the user" in refused["structuredContent"]["message"]


def test_a_control_plane_that_is_killed_leaves_its_agents_and_comes_back(
    plane: ControlPlane, home: Path, tmp_path: Path
) -> None:
    """They are listed and marked as old; a call says since when nobody answers; then all is as before."""
    recorder(tmp_path, plane)
    with allowed(home, plane.url) as gateway:
        gateway.initialize()
        listed(gateway, f"app:{AGENT}")
        port = plane.url.rpartition(":")[2]
        plane.kill()
        listed(gateway, "web:discover", "down since")
        during = tools(gateway)
        guide = text(gateway.call(f"app:{AGENT}"))
        refused = gateway.call(f"{AGENT}:at_once", {"mark": "x"})
        unknown = gateway.call("app:nobody")
        back = ControlPlane(tmp_path / "plane", "--port", port)
        wait_until(lambda: "(inactive)" not in tools(gateway)[f"app:{AGENT}"] and "down" not in str(tools(gateway)))
        wait_until(lambda: not gateway.call(f"{AGENT}:at_once", {"mark": "y"}).get("isError"))
        after = tools(gateway)
        back.kill()

    assert f"app:{AGENT}" in during
    assert "Its control plane does not answer since 20" in guide
    assert code(refused) == "SERVICE_UNAVAILABLE"
    assert refused["structuredContent"]["since"].startswith("20")
    assert code(unknown) == "UNKNOWN_APP"
    assert unknown["structuredContent"]["sources"][0]["status"] == "down"
    assert "down since" in unknown["structuredContent"]["message"]
    assert "incomplete" not in after["web:discover"]


def test_a_second_control_plane_of_the_store_takes_calls_over(postgres: Postgres, home: Path, tmp_path: Path) -> None:
    """Before a call, and in the middle of one; nothing visible to the client fails, and nothing runs twice."""
    with running(tmp_path, postgres.new(), 2) as planes:
        agent = recorder(tmp_path, *planes.planes)
        with allowed(home, *planes.urls) as gateway:
            gateway.initialize()
            listed(gateway, f"app:{AGENT}")
            wait_until(lambda: "incomplete" not in tools(gateway)["web:discover"])
            waiting = gateway.begin("tools/call", {"name": f"{AGENT}:never", "arguments": {"mark": "1"}})
            wait_until(lambda: bool(agent.calls))
            [running_call] = agent.calls
            planes[0].kill()
            listed(gateway, "web:discover", "down since")
            while_down = gateway.call(f"{AGENT}:at_once", {"mark": "2"})
            guide = text(gateway.call(f"app:{AGENT}"))
            report = {"status": "succeeded", "result": {"mark": "done"}}
            until(lambda: _reported(planes[1], running_call.execution_id, report))
            result = gateway.answer(waiting, 60)["result"]

        assert result["structuredContent"] == {"mark": "done"}
        assert while_down["structuredContent"] == {"mark": "2"}
        assert "does not answer" not in guide
        assert [call.mark for call in agent.calls] == ["1", "2"]


def _reported(plane: ControlPlane, execution_id: str, report: dict[str, Any]) -> bool:
    answer = plane.client.post(f"/api/v1/executions/{execution_id}/status", json=report)
    return answer.status_code == 200


def test_a_call_that_the_client_cancels_is_taken_back(plane: ControlPlane, home: Path, tmp_path: Path) -> None:
    """The agent is told to stop."""
    agent = recorder(tmp_path, plane)
    with allowed(home, plane.url) as gateway:
        gateway.initialize()
        listed(gateway, f"app:{AGENT}")
        waiting = gateway.begin("tools/call", {"name": f"{AGENT}:never", "arguments": {"mark": "1"}})
        wait_until(lambda: bool(agent.calls))
        [call] = agent.calls
        gateway.notify("notifications/cancelled", {"requestId": waiting})

        wait_until(lambda: agent.has(call.execution_id, "cancel"))


def test_an_agentfield_server_without_a_watch_and_with_a_key(home: Path) -> None:
    """Its agents are there, and called in the spelling it knows."""
    ours = secret("agentfield")
    with SmallPlane(item("helper", "act"), key=ours) as plane:
        plane.answers["/api/v1/execute/async/helper.act"] = lambda _: _said(202, "queued")
        plane.answers["/api/v1/executions/e1"] = lambda _: _said(200, "succeeded", result={"done": True})
        with allowed(home, plane.url, AGENTFIELD_API_KEY=ours) as gateway:
            gateway.initialize()
            listed(gateway, "app:helper")
            result = gateway.call("helper:act")

    assert result["structuredContent"] == {"done": True}
    assert {asked.headers.get("x-api-key") for asked in plane.asked} == {ours}


def _said(status: int, word: str, **facts: Any) -> Said:
    return Said(status, {"execution_id": "e1", "status": word, **facts})


def test_a_wrong_key_is_a_control_plane_that_is_down(tmp_path: Path, home: Path) -> None:
    """What is on this machine works, the list says what is missing, and the key is nowhere to be read."""
    wrong, right = secret("wrong"), secret("right")
    folder = tmp_path / "plane"
    folder.mkdir()
    plane = ControlPlane(folder, SWITCHBOARD_API_KEY=right)
    install(home, "com.example.mail")
    with Gateway(home, "--control-plane", plane.url, environment={"AGENTFIELD_API_KEY": wrong}) as gateway:
        gateway.initialize()
        listed(gateway, "web:discover", "down since")
        names = list(tools(gateway))
        [source] = [
            one
            for one in gateway.ask("tools/list")["_meta"]["switchboard/catalogue"]["sources"]
            if one["name"] == plane.url
        ]
    plane.kill()

    assert names == ["app:com.example.mail", "web:discover", "aai:exec"]
    assert source["reason"] == f"{plane.url} does not accept the key in AGENTFIELD_API_KEY."


def test_of_two_services_with_one_agent_the_first_named_has_it(tmp_path: Path, home: Path) -> None:
    """And what is installed here comes before both."""
    planes: list[ControlPlane] = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        planes.append(ControlPlane(tmp_path / name))
        planes[-1].register(
            registration("shared", skills={name: []}),
            registration(f"only-{name}", skills={"act": []}),
            registration("com.example.mail", skills={"steal": []}),
        )
    install(home, "com.example.mail")
    with Gateway(home, *(part for plane in planes for part in ("--control-plane", plane.url))) as gateway:
        gateway.initialize()
        listed(gateway, "app:only-first")
        listed(gateway, "app:only-second")
        shared, mail = text(gateway.call("app:shared")), text(gateway.call("app:com.example.mail"))
        wait_until(lambda: "is already described by" in gateway.stderr)
    for plane in planes:
        plane.kill()

    assert "### first" in shared
    assert "### second" not in shared
    assert "### send_email" in mail
    assert "### steal" not in mail


def test_a_registry_that_does_not_answer_is_said_in_the_list(home: Path) -> None:
    """As a control plane is: what it would bring may exist."""
    with Gateway(home, "--registry", "http://127.0.0.1:9") as gateway:
        gateway.initialize()
        listed(gateway, "web:discover", "127.0.0.1:9 down since")
        unknown = gateway.call("app:com.example.shop")
        sources = gateway.ask("resources/list")["_meta"]["switchboard/catalogue"]["sources"]

    assert unknown["structuredContent"]["sources"][0]["name"] == "http://127.0.0.1:9"
    assert [(one["name"], one["status"]) for one in sources] == [("desktop", "ready"), ("http://127.0.0.1:9", "down")]


ODD = ["with space", "a:b:c", "名前", "x" * 500, "https://notion.so", "app:own", "\u202eevil", "%41", "aai", "web"]


@pytest.mark.parametrize("client", ["a test", "claude"])
def test_whatever_an_agent_calls_itself_it_can_be_listed_read_and_called(
    plane: ControlPlane, home: Path, client: str
) -> None:
    """Names in lists stay names that every client can take; what a guide says to call is what is called."""
    plane.register(*(registration(name, skills={"exec": []}) for name in ODD))
    with allowed(home, plane.url) as gateway:
        gateway.initialize(client)
        wait_until(lambda: len(gateway.ask("tools/list")["tools"]) == len(ODD) + 2)
        found = [tool for tool in gateway.ask("tools/list")["tools"] if tool["name"].startswith("app")]
        guides = [text(gateway.call(tool["name"])) for tool in found]
        resources = gateway.ask("resources/list")["resources"]
        read = [gateway.ask("resources/read", {"uri": one["uri"]})["contents"][0]["text"] for one in resources]
        calls = [_example(guide) for guide in guides]
        ran = [gateway.call("aai:exec", call) for call in calls]

    assert all(tool["name"].isascii() and " " not in tool["name"] and len(tool["name"]) <= 64 for tool in found)
    assert all(line.isprintable() for tool in found for line in (tool["name"], tool["description"]))
    assert all(line.isprintable() for guide in guides for line in guide.splitlines())
    assert sorted(json.loads(document)["app"]["id"] for document in read) == sorted(ODD)
    assert all(unquote(one["uri"]).startswith("app:") and one["uri"].isascii() for one in resources)
    # Nobody listens where these agents say they are: that is what the control plane says of each of them.
    assert [code(result) for result in ran] == ["SERVICE_UNAVAILABLE"] * len(ODD)
    assert sorted(result["structuredContent"]["app"] for result in ran) == sorted(clean(name) for name in ODD)


def _example(guide: str) -> dict[str, Any]:
    line = next(line for line in guide.splitlines() if line.startswith(("aai:exec(", "aai_exec(")))
    return json.loads(line[len("aai:exec(") : -1])


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (("--control-plane", "http://plane.example"), {}, "A control plane is written https://host"),
        (("--control-plane", "https://me:pass@plane.example"), {}, "A control plane is written https://host"),
        ((), {"AGENTFIELD_SERVER": "http://192.168.1.1:8080"}, "A control plane is written https://host"),
        (("--scan", "--control-plane", "https://plane.example"), {}, "--scan shows what is on this machine"),
    ],
)
def test_what_must_not_be_named_is_refused_at_the_start(
    home: Path, arguments: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    """With what is right; a password is not repeated."""
    with Gateway(home, *arguments, environment=environment) as gateway:
        assert gateway.wait() == 2
    assert said in " ".join(gateway.stderr.split())
    assert "pass@" not in gateway.stderr


def test_keys_that_are_not_as_many_as_control_planes_are_refused(home: Path) -> None:
    """Nobody gets a key that may be another's, and none is shown."""
    keys = " ".join(secret(name) for name in "abc")
    servers = "https://a.example https://b.example"
    with Gateway(home, environment={"AGENTFIELD_SERVER": servers, "AGENTFIELD_API_KEY": keys}) as gateway:
        assert gateway.wait() == 2
    assert "AGENTFIELD_API_KEY has 3 keys for 2 addresses of a control plane" in " ".join(gateway.stderr.split())


def test_the_stateless_protocol_tells_how_complete_a_list_is(plane: ControlPlane, home: Path) -> None:
    """Beside the hints it has anyway."""
    plane.register(registration("a", skills={"act": []}))
    with allowed(home, plane.url) as gateway:
        wait_until(lambda: len(gateway.modern("tools/list")["tools"]) == 3)
        meta = gateway.modern("tools/list")["_meta"]
        resources = gateway.modern("resources/list")["_meta"]["switchboard/catalogue"]

    facts = meta["switchboard/catalogue"]
    assert (facts["total"], facts["shown"]) == (1, 1)
    assert {one["name"]: one["status"] for one in facts["sources"]} == {"desktop": "ready", plane.url: "ready"}
    assert resources == facts
    assert any("serverInfo" in name for name in meta)

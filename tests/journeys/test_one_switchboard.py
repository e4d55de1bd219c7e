"""One switchboard: desktop apps, web apps, and agents in Python and Go, in one list, through whatever happens.

A PostgreSQL, two control planes on it, agents that reach them through one door as behind a load balancer, a published
web app, and a gateway with a desktop app that knows both control planes.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.databases import Postgres
from tests.gateways import Gateway, Message, Page, Site, web_app
from tests.instances import Instances, health_of, running, until
from tests.journeys.test_consent import NOTES, put
from tests.leaks import secret
from tests.sdk_go.golang import HERE, Agent, build, need_go
from tests.servers import COMMAND, ControlPlane
from tests.users import Caller, PageUser
from tests.watchers import Stream

SHOP, PYTHON, GO = "com.example.shop", "python-agent", "go-agent"
APPS = {NOTES, SHOP, PYTHON, GO}
KEY = secret("both-planes")
ALLOWANCE = timedelta(seconds=10)
"""Instances leave each other three seconds to tell whom they heard, and look every second; busy machines add to it."""


class Door:
    """One address for several servers: a connection goes to the first that takes it, as behind a load balancer."""

    def __init__(self, urls: list[str]) -> None:
        self._ports = [int(url.rpartition(":")[2]) for url in urls]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                caller, _ = self._listener.accept()
                Thread(target=self._through, args=(caller,), daemon=True).start()

    def _through(self, caller: socket.socket) -> None:
        for port in self._ports:
            with suppress(OSError):
                server = socket.create_connection(("127.0.0.1", port), 5)
                server.settimeout(None)
                Thread(target=_pour, args=(caller, server), daemon=True).start()
                _pour(server, caller)
                return
        caller.close()


def _pour(source: socket.socket, into: socket.socket) -> None:
    with suppress(OSError), source, into:
        while data := source.recv(65536):
            into.sendall(data)
    for end in (source, into):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class House:
    """Everything that is there."""

    def __init__(self, folder: Path, planes: Instances, programs: Path) -> None:
        self.folder = folder
        self.planes = planes
        self.door = Door(planes.urls)
        self.site = Site({"/search": Page(body=b'{"found": "a kettle"}', kind="application/json")})
        self.calls = folder / "calls.txt"
        self._team = (str(programs / "team"), GO, str(self.calls))
        python = (sys.executable, str(HERE / "programs/python_agent.py"), PYTHON)
        self.go = self.start_go()
        self.python = Agent(folder, self.door.url, PYTHON, *python, AGENTFIELD_API_KEY=KEY)
        self.home = folder / "home"
        self.home.mkdir()
        put(self.home, NOTES)
        self.user = PageUser(folder / "browser")
        key = folder / "key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        vault = {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(key)}
        keys = {"AGENTFIELD_API_KEY": KEY, "AAI_REGISTRY_KEY": KEY}
        self.environment = {**vault, **keys, **self.user.environment}

    def start_go(self) -> Agent:
        """Start the agent in Go."""
        return Agent(self.folder, self.door.url, GO, *self._team, AGENTFIELD_API_KEY=KEY)

    def publish(self, plane: ControlPlane) -> None:
        """Publish the shop, as its developer does."""
        file = self.folder / "aai.json"
        file.write_text(json.dumps(web_app(SHOP, self.site.url, "Shop")), encoding="utf-8")
        done = subprocess.run(  # noqa: S603 - our own command
            [COMMAND, "publish", str(file), "--server", plane.url],
            env={**os.environ, "AGENTFIELD_API_KEY": KEY},
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def gateway(self) -> Gateway:
        """Start the gateway as a client does, knowing both control planes."""
        planes = [part for url in self.planes.urls for part in ("--control-plane", url)]
        registry = ("--registry", self.planes[0].url)
        return Gateway(self.home, "--dev", "--consent", "browser", *planes, *registry, environment=self.environment)

    def close(self) -> None:
        """End everything that was started here."""
        for agent in (self.go, self.python):
            if agent.process.poll() is None:
                agent.kill()
        self.site.close()
        self.door.close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the agents written in Go."""
    need_go()
    return build(HERE / "programs", tmp_path_factory.mktemp("programs"))


@pytest.fixture
def house(tmp_path: Path, postgres: Postgres, programs: Path) -> Generator[House]:
    """Have all of it running."""
    with running(tmp_path, postgres.new(), 2, SWITCHBOARD_API_KEY=KEY) as planes:
        for plane in planes.planes:
            plane.client.headers["X-API-Key"] = KEY
        made = House(tmp_path, planes, programs)
        try:
            yield made
        finally:
            made.close()


def listed(gateway: Gateway) -> dict[str, str]:
    """Return every app of the list, and its line."""
    tools = gateway.ask("tools/list")["tools"]
    return {tool["name"].removeprefix("app:"): tool["description"] for tool in tools if tool["name"].startswith("app:")}


def over_http(plane: ControlPlane, method: str, **params: Any) -> Message:
    """Ask a control plane over MCP."""
    answer = plane.client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        headers={"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def listed_over_http(plane: ControlPlane) -> dict[str, str]:
    """Return every app of the list over HTTP, and its line."""
    tools = over_http(plane, "tools/list")["tools"]
    return {(tool.get("title") or tool["name"]).removeprefix("app:"): tool["description"] for tool in tools}


def shown_health(plane: ControlPlane, agent_id: str) -> str:
    """Return what discovery says of an agent."""
    found = plane.discover(agent=agent_id)["capabilities"]
    return found[0]["health_status"] if found else ""


def until_told(watcher: Stream, health: str) -> dict[str, Any]:
    """Read events until one says that somebody is like this."""
    while (event := watcher.next()).data.get("health_status") != health:
        pass
    assert event.kind == "health"
    return event.data


def executing(app: str, tool: str, **args: Any) -> Message:
    """Return what to ask for to have something executed."""
    return {"name": "aai:exec", "arguments": {"app": app, "tool": tool, "args": args}}


def everything_at_once(gateway: Gateway) -> list[int]:
    """Ask for every kind of thing that a client asks for, without waiting."""
    calls = [executing(NOTES, "read"), executing(SHOP, "search", query="x"), executing(PYTHON, "trace")]
    calls += [executing(GO, "shout", mark="hello"), {"name": f"app:{GO}"}, {"name": f"app:{SHOP}"}]
    others = [("tools/list", None), ("resources/list", None), ("resources/read", {"uri": f"app:{PYTHON}"})]
    return [
        *(gateway.begin("tools/call", call) for call in calls),
        *(gateway.begin(method, params) for method, params in others),
    ]


def did(result: Message) -> Any:
    """Return what a call brought."""
    assert not result.get("isError"), result
    return result["structuredContent"]


def test_one_list_shows_everything_and_everything_runs_through_whatever_happens(house: House) -> None:
    """Desktop app, published web app, and agents in two languages; an agent dies, a control plane dies."""
    planes = house.planes.planes
    house.publish(planes[0])
    until(lambda: all(health_of(plane, name) == "active" for plane in planes for name in (PYTHON, GO)), 60)
    with house.gateway() as gateway:
        caller = Caller(gateway, "a client", house.user, modern=False)
        gateway.initialize("a client")
        until(lambda: listed(gateway).keys() >= APPS)

        one_list_has_all(house, gateway)
        each_runs_after_one_question(caller)
        a_killed_agent_is_told_of_everywhere(house, gateway, caller)
        a_killed_control_plane_is_not_felt(house, gateway, caller)


def is_ready(gateway: Gateway) -> bool:
    """Tell whether everybody has answered: what one control plane knows, the other may still be asked for."""
    sources = gateway.ask("tools/list")["_meta"]["switchboard/catalogue"]["sources"]
    return {source["status"] for source in sources} == {"ready"}


def one_list_has_all(house: House, gateway: Gateway) -> None:
    """And it says that nobody is missing."""
    found = gateway.ask("tools/list")
    facts = found["_meta"]["switchboard/catalogue"]

    assert {f"app:{name}" for name in APPS} <= {tool["name"] for tool in found["tools"]}
    assert "nextCursor" not in found
    assert (facts["total"], facts["shown"]) == (4, 4)
    assert {source["status"] for source in facts["sources"]} == {"ready"}
    assert set(house.planes.urls) <= {source["name"] for source in facts["sources"]}


def each_runs_after_one_question(caller: Caller) -> None:
    """The user allows all operations of each, one by one."""
    for app, tool, given, expected in (
        (NOTES, "read", {}, {"did": "read"}),
        (SHOP, "search", {"query": "kettle"}, {"found": "a kettle"}),
        (GO, "shout", {"mark": "hello"}, "HELLO"),
    ):
        result, asked = caller.call(app, tool, "all", **given)
        assert expected in (did(result), did(result).get("result"))
        assert len(asked) == 1
    result, asked = caller.call(PYTHON, "trace", "all")
    assert (did(result)["parent"], len(asked)) == ("", 1)


def a_killed_agent_is_told_of_everywhere(house: House, gateway: Gateway, caller: Caller) -> None:
    """Within its lease: by the gateway, which tells its client; and by both instances, to whoever asks or watches."""
    planes = house.planes.planes
    watchers = [Stream(plane.url, "", {"X-API-Key": KEY}, agent=GO) for plane in planes]
    assert [watcher.next().kind for watcher in watchers] == ["snapshot"] * 2
    house.go.kill()
    while "inactive" not in listed(gateway)[GO]:
        gateway.notification("notifications/tools/list_changed", 120)
    for plane, watcher in zip(planes, watchers, strict=True):
        told = until_told(watcher, "inactive")
        until(lambda plane=plane: health_of(plane, GO) == shown_health(plane, GO) == "inactive")
        until(lambda plane=plane: "inactive" in listed_over_http(plane)[GO])
        status = plane.client.get(f"/api/v1/nodes/{GO}/status").json()["status"]
        silent = datetime.fromisoformat(told["since"]) - datetime.fromisoformat(status["last_seen"])
        assert silent <= timedelta(seconds=status["lease_s"]) + ALLOWANCE
        watcher.close()
    refused, asked = caller.call(GO, "shout", "all", mark="hello")
    assert (refused["structuredContent"]["code"], asked) == ("SERVICE_UNAVAILABLE", [])
    assert refused["structuredContent"]["since"]


def a_killed_control_plane_is_not_felt(house: House, gateway: Gateway, caller: Caller) -> None:
    """Neither by a call on its way, nor by whatever is asked for while it dies, nor by who watches the other."""
    first, second = house.planes.planes
    house.go = house.start_go()
    until(lambda: "inactive" not in listed(gateway)[GO])
    survivor = Stream(second.url, "", {"X-API-Key": KEY})
    gate = house.folder / "gate"
    waiting = gateway.begin("tools/call", executing(GO, "later", mark="survived", gate=str(gate)))
    until(house.calls.exists)
    first.kill()
    asked_for = [begun for _ in range(5) for begun in everything_at_once(gateway)]
    gate.touch()

    assert did(gateway.answer(waiting, 60)["result"])["result"] == "survived"
    assert len(house.calls.read_text(encoding="utf-8").splitlines()) == 1  # it ran once
    for begun in asked_for:
        answer = gateway.answer(begun, 60)["result"]
        assert not answer.get("isError"), answer
    for app, tool, given in ((NOTES, "read", {}), (SHOP, "search", {"query": "x"}), (PYTHON, "trace", {})):
        result, asked = caller.call(app, tool, "all", **given)
        assert did(result)
        assert asked == []
    assert listed(gateway).keys() >= APPS
    assert not any("inactive" in line for line in listed(gateway).values())
    assert (GO in listed_over_http(second), shown_health(second, GO)) == (True, "active")
    assert survivor.next().kind == "snapshot"
    house.go.stop()
    assert until_told(survivor, "inactive")["agent_id"] == GO
    survivor.close()

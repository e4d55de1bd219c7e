"""Whole control planes: started, killed, restarted, flooded, stopped, asked from the command line."""

import asyncio
import json
import os
import random
import socket
import subprocess
import threading
from pathlib import Path

import httpx2
import pytest
from tests.caching import SETTING
from tests.journeys.waiting import wait_until
from tests.servers import COMMAND, ControlPlane, registration
from tests.support import requirement


def switchboard(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    return subprocess.run(  # noqa: S603 - our own command
        [COMMAND, *arguments],
        env={**own, **SETTING, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_page_of_another_site_can_do_nothing_on_a_server_without_keys(tmp_path: Path) -> None:
    """A browser sends for it what any form can send; neither its own name nor one that was led here helps."""
    plane = ControlPlane(tmp_path)
    rebound = f"evil.example:{plane.url.rpartition(':')[2]}"
    pages = [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://{rebound}", "Host": rebound},
        {"Origin": plane.url, "Host": rebound},
    ]
    content = json.dumps(registration("evil", {"r": []}))
    for page in pages:
        form = {**page, "Content-Type": "text/plain"}
        refused = plane.client.post("/api/v1/nodes/register", content=content, headers=form)
        assert (refused.status_code, refused.json()["error"]) == (403, "forbidden"), page
        assert plane.client.put("/api/v1/apps/evil", content="{}", headers=page).status_code == 403
        assert plane.client.get("/api/v1/discovery/capabilities", headers=page).status_code == 403
    assert plane.discover()["total_agents"] == 0
    for own in ({}, {"Origin": plane.url}, {"Origin": "http://localhost:3000"}):
        assert plane.client.post("/api/v1/nodes/register", content=content, headers=own).status_code == 201
    assert plane.stop() == 0

    keyed = ControlPlane(tmp_path, "--api-key", "open-sesame")
    given = {"Origin": "https://chat.example", "X-API-Key": "open-sesame"}
    assert keyed.client.get("/api/v1/discovery/capabilities", headers=given).status_code == 200
    assert keyed.stop() == 0


def test_registrations_and_health_survive_a_restart(tmp_path: Path) -> None:
    """Also what was said last; a removed agent stays removed."""
    first = ControlPlane(tmp_path)
    first.register(registration("a", {"r": ["t"]}), registration("b", {"r": []}), registration("c", {"r": []}))
    first.client.post("/api/v1/nodes/b/shutdown", json={"reason": "signal"})
    first.client.delete("/api/v1/nodes/c")
    assert first.stop() == 0

    second = ControlPlane(tmp_path)
    found = {agent["agent_id"]: agent["health_status"] for agent in second.discover()["capabilities"]}
    assert found == {"a": "active", "b": "inactive"}
    assert second.client.post("/api/v1/nodes/a/heartbeat").status_code == 200
    assert {oct(file.stat().st_mode & 0o777) for file in tmp_path.glob("plane.db*")} == {"0o600"}
    assert second.stop() == 0


def test_a_killed_server_loses_no_registration_it_answered(tmp_path: Path) -> None:
    """Twenty times: registrations from four callers at once, SIGKILL in the middle, start again, count."""
    dice = random.Random(20)  # noqa: S311 - the same moments every time
    acknowledged: set[str] = set()
    plane = ControlPlane(tmp_path)
    for round_ in range(20):
        confirmed: set[str] = set()

        def call(caller: int, url: str = plane.url, round_: int = round_, confirmed: set[str] = confirmed) -> None:
            with httpx2.Client(base_url=url, timeout=5, trust_env=False) as client:
                for number in range(500):
                    agent_id = f"agent-{round_}-{caller}-{number}"
                    try:
                        answer = client.post("/api/v1/nodes/register", json=registration(agent_id, {"r": []}))
                    except httpx2.HTTPError:
                        return
                    if answer.status_code == 201:
                        confirmed.add(agent_id)

        callers = [threading.Thread(target=call, args=(caller,)) for caller in range(4)]
        for caller in callers:
            caller.start()
        enough = dice.randrange(5, 40)
        wait_until(lambda confirmed=confirmed, enough=enough: len(confirmed) >= enough)
        plane.kill()
        for caller in callers:
            caller.join()
        acknowledged |= confirmed
        plane = ControlPlane(tmp_path)
        known = {node["id"] for node in plane.client.get("/api/v1/nodes?show_all=true").json()["nodes"]}
        assert acknowledged - known == set()
    plane.stop()
    assert len(acknowledged) > 100


@requirement("discovery:scenario:2", "perf:concurrency:thousand")
def test_a_thousand_simultaneous_requests_are_all_answered(tmp_path: Path) -> None:
    """A thousand connections, opened first, then all asked at once, with every kind of question."""
    plane = ControlPlane(tmp_path)
    plane.register(*(registration(f"agent-{i:03}", {"deep_research": ["ml"]}, {"web_search": []}) for i in range(150)))
    queries = ["", "reasoner=*research*", "tags=ml*", "format=compact", "format=xml", "agent=agent-050"]
    host, port = plane.url.removeprefix("http://").split(":")

    async def ask(query: str, everybody: asyncio.Barrier) -> str:
        reader, writer = await asyncio.open_connection(host, int(port))
        await everybody.wait()
        writer.write(
            f"GET /api/v1/discovery/capabilities?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
        answer = await reader.read(-1)
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return head.split(b" ", 2)[1].decode() if len(body) == length else "cut"

    async def story() -> list[str]:
        everybody = asyncio.Barrier(1000)
        return await asyncio.gather(*(ask(queries[i % len(queries)], everybody) for i in range(1000)))

    assert set(asyncio.run(story())) == {"200"}
    assert plane.stop() == 0


def test_a_server_that_is_told_to_stop_finishes_what_it_began(tmp_path: Path) -> None:
    """A registration whose body is still coming is answered; nobody new comes in; the exit code is 0."""
    plane = ControlPlane(tmp_path)
    body = json.dumps(registration("late", {"r": []})).encode()
    host, port = plane.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"POST /api/v1/nodes/register HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[:10])
        assert plane.client.get("/ready").status_code == 200
        plane.process.terminate()
        wait_until(lambda: refused(host, int(port)))
        connection.sendall(body[10:])
        answer = connection.makefile("rb").read()

    assert answer.startswith(b"HTTP/1.1 201")
    assert plane.stop() == 0
    again = ControlPlane(tmp_path)
    assert again.discover()["capabilities"][0]["agent_id"] == "late"
    again.stop()


def refused(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_dead_agent_is_seen_by_everybody_within_its_lease(tmp_path: Path) -> None:
    """A heartbeat of half a second: degraded soon, inactive after ten seconds, with reasons."""
    plane = ControlPlane(tmp_path)
    plane.register(registration("a", {"r": []}, communication_config={"heartbeat_interval": "500ms"}))

    wait_until(lambda: plane.discover()["capabilities"][0]["health_status"] == "degraded")
    assert plane.discover(health_status="degraded")["total_agents"] == 1
    wait_until(lambda: plane.discover()["capabilities"][0]["health_status"] == "inactive")
    node = plane.client.get("/api/v1/nodes/a").json()
    assert node["health_reason"] == "silent for its lease of 10 s"
    plane.stop()


def test_when_the_database_breaks_discovery_goes_on_and_says_so(tmp_path: Path) -> None:
    """Registering is refused with 503 and when to come again; nothing is half in."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_CACHE_TTL="0")
    plane.register(registration("a", {"r": []}))
    holder = subprocess.Popen(  # noqa: S603 - our own interpreter
        [os.fspath(Path(COMMAND).with_name("python")), "-c", HOLD, str(tmp_path / "plane.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    holder.stdout.readline()
    refusal = plane.client.post("/api/v1/nodes/register", json=registration("b", {"r": []}))
    assert (refusal.status_code, refusal.headers["retry-after"]) == (503, "1")
    assert plane.discover()["total_agents"] == 1
    assert plane.client.get("/health").json()["store"]["status"] == "unavailable"
    assert plane.raw().headers["warning"].startswith("110")
    assert plane.metric("switchboard_store_up") == 0
    holder.stdin.close()
    holder.wait(10)
    holder.stdout.close()
    plane.register(registration("b", {"r": []}))
    assert plane.discover()["total_agents"] == 2
    assert plane.client.get("/health").json()["store"]["status"] == "ok"
    plane.stop()


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_broken_log_does_not_end_the_watch_over_agents(tmp_path: Path) -> None:
    """Whoever read it is gone; silence is still noticed, requests are still answered, the end is clean."""
    read, write = os.pipe()
    plane = subprocess.Popen(  # noqa: S603 - our own command
        [COMMAND, "serve", "--port", "0", "--database-url", f"sqlite:///{tmp_path}/plane.db", "--log-level", "debug"],
        stdout=subprocess.PIPE,
        stderr=write,
        text=True,
    )
    os.close(write)
    assert plane.stdout is not None
    url = plane.stdout.readline().split()[-1]
    os.close(read)
    with httpx2.Client(base_url=url, trust_env=False) as client:
        document = registration("a", {"r": []}, communication_config={"heartbeat_interval": "500ms"})
        assert client.post("/api/v1/nodes/register", json=document).status_code == 201

        def health() -> str:
            return client.get("/api/v1/discovery/capabilities").json()["capabilities"][0]["health_status"]

        wait_until(lambda: health() == "degraded")
    plane.terminate()
    assert plane.wait(30) == 0
    plane.stdout.close()


def test_slow_and_talkative_clients_are_given_up_on(tmp_path: Path) -> None:
    """A head without an end is cut at 64 KiB; one that never comes, after ten seconds; others are served meanwhile."""
    plane = ControlPlane(tmp_path)
    host, port = plane.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow, socket.create_connection((host, int(port))) as talkative:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        talkative.sendall(b"GET /health HTTP/1.1\r\nX: ")

        def talk() -> bool:
            try:
                talkative.sendall(b"x" * 16384)
            except OSError:
                return True
            return False

        wait_until(talk)
        assert plane.client.get("/health").status_code == 200
        slow.settimeout(20)
        assert slow.recv(100) == b""
    assert plane.stop() == 0


def test_the_demo_shows_agents_that_really_run(tmp_path: Path) -> None:
    """Discovered from the command line, called at their own address, gone when the server goes."""
    plane = ControlPlane(tmp_path, "--demo")
    wait_until(lambda: plane.discover()["total_agents"] == 2)
    table = switchboard("discover", "--server", plane.url).stdout
    assert [line.split()[0] for line in table.splitlines()[1:4]] == [
        "demo-statistician:skill:describe_numbers",
        "demo-writer:summarise",
        "demo-writer:skill:keywords",
    ]
    (statistician,) = plane.discover(agent="demo-statistician")["capabilities"]
    answer = httpx2.post(f"{statistician['base_url']}/skills/describe_numbers", json={"numbers": [1, 2, 6]})
    assert answer.json() == {"mean": 3.0, "median": 2.0, "largest": 6.0}
    assert httpx2.post(f"{statistician['base_url']}/skills/describe_numbers", json={}).status_code == 422
    assert plane.stop() == 0
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(statistician["base_url"])
    after = ControlPlane(tmp_path)
    assert {agent["health_status"] for agent in after.discover()["capabilities"]} == {"inactive"}
    after.stop()


def test_discover_and_agents_print_tables_and_raw_answers(tmp_path: Path) -> None:
    """For people and for scripts; wrong questions and missing servers are told what to do."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_API_KEY="k")
    plane.client.headers["X-API-Key"] = "k"
    plane.register(registration("a", {"deep_research": ["ml"]}, {"s": []}), registration("b", {"r": []}))
    plane.client.post("/api/v1/nodes/b/shutdown", json={"reason": "signal"})
    to = {"AGENTFIELD_SERVER": plane.url, "AGENTFIELD_API_KEY": "k"}

    found = switchboard("discover", "--reasoner", "*research*", **to)
    assert found.stdout.splitlines()[1].split() == ["a:deep_research", "reasoner", "active", "ml"]
    assert found.stdout.endswith("1 agent, 1 reasoner, 0 skills\n")
    assert json.loads(switchboard("discover", "--json", "--agent", "a", **to).stdout)["total_agents"] == 1
    assert switchboard("discover", "--format", "xml", **to).stdout.startswith("<?xml")
    assert list(json.loads(switchboard("discover", "--format", "compact", **to).stdout)) == [
        "discovered_at",
        "reasoners",
        "skills",
    ]
    assert switchboard("discover", "--limit", "1", **to).stdout.endswith("more with --offset 1\n")
    agents = switchboard("agents", **to).stdout.splitlines()
    assert agents[2].split()[:5] == ["b", "inactive", "shut", "down", "(signal)"]
    assert json.loads(switchboard("agents", "--json", **to).stdout)["count"] == 2
    wrong = switchboard("discover", "--limit", "501", **to)
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "switchboard: Invalid limit parameter. Must be a whole number from 0 to 500\n",
    )
    assert "API key" in switchboard("discover", AGENTFIELD_SERVER=plane.url).stderr
    plane.stop()
    gone = switchboard("discover", **to)
    assert (gone.returncode, "Start one with `switchboard serve`" in gone.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "an API key is needed"),  # noqa: S104 - it is refused
        (["--database-url", "mysql://x"], "mysql databases are not supported"),
        (["--port", "99999"], "cannot be used: "),
        (["--host", "192.0.2.1", "--api-key", "k"], "Cannot listen on 192.0.2.1"),
        (["--log-level", "loud"], "cannot be used: "),
        (["--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["--database-url", "sqlite:////proc/nowhere/plane.db"], "does not answer"),
        (
            ["--database-url", "postgresql://me:hush@nowhere.invalid/plane"],
            "The host of the database is not known: nowhere.invalid:5432. Check its name in database_url",
        ),
    ],
)
def test_a_server_that_cannot_start_says_why(arguments: list[str], message: str) -> None:
    """In one line, without a traceback."""
    result = switchboard("serve", "--port", "0", *arguments)

    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "hush" not in result.stderr


def test_settings_come_from_flags_then_environment_then_file(tmp_path: Path) -> None:
    """The file has the port of nobody; the environment a key; a flag the database."""
    config = tmp_path / "switchboard.toml"
    config.write_text('host = "127.0.0.1"\nport = 1\napi_key = "from-file"\nlog_level = "error"\n')
    plane = ControlPlane(tmp_path, "--config", str(config), SWITCHBOARD_API_KEY="from-environment")

    assert plane.client.get("/api/v1/nodes", headers={"X-API-Key": "from-file"}).status_code == 401
    assert plane.client.get("/api/v1/nodes", headers={"X-API-Key": "from-environment"}).status_code == 200
    plane.stop()

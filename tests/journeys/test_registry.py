"""An app on its way from who publishes it to who uses it: real processes, from the command line to the call."""

import json
import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.databases import Postgres
from tests.databases import running as postgres_running
from tests.gateways import ALLOWED, GATEWAY, Gateway, Page, Site, web_app
from tests.instances import Instances, running, until
from tests.leaks import secret
from tests.servers import COMMAND, ControlPlane
from tests.support import requirement

ID = "com.example.shop"
LIMIT_S = 60


def descriptor(base_url: str, version: str = "1.0.0", **changes: Any) -> dict[str, Any]:
    return web_app(ID, base_url, "Shop", version=version, **changes)


def switchboard(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Type a command."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SWITCHBOARD_", "AGENTFIELD_"))}
    return subprocess.run(  # noqa: S603 - our own command
        [COMMAND, *arguments],
        env={**own, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@contextmanager
def gateway(home: Path, registry: str, command: Sequence[str] = ALLOWED, **environment: str) -> Generator[Gateway]:
    """Start a gateway that follows a registry, and wait until it has looked."""
    with Gateway(home, command=command, environment={"AAI_REGISTRY_URL": registry, **environment}) as found:
        found.initialize()
        until(lambda: "registry.synced" in found.stderr or "registry.failed" in found.stderr)
        yield found


def listed(gateway: Gateway) -> list[str]:
    return [tool["name"] for tool in gateway.ask("tools/list")["tools"] if tool["name"].startswith("app:")]


@pytest.fixture
def keyed(tmp_path: Path) -> Generator[tuple[ControlPlane, str]]:
    """A control plane with a key."""
    key = secret("plane")
    (tmp_path / "plane").mkdir()
    plane = ControlPlane(tmp_path / "plane", SWITCHBOARD_API_KEY=key)
    plane.client.headers["X-API-Key"] = key
    yield plane, key
    if plane.process.poll() is None:
        plane.stop()


@requirement("registry:serve:api-v1-apps", "registry:serve:descriptor-url")
def test_an_app_is_published_found_used_renewed_and_withdrawn(tmp_path: Path, keyed: tuple[ControlPlane, str]) -> None:
    """From the terminal of its developer to a call out of somebody's agent client, and all the way back."""
    plane, key = keyed
    told = {"AGENTFIELD_SERVER": plane.url, "AGENTFIELD_API_KEY": key}
    home = tmp_path / "home"
    home.mkdir()
    with Site({"/search": Page(body=b'{"found": 3}', kind="application/json")}) as shop:
        file = tmp_path / "aai.json"
        file.write_text(json.dumps(descriptor(shop.url)))
        published = switchboard("publish", str(file), **told)
        shown = switchboard("apps", "--json", **told)
        with gateway(home, plane.url, AAI_REGISTRY_KEY=key) as first:
            apps = listed(first)
            guide = first.call(f"app:{ID}")
            done = first.call("aai:exec", {"app": ID, "tool": "search", "args": {"query": "tea"}})
        order = {**descriptor(shop.url)["tools"][0], "name": "order"}
        file.write_text(json.dumps(descriptor(shop.url, "1.1.0", tools=[order])))
        breaking = switchboard("publish", str(file), **told)
        file.write_text(json.dumps(descriptor(shop.url, "2.0.0", tools=[order])))
        renewed = switchboard("publish", str(file), "--json", **told)
        with gateway(home, plane.url, AAI_REGISTRY_KEY=key) as second:
            newer = second.call(f"app:{ID}")
        withdrawn = switchboard("publish", "--withdraw", ID, **told)
        with gateway(home, plane.url, AAI_REGISTRY_KEY=key) as third:
            left = listed(third)

    address = f"{plane.url}/api/v1/apps/{ID}/aai.json"
    assert (published.returncode, published.stdout) == (0, f"{ID} 1.0.0 is published: {address}\n"), published.stderr
    assert [app["appId"] for app in json.loads(shown.stdout)["apps"]] == [ID]
    assert apps == [f"app:{ID}"]
    assert "search" in guide["content"][0]["text"]
    assert done["structuredContent"] == {"found": 3}
    assert shop.asked[0].path == "/search?query=tea"
    assert breaking.returncode == 1
    assert "$.tools[0]: the tool search is gone" in breaking.stderr
    assert "2.0.0" in breaking.stderr
    assert json.loads(renewed.stdout)["status"] == "updated"
    assert "order" in newer["content"][0]["text"]
    assert (withdrawn.returncode, left) == (0, [])
    assert key not in plane.log_text()


def test_a_gateway_without_the_key_says_what_is_missing(tmp_path: Path, keyed: tuple[ControlPlane, str]) -> None:
    """And keeps what it had; a count that does not fit is refused at the start."""
    plane, _ = keyed
    with gateway(tmp_path, plane.url) as found:
        assert "wants a key (AAI_REGISTRY_KEY)" in found.stderr
    with gateway(tmp_path, plane.url, AAI_REGISTRY_KEY=secret("wrong")) as found:
        assert "does not take the key (AAI_REGISTRY_KEY)" in found.stderr
    given = {"AAI_REGISTRY_URL": f"{plane.url} {plane.url}/v1 {plane.url}/api/v1", "AAI_REGISTRY_KEY": "a -"}
    with Gateway(tmp_path, command=GATEWAY, environment=given) as refused:
        assert refused.wait() == 2
        refused.close()
        assert "AAI_REGISTRY_KEY" in refused.stderr


def test_each_registry_gets_its_own_key(tmp_path: Path, keyed: tuple[ControlPlane, str]) -> None:
    """In the order in which they are named; a hyphen is none."""
    plane, key = keyed
    plane.client.put(f"/api/v1/apps/{ID}", json=descriptor("https://shop.example.com"))
    with Site() as site:
        site.publish({"apps": []}, "/api/v1/apps")
        with gateway(tmp_path, f"{site.url} {plane.url}", AAI_REGISTRY_KEY=f"- {key}") as found:
            until(lambda: found.stderr.count("registry.synced") == 2)
            assert listed(found) == [f"app:{ID}"]


@pytest.fixture(scope="module")
def fragile() -> Generator[Postgres]:
    """A server that tests stop and start."""
    with postgres_running() as server:
        yield server


@pytest.fixture
def two(tmp_path: Path, fragile: Postgres) -> Generator[Instances]:
    with running(tmp_path, fragile.new(), 2, SWITCHBOARD_DATABASE_TIMEOUT="1") as found:
        yield found


def published_on(plane: ControlPlane) -> dict[str, str]:
    return {app["id"]: app["version"] for app in plane.client.get("/v1/apps").json()["apps"]}


def put(plane: ControlPlane, version: str) -> Any:
    return plane.client.put(f"/api/v1/apps/{ID}", json=descriptor("https://shop.example.com", version))


def test_what_is_published_on_one_instance_is_served_by_the_other(two: Instances) -> None:
    """New, renewed and withdrawn; the rules hold across instances, and an answer has the same tag everywhere."""
    here, there = two.planes
    assert put(here, "1.0.0").status_code == 201
    until(lambda: published_on(there) == {ID: "1.0.0"}, 5)
    same = [plane.client.get(f"/api/v1/apps/{ID}/aai.json").headers["etag"] for plane in two.planes]
    assert put(there, "1.0.0").json()["status"] == "unchanged"
    assert put(there, "1.2.0").status_code == 200
    assert put(here, "1.1.0").status_code == 409
    until(lambda: published_on(here) == {ID: "1.2.0"}, 5)
    old = there.client.get(f"/api/v1/apps/{ID}/aai.json?version=1.0.0")
    assert here.client.delete(f"/api/v1/apps/{ID}").status_code == 200
    until(lambda: published_on(there) == {}, 5)

    assert same[0] == same[1]
    assert old.json()["version"] == "1.0.0"
    assert there.client.get(f"/api/v1/apps/{ID}").json()["status"] == "withdrawn"


def test_without_a_database_reading_goes_on_and_publishing_is_refused(two: Instances, fragile: Postgres) -> None:
    """On both instances; and everything comes back by itself."""
    assert put(two[0], "1.0.0").status_code == 201
    until(lambda: published_on(two[1]) == {ID: "1.0.0"}, 5)
    fragile.stop()
    try:
        for plane in two.planes:
            refused = put(plane, "1.0.1")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert plane.client.delete(f"/api/v1/apps/{ID}").status_code == 503
            answer = plane.client.get("/api/v1/apps")
            assert (answer.status_code, answer.json()["apps"][0]["version"]) == (200, "1.0.0")
            assert answer.headers["warning"].startswith("110")
            assert plane.client.get(f"/api/v1/apps/{ID}/aai.json").json()["version"] == "1.0.0"
            assert len(plane.client.get(f"/api/v1/apps/{ID}").json()["history"]) == 1
    finally:
        fragile.start()

    until(lambda: put(two[0], "1.0.1").status_code == 200)
    until(lambda: published_on(two[1]) == {ID: "1.0.1"})
    until(lambda: all("warning" not in plane.client.get("/v1/apps").headers for plane in two.planes))


def test_what_cannot_be_published_is_shown_with_its_place_and_not_sent(tmp_path: Path) -> None:
    """Exit code 1 for problems, 2 for a file that is not there or a command without one; nobody needs to answer."""
    file = tmp_path / "aai.json"
    file.write_text(json.dumps(descriptor("https://shop.example.com", "one", odd=True)))
    nobody = {"AGENTFIELD_SERVER": "http://127.0.0.1:1"}

    wrong = switchboard("publish", str(tmp_path), **nobody)
    machine = switchboard("publish", str(file), "--json", **nobody)
    missing = switchboard("publish", str(tmp_path / "nothing.json"), **nobody)
    neither = switchboard("publish", **nobody)
    both = switchboard("publish", str(file), "--withdraw", ID, **nobody)
    file.write_text(json.dumps(descriptor("https://shop.example.com")))
    unheard = [switchboard(*words, **nobody) for words in (("publish", str(file)), ("apps",))]

    assert [one.returncode for one in (wrong, machine, missing, neither, both, *unheard)] == [1, 1, 2, 2, 2, 1, 1]
    assert f"{file}: error: $.version: is not a semantic version" in wrong.stderr
    assert f"{file}: warning: $.odd: unknown key, not used" in wrong.stderr
    assert wrong.stderr.endswith("switchboard: Nothing was sent. Mend these, then publish again.\n")
    assert [one["path"] for one in json.loads(machine.stdout)["problems"] if one["severity"] == "error"] == [
        "$.version"
    ]
    assert all("No control plane answers at http://127.0.0.1:1." in one.stderr for one in unheard)


def test_apps_shows_what_is_published_or_what_is_here(tmp_path: Path, keyed: tuple[ControlPlane, str]) -> None:
    """Tables for people, JSON for scripts; text of others cannot steer the terminal; a refusal says why."""
    plane, key = keyed
    told = {"AGENTFIELD_SERVER": plane.url, "AGENTFIELD_API_KEY": key}
    names = {"id": ID, "name": {"en": "Sh\x1b[2Jop"}, "defaultLang": "en", "description": "A \u202eshop"}
    plane.client.put(f"/api/v1/apps/{ID}", json=descriptor("https://shop.example.com", app=names))
    home = {"HOME": str(tmp_path), "AAI_HOME": str(tmp_path / "aai"), "XDG_DATA_DIRS": str(tmp_path)}
    (tmp_path / "aai/com.example.local").mkdir(parents=True)
    local = json.dumps(web_app("com.example.local", "https://local.example.com"))
    (tmp_path / "aai/com.example.local/aai.json").write_text(local)

    table = switchboard("apps", **told)
    here, machine = switchboard("apps", "--here", **home), switchboard("apps", "--here", "--json", **home)
    unknown = switchboard("publish", "--withdraw", "com.example.nothing", "--json", **told)
    stranger = switchboard("apps", AGENTFIELD_SERVER=plane.url)

    assert table.stdout.splitlines()[1].split()[:3] == [ID, "Sh[2Jop", "1.0.0"]
    assert table.stdout.endswith("1 app published\n")
    assert not {"\x1b", "\u202e"} & set(table.stdout)
    assert "com.example.local" in here.stdout
    assert [app["id"] for app in json.loads(machine.stdout)["apps"]] == ["com.example.local"]
    assert (unknown.returncode, json.loads(unknown.stdout)["error"]) == (1, "not_found")
    assert (stranger.returncode, "wants an API key" in stranger.stderr) == (1, True)

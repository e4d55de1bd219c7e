"""The registry of a control plane: both shapes of the seeds, descriptors to the byte, keys, addresses, refusals."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateways import web_app
from tests.servers import ControlPlane
from tests.support import requirement

ID = "com.example.shop"
SHOP = "https://shop.example.com"
READING = ["/v1/apps", "/api/v1/apps", f"/api/v1/apps/{ID}", f"/api/v1/apps/{ID}/aai.json"]
KEYS = """
api_key = "operator-key"
[keys]
ann = "key-of-ann"
bob = "key-of-bob"
[allow]
"com.example.closed" = ["bob"]
"""


def text(version: str = "1.0.0", app_id: str = ID, **changes: Any) -> bytes:
    return json.dumps(web_app(app_id, SHOP, "Shop", version=version, **changes), indent=3).encode()


def put(plane: ControlPlane, raw: bytes, app_id: str = ID, **headers: str) -> httpx2.Response:
    return plane.client.put(f"/api/v1/apps/{app_id}", content=raw, headers=headers)


@pytest.fixture
def registry(own_plane: ControlPlane) -> ControlPlane:
    """A server with one published app."""
    assert put(own_plane, text()).status_code == 201
    return own_plane


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[ControlPlane]:
    """A server with three keys and a rule."""
    (tmp_path / "settings.toml").write_text(KEYS)
    plane = ControlPlane(tmp_path, "--config", str(tmp_path / "settings.toml"))
    yield plane
    if plane.process.poll() is None:
        plane.stop()


@requirement("registry:serve:v1-apps", "registry:serve:api-v1-apps", "registry:serve:descriptor-url")
@pytest.mark.parametrize(("path", "key"), [("/v1/apps", "id"), ("/api/v1/apps", "appId")])
def test_the_directory_has_both_shapes_of_the_seeds(registry: ControlPlane, path: str, key: str) -> None:
    """`id` in seed 000, `appId` in 001 and 003; each address leads to the descriptor as it was published."""
    (app,) = registry.client.get(path).json()["apps"]
    descriptor = registry.client.get(app["descriptor_url"])

    address = f"{registry.url}/api/v1/apps/{ID}/aai.json"
    assert app == {
        key: ID,
        "name": "Shop",
        "description": "Shop on the web",
        "version": "1.0.0",
        "descriptor_url": address,
    }
    assert descriptor.content == text()
    assert descriptor.headers["content-type"] == "application/json"


def test_an_empty_registry_lists_nothing(own_plane: ControlPlane) -> None:
    """And is one all the same."""
    assert own_plane.client.get("/v1/apps").json() == own_plane.client.get("/api/v1/apps").json() == {"apps": []}


def test_who_has_an_answer_is_told_so(registry: ControlPlane) -> None:
    """304 until something changes."""
    first = {path: registry.client.get(path) for path in READING}
    known = {path: {"If-None-Match": answer.headers["etag"]} for path, answer in first.items()}
    same = [registry.client.get(path, headers=known[path]) for path in READING]
    put(registry, text("1.0.1"))
    changed = [registry.client.get(path, headers=known[path]) for path in READING]

    assert [(answer.status_code, answer.content) for answer in same] == [(304, b"")] * 4
    assert [answer.headers["etag"] for answer in same] == [answer.headers["etag"] for answer in first.values()]
    assert [answer.status_code for answer in changed] == [200] * 4


def test_every_version_can_be_read_and_what_is_withdrawn_keeps_them(registry: ControlPlane) -> None:
    """With when each was published; the directory and the address without a version know it no more."""
    put(registry, text("1.1.0"))
    address = f"/api/v1/apps/{ID}"
    shown = registry.client.get(address).json()
    withdrawn = registry.client.delete(address)
    after = registry.client.get(address).json()

    assert (shown["status"], [one["version"] for one in shown["history"]]) == ("published", ["1.1.0", "1.0.0"])
    assert registry.client.get(f"{address}/aai.json?version=1.0.0").content == text("1.0.0")
    assert registry.client.get(f"{address}/aai.json?version=1.1.0").content == text("1.1.0")
    assert (withdrawn.status_code, withdrawn.json()["status"]) == (200, "withdrawn")
    assert (after["status"], after["history"]) == ("withdrawn", shown["history"])
    assert registry.client.get("/v1/apps").json() == {"apps": []}
    assert registry.client.get(f"{address}/aai.json").status_code == 404
    assert registry.client.get(f"{address}/aai.json?version=2.0.0").status_code == 404
    assert registry.client.delete(address).status_code == 404


def test_publishing_says_what_became_of_it(own_plane: ControlPlane) -> None:
    """201 for a new app with its address, 200 afterwards; warnings with their paths."""
    odd = text("1.0.1", odd=True)
    first, again, warned = put(own_plane, text()), put(own_plane, text()), put(own_plane, odd)

    assert (first.status_code, first.json()["status"]) == (201, "published")
    assert first.headers["location"] == first.json()["descriptor_url"]
    assert (again.status_code, again.json()["status"]) == (200, "unchanged")
    assert (warned.status_code, warned.json()["status"]) == (200, "updated")
    assert warned.json()["warnings"] == ["$.odd: unknown key, not used"]


def test_what_is_wrong_is_named_with_its_place(registry: ControlPlane) -> None:
    """400 for the descriptor, 409 for its version, 413 for its size."""
    broken = put(registry, text(version="x", execution={"type": "stdio", "command": "rm"}))
    breaking = put(registry, text("1.1.0", tools=[]))
    lower = put(registry, text("0.9.0"))
    large = put(registry, b" " * (1024 * 1024 + 1))

    assert (broken.status_code, broken.json()["error"]) == (400, "invalid_request")
    paths = [problem.partition(": ")[0] for problem in broken.json()["details"]["problems"]]
    assert paths == ["$.execution.type", "$.version"]
    assert (breaking.status_code, breaking.json()["error"]) == (409, "conflict")
    assert breaking.json()["details"]["changes"] == ["$.tools[0]: the tool search is gone"]
    assert (lower.status_code, lower.json()["details"]["current"]) == (409, "1.0.0")
    assert large.status_code == 413
    assert registry.client.get(f"/api/v1/apps/{ID}/aai.json").content == text()


def test_an_id_is_its_first_publishers_and_rules_hold(keyed: ControlPlane) -> None:
    """Nobody else publishes or withdraws it but the operator; nobody at all without a key."""

    def by(key: str, version: str = "1.0.0", app_id: str = ID) -> int:
        return put(keyed, text(version, app_id), app_id, **({"X-API-Key": key} if key else {})).status_code

    assert [by(key) for key in ("", "wrong", "key-of-ann", "key-of-bob")] == [401, 401, 201, 403]
    assert by("operator-key", "1.0.1") == 200
    assert [by(key, app_id="com.example.closed") for key in ("key-of-ann", "key-of-bob")] == [403, 201]
    gone = keyed.client.delete(f"/api/v1/apps/{ID}", headers={"X-API-Key": "key-of-bob"})
    assert gone.status_code == 403
    shown = keyed.client.get(f"/api/v1/apps/{ID}", headers={"Authorization": "Bearer key-of-bob"}).json()
    assert (shown["owner"], [one["published_by"] for one in shown["history"]]) == ("ann", ["default", "ann"])


def test_reading_needs_a_key_like_everything_else(keyed: ControlPlane) -> None:
    """Unless the operator says that it does not."""
    put(keyed, text(), **{"X-API-Key": "key-of-ann"})

    assert [keyed.client.get(path).status_code for path in READING] == [401] * 4
    keyed.client.headers["X-API-Key"] = "key-of-bob"
    assert [keyed.client.get(path).status_code for path in READING] == [200] * 4


def test_a_public_registry_is_read_by_everybody_and_nothing_else_is(tmp_path: Path) -> None:
    """Publishing, agents and who published what stay behind the key."""
    environment = {"SWITCHBOARD_API_KEY": "operator-key", "SWITCHBOARD_PUBLIC_REGISTRY": "true"}
    plane = ControlPlane(tmp_path, **environment)
    try:
        put(plane, text(), **{"X-API-Key": "operator-key"})
        read = [plane.client.get(path).status_code for path in READING]
        shown = plane.client.get(f"/api/v1/apps/{ID}").json()
        closed = [
            put(plane, text("1.0.1")).status_code,
            plane.client.delete(f"/api/v1/apps/{ID}").status_code,
            plane.raw().status_code,
        ]
    finally:
        plane.stop()

    assert (read, closed) == ([200] * 4, [401] * 3)
    assert not {"owner", "published_by"} & {*shown, *shown["history"][0]}


def test_addresses_are_those_that_were_asked_under_or_what_the_operator_says(tmp_path: Path) -> None:
    """A Host that is none is refused; behind a proxy the setting decides."""
    plane = ControlPlane(tmp_path)
    try:
        put(plane, text())
        named = plane.client.get("/v1/apps", headers={"Host": "apps.example.com:8080"}).json()["apps"][0]
        refused = [
            plane.client.get("/v1/apps", headers={"Host": host}).status_code
            for host in ("evil.example/x?", "a b", "user@host", "[::1", "")
        ]
    finally:
        plane.stop()
    behind = ControlPlane(tmp_path, SWITCHBOARD_PUBLIC_URL="https://agents.example.com/switchboard/")
    try:
        configured = behind.client.get("/v1/apps", headers={"Host": "inside:8080"}).json()["apps"][0]
    finally:
        behind.stop()

    path = f"/api/v1/apps/{ID}/aai.json"
    assert named["descriptor_url"] == f"http://apps.example.com:8080{path}"
    assert set(refused) == {400}
    assert configured["descriptor_url"] == f"https://agents.example.com/switchboard{path}"


def test_what_was_published_is_there_after_a_crash(tmp_path: Path) -> None:
    """It was on disk before it was answered."""
    plane = ControlPlane(tmp_path)
    put(plane, text())
    plane.kill()
    back = ControlPlane(tmp_path)
    try:
        assert back.client.get(f"/api/v1/apps/{ID}/aai.json").content == text()
    finally:
        back.stop()


def test_of_many_who_publish_at_once_one_is_first(own_plane: ControlPlane) -> None:
    """The others are told what is there now; none is lost and none overwritten."""
    texts = [text(f"1.0.{number}") for number in range(16)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(partial(put, own_plane), texts))

    history = own_plane.client.get(f"/api/v1/apps/{ID}").json()["history"]
    published = [answer.json()["version"] for answer in answers if answer.status_code in (200, 201)]
    assert {answer.status_code for answer in answers} <= {200, 201, 409}
    assert [one["version"] for one in history] == sorted(published, key=lambda version: -int(version.split(".")[2]))
    assert [answer.status_code for answer in answers].count(201) == 1

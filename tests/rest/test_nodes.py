"""Nodes through a running server: the wire of the AgentField SDKs, and what is better than theirs."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.servers import ControlPlane, registration


def health(plane: ControlPlane, agent_id: str) -> tuple[str, str]:
    status = plane.client.get(f"/api/v1/nodes/{agent_id}/status").json()["status"]
    return status["health_status"], status["reason"]


@pytest.mark.parametrize("path", ["/api/v1/nodes/register", "/api/v1/nodes"])
def test_registering_is_answered_with_what_sdks_read(plane: ControlPlane, path: str) -> None:
    """201, the id, the address that will be called."""
    answer = plane.client.post(path, json=registration("a", {"r": []}))

    assert answer.status_code == 201
    body = answer.json()
    assert (body["success"], body["node_id"], body["resolved_base_url"]) == (True, "a", "http://127.0.0.1:1")
    assert body["callback_discovery"]["resolved"] == "http://127.0.0.1:1"


def test_oddities_are_accepted_and_named(plane: ControlPlane) -> None:
    """Nothing but id and address can be wrong enough to refuse an agent."""
    reasoners: list[dict[str, Any]] = [{"id": "r", "tags": None}, {"tags": []}]
    odd = registration("a") | {"reasoners": reasoners, "skills": None, "x": 1}
    answer = plane.client.post("/api/v1/nodes/register", json=odd)

    assert answer.status_code == 201
    assert len(answer.json()["warnings"]) == 1


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"", 400, "invalid_request"),
        (b"{", 400, "invalid_request"),
        (b"[]", 400, "invalid_request"),
        (b'{"id": "a"}', 400, "invalid_request"),
        (b'{"id": "", "base_url": "http://a"}', 400, "invalid_request"),
        (b'{"id": "a", "base_url": "ftp://a"}', 400, "invalid_request"),
        (b'{"id": "a", "base_url": "http://169.254.169.254/x"}', 400, "invalid_request"),
        (b'{"id": "a", "base_url": "http://2852039166/"}', 400, "invalid_request"),
        (b'{"id": "a", "base_url": "http://[::ffff:169.254.169.254]/"}', 400, "invalid_request"),
        (b'{"id": "a", "base_url": "http://metadata.google.internal"}', 400, "invalid_request"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "invalid_request"),
        (b'{"id": "' + b"x" * 1_100_000 + b'"}', 413, "payload_too_large"),
    ],
)
def test_a_body_that_cannot_be_used_is_refused_and_leaves_nothing(
    plane: ControlPlane, body: bytes, status: int, word: str
) -> None:
    """With a JSON body that says why."""
    answer = plane.client.post("/api/v1/nodes/register", content=body)

    assert (answer.status_code, answer.json()["error"]) == (status, word)
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert plane.client.get("/api/v1/nodes?show_all=true").json()["count"] == 0


@pytest.mark.parametrize("agent", ["a", "nobody", "a/b", ""])
@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"status":"degraded"}', b'{"status":3}', b"[]", b"{", b"\xff", b" " * 5000]
)
def test_a_heartbeat_in_one_piece_and_one_in_several_get_the_same_answer(
    plane: ControlPlane, agent: str, body: bytes
) -> None:
    """The short way is for what is as usual, and says nothing else than the long one."""
    plane.register(registration("a", {"think": []}), registration("a/b", {"think": []}))

    def pieces() -> Iterator[bytes]:
        for byte in body or b" ":
            yield bytes([byte])
            time.sleep(0.02 if len(body) < 100 else 0.0)

    address = f"/api/v1/nodes/{agent}/heartbeat"
    whole, parts = (plane.client.post(address, content=content) for content in (body, pieces()))

    said = [{**answer.json(), "timestamp": "", "request_id": ""} for answer in (whole, parts)]
    assert (whole.status_code, said[0]) == (parts.status_code, said[1])
    assert whole.headers["content-type"] == parts.headers["content-type"]
    assert whole.headers["x-request-id"] != parts.headers["x-request-id"]


def test_heartbeats_and_their_oddities_are_taken_in(plane: ControlPlane) -> None:
    """With a body, with none, with a naive time; an unknown node is told to register."""
    plane.register(registration("a", {"r": []}, lifecycle_status="starting"))
    assert health(plane, "a")[0] == "unknown"

    beat = {"status": "ready", "timestamp": "2026-11-15T00:11:56.263994", "version": "2.3.1"}
    answer = plane.client.post("/api/v1/nodes/a/heartbeat", json=beat)
    assert (answer.status_code, answer.json()["message"]) == (200, "heartbeat received")
    assert health(plane, "a") == ("active", "first heartbeat")
    assert plane.client.post("/api/v1/nodes/a/heartbeat").status_code == 200
    assert plane.client.post("/api/v1/nodes/a/heartbeat", content=b"[]").status_code == 400
    assert plane.client.post("/api/v1/nodes/nobody/heartbeat").status_code == 404


def test_leases_are_granted_and_refused_by_phase(plane: ControlPlane) -> None:
    """`PATCH status`, as the Go SDK does it."""
    plane.register(registration("a", {"r": []}))

    answer = plane.client.patch("/api/v1/nodes/a/status", json={"phase": "ready", "health_score": 100})
    assert (answer.status_code, answer.json()["lease_seconds"]) == (200, 300)
    status = plane.client.get("/api/v1/nodes/a/status").json()["status"]
    assert (status["lease_s"], status["expected_every_s"]) == (300, 120)
    assert plane.client.patch("/api/v1/nodes/a/status", json={"phase": None, "status": "ready"}).status_code == 200
    wrong = plane.client.patch("/api/v1/nodes/a/status", json={"phase": "dancing"})
    assert (wrong.status_code, wrong.json()["message"]) == (
        400,
        "unsupported phase: dancing. Must be one of: starting, ready, degraded, offline",
    )
    plane.client.patch("/api/v1/nodes/a/status", json={"phase": "degraded"})
    assert health(plane, "a") == ("degraded", "says it is degraded")


def test_a_goodbye_is_final_until_the_agent_registers_again(plane: ControlPlane) -> None:
    """A heartbeat that comes late does not bring a dead agent back."""
    plane.register(registration("a", {"r": []}))
    answer = plane.client.post("/api/v1/nodes/a/shutdown", json={"reason": "signal", "timeout_seconds": 30.0})

    assert (answer.status_code, answer.json()["message"]) == (202, "shutdown acknowledged")
    assert plane.client.post("/api/v1/nodes/a/heartbeat").status_code == 200
    assert health(plane, "a") == ("inactive", "shut down (signal)")
    plane.register(registration("a", {"r": []}))
    assert health(plane, "a") == ("active", "registered")


def test_nodes_are_listed_by_health_and_shown_as_they_registered(plane: ControlPlane) -> None:
    """Active ones unless all are asked for; each with lifecycle, reason and since when."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    first = registration("b") | {"reasoners": [{"id": "r", "input_schema": schema, "description": "d", "tags": ["t"]}]}
    plane.register(first, registration("a", {"r": []}))
    plane.client.post("/api/v1/nodes/a/shutdown")

    def ids(query: str) -> list[str]:
        return [node["id"] for node in plane.client.get(f"/api/v1/nodes{query}").json()["nodes"]]

    assert (ids(""), ids("?show_all=true"), ids("?health_status=inactive")) == (["b"], ["a", "b"], ["a"])
    assert plane.client.get("/api/v1/nodes?health_status=dead").status_code == 400
    node = plane.client.get("/api/v1/nodes/b").json()
    assert node["reasoners"] == [{"id": "r", "description": "d", "tags": ["t"], "input_schema": schema}]
    assert (node["health_status"], node["lifecycle_status"], node["health_reason"]) == ("active", "ready", "registered")
    assert plane.client.get("/api/v1/nodes/nobody").status_code == 404


def test_a_node_can_be_removed(plane: ControlPlane) -> None:
    """Then it is unknown to everybody."""
    plane.register(registration("com.example.agent/one", {"r": []}))

    assert plane.client.delete("/api/v1/nodes/com.example.agent%2Fone").status_code == 200
    assert plane.client.delete("/api/v1/nodes/com.example.agent%2Fone").status_code == 404
    assert plane.client.post("/api/v1/nodes/com.example.agent%2Fone/heartbeat").status_code == 404


def test_paths_and_methods_that_do_not_exist_are_told_what_does(plane: ControlPlane) -> None:
    """As JSON, with a request id."""
    lost = plane.client.get("/api/v1/nods")
    wrong = plane.client.put("/api/v1/nodes")

    assert (lost.status_code, lost.json()["details"]["nearest"][0]) == (404, "/api/v1/nodes")
    assert (wrong.status_code, wrong.json()["error"]) == (405, "method_not_allowed")
    assert (wrong.headers["allow"], wrong.json()["details"]["allowed"]) == ("GET, HEAD, POST", ["GET", "HEAD", "POST"])
    assert plane.client.post("/api/v1/nodes/x").headers["allow"] == "DELETE, GET, HEAD"
    assert wrong.json()["request_id"] == wrong.headers["x-request-id"]
    assert plane.client.post("/api/v1/discovery/capabilities").headers["allow"] == "GET, HEAD"


def test_the_did_endpoint_answers_at_once_that_it_is_not_there(plane: ControlPlane) -> None:
    """The Python SDK waits for it, and goes on after a 404."""
    assert plane.client.post("/api/v1/did/register", json={}).status_code == 404


@pytest.mark.parametrize("document", json.loads('[{"reasoners": "x"}, {"metadata": 5}, {"tags": {"a": 1}}]'))
def test_wrong_types_are_left_out(plane: ControlPlane, document: dict[str, Any]) -> None:
    """And the agent is in."""
    assert plane.client.post("/api/v1/nodes/register", json=registration("a") | document).status_code == 201

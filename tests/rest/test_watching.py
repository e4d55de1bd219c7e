"""What people and monitors see: health, readiness, metrics, logs, documents, keys."""

import re
from pathlib import Path

import pytest
from tests.caching import ON
from tests.servers import ControlPlane, registration
from tests.support import requirement

from switchboard import __version__


def test_health_and_readiness_are_answered(plane: ControlPlane) -> None:
    """With version, number of agents and the state of the store."""
    plane.register(registration("a", {"r": []}))
    body = plane.client.get("/health").json()

    assert (body["status"], body["version"], body["agents"], body["store"]["status"]) == (
        "healthy",
        __version__,
        1,
        "ok",
    )
    assert plane.client.get("/ready").json() == {"ready": True}


def test_the_contract_is_served_to_programs_and_people(plane: ControlPlane) -> None:
    """`/openapi.json` and `/docs`, the latter without anything from elsewhere."""
    contract = plane.client.get("/openapi.json").json()
    page = plane.client.get("/docs").text

    assert contract["openapi"].startswith("3.1")
    assert all(path in page for path in contract["paths"])
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)


@requirement(
    "metrics:discovery:requests",
    "metrics:discovery:duration",
    "metrics:discovery:cache-hits",
    "metrics:discovery:cache-misses",
    "metrics:discovery:cache-size",
    "metrics:discovery:filter-usage",
    "metrics:discovery:derived",
)
def test_every_metric_of_the_seed_counts(caching_plane: ControlPlane) -> None:
    """Requests by format and outcome, durations, cache, filters; the usual rates follow from them."""
    caching_plane.register(registration("a", {"r": ["t"]}))
    for query in ("", "format=xml", "format=compact&reasoner=r&skill=s&tags=t&agent=a", "tags=t"):
        caching_plane.raw(query)
    caching_plane.raw("format=yaml")

    def requests(form: str, status: str) -> float:
        return caching_plane.metric(f'agentfield_discovery_requests_total{{format="{form}",status="{status}"}}')

    assert [requests(form, "success") for form in ("json", "xml", "compact")] == [2, 1, 1]
    assert requests("json", "error") == 1
    assert caching_plane.metric('agentfield_discovery_request_duration_seconds_count{format="json"}') == 2
    assert caching_plane.metric('agentfield_discovery_request_duration_seconds_sum{format="json"}') > 0
    hits = caching_plane.metric("agentfield_discovery_cache_hits_total")
    misses = caching_plane.metric("agentfield_discovery_cache_misses_total")
    assert hits + misses == 4
    assert caching_plane.metric("agentfield_discovery_cache_size_bytes") > 0
    usage = {
        name: caching_plane.metric(f'agentfield_discovery_filter_usage{{filter_type="{name}"}}')
        for name in ("reasoner", "skill", "tag", "agent")
    }
    assert usage == {"reasoner": 1, "skill": 1, "tag": 2, "agent": 1}


@requirement(
    "discovery:case:15",
    "cache:agents:read-through",
    "cache:agents:ttl",
    "cache:queries:at-most-one",
    "cache:queries:one-listing",
)
def test_a_miss_asks_the_store_once_and_hits_follow(tmp_path: Path) -> None:
    """With a time to live of nothing every request misses; with thirty seconds the next ones hit."""
    never, usual = tmp_path / "never", tmp_path / "usual"
    never.mkdir()
    usual.mkdir()
    missing = ControlPlane(never, **ON, SWITCHBOARD_CACHE_TTL="0")
    hitting = ControlPlane(usual, **ON)

    counts: list[tuple[float, float]] = []
    for plane in (missing, hitting):
        plane.register(registration("a", {"r": ["t"]}))
        for query in ("", "reasoner=*", "tags=t&include_input_schema=true"):
            assert plane.raw(query).json()["total_agents"] == 1
        counts.append(
            (
                plane.metric("agentfield_discovery_cache_misses_total"),
                plane.metric("agentfield_discovery_cache_hits_total"),
            )
        )
        plane.stop()
    assert counts == [(3, 0), (0, 3)]


@requirement(
    "logs:discovery:received",
    "logs:discovery:cache",
    "logs:discovery:filters",
    "logs:discovery:sent",
    "logs:format:json",
    "logs:format:completed",
    "logs:format:filters",
    "logs:format:results",
)
def test_every_log_event_of_the_seed_is_written(caching_plane: ControlPlane) -> None:
    """JSON, with exactly the fields of section 7.2, at the levels stated."""
    caching_plane.register(registration("agent-1", {"deep_research": []}, {"s": []}))
    caching_plane.raw("agent_ids=agent-1,agent-2&reasoner=*research*", **{"X-Request-ID": "req_abc123"})
    caching_plane.stop()

    events = [event for event in caching_plane.events() if event.get("request_id") == "req_abc123"]
    assert [(event["level"], event["message"]) for event in events] == [
        ("debug", "discovery request received"),
        ("debug", "discovery cache hit"),
        ("debug", "discovery filters applied"),
        ("info", "discovery request completed"),
    ]
    completed = events[-1]
    assert list(completed) == [
        "level",
        "timestamp",
        "message",
        "request_id",
        "filters",
        "results",
        "duration_ms",
        "cache_hit",
    ]
    assert completed["filters"] == {
        "agent_ids": ["agent-1", "agent-2"],
        "reasoner": "*research*",
        "format": "json",
    }
    assert completed["results"] == {"agents": 1, "reasoners": 1, "skills": 0}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", completed["timestamp"])
    assert completed["cache_hit"] is True


@pytest.mark.parametrize("header", [{"X-API-Key": "k-123"}, {"Authorization": "Bearer k-123"}])
def test_with_a_key_only_those_who_have_it_come_in(tmp_path: Path, header: dict[str, str]) -> None:
    """By either header; monitors need none; the key is in no log and no error."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_API_KEY="k-123")

    refused = plane.client.get("/api/v1/discovery/capabilities", headers={"X-Request-ID": "mine"})
    assert (refused.status_code, refused.json()["error"], refused.json()["request_id"]) == (401, "unauthorized", "mine")
    assert plane.client.get("/api/v1/nodes", headers={"X-API-Key": "k-124"}).status_code == 401
    assert plane.client.post("/api/v1/nodes/register", json=registration("a")).status_code == 401
    assert plane.client.get("/api/v1/discovery/capabilities", headers=header).status_code == 200
    assert plane.client.get("/health").status_code == 200
    plane.stop()
    assert "k-123" not in str(plane.events())

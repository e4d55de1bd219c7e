"""GET /api/v1/discovery/capabilities through a running server: filters, flags, paging, freshness, caching."""

import gzip
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import zstandard
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane, registration
from tests.support import requirement

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Research query or topic"},
        "depth": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3, "description": "Research depth level"},
    },
    "required": ["query"],
}
OUTPUT = {"type": "object", "properties": {"findings": {"type": "array"}}}
EXAMPLES = [
    {"name": "Basic research query", "input": {"query": "quantum"}, "description": "Mid-depth research"},
    {"input": {"query": "x"}, "description": "An example without a name"},
]
RESEARCH = registration(
    "agent-research-001",
    version="2.3.1",
    lifecycle_status="ready",
    metadata={"custom": {"secret_score": 7}},
    reasoners=None,
    skills=None,
) | {
    "reasoners": [
        {
            "id": "deep_research",
            "description": "Performs comprehensive research",
            "tags": ["research", "ml", "synthesis"],
            "input_schema": SCHEMA,
            "output_schema": OUTPUT,
            "examples": EXAMPLES,
        }
    ],
    "skills": [
        {"id": "web_search", "description": "Search the web", "tags": ["web", "search"], "input_schema": SCHEMA}
    ],
}
CATALOG = [
    RESEARCH,
    registration(
        "agent-1", {"web_researcher": ["deep_research"]}, {"web_parser": ["html"]}, lifecycle_status="degraded"
    ),
    registration("agent-2", {"summarise": ["mlops"]}),
    registration("agent-3", {}, {"web_scraper": ["web"]}),
]


@pytest.fixture
def catalog(plane: ControlPlane) -> ControlPlane:
    plane.register(*CATALOG)
    plane.client.post("/api/v1/nodes/agent-3/shutdown")
    return plane


def agents(answer: dict[str, Any]) -> list[str]:
    return [agent["agent_id"] for agent in answer["capabilities"]]


def targets(answer: dict[str, Any]) -> list[str]:
    return [
        item["invocation_target"]
        for agent in answer["capabilities"]
        for item in (*agent["reasoners"], *agent["skills"])
    ]


@requirement(
    "discovery:case:01",
    "discovery:scenario:1",
    "discovery:endpoint:path",
    "discovery:endpoint:single",
    "discovery:endpoint:agent-data",
)
def test_everything_that_registered_is_discovered_by_one_request(catalog: ControlPlane) -> None:
    """Agents by id, with reasoners, skills and schemas."""
    answer = catalog.discover(include_input_schema="true", include_output_schema="true")

    assert agents(answer) == ["agent-1", "agent-2", "agent-3", "agent-research-001"]
    assert (answer["total_agents"], answer["total_reasoners"], answer["total_skills"]) == (4, 3, 3)
    found = answer["capabilities"][3]
    assert (found["health_status"], found["version"]) == ("active", "2.3.1")
    assert found["reasoners"][0]["output_schema"] == OUTPUT


@requirement("discovery:case:02", "discovery:case:04", "discovery:http:agent", "discovery:http:agent-id")
@pytest.mark.parametrize("name", ["agent", "node_id", "agent_id"])
def test_one_agent_is_answered_by_any_of_its_names(catalog: ControlPlane, name: str) -> None:
    """`agent`, `node_id` and `agent_id` are the same."""
    assert agents(catalog.discover(**{name: "agent-research-001"})) == ["agent-research-001"]


@requirement("discovery:case:03", "discovery:http:agent-ids")
@pytest.mark.parametrize("name", ["agent_ids", "node_ids"])
def test_several_agents_are_answered(catalog: ControlPlane, name: str) -> None:
    """And no other."""
    assert agents(catalog.discover(**{name: "agent-1,agent-2"})) == ["agent-1", "agent-2"]


@requirement(
    "discovery:case:05", "discovery:case:07", "discovery:case:08", "discovery:http:reasoner", "discovery:http:skill"
)
def test_wildcards_choose_reasoners_and_skills(catalog: ControlPlane) -> None:
    """Contains, prefix and suffix, for each kind alone."""
    assert targets(catalog.discover(reasoner="*research*")) == [
        "agent-1:web_researcher",
        "agent-research-001:deep_research",
    ]
    assert targets(catalog.discover(reasoner="deep_*")) == ["agent-research-001:deep_research"]
    assert targets(catalog.discover(reasoner="*marise")) == ["agent-2:summarise"]
    assert targets(catalog.discover(skill="web_*")) == [
        "agent-1:skill:web_parser",
        "agent-3:skill:web_scraper",
        "agent-research-001:skill:web_search",
    ]


@requirement("discovery:case:06", "discovery:http:tags")
def test_tags_choose_with_wildcards(catalog: ControlPlane) -> None:
    """Any of the tags is enough."""
    assert targets(catalog.discover(tags="ml*,*_research")) == [
        "agent-1:web_researcher",
        "agent-2:summarise",
        "agent-research-001:deep_research",
    ]


@requirement(
    "discovery:case:09",
    "discovery:http:input-schema",
    "discovery:http:output-schema",
    "discovery:http:examples",
    "discovery:http:descriptions",
    "discovery:flags:descriptions-default",
    "format:json:reasoner-input-schema",
    "format:json:output-schema",
    "format:json:skill-input-schema",
    "format:json:examples",
    "format:json:example-without-name",
)
def test_schemas_examples_and_descriptions_come_as_asked_for(catalog: ControlPlane) -> None:
    """As they were registered, and absent otherwise."""
    plain = catalog.discover(agent="agent-research-001")["capabilities"][0]
    full = catalog.discover(
        agent="agent-research-001",
        include_input_schema="true",
        include_output_schema="true",
        include_examples="true",
        include_descriptions="false",
    )["capabilities"][0]

    assert set(plain["reasoners"][0]) == {"id", "description", "tags", "invocation_target"}
    assert set(plain["skills"][0]) == {"id", "description", "tags", "invocation_target"}
    assert full["reasoners"][0] == {
        "id": "deep_research",
        "tags": ["research", "ml", "synthesis"],
        "input_schema": SCHEMA,
        "output_schema": OUTPUT,
        "examples": EXAMPLES,
        "invocation_target": "agent-research-001:deep_research",
    }
    assert full["skills"][0]["input_schema"] == SCHEMA
    assert "output_schema" not in full["skills"][0]


@requirement(
    "discovery:case:10",
    "format:json:discovered-at",
    "format:json:totals",
    "format:json:pagination",
    "format:json:capabilities",
    "format:json:agent",
    "format:json:agent-lists",
    "format:json:agent-metadata",
    "format:json:reasoner",
    "format:json:skill",
)
def test_the_json_answer_has_the_layout_of_the_seed(catalog: ControlPlane) -> None:
    """Section 3.4, key by key; nothing of the agent's own metadata."""
    answer = catalog.discover(agent="agent-research-001")

    assert list(answer) == [
        "discovered_at",
        "total_agents",
        "total_reasoners",
        "total_skills",
        "pagination",
        "capabilities",
    ]
    assert answer["pagination"] == {"limit": 100, "offset": 0, "has_more": False}
    assert abs((datetime.fromisoformat(answer["discovered_at"]) - datetime.now(UTC)).total_seconds()) < 60
    (agent,) = answer["capabilities"]
    heartbeat = agent.pop("last_heartbeat")
    assert heartbeat.endswith("Z")
    assert datetime.fromisoformat(heartbeat)
    assert {key: value for key, value in agent.items() if key not in ("reasoners", "skills")} == {
        "agent_id": "agent-research-001",
        "group_id": "agent-research-001",
        "base_url": "http://127.0.0.1:1",
        "version": "2.3.1",
        "health_status": "active",
        "deployment_type": "long_running",
    }
    assert agent["skills"][0] == {
        "id": "web_search",
        "description": "Search the web",
        "tags": ["web", "search"],
        "invocation_target": "agent-research-001:skill:web_search",
    }


@requirement("format:json:empty-lists")
def test_empty_lists_are_lists(plane: ControlPlane) -> None:
    """Never null, at any place."""
    assert plane.discover()["capabilities"] == []
    plane.register(registration("a", {"r": []}))

    (agent,) = plane.discover()["capabilities"]
    assert (agent["skills"], agent["reasoners"][0]["tags"]) == ([], [])
    assert plane.discover(format="compact", skill="*")["skills"] == []


@requirement(
    "discovery:case:12",
    "format:compact:keys",
    "format:compact:flat",
    "format:compact:item",
    "format:compact:target",
    "format:compact:smaller",
    "format:compact:descriptions",
)
def test_the_compact_answer_is_two_flat_lists(catalog: ControlPlane) -> None:
    """Section 3.6; descriptions only for those who ask for them."""
    answer = catalog.discover(format="compact")

    assert list(answer) == ["discovered_at", "reasoners", "skills"]
    assert answer["reasoners"][2] == {
        "id": "deep_research",
        "agent_id": "agent-research-001",
        "target": "agent-research-001:deep_research",
        "tags": ["research", "ml", "synthesis"],
    }
    whole = catalog.discover()
    assert sorted(item["target"] for item in (*answer["reasoners"], *answer["skills"])) == sorted(targets(whole))
    assert len(json.dumps(answer)) < len(json.dumps(whole))
    described = catalog.discover(format="compact", include_descriptions="true")
    assert described["skills"][2]["description"] == "Search the web"
    assert "description" not in described["skills"][0]


@requirement("discovery:case:13", "discovery:http:limit", "discovery:http:offset", "discovery:scenario:4")
def test_a_large_result_is_paged_through_each_agent_once(plane: ControlPlane) -> None:
    """By `limit` and `offset`, and by following the `Link` header; totals stay the same."""
    expected = [f"agent-{i:03}" for i in range(230)]
    plane.register(*(registration(agent_id, {"work": ["t"]}) for agent_id in expected))

    first = plane.discover()
    assert (len(first["capabilities"]), first["total_agents"], first["pagination"]["has_more"]) == (100, 230, True)
    assert agents(plane.discover(limit="50", offset="100")) == expected[100:150]
    for parameters in ("limit=50&tags=t*&include_input_schema=true", "limit=50&format=compact"):
        seen: list[str] = []
        link: str | None = f"/api/v1/discovery/capabilities?{parameters}"
        while link is not None:
            answer = plane.client.get(link)
            assert answer.headers["x-total-count"] == "230"
            document = answer.json()
            seen += agents(document) if "capabilities" in document else [r["agent_id"] for r in document["reasoners"]]
            found = re.fullmatch(r'<(.+)>; rel="next"', answer.headers.get("link", ""))
            link = found[1] if found else None
        assert seen == expected


@requirement("discovery:case:14", "discovery:http:health-status")
@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ("active", ["agent-2", "agent-research-001"]),
        ("degraded", ["agent-1"]),
        ("inactive", ["agent-3"]),
        ("unknown", []),
    ],
)
def test_health_chooses_agents(catalog: ControlPlane, health: str, expected: list[str]) -> None:
    """Each state really occurs."""
    assert agents(catalog.discover(health_status=health)) == expected


@requirement(
    "discovery:case:16",
    "errors:discovery:bad-request",
    "errors:discovery:details",
    "errors:discovery:format-message",
    "errors:discovery:actionable",
)
def test_wrong_parameters_are_told_what_would_be_right(plane: ControlPlane) -> None:
    """The body of section 3.7, with a request id that is also in the header."""
    answer = plane.raw("format=yaml")
    body = answer.json()

    assert answer.status_code == 400
    assert body["request_id"] == answer.headers["x-request-id"]
    assert {key: body[key] for key in ("error", "message", "details")} == {
        "error": "invalid_parameter",
        "message": "Invalid format parameter. Must be one of: json, xml, compact",
        "details": {"parameter": "format", "provided": "yaml", "allowed": ["json", "xml", "compact"]},
    }
    for query, parameter in [
        ("limit=501", "limit"),
        ("limit=10abc", "limit"),
        ("offset=-1", "offset"),
        ("health_status=", "health_status"),
        ("include_examples=maybe", "include_examples"),
        ("tag=ml", "tag"),
    ]:
        refused = plane.raw(query)
        assert (refused.status_code, refused.json()["details"]["parameter"]) == (400, parameter)
    assert "Did you mean tags?" in plane.raw("tag=ml").json()["message"]
    assert plane.raw("&".join(["tags=a"] * 200)).status_code == 400


@requirement("discovery:http:format")
def test_the_format_decides_the_content_type(catalog: ControlPlane) -> None:
    """JSON unless something else is asked for."""
    kinds = {query: catalog.raw(query).headers["content-type"] for query in ("", "format=compact", "format=xml")}

    assert kinds == {
        "": "application/json; charset=utf-8",
        "format=compact": "application/json; charset=utf-8",
        "format=xml": "application/xml; charset=utf-8",
    }


@requirement("cache:invalidate:register", "cache:invalidate:deregister", "discovery:scenario:3")
def test_every_change_is_in_the_next_answer(plane: ControlPlane) -> None:
    """Registering, changing, falling ill, leaving and being removed."""
    plane.register(registration("a", {"one": []}))
    assert targets(plane.discover()) == ["a:one"]
    plane.register(registration("a", {"two": []}, version="2.0.0"))
    assert targets(plane.discover()) == ["a:two"]
    assert plane.discover()["capabilities"][0]["version"] == "2.0.0"
    plane.client.post("/api/v1/nodes/a/heartbeat", json={"status": "degraded"})
    assert plane.discover()["capabilities"][0]["health_status"] == "degraded"
    plane.client.post("/api/v1/nodes/a/shutdown")
    assert plane.discover()["capabilities"][0]["health_status"] == "inactive"

    plane.client.delete("/api/v1/nodes/a")
    assert plane.discover()["total_agents"] == 0


def test_a_caller_who_has_the_answer_gets_304_until_something_changes(catalog: ControlPlane) -> None:
    """Weak ETags by version and question; equal questions have equal tags, whatever their spelling."""
    first = catalog.raw("tags=ml*,web")
    etag = first.headers["etag"]

    assert etag.startswith('W/"')
    assert catalog.raw("tags=web,ml*").headers["etag"] == etag
    assert catalog.raw("tags=web").headers["etag"] != etag
    again = catalog.raw("tags=ml*,web", **{"If-None-Match": f'"other", {etag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert catalog.raw("tags=ml*,web", **{"If-None-Match": etag.removeprefix("W/")}).status_code == 304
    catalog.client.post("/api/v1/nodes/agent-2/heartbeat")
    assert catalog.raw("tags=ml*,web", **{"If-None-Match": etag}).status_code == 304
    catalog.client.post("/api/v1/nodes/agent-2/shutdown")
    assert catalog.raw("tags=ml*,web", **{"If-None-Match": etag}).status_code == 200


def test_answers_are_compressed_for_those_who_accept_it(plane: ControlPlane) -> None:
    """Zstd before gzip; not for a refusal with q=0, not for small answers."""
    plane.register(*(registration(f"agent-{i}", {"work": ["t"]}) for i in range(30)))
    url = f"{plane.url}/api/v1/discovery/capabilities"
    sent: dict[str, tuple[str, bytes]] = {}
    for accepted in ("zstd, gzip", "gzip", "zstd;q=0, gzip", "br", "identity"):
        with plane.client.stream("GET", url, headers={"Accept-Encoding": accepted}) as answer:
            sent[accepted] = (answer.headers.get("content-encoding", ""), b"".join(answer.iter_raw()))

    assert {accepted: encoding for accepted, (encoding, _) in sent.items()} == {
        "zstd, gzip": "zstd",
        "gzip": "gzip",
        "zstd;q=0, gzip": "gzip",
        "br": "",
        "identity": "",
    }
    plain = zstandard.ZstdDecompressor().decompress(sent["zstd, gzip"][1])
    assert json.loads(plain)["total_agents"] == json.loads(gzip.decompress(sent["gzip"][1]))["total_agents"] == 30


def test_an_id_with_a_comma_is_paged_like_any_other(plane: ControlPlane) -> None:
    """The next page asks the same question."""
    plane.register(*(registration(name, {"r": []}) for name in ("x,1", "x,2", "a", "b")))

    first = plane.raw("agent=x,*&limit=1")
    link = first.headers["link"].partition(">")[0][1:]
    assert first.json()["total_agents"] == 2
    second = plane.client.get(link).json()
    assert (second["total_agents"], agents(second)) == (2, ["x,2"])
    many = plane.raw("limit=1&agent_ids=" + ",".join(["a", "b", *(f"n{i}" for i in range(400))]))
    assert agents(plane.client.get(many.headers["link"].partition(">")[0][1:]).json()) == ["b"]


def test_a_heartbeat_shows_within_a_second_although_nothing_changed(plane: ControlPlane) -> None:
    """Answers are re-used for the rest of their second, no longer."""
    plane.register(registration("a", {"r": []}))
    before = plane.discover()["capabilities"][0]["last_heartbeat"]

    def newer() -> bool:
        plane.client.post("/api/v1/nodes/a/heartbeat")
        return plane.discover()["capabilities"][0]["last_heartbeat"] > before

    wait_until(newer, 5)
    assert plane.raw().headers["vary"] == "Accept-Encoding"


def test_a_schema_with_endless_lists_is_rendered_at_once(plane: ControlPlane) -> None:
    """Half a megabyte of required names does not hold up anybody."""
    properties: dict[str, Any] = {f"p{i}": {} for i in range(5000)}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": [""] * 60_000}
    plane.register(registration("a") | {"reasoners": [{"id": "r", "input_schema": schema}]})

    assert plane.raw("format=xml&include_input_schema=true").text.count("<field ") == 5000


def test_head_is_get_without_the_body(catalog: ControlPlane) -> None:
    """With the same headers."""
    answer = catalog.client.head("/api/v1/discovery/capabilities")

    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


def test_a_request_id_of_the_caller_is_kept_if_it_is_sensible(plane: ControlPlane) -> None:
    """Otherwise every request gets its own."""
    assert plane.raw("", **{"X-Request-ID": "my-trace-7"}).headers["x-request-id"] == "my-trace-7"
    assert plane.raw("", **{"X-Request-ID": "x" * 500}).headers["x-request-id"].startswith("req_")
    assert plane.raw("", **{"X-Request-ID": "a\tb"}).headers["x-request-id"].startswith("req_")
    assert plane.raw().headers["x-request-id"] != plane.raw().headers["x-request-id"]

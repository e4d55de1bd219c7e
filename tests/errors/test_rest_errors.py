"""Every refusal of the REST face, provoked on a real control plane: what happened, why, and what to do next."""

import sqlite3
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.databases import Postgres
from tests.errors.rows import Row, missing, name_of
from tests.gateways import Page, Site, web_app
from tests.instances import running, until
from tests.servers import ControlPlane, registration
from tests.support import requirement

from switchboard.catalog import errors
from switchboard.rest.answers import STATUS

BROKEN = Path(__file__).with_name("broken_plane.py")
KEYS = {"default": "front-door", "guest": "side-door"}
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
DISCOVER = "/api/v1/discovery/capabilities"


class Ground:
    """A control plane with keys, a rule, and agents of which some do not answer."""

    def __init__(self, folder: Path) -> None:
        self.site = Site(
            {"/skills/silent": Page(silent=True), "/skills/large": Page(body=b"x" * (16 * 1024 * 1024 + 1))}
        )
        config = folder / "plane.toml"
        config.write_text('[keys]\ndefault = "front-door"\nguest = "side-door"\n[allow]\n"secret-*" = ["default"]\n')
        self.plane = ControlPlane(folder, "--config", str(config), SWITCHBOARD_AGENT_TIMEOUT="0.5")
        self.plane.client.headers["X-API-Key"] = KEYS["default"]
        writer = registration("writer", skills={"silent": [], "large": []}, base_url=self.site.url)
        writer["reasoners"] = [{"id": "summarise", "input_schema": SCHEMA}]
        self.plane.register(
            writer, registration("gone", skills={"go": []}), registration("secret-agent", skills={"go": []})
        )

    def ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Return the body of a refusal, with its status; it has its id in a header, too."""
        answer = self.plane.client.request(method, path, **more)
        said: dict[str, Any] = answer.json()
        if "error_message" not in said:  # an execution that ended badly is no refusal, and has its own shape
            assert said["request_id"] == answer.headers["X-Request-ID"]
        return {**said, "status": answer.status_code}

    def close(self) -> None:
        """End everything."""
        self.plane.stop()
        self.site.close()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Generator[Ground]:
    built = Ground(tmp_path_factory.mktemp("plane"))
    yield built
    built.close()


Provoke = Callable[[Ground], dict[str, Any]]


def asking(method: str, path: str, **more: Any) -> Provoke:
    return lambda ground: ground.ask(method, path, **more)


def executing(target: str, **given: Any) -> Provoke:
    return asking("POST", f"/api/v1/execute/{target}", json={"input": given})


def publishing_twice(ground: Ground) -> dict[str, Any]:
    app = web_app("com.example.shop", "https://shop.example.com")
    ground.plane.client.put("/api/v1/apps/com.example.shop", json=app).raise_for_status()
    return ground.ask("PUT", "/api/v1/apps/com.example.shop", json={**app, "tools": []})


ROWS: list[Row[Ground]] = [
    Row(
        errors.Conflict,
        publishing_twice,
        "com.example.shop 1.0.0 is published with another text",
        "one version is one text for ever",
        "Publish this one as",
    ),
    Row(
        errors.InvalidQuery,
        asking("GET", f"{DISCOVER}?format=yaml"),
        "Invalid format parameter",
        "",
        "Must be one of: json, xml, compact",
    ),
    Row(
        errors.InvalidQuery,
        asking("GET", f"{DISCOVER}?taggs=ml"),
        "Unknown parameter taggs",
        "",
        "Did you mean tags?",
    ),
    Row(
        errors.InvalidQuery,
        asking("GET", f"{DISCOVER}?limit=10abc"),
        "Invalid limit parameter",
        "",
        "Must be",
    ),
    Row(
        errors.InvalidQuery,
        asking("GET", "/api/v1/executions/x?wait=long"),
        "Invalid wait parameter",
        "",
        "Must be seconds, 0-",
    ),
    Row(
        errors.InvalidTarget,
        executing("nonsense"),
        "'nonsense' is not a target",
        "",
        "Write agent:reasoner, agent:skill:name or app:tool",
    ),
    Row(
        errors.NotJson,
        asking("POST", "/api/v1/execute/writer:summarise", content=b"{half"),
        "The body is not JSON",
        "malformed",
        "Send a JSON object",
    ),
    Row(
        errors.InvalidDescriptor,
        asking("POST", "/api/v1/nodes/register", json=[1]),
        "The registration cannot be read",
        "expected an object, found a list",
        "Send an object",
    ),
    Row(
        errors.InvalidDescriptor,
        asking("POST", "/api/v1/nodes/register", json=registration("bad", base_url="http://169.254.169.254")),
        "The registration's base_url",
        "",
        "Give an address at which the agent can be reached",
    ),
    Row(
        errors.InvalidRequest,
        asking("POST", "/api/v1/execute/writer:summarise", json={"input": [1]}),
        "input must be an object",
        "",
        "Put every parameter into it by its name",
    ),
    Row(
        errors.RequestTooLarge,
        asking("POST", "/api/v1/execute/writer:summarise", content=b" " * (16 * 1024 * 1024 + 1)),
        "The body is larger than 16777216 bytes",
        "",
        "Send less",
    ),
    Row(
        errors.TooManyValues,
        asking("POST", "/api/v1/execute/writer:summarise", content=b"[" + b"1," * 500_001 + b"1]"),
        "The body has more than 500000 values",
        "",
        "Send less",
    ),
    Row(
        errors.UnknownApp,
        executing("writter:summarise"),
        "There is no app 'writter'",
        "",
        "Did you mean writer?",
    ),
    Row(
        errors.UnknownTool,
        executing("writer:sumarise", text="a"),
        "'writer' has no tool 'sumarise'",
        "",
        "Did you mean summarise?",
    ),
    Row(
        errors.InvalidParams,
        executing("writer:summarise", txet="a"),
        "The arguments do not fit",
        '"text" is a required property',
        "Correct them to fit the schema",
    ),
    Row(
        errors.ConsentRequired,
        asking("POST", "/api/v1/execute/secret-agent:go", json={}, headers={"X-API-Key": KEYS["guest"]}),
        "guest may not execute go of secret-agent",
        "The operator's rules decide that",
        "ask whoever runs this control plane",
    ),
    Row(
        errors.AuthInvalid,
        asking("GET", DISCOVER, headers={"X-API-Key": "wrong"}),
        "invalid or missing API key",
        "",
        "Send it as X-API-Key, or as Authorization: Bearer",
    ),
    Row(
        errors.NotFound,
        asking("GET", "/api/v1/executions/exec_1"),
        "execution not found: 'exec_1'",
        "what ended long ago is forgotten",
        "Check the id",
    ),
    Row(
        errors.NotFound,
        asking("GET", "/api/v1/nodes/nobody"),
        "There is no agent 'nobody'",
        "",
        "Ask for the list of agents, or let it register",
    ),
    Row(
        errors.NotFound,
        asking("GET", "/api/v1/discovery/capability"),
        "There is nothing at /api/v1/discovery/capability",
        "",
        f"Did you mean {DISCOVER}",
    ),
    Row(
        errors.CallTimeout,
        executing("writer:silent"),
        "gave no answer within 0.5 seconds",
        "",
        "look before you call again",
    ),
    Row(
        errors.Unreached,
        executing("gone:go"),
        "http://127.0.0.1:1/skills/go does not answer",
        "",
        "Try again later",
    ),
    Row(
        errors.AnswerTooLarge,
        executing("writer:large"),
        "sends more than 16777216 bytes",
        "",
        "Ask it for less",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_refusal_says_what_happened_why_and_what_to_do(ground: Ground, row: Row[Ground]) -> None:
    """In one message, with the status and the word of its class; an execution that ended has its own message."""
    said = row.provoke(ground)

    if "error_message" in said:
        assert said["status"] >= 500, said
    else:
        assert (said["status"], said["error"]) == next(STATUS[kind] for kind in row.kind.__mro__ if kind in STATUS), (
            said
        )
    assert missing(said.get("error_message") or said["message"], row.happened, row.why, row.do) == [], said


@requirement("errors:discovery:internal")
def test_our_own_fault_says_where_to_look(tmp_path: Path) -> None:
    """Discovery with the words of seed 004, 3.7, everything else with what to do; nothing of the fault gets out."""
    broken = tmp_path / "broken"
    plane = ControlPlane(tmp_path, command=(sys.executable, str(BROKEN), str(broken)))
    plane.register(registration("writer", skills={"go": []}))
    broken.touch()
    discovery = plane.client.get(DISCOVER).json()
    broken.touch()
    other = plane.client.post("/api/v1/nodes/writer/heartbeat", json={}).json()
    plane.stop()

    assert (discovery["error"], discovery["message"]) == ("internal_error", "Failed to retrieve agent capabilities")
    assert discovery["request_id"].startswith("req_")
    assert other["error"] == "internal_error"
    do = "Try again; if it stays so, the log says why, under this request_id"
    assert missing(other["message"], "Something went wrong inside", do) == []
    assert "ZeroDivision" not in str(discovery) + str(other)
    assert "ZeroDivisionError" in plane.log_text()


def test_a_store_that_fails_says_so(tmp_path: Path) -> None:
    """503, with what its database says and what to do; discovery goes on from memory."""
    plane = ControlPlane(tmp_path)
    plane.register(registration("writer", skills={"go": []}))
    with sqlite3.connect(tmp_path / "plane.db") as database:
        database.execute("DROP TABLE agents")
    database.close()
    said = plane.client.post("/api/v1/nodes/register", json=registration("late", skills={"go": []})).json()
    found = plane.discover()["total_agents"]
    plane.stop()

    assert (said["error"], found) == ("service_unavailable", 1)
    do = "Try again; look at the disk and at who may write there"
    assert missing(said["message"], "The database does not answer", "no such table", do) == []


def test_a_method_that_is_not_possible_names_those_that_are(ground: Ground) -> None:
    """405, which no class of ours stands for."""
    said = ground.ask("DELETE", DISCOVER)

    assert (said["status"], said["error"]) == (405, "method_not_allowed")
    assert missing(said["message"], "DELETE is not possible here", "Possible: GET, HEAD") == []


def test_what_has_ended_cannot_be_cancelled_and_says_so(ground: Ground) -> None:
    """409, with how it ended."""
    ended = ground.ask("POST", "/api/v1/execute/gone:go", json={})["execution_id"]
    said = ground.ask("POST", f"/api/v1/executions/{ended}/cancel", json={})

    assert (said["status"], said["error"]) == (409, "invalid_state")
    assert missing(said["message"], f"{ended} has ended already: failed", "Nothing is left to cancel") == []


def test_what_the_database_did_not_confirm_is_refused_for_now(tmp_path: Path, postgres: Postgres) -> None:
    """Its connection breaks off in the middle; nobody knows whether it was done, so the caller is told to try again."""
    url = postgres.new()
    lock = "DO $$ BEGIN LOCK TABLE switchboard.executions; PERFORM pg_sleep(60); END $$"
    here = "FROM pg_stat_activity WHERE datname = current_database()"
    asleep, waiting = f"{here} AND wait_event = 'PgSleep'", f"{here} AND wait_event_type = 'Lock'"

    def are(them: str) -> bool:
        return bool(postgres.execute("SELECT 1 " + them, url))

    def end(them: str) -> None:
        postgres.execute("SELECT pg_terminate_backend(pid) " + them, url)

    with running(tmp_path, url, 1) as (plane,), ThreadPoolExecutor(2) as threads:
        plane.register(registration("writer", skills={"go": []}))
        holding = threads.submit(postgres.execute, lock, url)
        until(lambda: are(asleep))
        asking = threads.submit(plane.client.post, "/api/v1/execute/async/writer.go", json={"input": {}})
        until(lambda: are(waiting))
        end(waiting)
        refused = asking.result()
        end(asleep)
        assert holding.exception() is not None

    said = refused.json()
    assert (refused.status_code, said["error"], refused.headers["retry-after"]) == (503, "service_unavailable", "1")
    assert missing(said["message"], "The database does not answer", "Try again, and look at it") == []


INSIDE = (errors.InternalError, errors.Unconfirmed)
"""What a test of its own provokes above."""
NEVER = {
    errors.AuthRequired: "agents have no sign-in; a caller without a key is told so with the word of AuthInvalid",
    errors.AuthDenied: "the same",
    errors.AuthExpired: "the same",
    errors.RateLimited: "nothing is limited here; what an agent answers is an execution that failed",
    errors.NotSupported: "every agent is called in the one way there is",
}
"""What this face has a status for and never says by itself, and why."""

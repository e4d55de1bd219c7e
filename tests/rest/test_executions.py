"""Executions through a running server and real agents: the wire of the AgentField SDKs, and what is better."""

import asyncio
import hmac
import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import httpx2
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.test_agent import LIMIT_S, AgentServer, Asked, accepts, dies, says
from tests.journeys.waiting import wait_until
from tests.servers import ControlPlane, registration
from tests.support import requirement

from switchboard.rest.app import App

CONTRACT = Path(__file__).parents[2] / "contract"
EXECUTE, EXECUTIONS = "/api/v1/execute", "/api/v1/executions"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SETTINGS = """
host = "127.0.0.1"

[keys]
alice = "key-of-alice"
bob = "key-of-bob"

[allow]
"private-*" = ["alice"]
"""


class Executing:
    """A control plane and one agent `a` with a reasoner `r`, a skill `s`, and both under the name `both`."""

    def __init__(self, plane: ControlPlane, agent: AgentServer, folder: Path) -> None:
        self.plane, self.agent, self.client = plane, agent, plane.client
        self._folder = folder

    def register(self, agent_id: str = "a", schema: object = None, **changes: Any) -> None:
        """Register the agent under any name."""
        document = registration(agent_id, {"r": [], "both": []}, {"s": [], "both": []}, base_url=self.agent.url)
        if schema is not None:
            document["reasoners"][0]["input_schema"] = schema
        self.plane.register({**document, **changes})

    def run(self, target: str = "a:r", body: object = None, **headers: str) -> httpx2.Response:
        """Execute, and wait."""
        return self.client.post(f"{EXECUTE}/{target}", json=body or {"input": {}}, headers=headers)

    def submit(self, target: str = "a:r", body: object = None, **headers: str) -> httpx2.Response:
        """Execute, and do not wait."""
        return self.client.post(f"{EXECUTE}/async/{target}", json=body or {"input": {}}, headers=headers)

    def submitted(self, target: str = "a:r", body: object = None) -> str:
        """Return the id of something that the agent has got."""
        execution_id = str(self.submit(target, body).json()["execution_id"])
        wait_until(lambda: any(asked.execution_id == execution_id for asked in self.agent.calls))
        return execution_id

    def get(self, execution_id: str, wait: float = LIMIT_S) -> dict[str, Any]:
        """Ask for one, and wait for its end."""
        return self.client.get(f"{EXECUTIONS}/{execution_id}", params={"wait": wait}).json()

    def report(self, execution_id: str, /, **fields: Any) -> httpx2.Response:
        """Report as an agent does."""
        return self.client.post(f"{EXECUTIONS}/{execution_id}/status", json=fields)

    def audited(self) -> list[dict[str, Any]]:
        """Return the audit record."""
        record = self._folder / "switchboard/audit/control-plane.jsonl"
        return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("executing")


@pytest.fixture(scope="module")
def serving(folder: Path) -> Iterator[ControlPlane]:
    plane = ControlPlane(folder, "--log-level", "debug", XDG_DATA_HOME=str(folder))
    yield plane
    if plane.process.poll() is None:
        plane.stop()


@pytest.fixture
def both(serving: ControlPlane, folder: Path) -> Iterator[Executing]:
    """A server for the whole file, and an agent for one test."""
    with AgentServer() as agent:
        executing = Executing(serving, agent, folder)
        executing.register()
        yield executing
    for node in serving.client.get("/api/v1/nodes?show_all=true").json()["nodes"]:
        serving.client.delete(f"/api/v1/nodes/{quote(node['id'], safe='')}")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Executing]:
    """A server for one test, whose agents have to be quick."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_AGENT_TIMEOUT="0.3", XDG_DATA_HOME=str(tmp_path))
    with AgentServer() as agent:
        executing = Executing(plane, agent, tmp_path)
        executing.register()
        yield executing
    if plane.process.poll() is None:
        plane.stop()


# Results


@requirement("execute:input:result")
@pytest.mark.parametrize("result", [{"answer": 42}, [1, "b"], "text", 1.5, None])
def test_an_execution_takes_a_target_and_an_input_and_gives_back_the_result(both: Executing, result: object) -> None:
    """Whatever JSON it is, from an agent that answers at once."""
    both.agent.answer = says(result)
    answer = both.run("a:r", {"input": {"query": "AI trends 2025"}})

    body = answer.json()
    assert (answer.status_code, body["status"], body["result"]) == (200, "succeeded", result)
    assert {"execution_id", "run_id", "workflow_id", "target", "duration_ms", "finished_at"} <= body.keys()
    assert answer.headers["x-execution-id"] == body["execution_id"]
    assert json.loads(both.agent.calls[0].body) == {"query": "AI trends 2025"}


@pytest.mark.parametrize("result", [{"answer": 42}, [1, "b"], "text", 1.5, None])
def test_a_caller_who_waits_gets_what_an_agent_reports_later(both: Executing, result: object) -> None:
    """The report comes before the agent has even answered with its 202."""

    def hasty(asked: Asked) -> tuple[int, bytes]:
        reported = httpx2.post(
            f"{both.plane.url}{EXECUTIONS}/{asked.execution_id}/status",
            json={"status": "completed", "result": result, "duration_ms": 10, "reasoner": "r"},
            trust_env=False,
        )
        assert reported.status_code == 200
        return accepts(asked)

    both.agent.answer = hasty
    answer = both.run()

    assert (answer.status_code, answer.json()["result"]) == (200, result)


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (says({"detail": "Missing required field: query"}, 422), 422, "agent_error"),
        (says({"detail": "no"}, 429), 429, "agent_error"),
        (says({"detail": "boom"}, 500), 502, "agent_error"),
        (says({"detail": "busy"}, 503), 502, "agent_error"),
        (dies, 503, "agent_unreachable"),
    ],
)
def test_a_failed_execution_says_whose_fault_it_is(both: Executing, answer: Any, status: int, reason: str) -> None:
    """The caller's, the agent's, or that nobody is there."""
    both.agent.answer = answer
    answered = both.run()

    body = answered.json()
    assert (answered.status_code, body["status"], body["status_reason"]) == (status, "failed", reason)
    assert body["error"] == body["error_message"]
    assert body["error"]


def test_an_agent_that_takes_too_long_is_a_gateway_timeout(alone: Executing) -> None:
    """And its execution has timed out."""
    alone.agent.answer = alone.agent.silent
    answer = alone.run()

    assert (answer.status_code, answer.json()["status"]) == (504, "timeout")
    assert alone.agent.left.wait(LIMIT_S)


def test_a_reported_failure_keeps_its_words_and_its_number(both: Executing) -> None:
    """Also when the words are no text."""
    both.agent.answer = accepts
    first, second = both.submitted(), both.submitted()
    both.report(first, status="failed", error="bad thing", error_details={"a": 1}, error_status_code=409)
    both.report(second, status="failed", error={"why": "x"}, error_status_code=10**30)

    told = both.get(first)
    assert (told["error"], told["error_details"]) == ("bad thing", {"a": 1})
    assert both.get(second)["error"] == '{"why":"x"}'


@pytest.mark.parametrize("reason", ["agent_timeout", "agent_unreachable", "agent_unknown", "execution_timeout"])
def test_an_agent_does_not_choose_the_callers_status_by_a_reason_of_ours(both: Executing, reason: str) -> None:
    """A 404 or 503 would say that nothing was done."""
    answer = reported_to_who_waits(both, status="failed", error="no", status_reason=reason)

    assert (answer.status_code, answer.json()["status_reason"]) == (502, "agent_error")


@pytest.mark.parametrize(
    ("status", "reason", "shown"),
    [
        ("cancelled", "cancelled", "cancelled"),
        ("failed", "cancelled", "agent_error"),
        ("failed", "outcome_unknown", "agent_error"),
        ("failed", "internal_error", "agent_error"),
        ("failed", "agent_gone", "agent_error"),
        ("failed", "agent_restarted", "agent_error"),
        ("failed", "invalid_request", "agent_error"),
        ("failed", "out of paper", "out of paper"),
    ],
)
def test_reasons_that_only_we_know_are_not_taken_from_an_agent(
    both: Executing, status: str, reason: str, shown: str
) -> None:
    """Its own ones are."""
    execution_id = both.submitted()

    assert both.report(execution_id, status=status, status_reason=reason).json()["status_reason"] == shown


def reported_to_who_waits(both: Executing, **fields: Any) -> httpx2.Response:
    """Execute with an agent that reports so before it says 202."""

    def answer(asked: Asked) -> tuple[int, bytes]:
        httpx2.post(f"{both.plane.url}{EXECUTIONS}/{asked.execution_id}/status", json=fields, trust_env=False)
        return accepts(asked)

    both.agent.answer = answer
    return both.run()


def test_an_answer_that_says_it_is_json_and_is_not_is_the_agents_fault(both: Executing) -> None:
    """No success with a text that nobody meant."""
    both.agent.kind = "application/json"
    both.agent.answer = says({"score": float("nan")})
    answer = both.run()

    assert (answer.status_code, answer.json()["status_reason"]) == (502, "agent_error")
    assert "not" in answer.json()["error"]


# Targets


def words(*more: str) -> st.SearchStrategy[str]:
    parts = [
        "a",
        "b",
        ".",
        ":",
        "%",
        "%3A",
        "%25",
        "skill:",
        "reasoner:",
        "ä",
        "日本",
        "/",
        " ",
        "?",
        "#",
        "+",
        "..",
        *more,
    ]
    return st.lists(st.sampled_from(parts), min_size=1, max_size=4).map("".join).filter(lambda text: bool(text.strip()))


AGENTS = st.dictionaries(
    words(), st.tuples(st.sets(words(), max_size=3), st.sets(words(), max_size=3)), min_size=1, max_size=3
)


@requirement("execute:target:discovered")
def test_every_target_that_discovery_prints_is_executed_as_it_is_printed(both: Executing) -> None:
    """Whatever agents, reasoners and skills are called, the right one is run."""
    both.agent.answer = says("done")

    @settings(max_examples=40, deadline=None, database=None)
    @given(AGENTS)
    def story(wanted: dict[str, tuple[set[str], set[str]]]) -> None:
        homes = {agent_id: f"/{number}" for number, agent_id in enumerate(wanted)}
        for agent_id, (reasoners, skills) in wanted.items():
            # One name that is both is the case that others get wrong.
            common, base_url = f"both {agent_id}", both.agent.url + homes[agent_id]
            names: list[dict[str, list[str]]] = [
                {name: [] for name in (*found, common)} for found in (reasoners, skills)
            ]
            both.plane.register(registration(agent_id, *names, base_url=base_url))
        try:
            for agent in both.plane.discover(limit="500")["capabilities"]:
                for kind in ("reasoner", "skill") if agent["agent_id"] in homes else ():
                    for found in agent[f"{kind}s"]:
                        both.agent.asked.clear()
                        answer = both.run(quote(found["invocation_target"], safe=""))
                        assert (answer.status_code, answer.json().get("result")) == (200, "done"), answer.text
                        right = f"{homes[agent['agent_id']]}/{kind}s/{found['id']}"
                        assert [unquote(asked.path) for asked in both.agent.calls] == [right]
        finally:
            for agent_id in wanted:
                both.client.delete(f"/api/v1/nodes/{quote(agent_id, safe='')}")

    story()


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("/api/v1/reasoners/a.both", "/reasoners/both"),
        ("/api/v1/skills/a.both", "/skills/both"),
        ("/api/v1/skills/a.s", "/skills/s"),
        ("/api/v1/execute/a.r", "/reasoners/r"),
    ],
)
def test_the_older_paths_work(both: Executing, path: str, called: str) -> None:
    """The one for skills means the skill, where a reasoner has the same name."""
    both.agent.answer = says(1)
    answer = both.client.post(path, json={"input": {}})

    assert answer.status_code == 200
    assert both.agent.calls[0].path == called


@pytest.mark.parametrize(
    ("target", "body", "status", "word"),
    [
        ("nobody:r", {"input": {}}, 404, "not_found"),
        ("a:nothing", {"input": {}}, 404, "not_found"),
        ("a:skill:r", {"input": {}}, 404, "not_found"),
        ("words", {"input": {}}, 400, "invalid_request"),
        ("a:r", {"input": [1]}, 400, "invalid_request"),
        ("a:r", [1], 400, "invalid_request"),
        ("a:r", {"input": {}, "webhook": {"secret": "x"}}, 400, "invalid_request"),
        ("a:r", {"input": {}, "webhook": "http://169.254.169.254/"}, 400, "invalid_request"),
        ("strict:r", {"input": {"n": "x"}}, 422, "invalid_input"),
        ("strict:r", {}, 422, "invalid_input"),
    ],
)
def test_what_cannot_be_executed_is_refused_before_anything_is_accepted(
    both: Executing, target: str, body: object, status: int, word: str
) -> None:
    """Never 202: a client would ask for hours how something ended that never began."""
    both.register("strict", SCHEMA)
    answers = [both.client.post(f"{EXECUTE}{mode}/{target}", json=body) for mode in ("", "/async")]

    assert {(answer.status_code, answer.json()["error"]) for answer in answers} == {(status, word)}
    assert all(answer.json()["request_id"] == answer.headers["x-request-id"] for answer in answers)
    assert both.agent.asked == []


def test_input_that_does_not_fit_is_answered_with_what_would(both: Executing) -> None:
    """Where it does not, and the schema, so that a model can correct itself."""
    both.register("strict", SCHEMA)
    details = both.run("strict:r", {"input": {"n": "x"}}).json()["details"]

    assert details["schema"] == SCHEMA
    assert details["violations"][0].startswith("$.n: ")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"input": {"x": "' + b"x" * (16 * 1024 * 1024) + b'"}}', 413),
        (b'{"input":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, 400),
        (b"{", 400),
    ],
)
def test_a_body_that_cannot_be_used_is_refused(both: Executing, body: bytes, status: int) -> None:
    """Too large, too deep, no JSON."""
    answer = both.client.post(f"{EXECUTE}/a:r", content=body)

    assert (answer.status_code, both.agent.asked) == (status, [])


@pytest.mark.parametrize("part", [b"1,", b"[],", b'{"a":1},'])
def test_a_body_with_too_many_values_is_refused_before_it_is_read(both: Executing, part: bytes) -> None:
    """Reading them would hold everybody up."""
    body = b'{"input": {"x": [' + part * 500_000 + b"1]}}"
    answer = both.client.post(f"{EXECUTE}/a:r", content=body)

    assert (answer.status_code, answer.json()["error"], both.agent.asked) == (413, "payload_too_large", [])
    assert answer.json()["details"] == {"limit_values": 500_000}


def test_a_body_with_as_many_values_as_are_allowed_is_taken(both: Executing) -> None:
    """Two braces, a bracket and commas: half a million in all."""
    both.agent.answer = says(1)
    body = b'{"input": {"x": [' + b"1," * (500_000 - 3) + b"1]}}"

    assert both.client.post(f"{EXECUTE}/a:r", content=body).status_code == 200


def test_what_is_nested_as_deeply_as_can_be_is_either_run_or_refused(both: Executing) -> None:
    """Reading and writing have the same limit, so there is no depth that can be read and not be put through."""
    both.agent.answer = says(1)
    found = [
        both.client.post(
            f"{EXECUTE}/a:s", content=b'{"input":' + b'{"a":' * depth + b"1" + b"}" * (depth + 1)
        ).status_code
        for depth in range(800, 1000, 3)
    ]

    assert set(found) == {200, 400}
    assert found == sorted(found)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"input": null}'])
def test_no_input_is_an_empty_one(both: Executing, body: bytes) -> None:
    """As every SDK spells it."""
    both.agent.answer = says(1)
    answer = both.client.post(f"{EXECUTE}/a:s", content=body)

    assert (answer.status_code, both.agent.calls[0].body) == (200, b"{}")


def test_an_agent_learns_where_a_call_comes_from(both: Executing) -> None:
    """The run, the parent and the session; an execution id of the caller's own is not believed."""
    both.agent.answer = says(1)
    sent = {
        "X-Run-ID": "run_mine",
        "X-Execution-ID": "exec_mine",
        "X-Parent-Execution-ID": "exec_parent",
        "X-Session-ID": "session",
        "X-Actor-ID": "actor",
        "X-Secret": "no",
    }
    body = both.run("a:r", None, **sent).json()

    got = both.agent.calls[0].headers
    assert (got["x-run-id"], got["x-workflow-id"], got["x-session-id"]) == ("run_mine", "run_mine", "session")
    assert (got["x-actor-id"], got["x-parent-execution-id"]) == ("actor", "exec_parent")
    assert got["x-execution-id"] == body["execution_id"] != "exec_mine"
    assert (body["run_id"], body["parent_execution_id"], "x-secret" in got) == ("run_mine", "exec_parent", False)


@pytest.mark.parametrize("value", [b"a\tb", "sitzung-ä".encode(), b"x" * 501])
def test_a_header_that_is_not_plain_is_not_passed_on(both: Executing, value: bytes) -> None:
    """The call is made all the same."""
    both.agent.answer = says(1)
    answer = both.client.post(f"{EXECUTE}/a:r", json={"input": {}}, headers=[(b"X-Session-ID", value)])

    assert (answer.status_code, "x-session-id" in both.agent.calls[0].headers) == (200, False)


# Without waiting


def test_an_accepted_execution_can_be_asked_for_and_waited_for(both: Executing) -> None:
    """202 with what SDKs read; then how far it is; then its end, as soon as it is there."""
    accepted = both.submit("a:s", {"input": {"q": 1}, "webhook": f"{both.agent.url}/hook"})
    body = accepted.json()
    wait_until(lambda: len(both.agent.calls) == 1)
    before = both.get(body["execution_id"], wait=0)
    both.report(body["execution_id"], status="succeeded", result=[1])
    after = both.get(body["execution_id"])

    assert accepted.status_code == 202
    assert (body["status"], body["target"], body["type"], body["webhook_registered"]) == (
        "queued",
        "a.s",
        "skill",
        True,
    )
    assert body["workflow_id"] == body["run_id"] == accepted.headers["x-run-id"]
    assert before["status"] == "running"
    assert (after["status"], after["result"], after["node_id"]) == ("succeeded", [1], "a")
    assert {"started_at", "completed_at", "duration_ms"} <= after.keys()


@pytest.mark.parametrize("wait", ["-1", "61", "nan", "inf", "soon", "", "1_0", "٣", " 1", "1e99"])
def test_nobody_can_wait_for_ever(both: Executing, wait: str) -> None:
    """Or for something that is no time."""
    answer = both.client.get(f"{EXECUTIONS}/exec_x", params={"wait": wait})

    assert (answer.status_code, answer.json()["details"]["parameter"]) == (400, "wait")


@pytest.mark.parametrize("wait", ["0.30000000000000004", "1e-05", "0."])
def test_any_spelling_of_a_number_is_a_time(both: Executing, wait: str) -> None:
    """As clients write numbers."""
    assert both.client.get(f"{EXECUTIONS}/exec_x", params={"wait": wait}).status_code == 404


@pytest.mark.parametrize(
    ("name", "hint"), [("wiat", "Did you mean wait?"), ("Wait", "Did you mean wait?"), ("q", "Known parameters: wait.")]
)
def test_an_unknown_parameter_is_refused(both: Executing, name: str, hint: str) -> None:
    """Whoever mistypes it would not wait, and not know why."""
    answer = both.client.get(f"{EXECUTIONS}/exec_x", params={name: "5"})

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_parameter")
    assert answer.json()["message"] == f"Unknown parameter {name}. {hint}"
    assert answer.json()["details"] == {"parameter": name, "provided": "5", "allowed": ["wait"]}


def test_several_executions_are_shown_at_once(both: Executing) -> None:
    """Those that are not known say so; not too many, and only ids."""
    both.agent.answer = says(1)
    done = both.run().json()["execution_id"]
    shown = both.client.post(f"{EXECUTIONS}/batch-status", json={"execution_ids": [done, "exec_x", done]}).json()
    refused = [
        both.client.post(f"{EXECUTIONS}/batch-status", json={"execution_ids": ids}).status_code
        for ids in (["x"] * 501, [1], "x", None)
    ]

    assert shown[done]["status"] == "succeeded"
    assert shown["exec_x"] == {"execution_id": "exec_x", "status": "not_found"}
    assert refused == [400] * 4


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("succeeded", "succeeded"),
        ("Completed", "succeeded"),
        ("ok", "succeeded"),
        ("error", "failed"),
        ("canceled", "cancelled"),
        ("timed_out", "timeout"),
        ("in_progress", "running"),
        ("awaiting_approval", "running"),
    ],
)
def test_agents_may_spell_a_status_as_they_are_used_to(both: Executing, word: str, status: str) -> None:
    """The answer is the execution as it then is."""
    execution_id = both.submitted()
    answer = both.report(execution_id, status=word)

    assert (answer.status_code, answer.json()["status"]) == (200, status)


def test_reports_after_the_end_are_taken_and_change_nothing(both: Executing) -> None:
    """An SDK gives up for ever after a 4xx, so there is none for what it may rightly say."""
    execution_id = both.submitted()
    fields = [
        {"status": "succeeded", "result": "first"},
        {"status": "succeeded", "result": "first"},
        {"status": "failed", "error": "no"},
        {"status": "running"},
    ]
    answers = [both.report(execution_id, **given) for given in fields]

    assert {(answer.status_code, answer.json()["result"]) for answer in answers} == {(200, "first")}


def test_a_report_that_cannot_be_meant_is_refused(both: Executing) -> None:
    """An unknown execution, an unknown word."""
    execution_id = both.submitted()

    assert both.report("exec_x", status="succeeded").status_code == 404
    assert both.report("exec_x", status="running").status_code == 404
    assert both.client.get(f"{EXECUTIONS}/exec_x").status_code == 404
    for word in ("odd", "", None, ["succeeded"]):
        answer = both.report(execution_id, status=word)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [b'{"status": "succeeded", "result": NaN}', b'{"status": "succeeded", "result": "\\ud800"}', b"\xff", b"{"],
)
def test_a_report_that_is_no_json_is_a_failure_of_the_agent(both: Executing, body: bytes) -> None:
    """SDKs do not repeat what is refused: nobody would ever learn of this end."""
    execution_id = both.submitted()
    answer = both.client.post(f"{EXECUTIONS}/{execution_id}/status", content=body)

    assert answer.status_code == 200
    told = both.get(execution_id)
    assert (told["status"], told["status_reason"], told["error"]) == (
        "failed",
        "agent_error",
        "the report was not JSON",
    )


def test_a_report_that_is_no_json_and_tells_of_no_end_is_none(both: Executing) -> None:
    """What is at work has not failed; and what is JSON of another kind is refused as ever."""
    execution_id = both.submitted()
    url = f"{EXECUTIONS}/{execution_id}/status"
    answer = both.client.post(url, content=b'{"status": "running", "progress": NaN}')

    assert (answer.status_code, answer.json()["status"]) == (200, "running")
    assert both.client.post(url, content=b"[1]").status_code == 400
    assert both.client.post(f"{EXECUTIONS}/exec_x/status", content=b"{").status_code == 404
    assert both.get(execution_id, wait=0)["status"] == "running"


@pytest.mark.parametrize(("length", "status"), [(500, 2), (501, 4)])
def test_an_id_of_any_length_is_not_remembered(both: Executing, length: int, status: int) -> None:
    """Of events, logs and notes alike, which may be about what is not here."""
    name = "x" * length
    answers = [
        event(both, execution_id=name, status="running"),
        both.client.post(f"{EXECUTIONS}/{name}/logs", json={"message": "m"}),
        both.client.post(f"{EXECUTIONS}/note", json={"message": "m"}, headers={"X-Execution-ID": name}),
    ]

    assert [answer.status_code // 100 for answer in answers] == [status] * 3


# What agents say besides


def event(both: Executing, /, **fields: Any) -> httpx2.Response:
    return both.client.post("/api/v1/workflow/executions/events", json=fields)


def test_what_an_agent_ran_by_itself_can_be_asked_for(both: Executing) -> None:
    """Its events are all that is known of it."""
    facts = {"execution_id": "exec_own", "run_id": "run_own", "agent_node_id": "a", "reasoner_id": "r"}
    answers = [event(both, **facts, status="running"), event(both, **facts, status="succeeded", result={"a": 1})]

    shown = both.get("exec_own")
    assert {answer.status_code for answer in answers} == {200}
    assert (shown["status"], shown["result"], shown["target"], shown["run_id"]) == (
        "succeeded",
        {"a": 1},
        "a.r",
        "run_own",
    )
    assert event(both, status="running").status_code == 400
    assert event(both, execution_id="x" * 501, status="running").status_code == 400


def test_an_event_does_not_decide_before_the_report(both: Executing) -> None:
    """`failed` by event and `cancelled` by report, at the same time."""
    execution_id = both.submitted()
    event(both, execution_id=execution_id, status="failed", error="Execution cancelled by upstream client")
    both.report(execution_id, status="cancelled", error="cancelled_by_control_plane")

    assert both.get(execution_id)["status"] == "cancelled"


def test_notes_logs_and_events_of_an_execution_can_be_read(both: Executing) -> None:
    """Lines one by one or several at once."""
    execution_id = both.submitted()
    path = f"{EXECUTIONS}/{execution_id}"
    single = both.client.post(f"{path}/logs", json={"message": "one"})
    several = both.client.post(f"{path}/logs", json={"entries": [{"message": "two"}, {"message": "three"}]})
    noted = both.client.post(
        f"{EXECUTIONS}/note", json={"message": "hm", "tags": ["t"]}, headers={"X-Execution-ID": execution_id}
    )
    event(both, execution_id=execution_id, status="running")

    def said(kind: str) -> list[Any]:
        return [note["content"] for note in both.client.get(f"{path}/notes", params={"kind": kind}).json()["notes"]]

    assert (single.status_code, several.json()["accepted"], noted.status_code) == (202, 2, 201)
    assert [line["message"] for line in said("log")] == ["one", "two", "three"]
    assert said("note") == [{"message": "hm", "tags": ["t"]}]
    assert (len(said("event")), len(said("all"))) == (1, 5)
    assert both.client.post(f"{EXECUTIONS}/note", json={}).status_code == 400
    assert both.client.get(f"{path}/notes", params={"kind": "gossip"}).status_code == 400


# Cancelling


def test_a_running_execution_is_cancelled_at_its_agent(both: Executing) -> None:
    """With its reason; a second time it has ended already."""
    both.agent.answer = both.agent.silent
    execution_id = both.submitted()
    cancelled = both.client.post(f"{EXECUTIONS}/{execution_id}/cancel", json={"reason": "too dear"})
    wait_until(lambda: len(both.agent.told_to_cancel) == 1 and both.agent.left.is_set())
    again = both.client.post(f"{EXECUTIONS}/{execution_id}/cancel")

    body = cancelled.json()
    assert (cancelled.status_code, body["previous_status"], body["status"]) == (200, "running", "cancelled")
    assert (body["reason"], both.get(execution_id)["status_reason"]) == ("too dear", "too dear")
    assert both.agent.told_to_cancel == [f"/_internal/executions/{execution_id}/cancel"]
    assert (again.status_code, again.json()["error"]) == (409, "invalid_state")
    assert both.client.post(f"{EXECUTIONS}/exec_x/cancel").status_code == 404


# Idempotency


def test_a_request_that_is_repeated_with_its_key_is_one_execution(both: Executing) -> None:
    """Whether its sender waits or not; with another body the key is refused."""
    both.agent.answer = says("once")
    key = {"Idempotency-Key": "mine"}
    first = both.submit("a:r", {"input": {"x": 1}}, **key)
    again = both.run("a:r", {"input": {"x": 1}}, **key)
    other = both.run("a:r", {"input": {"x": 2}}, **key)

    assert (again.status_code, again.json()["result"]) == (200, "once")
    assert first.json()["execution_id"] == again.json()["execution_id"]
    assert (other.status_code, len(both.agent.calls)) == (400, 1)


def test_repetitions_that_arrive_at_the_same_moment_are_one_execution(both: Executing) -> None:
    """Each of them gets the result."""
    both.agent.answer = says("once")
    with ThreadPoolExecutor(16) as senders:
        sent = [senders.submit(both.run, "a:r", None, **{"Idempotency-Key": "at once"}) for _ in range(32)]
        answers = [each.result(LIMIT_S) for each in sent]

    assert {(answer.status_code, answer.json()["result"]) for answer in answers} == {(200, "once")}
    assert (len({answer.json()["execution_id"] for answer in answers}), len(both.agent.calls)) == (1, 1)


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_that_is_none_is_refused(both: Executing, key: str) -> None:
    """Nothing is executed under a key that could not be recognised."""
    answer = both.run("a:r", None, **{"Idempotency-Key": key})

    assert (answer.status_code, both.agent.asked) == (400, [])


# Who may


def test_a_key_says_who_calls_and_rules_say_what_they_may(tmp_path: Path) -> None:
    """Keys and rules stand in the settings file; the audit record has the caller's name."""
    (tmp_path / "settings.toml").write_text(SETTINGS)
    plane = ControlPlane(tmp_path, "--config", str(tmp_path / "settings.toml"), XDG_DATA_HOME=str(tmp_path))
    with AgentServer(says(1)) as agent:
        executing = Executing(plane, agent, tmp_path)
        plane.client.headers["X-API-Key"] = "key-of-alice"
        executing.register("private-a")
        executing.register("open")
        answers = {
            (caller, target): executing.run(
                f"{target}:r", None, **{"X-API-Key": f"key-of-{caller}", "Idempotency-Key": f"same for {target}"}
            )
            for caller in ("alice", "bob", "nobody")
            for target in ("private-a", "open")
        }
        plane.stop()

    assert {key: answer.status_code for key, answer in answers.items()} == {
        ("alice", "private-a"): 200,
        ("alice", "open"): 200,
        ("bob", "private-a"): 403,
        ("bob", "open"): 200,
        ("nobody", "private-a"): 401,
        ("nobody", "open"): 401,
    }
    ids = {answers[caller, "open"].json()["execution_id"] for caller in ("alice", "bob")}
    assert len(ids) == 2
    assert [(line["caller"], line["owner"], line["decision"]) for line in executing.audited()] == [
        ("alice", "private-a", "allowed"),
        ("alice", "open", "allowed"),
        ("bob", "private-a", "denied"),
        ("bob", "open", "allowed"),
    ]


@pytest.mark.parametrize("headers", [{"X-API-Key": ""}, {"X-API-Key": " "}, {"Authorization": "Bearer "}, {}])
def test_nothing_is_never_a_key(headers: dict[str, str]) -> None:
    """Even if the settings had let an empty one through."""
    sent: list[dict[str, Any]] = []

    async def story() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        nobody: Any = None
        discovery: Any = SimpleNamespace(again=None)
        app = App(discovery, nobody, [], nobody, nobody, {"ann": "", "bob": " "})
        lines = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await app({"type": "http", "path": "/api/v1/nodes", "method": "GET", "headers": lines}, receive, send)

    asyncio.run(story())
    assert sent[0]["status"] == 401


def test_values_and_secrets_are_in_no_log_and_no_record(alone: Executing) -> None:
    """One line for each execution, with a hash of its input."""
    alone.agent.answer = says({"out": "v4lue"})
    body = {
        "input": {"in": "v4lue"},
        "webhook": {"url": "http://127.0.0.1:1/?token=t0ken", "secret": "s3cret", "headers": {"X-A": "h3ader"}},
    }
    assert alone.run("a:r", body).status_code == 200
    alone.agent.answer = says({"detail": "v4lue"}, 500)
    assert alone.run("a:r", body).status_code == 502
    alone.plane.stop()

    audited = alone.audited()
    assert [line["outcome"] for line in audited] == ["OK", "APP_ERROR"]
    assert audited[0]["arguments_hash"] == audited[1]["arguments_hash"]
    written = json.dumps([*audited, *alone.plane.events()])
    assert [word for word in ("v4lue", "s3cret", "t0ken", "h3ader") if word in written] == []


# Webhooks


def test_a_webhook_is_told_the_end_with_a_signature(both: Executing) -> None:
    """HMAC-SHA256 over the body, under the secret that came with the request."""
    with AgentServer(says({})) as receiver:
        hook = {"url": f"{receiver.url}/done", "secret": "s3cret", "headers": {"X-Mine": "1"}}
        execution_id = both.submitted("a:r", {"input": {}, "webhook": hook})
        both.report(execution_id, status="succeeded", result={"a": 1})
        wait_until(lambda: len(receiver.asked) == 1)

    told = receiver.asked[0]
    body = json.loads(told.body)
    assert list(body) == list(example("webhook-message"))
    proof = "sha256=" + hmac.new(b"s3cret", told.body, "sha256").hexdigest()
    assert (told.path, told.headers["x-mine"]) == ("/done", "1")
    assert hmac.compare_digest(told.headers["x-agentfield-signature"], proof)
    assert (body["execution_id"], body["status"], body["result"]) == (execution_id, "succeeded", {"a": 1})


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "1\r\nX-B: 2"},
        {"X-A\r\nX-B": "1"},
        {"X-A": "ä"},
        {"X-Ä": "1"},
        {"": "1"},
        {"X A": "1"},
        {"Host": "evil.test"},
        {"content-length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"X-A": "x" * 1998},
        {f"X-{number}": "1" for number in range(21)},
    ],
)
def test_headers_of_a_webhook_that_cannot_be_sent_are_refused_at_once(both: Executing, headers: dict[str, str]) -> None:
    """Not when the end is there and nobody is left to be told."""
    answer = both.submit("a:r", {"input": {}, "webhook": {"url": both.agent.url, "headers": headers}})

    assert (answer.status_code, answer.json()["details"]) == (400, {"parameter": "webhook.headers"})
    assert both.agent.asked == []


def test_headers_of_a_webhook_may_be_as_many_and_as_long_as_allowed(both: Executing) -> None:
    """Twenty, and two thousand characters."""
    headers = {f"X-{number:02}": "x" * 1996 for number in range(20)}
    answer = both.submit("a:r", {"input": {}, "webhook": {"url": both.agent.url, "headers": headers}})

    assert answer.status_code == 202


# The contract


def example(name: str) -> Any:
    return json.loads((CONTRACT / f"examples/{name}.json").read_text())


def fits(schema: str, document: object) -> bool:
    contract = json.loads((CONTRACT / "openapi.json").read_text())
    return jsonschema_rs.validator_for({**contract, "$ref": f"#/components/schemas/{schema}"}).is_valid(document)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("execute-request", "ExecuteRequest"),
        ("execute-response", "Executed"),
        ("execute-failed-response", "Executed"),
        ("execute-invalid-input-response", "Error"),
        ("execute-async-response", "Accepted"),
        ("execution-running", "Execution"),
        ("execution-succeeded", "Execution"),
        ("report-python-sdk", "Report"),
        ("report-python-sdk-cancelled", "Report"),
        ("event-python-sdk", "Event"),
    ],
)
def test_the_examples_of_the_contract_keep_it(name: str, schema: str) -> None:
    """And a document of another kind does not."""
    assert fits(schema, example(name))
    assert not fits(schema, [])


def test_the_server_answers_as_the_examples_of_the_contract_do(both: Executing) -> None:
    """Key for key; SDKs are tested with the same files."""
    schema = example("execute-invalid-input-response")["details"]["schema"]
    both.register("probe-agent", schema)
    asked = {"input": example("execute-request")["input"]}
    both.agent.answer = says(example("execution-succeeded")["result"])
    answers = {"execute-response": both.run("probe-agent:r", asked)}
    answers["execute-invalid-input-response"] = both.run("probe-agent:r")
    both.agent.answer = says({"detail": "boom"}, 500)
    answers["execute-failed-response"] = both.run("probe-agent:r", asked)
    both.agent.answer = accepts
    answers["execute-async-response"] = both.submit("probe-agent:r", asked)
    reported, cancelled = both.submitted("probe-agent:r", asked), both.submitted("probe-agent:r", asked)
    answers["execution-running"] = both.client.get(f"{EXECUTIONS}/{reported}")
    answers["execution-succeeded"] = both.report(reported, **example("report-python-sdk"))
    answers["execution-cancel-response"] = both.client.post(
        f"{EXECUTIONS}/{cancelled}/cancel", json={"reason": example("execution-cancel-response")["reason"]}
    )
    late = both.report(cancelled, **example("report-python-sdk-cancelled"))
    told = event(both, **example("event-python-sdk"))

    assert {name: list(answer.json()) for name, answer in answers.items()} == {
        name: list(example(name)) for name in answers
    }
    assert (
        answers["execute-invalid-input-response"].json()["details"]
        == example("execute-invalid-input-response")["details"]
    )
    assert (late.status_code, late.json()["status"], told.status_code) == (200, "cancelled", 200)
    assert fits("Executed", answers["execute-response"].json())
    assert fits("Executed", answers["execute-failed-response"].json())
    assert fits("Accepted", answers["execute-async-response"].json())
    assert all(fits("Execution", answers[name].json()) for name in ("execution-running", "execution-succeeded"))


# The store, and crashes


def test_without_its_store_a_server_accepts_nothing_and_still_runs_for_who_waits(
    alone: Executing, tmp_path: Path
) -> None:
    """503 and `Retry-After`; what needs no promise goes on."""
    alone.agent.answer = says(1)
    with closing(sqlite3.connect(tmp_path / "plane.db")) as database:
        database.execute("ALTER TABLE executions RENAME TO away")
    refused = alone.submit()
    waited = alone.run()
    calls = len(alone.agent.calls)
    with closing(sqlite3.connect(tmp_path / "plane.db")) as database:
        database.execute("ALTER TABLE away RENAME TO executions")
    accepted = alone.submit()
    alone.get(accepted.json()["execution_id"])

    assert (refused.status_code, refused.headers["retry-after"], waited.status_code, calls) == (503, "1", 200, 1)
    assert (accepted.status_code, len(alone.agent.calls)) == (202, 2)


def test_what_was_accepted_survives_a_crash_and_is_sent_once(tmp_path: Path) -> None:
    """One is with its agent, one waits behind it, and the server is killed."""
    environment = {"XDG_DATA_HOME": str(tmp_path), "SWITCHBOARD_AGENT_CONCURRENCY": "1"}
    with AgentServer() as agent:
        before = Executing(ControlPlane(tmp_path, **environment), agent, tmp_path)
        before.register()
        working = before.submitted()
        waiting = str(before.submit("a:s").json()["execution_id"])
        before.report(working, status="running")
        before.plane.kill()
        agent.answer = says("after")
        after = Executing(ControlPlane(tmp_path, **environment), agent, tmp_path)
        sent = after.get(waiting)
        kept = after.get(working, wait=0)
        after.report(working, status="succeeded", result="reported")
        ended = after.get(working)
        after.plane.stop()

    assert (sent["result"], kept["status"], ended["result"]) == ("after", "running", "reported")
    assert [asked.execution_id for asked in agent.calls] == [working, waiting]

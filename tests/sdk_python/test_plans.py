"""The decisions of the core, without a server: what is sent, what is sent again, and what is made of what came."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest

from agentfield import APIError, ConnectionFailed, DiscoveryResponse, Timeout
from agentfield.context import CURRENT, Context, headers_for
from agentfield.discovery import AgentCapability, request_for, response_of
from agentfield.execution import Execution, Times, call_of, execute, wait
from agentfield.plans import Answer, Lost, Pause, Plan, Reply, Request, exchange, pause_before, read, refuse
from agentfield.reports import deliver, stay
from agentfield.watching import Seen, differences, look

T = TypeVar("T")
EXAMPLES = Path(__file__).parents[2] / "contract/examples"
ASK = Request("GET", "/x", repeatable=True)
TELL = Request("POST", "/x")
GONE = Lost("away", sent=False)
CUT = Lost("cut", sent=True, seen_before=True)
LATE = Lost("late", sent=True, timed_out=True, took=30.0, seen_before=True)


def answer(status: int, document: object = None, **headers: str) -> Answer:
    return Answer(status, headers, json.dumps(document).encode())


def carry_out(plan: Plan[T], replies: Sequence[Reply]) -> tuple[T | None, list[Request | Pause]]:
    """Give a plan its replies, and return its result with what it wanted; None when it wants more."""
    steps: list[Request | Pause] = []
    rest = iter(replies)
    reply: Reply = None
    try:
        while True:
            steps.append(plan.send(reply))
            if isinstance(steps[-1], Pause):
                reply = None
                continue
            reply = next(rest, None)
            if reply is None:
                plan.close()
                return None, steps
    except StopIteration as end:
        return end.value, steps


@pytest.mark.parametrize(
    ("reply", "request_", "attempt", "spent", "pause"),
    [
        (GONE, ASK, 0, 0.0, 0.1),
        (GONE, TELL, 0, 0.0, 0.1),  # nobody can have received it
        (GONE, ASK, 3, 0.9, None),  # nobody was ever there
        (CUT, ASK, 9, 20.0, 2.0),  # somebody was
        (CUT, ASK, 9, 29.0, None),
        (CUT, TELL, 0, 0.0, None),  # it may have been received
        (LATE, ASK, 0, 0.0, None),
        (answer(503, retry_after="3"), ASK, 0, 0.0, 0.1),
        (Answer(503, {"retry-after": "3"}, b""), ASK, 0, 0.0, 3.0),
        (Answer(503, {"retry-after": "soon"}, b""), ASK, 1, 0.0, 0.2),
        (answer(503), TELL, 0, 0.0, None),
        (answer(503, {"execution_id": "e", "status": "failed"}), ASK, 0, 0.0, None),  # the end of an execution
        (answer(500), ASK, 0, 0.0, None),
        (answer(200), ASK, 0, 0.0, None),
    ],
)
def test_a_request_is_sent_again_only_where_that_is_safe(
    reply: Answer | Lost, request_: Request, attempt: int, spent: float, pause: float | None
) -> None:
    """And only as long as there is patience."""
    assert pause_before(reply, request_, attempt, spent, 30.0) == pause


def test_an_exchange_ends_with_an_answer_or_says_why_there_is_none() -> None:
    """After pauses that grow."""
    result, steps = carry_out(exchange(ASK, 30.0), [CUT, CUT, answer(200, 1)])

    assert result is not None
    assert [step.seconds for step in steps if isinstance(step, Pause)] == [0.1, 0.2]
    with pytest.raises(ConnectionFailed, match="away"):
        carry_out(exchange(ASK, 0.0), [GONE])
    with pytest.raises(Timeout, match="late"):
        carry_out(exchange(ASK, 30.0), [LATE])


def test_an_execution_that_is_quick_is_one_request() -> None:
    """With a key, so that it could be found again."""
    ended = answer(200, {"execution_id": "e", "status": "succeeded", "result": 1})
    result, steps = carry_out(execute(call_of("a:b/c", {"x": 1}), Times(20, 30)), [ended])

    assert result is not None
    assert result.result == 1
    (sent,) = steps
    assert isinstance(sent, Request)
    assert (sent.path, sent.body) == ("/api/v1/execute/a:b%2Fc", b'{"input":{"x":1}}')
    assert dict(sent.headers)["Idempotency-Key"]


@pytest.mark.parametrize("first", [CUT, LATE, answer(503, {"error": "service_unavailable"})])
def test_an_execution_without_an_answer_is_found_again_by_its_key(first: Answer | Lost) -> None:
    """It is submitted with the same key, which is the same execution, and waited for."""
    accepted = answer(202, {"execution_id": "e", "status": "running"})
    ended = answer(200, {"execution_id": "e", "status": "succeeded"})
    _, steps = carry_out(execute(call_of("a:b", {}), Times(20, 30)), [first, accepted, ended])

    requests = [step for step in steps if isinstance(step, Request)]
    assert [step.path for step in requests] == [
        "/api/v1/execute/a:b",
        "/api/v1/execute/async/a:b",
        "/api/v1/executions/e",
    ]
    assert requests[0].headers == requests[1].headers
    assert requests[2].query == (("wait", "20.000"),)


def test_an_execution_that_the_server_stops_waiting_for_is_waited_for() -> None:
    """504 with its id in the details."""
    over = answer(504, {"error": "timeout", "details": {"execution_id": "e"}})
    ended = answer(200, {"execution_id": "e", "status": "succeeded"})

    _, steps = carry_out(execute(call_of("a:b", {}), Times(20, 30)), [over, ended])

    assert [step.path for step in steps if isinstance(step, Request)][1:] == ["/api/v1/executions/e"]


def test_a_limit_holds_for_everything_that_a_call_does() -> None:
    """A control plane that is away, or does not answer, uses up the caller's time and no more."""
    late = Lost("late", sent=True, timed_out=True, took=2.0, seen_before=True)
    accepted = answer(202, {"execution_id": "e", "status": "running"})
    away, lost = (execute(call_of("a:b", {}), Times(20, 30, 2.0)) for _ in range(2))
    steps: list[Request | Pause] = []

    with pytest.raises(ConnectionFailed):
        until_the_end(away, CUT, steps)
    assert 0 < sum(step.seconds for step in steps if isinstance(step, Pause)) <= 2
    with pytest.raises(Timeout, match="e has not ended after 2 s") as caught:
        carry_out(lost, [late, accepted, late])
    assert caught.value.execution_id == "e"
    _, steps = carry_out(execute(call_of("a:b", {}), Times(20, 30, 2.0)), [late, accepted])
    assert [step.seconds for step in steps if isinstance(step, Request)] == [2.0, 1.0, 1.0]


def until_the_end(plan: Plan[T], reply: Reply, steps: list[Request | Pause]) -> None:
    """Give a plan one reply again and again, and note what it wanted."""
    steps.append(plan.send(None))
    while True:
        steps.append(plan.send(None if isinstance(steps[-1], Pause) else reply))


def test_a_server_that_cannot_wait_is_asked_less_and_less_often() -> None:
    """One that ignores `wait` would else be asked without end."""
    running = answer(200, {"execution_id": "e", "status": "running"})

    with pytest.raises(Timeout):
        carry_out(wait("e", Times(20, 30, 1.0)), [running] * 20)
    _, steps = carry_out(wait("e", Times(20, 30)), [running] * 5)
    assert [step.seconds for step in steps if isinstance(step, Pause)] == [0.05, 0.1, 0.2, 0.4, 0.8]


def test_reports_are_sent_until_they_are_taken_in_or_refused() -> None:
    """A wrong key can be mended; an execution that nobody knows cannot."""
    said: list[str] = []
    taken, steps = carry_out(deliver("e", b"{}", said.append), [CUT, answer(503), answer(401), answer(200)])
    refused, _ = carry_out(deliver("e", b"{}", said.append), [answer(404)])

    assert (taken, refused, said) == (True, False, ["a report was refused with 404"])
    assert len([step for step in steps if isinstance(step, Pause)]) == 3


def test_an_agent_registers_until_it_is_heard_and_again_when_it_was_forgotten() -> None:
    """A control plane that is away in between is waited for."""
    said: list[str] = []
    replies = [GONE, answer(201), answer(200), CUT, answer(200), answer(404), answer(500), answer(201)]
    _, steps = carry_out(stay("a", b"{}", 2.0, said.append), replies)

    paths = [step.path.rpartition("/")[2] for step in steps if isinstance(step, Request)]
    assert paths == ["register", "register", *["heartbeat"] * 4, "register", "register", "heartbeat"]
    assert [text.partition(":")[0] for text in said] == [
        "not registered yet",
        "registered",
        "away",
        "back",
        "forgotten",
        "not registered yet",
        "registered",
    ]


def test_an_agent_that_is_refused_at_first_is_told_and_later_tries_again() -> None:
    """What was right once may be right again."""
    with pytest.raises(APIError, match="no such name"):
        carry_out(stay("a", b"{}", 2.0, lambda _: None), [answer(400, {"message": "no such name"})])
    replies = [answer(201), answer(404), answer(401), answer(201)]
    _, steps = carry_out(stay("a", b"{}", 2.0, lambda _: None), replies)
    assert len([step for step in steps if isinstance(step, Request)]) == 5


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_an_agent_that_is_put_off_at_first_tries_again(status: int) -> None:
    """A busy server is no refusal."""
    _, steps = carry_out(stay("a", b"{}", 1.0, lambda _: None), [answer(status), answer(201)])

    assert [step.path for step in steps if isinstance(step, Request)][:2] == ["/api/v1/nodes/register"] * 2


def test_a_nested_call_says_whose_it_is() -> None:
    """Outside of an execution it says only who asks."""
    outside = headers_for("me")
    token = CURRENT.set(Context("e", "r", "p", "other", "s", "", "w"))
    inside = headers_for("me")
    CURRENT.reset(token)

    assert outside == (("X-Caller-Agent-ID", "me"),)
    assert dict(inside) == {
        "X-Caller-Agent-ID": "me",
        "X-Run-ID": "r",
        "X-Parent-Execution-ID": "e",
        "X-Session-ID": "s",
        "X-Root-Workflow-ID": "w",
    }


def test_a_sign_of_life_is_no_change() -> None:
    """Everything else is."""
    agent = AgentCapability("a", last_heartbeat=DiscoveryResponse().discovered_at)
    later = AgentCapability("a", last_heartbeat=agent.last_heartbeat.replace(year=2026))
    ill = AgentCapability("a", health_status="degraded")

    assert differences({"a": agent}, {"a": later}) == []
    assert [(change.kind, change.before) for change in differences({"a": agent}, {"a": ill})] == [("health", agent)]


def test_a_watcher_waits_for_a_server_that_is_away_and_asks_with_its_etag() -> None:
    """A refusal ends it; everything else is asked again."""
    there = Answer(200, {"etag": 'W/"1"'}, b'{"capabilities": [{"agent_id": "a"}]}')
    found, _ = carry_out(look(Seen(), {}, 1.0, 5, 30), [CUT, answer(503), there])
    assert found is not None
    seen, changes = found
    _, steps = carry_out(look(seen, {}, 1.0, 5, 30), [answer(304), CUT, there, answer(304)])

    assert [change.kind for change in changes] == ["added"]
    assert {step.headers for step in steps if isinstance(step, Request)} == {(("If-None-Match", 'W/"1"'),)}
    assert carry_out(look(seen, {}, 1.0, 5, 30), [answer(429), answer(408)])[0] is None  # it asks again
    with pytest.raises(APIError):
        carry_out(look(seen, {}, 1.0, 5, 30), [answer(401)])


def test_importing_is_light() -> None:
    """What a caller may never need is imported when it does: the client, the server, the event loop, pydantic."""
    code = "import sys, agentfield; print({'httpx2', 'uvicorn', 'asyncio', 'pydantic', 'ssl'} & sys.modules.keys())"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"  # noqa: S603 - our own


# The contract

REQUESTS = json.loads((EXAMPLES / "discovery-requests.json").read_text())


@pytest.mark.parametrize("name", [item["answer"] for item in REQUESTS if item["answer"].startswith("discovery-")])
def test_every_golden_answer_is_read_without_loss(name: str) -> None:
    """Every member of it is in the value."""
    body = (EXAMPLES / name).read_bytes()
    form = name.split("-")[1].partition(".")[0]
    found = response_of(form, Answer(200, {}, body))

    if form == "xml":
        assert found == body.decode()
    else:
        assert contained(json.loads(body), msgspec.to_builtins(found))


def contained(small: Any, large: Any) -> bool:
    """Tell whether everything of one document is in another; times are compared elsewhere."""
    if isinstance(small, dict):
        fields = cast("dict[str, Any]", small)
        kept = [name for name in fields if name not in {"discovered_at", "last_heartbeat"}]
        return all(contained(fields[name], large.get(name)) for name in kept)
    if isinstance(small, list):
        return len(cast("list[Any]", small)) == len(large) and all(map(contained, cast("list[Any]", small), large))
    return small == large


@pytest.mark.parametrize(
    "item", [item for item in REQUESTS if item["answer"].startswith("error-")], ids=lambda item: item["answer"]
)
def test_every_golden_error_is_raised_with_its_message(item: dict[str, object]) -> None:
    """As the class of its status."""
    body = (EXAMPLES / str(item["answer"])).read_bytes()
    with pytest.raises(APIError) as caught:
        refuse(Answer(int(str(item["status"])), {}, body))

    document = json.loads(body)
    error = caught.value
    assert (error.code, error.message, error.request_id, error.details) == (
        document["error"],
        document["message"],
        document["request_id"],
        document.get("details", {}),
    )


@pytest.mark.parametrize(
    "name",
    [
        "execute-response",
        "execute-failed-response",
        "execute-async-response",
        "execution-running",
        "execution-succeeded",
    ],
)
def test_every_golden_execution_is_read_as_it_is(name: str) -> None:
    """Every member that the SDK has is as it was written; times are read as times."""
    body = (EXAMPLES / f"{name}.json").read_bytes()
    found = read(Answer(200, {}, body), Execution)

    document = json.loads(body)
    own = [key for key in document if key in Execution.__struct_fields__]
    assert {"execution_id", "status"} <= set(own)
    for key in own:
        wanted = datetime.fromisoformat(document[key]) if key.endswith("_at") else document[key]
        assert getattr(found, key) == wanted


def test_the_golden_request_is_the_request_of_the_sdk() -> None:
    """With its webhook."""
    document = json.loads((EXAMPLES / "execute-request.json").read_text())

    assert json.loads(call_of("a:b", document["input"], webhook=document["webhook"]).body) == document


def test_golden_questions_are_the_questions_of_the_sdk() -> None:
    """The same parameters, by the same names."""
    made = request_for(
        "json", {"include_input_schema": True, "include_output_schema": True, "include_examples": True}, 5
    )
    paged = request_for("json", {"limit": 1, "offset": 1}, 5)
    named = request_for("json", {"include_descriptions": False, "agent_ids": ["agent-research-001", "gone-*"]}, 5)
    queries = {item["answer"]: item.get("query") for item in REQUESTS}

    assert dict(made.query) == queries["discovery-json.json"]
    assert dict(paged.query) == queries["discovery-json-page.json"]
    assert dict(named.query) == queries["discovery-json-bare.json"]


def test_an_answer_is_read_as_the_type_that_is_asked_for() -> None:
    """Or refused."""
    assert read(answer(200, [1]), list[int]) == [1]
    with pytest.raises(APIError):
        read(answer(404, [1]), list[int])

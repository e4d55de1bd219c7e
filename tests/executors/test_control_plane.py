"""Calls of agents through control planes, which are small servers here: handed in once, waited for anywhere."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import pytest
from msgspec.structs import replace
from tests.builders import agent
from tests.planes import Asked, Said, SmallPlane

from switchboard.actions.ports import Call, Outcome, Plane, Planes, Text
from switchboard.catalog.agent_apps import as_app
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import (
    AnswerTooLarge,
    AuthInvalid,
    AuthRequired,
    CallTimeout,
    ConsentRequired,
    InvalidParams,
    InvalidRequest,
    NotSupported,
    RateLimited,
    ServiceUnavailable,
    SwitchboardError,
    UnknownApp,
    UnknownTool,
)
from switchboard.catalog.model import Caller
from switchboard.executors.control_plane import ControlPlaneExecutor
from switchboard.net.fetch import Fetch
from switchboard.net.guard import is_reachable

LIMIT_S = 30.0
STORE = "agents:s1"
EXECUTION = "exec_1"
PATH = f"/api/v1/executions/{EXECUTION}"
DEAD = Plane(url="http://127.0.0.1:9", down_since=1794736800.0)


@final
class Given(Planes):
    """Control planes that a test names."""

    def __init__(self, planes: Sequence[Plane]) -> None:
        self._planes = planes

    def of(self, service: str) -> Sequence[Plane]:
        """Return all of them."""
        assert service
        return self._planes


def accepted(_: Asked) -> Said:
    return Said(202, {"execution_id": EXECUTION, "status": "queued"})


def ended(status: str = "succeeded", **facts: Any) -> Callable[[Asked], Said]:
    return lambda _: Said(200, {"execution_id": EXECUTION, "status": status, **facts})


def in_turn(*answers: Callable[[Asked], Said]) -> Callable[[Asked], Said]:
    turns = iter(answers)

    def answer(asked: Asked) -> Said:
        return next(turns)(asked)

    return answer


def serving(plane: SmallPlane, target: str, submit: Callable[[Asked], Said], end: Callable[[Asked], Said]) -> None:
    """Let a control plane answer a call in this way."""
    plane.answers[f"/api/v1/execute/async/{target}"] = submit
    plane.answers[PATH] = end


TARGET = "a%3Askill%3Aact"


def call_of(service: str = STORE, **arguments: Any) -> Call:
    owner = as_app(agent("a", {"think": []}, {"act": []}), service=service, origin=service)
    return Call(id="1", caller=Caller("a test"), owner=owner, capability=owner.capabilities[1], arguments=arguments)


async def run(call: Call, *planes: SmallPlane | Plane, longest_s: float = LIMIT_S, away_s: float = LIMIT_S) -> Outcome:
    named = [Plane(url=plane.url) if isinstance(plane, SmallPlane) else plane for plane in planes]
    fetch = Fetch(loopback=True, permitted=is_reachable)
    try:
        executor = ControlPlaneExecutor(lambda: fetch, Given(named), longest_s=longest_s, away_s=away_s)
        return await executor.run(call, None)
    finally:
        await fetch.close()


def outcome(call: Call, *planes: SmallPlane | Plane, **limits: float) -> Outcome:
    return asyncio.run(asyncio.wait_for(run(call, *planes, **limits), LIMIT_S))


@pytest.mark.parametrize(
    ("facts", "text", "data"),
    [
        ({"result": {"found": 3}}, '{"found": 3}', b'{"found": 3}'),
        ({"result": "plain text"}, "plain text", b'"plain text"'),
        ({"result": None}, "null", b"null"),
        ({}, "null", b"null"),
    ],
)
def test_a_call_is_handed_in_and_waited_for(facts: Mapping[str, Any], text: str, data: bytes) -> None:
    """With the arguments as input, under a key of its own; the result is any JSON, a text as it is."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, ended(**facts))

        brought = outcome(call_of(mark="x"), plane)

        [submitted, asked] = plane.asked
        assert brought == Outcome(parts=(Text(text),), data=Json(data))
        assert submitted.document == {"input": {"mark": "x"}}
        assert len(submitted.headers["idempotency-key"]) > 20
        assert asked.query == {"wait": "20"}


def test_one_that_answers_before_the_end_is_asked_again() -> None:
    """AgentField's own does not wait."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, in_turn(ended("running"), ended("running"), ended(result=1)))

        assert outcome(call_of(), plane).data == b"1"


def test_a_server_whose_store_is_not_known_is_asked_in_the_spelling_of_agentfield() -> None:
    """Which knows no other one."""
    with SmallPlane() as plane:
        serving(plane, "a.act", accepted, ended(result=1))

        assert outcome(call_of(plane.url), plane).data == b"1"


@pytest.mark.parametrize(
    ("agent_id", "reasoners", "skills", "tool", "target"),
    [
        ("a", ["think", "reasoner:think"], [], "reasoner:think", "a.reasoner%3Athink"),
        ("a", ["think"], ["skill:act"], "skill:act", "a.skill%3Aact"),
        ("a", ["act"], ["act"], "skill:act", None),
        ("a.b", [], ["act"], "act", None),
    ],
)
def test_what_agentfield_would_take_for_something_else_is_not_asked_of_it(
    agent_id: str, reasoners: list[str], skills: list[str], tool: str, target: str | None
) -> None:
    """What runs there is what the user was asked about, or nothing: it reads `a.act` as the reasoner of `a`."""
    with SmallPlane() as plane:
        made = agent(agent_id, {name: [] for name in reasoners}, {name: [] for name in skills})
        owner = as_app(made, service=plane.url, origin=plane.url)
        capability = owner.capability(tool)
        assert capability is not None
        call = Call(id="1", caller=Caller("a test"), owner=owner, capability=capability, arguments={})
        if target is not None:
            serving(plane, target, accepted, ended(result=1))
            assert outcome(call, plane).data == b"1"
            return

        with pytest.raises(NotSupported):
            outcome(call, plane)
        assert plane.asked == []


@pytest.mark.parametrize(("result", "text"), [(b"1e999", "1e999"), (b'"\xff"', '"\ufffd"')])
def test_a_result_that_nobody_can_read_as_data_is_a_text(result: bytes, text: str) -> None:
    """It ran all the same."""
    body = b'{"execution_id": "exec_1", "status": "succeeded", "result": ' + result + b"}"
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, lambda _: Said(200, body))

        assert outcome(call_of(), plane) == Outcome(parts=(Text(text),))


def test_what_the_agent_says_about_its_failure_is_an_outcome() -> None:
    """In its own words, with what it said besides."""
    with SmallPlane() as plane:
        end = ended("failed", error="no such page", status_reason="agent_error", error_details={"page": 7})
        serving(plane, TARGET, accepted, end)

        brought = outcome(call_of(), plane)

        assert brought.failed
        assert brought.data is not None
        assert b'"message":"no such page"' in brought.data
        assert b'"page":7' in brought.data


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("agent_unreachable", ServiceUnavailable),
        ("agent_timeout", CallTimeout),
        ("execution_timeout", CallTimeout),
    ],
)
def test_what_kept_a_call_from_its_agent_is_an_error(reason: str, expected: type[SwitchboardError]) -> None:
    """It is not the agent's own."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, ended("failed", error="nobody there", status_reason=reason))

        with pytest.raises(expected):
            outcome(call_of(), plane)


REFUSALS: list[tuple[int, dict[str, Any], type[SwitchboardError], str]] = [
    (400, {"message": "no object"}, InvalidRequest, "no object"),
    (401, {"message": "who are you"}, AuthRequired, "AGENTFIELD_API_KEY"),
    (403, {"message": "not yours"}, ConsentRequired, "not yours"),
    (404, {"message": "?", "details": {"app": "a", "tool": "act", "nearest": ["acts"]}}, UnknownTool, "acts"),
    (404, {"message": "?", "details": {"app": "a"}}, UnknownApp, "does not know it any more"),
    (422, {"message": "bad", "details": {"violations": ["$.x"], "schema": {}}}, InvalidParams, "bad"),
    (429, {"message": "slow down"}, RateLimited, "slow down"),
    (503, {"message": "full"}, ServiceUnavailable, "full"),
    (500, {}, ServiceUnavailable, "not known"),
]


@pytest.mark.parametrize(("status", "body", "expected", "said"), REFUSALS)
def test_a_refusal_of_the_control_plane_is_one_of_ours(
    status: int, body: dict[str, Any], expected: type[SwitchboardError], said: str
) -> None:
    """Each status has its error, and the words are kept."""
    with SmallPlane() as plane:
        serving(plane, TARGET, lambda _: Said(status, body), ended())

        with pytest.raises(expected, match=said) as caught:
            outcome(call_of(), plane)

        assert type(caught.value) is expected


def test_a_key_that_is_not_accepted_is_named_and_not_shown() -> None:
    """The user knows which variable to look at."""
    with SmallPlane(key="right") as plane:
        named = Plane(url=plane.url, headers=(("X-API-Key", "wrong-key"),))

        with pytest.raises(AuthInvalid, match="does not accept the key in AGENTFIELD_API_KEY") as caught:
            outcome(call_of(), named)

        assert "wrong-key" not in f"{caught.value} {caught.value.details}"


def test_a_control_plane_that_is_not_there_is_passed_over() -> None:
    """The next one takes the call on, whoever's key it has."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, ended(result=1))
        other = Plane(url=plane.url, headers=(("X-API-Key", "another"),))

        assert outcome(call_of(), DEAD, other).data == b"1"


@pytest.mark.parametrize("first", [Said(None), Said(503, {}), Said(502, {}), Said(401, {}), Said(202, b"{")])
def test_an_unclear_answer_leads_to_another_one_of_the_store_under_the_same_key(first: Said) -> None:
    """So that it runs once, whatever the first one did with it."""
    with SmallPlane() as broken, SmallPlane() as plane:
        serving(broken, TARGET, lambda _: first, ended())
        serving(plane, TARGET, accepted, ended(result=1))

        assert outcome(call_of(), broken, plane).data == b"1"
        assert broken.asked[0].headers["idempotency-key"] == plane.asked[0].headers["idempotency-key"]


@pytest.mark.parametrize(
    ("service", "headers"), [("https://agentfield.example", ()), (STORE, (("X-API-Key", "somebody else's"),))]
)
def test_nothing_unclear_is_repeated_where_the_key_means_nothing(
    service: str, headers: tuple[tuple[str, str], ...]
) -> None:
    """At a server that may not keep keys, or as another caller, it could run twice."""
    with SmallPlane() as broken, SmallPlane() as plane:
        for path in (TARGET, "a.act"):
            serving(broken, path, lambda _: Said(None), ended())
            serving(plane, path, accepted, ended())

        with pytest.raises(ServiceUnavailable, match="Whether the call had an effect is not known"):
            outcome(call_of(service), broken, Plane(url=plane.url, headers=headers))

        assert plane.asked == []


def test_a_control_plane_that_dies_during_a_call_changes_nothing() -> None:
    """Another one tells how it ends."""
    with SmallPlane() as dying, SmallPlane() as plane:
        serving(dying, TARGET, accepted, lambda _: Said(None))
        serving(plane, TARGET, accepted, ended(result=1))

        assert outcome(call_of(), dying, plane).data == b"1"
        assert [asked.method for asked in plane.asked] == ["GET"]


def test_a_control_plane_that_comes_back_is_waited_for() -> None:
    """An execution that was accepted outlives it."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, in_turn(lambda _: Said(None), lambda _: Said(503, {}), ended(result=1)))

        assert outcome(call_of(), plane).data == b"1"


def test_when_nobody_answers_it_is_said_since_when() -> None:
    """And which control planes were tried."""
    with pytest.raises(ServiceUnavailable, match="since 2026-11-15T10:00:00") as caught:
        outcome(call_of(), DEAD)

    assert caught.value.details["planes"] == [DEAD.url]
    assert caught.value.details["since"] == "2026-11-15T10:00:00.000Z"


def test_when_nobody_tells_the_end_the_execution_is_named() -> None:
    """Somebody can look for it before it is repeated."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, lambda _: Said(None))

        with pytest.raises(ServiceUnavailable, match=f"Look for the execution {EXECUTION}"):
            outcome(call_of(), plane, away_s=0.0)


def test_an_end_that_nobody_knows_is_not_the_failure_of_the_agent() -> None:
    """It may have run: whoever repeats it has to look first."""
    with SmallPlane() as plane:
        facts = {"error": "the control plane was restarted", "status_reason": "outcome_unknown"}
        serving(plane, TARGET, accepted, ended("failed", **facts))

        with pytest.raises(ServiceUnavailable, match="Whether the call had an effect is not known") as caught:
            outcome(call_of(), plane)

        assert caught.value.details == {"app": "a", "execution": EXECUTION}


def test_a_call_that_nobody_waits_for_is_taken_back() -> None:
    """The control plane is told, and tells the agent."""
    told = threading.Event()

    def cancelled(_: Asked) -> Said:
        told.set()
        return Said(200, {})

    async def story(plane: SmallPlane) -> None:
        waiting = asyncio.Event()
        loop = asyncio.get_running_loop()

        def running(_: Asked) -> Said:
            loop.call_soon_threadsafe(waiting.set)
            return Said(200, {"execution_id": EXECUTION, "status": "running"})

        serving(plane, TARGET, accepted, running)
        plane.answers[f"{PATH}/cancel"] = cancelled
        calling = asyncio.create_task(run(call_of(), plane))
        await asyncio.wait_for(waiting.wait(), LIMIT_S)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    with SmallPlane() as plane:
        asyncio.run(story(plane))
        assert told.is_set()


def test_a_call_that_takes_too_long_is_taken_back() -> None:
    """And is a timeout."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, ended("running"))
        plane.answers[f"{PATH}/cancel"] = lambda _: Said(200, {})

        with pytest.raises(CallTimeout, match="it was told to stop"):
            outcome(call_of(), plane, longest_s=0.3)

        assert plane.requests(f"{PATH}/cancel")[0].method == "POST"


@pytest.mark.parametrize("said", [Said(202, b"{"), Said(202, {"status": "queued"}), Said(202, b"[]")])
def test_an_answer_that_is_no_execution_is_said(said: Said) -> None:
    """Nothing is waited for then."""
    with SmallPlane() as plane:
        serving(plane, TARGET, lambda _: said, ended())

        with pytest.raises(ServiceUnavailable, match="Whether the call had an effect is not known"):
            outcome(call_of(), plane)


def test_a_result_has_a_limit() -> None:
    """Four megabytes."""
    with SmallPlane() as plane:
        serving(plane, TARGET, accepted, ended(result="x" * 5_000_000))

        with pytest.raises(AnswerTooLarge):
            outcome(call_of(), plane)


def test_only_agents_are_called_so() -> None:
    """Any other app has a way of its own."""
    call = call_of()
    binding = agent("x", {"y": []}).capabilities[0].binding

    with pytest.raises(NotSupported):
        outcome(replace(call, capability=replace(call.capability, binding=binding)), DEAD)

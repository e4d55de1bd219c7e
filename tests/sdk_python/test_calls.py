"""Asking and executing with the SDK, blocking and not, against a real server with real agents."""

import asyncio
import threading
from collections.abc import Callable
from typing import cast

import pytest
from tests.sdk_python.running import Program, run
from tests.servers import ControlPlane, registration
from tests.support import requirement

from agentfield import (
    Agent,
    AgentFieldError,
    Change,
    Conflict,
    DiscoveryResponse,
    ExecutionCancelled,
    ExecutionFailed,
    Filters,
    InvalidInput,
    InvalidRequest,
    NotFound,
    Timeout,
    Unauthorized,
)


def ids(found: DiscoveryResponse) -> list[str]:
    return [agent.agent_id for agent in found.capabilities]


@requirement("sdk-python:discover:agent-alias")
@pytest.mark.parametrize("name", ["agent", "node_id", "agent_id"])
def test_one_agent_is_named_by_any_of_three_names_with_wildcards(
    researchers: ControlPlane, app: Agent, name: str
) -> None:
    """`agent` and its aliases."""
    assert researchers.url
    assert ids(app.discover(**cast("Filters", {name: "agent-001"}))) == ["agent-001"]
    assert ids(app.discover(**cast("Filters", {name: "agent-*"}))) == ["agent-001", "agent-research-001"]


@requirement("sdk-python:discover:agent-ids-alias")
@pytest.mark.parametrize("name", ["agent_ids", "node_ids"])
def test_several_agents_are_named_in_a_list_with_wildcards(researchers: ControlPlane, app: Agent, name: str) -> None:
    """`agent_ids` and its alias."""
    assert researchers.url
    assert ids(app.discover(**cast("Filters", {name: ["a1", "*-research-*"]}))) == ["a1", "agent-research-001"]


def test_an_agent_may_have_a_comma_in_its_name(plane: ControlPlane, app: Agent) -> None:
    """Lists on the wire have commas between their items; names with one are sent one by one."""
    plane.register(registration("tea, black", {"brew": []}), registration("tea", {"brew": []}))

    assert ids(app.discover(agent_ids=["tea, black", "tea"])) == ["tea", "tea, black"]
    plane.client.delete("/api/v1/nodes/tea, black")
    plane.client.delete("/api/v1/nodes/tea")


@requirement("sdk-python:discover:patterns", "sdk-python:discover:tags")
def test_patterns_choose_reasoners_skills_and_tags(researchers: ControlPlane, app: Agent) -> None:
    """`*research*`, `web_*`, `ml*`, `*learning`."""
    assert researchers.url
    reasoners = app.discover(reasoner="*research*")
    skills = app.discover(skill="web_s*")
    tagged = app.discover(tags=["ml*", "*learning"])

    assert (reasoners.total_reasoners, reasoners.total_skills) == (2, 0)
    assert (skills.total_reasoners, skills.total_skills) == (0, 3)
    assert ids(tagged) == ["a2", "agent-001", "agent-research-001"]


@requirement("sdk-python:discover:schema-options")
def test_schemas_descriptions_and_examples_come_when_asked_for(researchers: ControlPlane, app: Agent) -> None:
    """Descriptions by default, the rest not."""
    assert researchers.url
    plain = app.discover(reasoner="deep_research").capabilities[0].reasoners[0]
    full = (
        app.discover(
            reasoner="deep_research",
            include_input_schema=True,
            include_output_schema=True,
            include_descriptions=False,
            include_examples=True,
        )
        .capabilities[0]
        .reasoners[0]
    )

    assert (plain.description, plain.input_schema, plain.output_schema, plain.examples) == (
        "Perform comprehensive research using multiple sources.",
        None,
        None,
        None,
    )
    assert full.description is None
    assert full.input_schema is not None
    assert full.input_schema["required"] == ["query"]
    assert full.input_schema["properties"]["depth"] == {
        "type": "integer",
        "default": 3,
        "description": "Research depth level",
    }
    assert full.output_schema == {"type": "object"}
    assert full.examples is not None


@requirement("sdk-python:discover:format")
def test_each_format_has_its_own_type(researchers: ControlPlane, app: Agent) -> None:
    """An object, a text, a list of lines."""
    assert researchers.url
    assert app.discover(format="json").total_agents == 4
    assert app.discover(format="xml").startswith("<?xml")
    assert [item.target for item in app.discover(format="compact", skill="web_search").skills] == [
        "agent-research-001:skill:web_search"
    ]


@requirement("sdk-python:discover:pagination")
def test_pages_are_asked_for_one_by_one_or_all_in_turn(researchers: ControlPlane, app: Agent) -> None:
    """`limit` and `offset`, or `pages()`."""
    assert researchers.url
    second = app.discover(limit=1, offset=1)

    assert (ids(second), second.total_agents, second.pagination.has_more) == (["a2"], 4, True)
    assert [ids(page) for page in app.pages(limit=3)] == [["a1", "a2", "agent-001"], ["agent-research-001"]]
    assert [ids(page) for page in app.pages(limit=4, tags=["nothing"])] == [[]]


@requirement("sdk-python:discover:health-status")
def test_health_chooses_agents(researchers: ControlPlane, app: Agent) -> None:
    """`health_status` is a keyword."""
    assert researchers.url
    assert ids(app.discover(health_status="active")) == ["a1", "a2", "agent-001", "agent-research-001"]
    assert ids(app.discover(health_status="degraded")) == []


def test_everything_is_there_for_asyncio_too(researchers: ControlPlane, worker: Program) -> None:
    """The same answers from the methods with an `a`."""
    assert worker.process.pid

    async def ask() -> tuple[object, ...]:
        async with Agent(agentfield_server=researchers.url) as app:
            found = await app.adiscover(tags=["research"])
            compact = await app.adiscover(format="compact")
            xml = await app.adiscover(format="xml")
            pages = [page async for page in app.apages(limit=2, agent_ids=["a1", "a2", "agent-001"])]
            result = await app.aexecute("a1:summarise", {"text": "short"})
            handle = await app.asubmit("agent-001:web_researcher", {"query": "green tea"})
            awaited = await handle
            state = await handle.astate()
            return ids(found), len(compact.skills) > 3, xml[:5], len(pages), result, awaited, state.status

    assert asyncio.run(ask()) == (["agent-research-001"], True, "<?xml", 2, "short", "Green Tea", "succeeded")


def test_one_app_serves_several_event_loops_and_threads(researchers: ControlPlane) -> None:
    """Each has connections of its own."""
    app = Agent(agentfield_server=researchers.url)
    results: list[object] = []

    async def ask() -> None:
        try:
            answers = await asyncio.gather(*(app.aexecute("a1:summarise", {"text": str(n)}) for n in range(20)))
            results.append(answers == [str(n) for n in range(20)])
        finally:
            await app.aclose()

    threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [True, True, True]
    app.close()


def test_no_event_loop_leaves_connections_behind(plane: ControlPlane) -> None:
    """A program that has one for each call, and never closes anything, has no more open after fifty than after one."""
    code = """
import asyncio, os
from agentfield import Agent
app = Agent()
counts = []
for _ in range(50):
    asyncio.run(app.adiscover())
    counts.append(len(os.listdir("/dev/fd")))
print(counts[-1] - counts[0])
"""

    assert run(plane, code) == "0\n"


def test_a_watcher_sees_who_is_there_who_comes_who_changes_and_who_goes(plane: ControlPlane) -> None:
    """First everybody who is there, then every change."""
    plane.register(registration("watched-1", {"look": []}))
    with Agent(agentfield_server=plane.url) as app:
        changes = app.watch(every=0.02, agent="watched-*")
        first = next(changes)
        plane.register(registration("watched-2", {"look": []}))
        second = next(changes)
        plane.client.post("/api/v1/nodes/watched-1/shutdown")
        third = next(changes)
        plane.client.delete("/api/v1/nodes/watched-2")
        fourth = next(changes)
    plane.client.delete("/api/v1/nodes/watched-1")

    assert [(change.kind, change.agent.agent_id) for change in (first, second, third, fourth)] == [
        ("added", "watched-1"),
        ("added", "watched-2"),
        ("health", "watched-1"),
        ("removed", "watched-2"),
    ]
    assert (third.agent.health_status, third.before and third.before.health_status) == ("inactive", "active")


def test_a_watcher_for_asyncio_sees_the_same(plane: ControlPlane) -> None:
    """On the event loop."""
    plane.register(registration("seen-1", {"look": []}), registration("seen-2", {"look": []}))

    async def look() -> list[Change]:
        async with Agent(agentfield_server=plane.url) as app:
            seen: list[Change] = []
            async for change in app.awatch(every=0.02, agent="seen-*"):
                seen.append(change)
                if len(seen) == 2:
                    plane.client.delete("/api/v1/nodes/seen-1")
                if len(seen) == 3:
                    break
            return seen

    assert [(change.kind, change.agent.agent_id) for change in asyncio.run(look())] == [
        ("added", "seen-1"),
        ("added", "seen-2"),
        ("removed", "seen-1"),
    ]
    plane.client.delete("/api/v1/nodes/seen-2")


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "tea", [], [1, "x"], {}, {"a": {"b": [None]}}, "Ünï 日本"])
def test_results_come_back_as_they_are(worker: Program, app: Agent, value: object) -> None:
    """Any JSON."""
    assert worker.process.pid
    assert app.execute("worker:skill:echo", {"value": value}) == value


def test_an_input_may_be_missing(worker: Program, app: Agent) -> None:
    """Then it is empty, and defaults apply."""
    assert worker.process.pid
    assert app.execute("worker:skill:echo") is None


def test_one_key_is_one_execution(worker: Program, app: Agent) -> None:
    """However often it is sent; without a key every call is one of its own."""
    assert worker.process.pid
    one, two = (app.execute("worker:skill:who", idempotency_key="order-17") for _ in range(2))
    three, four = (app.execute("worker:skill:who") for _ in range(2))

    assert one["id"] == two["id"]
    assert len({one["id"], three["id"], four["id"]}) == 3


Ask = Callable[[Agent], object]
REFUSED: list[tuple[Ask, type[Exception], str]] = [
    (lambda app: app.execute("worker:skill:ecoh"), NotFound, "Did you mean echo?"),
    (lambda app: app.execute("nobody:echo"), NotFound, "nobody"),
    (lambda app: app.execute("worker:skill:fail"), InvalidInput, '"message" is a required property'),
    (lambda app: app.execute("worker:skill:fail", {"message": "no tea"}), ExecutionFailed, "no tea"),
    (lambda app: app.execute("worker:skill:leave"), ExecutionFailed, "worker.leave failed: 3"),
    (lambda app: app.execute("worker:skill:unwritable"), ExecutionFailed, "The result has no JSON"),
    (lambda app: app.execute("worker:skill:large", {"size": 17 * 1024 * 1024}), ExecutionFailed, "is the most"),
    (lambda app: app.execute("worker:would_block"), ExecutionFailed, "await app.aexecute"),
    (lambda app: app.discover(limit=501), InvalidRequest, "0 to 500"),
    (lambda app: app.handle("exec_unknown").wait(), NotFound, "execution not found"),
]
MISTAKES: list[tuple[Ask, type[Exception]]] = [
    (lambda app: app.execute("", {}), ValueError),
    (lambda app: app.execute("a:b", ["list"]), TypeError),
    (lambda app: app.execute("a:b", idempotency_key="two\nlines"), ValueError),
    (lambda app: app.execute("a:b", idempotency_key="Schlüssel"), ValueError),
    (lambda app: app.execute("a:b", {"x": object()}), TypeError),
    (lambda app: app.discover(tags="ml"), TypeError),
    (lambda app: app.discover(**cast("Filters", {"colour": "red"})), TypeError),
]


@pytest.mark.parametrize(("ask", "kind", "said"), REFUSED)
def test_an_error_says_what_is_wrong(worker: Program, app: Agent, ask: Ask, kind: type[Exception], said: str) -> None:
    """In the server's or the agent's own words, as the class people branch on."""
    assert worker.process.pid
    with pytest.raises(kind) as caught:
        ask(app)

    assert said in str(caught.value)


def test_an_error_of_the_server_carries_status_code_details_and_request_id(worker: Program, app: Agent) -> None:
    """What is needed to find it in the log, and to mend it."""
    assert worker.process.pid
    with pytest.raises(InvalidInput) as refused:
        app.execute("worker:skill:fail", {"message": 3})
    with pytest.raises(NotFound) as missing:
        app.execute("worker:skill:ech")

    error = refused.value
    assert (error.status, error.code) == (422, "invalid_input")
    assert error.request_id.startswith("req_")
    assert error.request_id in str(error)
    assert error.violations == ['$.message: 3 is not of type "string"']
    assert error.schema["required"] == ["message"]
    assert missing.value.nearest == ["echo"]


def test_a_failed_execution_tells_everything_that_is_known(worker: Program, app: Agent) -> None:
    """Its ids, its reason, what the agent said."""
    assert worker.process.pid
    with pytest.raises(ExecutionFailed) as caught:
        app.execute("worker:skill:fail", {"message": "no tea"})

    failed = caught.value.execution
    assert (failed.status, failed.error, failed.target) == ("failed", "no tea", "worker.fail")
    assert failed.error_details == {"type": "RuntimeError"}
    assert failed.execution_id in str(caught.value)


def test_what_takes_too_long_goes_on_and_can_be_awaited_or_cancelled(
    worker: Program, app: Agent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`Timeout` has the id."""
    assert worker.process.pid
    file = tmp_path_factory.mktemp("late") / "late"
    with pytest.raises(Timeout) as caught:
        app.execute("worker:work", {"file": str(file)}, timeout=0.3)
    handle = app.handle(caught.value.execution_id)
    with pytest.raises(Timeout):
        handle.wait(timeout=0.1)

    file.with_suffix(".end").touch()

    assert handle.wait() == "done late"
    with pytest.raises(Conflict):
        handle.cancel()


def test_a_cancelled_execution_says_so_to_whoever_waits(
    worker: Program, app: Agent, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With the reason."""
    assert worker.process.pid
    file = tmp_path_factory.mktemp("cancelled") / "work"
    handle = app.submit("worker:work", {"file": str(file)})

    app.cancel(handle.execution_id, "enough")

    with pytest.raises(ExecutionCancelled, match="enough"):
        handle.wait()


@pytest.mark.parametrize(("call", "kind"), MISTAKES)
def test_a_mistake_of_the_program_is_told_before_anything_is_sent(call: Ask, kind: type[Exception]) -> None:
    """There is no server at all."""
    with pytest.raises(kind):
        call(Agent(agentfield_server="http://127.0.0.1:9"))


def test_a_wrong_key_is_told_with_what_to_do_and_never_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not in the error, not in any text that our objects make."""
    keyed = ControlPlane(tmp_path_factory.mktemp("keyed"), SWITCHBOARD_API_KEY="open-sesame")
    app = Agent(agentfield_server=keyed.url, api_key="wr0ng-k3y")
    with pytest.raises(Unauthorized) as caught:
        app.discover()
    printed = run(
        keyed, "from agentfield import Agent\nprint(Agent().discover().total_agents)", AGENTFIELD_API_KEY="open-sesame"
    )
    app.close()
    keyed.stop()

    assert "AGENTFIELD_API_KEY" in str(caught.value)
    assert printed.strip() == "0"
    shown = [repr(item) for item in (app, *vars(app).values(), caught.value, caught.value.__dict__)]
    assert not any("wr0ng" in text for text in (*shown, str(caught.value)))


@pytest.mark.parametrize("key", ["tea\nX-Other: 1", "schlüssel", "\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    """Before a header is made of it."""
    with pytest.raises(ValueError, match="cannot be sent") as caught:
        Agent(api_key=key)

    assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "http://user:secret@host"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """And a password in it is not repeated."""
    with pytest.raises(ValueError, match="address") as caught:
        Agent(agentfield_server=url)

    assert "secret" not in str(caught.value)


def test_nobody_there_is_told_soon_with_what_to_do() -> None:
    """For blocking calls and for asyncio."""
    app = Agent(agentfield_server="http://127.0.0.1:9")

    async def ask() -> None:
        try:
            await app.adiscover()
        finally:
            await app.aclose()

    for call in (app.discover, lambda: asyncio.run(ask()), lambda: app.execute("a:b")):
        with pytest.raises(AgentFieldError, match=r"http://127\.0\.0\.1:9 does not answer .*switchboard serve"):
            call()
    app.close()

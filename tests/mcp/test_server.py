"""What the gateway answers, in one process: which tool a name means, who waits for what, and what is told when."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Sequence
from io import BytesIO
from typing import Any, final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.actions.fakes import HandClock
from tests.builders import app
from tests.caching import CACHES
from tests.support import requirement

from switchboard.actions.collection import Collection
from switchboard.actions.execute import Execute
from switchboard.actions.lookup import Lookup
from switchboard.actions.ports import (
    Audit,
    Call,
    Client,
    Consent,
    Entry,
    Executor,
    Outcome,
    Secret,
    Source,
    Text,
    Web,
    WebApp,
)
from switchboard.catalog.errors import UnknownApp
from switchboard.catalog.findings import Finding, Problem
from switchboard.catalog.model import App
from switchboard.mcp.greeting import Greeting
from switchboard.mcp.protocol import Connection
from switchboard.mcp.server import PATIENCE_S, Server
from switchboard.security.secrets import NoSecrets
from switchboard.telemetry.logs import Log

Message = dict[str, Any]
SITE = "https://shop.test"
LIMIT_S = 30
MODERN: Message = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@final
class Given(Source):
    """Says what a test gave it, once the gate is open."""

    def __init__(self, apps: Sequence[App | Finding]) -> None:
        self.apps: Sequence[App | Finding] = apps
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self) -> tuple[Finding, ...]:
        """Answer."""
        await self.gate.wait()
        return tuple(
            one if isinstance(one, Finding) else Finding(source="home", location=f"/{one.id}", app=one)
            for one in self.apps
        )


@final
class OneSite(Web):
    """A web with one site in it."""

    async def at(self, origin: str) -> WebApp:
        """Answer for that site."""
        if origin != SITE:
            raise UnknownApp(origin)
        return WebApp(app=app("com.shop.api", "buy", "skill:buy"), origin=SITE)

    async def remembered(self) -> Sequence[WebApp]:
        """Remember nothing."""
        return ()


@final
class Yes(Consent):
    """A user who agrees."""

    async def require(self, call: Call, client: Client) -> None:
        """Allow."""


@final
class Unrecorded(Audit):
    """Keeps nothing."""

    def note(self, entry: Entry) -> None:
        """Forget."""


@final
class Named(Executor):
    """Answers with what was called."""

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Say who."""
        del secret
        return Outcome(parts=(Text(f"{call.owner.id} / {call.capability.id}"),))


class Story:
    """A gateway with some apps, and a client of it."""

    def __init__(self, *apps: App | Finding, patience_s: float = LIMIT_S) -> None:
        self.source = Given(apps)
        self.other = Given(())
        self.collection = Collection([self.source, self.other])
        execute = Execute(
            consent=Yes(),
            secrets=NoSecrets(),
            executors={"http": Named(), "control-plane": Named()},
            audit=Unrecorded(),
            clock=HandClock(),
        )
        greeting = Greeting({"name": "a gateway", "version": "1"}, {"tools": {}}, "Ask.")
        lookup = Lookup(self.collection, OneSite(), patience_s=patience_s, caches=CACHES)
        self.server = Server(self.collection, lookup, execute, greeting=greeting, patience_s=patience_s, caches=CACHES)
        self.heard: list[Message] = []
        self.connection = Connection(self.server.methods(), greeting, self._hear, log=Log(BytesIO()))
        self._next = 0

    def begin(self, method: str, **params: Any) -> int:
        """Send a request."""
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        self.connection.receive(json.dumps(message).encode())
        return self._next

    async def ask(self, method: str, **params: Any) -> Message:
        """Send a request, and return its answer."""
        request = self.begin(method, **params)
        await self.connection.finish(LIMIT_S)
        return next(message for message in self.heard if message.get("id") == request)

    async def call(self, name: str) -> str:
        """Call a tool, and return what it says."""
        return (await self.ask("tools/call", name=name))["result"]["content"][0]["text"]

    async def change(self, *apps: App) -> None:
        """Let other apps be there."""
        self.source.apps = apps
        await self.collection.load()

    async def quiet(self) -> None:
        """Let everything that can run do so."""
        for _ in range(20):
            await asyncio.sleep(0)

    def told(self) -> list[str]:
        """Return the notifications so far."""
        return [message["method"] for message in self.heard if "method" in message]

    def _hear(self, message: bytes) -> None:
        self.heard.append(json.loads(message))


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), LIMIT_S))


NOTES = app("com.example.notes", "list_notes", "skill:a", "a", "%3A", ":", "x:y", "a.b")
PREFIX = app("com.example", "notes:list_notes", "b")
COLON = app("com.example.notes:x", "y", "z")


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("com.example.notes:list_notes", "com.example.notes / list_notes"),
        ("com.example.notes:skill:a", "com.example.notes / skill:a"),
        ("com.example.notes:skill%3Aa", "com.example.notes / skill:a"),
        ("com.example.notes:a", "com.example.notes / a"),
        ("com.example.notes:%3A", "com.example.notes / %3A"),
        ("com.example.notes:%253A", "com.example.notes / %3A"),
        ("com.example.notes::", "com.example.notes / :"),
        ("com.example.notes:a.b", "com.example.notes / a.b"),
        ("com.example.notes:x:y", "com.example.notes:x / y"),
        ("com.example.notes%3Ax:z", "com.example.notes:x / z"),
        ("com.example:notes:list_notes", "com.example / notes:list_notes"),
        ("app_com_example_notes:list_notes", "com.example.notes / list_notes"),
        (f"{SITE}:buy", "com.shop.api / buy"),
        (f"{SITE}:skill:buy", "com.shop.api / skill:buy"),
        (f"{SITE}/cart:buy", "com.shop.api / buy"),
    ],
)
def test_a_direct_call_reaches_exactly_the_tool_it_names(name: str, called: str) -> None:
    """Whatever stands in the names of apps and tools, and the longest id first."""

    async def story() -> None:
        it = Story(NOTES, PREFIX, COLON)
        await it.collection.load()

        assert await it.call(name) == called

    play(story)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("foo.com.example.notes:list_notes", "UNKNOWN_APP"),
        ("https://evil.example.com.example.notes:list_notes", "UNKNOWN_APP"),
        ("https://ann:secret@com.example.notes:list_notes", "UNKNOWN_APP"),
        ("com.example.notes.list_notes", "UNKNOWN_TOOL"),
        ("com.example.notes.a:b", "UNKNOWN_APP"),
        ("com.example.notes:reasoner:a", "UNKNOWN_TOOL"),
        ("com.example.notes:nothing", "UNKNOWN_TOOL"),
        ("self.com.example:b", "UNKNOWN_APP"),
        ("notes:list_notes", "UNKNOWN_APP"),
        (":list_notes", "UNKNOWN_TOOL"),
        (":" * 1_000_000, "UNKNOWN_APP"),
    ],
)
def test_a_direct_call_reaches_nobody_it_does_not_name(name: str, code: str) -> None:
    """No prefix is dropped, and a dot divides nothing."""

    async def story() -> None:
        it = Story(NOTES, PREFIX)
        await it.collection.load()

        assert (await it.call(name)).startswith(f"{code}: ")

    play(story)


@pytest.mark.parametrize("name", ["com.example.notes:list_notes", "app:com.example.notes", "app_com_example_notes"])
def test_a_known_app_is_called_while_a_registry_is_slow(name: str) -> None:
    """Only what is unknown waits: the patience here is longer than the test may take."""

    async def story() -> None:
        it = Story(NOTES, patience_s=10 * LIMIT_S)
        await it.collection.load()
        with it.collection.expecting_more():
            said = await it.call(name)

        assert said.startswith(("com.example.notes / list_notes", "# com.example.notes"))

    play(story)


def test_an_unknown_app_that_comes_in_time_is_called() -> None:
    """The call waits for what is expected."""

    async def story() -> None:
        it = Story()
        await it.collection.load()
        with it.collection.expecting_more():
            call = asyncio.ensure_future(it.call("com.example.notes:x:y"))
            await it.quiet()
            await it.change(NOTES)

        assert await call == "com.example.notes / x:y"

    play(story)


def test_a_list_waits_a_second_for_the_first_scan_and_then_says_what_is_known() -> None:
    """The patience is a second unless somebody brings another; the rest is told as a change."""

    async def story() -> None:
        it = Story(NOTES, patience_s=0.001)
        it.source.gate.clear()
        scan = asyncio.ensure_future(it.collection.load())
        early = (await it.ask("tools/list"))["result"]["tools"]
        it.source.gate.set()
        await scan
        late = (await it.ask("tools/list"))["result"]["tools"]

        assert [tool["name"] for tool in early] == ["web:discover", "aai:exec"]
        assert [tool["name"] for tool in late] == ["app:com.example.notes", "web:discover", "aai:exec"]
        assert it.server.outdated() == ["tools"]
        assert PATIENCE_S == 1.0

    play(story)


def test_a_list_does_not_end_before_the_first_scan_within_its_patience() -> None:
    """It has what was found."""

    async def story() -> None:
        it = Story(NOTES)
        it.source.gate.clear()
        scan = asyncio.ensure_future(it.collection.load())
        request = it.begin("tools/list")
        await it.quiet()
        waiting = not it.heard
        it.source.gate.set()
        await scan
        await it.connection.finish(LIMIT_S)

        [answer] = it.heard
        assert (waiting, answer["id"], len(answer["result"]["tools"])) == (True, request, 3)

    play(story)


def test_every_visible_change_is_told_once_anything_was_listed() -> None:
    """Not only the first one after each list, and none before; what a list does not show is no change of it."""

    async def story() -> None:
        it = Story(NOTES)
        await it.collection.load()
        before = it.server.outdated()
        await it.ask("tools/list")
        told: list[list[str]] = []
        for apps in ((NOTES, COLON), (NOTES,), (replace(NOTES, version="1.0.1"),), (COLON,)):
            await it.change(*apps)
            told.append(it.server.outdated())

        assert before == []
        assert told == [["tools"], ["tools"], [], ["tools"]]

    play(story)


def test_changes_that_come_together_are_told_to_a_subscriber_as_one() -> None:
    """Each kind once."""

    async def story() -> None:
        it = Story(NOTES)
        await it.collection.load()
        wanted = {"toolsListChanged": True, "resourcesListChanged": True}
        it.begin("subscriptions/listen", notifications=wanted, _meta=MODERN)
        await it.quiet()
        it.heard.clear()
        changes: list[int] = []
        it.collection.listen(lambda: changes.append(it.collection.current().version))
        it.source.apps, it.other.apps = (NOTES, COLON), (PREFIX,)
        await it.collection.load()
        await it.quiet()

        assert len(changes) == 2
        assert it.told() == ["notifications/tools/list_changed", "notifications/resources/list_changed"]

    play(story)


def test_nothing_is_put_together_for_nobody() -> None:
    """A catalogue of a hundred thousand agents is not read for an MCP client that there is not."""

    async def story() -> None:
        it = Story(NOTES)
        await it.collection.load()
        read: list[int] = []
        current = it.collection.current
        it.collection.current = lambda: read.append(1) or current()
        it.server._changed()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - what a catalogue calls
        assert read == []

        it.begin("subscriptions/listen", notifications={"toolsListChanged": True}, _meta=MODERN)
        await it.quiet()
        it.server._changed()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
        assert read != []

    play(story)


def test_a_connection_has_at_most_thirty_two_subscriptions() -> None:
    """One more is refused; when one has ended there is room again, and closing ends them all."""

    async def story() -> None:
        it = Story(NOTES)
        await it.collection.load()
        wanted: Message = {"notifications": {"toolsListChanged": True}, "_meta": MODERN}
        requests = [it.begin("subscriptions/listen", **wanted) for _ in range(32)]
        await it.quiet()
        refused = it.begin("subscriptions/listen", **wanted)
        await it.quiet()
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": requests[0]}}
        it.connection.receive(json.dumps(cancelled).encode())
        await it.quiet()
        again = it.begin("subscriptions/listen", **wanted)
        await it.quiet()
        it.server.close()
        await it.connection.finish(LIMIT_S)

        ended = {message["id"] for message in it.heard if "result" in message}
        refusal = next(message for message in it.heard if message.get("id") == refused)
        assert refusal["error"]["code"] == -32603
        assert ended == {*requests[1:], again}
        assert it.told() == ["notifications/subscriptions/acknowledged"] * 33

    play(story)


@pytest.mark.parametrize("cursor", ["1", "2", "999999999"])
def test_a_cursor_beyond_the_end_is_an_invalid_parameter(cursor: str) -> None:
    """Nobody was given it."""

    async def story() -> None:
        it = Story(NOTES)
        await it.collection.load()

        for method in ("tools/list", "resources/list"):
            assert (await it.ask(method, cursor=cursor))["error"]["code"] == -32602

    play(story)


def test_what_a_caller_makes_up_is_not_repeated_at_length() -> None:
    """Neither the name of a tool nor the address of a resource."""

    async def story() -> None:
        it = Story(NOTES)
        await it.collection.load()
        long = "x\u202e\n" * 300_000
        answers = [
            await it.ask("tools/call", name=long),
            await it.ask("tools/call", name=f"com.example.notes:{long}"),
            await it.ask("tools/call", name="aai:exec", arguments={"app": NOTES.id, "tool": long}),
            await it.ask("tools/call", name="aai:exec", arguments={"app": long, "tool": "x"}),
            await it.ask("resources/read", uri=long),
        ]

        for answer in answers:
            text = json.dumps(answer, ensure_ascii=False)
            assert len(text) < 8000
            assert text.isprintable()

    play(story)


def test_no_portable_name_is_listed_twice() -> None:
    """Not even where an app is named like the hash of another, or like one that is there and broken."""

    async def story() -> None:
        long = "com.example.very.long.application.name.here.notes"
        first = Story(app(long))
        await first.collection.load()
        meta = {"_meta": MODERN}
        taken = (await first.ask("tools/list", **meta))["result"]["tools"][0]["name"]
        problems = (Problem("error", "syntax", "$", "not JSON"),)
        broken = Finding(source="home", location="/home/ann/.aai/com.a.b/aai.json", problems=problems)
        evil = replace(app(taken.removeprefix("app_")), description="Evil")
        it = Story(broken, app(long), evil, app("com_a_b"))
        await it.collection.load()
        names = [tool["name"] for tool in (await it.ask("tools/list", **meta))["result"]["tools"]]

        assert len(set(names)) == len(names) == 5
        assert not {taken, "app_com_a_b"} & set(names)

    play(story)


app_ids = st.from_regex(r"[a-z][a-z0-9_-]{0,8}(\.[a-z][a-z0-9_-]{0,8}){1,3}", fullmatch=True)
tool_names = st.one_of(
    st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True),
    st.sampled_from(["skill:a", "reasoner:a", "a", "%3A", ":", "a:b", "a.b", "数据", "app:x", "aai:exec"]),
)


@requirement("mcp:direct-call:runs", "exec:call:runs")
@settings(max_examples=60)
@given(st.dictionaries(app_ids, st.sets(tool_names, min_size=1, max_size=5), min_size=1, max_size=5))
def test_every_name_that_the_gateway_prints_runs_what_it_names(offered: dict[str, set[str]]) -> None:
    """Every guide in the list is read, and every example in it is called as printed, and directly as `<id>:<tool>`."""

    async def story() -> None:
        gateway = Story(*(app(app_id, *sorted(tools)) for app_id, tools in offered.items()))
        await gateway.collection.load()
        listed = [tool["name"] for tool in (await gateway.ask("tools/list"))["result"]["tools"]]
        for name in listed[:-2]:
            guide = await gateway.call(name)
            calls = [json.loads(found) for found in re.findall(r"^aai:exec\((.*)\)$", guide, re.MULTILINE)]
            assert [call["tool"] for call in calls] == sorted(offered[name.removeprefix("app:")])
            for call in calls:
                by_guide = await gateway.ask("tools/call", name="aai:exec", arguments=call)
                direct = await gateway.call(f"{call['app']}:{call['tool']}")
                meant = f"{call['app']} / {call['tool']}"
                assert [by_guide["result"]["content"][0]["text"], direct] == [meant, meant]

        assert len(listed) == len(offered) + 2

    asyncio.run(story())

"""What a client hears from a connection, in both generations of the protocol: no process, no transport."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, Struct

from switchboard.mcp.greeting import LEGACY, SERVER_INFO, Greeting
from switchboard.mcp.messages import Fault, Result
from switchboard.mcp.protocol import Connection, Exchange, Method, Question, Session
from switchboard.mcp.sealing import Seal
from switchboard.telemetry.logs import Log

Json = dict[str, Any]
GREETING = Greeting({"name": "a server", "version": "1"}, {"tools": {}}, "Ask.")
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"
MODERN: Json = {VERSION: "2026-07-28", CAPABILITIES: {}}
FORM = Question("elicitation/create", {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}})
PAGE = Question(
    "elicitation/create", {"mode": "url", "url": "https://example.com", "message": "Look", "elicitationId": "1"}
)
SAMPLE = Question("sampling/createMessage", {"messages": [], "maxTokens": 1})
CAN: Json = {"elicitation": {}, "sampling": {}}


class Client:
    """The other end of a connection, in the same process."""

    def __init__(self, seal: Seal | None = None, session: Session | None = None, **methods: Method) -> None:
        self.heard: list[Any] = []
        self.log = BytesIO()
        self._news = asyncio.Event()
        named = {name.replace("_", "/", 1): method for name, method in {**METHODS, **methods}.items()}
        self.connection = Connection(named, GREETING, self._hear, log=Log(self.log), seal=seal, session=session)

    def send(self, message: object) -> None:
        """Send anything that can be written as JSON."""
        self.connection.receive(json.dumps(message).encode())

    def ask(self, method: str, params: object = None, request_id: object = 1) -> None:
        """Send a request without waiting."""
        given = {} if params is None else {"params": params}
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, **given})

    def asked(self, method: str, params: object = None, request_id: object = 1) -> Any:
        """Send a request that is answered at once, and return the answer."""
        self.ask(method, params, request_id)
        return self.heard.pop()

    def modern(self, method: str, meta: Json | None = None, **params: Any) -> Any:
        """Send a request of the stateless protocol that is answered at once, and return the answer."""
        return self.asked(method, {**params, "_meta": {**MODERN, **(meta or {})}})

    async def answered(self, method: str, params: object = None, request_id: object = 1) -> Any:
        """Send a request, let it end, and return the answer."""
        self.ask(method, params, request_id)
        await self.connection.finish(10)
        return self.heard.pop()

    async def next(self) -> Any:
        """Wait for a message."""
        while not self.heard:
            self._news.clear()
            await self._news.wait()
        return self.heard.pop(0)

    def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> Any:
        """Shake hands, and return the result."""
        client = {"name": "a test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
        answer = self.asked("initialize", params, "handshake")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def cancel(self, request_id: object) -> None:
        """Take a request back."""
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})

    def events(self) -> list[Json]:
        """Return what was logged."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def _hear(self, message: bytes) -> None:
        assert b"\n" not in message
        self.heard.append(json.loads(message))
        self._news.set()


class Answering(Client):
    """A client that answers every question at once."""

    def _hear(self, message: bytes) -> None:
        super()._hear(message)
        if "method" in self.heard[-1] and "id" in self.heard[-1]:
            self.send({"jsonrpc": "2.0", "id": self.heard.pop()["id"], "result": answer("x")})


class Named(Struct):
    """Parameters that a method of these tests takes."""

    name: str


def who(exchange: Exchange) -> Result:
    return {"name": exchange.caller.name, "version": exchange.caller.version}


def greet(exchange: Exchange) -> Result:
    return {"text": f"Hello, {exchange.read(Named).name}!"}


def fail(_exchange: Exchange) -> Result:
    raise RuntimeError("the password is hunter2")


async def fail_later(_exchange: Exchange) -> Result:
    raise RuntimeError("the password is hunter2")


async def wait(_exchange: Exchange) -> Result:
    await asyncio.Event().wait()
    return {}


async def soon(_exchange: Exchange) -> Result:
    return {"text": "here"}


async def count(exchange: Exchange) -> Result:
    for done in (1, 2):
        exchange.progress(done, 2, "counting")
    return {"asked": exchange.wants_progress}


async def name(exchange: Exchange) -> Result:
    return {"said": [(await exchange.ask(key, FORM))["content"] for key in ("name", "color", "size")]}


async def several(exchange: Exchange) -> Result:
    return {"said": await exchange.ask_all({"form": FORM, "sample": SAMPLE})}


METHODS: dict[str, Method] = {
    "test_who": who,
    "test_greet": greet,
    "test_fail": fail,
    "test_fail-later": fail_later,
    "test_wait": wait,
    "test_soon": soon,
    "test_count": count,
    "test_name": name,
    "test_several": several,
}


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a story, and end it if it waits for something that does not come."""
    asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.parametrize("version", LEGACY)
def test_a_version_that_we_know_is_agreed_on(version: str) -> None:
    """The handshake returns what was asked for, and who we are."""
    client = Client()

    result = client.initialize(version)

    assert result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "a server", "version": "1"}
    assert client.connection.session.version == version
    assert client.connection.session.ready


@pytest.mark.parametrize("version", ["2026-07-28", "2099-01-01", "1.0", ""])
def test_another_version_in_a_handshake_is_answered_with_the_newest_that_has_one(version: str) -> None:
    """The client decides whether it can live with it."""
    assert Client().initialize(version)["protocolVersion"] == "2025-11-25"


def test_discovery_tells_every_version_and_that_the_result_is_complete() -> None:
    """One request, no handshake."""
    result = Client().modern("server/discover")["result"]

    assert result["supportedVersions"] == ["2026-07-28", *LEGACY]
    assert result["resultType"] == "complete"
    assert result["_meta"] == {SERVER_INFO: {"name": "a server", "version": "1"}}


@pytest.mark.parametrize("method", ["server/discover", "test/who"])
def test_an_unknown_version_is_refused_with_those_that_are_supported(method: str) -> None:
    """The client can choose one of them and ask again."""
    answer = Client().modern(method, {VERSION: "2099-01-01"})

    assert answer["id"] == 1
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"supported": ["2026-07-28", *LEGACY], "requested": "2099-01-01"}


@pytest.mark.parametrize(
    "meta",
    [
        {VERSION: "2026-07-28"},
        {VERSION: "2026-07-28", CAPABILITIES: []},
        {VERSION: "2026-07-28", CAPABILITIES: {}, CLIENT: {"version": "1"}},
        {VERSION: 20260728, CAPABILITIES: {}},
        None,
        "2026-07-28",
    ],
)
def test_metadata_that_is_not_what_the_protocol_says_is_an_invalid_parameter(meta: object) -> None:
    """Above all capabilities, which every request has to declare."""
    answer = Client().asked("test/who", {"_meta": meta})

    assert answer["id"] == 1
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": {CAPABILITIES: {}}}])
def test_discovery_without_a_version_is_an_invalid_parameter(params: object) -> None:
    """It belongs to the stateless protocol alone."""
    assert Client().asked("server/discover", params)["error"]["code"] == -32602


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
def test_methods_that_the_stateless_protocol_has_dropped_are_not_found_there(method: str) -> None:
    """Even where a server has them for its older clients."""
    client = Client(logging_setLevel=who, resources_subscribe=who, resources_unsubscribe=who)

    assert client.modern(method)["error"]["code"] == -32601
    assert "result" in client.asked(method, {"protocolVersion": "2025-11-25"})


def test_subscriptions_are_not_found_after_a_handshake() -> None:
    """There a server tells of changes unasked."""
    client = Client(subscriptions_listen=who)
    client.initialize()

    assert client.asked("subscriptions/listen")["error"]["code"] == -32601
    assert client.modern("subscriptions/listen")["result"]["resultType"] == "complete"


def test_an_unknown_method_is_not_found_in_either_generation() -> None:
    """Its name comes back on one line that can be shown."""
    client = Client()

    answer = client.asked("no/such\x1b\n" + "x" * 1000)

    assert answer["error"]["code"] == -32601
    assert len(answer["error"]["message"]) < 200
    assert "\x1b" not in answer["error"]["message"]
    assert client.modern("no/such")["error"]["code"] == -32601


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"{",
        b"",
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"',
        b"[",
        b"[1,",
        b"NaN",
        b"{}{}",
        b"\0",
    ],
)
def test_what_is_no_json_is_a_parse_error_for_nobody(line: bytes) -> None:
    """There is no id to answer to, and the connection goes on."""
    client = Client()

    client.connection.receive(line)

    assert [(answer["id"], answer["error"]["code"]) for answer in client.heard] == [(None, -32700)]
    assert client.asked("ping")["result"] == {}


@pytest.mark.parametrize(
    ("message", "request_id"),
    [
        (1, None),
        ("text", None),
        (None, None),
        ({}, None),
        ({"id": 7}, 7),
        ({"id": "seven", "method": "ping"}, "seven"),
        ({"jsonrpc": "2.0", "id": 7}, 7),
        ({"jsonrpc": "2.0", "id": 7, "method": 5}, 7),
        ({"jsonrpc": "1.0", "id": 7, "method": "ping"}, 7),
        ({"jsonrpc": 2.0, "id": 7, "method": "ping"}, 7),
        ({"jsonrpc": "2.0", "id": True, "method": 5}, None),
        ({"jsonrpc": "2.0", "id": [7], "method": 5}, None),
    ],
)
def test_json_that_is_no_message_is_an_invalid_request_with_its_id_if_it_has_one(
    message: object, request_id: object
) -> None:
    """A client that waits for this id gets to know."""
    client = Client()

    client.send(message)

    assert [(answer["id"], answer["error"]["code"]) for answer in client.heard] == [(request_id, -32600)]


@pytest.mark.parametrize("request_id", [0, -1, 2**53 + 1, 10**30, "", "1", 'é\u2028"\\', "x" * 1000])
def test_an_id_comes_back_as_it_went(request_id: object) -> None:
    """Texts stay texts and numbers numbers, of any size, in results and in errors."""
    client = Client()

    for method in ("ping", "no/such"):
        returned = client.asked(method, request_id=request_id)["id"]
        assert (returned, type(returned)) == (request_id, type(request_id))


@pytest.mark.parametrize("request_id", ["true", "false", "null", "1.5", "1.0", "[1]", "{}"])
def test_an_id_that_is_neither_text_nor_whole_number_is_refused(request_id: str) -> None:
    """Nothing runs that could not be answered."""
    client = Client()

    client.connection.receive(b'{"jsonrpc":"2.0","id":%b,"method":"test/fail"}' % request_id.encode())

    assert [(answer["id"], answer["error"]["code"]) for answer in client.heard] == [(None, -32600)]
    assert client.events() == []


@pytest.mark.parametrize("params", [[], "text", 5, None])
def test_parameters_that_are_no_object_are_invalid(params: object) -> None:
    """The protocol has no others."""
    client = Client()

    client.send({"jsonrpc": "2.0", "id": 1, "method": "test/who", "params": params})

    assert client.heard[0]["error"]["code"] == -32602


def test_parameters_that_a_method_does_not_take_are_invalid() -> None:
    """The error says where; what is missing counts too."""
    client = Client()

    assert client.asked("test/greet", {"name": "Ada"})["result"] == {"text": "Hello, Ada!"}
    assert client.asked("test/greet", {"name": 5})["error"]["code"] == -32602
    assert "name" in client.asked("test/greet")["error"]["message"]


@pytest.mark.parametrize("version", ["2025-03-26", "2024-11-05"])
def test_a_batch_is_answered_together_where_the_version_has_batches(version: str) -> None:
    """What is no message in it gets its error there; notifications get nothing."""

    async def story() -> None:
        client = Client()
        client.initialize(version)
        client.send(
            [
                {"jsonrpc": "2.0", "id": "later", "method": "test/soon"},
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
                {"jsonrpc": "2.0", "id": 2, "method": "ping"},
                {"jsonrpc": "2.0", "id": 3, "method": "no/such"},
                5,
            ]
        )
        await client.connection.finish(10)

        [answers] = client.heard
        assert {answer["id"]: answer.get("error", {}).get("code") for answer in answers} == {
            "later": None,
            2: None,
            3: -32601,
            None: -32600,
        }

    play(story)


def test_a_batch_is_answered_without_the_request_that_was_taken_back() -> None:
    """The others do not wait for it for ever; a batch of which nothing is left gets no answer."""

    async def story() -> None:
        client = Client()
        client.initialize("2025-03-26")
        client.send(
            [{"jsonrpc": "2.0", "id": 1, "method": "test/wait"}, {"jsonrpc": "2.0", "id": 2, "method": "test/soon"}]
        )
        client.send([{"jsonrpc": "2.0", "id": 3, "method": "test/wait"}])
        client.cancel(1)
        client.cancel(3)
        await client.connection.finish(10)

        assert client.heard == [[{"jsonrpc": "2.0", "id": 2, "result": {"text": "here"}}]]

    play(story)


def test_a_batch_of_notifications_gets_no_answer() -> None:
    """As each of them alone."""
    client = Client()
    client.initialize("2025-03-26")

    notification: Json = {"jsonrpc": "2.0", "method": "notifications/anything"}
    client.send([notification, notification])

    assert client.heard == []


@pytest.mark.parametrize("version", [None, "2025-11-25", "2025-06-18"])
def test_a_batch_is_refused_as_a_whole_where_the_version_has_none(version: str | None) -> None:
    """Before a handshake, too: nothing of it runs."""
    client = Client()
    if version is not None:
        client.initialize(version)

    client.send([{"jsonrpc": "2.0", "id": 1, "method": "test/fail"}])

    assert [(answer["id"], answer["error"]["code"]) for answer in client.heard] == [(None, -32600)]
    assert client.events() == []


def test_an_empty_batch_is_an_invalid_request() -> None:
    """JSON-RPC says so."""
    client = Client()
    client.initialize("2025-03-26")

    client.send([])

    assert [(answer["id"], answer["error"]["code"]) for answer in client.heard] == [(None, -32600)]


def test_a_batch_has_at_most_a_thousand_messages() -> None:
    """A longer one is refused as a whole; one of that length is answered whole, in one message."""
    client = Client()
    client.initialize("2025-03-26")

    client.send([{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(1001)])
    [refusal] = client.heard
    client.heard.clear()
    client.send([{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(1000)])

    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    [answers] = client.heard
    assert [answer["id"] for answer in answers] == list(range(1000))


def test_what_an_error_repeats_is_short_and_visible() -> None:
    """A version, an id and a method of a client's own making."""
    client = Client()
    long = "x\u202e\x1b[2J\n" * 100_000

    answers = [client.asked("test/greet", {"_meta": {**MODERN, VERSION: long}}), client.asked(long)]

    for answer in answers:
        assert len(json.dumps(answer)) < 2000
        assert "\\u202e" not in json.dumps(answer)


def test_the_message_of_an_error_is_short_and_visible() -> None:
    """Also where it repeats the id of a request, which a client may make as long as it likes."""

    async def story() -> None:
        client = Client()
        long = "x\u202e\n" * 100_000
        client.ask("test/wait", request_id=long)
        message = client.asked("ping", request_id=long)["error"]["message"]
        await client.connection.close()

        assert len(message) <= 1000
        assert message.isprintable()

    play(story)


def test_an_id_that_is_in_use_is_refused_until_its_request_has_ended() -> None:
    """A number and the text of the same digits are two ids."""

    async def story() -> None:
        client = Client()
        client.ask("test/soon", request_id=1)
        assert client.asked("test/soon", request_id=1)["error"]["code"] == -32600
        client.ask("test/soon", request_id="1")
        await client.connection.finish(10)
        client.ask("test/soon", request_id=1)
        await client.connection.finish(10)

        assert [answer["id"] for answer in client.heard] == [1, "1", 1]

    play(story)


def test_nothing_is_sent_any_more_for_a_cancelled_request() -> None:
    """Neither a result nor an error, and the method hears of it; what else runs goes on."""

    async def story() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def until_cancelled(exchange: Exchange) -> Result:
            try:
                began.set()
                return await wait(exchange)
            finally:
                ended.set()

        client = Client(test_until=until_cancelled)
        client.ask("test/until", request_id="a")
        await began.wait()
        client.cancel("a")
        client.ask("test/soon", request_id="b")
        await client.connection.finish(10)

        assert ended.is_set()
        assert [answer["id"] for answer in client.heard] == ["b"]
        assert client.events() == []

    play(story)


def test_a_request_can_be_cancelled_before_it_has_begun() -> None:
    """Both lines may come in one piece; nothing runs, and no coroutine is left behind."""

    async def story() -> None:
        client = Client()
        client.ask("test/fail-later")
        client.cancel(1)
        await client.connection.finish(10)

        assert client.heard == []
        assert client.events() == []

    play(story)


def test_a_method_that_does_not_mind_being_cancelled_is_not_heard_either() -> None:
    """The client has forgotten the id; what goes wrong meanwhile is for the log."""

    async def stubborn(exchange: Exchange) -> Result:
        exchange.notify("begun", {})
        try:
            return await wait(exchange)
        except asyncio.CancelledError:
            if exchange.id == "fails":
                raise RuntimeError("while cleaning up") from None
            return {}

    async def story() -> None:
        client = Client(test_stubborn=stubborn)
        client.ask("test/stubborn", request_id="ends")
        client.ask("test/stubborn", request_id="fails")
        await client.next()
        await client.next()
        client.cancel("ends")
        client.cancel("fails")
        await client.connection.finish(10)

        assert client.heard == []
        assert [event["message"] for event in client.events()] == ["mcp.request.failed"]

    play(story)


@pytest.mark.parametrize("params", [{"requestId": 99}, {"requestId": None}, {"requestId": [1]}, {}, [], "text"])
def test_a_cancellation_of_nothing_is_ignored(params: object) -> None:
    """Requests end while their cancellation is under way; malformed ones are ignored too."""

    async def story() -> None:
        client = Client()
        client.ask("test/soon")
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
        await client.connection.finish(10)

        assert [answer["result"] for answer in client.heard] == [{"text": "here"}]

    play(story)


def test_closing_ends_what_runs_and_sends_nothing() -> None:
    """The client is gone."""

    async def story() -> None:
        client = Client()
        client.ask("test/wait")
        await client.connection.close()

        assert client.heard == []

    play(story)


def test_something_else_that_was_cancelled_is_no_cancelled_request() -> None:
    """The client still waits, and gets an error."""

    async def cancelled_inside(_exchange: Exchange) -> Result:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        return await other

    async def story() -> None:
        client = Client(test_inside=cancelled_inside)

        assert (await client.answered("test/inside"))["error"]["code"] == -32603

    play(story)


def test_progress_is_told_only_to_those_who_asked() -> None:
    """With the token as it came, before the result."""

    async def story() -> None:
        client = Client()
        quiet = await client.answered("test/count")
        assert (quiet["result"], client.heard) == ({"asked": False}, [])
        for token in ("a", 7):
            loud = await client.answered("test/count", {"_meta": {"progressToken": token}})
            told = [message["params"] for message in client.heard]
            client.heard.clear()

            assert loud["result"] == {"asked": True}
            assert told == [
                {"progressToken": token, "progress": 1, "total": 2, "message": "counting"},
                {"progressToken": token, "progress": 2, "total": 2, "message": "counting"},
            ]

    play(story)


def test_the_caller_is_who_the_handshake_named() -> None:
    """Every request of the connection after it has that caller."""
    client = Client()
    assert client.asked("test/who")["result"] == {"name": "Unknown Client", "version": ""}

    client.initialize()

    assert client.asked("test/who")["result"] == {"name": "a test", "version": "1"}


def test_each_request_of_the_stateless_protocol_names_its_own_caller() -> None:
    """What a handshake on the same connection said does not matter, nor does the request before."""
    client = Client()
    client.initialize()

    first = client.modern("test/who", {CLIENT: {"name": "one", "version": "2"}})["result"]
    second = client.modern("test/who")["result"]

    assert (first["name"], first["version"]) == ("one", "2")
    assert second["name"] == "Unknown Client"
    assert client.asked("test/who")["result"]["name"] == "a test"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mClaude\x1b[0m\u202e", "[31mClaude[0m"),
        ("two\nlines", "two lines"),
        ("\x00\x07", "Unknown Client"),
        ("  ", "Unknown Client"),
        ("", "Unknown Client"),
        ("x" * 500, "x" * 99 + "…"),
    ],
)
def test_the_name_of_a_client_is_made_safe_to_show(said: str, shown: str) -> None:
    """It is shown to the user who is asked for consent; in both generations."""
    client = Client()
    info = {"name": said}

    client.ask("initialize", {"protocolVersion": "2025-11-25", "clientInfo": info})

    assert client.asked("test/who")["result"]["name"] == shown
    assert client.modern("test/who", {CLIENT: info})["result"]["name"] == shown


def test_a_handshake_without_a_client_is_from_an_unknown_one() -> None:
    """Some clients leave it out."""
    client = Client()
    client.ask("initialize", {"protocolVersion": "2025-11-25"})

    assert client.asked("test/who")["result"]["name"] == "Unknown Client"


def test_a_handshake_that_was_answered_elsewhere_is_taken_without_a_word() -> None:
    """The front has answered it already."""
    client = Client()
    params = {"protocolVersion": "2025-06-18", "capabilities": CAN, "clientInfo": {"name": "early"}}

    client.connection.adopt(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode())

    assert client.heard == []
    assert client.connection.session.version == "2025-06-18"
    assert client.asked("test/who")["result"]["name"] == "early"


def test_results_of_the_stateless_protocol_say_that_they_are_complete_and_whose() -> None:
    """Metadata of the method's own stays, a result that is encoded already is left alone, the old protocol has none."""
    client = Client(
        test_meta=lambda _: {"a": 1, "_meta": {"mine": 2}},
        test_raw=lambda _: Raw(b'{"resultType":"complete"}'),
    )

    assert client.modern("test/meta")["result"] == {
        "a": 1,
        "resultType": "complete",
        "_meta": {"mine": 2, SERVER_INFO: {"name": "a server", "version": "1"}},
    }
    assert client.modern("test/raw")["result"] == {"resultType": "complete"}
    assert client.asked("test/meta")["result"] == {"a": 1, "_meta": {"mine": 2}}


def test_a_question_is_a_request_of_ours_after_a_handshake() -> None:
    """One after the other; each is answered by its own id."""

    async def story() -> None:
        client = Client()
        client.initialize(**CAN)
        client.ask("test/name")
        ids: list[str] = []
        for said in ("Ada", "blue", 7):
            question = await client.next()
            assert (question["method"], question["params"]) == (FORM.method, FORM.params)
            assert client.connection.awaits(question["id"])
            ids.append(question["id"])
            client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": said}})
        await client.connection.finish(10)

        assert client.heard == [{"jsonrpc": "2.0", "id": 1, "result": {"said": ["Ada", "blue", 7]}}]
        assert len(set(ids)) == 3
        assert not any(client.connection.awaits(key) for key in ids)

    play(story)


def test_a_question_is_a_result_that_asks_for_input_on_the_stateless_protocol() -> None:
    """The same method, called again with the answers; those of earlier rounds travel in the state."""

    async def story() -> None:
        client = Client()
        params: Json = {"_meta": {**MODERN, CAPABILITIES: CAN}}
        for key, said in (("name", "Ada"), ("color", "blue"), ("size", 7)):
            result = (await client.answered("test/name", params))["result"]
            assert result["resultType"] == "input_required"
            assert result["inputRequests"] == {key: {"method": FORM.method, "params": FORM.params}}
            params |= {"requestState": result["requestState"], "inputResponses": {key: answer(said)}}
        result = (await client.answered("test/name", params))["result"]

        assert result["said"] == ["Ada", "blue", 7]
        assert result["resultType"] == "complete"

    play(story)


def test_several_questions_are_asked_together_on_the_stateless_protocol() -> None:
    """Those that were not answered are asked again, and answers to nothing are ignored."""

    async def story() -> None:
        client = Client()
        params: Json = {"_meta": {**MODERN, CAPABILITIES: CAN}}
        first = (await client.answered("test/several", params))["result"]
        assert list(first["inputRequests"]) == ["form", "sample"]
        params |= {"requestState": first["requestState"], "inputResponses": {"sample": answer(1), "other": answer(0)}}
        second = (await client.answered("test/several", params))["result"]
        assert list(second["inputRequests"]) == ["form"]
        params |= {"requestState": second["requestState"], "inputResponses": {"form": answer(2)}}

        assert (await client.answered("test/several", params))["result"]["said"] == {
            "form": answer(2),
            "sample": answer(1),
        }

    play(story)


def test_several_questions_are_asked_one_by_one_after_a_handshake() -> None:
    """The same method code."""

    async def story() -> None:
        client = Client()
        client.initialize(**CAN)
        client.ask("test/several")
        for number in (2, 1):
            client.send({"jsonrpc": "2.0", "id": (await client.next())["id"], "result": answer(number)})
        await client.connection.finish(10)

        assert client.heard[0]["result"]["said"] == {"form": answer(2), "sample": answer(1)}

    play(story)


def test_connections_that_share_a_seal_do_not_share_the_ids_of_their_questions() -> None:
    """An answer reaches the one that asked."""

    async def story() -> None:
        seal = Seal(b"k" * 32)
        clients = [Client(seal), Client(seal)]
        for client in clients:
            client.initialize(**CAN)
            client.ask("test/name")

        ids = [(await client.next())["id"] for client in clients]
        assert ids[0] != ids[1]
        assert not clients[0].connection.awaits(ids[1])
        for client in clients:
            await client.connection.close()

    play(story)


@pytest.mark.parametrize(
    "said", [{"error": {"code": -1, "message": "The user has gone"}}, {"result": "text"}, {"result": None}]
)
def test_a_client_that_cannot_answer_fails_its_own_request(said: Json) -> None:
    """With an error of ours; what it said is not passed on."""

    async def story() -> None:
        client = Client()
        client.initialize(**CAN)
        client.ask("test/name")
        client.send({"jsonrpc": "2.0", "id": (await client.next())["id"], **said})
        await client.connection.finish(10)

        assert [(message["id"], message["error"]["code"]) for message in client.heard] == [(1, -32600)]

    play(story)


def test_an_answer_to_nothing_is_dropped() -> None:
    """Late ones, doubled ones, and those to questions of somebody else."""
    client = Client()
    for key in ("x", 1, None, True, [1]):
        client.send({"jsonrpc": "2.0", "id": key, "result": {}})
    client.send({"jsonrpc": "2.0", "error": {"code": 1, "message": ""}})

    assert client.heard == []


def test_a_client_can_be_asked_what_it_has_declared_and_nothing_else() -> None:
    """An elicitation that names no mode has the form, as it was before there were modes."""
    table: list[tuple[Json, Question, bool]] = [
        ({}, FORM, False),
        ({"elicitation": {}}, FORM, True),
        ({"elicitation": {}}, PAGE, False),
        ({"elicitation": {"form": {}}}, FORM, True),
        ({"elicitation": {"url": {}}}, FORM, False),
        ({"elicitation": {"url": {}}}, PAGE, True),
        ({"elicitation": {"url": {}, "form": {}}}, FORM, True),
        ({"elicitation": None}, FORM, False),
        ({"sampling": {"tools": {}}}, SAMPLE, True),
        ({"sampling": {}}, FORM, False),
    ]
    for declared, question, possible in table:
        client = Client(test_can=lambda exchange, question=question: {"can": exchange.can_be_asked(question)})
        assert client.modern("test/can", {CAPABILITIES: declared})["result"]["can"] is possible, declared


def test_a_question_that_the_client_has_not_declared_is_refused_with_what_is_missing() -> None:
    """In the terms of the protocol: an object, not a list of names."""

    async def ask_page(exchange: Exchange) -> Result:
        return await exchange.ask("page", PAGE)

    async def story() -> None:
        client = Client(test_page=ask_page)
        table: dict[str, Json] = {"test/name": {"elicitation": {}}, "test/page": {"elicitation": {"url": {}}}}
        for method, needed in table.items():
            modern = (await client.answered(method, {"_meta": MODERN}))["error"]
            assert (modern["code"], modern["data"]) == (-32021, {"requiredCapabilities": needed})
        assert (await client.answered("test/name"))["error"]["code"] == -32600

    play(story)


def test_a_state_that_was_changed_is_made_by_others_or_is_too_old_is_refused() -> None:
    """Every single change: one character more, one less, another one."""

    async def story() -> None:
        key = b"k" * 32
        client = Client(Seal(key))
        meta = {"_meta": {**MODERN, CAPABILITIES: CAN}}
        good = (await client.answered("test/name", meta))["result"]["requestState"]
        old = (await Client(Seal(key, valid_s=-1)).answered("test/name", meta))["result"]["requestState"]
        foreign = (await Client().answered("test/name", meta))["result"]["requestState"]
        changed = [
            "",
            "x",
            "é",
            "\u2028",
            good + "x",
            good + "-TAMPERED",
            good + "=",
            good[:-1],
            ("B" if good.startswith("A") else "A") + good[1:],
            "!" + good,
        ]
        for state in [*changed, old, foreign]:
            refused = await client.answered("test/name", {**meta, "requestState": state})
            assert refused["error"]["code"] == -32602, state

        again = await client.answered("test/name", {**meta, "requestState": good})
        assert again["result"]["resultType"] == "input_required"

    play(story)


def test_a_state_is_good_only_for_the_request_it_was_made_for() -> None:
    """Not for other parameters, another method or another caller: what was agreed to is what runs."""

    async def story() -> None:
        client = Client(test_other=name)
        one: Json = {**MODERN, CAPABILITIES: CAN, CLIENT: {"name": "one"}}
        params: Json = {"_meta": one, "to": "me", "more": {"b": 1, "a": 2}}
        state = (await client.answered("test/name", params))["result"]["requestState"]
        for method, changes in [
            ("test/name", {"to": "you"}),
            ("test/name", {"more": {"b": 2, "a": 1}}),
            ("test/name", {"extra": 1}),
            ("test/other", {}),
            ("test/name", {"_meta": {**one, CLIENT: {"name": "two"}}}),
        ]:
            refused = await client.answered(method, {**params, **changes, "requestState": state})
            assert refused["error"]["code"] == -32602, changes

        same: Json = {"more": {"a": 2, "b": 1}, "to": "me", "_meta": {**one, "progressToken": 5}}
        assert "result" in await client.answered("test/name", {**same, "requestState": state})

    play(story)


@pytest.mark.parametrize("answers", [None, 5, [], {"name": 12345}, {"name": None}])
def test_answers_that_are_no_objects_are_invalid_parameters(answers: object) -> None:
    """They come from the client, whatever it may say about the user."""
    client = Client()

    refused = client.modern("test/name", {CAPABILITIES: CAN}, inputResponses=answers)

    assert refused["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["test/fail", "test/fail-later", "test/unencodable"])
@pytest.mark.parametrize("params", [{}, {"_meta": MODERN}])
def test_an_exception_is_an_internal_error_whose_text_is_for_the_log_alone(method: str, params: Json) -> None:
    """It may have secrets in it; the log is the user's own."""

    async def story() -> None:
        client = Client(test_unencodable=lambda _: {"hunter2": object()})
        answer = await client.answered(method, params)

        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        assert "hunter2" not in json.dumps(answer)
        [event] = client.events()
        assert (event["level"], event["message"]) == ("error", "mcp.request.failed")
        assert event["error"].startswith(("RuntimeError in ", "TypeError"))
        assert "hunter2" not in json.dumps(event)

    play(story)


def test_a_question_that_cannot_be_written_is_an_internal_error() -> None:
    """The client hears something in both generations."""

    async def ask_badly(exchange: Exchange) -> Result:
        return await exchange.ask("bad", Question("sampling/createMessage", {"a": object()}))

    async def story() -> None:
        client = Client(test_badly=ask_badly)
        client.initialize(**CAN)
        assert (await client.answered("test/badly"))["error"]["code"] == -32603
        modern = await client.answered("test/badly", {"_meta": {**MODERN, CAPABILITIES: CAN}})
        assert modern["error"]["code"] == -32603

    play(story)


def test_a_fault_of_a_method_is_the_error_that_it_says() -> None:
    """With its data, and without a line in the log."""

    async def refuse(_exchange: Exchange) -> Result:
        raise Fault(-32602, "no such thing", {"uri": "x"})

    async def story() -> None:
        client = Client(test_refuse=refuse)

        answer = await client.answered("test/refuse")
        assert answer["error"] == {"code": -32602, "message": "no such thing", "data": {"uri": "x"}}
        assert client.events() == []

    play(story)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"jsonrpc":"2.0","id":' + b"[" * 100_000 + b"]" * 100_000 + b',"method":"ping"}',
        b'{"jsonrpc":"2.0","id":"x","result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_json_that_is_too_deep_does_not_end_the_connection(line: bytes) -> None:
    """One error, and the next request is answered."""
    client = Client()

    client.connection.receive(line)

    assert [answer["error"]["code"] for answer in client.heard] == [-32700]
    assert client.asked("ping")["result"] == {}


def test_a_session_that_is_brought_along_is_shared() -> None:
    """A transport with many connections for one client remembers the handshake itself."""
    session = Session()
    Client(session=session).initialize("2025-06-18")

    assert Client(session=session).asked("test/who")["result"]["name"] == "a test"
    assert session.version == "2025-06-18"


keys = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "_meta", VERSION, CAPABILITIES, CLIENT])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["2.0", "2026-07-28", "2025-03-26", "ping", "initialize", "test/who", "test/soon", "test/name"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)
methods = ["ping", "initialize", "server/discover", "no/such", "test/who", "test/greet", "test/soon", "test/count"]
requests = st.fixed_dictionaries(
    {
        "jsonrpc": st.just("2.0"),
        "id": st.integers() | st.text(max_size=5),
        "method": st.sampled_from([*methods, "test/name", "test/several"]),
    },
    optional={"params": values | st.fixed_dictionaries({"_meta": st.just({**MODERN, CAPABILITIES: CAN})})},
)


@given(st.lists(st.binary(max_size=50) | values.map(lambda value: json.dumps(value).encode()), max_size=8))
def test_no_line_whatever_it_is_breaks_a_connection(lines: list[bytes]) -> None:
    """Whatever comes, the next request is answered."""

    async def story() -> None:
        client = Client()
        for line in lines:
            client.connection.receive(line)
        await client.connection.close()
        client.heard.clear()

        assert client.asked("ping", request_id="the last") == {"jsonrpc": "2.0", "id": "the last", "result": {}}

    play(story)


@given(requests, st.booleans())
def test_a_request_gets_exactly_one_answer_to_its_id(request: Json, initialized: bool) -> None:
    """Result or error, with any parameters; questions of ours come before it."""

    async def story() -> None:
        client = Answering()
        if initialized:
            client.initialize(**CAN)
        client.send(request)
        await client.connection.finish(10)

        answers = [message for message in client.heard if "method" not in message]
        assert [message["id"] for message in answers] == [request["id"]]
        assert ("result" in answers[0]) != ("error" in answers[0])
        assert client.events() == []

    play(story)


def answer(content: object) -> Json:
    return {"action": "accept", "content": content}

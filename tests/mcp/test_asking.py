"""The way back to a client while a call waits, in both generations of the protocol."""

import asyncio
import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pytest

from switchboard.catalog.errors import NotSupported
from switchboard.mcp.asking import AskingClient
from switchboard.mcp.greeting import Greeting
from switchboard.mcp.messages import Result
from switchboard.mcp.protocol import Connection, Exchange
from switchboard.telemetry.logs import Log

Message = dict[str, Any]
CHOICES = {"deny": "Deny", "tool": "Allow"}
MODES: Message = {"elicitation": {"form": {}, "url": {}}}


async def settled() -> None:
    """Let everything run that can: nothing here waits for the world."""
    for _ in range(50):
        await asyncio.sleep(0)


class Wire:
    """A connection whose one method asks; what it sends is kept."""

    def __init__(self, capabilities: Message, version: str, kind: str) -> None:
        self.sent: list[Message] = []
        self.version = version
        self.capabilities = capabilities
        self.kind = kind
        self.connection = Connection(
            {"ask": self._ask},
            Greeting({"name": "a test", "version": "1"}, {}, ""),
            lambda line: self.sent.append(json.loads(line)),
            log=Log(BytesIO()),
        )

    async def _ask(self, exchange: Exchange) -> Result:
        client = AskingClient(exchange)
        client.progress("waiting")
        if self.kind == "page":
            return {"shown": await client.open_page("http://127.0.0.1:1/ask/x", "Please look")}
        try:
            return {"chosen": await client.choose("May I?", CHOICES)}
        except NotSupported:
            return {"chosen": "not supported"}

    async def call(self, **more: Any) -> None:
        """Call the method, on the generation of the version."""
        params: Message = {"_meta": {"progressToken": 7}, **more}
        if self.version == "2026-07-28":
            names = ("protocolVersion", "clientCapabilities", "clientInfo")
            values = (self.version, self.capabilities, {"name": "c", "version": "1"})
            meta = {f"io.modelcontextprotocol/{name}": value for name, value in zip(names, values, strict=True)}
            params["_meta"] = {**params["_meta"], **meta}
        else:
            client = {"name": "c", "version": "1"}
            greeting = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": client}
            self.receive({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting})
        self.receive({"jsonrpc": "2.0", "id": 1, "method": "ask", "params": params})
        await settled()

    def receive(self, message: Mapping[str, Any]) -> None:
        """Send a message to it."""
        self.connection.receive(json.dumps(message).encode())

    def message(self, **wanted: Any) -> Message:
        """Return the last message that has these members."""
        return next(one for one in reversed(self.sent) if all(one.get(key) == value for key, value in wanted.items()))

    @property
    def result(self) -> Message:
        """What the call brought."""
        return self.message(id=1)["result"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"action": "accept", "content": {"decision": "tool"}}, "tool"),
        ({"action": "accept", "content": {"decision": "deny"}}, "deny"),
        ({"action": "accept", "content": {"decision": "everything"}}, None),
        ({"action": "accept", "content": {}}, None),
        ({"action": "accept"}, None),
        ({"action": "decline", "content": {"decision": "tool"}}, None),
        ({"action": "cancel"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_what_the_client_says_was_chosen_is_one_of_the_choices_or_nothing(
    version: str, answer: Message, expected: str | None
) -> None:
    """Only an accepted form with a value that was offered counts."""

    async def story() -> None:
        wire = Wire(MODES, version, "form")
        await wire.call()
        if version == "2026-07-28":
            (key, asked), *_ = wire.result["inputRequests"].items()
            await wire.call(inputResponses={key: answer}, requestState=wire.result["requestState"])
        else:
            asked = wire.message(method="elicitation/create")
            wire.receive({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
            await settled()

        assert wire.result["chosen"] == expected
        decision = asked["params"]["requestedSchema"]["properties"]["decision"]
        if version == "2025-06-18":
            assert (decision["enum"], decision["enumNames"]) == (["deny", "tool"], ["Deny", "Allow"])
            assert "mode" not in asked["params"]
        else:
            assert decision["oneOf"] == [{"const": "deny", "title": "Deny"}, {"const": "tool", "title": "Allow"}]
        assert wire.message(method="notifications/progress")["params"]["message"] == "waiting"

    asyncio.run(story())


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("action", "expected"), [("accept", True), ("decline", False), ("cancel", False)])
def test_a_page_is_shown_by_a_client_that_can(version: str, action: str, expected: bool) -> None:
    """With its address, and the client's word whether the user agreed."""

    async def story() -> None:
        wire = Wire(MODES, version, "page")
        await wire.call()
        if version == "2026-07-28":
            (key, asked), *_ = wire.result["inputRequests"].items()
            await wire.call(inputResponses={key: {"action": action}}, requestState=wire.result["requestState"])
        else:
            asked = wire.message(method="elicitation/create")
            wire.receive({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action}})
            await settled()

        assert (asked["params"]["mode"], asked["params"]["url"]) == ("url", "http://127.0.0.1:1/ask/x")
        assert wire.result["shown"] is expected

    asyncio.run(story())


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("capabilities", "kind", "expected"),
    [
        ({}, "form", {"chosen": "not supported"}),
        ({"elicitation": {"url": {}}}, "form", {"chosen": "not supported"}),
        ({}, "page", {"shown": False}),
        ({"elicitation": {}}, "page", {"shown": False}),
        ({"elicitation": {"form": {}}}, "page", {"shown": False}),
    ],
)
def test_a_client_is_asked_only_what_it_has_declared(
    version: str, capabilities: Message, kind: str, expected: Message
) -> None:
    """It gets no request that it does not know."""

    async def story() -> None:
        wire = Wire(capabilities, version, kind)
        await wire.call()

        assert {key: wire.result[key] for key in expected} == expected
        assert not [one for one in wire.sent if one.get("method") == "elicitation/create"]

    asyncio.run(story())


@pytest.mark.parametrize(("kind", "expected"), [("form", {"chosen": "not supported"}), ("page", {"shown": False})])
def test_a_client_that_answers_with_an_error_was_not_asked(kind: str, expected: Message) -> None:
    """The call goes on without it."""

    async def story() -> None:
        wire = Wire(MODES, "2025-11-25", kind)
        await wire.call()
        asked = wire.message(method="elicitation/create")
        wire.receive({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}})
        await settled()

        assert {key: wire.result[key] for key in expected} == expected

    asyncio.run(story())


def test_a_client_is_told_that_nobody_waits_for_its_answer_any_more() -> None:
    """The call is taken back while a form is open: the form can go."""

    async def story() -> None:
        wire = Wire(MODES, "2025-11-25", "form")
        await wire.call()
        asked = wire.message(method="elicitation/create")
        wire.receive({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await settled()

        assert wire.message(method="notifications/cancelled")["params"] == {"requestId": asked["id"]}

    asyncio.run(story())


def test_a_state_that_is_not_ours_is_a_fault_of_the_protocol() -> None:
    """And not a client that cannot ask: what to do about it is something else."""

    async def story() -> None:
        wire = Wire(MODES, "2026-07-28", "form")
        await wire.call(inputResponses={}, requestState="made up")

        assert wire.message(id=1)["error"]["code"] == -32602

    asyncio.run(story())

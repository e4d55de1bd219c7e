"""MCP over HTTP on a real control plane with a real agent: what every header and body leads to, to the status code."""

import asyncio
import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.instances import until
from tests.journeys.recording_agent import AGENT
from tests.journeys.test_executions import Recorder
from tests.servers import ControlPlane, registration

LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}
SETTINGS = f"""\
[mcp_allow]
anonymous = ["{AGENT}:*"]
"""
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
}


class Both(NamedTuple):
    """A control plane, and its agent."""

    plane: ControlPlane
    agent: Recorder

    @property
    def url(self) -> str:
        """Where it speaks MCP."""
        return f"{self.plane.url}/mcp"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("plane")
    (folder / "settings.toml").write_text(SETTINGS)
    plane = ControlPlane(folder, "--config", str(folder / "settings.toml"))
    agent = Recorder(folder, plane.url)
    until(lambda: plane.discover(agent=AGENT)["total_agents"] == 1)
    yield Both(plane, agent)
    agent.kill()
    assert plane.stop() == 0
    assert [event for event in plane.events() if event["level"] in ("error", "warning")] == []


def call(tool: str, request_id: int = 1, **params: Any) -> dict[str, Any]:
    """Return a call of the agent, by its own name for it."""
    named = {"name": f"{AGENT}:{tool}", "arguments": {"mark": "m"}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": {**named, **params}}


def modern(message: dict[str, Any], **meta: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a message of the stateless protocol, and the headers that go with it."""
    params = {**message.get("params", {}), "_meta": {**META, **meta}}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": str(message.get("method"))}
    if "name" in params or "uri" in params:
        headers["Mcp-Name"] = str(params.get("name", params.get("uri")))
    return {**message, "params": params}, headers


def post(both: Both, body: Any, **headers: str) -> httpx2.Response:
    """Send a body as a client does that takes every answer."""
    content = body if isinstance(body, bytes | str) else json.dumps(body)
    given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    sent = {**given, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return both.plane.client.post(
        "/mcp", content=content, headers={name: value for name, value in sent.items() if value}
    )


def code(answer: httpx2.Response) -> int | None:
    return answer.json().get("error", {}).get("code") if answer.content else None


NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ANSWER: dict[str, Any] = {"jsonrpc": "2.0", "id": "nobody asked", "result": {}}


@pytest.mark.parametrize(
    ("body", "headers", "status", "error"),
    [
        (LIST, {}, 200, None),
        (LIST, {"MCP_Protocol_Version": LEGACY}, 200, None),
        (LIST, {"MCP_Protocol_Version": "2025-06-18"}, 200, None),
        (LIST, {"MCP_Protocol_Version": "1900-01-01"}, 400, -32022),
        (LIST, {"MCP_Protocol_Version": MODERN}, 400, -32602),
        (INITIALIZE, {}, 200, None),
        (INITIALIZE, {"MCP_Protocol_Version": MODERN}, 400, -32602),
        ({**LIST, "method": "ping"}, {}, 200, None),
        ({**LIST, "method": "prompts/list"}, {}, 200, -32601),
        ({**LIST, "method": "server/discover"}, {}, 200, -32602),
        ({**LIST, "params": {"cursor": "x"}}, {}, 200, -32602),
        (NOTIFICATION, {}, 202, None),
        (NOTIFICATION, {"MCP_Protocol_Version": MODERN}, 202, None),
        (ANSWER, {"MCP_Protocol_Version": LEGACY}, 202, None),
        (ANSWER, {"MCP_Protocol_Version": MODERN}, 400, -32600),
        ("{", {}, 400, -32700),
        ("", {}, 400, -32700),
        ("[" * 100_000, {}, 400, -32700),
        ("1", {}, 400, -32600),
        ({"id": 1, "method": "ping"}, {}, 400, -32600),
        ({**LIST, "id": None}, {}, 400, -32600),
        ({**LIST, "id": 1.5}, {}, 400, -32600),
        ([LIST], {"MCP_Protocol_Version": LEGACY}, 400, -32600),
        ([LIST], {"MCP_Protocol_Version": MODERN}, 400, -32600),
        ([NOTIFICATION], {"MCP_Protocol_Version": LEGACY}, 400, -32600),
        ([NOTIFICATION], {"MCP_Protocol_Version": "2025-03-26"}, 202, None),
        ([], {"MCP_Protocol_Version": "2025-03-26"}, 400, -32600),
        (LIST, {"Content_Type": "text/plain"}, 415, -32600),
        (LIST, {"Content_Type": ""}, 415, -32600),
        (LIST, {"Content_Type": "application/json; charset=utf-8"}, 200, None),
        (LIST, {"Accept": "text/html"}, 406, -32600),
        (LIST, {"Accept": "application/json;q=0, text/html"}, 406, -32600),
        (LIST, {"Accept": "*/*"}, 200, None),
        (LIST, {"Accept": "application/*"}, 200, None),
    ],
)
def test_every_message_gets_the_status_that_the_protocol_wants(
    both: Both, body: Any, headers: dict[str, str], status: int, error: int | None
) -> None:
    """The older protocol answers errors of methods with 200, as its clients expect it."""
    answer = post(both, body, **headers)

    assert (answer.status_code, code(answer)) == (status, error)
    assert "x-request-id" in answer.headers


def encoded(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


@pytest.mark.parametrize(
    ("message", "changed", "status", "error"),
    [
        (LIST, {}, 200, None),
        (LIST, {"Mcp-Method": None}, 400, -32020),
        (LIST, {"Mcp-Method": "tools/call"}, 400, -32020),
        (LIST, {"Mcp-Method": "TOOLS/LIST"}, 400, -32020),
        (LIST, {"MCP-Protocol-Version": None}, 400, -32020),
        (LIST, {"MCP-Protocol-Version": LEGACY}, 400, -32020),
        (LIST, {"MCP-Protocol-Version": "2030-01-01"}, 400, -32022),
        (call("at_once"), {}, 200, None),
        (call("at_once"), {"Mcp-Name": None}, 400, -32020),
        (call("at_once"), {"Mcp-Name": f"{AGENT}:hold"}, 400, -32020),
        (call("at_once"), {"Mcp-Name": encoded(f"{AGENT}:at_once")}, 200, None),
        (call("at_once"), {"Mcp-Name": encoded("other")}, 400, -32020),
        (call("at_once"), {"Mcp-Name": "=?base64?%%%?="}, 400, -32020),
        ({**LIST, "method": "resources/read", "params": {"uri": f"app:{AGENT}"}}, {}, 200, None),
        ({**LIST, "method": "resources/read", "params": {"uri": "app:nobody"}}, {}, 400, -32602),
        ({**LIST, "method": "server/discover"}, {}, 200, None),
        ({**LIST, "method": "initialize"}, {}, 404, -32601),
        ({**LIST, "method": "ping"}, {}, 404, -32601),
        ({**LIST, "method": "prompts/list"}, {}, 404, -32601),
        ({**LIST, "params": {"cursor": "x"}}, {}, 400, -32602),
    ],
)
def test_headers_of_the_stateless_protocol_have_to_say_what_the_message_says(
    both: Both, message: dict[str, Any], changed: dict[str, str | None], status: int, error: int | None
) -> None:
    """Who routes by headers and who reads the body must not see two different requests."""
    body, headers = modern(message)
    sent = {name: value for name, value in {**headers, **changed}.items() if value is not None}
    answer = post(both, body, **sent)

    assert (answer.status_code, code(answer)) == (status, error)


def test_a_header_that_is_there_twice_is_not_relied_on(both: Both) -> None:
    """Which of the two somebody on the way has looked at, nobody knows."""
    body, headers = modern(LIST)
    pairs = [("Content-Type", "application/json"), *headers.items(), ("Mcp-Method", "tools/list")]
    answer = both.plane.client.post("/mcp", content=json.dumps(body), headers=pairs)

    assert (answer.status_code, code(answer)) == (400, -32020)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "HEAD"])
def test_other_methods_are_not_possible(both: Both, method: str) -> None:
    """There are no sessions that could be ended."""
    answer = both.plane.client.request(method, "/mcp")

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


@pytest.mark.parametrize(
    "headers", [{"Accept": "text/html"}, {"Accept": "text/event-stream", "MCP-Protocol-Version": MODERN}]
)
def test_a_stream_without_a_request_is_for_older_clients_that_take_one(both: Both, headers: dict[str, str]) -> None:
    """A person's browser, and clients of the protocol that has no such stream, are told so."""
    answer = both.plane.client.get("/mcp", headers=headers)

    assert answer.status_code == 405


def test_a_body_that_is_too_long_is_not_read_to_its_end(both: Both) -> None:
    """Announced, it is refused at once; unannounced, as soon as it is too long; and so are too many values."""

    def pieces() -> Iterator[bytes]:
        for _ in range(17):
            yield b" " * 1024 * 1024

    kind = {"Content-Type": "application/json"}
    announced = post(both, b" " * (16 * 1024 * 1024 + 1))
    unannounced = both.plane.client.post("/mcp", content=pieces(), headers=kind)
    many = post(both, b"[" + b"1," * 500_001 + b"1]")

    assert [answer.status_code for answer in (announced, unannounced, many)] == [413, 413, 413]


def test_a_batch_is_answered_together_where_its_version_has_batches(both: Both) -> None:
    """Requests, a notification and something broken."""
    answer = post(
        both,
        [LIST, NOTIFICATION, {**call("at_once"), "id": 2}, {"jsonrpc": "2.0", "id": 3, "method": "nothing"}],
        MCP_Protocol_Version="2025-03-26",
    )

    found = {item["id"]: item for item in answer.json()}
    assert (answer.status_code, sorted(found)) == (200, [1, 2, 3])
    assert found[2]["result"]["structuredContent"] == {"mark": "m"}
    assert found[3]["error"]["code"] == -32601


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "*/*"])
def test_a_batch_that_takes_back_all_that_it_asks_for_is_over(both: Both, accept: str) -> None:
    """Nothing is left to be answered: its client is told so, and does not wait for ever."""
    taken_back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    answer = post(both, [call("hold", 2), taken_back], MCP_Protocol_Version="2025-03-26", Accept=accept)

    assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_client_gets_the_kind_of_answer_that_it_takes(both: Both, accept: str) -> None:
    """One that takes no stream gets the answer alone; one that takes only streams gets a short one."""
    answer = post(both, call("slowly", _meta={"progressToken": 1}), Accept=accept)

    assert answer.headers["content-type"] == accept
    document = answer.json() if accept == "application/json" else events(answer.text)[-1]
    assert document["result"]["structuredContent"] == {"mark": "m"}


def test_listening_takes_a_stream(both: Both) -> None:
    """Who does not take one is told so, in place of an answer that never comes."""
    body, headers = modern({**LIST, "method": "subscriptions/listen", "params": {"notifications": {}}})
    answer = post(both, body, **headers, Accept="application/json")

    assert answer.status_code == 406


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


# While a request is open


def streaming(both: Both, method: str, body: Any, headers: dict[str, str]) -> Any:
    """Open a stream."""
    client = httpx2.AsyncClient(base_url=both.plane.url, timeout=30, trust_env=False)
    given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    content = None if body is None else json.dumps(body)
    return client.stream(method, "/mcp", content=content, headers={**given, **headers})


def test_a_long_call_tells_that_it_goes_on_and_a_client_that_leaves_ends_it(both: Both) -> None:
    """The agent is told to stop, and the ledger has the end: nobody could come back for the answer."""
    body, headers = modern(call("hold"), progressToken="p")

    async def story() -> dict[str, Any]:
        async with streaming(both, "POST", body, headers) as response:
            assert response.headers["content-type"] == "text/event-stream"
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    return json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream ended")

    before = len(both.agent.calls)
    said = asyncio.run(story())
    execution = both.agent.calls[before].execution_id

    assert (said["method"], said["params"]["progressToken"]) == ("notifications/progress", "p")
    until(lambda: both.agent.has(execution, "cancel"))
    ended = both.plane.client.get(f"/api/v1/executions/{execution}").json()
    assert ended["status"] == "cancelled"


def test_a_client_that_hangs_up_without_a_stream_ends_its_request_too(both: Both) -> None:
    """Also one that only speaks the older protocol: its streams cannot be taken up again."""
    before = len(both.agent.calls)
    netloc = both.plane.url.removeprefix("http://")
    host, _, port = netloc.partition(":")
    content = json.dumps(call("hold")).encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: {netloc}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        until(lambda: len(both.agent.calls) > before)

    execution = both.agent.calls[before].execution_id
    until(lambda: both.agent.has(execution, "cancel"))


def test_a_client_takes_back_its_own_request_and_no_other(both: Both) -> None:
    """By id, within the conversation that the server named at the beginning."""
    session = post(both, INITIALIZE).headers["mcp-session-id"]
    other = post(both, INITIALIZE).headers["mcp-session-id"]
    assert session != other
    before = len(both.agent.calls)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}

    async def story() -> httpx2.Response:
        headers = {"Content-Type": "application/json", "MCP-Protocol-Version": LEGACY}
        async with httpx2.AsyncClient(base_url=both.plane.url, timeout=30, trust_env=False) as client:
            held = asyncio.create_task(
                client.post("/mcp", json=call("hold", 7), headers={**headers, "Mcp-Session-Id": session})
            )
            await asyncio.to_thread(until, lambda: len(both.agent.calls) > before)
            for given in (other, "", session):
                assert not held.done()
                sent = await client.post("/mcp", json=cancel, headers={**headers, "Mcp-Session-Id": given})
                assert sent.status_code == 202
            return await held

    answer = asyncio.run(story())
    execution = both.agent.calls[before].execution_id
    assert (answer.status_code, answer.content) == (202, b"")
    until(lambda: both.agent.has(execution, "cancel"))


def test_an_older_client_hears_of_changes_on_its_stream(both: Both) -> None:
    """Agents that come, change and go; many at once are told as one."""

    async def story() -> list[str]:
        heard: list[str] = []
        async with streaming(both, "GET", None, {"Accept": "text/event-stream"}) as response:
            lines = response.aiter_lines()
            assert (response.status_code, await anext(lines)) == (200, ": keep-alive")
            await asyncio.to_thread(
                both.plane.register, *(registration(f"n{number}", {"r": []}) for number in range(5))
            )
            async for line in lines:
                heard += [json.loads(line.removeprefix("data: "))["method"]] if line.startswith("data: ") else []
                if len(heard) == 2:
                    return heard
        raise AssertionError("the stream ended")

    assert asyncio.run(story()) == ["notifications/tools/list_changed", "notifications/resources/list_changed"]
    assert "app_n4" in [tool["name"] for tool in post(both, LIST).json()["result"]["tools"]]
    for number in range(5):
        both.plane.client.delete(f"/api/v1/nodes/n{number}")


def test_a_newer_client_hears_of_what_it_listens_to(both: Both) -> None:
    """The lists that it names, and no other, each event with the id of its request."""
    body, headers = modern(
        {**LIST, "id": "s", "method": "subscriptions/listen", "params": {"notifications": {"toolsListChanged": True}}}
    )

    async def story() -> list[dict[str, Any]]:
        heard: list[dict[str, Any]] = []
        async with streaming(both, "POST", body, headers) as response:
            async for line in response.aiter_lines():
                heard += [json.loads(line.removeprefix("data: "))] if line.startswith("data: ") else []
                if line.startswith("data: ") and len(heard) == 1:
                    await asyncio.to_thread(both.plane.register, registration("listened", {"r": []}))
                if len(heard) == 2:
                    return heard
        raise AssertionError("the stream ended")

    acknowledged, changed = asyncio.run(story())
    both.plane.client.delete("/api/v1/nodes/listened")
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    assert changed["method"] == "notifications/tools/list_changed"
    assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "s"}


def test_streams_of_both_kinds_are_counted_together(both: Both) -> None:
    """One that ends takes itself away and no other."""
    body, headers = modern({**LIST, "method": "subscriptions/listen", "params": {"notifications": {}}})

    def count() -> float:
        lines = both.plane.client.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("switchboard_mcp_streams "))

    async def story() -> list[float]:
        counts: list[float] = []
        async with streaming(both, "POST", body, headers):
            async with streaming(both, "GET", None, {"Accept": "text/event-stream"}):
                counts.append(await asyncio.to_thread(count))
            await asyncio.to_thread(until, lambda: count() < counts[0])
            counts.append(await asyncio.to_thread(count))
        return counts

    until(lambda: count() == 0)
    assert asyncio.run(story()) == [2, 1]
    until(lambda: count() == 0)


def test_a_hundred_calls_at_once_each_get_their_own_answer(both: Both) -> None:
    """Of both generations, with the same ids: each is a conversation of its own."""

    async def story() -> list[tuple[str, dict[str, Any]]]:
        limits = httpx2.Limits(max_connections=100)
        async with httpx2.AsyncClient(base_url=both.plane.url, timeout=60, limits=limits, trust_env=False) as client:

            async def one(number: int) -> tuple[str, dict[str, Any]]:
                message = call("slowly" if number % 2 else "later", arguments={"mark": f"m{number}"})
                body, headers = modern(message) if number % 4 < 2 else (message, {})
                answer = await client.post("/mcp", json=body, headers=headers)
                return f"m{number}", answer.json()

            return await asyncio.gather(*(one(number) for number in range(100)))

    answers = asyncio.run(story())
    assert [answer["result"]["structuredContent"] for _, answer in answers] == [{"mark": mark} for mark, _ in answers]


# Who comes


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:80"}, 200),
        ({"Host": "[::1]:80"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8080"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "127.0.0.1.nip.io"}, 403),
        ({"Host": "0.0.0.0"}, 403),  # noqa: S104 - an address that browsers have taken for this machine
        ({"Host": "localhost."}, 403),
        ({"Host": "user@localhost"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "http://127.0.0.1"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "https://localhost.evil.example"}, 403),
        ({"Origin": "http://localhost@evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "file://"}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Origin": "http://evil.example", "X-API-Key": "anything"}, 403),
    ],
)
def test_pages_of_other_sites_and_names_that_were_led_here_are_not_let_in(
    both: Both, headers: dict[str, str], status: int
) -> None:
    """On the machine that a browser runs on there may be no key, so where a request comes from has to count."""
    given = {"Content-Type": "application/json", **headers}
    posted = both.plane.client.post("/mcp", content=json.dumps(LIST), headers=given)
    asked = both.plane.client.options("/mcp", headers=headers)

    assert posted.status_code == status
    assert asked.status_code == (204 if status == 200 else status)
    assert "access-control-allow-origin" not in {**posted.headers, **asked.headers}

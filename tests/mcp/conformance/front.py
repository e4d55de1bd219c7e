"""The protocol layer over HTTP, for the conformance suites alone: they do not speak stdio, and the product no HTTP.

Knows what HTTP adds in both generations (sessions, streams, headers that repeat the body, statuses) and leaves every
answer to `Connection`: one for each POST, with the session of its client, sending to the stream of that POST.

Run as a program it prints its address and serves until it is ended.
"""

import socket
from asyncio import Queue
from base64 import b64decode
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from tests.mcp.conformance.fixture import GREETING, Fixture, header_parameters

from switchboard.mcp.greeting import LEGACY, PROTOCOL_VERSION
from switchboard.mcp.messages import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Fault, failed
from switchboard.mcp.protocol import Connection, Session
from switchboard.mcp.sealing import Seal
from switchboard.telemetry.logs import Log

HEADER_MISMATCH = -32020
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
Json = dict[str, Any]


class Stream:
    """What goes back to one POST: notifications and questions, then one answer."""

    def __init__(self) -> None:
        self._messages: Queue[bytes] = Queue()

    def send(self, message: bytes) -> None:
        """Take a message of the connection."""
        self._messages.put_nowait(message)

    async def first(self) -> tuple[bytes, bool]:
        """Wait for the next message, and tell whether it is the answer."""
        message = await self._messages.get()
        document = msgspec.json.decode(message)
        return message, not isinstance(document, dict) or "method" not in document

    async def events(self, message: bytes, *, last: bool) -> AsyncIterator[bytes]:
        """Return this message and what follows it as events, to the answer."""
        yield _event(message)
        while not last:
            message, last = await self.first()
            yield _event(message)


class Client:
    """One session of the handshake protocol: what it agreed on, and the POSTs that are not answered yet."""

    def __init__(self) -> None:
        self.session = Session()
        self.open: set[Connection] = set()


class Front:
    """Takes the POSTs of both generations."""

    def __init__(self, fixture: Fixture, log: Log) -> None:
        self._methods = fixture.methods()
        self._log = log
        self._seal = Seal()
        self._clients: dict[str, Client] = {}

    async def post(self, request: Request) -> Response:
        """Answer one message."""
        if not _is_local(request.headers):
            return Response(status_code=403)
        body = await request.body()
        message = _look(body)
        if _is_modern(request.headers, message):
            return await self._modern(request.headers, body, message)
        return await self._legacy(request.headers, body, message)

    async def delete(self, request: Request) -> Response:
        """End a session."""
        if not _is_local(request.headers):
            return Response(status_code=403)
        client = self._clients.pop(request.headers.get("mcp-session-id", ""), None)
        if client is None:
            return Response(status_code=404)
        for connection in list(client.open):
            await connection.close()
        return Response(status_code=204)

    async def _modern(self, headers: Headers, body: bytes, message: Json) -> Response:
        fault = _wrong_headers(headers, message)
        if fault is not None:
            return _json(failed(message.get("id"), fault), 400)
        stream = Stream()
        connection = self._connect(stream)
        connection.receive(body)
        if "id" not in message:
            return Response(status_code=202)
        first, last = await stream.first()
        if last:
            return _json(first, _status(first))

        async def events() -> AsyncIterator[bytes]:
            try:
                async for event in stream.events(first, last=False):
                    yield event
            finally:  # on this protocol a stream that the client closes is a request that it cancels
                await connection.close()

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _legacy(self, headers: Headers, body: bytes, message: Json) -> Response:
        if message.get("method") == "initialize":
            return await self._initialize(body)
        name = headers.get("mcp-session-id")
        if name is None:
            return _json(failed(None, Fault(INVALID_REQUEST, "Mcp-Session-Id is missing")), 400)
        client = self._clients.get(name)
        if client is None:
            return _json(failed(None, Fault(INVALID_REQUEST, "no such session")), 404)
        if message and ("method" not in message or "id" not in message):
            return self._take(client, body, message)
        stream = Stream()
        connection = self._connect(stream, client.session)
        client.open.add(connection)
        connection.receive(body)
        first, last = await stream.first()

        async def events() -> AsyncIterator[bytes]:
            try:
                async for event in stream.events(first, last=last):
                    yield event
            finally:
                client.open.discard(connection)

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _initialize(self, body: bytes) -> Response:
        client, stream, name = Client(), Stream(), token_hex(16)
        self._connect(stream, client.session).receive(body)
        answer, _ = await stream.first()
        self._clients[name] = client
        return Response(answer, media_type="application/json", headers={"mcp-session-id": name})

    def _take(self, client: Client, body: bytes, message: Json) -> Response:
        """Give a notification to everything that is under way, and an answer to whoever asked."""
        if "method" in message:
            self._connect(Stream(), client.session).receive(body)
        for connection in list(client.open):
            if "method" in message or connection.awaits(message.get("id")):
                connection.receive(body)
        return Response(status_code=202)

    def _connect(self, stream: Stream, session: Session | None = None) -> Connection:
        return Connection(self._methods, GREETING, stream.send, log=self._log, seal=self._seal, session=session)


def _look(body: bytes) -> Json:
    """Return the message as far as HTTP has to know it; nothing where it is none, for the connection to say so."""
    try:
        return msgspec.json.decode(body, type=Json)
    except msgspec.DecodeError:
        return {}


def _is_local(headers: Headers) -> bool:
    """Tell whether the page that asks, if any, and the name it uses are of this machine."""
    origin = headers.get("origin")
    return _host(f"//{headers.get('host', '')}") in HERE and (origin is None or _host(origin) in HERE)


def _host(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _is_modern(headers: Headers, message: Json) -> bool:
    version = headers.get("mcp-protocol-version")
    return _version(message) is not None or (version is not None and version not in LEGACY)


def _version(message: Json) -> object:
    return _dict(_dict(message.get("params")).get("_meta")).get(PROTOCOL_VERSION)


def _dict(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _wrong_headers(headers: Headers, message: Json) -> Fault | None:
    """Return what is wrong with the headers that repeat the body, and with a body that only the headers call modern."""
    method, params = str(message.get("method")), _dict(message.get("params"))
    version = _version(message)
    if version is None and method != "server/discover":
        return Fault(INVALID_PARAMS, f"_meta has no {PROTOCOL_VERSION}")
    expected = {"mcp-method": method}
    if version is not None:
        expected["mcp-protocol-version"] = str(version)
    if method in NAMES:
        expected["mcp-name"] = str(params.get(NAMES[method]))
    given = _dict(params.get("arguments"))
    for argument, header in header_parameters(str(params.get("name"))).items():
        if given.get(argument) is not None:
            expected[header] = str(given[argument])
    for header, value in expected.items():
        if _decoded(headers.get(header)) != value:
            return Fault(HEADER_MISMATCH, f"The header {header} does not say what the body says")
    return None


def _decoded(value: str | None) -> str | None:
    """Return the value of a header; None where there is none, or none that can be read."""
    text = None if value is None else value.strip(" \t")
    if text is None or not text.startswith("=?base64?") or not text.endswith("?="):
        return text
    try:
        return b64decode(text[9:-2], validate=True).decode()
    except ValueError:
        return None


def _status(answer: bytes) -> int:
    error = _dict(_dict(msgspec.json.decode(answer)).get("error"))
    return 200 if not error else 404 if error["code"] == METHOD_NOT_FOUND else 400


def _json(body: bytes, status: int) -> Response:
    return Response(body, status, media_type="application/json")


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: %b\n\n" % message


def main() -> None:
    """Serve on a port of this machine that is free."""
    front = Front(Fixture(), Log())
    app = Starlette(
        routes=[
            Route("/mcp", front.post, methods=["POST"]),
            Route("/mcp", front.delete, methods=["DELETE"]),
        ]
    )
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)  # noqa: T201 - whoever started it reads it
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()

"""What the control plane can call: the ASGI application of an agent.

A call with an execution id is answered with 202 as soon as its input fits, and reported when it has ended. So nothing
depends on one connection: a control plane that is restarted meanwhile learns the end when it is back.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from agentfield.capability import Capability
from agentfield.context import read_context
from agentfield.encoding import encode
from agentfield.reports import LARGEST, text_of
from agentfield.runs import Runs
from agentfield.signatures import Misfit

LOG = logging.getLogger("agentfield")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Reply = tuple[int, Any]


class Profile(msgspec.Struct, frozen=True):
    """An agent as it is registered, and how it lives."""

    node_id: str
    version: str
    description: str
    tags: tuple[str, ...]
    capabilities: tuple[Capability, ...]
    instance_id: str
    heartbeat_s: float
    drain_s: float

    def registration(self, base_url: str) -> bytes:
        """Return what is registered."""
        return encode(
            {
                "id": self.node_id,
                "base_url": base_url,
                "version": self.version,
                "instance_id": self.instance_id,
                "deployment_type": "long_running",
                "lifecycle_status": "ready",
                "communication_config": {"protocols": ["http"], "heartbeat_interval": f"{self.heartbeat_s:g}s"},
                "metadata": {"custom": {"description": self.description, "tags": list(self.tags)}},
                **self.entries(),
            }
        )

    def entries(self) -> dict[str, list[dict[str, Any]]]:
        """Return its reasoners and skills as they are registered."""
        return {
            f"{kind}s": [item.entry() for item in self.capabilities if item.kind == kind]
            for kind in ("reasoner", "skill")
        }


class Gone(Exception):
    """Whoever asked has left in the middle of the question: half a question is none."""


class Endpoints:
    """The ASGI application of an agent."""

    def __init__(self, described: Profile, runs: Runs) -> None:
        self._described = described
        self._runs = runs
        self._capabilities = {(f"{item.kind}s", item.id): item for item in described.capabilities}
        self._begin = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            status, document = await self._answer(scope, receive)
        except Gone:
            return
        body = encode(document)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        room, _, rest = str(scope["path"]).strip("/").partition("/")
        if scope["method"] in {"GET", "HEAD"}:
            return self._told(room, rest)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] != "POST":
            return 405, {"detail": "Only GET and POST."}
        # A page in a browser cannot send this type to another site without asking first.
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, {"detail": "Send application/json."}
        body = await _body(receive)
        if body is None:
            return 413, {"detail": f"A body has at most {LARGEST} bytes."}
        if room == "_internal":
            return self._cancelled(rest)
        return await self._called(room, rest, headers, body)

    async def _called(self, room: str, name: str, headers: Mapping[str, str], body: bytes) -> Reply:
        capability = self._capabilities.get((room, name))
        if capability is None:
            return 404, {"detail": f"{self._described.node_id} has nothing at /{room}/{name}."}
        try:
            given = capability.signature.arguments(body)
        except Misfit as error:
            return 422, {"detail": f"The input does not fit: {error}"}
        context = read_context(dict(headers))
        if context is None:
            return await _inline(capability, given)
        self._runs.begin(capability, given, context)
        return 202, {"status": "processing", "execution_id": context.execution_id}

    def _cancelled(self, rest: str) -> Reply:
        kind, _, tail = rest.partition("/")
        execution_id, _, verb = tail.rpartition("/")
        if (kind, verb) != ("executions", "cancel"):
            return 404, {"detail": "There is nothing here."}
        cancelled = self._runs.cancel(execution_id)
        answer = {"cancelled": cancelled, "execution_id": execution_id}
        return 200, answer if cancelled else {**answer, "reason": "execution_not_active"}

    def _told(self, room: str, rest: str) -> Reply:
        own = {"node_id": self._described.node_id, "version": self._described.version}
        entries = self._described.entries()
        documents: dict[str, Any] = {
            "health": {"status": "healthy", **own},
            "status": {"status": "running", **own, "uptime_seconds": round(time.monotonic() - self._begin, 1)},
            "info": {**own, **entries},
            "reasoners": {"reasoners": entries["reasoners"]},
            "skills": {"skills": entries["skills"]},
        }
        found = documents.get(room) if not rest else None
        return (200, found) if found is not None else (404, {"detail": "There is nothing here."})


async def _inline(capability: Capability, given: Mapping[str, Any]) -> Reply:
    try:
        result = await capability.run(given)
        encode(result)
    except (Exception, SystemExit) as error:
        LOG.exception("%s failed", capability.id)
        return 500, {"detail": text_of(error)}
    return 200, result


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)

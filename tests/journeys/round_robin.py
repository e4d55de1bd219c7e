"""A proxy that sends every request to the next of several servers, as a load balancer without memory does."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

_OWN = frozenset({"host", "connection", "content-length", "transfer-encoding", "date"})


class RoundRobin:
    """Takes requests at one address, and counts how many each server got."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._servers = servers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._client = httpx2.AsyncClient(timeout=None, trust_env=False)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked = [0 for _ in servers]
        app = Starlette(routes=[Route("/{path:path}", self._pass, methods=["GET", "POST", "DELETE"])])
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """End everything."""
        self._server.should_exit = True
        self._thread.join(10)
        self._listener.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        await self._server.serve(sockets=[self._listener])
        await self._client.aclose()

    async def _pass(self, request: Request) -> Response:
        number = sum(self.asked) % len(self._servers)
        self.asked[number] += 1
        headers = [(name, value) for name, value in request.headers.items() if name not in _OWN]
        sent = self._client.build_request(
            request.method, self._servers[number] + request.url.path, headers=headers, content=await request.body()
        )
        answer = await self._client.send(sent, stream=True)

        async def body() -> AsyncIterator[bytes]:
            try:
                async for chunk in answer.aiter_raw():
                    yield chunk
            finally:
                await answer.aclose()

        kept = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN}
        return StreamingResponse(body(), answer.status_code, kept)


@contextmanager
def round_robin(servers: Sequence[str]) -> Generator[RoundRobin]:
    """Have one for a while."""
    proxy = RoundRobin(servers)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()

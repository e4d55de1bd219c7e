"""An agent that writes down every call it gets, one line each, before it does anything about it.

Run as a program: `recording_agent.py SERVER[,SERVER…] FILE`; of several servers it asks one after the other. It speaks
HTTP as the AgentField SDKs do: skills answer when they are done, reasoners answer 202 and report later, and go on
trying to report while the control plane is away.
"""

import asyncio
import socket
import sys
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

AGENT = "recorder"
REASONERS = ("later", "never")
SKILLS = ("at_once", "slowly", "hold")
_WORK_S = 0.1
_RETRY_S = 0.1
_TRIES = 900
_BEAT_S = 0.5


class Recorder:
    """What the agent does with a call, by the name of the capability."""

    def __init__(self, client: httpx2.AsyncClient, file: Path, url: str, servers: str) -> None:
        self._client = client
        self._servers = cycle(servers.split(","))
        self._file = file
        self._url = url
        self._jobs: set[asyncio.Task[None]] = set()

    def routes(self) -> list[Route]:
        """Return what an agent serves."""
        return [
            Route("/skills/{name}", self.skill, methods=["POST"]),
            Route("/reasoners/{name}", self.reasoner, methods=["POST"]),
            Route("/_internal/executions/{execution_id}/cancel", self.cancel, methods=["POST"]),
        ]

    async def skill(self, request: Request) -> JSONResponse:
        """Answer with what was given: at once, after a while, or not at all."""
        given = await self._called(request)
        match request.path_params["name"]:
            case "slowly":
                await asyncio.sleep(_WORK_S)
            case "hold":
                await asyncio.Event().wait()
            case _:
                pass
        return JSONResponse(given)

    async def reasoner(self, request: Request) -> JSONResponse:
        """Say that it is at work, write down that this is said, and report later, or never."""
        given = await self._called(request)
        execution_id = request.headers["x-execution-id"]
        if request.path_params["name"] == "later":
            job = asyncio.create_task(self._report(execution_id, given))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
        said = BackgroundTask(self._write, "promised", execution_id, "-")
        return JSONResponse({"status": "processing", "execution_id": execution_id}, 202, background=said)

    async def cancel(self, request: Request) -> JSONResponse:
        """Write down what is no longer wanted."""
        self._write("cancel", str(request.path_params["execution_id"]), "-")
        return JSONResponse({"cancelled": True})

    async def live(self) -> None:
        """Register, and show that it lives for as long as it does; the control plane may be away."""
        instance_id = token_hex(8)
        document = {
            "id": AGENT,
            "base_url": self._url,
            "version": "1.0.0",
            "instance_id": instance_id,
            "reasoners": [{"id": name} for name in REASONERS],
            "skills": [{"id": name} for name in SKILLS],
            "communication_config": {"heartbeat_interval": "2s"},
        }
        (await self._client.post(f"{next(self._servers)}/api/v1/nodes/register", json=document)).raise_for_status()
        while True:
            with suppress(httpx2.HTTPError):
                beat = {"status": "ready", "instance_id": instance_id}
                await self._client.post(f"{next(self._servers)}/api/v1/nodes/{AGENT}/heartbeat", json=beat)
            await asyncio.sleep(_BEAT_S)

    async def _called(self, request: Request) -> dict[str, str]:
        execution_id = request.headers["x-execution-id"]
        try:
            given: dict[str, str] = await request.json()
        except ClientDisconnect as error:
            self._write("cut", execution_id, "-")
            raise HTTPException(400) from error
        self._write(str(request.path_params["name"]), execution_id, given.get("mark", "-"))
        return given

    async def _report(self, execution_id: str, result: dict[str, str]) -> None:
        await asyncio.sleep(_WORK_S)
        for _ in range(_TRIES):
            with suppress(httpx2.HTTPError):
                answer = await self._client.post(
                    f"{next(self._servers)}/api/v1/executions/{execution_id}/status",
                    json={"status": "succeeded", "result": result},
                )
                if answer.status_code < 400:
                    return
                if answer.status_code < 500:
                    break
            await asyncio.sleep(_RETRY_S)
        self._write("unheard", execution_id, "-")

    def _write(self, what: str, execution_id: str, mark: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{what} {execution_id} {mark}\n")


async def main(server: str, file: Path) -> None:
    """Serve until killed; the first line of output is the address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with httpx2.AsyncClient(timeout=5, trust_env=False) as client:
        recorder = Recorder(client, file, url, server)

        @asynccontextmanager
        async def life(_: Starlette) -> "AsyncGenerator[None]":
            living = asyncio.create_task(recorder.live())
            print(url, flush=True)  # noqa: T201 - this is how whoever started it learns of it
            yield
            living.cancel()

        app = Starlette(routes=recorder.routes(), lifespan=life)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

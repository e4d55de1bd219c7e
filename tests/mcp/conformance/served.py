"""The product's own transport for HTTP, with what the conformance suites look for behind it.

Run as a program it prints its address and serves until it is ended.
"""

import socket
from typing import Any

import uvicorn
from tests.mcp.conformance.fixture import GREETING, Fixture

from switchboard.mcp.http import Endpoint
from switchboard.mcp.visitors import Visitors
from switchboard.telemetry.clock import SystemClock
from switchboard.telemetry.logs import Log
from switchboard.telemetry.metrics import Metrics


def main() -> None:
    """Serve on a port of this machine that is free."""
    endpoint = Endpoint(
        Fixture().methods(),
        GREETING,
        Visitors(is_local=True),
        clock=SystemClock(),
        log=Log(level="warning"),
        metrics=Metrics(),
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {"caller": "tests", "request_id": "-"}
        await endpoint(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)  # noqa: T201 - whoever started it reads it
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()

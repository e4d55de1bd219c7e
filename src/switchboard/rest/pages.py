"""Pages for monitors and people: is it up, is it ready, what does it count, what can be asked."""

from html import escape
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from switchboard.actions.browse import Browse
from switchboard.actions.ports import Clock
from switchboard.actions.store_ports import Identified
from switchboard.rest.answers import json_response, time_text
from switchboard.rest.discovery import Discovery
from switchboard.telemetry.metrics import Metrics

_HEALTHS = ("active", "degraded", "inactive", "unknown")


class Pages:
    """What is not discovery and not about nodes."""

    def __init__(  # noqa: PLR0913, PLR0917 - each is a collaborator
        self,
        browse: Browse,
        discovery: Discovery,
        metrics: Metrics,
        clock: Clock,
        store: Identified,
        version: str,
        contract: Path,
    ) -> None:
        self._store = store
        self._browse = browse
        self._discovery = discovery
        self._metrics = metrics
        self._clock = clock
        self._version = version
        self._contract = contract
        self.ready = False

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/", self.docs, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/ready", self.readiness, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/docs", self.docs, methods=["GET"]),
        ]

    async def health(self, _: Request) -> Response:
        """Say that the process is up, and whether its store answers."""
        view = await self._browse.view()
        store = "ok" if view.stale_since is None else "unavailable"
        document: dict[str, Any] = {
            "status": "healthy" if view.stale_since is None else "degraded",
            "version": self._version,
            "agents": len(view.snapshot.agents),
            "store": {"status": store, "id": self._store.id},
            "timestamp": time_text(self._clock.now()),
        }
        if view.stale_since is not None:
            document["store"]["unavailable_since"] = time_text(view.stale_since)
        return json_response(document)

    async def readiness(self, _: Request) -> Response:
        """Say whether requests should be sent here; false as soon as the server is asked to stop."""
        return json_response({"ready": self.ready}, 200 if self.ready else 503)

    async def metrics(self, _: Request) -> Response:
        """Return the metrics as Prometheus reads them."""
        view = await self._browse.view()
        counts = dict.fromkeys(_HEALTHS, 0)
        for agent in view.snapshot.agents.values():
            counts[agent.health] += 1
        for health, count in counts.items():
            self._metrics.agents.labels(health).set(count)
        self._metrics.cache_bytes.set(self._discovery.cached_bytes)
        self._metrics.store_up.set(view.stale_since is None)
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, _: Request) -> Response:
        """Return the contract."""
        return Response(self._contract.read_bytes(), media_type="application/json")

    async def docs(self, _: Request) -> Response:
        """Show the contract to people, without anything from elsewhere."""
        return HTMLResponse(_page(msgspec.json.decode(self._contract.read_bytes())))


def _page(contract: dict[str, Any]) -> str:
    info = contract["info"]
    operations = "".join(
        _operation(method, path, operation)
        for path, methods in contract["paths"].items()
        for method, operation in methods.items()
        if method in ("get", "post", "put", "patch", "delete")
    )
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1><p>{escape(info['description'])}</p>"
        f"<p>The contract for programs: <a href=/openapi.json>/openapi.json</a></p>{operations}</main></body></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(entry['name'])}</code><td>{escape(entry.get('description', ''))}</tr>"
        for entry in operation.get("parameters", [])
        if "name" in entry
    )
    table = f"<table>{rows}</table>" if rows else ""
    return (
        f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(operation.get('summary', ''))}</p>{table}</section>"
    )


_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 }
main { max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h2 { font-size: 1rem; margin: 2rem 0 .25rem }
td { padding: .15rem 1rem .15rem 0; vertical-align: top }
small { color: gray; font-weight: normal }
p { margin: .25rem 0 }
"""

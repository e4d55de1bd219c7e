"""Registration and liveness, on the wire of the AgentField SDKs: they run unmodified against this.

Both ways to stay alive are served: POST heartbeats and PATCH leases. Codes and keys are those the SDKs look at.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchboard.actions.browse import Browse
from switchboard.actions.life import Life
from switchboard.actions.ports import Clock
from switchboard.actions.register import Newcomer, Register
from switchboard.catalog import health
from switchboard.catalog.errors import InvalidQuery, InvalidRequest, NotFound
from switchboard.catalog.health import GRANTED_LEASE_S, Said, State
from switchboard.catalog.model import Agent, Caller
from switchboard.descriptors import agent as agents
from switchboard.rest.answers import json_response, time_text
from switchboard.rest.bodies import read_body, read_fields
from switchboard.rest.heartbeats import Heartbeats
from switchboard.telemetry.metrics import Metrics

_MOST_WARNINGS = 50
_TRUE = ("true", "1", "yes")
_HEALTHS = ("active", "inactive", "degraded", "unknown")


class Nodes:
    """The endpoints under /api/v1/nodes."""

    def __init__(  # noqa: PLR0913, PLR0917 - each is a collaborator
        self,
        register: Register,
        browse: Browse,
        life: Life,
        clock: Clock,
        metrics: Metrics,
        heartbeats: Heartbeats,
    ) -> None:
        self._register = register
        self._browse = browse
        self._life = life
        self._clock = clock
        self._metrics = metrics
        self._heartbeats = heartbeats

    def routes(self) -> list[Route]:
        """Return the routes."""
        base = "/api/v1/nodes"
        return [
            # The first that fits is taken, and most requests are heartbeats.
            Route(f"{base}/{{agent_id:path}}/heartbeat", self.heartbeat, methods=["POST"]),
            Route(base, self.register, methods=["POST"]),
            Route(base, self.list, methods=["GET"]),
            Route(f"{base}/register", self.register, methods=["POST"]),
            Route(f"{base}/{{agent_id:path}}/status", self.renew, methods=["PATCH"]),
            Route(f"{base}/{{agent_id:path}}/status", self.status, methods=["GET"]),
            Route(f"{base}/{{agent_id:path}}/shutdown", self.shutdown, methods=["POST"]),
            Route(f"{base}/{{agent_id:path}}", self.get, methods=["GET"]),
            Route(f"{base}/{{agent_id:path}}", self.remove, methods=["DELETE"]),
        ]

    async def register(self, request: Request) -> Response:
        """Let an agent in: 201 once it is remembered."""
        body = await read_body(request)
        registration = agents.read(body)
        agent = await self._register.register(
            Newcomer(agent=registration.agent, said=registration.said, heartbeat_s=registration.heartbeat_s),
            _caller(request),
        )
        submitted = time_text(self._clock.now())
        answer: dict[str, Any] = {
            "success": True,
            "message": "Node registered successfully",
            "node_id": agent.id,
            "resolved_base_url": agent.base_url,
            "callback_discovery": {
                "mode": "explicit",
                "preferred": agent.base_url,
                "resolved": agent.base_url,
                "candidates": [agent.base_url],
                "submitted_at": submitted,
            },
        }
        if registration.problems:
            answer["warnings"] = [str(problem) for problem in registration.problems[:_MOST_WARNINGS]]
        return json_response(answer, 201)

    async def heartbeat(self, request: Request) -> Response:
        """Take a heartbeat in; its own time is not trusted, its body may be missing."""
        fields = await read_fields(request)
        await self._register.look_for(_id(request))
        self._heartbeats.beat(_id(request), fields)
        return json_response(self._heartbeats.taken())

    async def renew(self, request: Request) -> Response:
        """Renew a lease: how long the agent may now be silent."""
        fields = await read_fields(request)
        phase = fields.get("phase") or fields.get("status") or ""
        word = health.said(phase) if isinstance(phase, str) else None
        if word is None:
            raise InvalidRequest(
                f"unsupported phase: {phase}. Must be one of: starting, ready, degraded, offline",
                allowed=["starting", "ready", "degraded", "offline"],
            )
        await self._register.look_for(_id(request))
        state = self._register.beat(_id(request), word, health.leasing())
        self._metrics.heartbeats.inc()
        return json_response(self._lease(0.0 if state.ended else GRANTED_LEASE_S))

    async def shutdown(self, request: Request) -> Response:
        """Take a goodbye in: the agent is inactive from now on."""
        reason = (await read_fields(request)).get("reason")
        said = f"shut down ({reason})" if isinstance(reason, str) and reason else "shut down"
        await self._register.goodbye(_id(request), said[:200])
        return json_response({**self._lease(0.0), "message": "shutdown acknowledged"}, 202)

    async def get(self, request: Request) -> Response:
        """Show one agent as it registered, with its health."""
        agent = await self._agent(_id(request))
        return json_response(self._node(agent))

    async def list(self, request: Request) -> Response:
        """Show the agents; only active ones unless asked otherwise."""
        wanted = request.query_params.get("health_status", "").lower()
        show_all = request.query_params.get("show_all", "").lower() in _TRUE
        if wanted and wanted not in _HEALTHS:
            rule = f"Invalid health_status parameter. Must be one of: {', '.join(_HEALTHS)}"
            raise InvalidQuery(rule, parameter="health_status", provided=wanted, allowed=_HEALTHS)
        view = await self._browse.view()
        shown = sorted(
            (
                agent
                for agent in view.snapshot.agents.values()
                if (show_all and not wanted) or agent.health == (wanted or "active")
            ),
            key=lambda agent: agent.id,
        )
        filters = {"health_status": wanted or (None if show_all else "active"), "show_all": show_all}
        return json_response({"nodes": [self._node(agent) for agent in shown], "count": len(shown), "filters": filters})

    async def status(self, request: Request) -> Response:
        """Show one agent's health: what, why, since when."""
        agent = await self._agent(_id(request))
        return json_response({"success": True, "node_id": agent.id, "status": self._status(agent)})

    async def remove(self, request: Request) -> Response:
        """Put an agent out."""
        agent_id = _id(request)
        await self._register.remove(agent_id, _caller(request))
        return json_response({"success": True, "message": "Node removed", "node_id": agent_id})

    async def _agent(self, agent_id: str) -> Agent:
        await self._register.look_for(agent_id)
        view = await self._browse.view()
        agent = view.snapshot.agents.get(agent_id)
        if agent is None:
            raise NotFound(
                f"There is no agent {agent_id!r}. Ask for the list of agents, or let it register.", agent=agent_id
            )
        return agent

    def _node(self, agent: Agent) -> dict[str, Any]:
        written: dict[str, Any] = msgspec.json.decode(agents.write(agent))
        status = self._status(agent)
        return {
            **written,
            "health_status": agent.health,
            "lifecycle_status": status["lifecycle_status"],
            "health_reason": status["reason"],
            "health_since": status["since"],
            "last_heartbeat": status["last_seen"],
        }

    def _status(self, agent: Agent) -> dict[str, Any]:
        state, seen = self._life.state(agent.id), self._browse.seen_at.get(agent.id)
        return {
            "state": _STATES[agent.health],
            "health_status": agent.health,
            "health_score": _SCORES[agent.health],
            "lifecycle_status": _lifecycle(agent, state),
            "reason": state.reason if state else None,
            "since": time_text(state.since) if state else None,
            "last_seen": time_text(seen) if seen else None,
            "expected_every_s": state.rhythm.interval_s if state else None,
            "lease_s": state.rhythm.lease_s if state else None,
        }

    def _lease(self, seconds: float) -> dict[str, Any]:
        renewal = time_text(self._clock.now() + seconds)
        return {"lease_seconds": int(seconds), "next_lease_renewal": renewal}


_STATES = {"active": "active", "degraded": "active", "inactive": "inactive", "unknown": "starting"}
_SCORES = {"active": 100, "degraded": 50, "inactive": 0, "unknown": 0}


def _lifecycle(agent: Agent, state: State | None) -> Said:
    if agent.health == "inactive":
        return "offline"
    if agent.health == "degraded":
        return "degraded"
    return state.said if state else "ready"


def _caller(request: Request) -> Caller:
    return Caller(getattr(request.state, "caller", "anonymous"))


def _id(request: Request) -> str:
    return str(request.path_params["agent_id"])

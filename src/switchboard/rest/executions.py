"""Executions on the wire of the AgentField SDKs: run, ask, wait, cancel, and take agents' reports in.

Agents and callers run unmodified against this. Codes and keys are those the SDKs look at; `?wait=` is ours.
"""

import json
import re
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchboard.actions.executions import Executions
from switchboard.actions.ports import Clock
from switchboard.actions.store_ports import Note
from switchboard.actions.wishes import Wanted
from switchboard.catalog import addresses
from switchboard.catalog.bindings import Json, Pairs
from switchboard.catalog.errors import InvalidQuery, InvalidRequest, NotJson
from switchboard.catalog.executions import ENDS, Ended, EndStatus, Execution, Webhook, status_of
from switchboard.catalog.model import Caller, Kind
from switchboard.catalog.text import clean, nearest
from switchboard.rest.answers import json_response, plain_error, time_text
from switchboard.rest.bodies import fields_of, read_body, read_fields

_LARGEST = 16 * 1024 * 1024
_SYNC_S = 600.0
_LONGEST_WAIT_S = 60.0
_MOST_IDS = 500
_MOST_LINES = 1000
"""As many as are kept of one execution."""
_KINDS = ("note", "log", "event", "all")
_LONGEST_ID = 500
_LONGEST_REASON = 500
_LONGEST_KEY = 200
_LONGEST_HEADER = 500
_PASSED_ON = ("X-Session-ID", "X-Actor-ID", "X-Caller-Agent-ID", "X-Root-Workflow-ID", "X-Parent-Workflow-ID")
_REFUSALS = {"agent_timeout": 504, "execution_timeout": 504, "agent_unreachable": 503, "agent_unknown": 404}
_OURS = frozenset(
    {
        *_REFUSALS,
        "outcome_unknown",
        "not_accepted",
        "agent_gone",
        "agent_restarted",
        "invalid_request",
        "internal_error",
        "cancelled",
    }
)
"""Reasons that only we know; an agent that gives one of them says that it has failed."""
_PARAMETERS = ("wait",)
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")
_MOST_WEBHOOK_HEADERS = 20
_LONGEST_WEBHOOK_HEADER = 2000
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_MESSAGE_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "proxy-connection",
        "accept-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
    }
)
"""What makes a message a message."""
_CLIENT_ERRORS = range(400, 500)
_ERRORS = range(400, 600)


class ExecutionRoutes:
    """The endpoints under /api/v1/execute and /api/v1/executions."""

    def __init__(self, executions: Executions, clock: Clock) -> None:
        self._executions = executions
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes; the longer path of two that could match comes first."""
        base = "/api/v1/executions"
        one = f"{base}/{{execution_id}}"
        return [
            Route("/api/v1/execute/async/{target:path}", self.submit, methods=["POST"]),
            Route("/api/v1/execute/{target:path}", self.run, methods=["POST"]),
            Route("/api/v1/reasoners/{target:path}", self.run, methods=["POST"]),
            Route("/api/v1/skills/{target:path}", self.run_skill, methods=["POST"]),
            Route(f"{base}/batch-status", self.batch, methods=["POST"]),
            Route(f"{base}/note", self.note, methods=["POST"]),
            Route(f"{one}/status", self.report, methods=["POST"]),
            Route(f"{one}/cancel", self.cancel, methods=["POST"]),
            Route(f"{one}/logs", self.logs, methods=["POST"]),
            Route(f"{one}/notes", self.notes, methods=["GET"]),
            Route(one, self.get, methods=["GET"]),
            Route("/api/v1/workflow/executions/events", self.event, methods=["POST"]),
        ]

    async def run(self, request: Request) -> Response:
        """Run a target and answer with its end."""
        return await self._run(await self._wanted(request))

    async def run_skill(self, request: Request) -> Response:
        """Run a target of the older path, which says that a skill is meant."""
        return await self._run(await self._wanted(request, "skill"))

    async def _run(self, wanted: Wanted) -> Response:
        execution = await self._executions.run(wanted, _SYNC_S)
        ended = cast("Ended", execution.ended)
        document = _shown(execution)
        document |= {"finished_at": time_text(ended.at), "duration_ms": _duration_ms(execution)}
        if ended.status != "succeeded":
            document["error_message"] = ended.error
        return json_response(document, _status(ended), _headers(execution))

    async def submit(self, request: Request) -> Response:
        """Accept a target for running: 202 once it is remembered."""
        execution = await self._executions.submit(await self._wanted(request))
        created = time_text(execution.created_at)
        document = {
            "execution_id": execution.id,
            "run_id": execution.run_id,
            "workflow_id": execution.run_id,
            "status": execution.status,
            "target": execution.target,
            "type": execution.kind,
            "created_at": created,
            "enqueued_at": created,
            "webhook_registered": execution.webhook is not None,
        }
        return json_response(document, 202, _headers(execution))

    async def get(self, request: Request) -> Response:
        """Show one execution, waiting for its end up to `?wait=` seconds."""
        for name, value in request.query_params.multi_items():
            if name not in _PARAMETERS:
                raise _unknown(name, value)
        execution = await self._executions.execution(_id(request), _wait_s(request))
        return json_response(_shown(execution))

    async def batch(self, request: Request) -> Response:
        """Show several executions at once."""
        ids = (await read_fields(request)).get("execution_ids")
        texts = [item for item in cast("list[object]", ids) if isinstance(item, str)] if isinstance(ids, list) else []
        if not isinstance(ids, list) or len(texts) != len(cast("list[object]", ids)) or len(texts) > _MOST_IDS:
            raise InvalidRequest(f"execution_ids must be a list of at most {_MOST_IDS} ids.", parameter="execution_ids")
        found = await self._executions.executions(texts)
        missing = {key: {"execution_id": key, "status": "not_found"} for key in texts if key not in found}
        return json_response({**{key: _shown(item) for key, item in found.items()}, **missing})

    async def cancel(self, request: Request) -> Response:
        """End an execution; the agent is told."""
        reason = _text((await read_fields(request)).get("reason"))[:_LONGEST_REASON]
        try:
            execution, before = await self._executions.cancel(_id(request), reason)
        except InvalidRequest as error:
            return plain_error(request, 409, "invalid_state", error.message, **error.details)
        ended = cast("Ended", execution.ended)
        document = {
            "execution_id": execution.id,
            "previous_status": before,
            "status": execution.status,
            "reason": reason or None,
            "cancelled_at": time_text(ended.at),
        }
        return json_response(document)

    async def report(self, request: Request) -> Response:
        """Take an agent's report in: the first end wins, a repeated or late one changes nothing."""
        body = await read_body(request, _LARGEST)
        try:
            fields = fields_of(body)
        except NotJson:  # SDKs never repeat what was answered with a 4xx, so this is all that will ever be said
            fields = _meant(body)
        status = status_of(str(fields.get("status") or ""))
        if status is None:
            allowed, shown = [*sorted(ENDS), "running"], _text(fields.get("status"))[:100]
            raise InvalidRequest(f"unsupported status '{shown}'. Must be one of: {', '.join(allowed)}", allowed=allowed)
        ended = self._ended(fields) if status in ENDS else None
        return json_response(_shown(await self._executions.report(_id(request), ended)))

    async def event(self, request: Request) -> Response:
        """Take a workflow event in: kept as a note; an end it tells of counts if no report follows."""
        fields = await read_fields(request, _LARGEST)
        execution_id = _named(fields.get("execution_id"), "An event", parameter="execution_id")
        ended = self._ended(fields) if status_of(str(fields.get("status") or "")) in ENDS else None
        await self._executions.add_notes([self._note(execution_id, "event", fields)])
        if ended is not None and not await self._executions.hint(execution_id, ended):
            await self._executions.remember(self._foreign(execution_id, fields, ended))
        return json_response({"success": True})

    async def logs(self, request: Request) -> Response:
        """Take lines of an agent's log in: one, or several under `entries`."""
        execution_id = _named(_id(request), "A log", parameter="execution_id")
        fields = await read_fields(request, _LARGEST)
        entries = fields.get("entries")
        lines = cast("list[object]", entries) if isinstance(entries, list) else [fields]
        await self._executions.add_notes([self._note(execution_id, "log", line) for line in lines[-_MOST_LINES:]])
        return json_response({"success": True, "accepted": len(lines)}, 202)

    async def note(self, request: Request) -> Response:
        """Take a note in; which execution it is about stands in a header."""
        execution_id = _named(request.headers.get("x-execution-id"), "A note", header="X-Execution-ID")
        await self._executions.add_notes([self._note(execution_id, "note", await read_fields(request))])
        return json_response({"success": True}, 201)

    async def notes(self, request: Request) -> Response:
        """Show what was said about an execution; `?kind=` picks notes, logs or events."""
        wanted = request.query_params.get("kind", "note")
        if wanted not in _KINDS:
            rule = f"Invalid kind parameter. Must be one of: {', '.join(_KINDS)}"
            raise InvalidQuery(rule, parameter="kind", provided=wanted, allowed=_KINDS)
        execution = await self._executions.execution(_id(request))
        said = [note for note in await self._executions.notes(execution.id) if wanted in (note.kind, "all")]
        shown = [{"kind": note.kind, "at": time_text(note.at), "content": msgspec.Raw(note.content)} for note in said]
        return json_response({"execution_id": execution.id, "notes": shown, "total": len(shown)})

    async def _wanted(self, request: Request, kind: Kind | None = None) -> Wanted:
        body = await read_fields(request, _LARGEST)
        given: object = body.get("input")
        if given is not None and not isinstance(given, dict):  # an empty map of Go is null
            raise InvalidRequest("input must be an object. Put every parameter into it by its name.", parameter="input")
        return Wanted(
            target=str(request.path_params["target"]),
            kind=kind,
            input=cast("dict[str, Any]", given or {}),
            caller=Caller(getattr(request.state, "caller", "anonymous")),
            run_id=_header(request, "X-Run-ID") or _header(request, "X-Workflow-ID"),
            parent_id=_header(request, "X-Parent-Execution-ID"),
            context=tuple((name, value) for name in _PASSED_ON if (value := _header(request, name))),
            webhook=_webhook(body.get("webhook")),
            idempotency_key=_key(request),
        )

    def _ended(self, fields: dict[str, Any]) -> Ended:
        details, number = fields.get("error_details"), fields.get("error_status_code")
        said = fields.get("error") or fields.get("error_message")
        known = isinstance(number, int) and number in _ERRORS
        status = cast("EndStatus", status_of(str(fields["status"])))
        reason = _text(fields.get("status_reason")) or None
        if reason in _OURS and (status, reason) != ("cancelled", "cancelled"):
            reason = "agent_error"
        return Ended(
            status=status,
            at=self._clock.now(),
            result=Json(msgspec.json.encode(fields["result"])) if "result" in fields else None,
            error=_text(said) or None,
            error_details=None if details is None else Json(msgspec.json.encode(details)),
            reason=reason,
            http_status=number if known else None,
        )

    def _foreign(self, execution_id: str, fields: dict[str, Any], ended: Ended) -> Execution:
        """Return an execution that an agent ran by itself, as its event tells of it."""
        now = self._clock.now()
        return Execution(
            id=execution_id,
            run_id=_text(fields.get("run_id") or fields.get("workflow_id") or execution_id),
            parent_id=_text(fields.get("parent_execution_id")) or None,
            agent_id=_text(fields.get("agent_node_id") or "unknown"),
            kind="reasoner",
            capability=_text(fields.get("reasoner_id") or fields.get("type") or "unknown"),
            caller=_text(fields.get("agent_node_id") or "unknown"),
            input=Json(msgspec.json.encode(fields.get("input_data") or {})),
            status=ended.status,
            created_at=now,
            handed_at=now,
            ended=ended,
        )

    def _note(self, execution_id: str, kind: str, content: object) -> Note:
        now = self._clock.now()
        return Note(execution_id=execution_id, kind=kind, at=now, content=Json(msgspec.json.encode(content)))


def _text(value: object) -> str:
    """Return what an agent said as text; what is not text stays JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode() if value else ""


def _meant(body: bytes) -> dict[str, Any]:
    """Return what a report that is no JSON means: that the agent is at work if it says so, else that it has failed."""
    try:
        found: object = json.loads(body.decode(errors="replace"))
    except (ValueError, RecursionError):
        found = None
    fields = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    status = status_of(str(fields.get("status") or ""))
    if status is not None and status not in ENDS:
        return {"status": status}
    return {"status": "failed", "error": "the report was not JSON", "status_reason": "agent_error"}


def _shown(execution: Execution) -> dict[str, Any]:
    ended = execution.ended
    document: dict[str, Any] = {
        "execution_id": execution.id,
        "run_id": execution.run_id,
        "workflow_id": execution.run_id,
        "status": execution.status,
        "target": execution.target,
        "node_id": execution.agent_id,
        "type": execution.kind,
        "created_at": time_text(execution.created_at),
        "started_at": time_text(execution.handed_at or execution.created_at),
        "webhook_registered": execution.webhook is not None,
    }
    if execution.parent_id is not None:
        document["parent_execution_id"] = execution.parent_id
    if ended is None:
        return document
    document |= {"completed_at": time_text(ended.at), "duration_ms": _duration_ms(execution)}
    if ended.result is not None:
        document["result"] = msgspec.Raw(ended.result)
    if ended.status != "succeeded":
        document["error"] = ended.error or ended.status
        document["status_reason"] = ended.reason
    if ended.error_details is not None:
        document["error_details"] = msgspec.Raw(ended.error_details)
    return document


def _duration_ms(execution: Execution) -> int:
    begun = execution.handed_at or execution.created_at
    return max(0, int(((execution.ended.at if execution.ended else begun) - begun) * 1000))


def _status(ended: Ended) -> int:
    """Return the HTTP status for an end: the agent's own refusals are the caller's fault, its crashes are not."""
    if ended.status == "succeeded":
        return 200
    if ended.http_status is not None and ended.http_status in _CLIENT_ERRORS:
        return ended.http_status
    return _REFUSALS.get(ended.reason or "", 504 if ended.status == "timeout" else 502)


def _headers(execution: Execution) -> dict[str, str]:
    return {"X-Execution-ID": execution.id, "X-Run-ID": execution.run_id}


def _id(request: Request) -> str:
    return str(request.path_params["execution_id"])


def _named(value: object, what: str, **where: str) -> str:
    """Return the id of an execution that need not be here, if it can be one."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID:
        place = next(iter(where.values()))
        raise InvalidRequest(f"{what} needs an id of 1 to {_LONGEST_ID} characters in {place}.", **where)
    return value


def _unknown(name: str, value: str) -> InvalidQuery:
    near = nearest(name.lower(), _PARAMETERS, 1)
    hint = f" Did you mean {near[0]}?" if near else f" Known parameters: {', '.join(_PARAMETERS)}."
    message = f"Unknown parameter {name[:100]}.{hint}"
    return InvalidQuery(message, parameter=name, provided=value, allowed=near or _PARAMETERS)


def _header(request: Request, name: str) -> str | None:
    value = request.headers.get(name, "").strip()
    return value if value and len(value) <= _LONGEST_HEADER and value.isascii() and value.isprintable() else None


def _key(request: Request) -> str | None:
    value = request.headers.get("idempotency-key")
    if value is not None and not 0 < len(value.strip()) <= _LONGEST_KEY:
        raise InvalidRequest(f"An Idempotency-Key has 1 to {_LONGEST_KEY} characters.", header="Idempotency-Key")
    return value.strip() if value else None


def _wait_s(request: Request) -> float:
    text = request.query_params.get("wait", "0")
    seconds = float(text) if _SECONDS.fullmatch(text) else -1.0
    if not 0 <= seconds <= _LONGEST_WAIT_S:
        allowed = [f"0-{_LONGEST_WAIT_S:g}"]
        message = f"Invalid wait parameter. Must be seconds, {allowed[0]}"
        raise InvalidQuery(message, parameter="wait", provided=text, allowed=allowed)
    return seconds


def _webhook(value: object) -> Webhook | None:
    if value is None:
        return None
    fields: dict[str, Any] = cast("dict[str, Any]", value) if isinstance(value, dict) else {"url": value}
    url, headers = fields.get("url"), cast("object", fields.get("headers") or {})
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not isinstance(headers, dict):
        raise InvalidRequest(
            "webhook needs a url, and may have a secret and headers. Send it so, or leave it out.", parameter="webhook"
        )
    why = addresses.refusal(url)
    if why is not None:
        raise InvalidRequest(
            f"The address of the webhook {why}. Give one that can be reached from here.", parameter="webhook"
        )
    pairs: Pairs = tuple((name, _text(text)) for name, text in cast("dict[str, object]", headers).items())
    _check_headers(pairs)
    return Webhook(url=url, secret=_text(fields.get("secret")) or None, headers=pairs)


def _check_headers(headers: Pairs) -> None:
    """Refuse now what could not be sent later; a value is never shown."""
    if len(headers) > _MOST_WEBHOOK_HEADERS:
        message = f"A webhook may have at most {_MOST_WEBHOOK_HEADERS} headers."
        raise InvalidRequest(message, parameter="webhook.headers")
    for name, value in headers:
        why = None
        if len(name) + len(value) > _LONGEST_WEBHOOK_HEADER:
            why = f"is longer than {_LONGEST_WEBHOOK_HEADER} characters"
        elif not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            why = "cannot be sent: it is not plain ASCII"
        elif name.lower() in _MESSAGE_HEADERS:
            why = "is not the caller's to set"
        if why is not None:
            message = f"The header {clean(name, 100)} of the webhook {why}."
            raise InvalidRequest(message, parameter="webhook.headers")

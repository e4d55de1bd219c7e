"""Run a reasoner or a skill of an agent through the control planes that know it.

A call is handed in once, under a key of its own, and then waited for wherever somebody answers: a control plane that
dies meanwhile changes nothing. What got no clear answer is handed in again only where the key is known to be kept, so
nothing runs twice. A call that nobody waits for any more is taken back.
"""

from asyncio import CancelledError, Task, create_task, get_running_loop, shield, sleep, timeout
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NoReturn, cast, final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from switchboard.actions.ports import Call, Executor, Outcome, Plane, Planes, Secret, Text
from switchboard.catalog.bindings import Json, Registered
from switchboard.catalog.errors import (
    EFFECT_UNKNOWN,
    AnswerTooLarge,
    AuthInvalid,
    AuthRequired,
    CallTimeout,
    ConsentRequired,
    InvalidParams,
    InvalidRequest,
    NotSupported,
    RateLimited,
    RequestTooLarge,
    ServiceUnavailable,
    SwitchboardError,
    UnknownApp,
    UnknownTool,
    Unreached,
)
from switchboard.catalog.executions import ENDS, status_of
from switchboard.catalog.names import parse_target
from switchboard.catalog.text import clean
from switchboard.executors.limits import LARGEST
from switchboard.telemetry.logs import timestamp

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch

LONGEST_S = 600.0
"""How long a call may take, as long as a control plane waits for one itself."""
AWAY_S = 60.0
"""How long nobody may answer while a call is waited for: a control plane is started again in that time."""
_KEEPS_KEYS = "agents:"
"""What a service begins with whose store is known: there one key is one execution."""
_SUBMIT_S = 30.0
_WAIT_S = 20
_WAIT_MORE_S = 10.0
_CANCEL_S = 5.0
_QUICK_S = 1.0
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
_JSON = (("Content-Type", "application/json"),)
_GONE = b'{"reason": "the caller has gone"}'
_LONGEST_SAID = 2000
_SUCCESS = range(200, 300)
_UNCLEAR = frozenset({500, 502, 504})
_ELSEWHERE = frozenset({401, 503})
"""Refusals of one control plane that another may not share."""
_KEY_VARIABLE = "AGENTFIELD_API_KEY"
_UNREACHED = frozenset({"agent_unreachable"})
_UNKNOWN = frozenset({"outcome_unknown"})
_LATE = frozenset({"agent_timeout", "execution_timeout"})


class _Document(Struct):
    """An execution as control planes show it; everything may be missing."""

    execution_id: str = ""
    status: str = ""
    result: Raw | UnsetType = UNSET
    error: object = None
    error_message: object = None
    error_details: object = None
    status_reason: str | None = None


class _Accepted(Struct, frozen=True):
    """An execution that a control plane has taken on."""

    plane: Plane
    execution: _Document


@final
class ControlPlaneExecutor(Executor):
    """Calls agents through control planes."""

    def __init__(
        self, fetch: "Callable[[], Fetch]", planes: Planes, *, longest_s: float = LONGEST_S, away_s: float = AWAY_S
    ) -> None:
        self._fetch = fetch
        self._planes = planes
        self._longest_s = longest_s
        self._away_s = away_s

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Hand one call in, and return what came of it."""
        del secret  # the user's key goes with the control plane, not with the agent
        execution = call.capability.binding.execution
        if not isinstance(execution, Registered):
            raise NotSupported(f"{call.owner.id} is not an agent of a control plane.")
        handing_in = create_task(self._hand_in(call, execution))
        try:
            async with timeout(self._longest_s):
                accepted = await shield(handing_in)
                return _outcome(call, await self._end_of(call, execution, accepted))
        except TimeoutError:
            await self._take_back(execution, handing_in)
            message = f"{call.owner.id} has not answered within {self._longest_s:g} seconds; it was told to stop."
            raise CallTimeout(message, app=call.owner.id, tool=call.capability.id) from None
        except CancelledError:
            await shield(self._take_back(execution, handing_in))
            raise

    async def _hand_in(self, call: Call, execution: Registered) -> _Accepted:
        """Let the first control plane that can have it take the call on."""
        content = msgspec.json.encode({"input": dict(call.arguments)})
        headers = [*_JSON, ("Idempotency-Key", f"aai-{token_hex(16)}")]
        path = f"/api/v1/execute/async/{quote(_target(call, execution), safe='')}"
        refusal: SwitchboardError | None = None
        unclear: Plane | None = None
        for plane in self._planes.of(execution.service):
            if unclear is not None and not _is_same_caller(execution, unclear, plane):
                continue
            try:
                answer = await self._send("POST", plane, path, seconds=_SUBMIT_S, headers=headers, content=content)
                if answer.status in _SUCCESS:
                    return _Accepted(plane, _read(plane, answer))
            except Unreached as error:
                refusal = refusal or error
                continue
            except (ServiceUnavailable, CallTimeout) as error:
                refusal, unclear = error, plane
                continue
            if answer.status in _UNCLEAR:
                unclear = plane
            elif answer.status not in _ELSEWHERE:
                _refuse(call, plane, answer)
            refusal = _refusal(call, plane, answer)
        raise self._nobody(call, execution, refusal, is_known=unclear is None)

    async def _end_of(self, call: Call, execution: Registered, accepted: _Accepted) -> _Document:
        """Wait for the end, wherever somebody knows of it."""
        if _has_ended(accepted.execution):
            return accepted.execution
        loop = get_running_loop()
        heard, pauses, turn = loop.time(), iter(_PAUSES), accepted.plane
        path = f"/api/v1/executions/{quote(accepted.execution.execution_id, safe='')}"
        while True:
            begun = loop.time()
            try:
                found = await self._shown(turn, path)
            except AnswerTooLarge:
                raise
            except (ServiceUnavailable, CallTimeout) as error:
                if loop.time() - heard > self._away_s:
                    raise _lost(call, accepted, error) from error
                turn = self._next(execution, turn)
            else:
                heard = loop.time()
                if _has_ended(found):
                    return found
            if loop.time() - begun < _QUICK_S:  # one that does not wait, or nobody is there
                await sleep(next(pauses, _PAUSES[-1]))

    async def _shown(self, plane: Plane, path: str) -> _Document:
        answer = await self._send("GET", plane, f"{path}?wait={_WAIT_S}", seconds=_WAIT_S + _WAIT_MORE_S)
        if answer.status not in _SUCCESS:
            raise ServiceUnavailable(f"{plane.url} answers {answer.status}.", status=answer.status)
        return _read(plane, answer)

    def _next(self, execution: Registered, last: Plane) -> Plane:
        """Return the control plane to ask after one that did not answer."""
        known = self._planes.of(execution.service) or [last]
        urls = [plane.url for plane in known]
        return known[(urls.index(last.url) + 1) % len(known)] if last.url in urls else known[0]

    async def _take_back(self, execution: Registered, handing_in: "Task[_Accepted]") -> None:
        """Tell a control plane that nobody waits any more; what is on its way there is waited for a little."""
        with suppress(TimeoutError, SwitchboardError):
            async with timeout(_CANCEL_S):
                accepted = await handing_in
                path = f"/api/v1/executions/{quote(accepted.execution.execution_id, safe='')}/cancel"
                others = (plane for plane in self._planes.of(execution.service) if plane.url != accepted.plane.url)
                for plane in (accepted.plane, *others):
                    with suppress(SwitchboardError):
                        await self._send("POST", plane, path, seconds=_CANCEL_S, content=_GONE)
                        return

    async def _send(  # noqa: PLR0913 - what a request is made of
        self,
        method: str,
        plane: Plane,
        path: str,
        *,
        seconds: float,
        headers: Sequence[tuple[str, str]] = _JSON,
        content: bytes | None = None,
    ) -> "Answer":
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - imported with the first call

        return await self._fetch().send(
            method,
            plane.url + path,
            headers=[("Accept", "application/json"), *headers, *plane.headers],
            content=content,
            limits=Limits(seconds=seconds, size=LARGEST, redirects=0),
        )

    def _nobody(
        self, call: Call, execution: Registered, refusal: SwitchboardError | None, *, is_known: bool
    ) -> SwitchboardError:
        """Say why no control plane took the call on."""
        planes = self._planes.of(execution.service)
        since = min((plane.down_since for plane in planes if plane.down_since is not None), default=None)
        if refusal is not None and not isinstance(refusal, ServiceUnavailable | CallTimeout):
            return refusal
        said = "No control plane is named that knows it." if refusal is None else refusal.message
        when = "" if since is None else f" since {timestamp(since)}"
        advice = "Tell the user, and try again later." if is_known else "Whether the call had an effect is not known."
        message = f"{call.owner.id} cannot be reached{when}: {said} {advice}"
        details = {} if since is None else {"since": timestamp(since)}
        return ServiceUnavailable(message, app=call.owner.id, planes=[plane.url for plane in planes], **details)


def _target(call: Call, execution: Registered) -> str:
    """Return what to ask a control plane for; AgentField's own knows the spelling with a dot, and no other.

    Raises:
        NotSupported: it would run something else there than the user was asked about.
    """
    path = call.capability.binding.route.path or ""
    if execution.service.startswith(_KEEPS_KEYS):
        return path
    agent_id, name = execution.agent_id, parse_target(path).name
    if name != call.capability.id or "." in agent_id:
        message = (
            f"{agent_id}.{name} means something else at {execution.service}: {call.capability.id} cannot be called "
            "there. Tell the user; the agent would have to rename it."
        )
        raise NotSupported(message, app=call.owner.id, tool=call.capability.id)
    return f"{agent_id}.{name}"


def _is_same_caller(execution: Registered, unclear: Plane, plane: Plane) -> bool:
    """Tell whether a key that one control plane may have used is known to another: one store, and one caller."""
    return execution.service.startswith(_KEEPS_KEYS) and plane.headers == unclear.headers


def _has_ended(execution: _Document) -> bool:
    return status_of(execution.status) in ENDS


def _read(plane: Plane, answer: "Answer") -> _Document:
    try:
        document = msgspec.json.decode(answer.body, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ServiceUnavailable(f"{plane.url} answers something else than an execution.") from error
    if not document.execution_id:
        raise ServiceUnavailable(f"{plane.url} answers without the id of an execution.")
    return document


def _lost(call: Call, accepted: _Accepted, error: SwitchboardError) -> ServiceUnavailable:
    identity = accepted.execution.execution_id
    message = (
        f"{call.owner.id} is at work on this, and no control plane tells how it ends: {error.message} "
        f"Look for the execution {identity} before you repeat it."
    )
    return ServiceUnavailable(message, app=call.owner.id, execution=identity)


def _outcome(call: Call, execution: _Document) -> Outcome:
    """Return a result, or what the agent says about its failure; what kept the call from it is an error."""
    if status_of(execution.status) == "succeeded":
        return _brought(Json(b"null") if execution.result is UNSET else Json(bytes(execution.result)))
    said = _said(execution)
    facts: dict[str, Any] = {"app": call.owner.id, "execution": execution.execution_id}
    if execution.status_reason in _UNREACHED:
        raise ServiceUnavailable(f"{call.owner.id} cannot be reached by its control plane: {said}", **facts)
    if execution.status_reason in _UNKNOWN:
        named = f"It is the execution {execution.execution_id}."
        raise ServiceUnavailable(f"{call.owner.id}: {said.rstrip('.')}. {EFFECT_UNKNOWN} {named}", **facts)
    if execution.status_reason in _LATE:
        raise CallTimeout(f"{call.owner.id} has not answered in time: {said}", **facts)
    details = {"code": "APP_ERROR", "message": said, "status": execution.status, **facts}
    if execution.status_reason:
        details["reason"] = execution.status_reason
    if execution.error_details is not None:
        details["details"] = execution.error_details
    return Outcome(parts=(Text(said),), data=Json(msgspec.json.encode(details)), failed=True)


def _brought(result: Json) -> Outcome:
    """Return a result to be read: a text as it is, everything else as JSON; what is only nearly JSON is no data."""
    try:
        document: object = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Outcome(parts=(Text(result.decode(errors="replace")),))
    return Outcome(parts=(Text(document if isinstance(document, str) else result.decode()),), data=result)


def _said(execution: _Document) -> str:
    found = execution.error or execution.error_message or execution.status
    return clean(found if isinstance(found, str) else msgspec.json.encode(found).decode(), _LONGEST_SAID)


def _refuse(call: Call, plane: Plane, answer: "Answer") -> NoReturn:
    raise _refusal(call, plane, answer)


def _refusal(call: Call, plane: Plane, answer: "Answer") -> SwitchboardError:  # noqa: PLR0911 - one for each status
    """Return a control plane's own refusal in our words."""
    body = _fields(answer.body)
    said, details = _message(body) or f"it answers {answer.status}", _object(body.get("details"))
    app, tool, where = call.owner.id, call.capability.id, {"plane": plane.url}
    match answer.status:
        case 401 if plane.headers:
            return AuthInvalid(f"{plane.url} does not accept the key in {_KEY_VARIABLE}; the user can set it.", **where)
        case 401:
            return AuthRequired(f"{plane.url} wants an API key; the user can set it in {_KEY_VARIABLE}.", **where)
        case 403:
            return ConsentRequired(
                f"The rules of {plane.url} do not allow this: {said}", app_id=app, tool=tool, **where
            )
        case 404 if "tool" in details:
            return UnknownTool(app, tool, _texts(details.get("nearest")))
        case 404:
            return UnknownApp(app, _texts(details.get("nearest")), because=f"{plane.url} does not know it any more")
        case 422:
            violations = _texts(details.get("violations")) or [said]
            return InvalidParams(said, violations=violations, schema=details.get("schema") or {})
        case 429:
            return RateLimited(f"{plane.url} has too much to do: {said}", **where)
        case 413:
            return RequestTooLarge(LARGEST)
        case status if status in (503, *_UNCLEAR):
            return ServiceUnavailable(f"{plane.url} does not take it on: {said}", status=status, **where)
        case status:
            return InvalidRequest(f"{plane.url} refuses this: {said}", status=status, **where)


def _fields(body: bytes) -> Mapping[str, Any]:
    try:
        return _object(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _object(value: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _message(body: Mapping[str, Any]) -> str:
    found = next((body[key] for key in ("message", "error") if isinstance(body.get(key), str)), "")
    return clean(found, _LONGEST_SAID)


def _texts(value: object) -> list[str]:
    return (
        [clean(item) for item in cast("list[object]", value) if isinstance(item, str)]
        if isinstance(value, list)
        else []
    )

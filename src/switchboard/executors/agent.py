"""Run a reasoner or a skill of a registered agent, as the AgentField SDKs serve them.

An agent answers at once (200), or says that it is at work (202) and reports later; then the call ends with the report.
Nothing is ever sent twice. Agents live inside, so private addresses are fine; the guard refuses metadata services.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast, final
from urllib.parse import quote

import msgspec

from switchboard.actions.ports import Agents, Call, Executor, Outcome, Reports, Secret, Text
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import NotSupported, SwitchboardError
from switchboard.catalog.executions import Ended, Execution
from switchboard.catalog.model import Agent
from switchboard.catalog.text import clean

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch

_ACCEPTED = 202
_SUCCESS = range(200, 300)
_LARGEST = 16 * 1024 * 1024
_LONGEST_SAID = 2000
_CANCEL_S = 5.0
DISPATCH_S = 90.0
"""How long an agent may take to answer, which for a skill is all the time it has."""


@final
class AgentExecutor(Executor, Agents):
    """Calls agents through the guarded client."""

    def __init__(self, fetch: "Callable[[], Fetch]", reports: Reports, dispatch_s: float = DISPATCH_S) -> None:
        self._fetch = fetch
        self._reports = reports
        self._dispatch_s = dispatch_s

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Send one call, and return what came of it, now or later."""
        del secret  # agents are trusted by where they live
        agent = call.owner
        if not isinstance(agent, Agent):
            raise NotSupported(f"{agent.id} is not an agent.")
        answer = await self._post(
            f"{_base(agent)}/{call.capability.kind}s/{quote(call.capability.id, safe='')}",
            call.arguments,
            call.context,
            self._dispatch_s,
            body_wanted=lambda status: status != _ACCEPTED,
        )
        if answer.status == _ACCEPTED:
            await self._reports.acknowledged(call.id)
            return _reported(await self._reports.end_of(call.id))
        return _result(agent, answer) if answer.status in _SUCCESS else _refused(agent, answer)

    async def cancel(self, agent: Agent, execution: Execution, reason: str) -> None:
        """Tell an agent to stop; whether it does is its own affair."""
        body = {"execution_id": execution.id, "workflow_id": execution.run_id, "reason": reason}
        url = f"{_base(agent)}/_internal/executions/{quote(execution.id, safe='')}/cancel"
        try:
            await self._post(url, body, (), _CANCEL_S)
        except SwitchboardError:
            return  # it may be gone; the execution has its end already

    async def _post(
        self,
        url: str,
        body: Mapping[str, Any],
        headers: tuple[tuple[str, str], ...],
        seconds: float,
        *,
        body_wanted: Callable[[int], bool] | None = None,
    ) -> "Answer":
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - imported with the first call

        return await self._fetch().send(
            "POST",
            url,
            headers=[("Content-Type", "application/json"), *headers],
            content=msgspec.json.encode(body),
            limits=Limits(seconds=seconds, size=_LARGEST, redirects=0),
            body_wanted=body_wanted,
        )


def _base(agent: Agent) -> str:
    return agent.base_url.rstrip("/")


def _result(agent: Agent, answer: "Answer") -> Outcome:
    """Return an agent's result: any JSON, or text from one that sends none and does not say that it is JSON."""
    try:
        msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = answer.body.decode(errors="replace")
        kind = (answer.header("content-type") or "").partition(";")[0].strip().lower()
        if text.strip() and (kind == "application/json" or kind.endswith("+json")):
            return _failure(f"{agent.id} says that its answer is JSON, and it is not.", answer.status, text)
        return Outcome(parts=(Text(text),), data=Json(msgspec.json.encode(text) if text else b"null"))
    return Outcome(parts=(Text(answer.body.decode()),), data=Json(answer.body))


def _reported(ended: Ended) -> Outcome:
    if ended.status == "succeeded":
        result = ended.result or Json(b"null")
        return Outcome(parts=(Text(result.decode()),), data=result)
    said = ended.error or ended.status
    details = {"message": said, "status": ended.http_status, "reason": ended.reason}
    return Outcome(parts=(Text(said),), data=Json(msgspec.json.encode(details)), failed=True)


def _refused(agent: Agent, answer: "Answer") -> Outcome:
    """Return an agent's own error in its own words."""
    text = answer.body[:_LONGEST_SAID].decode(errors="replace")
    said = _said(answer.body) or clean(text) or f"HTTP {answer.status}"
    return _failure(f"{agent.id} answers {answer.status}: {said}", answer.status, text, said)


def _failure(message: str, status: int, body: str, said: str = "") -> Outcome:
    details = {"message": message, "status": status, "body": body[:_LONGEST_SAID]}
    return Outcome(parts=(Text(said or message),), data=Json(msgspec.json.encode(details)), failed=True)


def _said(body: bytes) -> str:
    """Return the message in an error body, under any of the names that are used for it."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    fields = cast("dict[str, Any]", document)
    found = next((fields[key] for key in ("detail", "message", "error") if fields.get(key)), "")
    return clean(found if isinstance(found, str) else msgspec.json.encode(found).decode(), _LONGEST_SAID)

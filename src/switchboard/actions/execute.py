"""Run one capability for one caller: find it, check the arguments, ask the user, unlock, run, record.

Knows nothing of transports or protocols. Every refusal is a `SwitchboardError`, and every call leaves one line in the
audit record, whatever became of it.
"""

from asyncio import CancelledError
from collections.abc import Callable, Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Any

import msgspec

from switchboard.actions.lookup import Found
from switchboard.actions.ports import (
    Audit,
    Call,
    Client,
    Clock,
    Consent,
    Entry,
    Executor,
    Outcome,
    Secrets,
    Unreachable,
)
from switchboard.catalog.bindings import ExecutionKind
from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.errors import AuthExpired, NotSupported, ServiceUnavailable, SwitchboardError, UnknownTool
from switchboard.catalog.executions import Execution
from switchboard.catalog.model import App, Caller, Owner
from switchboard.catalog.schema import MOST, ArgumentCheck
from switchboard.catalog.text import clean, nearest
from switchboard.telemetry.logs import timestamp

Executors = Mapping[ExecutionKind, Executor]
Fingerprint = Callable[[bytes], str]
"""Makes of arguments what stands for them in the record: the same for the same, and nothing to read them from."""
_NOBODY = Unreachable()


class Execute:
    """Puts calls through."""

    def __init__(  # noqa: PLR0913 - one collaborator for each step
        self,
        *,
        consent: Consent,
        secrets: Secrets,
        executors: Executors,
        audit: Audit,
        clock: Clock,
        fingerprint: Fingerprint | None = None,
        caches: Caches = USUAL,
    ) -> None:
        self._consent = consent
        self._secrets = secrets
        self._executors = executors
        self._audit = audit
        self._clock = clock
        self._fingerprint = fingerprint or _plain_hash
        self._check = ArgumentCheck(caches.most(MOST))

    async def run(
        self, caller: Caller, found: Found, tool: str, arguments: Mapping[str, Any], client: Client = _NOBODY
    ) -> Outcome:
        """Run a tool of an app; `client` is the way back to whoever waits for it.

        Raises:
            UnknownTool: the app has no such tool.
            InvalidParams: the arguments do not fit its schema.
            ConsentRequired: the user has not allowed it.
            ServiceUnavailable: it is known that nobody is there who could do it.
            AuthRequired, AuthDenied, AuthExpired, AuthInvalid: the user has to sign in.
            NotSupported: it is described in a way that cannot be run here.
            SwitchboardError: what the app or the way to it says.
        """
        app = found.app
        capability = app.capability(tool)
        if capability is None:
            raise UnknownTool(found.address, tool, nearest(tool, (item.id for item in app.capabilities)))
        call = Call(
            id=token_hex(8),
            caller=caller,
            owner=app,
            capability=capability,
            arguments=arguments,
            address=found.address,
        )
        return await self.put_through(call, client)

    async def put_through(self, call: Call, client: Client = _NOBODY) -> Outcome:
        """Check, ask, unlock, run and record one call.

        Raises:
            SwitchboardError: as `run` does.
        """
        await self.admit(call, client)
        return await self.perform(call, client)

    async def admit(self, call: Call, client: Client = _NOBODY) -> None:
        """Check that it can be done, check the arguments, and ask for consent; a refusal is recorded.

        Raises:
            ServiceUnavailable: nobody is there who could do it, so the user is not asked.
            InvalidParams, ConsentRequired: the call may not be performed.
        """
        begun, decision = self._clock.passed(), "not asked"
        try:
            _require_somebody(call.owner)
            self._check.require(call.capability.input_schema, call.arguments)
            decision = "denied"
            await self._consent.require(call, client)
        except SwitchboardError as error:
            undecided = error.details.get("decision") in ("pending", "closed", "busy", "nobody")
            self._audit.note(self._entry(call, "not decided" if undecided else decision, error.code, begun))
            raise

    async def perform(self, call: Call, client: Client = _NOBODY) -> Outcome:
        """Unlock and run a call that was admitted, and record what became of it.

        Raises:
            SwitchboardError: what the owner or the way to it says.
        """
        begun, outcome = self._clock.passed(), "INTERNAL_ERROR"
        try:
            brought = await self._run(call, client)
            outcome = "APP_ERROR" if brought.failed else "OK"
        except SwitchboardError as error:
            outcome = error.code
            raise
        except CancelledError:
            outcome = "CANCELLED"
            raise
        finally:
            self._audit.note(self._entry(call, "allowed", outcome, begun))
        return brought

    def record_end(self, execution: Execution) -> None:
        """Record the end of an execution that nobody here performed: it was sent by an earlier process, or never."""
        ended = execution.ended
        begun = execution.handed_at or execution.created_at
        given = msgspec.json.encode(msgspec.json.decode(execution.input), order="deterministic")
        outcome = "OK" if execution.status == "succeeded" else (ended.reason if ended else None) or execution.status
        entry = Entry(
            at=self._clock.now(),
            call=execution.id,
            caller=execution.caller,
            owner=execution.agent_id,
            origin="",
            capability=execution.capability,
            decision="allowed",
            outcome=outcome if outcome == "OK" else outcome.upper(),
            duration_ms=int(max(0.0, (ended.at if ended else begun) - begun) * 1000),
            arguments_hash=self._fingerprint(given),
        )
        self._audit.note(entry)

    async def _run(self, call: Call, client: Client) -> Outcome:
        kind = call.capability.binding.kind
        executor = self._executors.get(kind)
        if executor is None:
            message = f"{call.owner.id} is called by {kind}, which cannot be done here. Use another app for this."
            raise NotSupported(message, app=call.owner.id, tool=call.capability.id, execution=kind)
        secret = await self._secrets.secret_for(call, client)
        self._consent.used(call)
        try:
            return await executor.run(call, secret)
        except AuthExpired:
            # The app did not let the call in, so it has not run yet; with something newer it may.
            renewed = None if secret is None else await self._secrets.renewed(call, secret)
            if renewed is None:
                raise
            return await executor.run(call, renewed)

    def _entry(self, call: Call, decision: str, outcome: str, begun: float) -> Entry:
        return Entry(
            at=self._clock.now(),
            call=call.id,
            caller=call.caller.name,
            owner=call.owner.id,
            origin=call.owner.origin if isinstance(call.owner, App) else call.owner.base_url,
            capability=call.capability.id,
            decision=decision,
            outcome=outcome,
            duration_ms=int((self._clock.passed() - begun) * 1000),
            arguments_hash=self._fingerprint(msgspec.json.encode(dict(call.arguments), order="deterministic")),
        )


def _require_somebody(owner: Owner) -> None:
    standing = owner.standing if isinstance(owner, App) else None
    if standing is None or not standing.is_refused:
        return
    since = None if standing.since is None else timestamp(standing.since)
    when, why = f" since {since}" if since else "", f" ({clean(standing.reason)})" if standing.reason else ""
    message = (
        f"{owner.id} is inactive{when}{why}: nothing was run. Tell the user, whose operators can start it again; "
        "call its app tool later to see whether it is back."
    )
    raise ServiceUnavailable(message, app=owner.id, health=standing.health, **({"since": since} if since else {}))


def _plain_hash(arguments: bytes) -> str:
    return sha256(arguments).hexdigest()[:32]

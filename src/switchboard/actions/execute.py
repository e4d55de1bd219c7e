"""Run one capability for one caller: find it, check the arguments, ask the user, unlock, run, record.

Knows nothing of transports or protocols. Every refusal is a `SwitchboardError`, and every call leaves one line in the
audit record, whatever became of it.
"""

from asyncio import CancelledError
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Any

import msgspec

from switchboard.actions.lookup import Found
from switchboard.actions.ports import Audit, Call, Clock, Consent, Entry, Executor, Outcome, Secrets
from switchboard.catalog.bindings import ExecutionKind
from switchboard.catalog.errors import ConsentRequired, NotSupported, SwitchboardError, UnknownTool
from switchboard.catalog.model import App, Caller
from switchboard.catalog.schema import ArgumentCheck
from switchboard.catalog.text import nearest

Executors = Mapping[ExecutionKind, Executor]


class Execute:
    """Puts calls through."""

    def __init__(self, *, consent: Consent, secrets: Secrets, executors: Executors, audit: Audit, clock: Clock) -> None:
        self._consent = consent
        self._secrets = secrets
        self._executors = executors
        self._audit = audit
        self._clock = clock
        self._check = ArgumentCheck()

    async def run(self, caller: Caller, found: Found, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool of an app.

        Raises:
            UnknownTool: the app has no such tool.
            InvalidParams: the arguments do not fit its schema.
            ConsentRequired: the user has not allowed it.
            AuthRequired, AuthDenied, AuthExpired, AuthInvalid: the user has to sign in.
            NotSupported: it is described in a way that cannot be run here.
            SwitchboardError: what the app or the way to it says.
        """
        app = found.app
        capability = app.capability(tool)
        if capability is None:
            raise UnknownTool(found.address, tool, nearest(tool, (item.id for item in app.capabilities)))
        call = Call(id=token_hex(8), caller=caller, owner=app, capability=capability, arguments=arguments)
        return await self.put_through(call)

    async def put_through(self, call: Call) -> Outcome:
        """Check, ask, unlock, run and record one call.

        Raises:
            SwitchboardError: as `run` does.
        """
        begun, outcome = self._clock.passed(), "CANCELLED"
        decision = "not asked"
        try:
            self._check.require(call.capability.input_schema, call.arguments)
            decision = "denied"
            await self._consent.require(call.caller, call.owner, call.capability)
            decision = "allowed"
            brought = await self._run(call)
            outcome = "APP_ERROR" if brought.failed else "OK"
        except ConsentRequired as error:
            outcome = error.code
            raise
        except SwitchboardError as error:
            decision = "not asked" if decision == "denied" else decision
            outcome = error.code
            raise
        except CancelledError:
            raise
        except Exception:
            outcome = "INTERNAL_ERROR"
            raise
        finally:
            self._audit.note(self._entry(call, decision, outcome, begun))
        return brought

    async def _run(self, call: Call) -> Outcome:
        kind = call.capability.binding.kind
        executor = self._executors.get(kind)
        if executor is None:
            message = f"{call.owner.id} is called by {kind}, which cannot be done here."
            raise NotSupported(message, app=call.owner.id, tool=call.capability.id, execution=kind)
        secret = await self._secrets.secret_for(call.caller, call.owner)
        return await executor.run(call, secret)

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
            arguments_hash=_hash(call.arguments),
        )


def _hash(arguments: Mapping[str, Any]) -> str:
    """Return what stands for the arguments in the record: the same for the same, and nothing to read them from."""
    return sha256(msgspec.json.encode(dict(arguments), order="deterministic")).hexdigest()[:32]

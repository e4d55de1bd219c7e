"""Run one tool for one caller: find it, check the arguments, ask the user, run.

Knows nothing of transports or protocols. Every refusal is a `SwitchboardError`.
"""

from collections.abc import Mapping
from typing import Any

from switchboard.actions.lookup import Found
from switchboard.actions.ports import Consent, Executor, Outcome
from switchboard.catalog.bindings import ExecutionKind
from switchboard.catalog.errors import NotSupported, UnknownTool
from switchboard.catalog.model import Caller
from switchboard.catalog.schema import ArgumentCheck
from switchboard.catalog.text import nearest


class Execute:
    """Puts calls through."""

    def __init__(self, consent: Consent, executors: Mapping[ExecutionKind, Executor]) -> None:
        self._consent = consent
        self._executors = executors
        self._check = ArgumentCheck()

    async def run(self, caller: Caller, found: Found, tool: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run a tool of an app.

        Raises:
            UnknownTool: the app has no such tool.
            InvalidParams: the arguments do not fit its schema.
            ConsentRequired: the user has not allowed it.
            NotSupported: it is described in a way that cannot be run here.
            SwitchboardError: what the app or the way to it says.
        """
        app = found.app
        capability = app.capability(tool)
        if capability is None:
            raise UnknownTool(found.address, tool, nearest(tool, (item.id for item in app.capabilities)))
        self._check.require(capability.input_schema, arguments)
        await self._consent.require(caller, app, capability)
        executor = self._executors.get(capability.binding.kind)
        if executor is None:
            raise NotSupported(
                f"{app.id} is called by {capability.binding.kind}, which this version cannot do.",
                app=app.id,
                tool=tool,
                execution=capability.binding.kind,
            )
        return await executor.run(app, capability, arguments)

"""The ways to call what runs on this machine, each loaded with its first call: the gateway starts with every chat."""

from collections.abc import Callable, Mapping
from typing import final

from switchboard.actions.ports import Call, Outcome, Secret
from switchboard.catalog.bindings import ExecutionKind
from switchboard.executors.closing import Closing


@final
class OnFirstCall(Closing):
    """An executor that is made when it is first needed."""

    def __init__(self, make: Callable[[], Closing]) -> None:
        self._make = make
        self._made: Closing | None = None

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Run it once, and never twice."""
        if self._made is None:
            self._made = self._make()
        return await self._made.run(call, secret)

    async def close(self) -> None:
        """End what was started, if anything was."""
        if self._made is not None:
            await self._made.close()


def native(environment: Mapping[str, str]) -> dict[ExecutionKind, Closing]:
    """Return the executors of this machine; children get little of `environment`, see `processes`."""

    def stdio() -> Closing:
        from switchboard.executors.stdio import StdioExecutor  # noqa: PLC0415

        return StdioExecutor(environment)

    def dbus() -> Closing:
        from switchboard.executors.dbus import DbusExecutor  # noqa: PLC0415

        return DbusExecutor(environment)

    def apple_events() -> Closing:
        from switchboard.executors.apple_events import AppleEventsExecutor  # noqa: PLC0415

        return AppleEventsExecutor(environment)

    def com() -> Closing:
        from switchboard.executors.com import ComExecutor  # noqa: PLC0415

        return ComExecutor(environment)

    return {
        "stdio": OnFirstCall(stdio),
        "dbus": OnFirstCall(dbus),
        "apple-events": OnFirstCall(apple_events),
        "com": OnFirstCall(com),
    }

"""One call, from finding it to the line in the audit record."""

import asyncio
from typing import Any, final

import pytest
from msgspec.structs import replace
from tests.actions.fakes import HandClock
from tests.actions.test_executions import Record
from tests.builders import app, schema
from tests.caching import CACHES

from switchboard.actions.execute import Execute
from switchboard.actions.lookup import Found
from switchboard.actions.ports import Call, Executor, Outcome, Secret, Text
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import (
    ConsentRequired,
    InvalidParams,
    NotSupported,
    RateLimited,
    ServiceUnavailable,
    SwitchboardError,
    UnknownTool,
)
from switchboard.catalog.model import App, Caller, Standing
from switchboard.security.rules import AllowRules
from switchboard.security.secrets import NoSecrets

CALLER = Caller("tester")
NUMBER = schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


@final
class Double(Executor):
    """Does what a test wants, and remembers what it was asked to do."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.calls: list[Call] = []
        self.brings: Outcome | SwitchboardError | None = None

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Take a second and a half, or for ever."""
        assert secret is None
        self.calls.append(call)
        self.clock.time += 1.5
        if self.brings is None:
            await asyncio.Event().wait()
        if isinstance(self.brings, SwitchboardError):
            raise self.brings
        assert isinstance(self.brings, Outcome)
        return self.brings


class Desk:
    """Everything around one call."""

    def __init__(self, **allow: list[str]) -> None:
        self.clock = HandClock()
        self.record = Record()
        self.double = Double(self.clock)
        self.double.brings = Outcome(parts=(Text("ok"),), data=Json(b'"ok"'))
        self.execute = Execute(
            consent=AllowRules(allow),
            secrets=NoSecrets(),
            executors={"http": self.double},
            audit=self.record,
            clock=self.clock,
            caches=CACHES,
        )
        shop = app("shop", "buy")
        tools = tuple(replace(tool, input_schema=NUMBER) for tool in shop.capabilities)
        self.shop = Found(app=replace(shop, capabilities=tools, origin="https://shop.test"), address="shop")

    async def run(self, **arguments: Any) -> Outcome:
        """Buy."""
        return await self.execute.run(CALLER, self.shop, "buy", arguments)

    def line(self) -> tuple[str, str]:
        """Return what the only line says was decided, and how it ended."""
        (entry,) = self.record.entries
        return entry.decision, entry.outcome


def test_a_call_is_put_through_and_leaves_one_line() -> None:
    """Who, what, where, how long; of the arguments only a hash."""
    desk = Desk()
    outcome = asyncio.run(desk.run(n=4711))

    (entry,) = desk.record.entries
    assert outcome.data == b'"ok"'
    assert (entry.caller, entry.owner, entry.origin, entry.capability) == ("tester", "shop", "https://shop.test", "buy")
    assert (desk.line(), entry.duration_ms, entry.call) == (("allowed", "OK"), 1500, desk.double.calls[0].id)
    assert len(entry.arguments_hash) == 32
    assert "4711" not in repr(replace(entry, arguments_hash="", call=""))


def test_who_is_known_to_be_gone_is_not_called_and_nobody_is_asked() -> None:
    """The refusal says since when; what was heard long ago may be otherwise by now, and is tried."""
    desk = Desk(shop=["boss"])
    gone = Standing(health="inactive", since=1794736800.0, reason="silent")
    desk.shop = Found(app=replace(desk.shop.app, standing=gone), address="shop")
    with pytest.raises(ServiceUnavailable, match=r"inactive since 2026-11-15T10:00:00.000Z \(silent\)") as error:
        asyncio.run(desk.run(n=1))
    line = desk.line()
    desk.shop = Found(app=replace(desk.shop.app, standing=replace(gone, stale_since=1.0)), address="shop")
    with pytest.raises(ConsentRequired):
        asyncio.run(desk.run(n=1))

    assert line == ("not asked", "SERVICE_UNAVAILABLE")
    assert error.value.details["since"] == "2026-11-15T10:00:00.000Z"
    assert desk.double.calls == []


@pytest.mark.parametrize(
    ("arguments", "allow", "refusal", "line"),
    [
        ({}, {}, InvalidParams, ("not asked", "INVALID_PARAMS")),
        ({"n": 1}, {"shop": ["boss"]}, ConsentRequired, ("denied", "CONSENT_REQUIRED")),
    ],
)
def test_a_refused_call_is_not_put_through_and_leaves_one_line_too(
    arguments: dict[str, Any], allow: dict[str, list[str]], refusal: type[SwitchboardError], line: tuple[str, str]
) -> None:
    """Arguments are checked before anybody is asked."""
    desk = Desk(**allow)
    with pytest.raises(refusal):
        asyncio.run(desk.run(**arguments))

    assert (desk.double.calls, desk.line()) == ([], line)


@pytest.mark.parametrize(
    ("brings", "outcome"),
    [
        (Outcome(parts=(), data=Json(b"{}"), failed=True), "APP_ERROR"),
        (RateLimited("too many"), "RATE_LIMITED"),
    ],
)
def test_what_became_of_a_call_is_in_its_line(brings: Outcome | SwitchboardError, outcome: str) -> None:
    """An error of the app itself, or one on the way."""
    desk = Desk()
    desk.double.brings = brings
    if isinstance(brings, SwitchboardError):
        with pytest.raises(type(brings)):
            asyncio.run(desk.run(n=1))
    else:
        assert asyncio.run(desk.run(n=1)).failed

    assert desk.line() == ("allowed", outcome)


def test_a_call_that_is_cancelled_leaves_its_line() -> None:
    """It may have had an effect."""

    async def story() -> None:
        desk = Desk()
        desk.double.brings = None
        running = asyncio.create_task(desk.run(n=1))
        async with asyncio.timeout(30):
            while not desk.double.calls:  # noqa: ASYNC110 - the next turns of this very loop
                await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert desk.line() == ("allowed", "CANCELLED")

    asyncio.run(story())


def test_what_nobody_has_or_nobody_can_run_is_refused() -> None:
    """An unknown tool, with the nearest one; a binding without an executor."""
    desk = Desk()
    with pytest.raises(UnknownTool) as unknown:
        asyncio.run(desk.execute.run(CALLER, desk.shop, "bye", {}))
    bare: App = desk.shop.app
    nobody = Execute(consent=AllowRules({}), secrets=NoSecrets(), executors={}, audit=desk.record, clock=desk.clock)
    with pytest.raises(NotSupported):
        asyncio.run(nobody.run(CALLER, Found(app=bare, address="shop"), "buy", {"n": 1}))

    assert unknown.value.details["nearest"] == ["buy"]
    assert desk.line() == ("allowed", "NOT_IMPLEMENTED")


def test_the_same_arguments_have_the_same_hash_in_any_order() -> None:
    """So that a record can be searched without reading it."""
    desk = Desk()

    async def story() -> None:
        await desk.run(n=1, a="x", b="y")
        await desk.run(b="y", a="x", n=1)
        await desk.run(n=2, a="x", b="y")

    asyncio.run(story())
    first, second, third = (entry.arguments_hash for entry in desk.record.entries)
    assert first == second != third

"""Apps on a real bus of our own: started by it, refused by it, gone, and called by methods of their own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.executors.grounds import ROOT, SERVICE, lines, message_bus, on_the_bus, tool_call, until
from tests.support import requirement

from switchboard.actions.ports import Call, Outcome, Text
from switchboard.catalog.bindings import Dbus, Http, Output, Route
from switchboard.catalog.errors import (
    AuthDenied,
    CallTimeout,
    InvalidParams,
    NotSupported,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.executors.dbus import DbusExecutor

HABITS = Dbus(service=SERVICE)
DESCRIBED = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "integer"},
        "weight": {"type": "number"},
        "old": {"type": "boolean", "default": True},
    },
}


@asynccontextmanager
async def executing(environment: dict[str, str]) -> AsyncGenerator[DbusExecutor]:
    executor = DbusExecutor(environment)
    try:
        yield executor
    finally:
        await executor.close()


def method(
    member: str,
    arguments: dict[str, Any] | None = None,
    schema: dict[str, Any] | None = None,
    output: Output | None = None,
) -> Call:
    return tool_call(HABITS, "tool", arguments, route=Route(method=member, output=output), schema=schema)


async def _run(folder: Path, call: Call) -> Outcome:
    with message_bus() as (_, environment), on_the_bus(folder, environment):
        async with executing(environment) as executor:
            return await executor.run(call, None)


def run(folder: Path, call: Call) -> Outcome:
    """Call the app of the tests once."""
    return asyncio.run(_run(folder, call))


@requirement("errors:gateway:app-not-running")
def test_an_app_that_is_not_running_is_unavailable() -> None:
    """SERVICE_UNAVAILABLE, which a model can tell the user."""

    async def story() -> None:
        with message_bus() as (_, environment):
            async with executing(environment) as executor:
                with pytest.raises(ServiceUnavailable, match="is not running"):
                    await executor.run(tool_call(HABITS, "echo"), None)

    asyncio.run(story())


def test_the_bus_starts_an_app_with_a_service_file(tmp_path: Path) -> None:
    """Activation is the bus's own work; the call waits for it."""
    program = f"{sys.executable} -m tests.executors.bus_app {tmp_path}"

    async def story() -> None:
        with message_bus() as (folder, environment):
            launcher = tmp_path / "launcher"
            launcher.write_text(f"#!/bin/sh\ncd {ROOT} && exec {program}\n", encoding="utf-8")
            launcher.chmod(0o755)
            service = f"[D-BUS Service]\nName={SERVICE}\nExec={launcher}\n"
            (folder / f"{SERVICE}.service").write_text(service, encoding="utf-8")
            async with executing(environment) as executor:
                outcome = await executor.run(tool_call(HABITS, "echo", {"a": 1}), None)
                with pytest.raises(ServiceUnavailable):
                    await executor.run(tool_call(HABITS, "crash", call_id="call-2"), None)

        assert json.loads(outcome.data or b"") == {"a": 1}
        assert [line.split()[0] for line in lines(tmp_path / "taken")] == ["echo", "crash"]

    asyncio.run(story())


def test_a_service_file_that_leads_nowhere_is_unavailable() -> None:
    """The bus says that it could not start the app."""

    async def story() -> None:
        with message_bus() as (folder, environment):
            service = f"[D-BUS Service]\nName={SERVICE}\nExec=/no/such/program\n"
            (folder / f"{SERVICE}.service").write_text(service, encoding="utf-8")
            async with executing(environment) as executor:
                with pytest.raises(ServiceUnavailable, match="could not be started"):
                    await executor.run(tool_call(HABITS, "echo"), None)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, "no session bus here: DBUS_SESSION_BUS_ADDRESS is not set"),
        ({"XDG_RUNTIME_DIR": "/nonexistent"}, "dbus-run-session"),
        ({"DBUS_SESSION_BUS_ADDRESS": "unix:path=/no/such/bus"}, "cannot be reached: No such file"),
        ({"DBUS_SESSION_BUS_ADDRESS": "nonsense"}, "cannot be reached"),
        ({"DBUS_SESSION_BUS_ADDRESS": "autolaunch:"}, "cannot be reached"),
    ],
)
def test_no_bus_is_told_with_what_to_do(environment: dict[str, str], text: str) -> None:
    """Servers and containers have none."""

    async def story() -> None:
        async with executing(environment) as executor:
            with pytest.raises(ServiceUnavailable, match=text):
                await executor.run(tool_call(HABITS, "echo"), None)

    asyncio.run(story())


def test_the_bus_of_a_user_is_found_without_an_address(tmp_path: Path) -> None:
    """Its usual place is in the folder of the session; the system bus has a variable of its own."""

    async def story() -> None:
        with message_bus() as (folder, environment), on_the_bus(tmp_path, environment):
            address = environment["DBUS_SESSION_BUS_ADDRESS"]
            found = {"XDG_RUNTIME_DIR": str(folder), "DBUS_SYSTEM_BUS_ADDRESS": address}
            async with executing(found) as executor:
                for execution in (HABITS, Dbus(service=SERVICE, bus="system")):
                    outcome = await executor.run(tool_call(execution, "echo", {"a": 1}), None)

                    assert json.loads(outcome.data or b"") == {"a": 1}

    asyncio.run(story())


def test_an_app_that_goes_away_in_the_middle_is_told(tmp_path: Path) -> None:
    """The call is not sent again when the app is back."""

    async def story() -> None:
        with message_bus() as (_, environment):
            async with executing(environment) as executor:
                with on_the_bus(tmp_path, environment):
                    running = asyncio.ensure_future(executor.run(tool_call(HABITS, "hang"), None))
                    await until(lambda: len(lines(tmp_path / "taken")) == 1)
                with pytest.raises(ServiceUnavailable, match="Whether the call had an effect is not known"):
                    await running
                with on_the_bus(tmp_path, environment):
                    await executor.run(tool_call(HABITS, "echo"), None)

        assert [line.split()[0] for line in lines(tmp_path / "taken")] == ["hang", "echo"]

    asyncio.run(story())


def test_a_bus_that_went_away_is_connected_to_again(tmp_path: Path) -> None:
    """A session that was restarted has another bus; what was under way is not sent again."""

    async def story() -> None:
        changing: dict[str, str] = {}
        async with executing(changing) as executor:
            with message_bus() as (folder, old), on_the_bus(tmp_path, old):
                changing.update(old)
                hanging = asyncio.ensure_future(executor.run(tool_call(HABITS, "hang"), None))
                await until(lambda: len(lines(tmp_path / "taken")) == 1)
                os.kill(int((folder / "pid").read_text(encoding="utf-8")), signal.SIGKILL)
                with pytest.raises(ServiceUnavailable, match="connection to the bus was lost"):
                    await hanging
            with message_bus() as (_, new), on_the_bus(tmp_path, new):
                changing.update(new)
                outcome = await executor.run(tool_call(HABITS, "echo", {"a": 2}), None)

        assert json.loads(outcome.data or b"") == {"a": 2}
        assert [line.split()[0] for line in lines(tmp_path / "taken")] == ["hang", "echo"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (tool_call(Dbus(service=SERVICE, object_path="/else"), "echo"), NotSupported, "does not offer"),
        (tool_call(Dbus(service=SERVICE, interface="com.example.Else"), "echo"), NotSupported, "does not offer"),
        (tool_call(Dbus(service="not a name"), "echo"), NotSupported, "no bus takes"),
        (tool_call(Dbus(service=SERVICE, object_path="/a//b"), "echo"), NotSupported, "no bus takes"),
        (tool_call(Dbus(service=SERVICE, object_path="/forbidden"), "echo"), AuthDenied, "refuses the call"),
        (method("Missing"), NotSupported, "has no method Missing"),
        (method("bad-name"), NotSupported, "has no method bad-name"),
        (method("Count", {"a": 1}, {"properties": {"a": {}}}), NotSupported, "takes 0 arguments"),
        (tool_call(HABITS, "stranger"), ServiceUnavailable, "'somebody-else' instead of 'call-1'"),
        (tool_call(HABITS, "shape"), ServiceUnavailable, "neither"),
        (tool_call(HABITS, "echo", origin="http://evil.test"), NotSupported, "web site"),
        (tool_call(Http(base_url="https://x.test"), "echo"), NotSupported, "not on a bus"),
    ],
)
def test_what_cannot_be_called_is_told(tmp_path: Path, call: Call, error: type[SwitchboardError], text: str) -> None:
    """The descriptor and the app do not fit together."""
    with pytest.raises(error, match=text):
        run(tmp_path, call)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("org.freedesktop.DBus.Error.AccessDenied", AuthDenied),
        ("org.freedesktop.PolicyKit1.Error.NotAuthorized", AuthDenied),
        ("org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", AuthDenied),
        ("org.freedesktop.DBus.Error.NameHasNoOwner", ServiceUnavailable),
        ("org.freedesktop.DBus.Error.Timeout", CallTimeout),
        ("org.freedesktop.DBus.Error.InvalidArgs", InvalidParams),
    ],
)
def test_errors_of_the_bus_are_told_in_our_words(tmp_path: Path, name: str, error: type[SwitchboardError]) -> None:
    """They are known by their names."""
    with pytest.raises(error, match="the app says so"):
        run(tmp_path, method("Refuse", {"error": name}, {"properties": {"error": {"type": "string"}}}))


def test_an_error_with_a_name_of_the_apps_own_is_passed_on(tmp_path: Path) -> None:
    """It is the app that failed, in its own words."""
    outcome = run(
        tmp_path, method("Refuse", {"error": "com.example.Full"}, {"properties": {"error": {"type": "string"}}})
    )

    assert outcome.failed
    assert outcome.parts == (Text("com.example.Full: the app says so"),)


def test_a_method_of_its_own_gets_its_arguments_in_order(tmp_path: Path) -> None:
    """The first drafts: positions from the schema, types from the app; an optional one has its default."""
    arguments = {"weight": 2, "size": -3, "name": "$(x) 世界"}
    outcome = run(tmp_path, method("Describe", arguments, DESCRIBED))

    assert outcome.parts == (Text("$(x) 世界/-3/2.0/True"),)


@pytest.mark.parametrize(
    ("member", "output", "text"),
    [("Count", None, "7"), ("Count", "json", "7"), ("Nothing", None, "null")],
)
def test_what_a_method_returns_comes_back(tmp_path: Path, member: str, output: Output | None, text: str) -> None:
    """One value, or none."""
    assert run(tmp_path, method(member, None, {"properties": {}}, output)).parts == (Text(text),)


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        ({"size": 2**31}, "$.size: does not fit the D-Bus type i"),
        ({"size": True}, "$.size: does not fit the D-Bus type i"),
        ({"name": "a\0b"}, "$.name: does not fit the D-Bus type s"),
        ({"old": None}, "$.old: is missing"),
        ({"weight": "2"}, "$.weight: does not fit the D-Bus type d"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any], violation: str) -> None:
    """Before it is sent: a bus ends a connection for less."""
    arguments = {"name": "a", "size": 1, "weight": 2.5, "old": False, **change}
    with pytest.raises(InvalidParams) as caught:
        run(tmp_path, method("Describe", arguments, DESCRIBED))

    assert caught.value.details["violations"] == [violation]

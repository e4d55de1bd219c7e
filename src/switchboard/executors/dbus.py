"""Run a tool of an app on the session or system bus: `Execute(s) → s` with the envelope, or a method of its own.

The connection to a bus is made with the first call, kept, and made anew when it was lost; a call is never sent again.
The bus starts apps that have a service file. An app on the bus is not ours: a call that is given up is no longer waited
for, and what the app does with it is its own business.
"""

import os
from asyncio import Task, ensure_future, get_running_loop, shield, timeout, wait
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from switchboard.actions.ports import Call, Outcome, Secret
from switchboard.catalog.bindings import Bus, Dbus
from switchboard.catalog.errors import EFFECT_UNKNOWN, CallTimeout, NotSupported, ServiceUnavailable
from switchboard.catalog.text import clean
from switchboard.executors import envelope
from switchboard.executors.closing import Closing
from switchboard.executors.limits import seconds

if TYPE_CHECKING:
    from dbus_fast.aio import MessageBus

_EXECUTE = "Execute"
_SYSTEM_BUS = "unix:path=/var/run/dbus/system_bus_socket"
_GOODBYE_S = 1.0


@final
class DbusExecutor(Closing):
    """Calls apps on a bus. `close` leaves the buses."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._buses: dict[Bus, Task[MessageBus]] = {}

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Call the app once."""
        del secret  # made of headers and queries, which a bus has not
        execution, member = call.capability.binding.execution, call.capability.binding.route.method
        if not isinstance(execution, Dbus):
            raise NotSupported(f"{call.owner.id} is not on a bus. Its descriptor is wrong: tell its developer.")
        envelope.require_local(call)
        limit = seconds(call.capability.binding)
        try:
            async with timeout(limit):
                bus = await self._bus(execution.bus)
                if member is None or member == _EXECUTE:
                    return await _execute(bus, execution, call)
                return await _own_method(bus, execution, call, member)
        except TimeoutError as error:
            message = f"{call.owner.id} gave no answer within {limit:g} seconds."
            raise CallTimeout(f"{message} {EFFECT_UNKNOWN}", app=call.owner.id) from error

    async def close(self) -> None:
        """Leave every bus."""
        for connecting in self._buses.values():
            if not connecting.done():
                connecting.cancel()
            elif _is_connected(connecting):
                connecting.result().disconnect()
                await wait([ensure_future(connecting.result().wait_for_disconnect())], timeout=_GOODBYE_S)
        self._buses.clear()

    async def _bus(self, which: Bus) -> "MessageBus":
        """Return the connection to a bus, shared by every call that needs it."""
        connecting = self._buses.get(which)
        if connecting is None or (connecting.done() and not _is_connected(connecting)):
            connecting = self._buses[which] = get_running_loop().create_task(_connect(which, self._environment))
        return await shield(connecting)


def _is_connected(connecting: "Task[MessageBus]") -> bool:
    return not connecting.cancelled() and connecting.exception() is None and connecting.result().connected


async def _connect(which: Bus, environment: Mapping[str, str]) -> "MessageBus":
    try:
        from dbus_fast import DBusFastError  # noqa: PLC0415 - a twentieth of a second, with the first call
        from dbus_fast.aio import MessageBus  # noqa: PLC0415
    except ImportError as error:
        raise NotSupported("Apps on D-Bus cannot be called on this system. Use another app for this.") from error
    address = _address(which, environment)
    try:
        bus = await MessageBus(bus_address=address).connect()
    except (OSError, EOFError, DBusFastError) as error:
        why = clean((error.strerror if isinstance(error, OSError) else None) or str(error) or "it hangs up", 200)
        message = (
            f"The {which} bus at {clean(address, 200)} cannot be reached: {why}. "
            "Start the agent client from a desktop session."
        )
        raise ServiceUnavailable(message, bus=which) from error
    # That a connection was lost is noticed by the calls on it; without this, asyncio would complain that nobody asked.
    ensure_future(bus.wait_for_disconnect()).add_done_callback(_notice)
    return bus


def _notice(done: "Task[None]") -> None:
    if not done.cancelled():
        done.exception()


def _address(which: Bus, environment: Mapping[str, str]) -> str:
    if which == "system":
        return environment.get("DBUS_SYSTEM_BUS_ADDRESS") or _SYSTEM_BUS
    told = environment.get("DBUS_SESSION_BUS_ADDRESS")
    if told:
        return told
    socket = os.path.join(environment.get("XDG_RUNTIME_DIR") or "/nowhere", "bus")  # noqa: PTH118 - text in, text out
    if os.path.exists(socket):  # noqa: PTH110
        return f"unix:path={socket}"
    message = (
        "There is no session bus here: DBUS_SESSION_BUS_ADDRESS is not set. Start the agent client from a desktop "
        "session, or through `dbus-run-session`."
    )
    raise ServiceUnavailable(message, bus=which)


async def _execute(bus: "MessageBus", execution: Dbus, call: Call) -> Outcome:
    from switchboard.executors.dbus_calls import Line  # noqa: PLC0415 - imports dbus_fast

    reply = await Line(bus, execution, call).send(_EXECUTE, "s", [envelope.request(call).decode()])
    if isinstance(reply, Outcome):
        return reply
    if reply.signature != "s":
        message = (
            f"{call.owner.id} gave an answer that is not a text; its method {_EXECUTE} has to return one. "
            "Tell its developer."
        )
        raise ServiceUnavailable(message, app=call.owner.id)
    return envelope.answer(call, reply.body[0])


async def _own_method(bus: "MessageBus", execution: Dbus, call: Call, member: str) -> Outcome:
    from switchboard.executors.dbus_calls import Line, parameters, positional, result  # noqa: PLC0415

    line = Line(bus, execution, call)
    types = await parameters(line, member)
    reply = await line.send(member, "".join(types), positional(call, member, types))
    return reply if isinstance(reply, Outcome) else result(call, reply)

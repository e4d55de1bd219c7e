"""What is said on a bus: one message and its answer, errors in our words, and methods with arguments of their own.

Imports dbus_fast, so it is imported with the first call only.
"""

from contextlib import suppress
from typing import Any, cast, final

import msgspec
from dbus_fast import DBusFastError, Message, MessageType, unpack_variants
from dbus_fast.aio import MessageBus
from dbus_fast.introspection import Node

from switchboard.actions.ports import Call, Outcome, Text
from switchboard.catalog.bindings import Dbus
from switchboard.catalog.errors import (
    EFFECT_UNKNOWN,
    AuthDenied,
    CallTimeout,
    InvalidParams,
    NotSupported,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.catalog.text import clean
from switchboard.executors import envelope
from switchboard.executors.limits import LARGEST

_STANDARD = "org.freedesktop.DBus.Error."
_NOT_RUNNING = frozenset({"ServiceUnknown", "NameHasNoOwner", "NoServer", "LimitsExceeded"})
_REFUSED = frozenset({"AccessDenied", "AuthFailed", "InteractiveAuthorizationRequired"})
_WENT_AWAY = frozenset({"Disconnected", "NoReply"})
_TOO_LATE = frozenset({"Timeout", "TimedOut"})
_NOT_THERE = frozenset({"UnknownMethod", "UnknownObject", "UnknownInterface"})
_REFUSED_BY_POLICY = "org.freedesktop.PolicyKit1.Error.NotAuthorized"
_INTEGERS = {
    "y": (0, 2**8),
    "n": (-(2**15), 2**15),
    "q": (0, 2**16),
    "i": (-(2**31), 2**31),
    "u": (0, 2**32),
    "x": (-(2**63), 2**63),
    "t": (0, 2**64),
}


@final
class Line:
    """The way to the app of one call."""

    def __init__(self, bus: MessageBus, execution: Dbus, call: Call) -> None:
        self._bus = bus
        self.execution = execution
        self.call = call

    async def send(
        self, member: str, signature: str, body: list[Any], *, interface: str | None = None
    ) -> Message | Outcome:
        """Send one message and return what comes back; an error of the app's own is an outcome.

        Raises:
            SwitchboardError: it was not answered, or the bus says why it cannot be.
        """
        execution, app = self.execution, self.call.owner.id
        try:
            message = Message(
                destination=execution.service,
                path=execution.object_path,
                interface=interface or execution.interface,
                member=member,
                signature=signature,
                body=body,
            )
        except (DBusFastError, ValueError, TypeError) as error:
            why = (
                f"The descriptor of {app} has an address that no bus takes: {clean(str(error), 200)}. "
                "Tell its developer."
            )
            raise NotSupported(why, app=app) from error
        try:
            # Typed as if there always were one; a connection that is closed meanwhile brings nothing.
            reply = cast("Message | None", await self._bus.call(message))
        except (OSError, EOFError, DBusFastError) as error:
            raise _lost(app) from error
        if reply is None:
            raise _lost(app)
        if reply.message_type is not MessageType.ERROR:
            return reply
        said = reply.body[0] if reply.body and isinstance(reply.body[0], str) else ""
        return _from_error(self.call, execution, reply.error_name or "", said)


def _from_error(call: Call, execution: Dbus, name: str, said: str) -> Outcome:
    """Return an error of the app's own, and raise one of the bus."""
    app, short = call.owner.id, name.removeprefix(_STANDARD)
    text = f": {clean(said, 300)}" if said else ""
    error: SwitchboardError
    if name == _REFUSED_BY_POLICY or (name.startswith(_STANDARD) and short in _REFUSED):
        error = AuthDenied(
            f"The {execution.bus} bus or {app} refuses the call{text}. Ask the user to allow it there.",
            app=app,
            error=name,
        )
    elif not name.startswith(_STANDARD):
        return envelope.failure(name, said)
    elif short in _NOT_RUNNING or short.startswith("Spawn."):
        what = f"{app} is not running and could not be started ({clean(execution.service, 200)})"
        error = ServiceUnavailable(f"{what}{text}. Ask the user to start it.", app=app, error=name)
    elif short in _WENT_AWAY:
        what = f"{app} went away before it answered"
        error = ServiceUnavailable(f"{what}{text}. {EFFECT_UNKNOWN}", app=app, error=name)
    elif short in _TOO_LATE:
        error = CallTimeout(f"{app} gave no answer in time{text}. {EFFECT_UNKNOWN}", app=app, error=name)
    elif short in _NOT_THERE:
        error = NotSupported(
            f"{app} is running and does not offer what its descriptor says{text}. Tell its developer.",
            app=app,
            error=name,
        )
    elif short == "InvalidArgs":
        message = f"{app} does not take these arguments{text}. Correct them, and call again."
        error = InvalidParams(message, violations=[clean(said, 300)], schema=_schema(call))
    else:
        return envelope.failure(name, said)
    raise error


def _lost(app: str) -> ServiceUnavailable:
    message = f"The connection to the bus was lost before an answer came. {EFFECT_UNKNOWN}"
    return ServiceUnavailable(message, app=app)


async def parameters(line: Line, member: str) -> list[str]:
    """Return the types of a method's parameters, as the app itself describes them.

    Raises:
        NotSupported: it does not say, or has no such method.
    """
    execution, call = line.execution, line.call
    reply = await line.send("Introspect", "", [], interface="org.freedesktop.DBus.Introspectable")
    text = "" if isinstance(reply, Outcome) or reply.signature != "s" else cast("str", reply.body[0])
    try:
        node = Node.parse(text if len(text) <= LARGEST else "")
    except (DBusFastError, SyntaxError, ValueError) as error:  # errors of XML are syntax errors
        message = (
            f"{call.owner.id} does not say what its method {member} takes, so it cannot be called. Tell its developer."
        )
        raise NotSupported(message, app=call.owner.id) from error
    methods = [
        method
        for interface in node.interfaces
        if interface.name == execution.interface
        for method in interface.methods
        if method.name == member
    ]
    if not methods:
        message = (
            f"{call.owner.id} is running and has no method {member} at {clean(execution.interface, 200)}. "
            "Tell its developer."
        )
        raise NotSupported(message, app=call.owner.id)
    return [str(argument.signature) for argument in methods[0].in_args]


def positional(call: Call, member: str, types: list[str]) -> list[Any]:
    """Return the arguments in the order of the schema's properties, as the first drafts describe a method.

    Raises:
        NotSupported: the descriptor and the app do not fit together.
        InvalidParams: an argument does not fit its type.
    """
    properties = cast("dict[str, Any]", _schema(call).get("properties", {}))
    if len(properties) != len(types):
        message = (
            f"The method {member} of {call.owner.id} takes {len(types)} arguments, and its descriptor names "
            f"{len(properties)}, so it cannot be called. Tell its developer."
        )
        raise NotSupported(message, app=call.owner.id)
    return [_fitted(call, name, properties[name], type_) for name, type_ in zip(properties, types, strict=True)]


def _fitted(call: Call, name: str, described: object, type_: str) -> Any:
    """Return one argument as the method wants it: a bus knows no optional arguments and no other types."""
    default = cast("dict[str, Any]", described).get("default") if isinstance(described, dict) else None
    value = call.arguments.get(name, default)
    match type_:
        case "s":
            fits = isinstance(value, str) and "\0" not in value
        case "b":
            fits = isinstance(value, bool)
        case "d":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case _ if type_ in _INTEGERS:
            low, high = _INTEGERS[type_]
            fits = isinstance(value, int) and not isinstance(value, bool) and low <= value < high
        case _:
            message = (
                f"{call.owner.id} wants {name!r} in a form that cannot be sent: D-Bus type {clean(type_, 50)}. "
                "Tell its developer."
            )
            raise NotSupported(message, app=call.owner.id)
    if not fits:
        why = "is missing" if value is None else f"does not fit the D-Bus type {type_}"
        message = f"The argument {name!r} of {call.capability.id} {why}. Correct it, and call again."
        raise InvalidParams(message, violations=[f"$.{name}: {why}"], schema=_schema(call))
    return float(value) if type_ == "d" else value


def result(call: Call, reply: Message) -> Outcome:
    """Return what a method brought: its only value, or all of them."""
    values = cast("list[Any]", unpack_variants(reply.body))
    value: object = None if not values else values[0] if len(values) == 1 else values
    if isinstance(value, str) and len(value.encode()) <= LARGEST and call.capability.binding.route.output == "json":
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(value)
    outcome = envelope.from_value(value)
    if any(isinstance(part, Text) and len(part.text) > LARGEST for part in outcome.parts):
        raise envelope.too_large(call)
    return outcome


def _schema(call: Call) -> dict[str, Any]:
    return msgspec.json.decode(call.capability.input_schema or b"{}", type=dict[str, Any])

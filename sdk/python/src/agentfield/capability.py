"""A reasoner or a skill: a function, what the catalogue says of it, and how it is run."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from agentfield.docstrings import summary
from agentfield.signatures import Schema, Signature, body_of

Kind = Literal["reasoner", "skill"]
Function = Callable[..., Any]


class Described(msgspec.Struct, frozen=True):
    """What is said of a function besides its code."""

    name: str | None = None
    description: str | None = None
    tags: Sequence[str] = ()
    examples: Sequence[Mapping[str, Any]] = ()


class Capability(msgspec.Struct, frozen=True):
    """Something an agent can do."""

    kind: Kind
    id: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[Mapping[str, Any], ...]
    function: Function
    signature: Signature

    def entry(self) -> dict[str, Any]:
        """Return what is registered of it."""
        signature = self.signature
        schemas: dict[str, Schema | None] = {
            "input_schema": signature.input_schema,
            "output_schema": signature.output_schema,
        }
        return {
            "id": self.id,
            "description": self.description,
            "tags": list(self.tags),
            "examples": list(self.examples),
            **{name: schema for name, schema in schemas.items() if schema is not None},
        }

    async def run(self, given: Mapping[str, Any]) -> Any:
        """Run the function; one that is no coroutine gets a thread, so that it keeps nobody waiting."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**given)
        result = await in_thread(lambda: self.function(**given))
        # A decorator around a coroutine is often a plain function.
        return await result if inspect.isawaitable(result) else result


def capability_of(kind: Kind, function: Function, described: Described) -> Capability:
    """Make a capability of a function.

    Raises:
        TypeError: It has no name, yields in the place of returning, or has what cannot be said in JSON Schema.
    """
    body = body_of(function)
    name = described.name or getattr(function, "__name__", "<unnamed>")
    if name.startswith("<"):
        raise TypeError(f"A {kind} needs a name: app.{kind}(name=...).")
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise TypeError(f"{name} yields, and a {kind} has one result: return a list.")
    return Capability(
        kind,
        name,
        described.description or summary(inspect.getdoc(body) or ""),
        tuple(described.tags),
        tuple(described.examples),
        function,
        Signature(function),
    )


async def in_thread(work: Callable[[], Any]) -> Any:
    """Run work in a thread of its own, with the context of the caller.

    Not in a pool: work that calls its own agent needs a second thread while it holds the first, and a full pool would
    wait for itself.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def tell(settle: Callable[[Any], None], value: object) -> None:
        if not done.done():
            settle(value)

    def body() -> None:
        try:
            result, settle = context.run(work), done.set_result
        except BaseException as error:  # noqa: BLE001 - it is raised again where somebody awaits it
            result, settle = _carried(error), done.set_exception
        try:
            loop.call_soon_threadsafe(tell, settle, result)
        except RuntimeError:
            return  # the loop is gone, and with it everybody who could want to know

    threading.Thread(target=body, name="agentfield-work", daemon=True).start()
    return await done


def _carried(error: BaseException) -> BaseException:
    # A future refuses to carry StopIteration, and an exit inside a thread ends nothing.
    if isinstance(error, StopIteration | SystemExit | KeyboardInterrupt):
        return RuntimeError(f"{type(error).__name__} left the function")
    return error

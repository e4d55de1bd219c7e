"""Run a tool through a script of ours that a program of the operating system interprets.

The script is fixed; everything that somebody else wrote reaches it as data, on its standard input. It answers with one
JSON object: `{"reply": "…"}` is what the app answered, `{"error": number, "message": "…"}` what the system says.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import final

from msgspec import Struct

from switchboard.actions.ports import Call, Outcome
from switchboard.catalog.errors import (
    EFFECT_UNKNOWN,
    AuthDenied,
    CallTimeout,
    NotSupported,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.catalog.text import clean
from switchboard.executors import envelope
from switchboard.executors.limits import LARGEST, seconds
from switchboard.executors.processes import Children, Finished

# The reply stands inside a JSON text, where quotes and line ends take two characters and others up to six.
_LARGEST_OUTPUT = 6 * LARGEST

Numbers = Mapping[int, tuple[type[SwitchboardError], str]]


class Interpreter(Struct, frozen=True, kw_only=True):
    """A program that runs scripts, the system that has it, and what its error numbers mean."""

    program: str
    system: str
    options: tuple[str, ...]
    numbers: Numbers
    number_at_end: str | None = None
    """Where in its last complaint the number stands, as a regular expression."""


@final
class Script:
    """Asks apps through one interpreter."""

    def __init__(self, interpreter: Interpreter, environment: Mapping[str, str] = os.environ) -> None:
        self._interpreter = interpreter
        self._path = environment.get("PATH")
        self._children = Children(environment)

    async def ask(self, call: Call, arguments: Sequence[str], given: bytes) -> Outcome:
        """Run the script once and read what the app answers.

        Raises:
            NotSupported: this system has no such interpreter.
            SwitchboardError: what the system says, by its number.
        """
        envelope.require_local(call)
        command = (self._interpreter.program, *self._interpreter.options, *arguments)
        if sys.platform != self._interpreter.system:
            self._require_program(call)
        limit = seconds(call.capability.binding)
        try:
            finished = await self._children.run(command, given, seconds=limit, largest=_LARGEST_OUTPUT)
        except CallTimeout as error:
            message = f"{call.owner.id} gave no answer within {limit:g} seconds."
            raise CallTimeout(f"{message} {EFFECT_UNKNOWN}", app=call.owner.id) from error
        return self._outcome(call, finished)

    async def close(self) -> None:
        """End what is still running."""
        await self._children.close()

    def _require_program(self, call: Call) -> None:
        """Refuse what this system has no program for, unless somebody has brought one."""
        from shutil import which  # noqa: PLC0415 - brings compressors along, and is needed for an odd call

        if which(self._interpreter.program, path=self._path) is None:
            there = _SYSTEMS[self._interpreter.system]
            message = f"{call.owner.id} can only be called on {there}. Use another app for this."
            raise NotSupported(message, app=call.owner.id)

    def _outcome(self, call: Call, finished: Finished) -> Outcome:
        document = envelope.parse(finished.output) or {}
        reply, number, said = document.get("reply"), document.get("error"), document.get("message")
        if isinstance(reply, str):
            return envelope.answer(call, reply)
        if number is None and self._interpreter.number_at_end is not None:
            found = re.search(self._interpreter.number_at_end, finished.errors)
            number, said = (int(found[1]), finished.errors) if found else (None, None)
        if isinstance(number, int):
            kind, what = self._interpreter.numbers.get(number, (ServiceUnavailable, "did not take the call"))
            why = clean(said, 300) if isinstance(said, str) else ""
            message = f"{call.owner.id} {what} (error {number}{': ' + why if why else ''}). {_ADVICE[kind]}"
            raise kind(message, app=call.owner.id, number=number)
        program = self._interpreter.program
        message = f"{call.owner.id} could not be called: {program} {finished.fate}, before it answered."
        raise ServiceUnavailable(f"{message} {EFFECT_UNKNOWN}", app=call.owner.id)


_ADVICE: dict[type[SwitchboardError], str] = {
    AuthDenied: "Ask the user to allow it, then call again.",
    CallTimeout: EFFECT_UNKNOWN,
    NotSupported: "Tell its developer.",
    ServiceUnavailable: "Ask the user to look at the app, then call again.",
}
_SYSTEMS = {"darwin": "macOS", "win32": "Windows"}

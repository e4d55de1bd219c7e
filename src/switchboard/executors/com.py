"""Run a tool of a Windows application: `Execute(json)` of its COM class, called by PowerShell.

The script is fixed. The name of the class and the envelope are lines on standard input, so that neither is ever part of
a script or of a command line.
"""

import os
import re
from collections.abc import Mapping
from typing import final

from switchboard.actions.ports import Call, Outcome, Secret
from switchboard.catalog.bindings import Com
from switchboard.catalog.errors import AuthDenied, NotSupported, ServiceUnavailable
from switchboard.catalog.text import clean
from switchboard.executors import envelope
from switchboard.executors.closing import Closing
from switchboard.executors.scripts import Interpreter, Numbers, Script

# Without double quotes, which would have to be escaped on the way. Both streams are opened by hand, because the console
# has a code page. An error of COM is the innermost exception, and says what it is by its number.
_SCRIPT = """
$ErrorActionPreference = 'Stop'
$utf8 = New-Object System.Text.UTF8Encoding($false)
$reader = New-Object System.IO.StreamReader([Console]::OpenStandardInput(), $utf8)
try {
  $progId = $reader.ReadLine()
  $request = $reader.ReadToEnd()
  $app = [Activator]::CreateInstance([Type]::GetTypeFromProgID($progId, $true))
  $said = @{ reply = [string]$app.Execute($request) }
} catch {
  $problem = $_.Exception
  while ($problem.InnerException) { $problem = $problem.InnerException }
  $said = @{ error = [int]$problem.HResult; message = [string]$problem.Message }
}
$bytes = $utf8.GetBytes((ConvertTo-Json -Compress -InputObject $said))
$output = [Console]::OpenStandardOutput()
$output.Write($bytes, 0, $bytes.Length)
$output.Flush()
"""


def _signed(number: int) -> int:
    """Return an HRESULT as .NET has it."""
    return number - 2**32 if number >= 2**31 else number


_NOT_THERE = (ServiceUnavailable, "is not installed, or its COM class is not registered")
_NOT_RUNNING = (ServiceUnavailable, "is not running, or went away")
_REFUSED = (AuthDenied, "refuses the call: access is denied")
_NUMBERS: Numbers = {
    _signed(number): meaning
    for number, meaning in {
        0x80040154: _NOT_THERE,  # REGDB_E_CLASSNOTREG
        0x800401F3: _NOT_THERE,  # CO_E_CLASSSTRING
        0x80080005: _NOT_RUNNING,  # CO_E_SERVER_EXEC_FAILURE
        0x800401E3: _NOT_RUNNING,  # MK_E_UNAVAILABLE
        0x800706BA: _NOT_RUNNING,  # RPC_S_SERVER_UNAVAILABLE
        0x800706BE: _NOT_RUNNING,  # RPC_S_CALL_FAILED
        0x80010108: _NOT_RUNNING,  # RPC_E_DISCONNECTED
        0x8001010A: (ServiceUnavailable, "is busy"),  # RPC_E_SERVERCALL_RETRYLATER
        0x80070005: _REFUSED,  # E_ACCESSDENIED
        0x800702E4: (AuthDenied, "wants to be called by an administrator"),  # ERROR_ELEVATION_REQUIRED
        0x80020003: (NotSupported, "has no method Execute"),  # DISP_E_MEMBERNOTFOUND
        0x80020006: (NotSupported, "has no method Execute"),  # DISP_E_UNKNOWNNAME
        0x80131501: (NotSupported, "has no method Execute"),  # PowerShell's own MethodNotFound
    }.items()
}
_PROG_ID = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,254}")


@final
class ComExecutor(Closing):
    """Calls COM classes. `close` ends what is still being called."""

    def __init__(self, environment: Mapping[str, str] = os.environ, *, program: str = "powershell") -> None:
        options = ("-NoLogo", "-NoProfile", "-NonInteractive", "-Command", _SCRIPT)
        interpreter = Interpreter(program=program, system="win32", options=options, numbers=_NUMBERS)
        self._script = Script(interpreter, environment)

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Call the class of this app."""
        del secret  # made of headers and queries, which a class has not
        execution = call.capability.binding.execution
        if not isinstance(execution, Com):
            raise NotSupported(
                f"{call.owner.id} is no Windows application. Its descriptor is wrong: tell its developer."
            )
        if not _PROG_ID.fullmatch(execution.prog_id):
            shown = clean(execution.prog_id, 200)
            message = (
                f"The descriptor of {call.owner.id} names a COM class that cannot be one: {shown!r}. "
                "Tell its developer."
            )
            raise NotSupported(message, app=call.owner.id)
        given = execution.prog_id.encode() + b"\n" + envelope.request(call)
        return await self._script.ask(call, (), given)

    async def close(self) -> None:
        """End what is still being called."""
        await self._script.close()

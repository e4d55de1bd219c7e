"""Run a tool of a macOS application: one Apple Event with the envelope as its direct object, sent by `osascript`.

The script is fixed. Where the event goes is checked and passed as arguments, and the envelope on standard input: an
argument would be shown to every user of the machine, and cut off at some length. macOS itself asks the user once
whether we may control the application.
"""

import os
import re
from collections.abc import Mapping
from typing import final

from switchboard.actions.ports import Call, Outcome, Secret
from switchboard.catalog.bindings import AppleEvents
from switchboard.catalog.errors import AuthDenied, CallTimeout, NotSupported, ServiceUnavailable
from switchboard.catalog.text import clean
from switchboard.executors import envelope
from switchboard.executors.closing import Closing
from switchboard.executors.limits import seconds
from switchboard.executors.scripts import Interpreter, Numbers, Script

# `----` is the direct object, `errn` and `errs` an error of the app; 0x23 waits for the reply, and lets macOS ask.
_SCRIPT = """
ObjC.import('Foundation');
function code(text) {
  return text.split('').reduce(function (sum, char) { return sum * 256 + char.charCodeAt(0); }, 0);
}
function run(argv) {
  const input = $.NSFileHandle.fileHandleWithStandardInput.readDataToEndOfFile;
  const text = $.NSString.alloc.initWithDataEncoding(input, $.NSUTF8StringEncoding);
  const target = $.NSAppleEventDescriptor.descriptorWithBundleIdentifier($(argv[0]));
  const event = $.NSAppleEventDescriptor
    .appleEventWithEventClassEventIDTargetDescriptorReturnIDTransactionID(code(argv[1]), code(argv[2]), target, -1, 0);
  event.setParamDescriptorForKeyword($.NSAppleEventDescriptor.descriptorWithString(text), code('----'));
  const problem = Ref();
  const reply = event.sendEventWithOptionsTimeoutError(0x23, Number(argv[3]), problem);
  if (reply.isNil()) {
    return JSON.stringify({error: Number(problem[0].code), message: ObjC.unwrap(problem[0].localizedDescription)});
  }
  const number = reply.paramDescriptorForKeyword(code('errn'));
  if (!number.isNil() && number.int32Value !== 0) {
    const said = reply.paramDescriptorForKeyword(code('errs'));
    return JSON.stringify({error: number.int32Value, message: said.isNil() ? '' : ObjC.unwrap(said.stringValue)});
  }
  const result = reply.paramDescriptorForKeyword(code('----'));
  return JSON.stringify({reply: result.isNil() ? '' : ObjC.unwrap(result.stringValue)});
}
"""
_NOT_RUNNING = (ServiceUnavailable, "is not running, or cannot be started")
_NUMBERS: Numbers = {
    -600: _NOT_RUNNING,
    -609: _NOT_RUNNING,
    -10810: _NOT_RUNNING,
    -10814: (ServiceUnavailable, "is not installed"),
    -1728: (ServiceUnavailable, "is not installed"),
    -1712: (CallTimeout, "gave no answer in time"),
    -1743: (AuthDenied, "may not be controlled; allow it in System Settings, Privacy & Security, Automation"),
    -1744: (AuthDenied, "may not be controlled before the user has allowed it"),
    -128: (AuthDenied, "was not called: the user cancelled"),
    -1708: (NotSupported, "does not know this event"),
}
# How osascript ends its complaint when the script itself could not run.
_NUMBER_AT_END = r"\((-\d{1,6})\)$"
_BUNDLE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_EVENT_CODE = re.compile(r"[\x20-\x7e]{4}")


@final
class AppleEventsExecutor(Closing):
    """Sends Apple Events. `close` ends what is still being sent."""

    def __init__(self, environment: Mapping[str, str] = os.environ, *, program: str = "osascript") -> None:
        options = ("-l", "JavaScript", "-e", _SCRIPT)
        interpreter = Interpreter(
            program=program, system="darwin", options=options, numbers=_NUMBERS, number_at_end=_NUMBER_AT_END
        )
        self._script = Script(interpreter, environment)

    async def run(self, call: Call, secret: Secret | None) -> Outcome:
        """Send the event of this app."""
        del secret  # made of headers and queries, which an event has not
        execution = call.capability.binding.execution
        if not isinstance(execution, AppleEvents):
            raise NotSupported(f"{call.owner.id} is no macOS application. Its descriptor is wrong: tell its developer.")
        codes = (execution.event_class, execution.event_id)
        if not _BUNDLE_ID.fullmatch(execution.bundle_id) or not all(map(_EVENT_CODE.fullmatch, codes)):
            shown = clean(" ".join((execution.bundle_id, *codes)), 200)
            message = (
                f"The descriptor of {call.owner.id} has an address that no Apple Event can be sent to: {shown!r}. "
                "Tell its developer."
            )
            raise NotSupported(message, app=call.owner.id)
        limit = f"{seconds(call.capability.binding):g}"
        return await self._script.ask(call, (execution.bundle_id, *codes, limit), envelope.request(call))

    async def close(self) -> None:
        """End what is still being sent."""
        await self._script.close()

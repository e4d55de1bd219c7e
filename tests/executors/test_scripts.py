"""Apple Events and COM up to the border of the operating system: what its programs are given, and what they may say.

A real program of the right name stands on the PATH, notes what it gets and answers; macOS and Windows are not here.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.executors.grounds import lines, stand_in, tool_call
from tests.support import requirement

from switchboard.actions.ports import Outcome, Secret
from switchboard.catalog.bindings import AppleEvents, Com, Stdio
from switchboard.catalog.errors import (
    AuthDenied,
    CallTimeout,
    NotSupported,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.executors.apple_events import AppleEventsExecutor
from switchboard.executors.com import ComExecutor

HOSTILE = (
    '" & (do shell script "id") & "',
    "'; Remove-Item -Recurse C:\\ #",
    '"; Remove-Item x; "',
    "$(calc.exe)",
    "`$env:SECRET`",
    "\u00abevent aevtquit\u00bb",
    "line\r\nline\n-e\n--",
    "\u2028\u0000\ud7ff",
)
MAIL = AppleEvents(bundle_id="com.apple.mail")
EXCEL = Com(prog_id="Excel.Application.16")
Make = Callable[[dict[str, str]], AppleEventsExecutor | ComExecutor]


def run(make: Make, environment: dict[str, str], execution: AppleEvents | Com, *texts: str) -> Outcome:
    async def story() -> Outcome:
        executor = make(environment)
        try:
            call = tool_call(execution, "echo", {"texts": list(texts)})
            return await executor.run(call, Secret(headers=(("Authorization", "Bearer swordfish"),)))
        finally:
            await executor.close()

    return asyncio.run(story())


def recorded(folder: Path) -> dict[str, Any]:
    (line,) = lines(folder / "calls")
    return json.loads(line)


@requirement("exec:order:desktop")
def test_an_apple_event_gets_hostile_texts_as_data(tmp_path: Path) -> None:
    """The script is the same for every call, the address stands in arguments, the rest on standard input."""
    environment = stand_in(tmp_path, "osascript", "osascript")
    harmless, hostile = tmp_path / "harmless", tmp_path / "hostile"
    seen: list[dict[str, Any]] = []
    for folder, texts in ((harmless, ("hello",)), (hostile, HOSTILE)):
        folder.mkdir()
        environment = stand_in(folder, "osascript", "osascript")
        outcome = run(AppleEventsExecutor, environment, MAIL, *texts)
        assert json.loads(outcome.data or b"") == {"texts": list(texts)}
        seen.append(recorded(folder))

    assert seen[0]["argv"] == seen[1]["argv"]
    assert seen[0]["argv"][:3] == ["-l", "JavaScript", "-e"]
    assert seen[0]["argv"][4:] == ["com.apple.mail", "AAI ", "call", "30"]
    assert json.loads(seen[1]["stdin"])["params"] == {"texts": list(HOSTILE)}


@requirement("exec:order:desktop")
def test_a_com_class_gets_hostile_texts_as_data(tmp_path: Path) -> None:
    """Even its name is a line of the input; the command line is the same for every app."""
    seen: list[dict[str, Any]] = []
    for name, execution, texts in (("a", Com(prog_id="Other.App"), ("hello",)), ("b", EXCEL, HOSTILE)):
        folder = tmp_path / name
        folder.mkdir()
        outcome = run(ComExecutor, stand_in(folder, "powershell", "powershell"), execution, *texts)
        assert json.loads(outcome.data or b"") == {"texts": list(texts)}
        seen.append(recorded(folder))

    assert seen[0]["argv"] == seen[1]["argv"]
    assert seen[0]["argv"][:4] == ["-NoLogo", "-NoProfile", "-NonInteractive", "-Command"]
    assert '"' not in seen[0]["argv"][4]
    name, _, request = seen[1]["stdin"].partition("\n")
    assert name == "Excel.Application.16"
    assert json.loads(request)["params"] == {"texts": list(HOSTILE)}


@pytest.mark.parametrize(
    ("make", "program", "execution"),
    [(AppleEventsExecutor, "osascript", MAIL), (ComExecutor, "powershell", EXCEL)],
)
def test_these_programs_get_none_of_our_secrets(
    tmp_path: Path, make: Make, program: str, execution: AppleEvents | Com
) -> None:
    """Neither of our environment, nor what opens a web app."""
    run(make, stand_in(tmp_path, program, program), execution, "x")

    seen = recorded(tmp_path)
    assert "SECRET_OF_SOMEBODY" not in seen["environment"]
    assert "swordfish" not in json.dumps(seen)


APPLE = (AppleEventsExecutor, "osascript", MAIL)
COM = (ComExecutor, "powershell", EXCEL)


@requirement("errors:gateway:app-not-running")
@pytest.mark.parametrize(
    ("way", "number", "error"),
    [
        (APPLE, -600, ServiceUnavailable),
        (APPLE, -609, ServiceUnavailable),
        (APPLE, -10814, ServiceUnavailable),
        (APPLE, -1743, AuthDenied),
        (APPLE, -1744, AuthDenied),
        (APPLE, -1712, CallTimeout),
        (APPLE, -1708, NotSupported),
        (APPLE, -42, ServiceUnavailable),
        (COM, 0x80040154, ServiceUnavailable),
        (COM, 0x800401F3, ServiceUnavailable),
        (COM, 0x800706BA, ServiceUnavailable),
        (COM, 0x80070005, AuthDenied),
        (COM, 0x800702E4, AuthDenied),
        (COM, 0x80020006, NotSupported),
        (COM, 0x8000FFFF, ServiceUnavailable),
    ],
)
def test_what_the_system_says_is_known_by_its_number(
    tmp_path: Path, way: tuple[Make, str, AppleEvents | Com], number: int, error: type[SwitchboardError]
) -> None:
    """Never by its text, which is in the language of the user."""
    make, program, execution = way
    signed = number - 2**32 if number > 0 else number
    said = json.dumps({"error": signed, "message": "Zugriff\u202e\n verweigert"})
    (tmp_path / "says").write_text(json.dumps([said, "", 0]), encoding="utf-8")

    with pytest.raises(error) as caught:
        run(make, stand_in(tmp_path, program, "failing"), execution, "x")
    assert type(caught.value) is error
    assert caught.value.details["number"] == signed
    assert "Zugriff verweigert" in caught.value.message


@pytest.mark.parametrize(
    ("way", "output", "errors", "code", "error", "text"),
    [
        (APPLE, "", "0:12: execution error: No. (-1743)\n", 1, AuthDenied, "System Settings"),
        (
            APPLE,
            "",
            "osascript: bad\x1b[31m weather\n",
            1,
            ServiceUnavailable,
            "exit code 1, saying: osascript: bad[31m",
        ),
        (APPLE, "", "", 0, ServiceUnavailable, "exit code 0"),
        (COM, "Windows PowerShell\nhello", "", 0, ServiceUnavailable, "exit code 0"),
        (COM, "", "blocked by your administrator", 5, ServiceUnavailable, "exit code 5, saying: blocked"),
        (COM, '{"reply": 7}', "", 0, ServiceUnavailable, "could not be called"),
        (COM, '{"reply": "hello"}', "", 0, ServiceUnavailable, "not a JSON object but 'hello'"),
    ],
)
def test_a_program_that_fails_itself_is_told(  # noqa: PLR0913, PLR0917 - a table
    tmp_path: Path,
    way: tuple[Make, str, AppleEvents | Com],
    output: str,
    errors: str,
    code: int,
    error: type[SwitchboardError],
    text: str,
) -> None:
    """Its exit code and last complaint, in a form that is safe to show."""
    make, program, execution = way
    (tmp_path / "says").write_text(json.dumps([output, errors, code]), encoding="utf-8")

    with pytest.raises(error) as caught:
        run(make, stand_in(tmp_path, program, "failing"), execution, "x")
    assert text in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("way", "execution"),
    [
        (APPLE, AppleEvents(bundle_id="-e")),
        (APPLE, AppleEvents(bundle_id='x" to quit')),
        (APPLE, AppleEvents(bundle_id="com.apple.mail", event_class="AAI")),
        (APPLE, AppleEvents(bundle_id="com.apple.mail", event_id="ca\u00bbl")),
        (APPLE, AppleEvents(bundle_id="com.apple.mail", event_id="a\nbc")),
        (COM, Com(prog_id="")),
        (COM, Com(prog_id="Excel.Application\nRemove-Item")),
        (COM, Com(prog_id="\\\\server\\share")),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_runs(
    tmp_path: Path, way: tuple[Make, str, AppleEvents | Com], execution: AppleEvents | Com
) -> None:
    """The descriptor is somebody else's text, too."""
    make, program, _ = way
    with pytest.raises(NotSupported, match="The descriptor of"):
        run(make, stand_in(tmp_path, program, program), execution, "x")

    assert lines(tmp_path / "calls") == []


@pytest.mark.parametrize(("way", "system"), [(APPLE, "macOS"), (COM, "Windows")])
def test_on_another_system_it_says_where_it_would_work(
    tmp_path: Path, way: tuple[Make, str, AppleEvents | Com], system: str
) -> None:
    """NOT_IMPLEMENTED, and no program is started."""
    make, _, execution = way
    with pytest.raises(NotSupported, match=f"can only be called on {system}"):
        run(make, {"PATH": str(tmp_path)}, execution, "x")


@pytest.mark.parametrize("way", [APPLE, COM])
def test_a_web_site_cannot_have_an_app_called(tmp_path: Path, way: tuple[Make, str, AppleEvents | Com]) -> None:
    """Whatever a descriptor from the web says, nothing is started for it; nor for another kind of execution."""
    make, program, execution = way

    async def story() -> None:
        executor = make(stand_in(tmp_path, program, program))
        with pytest.raises(NotSupported, match="web site"):
            await executor.run(tool_call(execution, "echo", origin="https://evil.test"), None)
        with pytest.raises(NotSupported):
            await executor.run(tool_call(Stdio(command="x"), "echo"), None)

    asyncio.run(story())
    assert lines(tmp_path / "calls") == []

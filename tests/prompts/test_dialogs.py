"""Windows of the operating system: real ones of zenity on a screen of our own, the others up to the system's border.

kdialog, osascript and PowerShell are programs of the right name that note what they get and answer as the real ones do.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Any

import msgspec
import pytest
from tests.processes import command_lines
from tests.prompts.displays import PATIENCE_S, Display, display, eventually, require_programs

from switchboard.prompts.dialogs import Dialogs, System
from switchboard.prompts.forms import Choice, Field, Form, Line, Reply, Shown

CONSENT = Form(
    title="AAI Gateway asks for permission",
    question="May Claude Desktop use a tool of Reminders?",
    lines=(
        Line("App", "Reminders"),
        Line("Tool", "create_reminder"),
        Line("The app says", "Creates a reminder “with” a title", theirs=True),
    ),
    warnings=("This tool changes data.",),
    choices=(
        Choice(id="deny", label="Deny"),
        Choice(id="once", label="Allow once"),
        Choice(id="tool", label="Allow create_reminder"),
        Choice(id="all", label="Allow all tools"),
    ),
)
CHINESE = Form(
    title="AAI Gateway 请求权限",
    question="允许 Claude Desktop 使用提醒事项吗？",
    lines=(Line("应用", "提醒事项"), Line("应用的说明", "创建「提醒」。" * 12, theirs=True)),
    warnings=("此操作会更改数据。",),
    choices=(Choice(id="deny", label="拒绝"), Choice(id="tool", label="授权此操作")),
    language="zh",
)
SIGN_IN = Form(
    title="AAI Gateway: sign in",
    question="Notion needs a name and a key.",
    lines=(Line("Domain", "api.notion.so"),),
    fields=(Field(name="user", label="User_name", secret=False), Field(name="key", label="API key")),
    choices=(
        Choice(id="cancel", label="Cancel"),
        Choice(id="help", label="Help_me"),
        Choice(id="ok", label="Sign_in", needs_fields=True),
    ),
)
IDS = [choice.id for choice in CONSENT.choices]
HARMLESS = ("hello",)


def hostile(folder: Path) -> tuple[str, ...]:
    """Texts that would make a file in `folder` if anybody took them for more than texts."""
    touch = f"touch {folder}/owned"
    return (
        f"$({touch})",
        f"`{touch}`",
        f"'; {touch} #",
        f'" & (do shell script "{touch}") & "',
        f"'); New-Item {folder}/owned; ('",
        "--help",
        "-e",
        "<b>bold</b> <img src=x> &amp; &lt; </span>",
        "<html><a href='file:///'>click</a>",
        "%s %n {0} {kind} \\n \\t \\x41 C:\\new\\table \\",
        "_File __x & &Open",
        "the end”\nApp: Trusted “of 「it」",
        "\u202egnp.exe\u2066 \u200b\x1b[31m\x07\r\n\u2028x",
    )


def asking(*texts: str) -> Form:
    """Build a form that has each of these texts everywhere."""
    return Form(
        title=" ".join(texts)[:150],
        question=texts[-1],
        lines=tuple(Line(text, text, theirs=True) for text in texts),
        warnings=texts[:2],
        choices=(Choice(id="deny", label=texts[0]), Choice(id="tool", label=texts[-2] if len(texts) > 1 else "Allow")),
    )


def run(story: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * PATIENCE_S):
            await story

    asyncio.run(limited())


@asynccontextmanager
async def dialogs(
    environment: dict[str, str], system: System = "linux", *, too_soon_s: float = 0
) -> AsyncGenerator[Dialogs]:
    prompt = Dialogs(system, environment, too_soon_s=too_soon_s)
    try:
        yield prompt
    finally:
        await prompt.close()


@pytest.fixture(scope="module")
def screen() -> Generator[Display]:
    with display(height=768) as screen:
        yield screen


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Generator[None]:
    yield
    if "screen" in request.fixturenames:
        assert request.getfixturevalue("screen").programs() == []


async def opened(prompt: Dialogs, form: Form) -> Shown:
    shown = await prompt.show(form)
    assert shown is not None
    return shown


async def reply_of(shown: Shown) -> Reply | None:
    return await asyncio.wait_for(shown.reply, PATIENCE_S)


# A real window


@pytest.mark.parametrize("number", range(4))
def test_every_choice_can_be_made_with_the_keyboard(screen: Display, number: int) -> None:
    """The first has the focus, and the next ones follow."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, CONSENT)
            await screen.parts(has="Deny")
            await screen.keys(await screen.window("AAI Gateway"), *["Tab"] * number, "Return")

            assert await reply_of(shown) == Reply(IDS[number])

    run(story())


@pytest.mark.parametrize("number", range(4))
def test_every_choice_is_one_click(screen: Display, number: int) -> None:
    """A click on its button."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, CONSENT)
            await screen.click(await screen.button(CONSENT.choices[number].label))

            assert await reply_of(shown) == Reply(IDS[number])

    run(story())


@pytest.mark.parametrize("way", ["Escape", "cross"])
@pytest.mark.parametrize("form", [CONSENT, SIGN_IN])
def test_a_window_that_is_closed_is_no_denial(screen: Display, way: str, form: Form) -> None:
    """Nothing was chosen, and that is what the reply says."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, form)
            window = await screen.window()
            await (screen.keys(window, "Escape") if way == "Escape" else screen.dismiss(window))

            assert await reply_of(shown) is None

    run(story())


def test_everything_in_a_form_is_shown(screen: Display) -> None:
    """Title, question, facts, the app's words in quotation marks, warnings and buttons in order."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            await opened(prompt, CONSENT)
            parts = await screen.parts(has="Allow all tools")

        label = next(part.text for part in parts if part.role == "label")
        assert parts[0].text == CONSENT.title
        assert label.rstrip().splitlines() == [
            "May Claude Desktop use a tool of Reminders?",
            "",
            "App: Reminders",
            "Tool: create_reminder",
            "The app says: “Creates a reminder \u2018with\u2019 a title”",
            "",
            "⚠ This tool changes data.",
        ]
        assert [part.text for part in parts if part.role == "push button"] == [each.label for each in CONSENT.choices]

    run(story())


@pytest.mark.parametrize("locale", [{}, {"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LANG": "zh_CN.UTF-8"}])
def test_chinese_is_shown_whatever_the_locale(screen: Display, locale: dict[str, str]) -> None:
    """Zenity refuses every letter beyond ASCII where the locale is not there; then it gets another one."""

    async def story() -> None:
        async with dialogs({**screen.environment, **locale}) as prompt:
            shown = await opened(prompt, CHINESE)
            parts = await screen.parts("请求权限", has="授权此操作")
            await screen.click(await screen.button("授权此操作"))

            assert await reply_of(shown) == Reply("tool")
        label = next(part.text for part in parts if part.role == "label")
        assert "应用的说明: 「创建『提醒』。" in label
        assert "⚠ 此操作会更改数据。" in label

    run(story())


def test_enter_right_after_opening_allows_nothing(screen: Display) -> None:
    """It presses the first choice, the careful one."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, CONSENT)
            await screen.keys(await screen.window(), "Return")

            assert await reply_of(shown) == Reply("deny")

    run(story())


def test_what_is_pressed_before_anybody_can_have_read_it_does_not_count(screen: Display) -> None:
    """The person was typing elsewhere: the window is there again, and asks again."""

    async def story() -> None:
        async with dialogs(screen.environment, too_soon_s=10 * PATIENCE_S) as prompt:
            shown = await opened(prompt, CONSENT)
            first = screen.programs()
            await screen.keys(await screen.window(), "Tab", "Return")

            async def again() -> bool:
                return bool(screen.programs()) and screen.programs() != first

            await eventually(again)
            assert not shown.reply.done()
            await screen.dismiss(await screen.window())
            assert await reply_of(shown) is None

    run(story())


def test_a_program_that_answers_at_once_every_time_is_not_started_for_ever(tmp_path: Path) -> None:
    """It is broken: nobody sees a window, and nobody has chosen anything."""
    program, started = tmp_path / "zenity", tmp_path / "started"
    program.write_text(f"#!/bin/sh\necho again >> {started}\necho 'Allow all operations'\nexit 113\n", encoding="utf-8")
    program.chmod(0o700)

    async def story() -> None:
        around = {"DISPLAY": ":1", "PATH": f"{tmp_path}:/usr/bin:/bin"}
        async with dialogs(around, too_soon_s=10 * PATIENCE_S) as prompt:
            shown = await prompt.show(CONSENT)
            assert shown is None or await reply_of(shown) is None

            assert len(started.read_text(encoding="utf-8").splitlines()) == 10

    run(story())


def test_a_reply_that_is_cancelled_takes_its_window_away(screen: Display) -> None:
    """Nothing is left on the screen, nor in the process list; another window stays."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown, other = await asyncio.gather(opened(prompt, CONSENT), opened(prompt, CHINESE))
            await screen.window("asks for permission")
            window = await screen.window("请求权限")
            shown.reply.cancel()

            async def one_left() -> bool:
                return await screen.windows() == [window] and len(screen.programs()) == 1

            await eventually(one_left)
            await screen.dismiss(window)
            assert await reply_of(other) is None

    run(story())


def test_closing_takes_everything_away(screen: Display) -> None:
    """Also a window that is only about to open; nobody waits forever for a reply."""

    async def story() -> None:
        prompt = Dialogs("linux", screen.environment)
        shown = await opened(prompt, CONSENT)
        opening = asyncio.create_task(prompt.show(SIGN_IN))
        await screen.window("sign in")
        await prompt.close()

        assert screen.programs() == []
        assert await reply_of(shown) is None
        late = await opening
        assert late is None or await reply_of(late) is None

    run(story())


def test_a_question_that_is_taken_back_while_it_opens_is_not_shown(screen: Display) -> None:
    """Whoever waits for it may be cancelled."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            opening = asyncio.create_task(prompt.show(CONSENT))
            await screen.window()
            opening.cancel()

            await screen.no_programs()

    run(story())


def test_a_program_that_breaks_has_no_reply(screen: Display) -> None:
    """As if the window had been closed."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, CONSENT)
            await screen.window()
            for program in screen.programs():
                os.kill(program, SIGKILL)

            assert await reply_of(shown) is None

    run(story())


def test_fields_come_back_and_secrets_stand_on_no_command_line(screen: Display) -> None:
    """One window after the other; what is empty is asked for again, and what is secret is not shown."""
    secret = "hunter2 |\\n_&<%"  # noqa: S105 - of the test
    seen: list[bytes] = []

    async def watch() -> None:
        while True:
            seen.extend(await asyncio.to_thread(command_lines))
            await asyncio.sleep(0.005)

    async def story() -> None:
        watching = asyncio.create_task(watch())
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, SIGN_IN)
            await screen.parts(has="User_name")
            await screen.type(await screen.window(), "ann")
            await screen.keys(await screen.window(), "Return")
            await screen.parts(has="API key")
            first = screen.programs()
            await screen.keys(await screen.window(), "Return")

            async def again() -> bool:
                return bool(screen.programs()) and screen.programs() != first

            await eventually(again)
            await screen.parts(has="API key")
            window = await screen.window()
            await screen.type(window, secret)
            parts = await screen.parts(has="●")
            await screen.keys(window, "Return")

            assert await reply_of(shown) == Reply("ok", {"user": "ann", "key": secret})
        watching.cancel()
        assert not any(secret in part.text for part in parts)
        assert seen
        assert not any(secret.encode() in line for line in seen)

    run(story())


@pytest.mark.parametrize(("label", "choice"), [("Cancel", "cancel"), ("Help_me", "help")])
def test_a_choice_that_needs_no_fields_is_a_button_beside(screen: Display, label: str, choice: str) -> None:
    """It brings no values, whatever was typed."""

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, SIGN_IN)
            await screen.type(await screen.window(), "x")
            await screen.click(await screen.button(label))

            assert await reply_of(shown) == Reply(choice)

    run(story())


@pytest.mark.parametrize("fields", [(), (Field(name="key", label="<b>API_key</b> \\n"),)])
def test_hostile_texts_are_shown_as_they_are(screen: Display, fields: tuple[Field, ...]) -> None:
    """Without line ends, and what would steer the reader; and they run nothing."""
    folder = Path(tempfile.mkdtemp(prefix="t"))  # a short name: long texts are cut
    texts = hostile(folder)
    form = msgspec.structs.replace(asking(*texts), fields=fields)
    if fields:
        form = msgspec.structs.replace(
            form, choices=(Choice(id="ok", label="--help _x", needs_fields=True), *form.choices)
        )

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            await opened(prompt, form)
            parts = await screen.parts(has="bold")

        shown = "".join(next(part.text for part in parts if "App: Trusted" in part.text).split())
        for text in texts[:-2]:
            assert "".join(f"{text}: “{text}”".split()) in shown
        assert "theend\u2019App:Trusted\u2018of「it」”" in shown
        assert "gnp.exe[31mx" in shown
        assert set("\u202e\u2066\u200b\x1b\x07").isdisjoint(shown)
        assert texts[0] in {part.text for part in parts if part.role == "push button"}

    run(story())
    folder.rmdir()  # nothing was put into it


def test_texts_that_are_too_long_leave_the_buttons_on_the_screen(screen: Display) -> None:
    """Each is cut for itself; words without spaces break."""
    long = ("word " * 800, "x" * 4000, "很" * 4000, "a", "b", "c" * 300)
    form = msgspec.structs.replace(CONSENT, lines=tuple(Line("Text", text, theirs=True) for text in long))

    async def story() -> None:
        async with dialogs(screen.environment) as prompt:
            shown = await opened(prompt, form)
            button = await screen.button("Allow all tools")
            assert button.y < 768
            assert button.x < 1000
            await screen.click(button)

            assert await reply_of(shown) == Reply("all")

    run(story())


@pytest.mark.parametrize("missing", ["display", "program", "server"])
def test_without_a_display_nothing_is_shown(screen: Display, tmp_path: Path, missing: str) -> None:
    """None, so that another way to ask is tried: no display is named, no program is there, or nobody answers there."""
    environment = dict(screen.environment)
    environment.update({"PATH": str(tmp_path)} if missing == "program" else {"DISPLAY": ":59999"})
    if missing == "display":
        del environment["DISPLAY"]

    async def story() -> None:
        async with dialogs(environment) as prompt:
            assert await prompt.show(CONSENT) is None

    run(story())


# Programs that are not here


PROGRAM = """#!{python} -IS
import json, os, sys
with open({calls!r}, "a", encoding="utf-8") as file:
    given = sys.stdin.buffer.read().decode()
    json.dump({{"argv": sys.argv[1:], "stdin": given, "environment": dict(os.environ)}}, file)
    file.write("\\n")
with open({calls!r}, encoding="utf-8") as file:
    output, code = {answers!r}[len(file.readlines()) - 1]
sys.stdout.buffer.write(output.encode())
sys.stdout.flush()
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def stand_in(folder: Path, program: str, *answers: tuple[str, int]) -> dict[str, str]:
    """Put a program of that name on a PATH of its own, and return an environment with it, and with secrets."""
    file = folder / program
    file.write_text(
        PROGRAM.format(python=sys.executable, calls=str(folder / "calls"), answers=answers), encoding="utf-8"
    )
    file.chmod(0o755)
    return {
        "PATH": str(folder),
        "DISPLAY": ":59999",
        "HOME": "/home/ann",
        "LANG": "C",
        "GTK_THEME": "Adwaita:dark",
        "SWITCHBOARD_KEY_FILE": "/secret",
        "OPENAI_API_KEY": "sk-secret",
        "ZENITY_OK": "0",
    }


def calls(folder: Path) -> list[dict[str, Any]]:
    file = folder / "calls"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def answer(system: System, environment: dict[str, str], form: Form) -> Reply | None:
    """Show a form, and return the reply; None also where nothing could be shown."""
    replies: list[Reply | None] = []

    async def story() -> None:
        async with dialogs(environment, system) as prompt:
            shown = await prompt.show(form)
            replies.append(await reply_of(shown) if shown else None)

    run(story())
    return replies[0]


def said(**values: object) -> str:
    return "\n" + json.dumps({"choice": None, "values": {}, **values}) + "\r\n"


SYSTEMS: tuple[tuple[System, str], ...] = (
    ("linux", "kdialog"),
    ("linux", "zenity"),
    ("macos", "osascript"),
    ("windows", "powershell"),
)


@pytest.mark.parametrize(
    ("system", "program", "output", "code", "reply"),
    [
        ("linux", "kdialog", "0\n", 0, "deny"),
        ("linux", "kdialog", "3\n", 0, "all"),
        ("linux", "kdialog", "", 1, None),
        ("linux", "kdialog", "9\n", 0, None),
        ("linux", "kdialog", "", -6, None),
        ("linux", "kdialog", "0\n", 255, None),
        ("linux", "zenity", "Allow all tools\n", 113, "all"),  # zenity 4 says which kind of button it was
        ("linux", "zenity", "Allow all tools\n", 1, None),
        ("macos", "osascript", "Deny\n", 0, "deny"),
        ("macos", "osascript", "Allow create_reminder\n", 0, "tool"),
        ("macos", "osascript", "\n", 0, None),
        ("macos", "osascript", "", 1, None),  # execution error: User canceled. (-128), or no screen (-1713)
        ("macos", "osascript", "Something else\n", 0, None),
        ("windows", "powershell", said(choice="deny"), 0, "deny"),
        ("windows", "powershell", said(choice="once"), 0, "once"),
        ("windows", "powershell", said(), 0, None),
        ("windows", "powershell", said(choice="unknown"), 0, None),
        ("windows", "powershell", "", 3, None),
        ("windows", "powershell", "File cannot be loaded", 1, None),
        ("windows", "powershell", '{"choice": 7}', 0, None),
    ],
)
def test_what_a_program_says_is_one_of_the_choices_or_nothing(  # noqa: PLR0913, PLR0917 - a table
    tmp_path: Path, system: System, program: str, output: str, code: int, reply: str | None
) -> None:
    """What it should not say is no choice either."""
    environment = stand_in(tmp_path, program, (output, code))

    assert answer(system, environment, CONSENT) == (Reply(reply) if reply else None)
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize(
    ("system", "program", "answers"),
    [
        ("linux", "kdialog", [("2\n", 0), ("ann\n", 0), ("\n", 0), (" p|w\\ \n", 0)]),
        ("macos", "osascript", [("Sign_in\nann\n", 0), ("Sign_in\n\n", 0), ("Sign_in\n p|w\\ \n", 0)]),
        ("windows", "powershell", [(said(choice="ok", values={"user": "ann", "key": " p|w\\ ", "more": "x"}), 0)]),
    ],
)
def test_fields_come_back_from_every_program(
    tmp_path: Path, system: System, program: str, answers: list[tuple[str, int]]
) -> None:
    """Through its output, one after the other where a window has one field; an empty one is asked for again."""
    environment = stand_in(tmp_path, program, *answers)

    assert answer(system, environment, SIGN_IN) == Reply("ok", {"user": "ann", "key": " p|w\\ "})
    assert len(calls(tmp_path)) == len(answers)


@pytest.mark.parametrize(
    ("system", "program", "answers", "reply"),
    [
        ("linux", "kdialog", [("1\n", 0)], Reply("help")),
        ("linux", "kdialog", [("2\n", 0), ("", 1)], None),
        ("macos", "osascript", [("Help_me\nx\n", 0)], Reply("help")),
        ("macos", "osascript", [("Cancel\u00a0\nx\n", 0)], Reply("cancel")),
        ("macos", "osascript", [("Sign_in\nann\n", 0), ("\n", 0)], None),
        ("windows", "powershell", [(said(choice="help", values={"user": "x"}), 0)], Reply("help")),
        ("windows", "powershell", [(said(choice="ok", values={"user": "x"}), 0)], None),
    ],
)
def test_a_form_with_fields_can_be_left_without_them(
    tmp_path: Path, system: System, program: str, answers: list[tuple[str, int]], reply: Reply | None
) -> None:
    """By another choice, or by closing it half-way; no program can choose what needs fields without them."""
    assert answer(system, stand_in(tmp_path, program, *answers), SIGN_IN) == reply


def data(program: str, call: dict[str, Any]) -> str:
    """Return where a form's texts may stand: behind our own words of a command line, or on the input."""
    return call["stdin"] if program == "powershell" else json.dumps(call["argv"][2:], ensure_ascii=False)


@pytest.mark.parametrize(("system", "program"), SYSTEMS)
def test_texts_are_never_a_script_nor_an_option(tmp_path: Path, system: System, program: str) -> None:
    """Of a command line all but our own words changes with the form; no argument begins with somebody's dash."""
    seen: list[dict[str, Any]] = []
    for name, texts in (("harmless", HARMLESS), ("hostile", hostile(tmp_path))):
        folder = tmp_path / name
        folder.mkdir()
        answer(system, stand_in(folder, program, ("", 1)), asking(*texts))
        seen += calls(folder)

    plain, attacked = (call["argv"] for call in seen)
    ours = {"powershell": len(plain), "osascript": 4, "zenity": 3, "kdialog": 0}[program]
    assert plain[:ours] == attacked[:ours]
    assert all(text.partition("=")[0] in _options(plain) for text in attacked[ours:] if text.startswith("-"))
    assert not (tmp_path / "owned").exists()
    assert "do shell script" in data(program, seen[1])


@pytest.mark.parametrize(("system", "program"), SYSTEMS)
def test_what_is_private_stands_in_no_argument(tmp_path: Path, system: System, program: str) -> None:
    """Every user of a machine sees the arguments of programs; what a call is made with is not theirs to see."""
    private = msgspec.structs.replace(CONSENT, lines=(*CONSENT.lines, Line("With", "for your eyes only", private=True)))
    answer(system, stand_in(tmp_path, program, ("", 1)), private)

    (call,) = calls(tmp_path)
    assert "for your eyes only" not in json.dumps(call["argv"])
    assert CONSENT.lines[0].text in data(program, call)


def _options(arguments: list[str]) -> set[str]:
    return {argument.partition("=")[0] for argument in arguments}


def test_kdialog_is_told_that_a_text_is_html_and_gets_none(tmp_path: Path) -> None:
    """Qt would guess, and kdialog reads backslashes."""
    answer("linux", stand_in(tmp_path, "kdialog", ("", 1)), asking("<b>x</b>\\n & -", "-y"))

    (call,) = calls(tmp_path)
    text = call["argv"][call["argv"].index("--menu") + 1]
    assert text.startswith("<html><body>-y<br><br>&lt;b&gt;x&lt;/b&gt;&#92;n &amp; -: “&lt;b&gt;")
    assert "\\" not in text
    assert call["argv"][-4:] == ["0", "<b>x</b>\\n & -", "1", "<b>x</b>\\n & -"]


def test_a_window_of_macos_has_three_buttons_and_presses_the_first(tmp_path: Path) -> None:
    """One is left out where there are four: allowing once."""
    answer("macos", stand_in(tmp_path, "osascript", ("Deny\n", 0)), CONSENT)

    (call,) = calls(tmp_path)
    flag, script, *arguments = call["argv"]
    assert flag == "-e"
    assert "cancel button" not in script
    assert "giving up" not in script
    assert arguments[:3] == ["choose", "1", CONSENT.title]
    assert arguments[3].endswith("⚠ This tool changes data.")
    assert arguments[4:] == ["Deny", "Allow create_reminder", "Allow all tools"]


def test_a_form_with_more_buttons_than_macos_has_is_shown_elsewhere(tmp_path: Path) -> None:
    """Nothing is left out in silence."""
    more = msgspec.structs.replace(CONSENT, choices=(*CONSENT.choices, Choice(id="x", label="X")))

    assert answer("macos", stand_in(tmp_path, "osascript", ("Deny\n", 0)), more) is None
    assert calls(tmp_path) == []


def test_a_secret_is_hidden_while_it_is_typed(tmp_path: Path) -> None:
    """And a name is not."""
    kinds: dict[str, list[str]] = {}
    table: list[tuple[System, str, list[tuple[str, int]]]] = [
        ("macos", "osascript", [("Sign_in\nann\n", 0), ("Sign_in\nkey\n", 0)]),
        ("linux", "kdialog", [("2\n", 0), ("ann\n", 0), ("key\n", 0)]),
    ]
    for system, program, answers in table:
        answer(system, stand_in(tmp_path, program, *answers), SIGN_IN)
        kinds[program] = [call["argv"][2 if program == "osascript" else 1] for call in calls(tmp_path)]
        (tmp_path / "calls").unlink()
        (tmp_path / program).unlink()

    assert kinds["osascript"] == ["text", "secret"]
    assert kinds["kdialog"][1:] == ["--inputbox", "--password"]


def test_powershell_gets_the_form_on_its_input(tmp_path: Path) -> None:
    """Its command line is the same for every form, and has no double quotes to be escaped."""
    answer("windows", stand_in(tmp_path, "powershell", (said(), 0)), SIGN_IN)

    (call,) = calls(tmp_path)
    assert call["argv"][:5] == ["-NoLogo", "-NoProfile", "-NonInteractive", "-Sta", "-Command"]
    assert '"' not in call["argv"][5]
    assert json.loads(call["stdin"]) == {
        "title": SIGN_IN.title,
        "question": SIGN_IN.question,
        "lines": ["Domain: api.notion.so"],
        "warnings": [],
        "fields": [
            {"name": "user", "label": "User_name", "secret": False},
            {"name": "key", "label": "API key", "secret": True},
        ],
        "choices": [
            {"id": "cancel", "label": "Cancel", "needs_fields": False},
            {"id": "help", "label": "Help_me", "needs_fields": False},
            {"id": "ok", "label": "Sign_in", "needs_fields": True},
        ],
    }


@pytest.mark.parametrize(("system", "program"), SYSTEMS)
def test_programs_get_none_of_our_secrets(tmp_path: Path, system: System, program: str) -> None:
    """Of our environment only what a window needs."""
    answer(system, stand_in(tmp_path, program, ("", 1)), CONSENT)

    (call,) = calls(tmp_path)
    assert "secret" not in json.dumps(call["environment"])
    assert call["environment"]["DISPLAY"] == ":59999"
    assert call["environment"]["GTK_THEME"] == "Adwaita:dark"


def test_where_zenity_finds_no_display_kdialog_is_tried(tmp_path: Path) -> None:
    """The real zenity, which ends at once."""
    require_programs()
    environment = stand_in(tmp_path, "kdialog", ("0\n", 0))
    (tmp_path / "zenity").symlink_to(shutil.which("zenity") or "")

    assert answer("linux", environment, CONSENT) == Reply("deny")


@pytest.mark.parametrize("name", ["SSH_CONNECTION", "SSH_TTY"])
@pytest.mark.parametrize(("system", "program"), [("macos", "osascript"), ("windows", "powershell")])
def test_from_afar_no_window_is_opened(tmp_path: Path, system: System, program: str, name: str) -> None:
    """It would open on a screen where nobody may sit."""
    environment = {**stand_in(tmp_path, program, ("", 0)), name: "x"}

    assert answer(system, environment, CONSENT) is None
    assert calls(tmp_path) == []

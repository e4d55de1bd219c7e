"""Programs: what they are given, how they end, and how a kept one is shared."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.executors.grounds import alive, lines, stdio_execution, tool_call, until
from tests.support import requirement

from switchboard.actions.ports import Call, Secret
from switchboard.catalog.bindings import Route, Stdio
from switchboard.catalog.errors import CallTimeout, NotSupported, ServiceUnavailable
from switchboard.executors.stdio import StdioExecutor

ANSWER = "print(json.dumps({'request_id': request['request_id'], 'status': 'success', 'result': result}), flush=True)"


@asynccontextmanager
async def executing(environment: dict[str, str] | None = None, **options: Any) -> AsyncGenerator[StdioExecutor]:
    executor = StdioExecutor(os.environ if environment is None else environment, **options)
    try:
        yield executor
    finally:
        await executor.close()


def told(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def program(folder: Path, text: str, *args: str, **more: Any) -> Stdio:
    """Write a small program; `request` is what it was asked, and `ANSWER` says `result`."""
    file = folder / "program.py"
    file.write_text(f"import json, os, signal, sys, time\n{text}", encoding="utf-8")
    return Stdio(command=sys.executable, args=("-IS", str(file), *args), **more)


def answering(folder: Path, result: str, *args: str, **more: Any) -> Stdio:
    """Write a program that answers each request with the value of an expression."""
    return program(
        folder,
        f"for line in sys.stdin:\n    request = json.loads(line)\n    result = {result}\n    {ANSWER}",
        *args,
        **more,
    )


async def result(executor: StdioExecutor, call: Call) -> Any:
    outcome = await executor.run(call, None)
    assert outcome.data is not None
    return json.loads(outcome.data)


def noted(folder: Path) -> str:
    """Return the start of a program that notes its processes."""
    return (
        "def note():\n"
        f"    with open({str(folder / 'pids')!r}, 'a') as file:\n"
        "        file.write(f'{os.getpid()}\\n')\n"
    )


def test_a_program_gets_none_of_our_secrets(tmp_path: Path) -> None:
    """A minimal base and what its descriptor declares; nothing else of our environment, nothing of another app."""
    ours = {"PATH": os.environ["PATH"], "HOME": "/home/me", "USER": "me", "LANG": "C.UTF-8", "LC_TIME": "de_DE"}
    secrets = {"OPENAI_API_KEY": "sk-1", "AAI_HOME": "/x", "LD_PRELOAD": "/evil.so", "SSH_AUTH_SOCK": "/s", "lc_x": "y"}

    async def story() -> None:
        async with executing({**ours, **secrets}) as executor:
            execution = answering(tmp_path, "dict(os.environ)", env=(("NOTES_COLOUR", "never"), ("USER", "app")))
            environment = await result(executor, tool_call(execution, "environment"))

        # Python itself may set a locale for its own use.
        assert {**ours, "NOTES_COLOUR": "never", "USER": "app"} | {"LC_CTYPE": "C.UTF-8"} == {
            "LC_CTYPE": "C.UTF-8"
        } | environment

    told(story)


def test_what_opens_a_web_app_is_not_given_to_a_program(tmp_path: Path) -> None:
    """A secret is for a request; a program sees it neither in its arguments nor in what it reads."""

    async def story() -> None:
        async with executing() as executor:
            call = tool_call(answering(tmp_path, "[sys.argv, request, dict(os.environ)]"), "look")
            outcome = await executor.run(call, Secret(headers=(("Authorization", "Bearer hunter2"),)))

        assert b"hunter2" not in (outcome.data or b"")

    told(story)


def test_arguments_reach_a_program_as_they_are(tmp_path: Path) -> None:
    """There is no shell that would read them."""
    hostile = ("$(touch x)", "`id`", "; rm -rf /", "a b", "*", "'\"", "", "\n")

    async def story() -> None:
        async with executing() as executor:
            argv = await result(executor, tool_call(answering(tmp_path, "sys.argv[1:]", *hostile), "look"))

        assert argv == list(hostile)

    told(story)


def test_a_program_lives_where_its_descriptor_lies(tmp_path: Path) -> None:
    """Relative commands and files are meant from there, never from where the gateway happens to run."""
    script = tmp_path / "bin" / "app"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable} -IS\nimport json, os, sys\n"
        f"request = json.loads(sys.stdin.read())\nresult = [os.getcwd()]\n{ANSWER}\n",
        encoding="utf-8",
    )
    script.chmod(0o755)

    async def story() -> None:
        async with executing() as executor:
            call = tool_call(Stdio(command="./bin/app"), "where", origin=(tmp_path / "aai.json").as_uri())

            assert await result(executor, call) == [str(tmp_path)]

    told(story)


def test_a_program_may_read_until_its_input_ends(tmp_path: Path) -> None:
    """A program for one call is often written that way."""

    async def story() -> None:
        async with executing() as executor:
            execution = program(tmp_path, f"request = json.load(sys.stdin)\nresult = [1]\n{ANSWER}")

            assert await result(executor, tool_call(execution, "read")) == [1]

    told(story)


@requirement("errors:gateway:app-not-running")
@pytest.mark.parametrize("command", ["no-such-program-anywhere", "/no/such/program", "no\0program"])
def test_a_program_that_is_not_there_is_named(command: str) -> None:
    """SERVICE_UNAVAILABLE says what to install or mend."""

    async def story() -> None:
        async with executing() as executor:
            with pytest.raises(ServiceUnavailable, match="program") as caught:
                await executor.run(tool_call(Stdio(command=command), "x"), None)

        assert caught.value.details["command"] == command.replace("\0", "")

    told(story)


def test_a_file_that_cannot_be_executed_is_named(tmp_path: Path) -> None:
    """Neither a text nor a folder is a program."""
    file = tmp_path / "notes.txt"
    file.write_text("hello", encoding="utf-8")

    async def story() -> None:
        async with executing() as executor:
            for path in (file, tmp_path):
                with pytest.raises(ServiceUnavailable, match=f"{path.name}' cannot be started: Permission denied"):
                    await executor.run(tool_call(Stdio(command=str(path)), "x"), None)

    told(story)


def test_a_web_site_cannot_have_a_program_run() -> None:
    """Whatever a descriptor from the web says, nothing is started for it."""

    async def story() -> None:
        async with executing() as executor:
            with pytest.raises(NotSupported, match="web site"):
                await executor.run(tool_call(Stdio(command="true"), "x", origin="https://evil.test"), None)

    told(story)


@pytest.mark.parametrize("keep_alive", [False, True])
def test_how_a_program_ended_is_told(tmp_path: Path, keep_alive: bool) -> None:
    """Exit code and last complaint, without what would steer a terminal."""

    async def story() -> None:
        async with executing() as executor:
            call = tool_call(stdio_execution(tmp_path, keep_alive=keep_alive), "crash")
            with pytest.raises(ServiceUnavailable) as caught:
                await executor.run(call, None)

        assert "exit code 3, saying: boom:[31m out of cheese" in caught.value.message

    told(story)


def test_a_program_that_was_killed_is_told(tmp_path: Path) -> None:
    """By its signal."""

    async def story() -> None:
        async with executing() as executor:
            with pytest.raises(ServiceUnavailable, match="was ended by signal 9"):
                await executor.run(tool_call(program(tmp_path, "os.kill(os.getpid(), 9)"), "x"), None)

    told(story)


def test_noise_before_the_answer_is_tolerated_up_to_a_limit(tmp_path: Path) -> None:
    """A greeting is fine; a program that only talks is not."""
    loop = "print('\\n'.join(['noise'] * 1001), flush=True)\nsys.stdin.read()\ntime.sleep(600)"

    async def story() -> None:
        async with executing() as executor:
            with pytest.raises(ServiceUnavailable, match="1000 lines that are no answer"):
                await executor.run(tool_call(program(tmp_path, loop), "x"), None)

    told(story)


@pytest.mark.parametrize("tool", ["stranger", "shape"])
@pytest.mark.parametrize("keep_alive", [False, True])
def test_an_answer_that_is_none_is_refused_at_once(tmp_path: Path, tool: str, keep_alive: bool) -> None:
    """Nobody waits until the time is over for something that has come."""

    async def story() -> None:
        async with executing() as executor:
            with pytest.raises(ServiceUnavailable, match="cannot be read"):
                await executor.run(tool_call(stdio_execution(tmp_path, keep_alive=keep_alive), tool), None)

    told(story)


def test_a_family_that_will_not_go_is_made_to(tmp_path: Path) -> None:
    """A program that forks children which fork children, all deaf to SIGTERM: the end of the time is the end of all."""
    bomb = noted(tmp_path) + (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for _ in range(4):\n    os.fork()\n"
        "note()\n"
        "while True:\n    time.sleep(600)\n"
    )

    async def story() -> None:
        async with executing() as executor:
            running = asyncio.ensure_future(
                executor.run(tool_call(program(tmp_path, bomb), "x", route=Route(timeout_ms=2000)), None)
            )
            await until(lambda: len(lines(tmp_path / "pids")) == 16 or running.done())
            with pytest.raises(CallTimeout):
                await running
            await until(lambda: alive(tmp_path) == [])

        assert lines(tmp_path / "pids")

    told(story)


def test_a_child_that_holds_the_output_keeps_nobody_waiting(tmp_path: Path) -> None:
    """A program that ends without an answer is over, even if something it started still has its output open."""
    text = (
        noted(tmp_path)
        + "if os.fork() == 0:\n    note()\n    time.sleep(600)\n"
        + "while not os.path.exists(sys.argv[1]):\n    pass\nos._exit(4)"
    )

    async def story() -> None:
        async with executing() as executor:
            with pytest.raises(ServiceUnavailable, match="exit code 4"):
                await executor.run(tool_call(program(tmp_path, text, str(tmp_path / "pids")), "x"), None)

        assert alive(tmp_path) == []

    told(story)


def test_an_answer_that_is_read_after_the_end_of_its_program_counts(tmp_path: Path) -> None:
    """What is on its way when a program ends is not lost; here a child that has left the group says it last."""
    text = (
        "request, parent, (reading, writing) = json.loads(sys.stdin.readline()), os.getpid(), os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    os.write(writing, b'x')\n"
        "    while os.getppid() == parent:\n        pass\n"
        "    result = [1]\n"
        f"    {ANSWER}\n"
        "else:\n    os.read(reading, 1)\n"
        "os._exit(0)"
    )

    async def story() -> None:
        async with executing() as executor:
            assert await result(executor, tool_call(program(tmp_path, text), "x")) == [1]

    told(story)


def test_nothing_outlives_the_executor(tmp_path: Path) -> None:
    """Closing ends what is kept, and what is still at work."""

    async def story() -> None:
        async with executing() as executor:
            kept = stdio_execution(tmp_path, keep_alive=True)
            await result(executor, tool_call(kept, "echo", {"a": 1}))
            working = asyncio.ensure_future(
                executor.run(tool_call(stdio_execution(tmp_path, keep_alive=False), "hang"), None)
            )
            await until(lambda: len(alive(tmp_path)) == 2)
        with pytest.raises(ServiceUnavailable):
            await working

        assert alive(tmp_path) == []

    told(story)


def test_a_kept_program_is_started_once(tmp_path: Path) -> None:
    """Twenty calls at once and one after them, one process."""

    async def story() -> None:
        async with executing() as executor:
            execution = answering(tmp_path, "[os.getpid()]", keep_alive=True)
            calls = [tool_call(execution, "who", call_id=f"call-{number}") for number in range(21)]
            first = await asyncio.gather(*(result(executor, call) for call in calls[:20]))
            last = await result(executor, calls[20])

        assert len({pid for (pid,) in [*first, last]}) == 1

    told(story)


def test_two_apps_do_not_share_a_program(tmp_path: Path) -> None:
    """Another environment is another program."""

    async def story() -> None:
        async with executing() as executor:
            one, other = (
                answering(tmp_path, "os.environ['WHO']", keep_alive=True, env=(("WHO", who),)) for who in "ab"
            )
            outcomes = [await executor.run(tool_call(execution, "who"), None) for execution in (one, other, one)]

        assert ["".join(getattr(part, "text", "") for part in outcome.parts) for outcome in outcomes] == ["a", "b", "a"]

    told(story)


def test_answers_may_come_in_any_order(tmp_path: Path) -> None:
    """They are matched by their id; one that comes twice or for nobody is not taken for another's."""
    text = (
        "requests = [json.loads(sys.stdin.readline()) for _ in range(3)]\n"
        "for request in [*reversed(requests), requests[0]]:\n"
        "    result = request['params']\n"
        f"    {ANSWER}\n"
        "request = json.loads(sys.stdin.readline())\nresult = {'n': 'last'}\n"
        f"{ANSWER}\nsys.stdin.read()"
    )

    async def story() -> None:
        async with executing() as executor:
            execution = program(tmp_path, text, keep_alive=True)
            calls = [tool_call(execution, "x", {"n": number}, call_id=f"call-{number}") for number in range(4)]
            results = await asyncio.gather(*(result(executor, call) for call in calls[:3]))
            last = await result(executor, calls[3])

        assert results == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert last == {"n": "last"}

    told(story)


def test_a_kept_program_that_died_is_started_again(tmp_path: Path) -> None:
    """The call it died on is not sent again, the next one finds a new program."""

    async def story() -> None:
        async with executing() as executor:
            execution = stdio_execution(tmp_path, keep_alive=True)
            await result(executor, tool_call(execution, "echo", {"a": 1}))
            with pytest.raises(ServiceUnavailable):
                await executor.run(tool_call(execution, "crash", call_id="call-2"), None)
            again = await result(executor, tool_call(execution, "echo", {"a": 2}, call_id="call-3"))

        assert again == {"a": 2}
        assert [line.split()[0] for line in lines(tmp_path / "taken")] == ["echo", "crash", "echo"]
        assert len(set(lines(tmp_path / "pids"))) == 2

    told(story)


def test_a_call_that_is_given_up_does_not_take_others_with_it(tmp_path: Path) -> None:
    """The program that did not answer gets no new calls, and ends when the last of its old ones has its answer."""
    text = noted(tmp_path) + (
        "note()\n"
        "first, second = [json.loads(sys.stdin.readline()) for _ in range(2)]\n"
        "while not os.path.exists(sys.argv[1]):\n    time.sleep(0.01)\n"
        "request, result = second, [os.getpid()]\n"
        f"{ANSWER}\nwhile True:\n    time.sleep(600)"
    )
    go = tmp_path / "go"

    async def story() -> None:
        async with executing() as executor:
            execution = program(tmp_path, text, str(go), keep_alive=True)
            given_up = asyncio.ensure_future(executor.run(tool_call(execution, "x", call_id="call-1"), None))
            patient = asyncio.ensure_future(result(executor, tool_call(execution, "x", call_id="call-2")))
            await until(lambda: len(alive(tmp_path)) == 1)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            go.touch()

            assert await patient == [int(lines(tmp_path / "pids")[0])]
            await until(lambda: alive(tmp_path) == [])

    told(story)


def test_a_kept_program_ends_when_nobody_needs_it(tmp_path: Path) -> None:
    """After some minutes, which are shorter here; the next call starts it again."""

    async def story() -> None:
        async with executing(idle_s=0.05) as executor:
            execution = stdio_execution(tmp_path, keep_alive=True)
            await result(executor, tool_call(execution, "echo", {"a": 1}))
            await until(lambda: alive(tmp_path) == [])

            assert await result(executor, tool_call(execution, "echo", {"a": 2})) == {"a": 2}

    told(story)

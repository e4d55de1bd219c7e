"""What every executor promises, over every way there is: real processes, real sockets, a real bus."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.executors.grounds import GROUNDS, Ground, until
from tests.support import requirement

from switchboard.actions.ports import Call, Outcome, Text
from switchboard.catalog.errors import AnswerTooLarge, CallTimeout, ServiceUnavailable, SwitchboardError

EVERYTHING = "Grüße, 世界 👋🏽\n\t\"quoted\" \\ 'single' $(rm -rf /) `x` ${y} {z} %41 \u2028 «event»"

Story = Callable[[Ground], Coroutine[Any, Any, None]]
Play = Callable[[Story], None]


@pytest.fixture(params=sorted(GROUNDS))
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    """Tell a story on one ground."""

    async def run(story: Story) -> None:
        async with GROUNDS[request.param](tmp_path) as ground:
            await story(ground)

    return lambda story: asyncio.run(run(story))


def data(outcome: Outcome) -> Any:
    assert outcome.data is not None
    return json.loads(outcome.data)


async def words(ground: Ground, call: Call) -> str:
    """Return what is said about a failure: an app's own words are an outcome, or inside an error."""
    try:
        outcome = await ground.executor.run(call, ground.secret)
    except SwitchboardError as error:
        return error.message
    assert outcome.failed
    assert isinstance(outcome.parts[0], Text)
    return outcome.parts[0].text


@requirement("exec:order:desktop", "exec:order:result")
def test_what_the_app_answers_comes_back(play: Play) -> None:
    """Arguments go there, the result comes here: as data, and as text to read."""

    async def story(ground: Ground) -> None:
        outcome = await ground.executor.run(ground.call("echo", {"a": [1, None, {"b": True}]}), ground.secret)

        assert data(outcome) == {"a": [1, None, {"b": True}]}
        assert outcome.parts == (Text('{"a":[1,null,{"b":true}]}'),)
        assert not outcome.failed

    play(story)


def test_every_character_survives_both_ways(play: Play) -> None:
    """Emoji, Chinese, line ends, quotes and what a shell or a script would run are data, and stay what they are."""

    async def story(ground: Ground) -> None:
        outcome = await ground.executor.run(ground.call("echo", {"text": EVERYTHING, EVERYTHING: 1}), ground.secret)

        assert data(outcome) == {"text": EVERYTHING, EVERYTHING: 1}

    play(story)


def test_an_error_of_the_app_is_told_in_its_own_words(play: Play) -> None:
    """Its code and message come through, without what would steer a terminal or a reader."""

    async def story(ground: Ground) -> None:
        said = await words(ground, ground.call("fail"))

        assert "QUOTA_FULL" in said
        assert "The disk is full." in said

    play(story)


def test_no_answer_in_time_is_a_timeout_and_leaves_nothing_behind(play: Play) -> None:
    """The limit of the tool counts, and what was started for the call ends with it."""

    async def story(ground: Ground) -> None:
        with pytest.raises(CallTimeout):
            await ground.executor.run(ground.call("hang", limit_ms=1000), ground.secret)

        await ground.at_rest()

    play(story)


def test_cancelling_a_call_ends_what_it_started(play: Play) -> None:
    """The client went away in the middle."""

    async def story(ground: Ground) -> None:
        running = asyncio.ensure_future(ground.executor.run(ground.call("hang"), ground.secret))
        await until(lambda: ground.taken() == ["hang"])
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        await ground.at_rest()

    play(story)


def test_an_answer_without_end_is_refused(play: Play) -> None:
    """Four mebibytes are enough for everybody, and the next call works."""

    async def story(ground: Ground) -> None:
        with pytest.raises(AnswerTooLarge):
            await ground.executor.run(ground.call("flood"), ground.secret)
        outcome = await ground.executor.run(ground.call("echo", {"a": 1}, number=2), ground.secret)

        assert data(outcome) == {"a": 1}

    play(story)


def test_a_crash_in_the_middle_is_told_and_not_tried_again(play: Play) -> None:
    """It may have done its work, so nobody does it twice."""

    async def story(ground: Ground) -> None:
        with pytest.raises(ServiceUnavailable):
            await ground.executor.run(ground.call("crash"), ground.secret)

        assert ground.taken() == ["crash"]

    play(story)


def test_fifty_calls_at_once_get_their_own_answers_once_each(play: Play) -> None:
    """Nothing is mixed up, and nothing is sent twice."""

    async def story(ground: Ground) -> None:
        calls = [ground.call("echo", {"n": number}, number=number) for number in range(50)]
        outcomes = await asyncio.gather(*(ground.executor.run(call, ground.secret) for call in calls))

        assert [data(outcome)["n"] for outcome in outcomes] == list(range(50))
        assert ground.taken() == ["echo"] * 50

    play(story)

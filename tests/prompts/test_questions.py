"""Questions that are open: who is shown what, how long a call waits, and what becomes of an answer nobody waits for."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.security.hands import Hand, Nobody, Told

from switchboard.prompts.forms import Choice, Form, Reply
from switchboard.prompts.questions import Questions, Unanswered

FORM = Form(title="May I?", question="Now?", choices=(Choice(id="no", label="No"), Choice(id="yes", label="Yes")))
PAGE = "http://127.0.0.1:1/ask/token"


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 20))


class Desk:
    """Somebody at a desk, and what they said."""

    def __init__(self, *choices: object, patience_s: float = 0.05, open_s: float = 10) -> None:
        self.hand = Hand(*choices)
        self.questions: Questions[str] = Questions(self.hand, patience_s=patience_s, open_s=open_s)
        self.noted: list[str] = []

    async def ask(self, client: Told | None = None, key: str = "key") -> str:
        """Ask, and return the answer, or why there is none."""

        async def then(reply: Reply) -> str:
            self.noted.append(reply.choice)
            return reply.choice

        try:
            return await self.questions.answer(key, FORM, client or Told(), then, waiting="Waiting for the user")
        except Unanswered as unanswered:
            return unanswered.why


def test_an_answer_is_noted_although_nobody_waits_for_it() -> None:
    """The call was given up; the user answers; it counts."""

    async def story() -> None:
        desk = Desk(...)
        assert await desk.ask() == "pending"
        desk.hand.open[0].set_result(Reply("yes"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

        assert desk.noted == ["yes"]

    run(story())


def test_a_call_that_is_cancelled_leaves_the_question_open() -> None:
    """Another one that waits for it gets the answer."""

    async def story() -> None:
        desk = Desk(..., patience_s=10)
        first, second = asyncio.create_task(desk.ask()), asyncio.create_task(desk.ask())
        while not desk.hand.open:  # noqa: ASYNC110 - both have to get there
            await asyncio.sleep(0)
        first.cancel()
        desk.hand.open[0].set_result(Reply("yes"))

        assert await second == "yes"
        assert len(desk.hand.forms) == 1

    run(story())


@pytest.mark.parametrize(("opens", "expected"), [(True, "yes"), (False, "pending")])
def test_a_page_that_nobody_sees_is_the_clients_to_show(opens: bool, expected: str) -> None:
    """If it can, the call waits for the answer; if not, it says at once where the page is."""

    async def story() -> None:
        desk = Desk(..., patience_s=10)
        desk.hand.address, desk.hand.visible = PAGE, False
        client = Told(opens=opens)
        call = asyncio.create_task(desk.ask(client))
        while not client.pages:  # noqa: ASYNC110 - it has to get there
            await asyncio.sleep(0)
        if opens:
            desk.hand.open[0].set_result(Reply("yes"))

        assert await call == expected
        assert client.pages == [PAGE]

    run(story())


def test_a_page_that_is_open_already_is_told_to_the_client_as_well() -> None:
    """Once; that it shows nothing is no reason not to wait."""

    async def story() -> None:
        desk = Desk(...)
        desk.hand.address = PAGE
        client = Told(opens=False)
        assert await desk.ask(client) == "pending"
        assert await desk.ask(client) == "pending"

        assert client.pages == [PAGE]
        assert client.said[0] == "Waiting for the user"

    run(story())


def test_a_question_that_is_too_old_is_taken_back() -> None:
    """And asked anew by the next call."""

    async def story() -> None:
        desk = Desk(..., "yes", open_s=0.01, patience_s=10)
        assert await desk.ask() == "pending"
        assert desk.hand.open[0].cancelled()

        assert await desk.ask() == "yes"

    run(story())


def test_there_is_an_end_to_questions() -> None:
    """Who asks for a sixth thing is told to wait: nobody reads a screen full of windows."""

    async def story() -> None:
        desk = Desk(*[...] * 6)
        answers = [await desk.ask(key=str(number)) for number in range(6)]

        assert answers == ["pending"] * 5 + ["busy"]
        await desk.questions.close()

    run(story())


def test_no_way_to_show_a_form_is_nobody_to_ask() -> None:
    """At once."""

    async def story() -> None:
        questions: Questions[str] = Questions(Nobody())

        async def then(reply: Reply) -> str:
            return reply.choice

        with pytest.raises(Unanswered) as unanswered:
            await questions.answer("key", FORM, Told(), then, waiting="")
        assert unanswered.value.why == "nobody"

    run(story())

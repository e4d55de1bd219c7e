"""Webhooks: signed, tried again where that helps, and never sent to a metadata service."""

import asyncio
import hmac
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.executors.test_agent import LIMIT_S, AgentServer, Asked, dies, meeting, says, until

from switchboard.catalog.errors import InvalidRequest, RefusedAddress, ServiceUnavailable, SwitchboardError
from switchboard.catalog.executions import Webhook
from switchboard.executors.webhooks import SIGNATURE, Webhooks, signature
from switchboard.net.fetch import Fetch

BODY = b'{"event":"execution.completed"}'


def tell(webhook: Webhook) -> SwitchboardError | None:
    """Send one, without pauses between attempts, and return what went wrong."""
    problems: list[SwitchboardError] = []

    async def story(fetch: Fetch, _: object) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                await Webhooks(lambda: fetch, (0.0, 0.0, 0.0)).tell(webhook, BODY)
        except SwitchboardError as error:
            problems.append(error)

    meeting(story)
    return problems[0] if problems else None


def in_turn(*statuses: int) -> Callable[[Asked], tuple[int, bytes]]:
    left, lock = list(statuses), threading.Lock()

    def answer(_: Asked) -> tuple[int, bytes]:
        with lock:
            return left.pop(0), b"{}"

    return answer


def test_a_webhook_proves_that_it_comes_from_whoever_knows_the_secret() -> None:
    """HMAC-SHA256 over the body as it is; the caller's headers go with it, and cannot replace the proof."""
    with AgentServer(says({})) as receiver:
        given = (("X-Mine", "1"), ("x-agentfield-signature", "sha256=forged"))
        problem = tell(Webhook(url=f"{receiver.url}/hook?x=1", secret="s3cret", headers=given))  # noqa: S106 - a sample

    asked = receiver.asked[0]
    assert problem is None
    assert (asked.path, asked.body, asked.headers["x-mine"]) == ("/hook?x=1", BODY, "1")
    assert asked.headers[SIGNATURE.lower()] == "sha256=" + hmac.new(b"s3cret", BODY, "sha256").hexdigest()
    assert asked.headers["content-type"] == "application/json"


def test_a_webhook_without_a_secret_is_not_signed() -> None:
    """There is nothing to prove with."""
    with AgentServer(says({})) as receiver:
        tell(Webhook(url=receiver.url))

    assert SIGNATURE.lower() not in receiver.asked[0].headers


@pytest.mark.parametrize(
    ("statuses", "attempts", "taken"),
    [
        ((200,), 1, True),
        ((204,), 1, True),
        ((500, 200), 2, True),
        ((503, 502, 201), 3, True),
        ((500, 500, 500), 3, False),
        ((404,), 1, False),
        ((500, 410), 2, False),
        ((302, 302, 302), 3, False),
    ],
)
def test_only_what_may_work_the_next_time_is_tried_again(statuses: tuple[int, ...], attempts: int, taken: bool) -> None:
    """A 5xx is, a 4xx is not, and after three it ends."""
    with AgentServer(in_turn(*statuses)) as receiver:
        problem = tell(Webhook(url=receiver.url))

    assert len(receiver.asked) == attempts
    assert (problem is None) == taken
    assert problem is None or isinstance(problem, ServiceUnavailable)


def test_a_receiver_that_hangs_up_is_tried_again() -> None:
    """It may be starting."""
    with AgentServer(dies) as receiver:
        problem = tell(Webhook(url=receiver.url))

    assert isinstance(problem, ServiceUnavailable)
    assert len(receiver.asked) == 3


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest", "http://[::ffff:169.254.169.254]/", "ftp://example.test", "http://2852039166/"],
)
def test_a_metadata_service_is_refused_in_every_notation(url: str) -> None:
    """At once: it will be refused the next time, too."""
    assert isinstance(tell(Webhook(url=url, secret="s3cret")), RefusedAddress)  # noqa: S106 - a sample


def test_a_header_that_cannot_be_sent_is_not_tried_again() -> None:
    """Two requests cannot be made out of one."""
    with AgentServer(says({})) as receiver:
        problem = tell(Webhook(url=receiver.url, headers=(("X-A", "1\r\nX-B: 2"),)))

    assert isinstance(problem, InvalidRequest)
    assert receiver.asked == []


@pytest.mark.parametrize("answer", [dies, says({}, 500), says({}, 404)])
def test_what_went_wrong_shows_where_and_not_the_path(answer: Callable[[Asked], Any]) -> None:
    """Whoever knows the path of a webhook can often use it."""
    with AgentServer(answer) as receiver:
        problem = tell(Webhook(url=f"{receiver.url}/services/T0KEN/B0?x=1"))

    assert problem is not None
    assert "T0KEN" not in f"{problem} {problem.message} {problem.details}"
    assert answer is not dies or f"{receiver.url} " in problem.message


def test_a_refused_address_shows_where_and_not_the_path() -> None:
    """In its details, too."""
    problem = tell(Webhook(url="http://169.254.169.254/T0KEN"))

    assert isinstance(problem, RefusedAddress)
    assert problem.details["url"] == "http://169.254.169.254"
    assert "T0KEN" not in f"{problem} {problem.message} {problem.details}"


def test_a_crowd_of_webhooks_is_sent_fifty_at_a_time() -> None:
    """Receivers that are slow take no more connections than that."""
    busy, most, lock, go = [0], [0], threading.Lock(), threading.Event()

    def answer(_: Asked) -> tuple[int, bytes]:
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        assert go.wait(LIMIT_S)
        with lock:
            busy[0] -= 1
        return 200, b"{}"

    with AgentServer(answer) as receiver:

        async def story(fetch: Fetch, _: object) -> None:
            webhooks = Webhooks(lambda: fetch)
            crowd = [asyncio.create_task(webhooks.tell(Webhook(url=receiver.url), BODY)) for _ in range(60)]
            await until(lambda: busy[0] == 50)
            await asyncio.sleep(0.1)  # the others would be there by now
            go.set()
            await asyncio.gather(*crowd)

        meeting(story)

    assert (len(receiver.asked), most[0]) == (60, 50)


def test_a_webhook_shows_neither_its_secret_nor_its_path() -> None:
    """It may stand in a log."""
    shown: Any = repr(Webhook(url="https://a.test/hook?token=t0ken", secret="s3cret"))  # noqa: S106 - a sample

    assert [word for word in ("hook?", "/hook", "t0ken", "s3cret") if word in shown] == []
    assert signature("s3cret", b"") != signature("other", b"")

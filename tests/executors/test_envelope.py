"""The message that native apps are called with: what is sent, and how tolerantly answers are read."""

import json
from typing import Any

import pytest
from tests.executors.grounds import tool_call

from switchboard.actions.ports import Text
from switchboard.catalog.bindings import Stdio
from switchboard.catalog.errors import CODES, NotSupported, ServiceUnavailable
from switchboard.executors import envelope

CALL = tool_call(Stdio(command="app"), "send", {"to": "Zoë"})
OK = {"version": "1.0", "request_id": "call-1", "status": "success"}
FAILED = {"version": "1.0", "request_id": "call-1", "status": "error"}


def test_a_request_is_one_line_with_four_members() -> None:
    """Protocol, IPC envelope: `request_id` stays in snake case."""
    line = envelope.request(CALL)

    assert json.loads(line) == {"version": "1.0", "tool": "send", "params": {"to": "Zoë"}, "request_id": "call-1"}
    assert b"\n" not in line


@pytest.mark.parametrize(
    ("result", "text", "data"),
    [
        ({"id": 7}, '{"id":7}', {"id": 7}),
        ([], "[]", []),
        (0, "0", 0),
        (None, "null", None),
        (False, "false", False),
    ],
)
def test_a_result_is_text_and_data(result: Any, text: str, data: Any) -> None:
    """Everything but a plain text comes in both forms."""
    outcome = envelope.answer(CALL, json.dumps({**OK, "result": result}))

    assert outcome.parts == (Text(text),)
    assert outcome.data is not None
    assert json.loads(outcome.data) == data


def test_a_result_that_is_a_text_is_only_that() -> None:
    """Nobody wants to read it with quotes around it; its line ends stay."""
    outcome = envelope.answer(CALL, json.dumps({**OK, "result": "two\nlines"}))

    assert (outcome.parts, outcome.data) == ((Text("two\nlines"),), None)


def test_a_success_without_a_result_is_a_success() -> None:
    """Some tools have nothing to say."""
    assert not envelope.answer(CALL, json.dumps(OK)).failed


@pytest.mark.parametrize("value", [{(1, 2): "x"}, {b"k\xff": object()}, {"a": [{None: 1}, object()]}])
def test_a_result_that_no_json_can_hold_is_refused_in_our_words(value: object) -> None:
    """D-Bus has dictionaries whose keys are no text."""
    with pytest.raises(NotSupported, match="cannot be written as JSON"):
        envelope.from_value(value)


@pytest.mark.parametrize("spelling", ["request_id", "requestId"])
def test_both_spellings_of_the_id_are_read(spelling: str) -> None:
    """Apps were written while names changed to camel case."""
    outcome = envelope.answer(CALL, json.dumps({"status": "success", "result": "x", spelling: "call-1"}))

    assert outcome.parts == (Text("x"),)


@pytest.mark.parametrize("code", ["PERMISSION_DENIED", "FILE_NOT_FOUND", *CODES])
def test_the_code_of_an_app_is_passed_on(code: str) -> None:
    """Its own ones, and ours when it uses them."""
    outcome = envelope.answer(CALL, json.dumps({**FAILED, "error": {"code": code, "message": "No.", "hint": [1]}}))

    assert outcome.failed
    assert outcome.parts == (Text(f"{code}: No."),)
    assert outcome.data is not None
    assert json.loads(outcome.data) == {"code": code, "message": "No.", "hint": [1]}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"code": -32004, "message": "Denied"}, "-32004: Denied"),
        ({"message": "Denied"}, "APP_ERROR: Denied"),
        ({"code": "X"}, "X: The app says that it failed, and not why."),
        ("Denied", "APP_ERROR: Denied"),
        (None, "APP_ERROR: The app says that it failed, and not why."),
        ({"code": "A\u202eB\n", "message": "\x1b[31mred\x07\r\nnext"}, "AB: [31mred next"),
    ],
)
def test_errors_of_every_shape_are_read(error: Any, text: str) -> None:
    """Numbers of the first drafts, texts, nothing; without what would steer a terminal or a reader."""
    assert envelope.answer(CALL, json.dumps({**FAILED, "error": error})).parts == (Text(text),)


@pytest.mark.parametrize("echoed", [{}, {"request_id": ""}, {"request_id": None}])
def test_an_error_may_have_no_id(echoed: dict[str, Any]) -> None:
    """An app that could not read the request does not know it."""
    outcome = envelope.answer(CALL, json.dumps({"status": "error", "error": {"code": "X", "message": "y"}, **echoed}))

    assert outcome.failed


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({**OK, "request_id": "other"}, "request_id is 'other' instead of 'call-1'"),
        ({**FAILED, "request_id": "other"}, "request_id is 'other' instead of 'call-1'"),
        ({"status": "success"}, "request_id is '' instead"),
        ({**OK, "status": "done"}, "its status is neither"),
        ({"request_id": "call-1"}, "its status is neither"),
    ],
)
def test_what_does_not_answer_the_call_is_refused(answer: Any, why: str) -> None:
    """The answer to another call must not be taken for this one's."""
    with pytest.raises(ServiceUnavailable, match=why):
        envelope.answer(CALL, json.dumps(answer))


@pytest.mark.parametrize("text", ["", "  ", "OK", "[1]", '"x"', "{", "\x1b[2J", b"\xff\xfe", "[" * 100_000])
def test_what_is_no_object_is_refused(text: str | bytes) -> None:
    """And shown in a form that is safe to show."""
    with pytest.raises(ServiceUnavailable) as caught:
        envelope.answer(CALL, text)

    assert caught.value.message.isprintable()

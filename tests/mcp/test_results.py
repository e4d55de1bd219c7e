"""Outcomes and refusals as MCP results."""

import pytest

from switchboard.actions.ports import Blob, Outcome, Text
from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import ConsentRequired, InvalidParams, SwitchboardError, UnknownTool
from switchboard.mcp import results


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(parts=(Text("Sent."),)), {"content": [{"type": "text", "text": "Sent."}]}),
        (
            Outcome(parts=(Text('{"id":1}'),), data=Json(b'{"id": 1}')),
            {"content": [{"type": "text", "text": '{"id":1}'}], "structuredContent": {"id": 1}},
        ),
        (
            Outcome(parts=(Text("[1]"),), data=Json(b"[1]")),
            {"content": [{"type": "text", "text": "[1]"}], "structuredContent": {"result": [1]}},
        ),
        (
            Outcome(parts=(Blob("image/png", b"\x89"),)),
            {"content": [{"type": "image", "data": "iQ==", "mimeType": "image/png"}]},
        ),
        (
            Outcome(parts=(Blob("audio/wav", b"\x00"),)),
            {"content": [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]},
        ),
        (
            Outcome(parts=(Blob("application/pdf", b"%"),)),
            {
                "content": [
                    {
                        "type": "resource",
                        "resource": {"uri": "urn:switchboard:result", "mimeType": "application/pdf", "blob": "JQ=="},
                    }
                ]
            },
        ),
        (Outcome(parts=()), {"content": []}),
        (
            Outcome(parts=(Text("No such mailbox."),), failed=True),
            {"content": [{"type": "text", "text": "No such mailbox."}], "isError": True},
        ),
    ],
)
def test_an_outcome_has_a_part_for_every_part(outcome: Outcome, expected: dict[str, object]) -> None:
    """Text, pictures, sounds and files each in their own kind; data is an object, which older clients want."""
    assert results.from_outcome(outcome) == expected


@pytest.mark.parametrize(
    ("error", "text", "data"),
    [
        (
            UnknownTool("com.x", "snd", ["send"]),
            "UNKNOWN_TOOL: 'com.x' has no tool 'snd'. Did you mean send?",
            {"app": "com.x", "tool": "snd", "nearest": ["send"]},
        ),
        (
            ConsentRequired("Ask the user.", app_id="com.x", tool_parameters={"to_whom": {}}),
            "CONSENT_REQUIRED: Ask the user.",
            {"appId": "com.x", "toolParameters": {"to_whom": {}}},
        ),
        (
            InvalidParams("No.", violations=["$: no"], schema={"type": "object"}),
            'INVALID_PARAMS: No.\nThe arguments have to fit this schema: {"type":"object"}',
            {"violations": ["$: no"], "schema": {"type": "object"}},
        ),
    ],
)
def test_a_refusal_is_text_and_data(error: SwitchboardError, text: str, data: dict[str, object]) -> None:
    """Its facts are in the spelling of the wire, and what is inside them stays as it is."""
    assert results.from_error(error) == {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"code": error.code, "message": error.message, **data},
        "isError": True,
    }

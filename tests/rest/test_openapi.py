# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""The server keeps its OpenAPI document: whatever schemathesis sends, no 5xx and no answer outside the schema."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.servers import ControlPlane, registration

CONTRACT: Any = schemathesis.openapi.from_path(str(Path(__file__).parents[2] / "contract/openapi.json"))
EVERY: list[Any] = [found.ok() for found in CONTRACT.get_all_operations()]
ENDLESS: list[Any] = [found for found in EVERY if "text/event-stream" in str(found.definition.raw["responses"])]
OPERATIONS: list[Any] = [found for found in EVERY if found not in ENDLESS]
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
WATCH = "/api/v1/discovery/watch"
GOOD, BAD = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE


def takes_input(operation: Any) -> bool:
    """Tell whether there is anything to get wrong: a body, or a parameter in the query."""
    definition = operation.definition.raw
    return "requestBody" in definition or any(entry["in"] == "query" for entry in definition.get("parameters", []))


WORK = [(operation, GOOD) for operation in OPERATIONS] + [(found, BAD) for found in OPERATIONS if takes_input(found)]


@pytest.mark.parametrize(
    ("operation", "mode"), WORK, ids=[f"{mode.value} {found.method} {found.path}" for found, mode in WORK]
)
def test_every_operation_answers_as_its_document_says(running: ControlPlane, operation: Any, mode: Any) -> None:
    """Good input and bad, for every path and method."""
    running.register(registration("0", {"r": ["t"]}, {"s": []}))
    cases: Any = operation.as_strategy(generation_mode=mode)

    @settings(max_examples=25, deadline=None, database=None)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        data.draw(cases).call_and_validate(base_url=running.url, checks=CHECKS)

    ask()


@pytest.mark.parametrize("mode", [GOOD, BAD], ids=lambda mode: mode.value)
def test_an_answer_without_end_begins_as_its_document_says(running: ControlPlane, mode: Any) -> None:
    """Asked for its head: the same parameters are read, and only the events do not come."""
    (operation,) = (found for found in ENDLESS if found.path == WATCH)
    cases: Any = operation.as_strategy(generation_mode=mode)

    @settings(max_examples=50, deadline=None, database=None)
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        case: Any = data.draw(cases)
        sent = case.as_transport_kwargs(base_url=running.url)
        answer = running.client.head(sent["url"], params=sent.get("params"), headers=_printable(case.headers))

        kind = answer.headers["content-type"].partition(";")[0]
        assert (answer.status_code, kind) in ((200, "text/event-stream"), (400, "application/json"))
        if mode is GOOD:
            assert answer.status_code == 200

    ask()


def _printable(headers: Any) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), str(value).encode("latin-1", "replace")) for name, value in (headers or {}).items()]

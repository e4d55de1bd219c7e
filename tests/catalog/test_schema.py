"""Arguments against schemas: what fits passes, what does not is told where and why."""

from pathlib import Path
from typing import Any

import pytest
from tests.builders import schema

from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import InvalidParams
from switchboard.catalog.schema import ArgumentCheck

MAIL = schema(
    {
        "type": "object",
        "properties": {
            "to": {"type": "array", "items": {"type": "string"}},
            "priority": {"type": "integer", "minimum": 1, "maximum": 5},
        },
        "required": ["to"],
    }
)


def test_fitting_arguments_pass() -> None:
    """So does everything where there is no schema."""
    checker = ArgumentCheck()

    checker.require(MAIL, {"to": ["alice@example.com"], "priority": 3})
    checker.require(None, {"anything": 1})


def test_arguments_that_do_not_fit_are_told_where_and_get_the_schema() -> None:
    """Every violation has its path, so that a model can mend its call."""
    with pytest.raises(InvalidParams) as error:
        ArgumentCheck().require(MAIL, {"to": ["a", 1], "priority": 9})

    details: dict[str, Any] = error.value.details
    assert sorted(violation.partition(":")[0] for violation in details["violations"]) == ["$.priority", "$.to[1]"]
    assert details["schema"]["required"] == ["to"]


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/nowhere"},
        {"type": "wat"},
        {"$schema": "https://example.com/own-dialect"},
    ],
)
def test_a_schema_that_cannot_be_used_is_named_and_nothing_is_fetched(document: dict[str, Any]) -> None:
    """It says why, and does not stand in the way of a call."""
    checker = ArgumentCheck()

    assert checker.problem(schema(document))
    checker.require(schema(document), {"anything": 1})


def test_a_file_is_not_read_for_a_reference(tmp_path: Path) -> None:
    """A schema from a stranger must not look at this machine's files."""
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object", "required": ["secret"]}')
    checker = ArgumentCheck()

    assert "not fetched" in (checker.problem(schema({"$ref": file.as_uri()})) or "")
    checker.require(schema({"$ref": file.as_uri()}), {})


def test_a_schema_that_unfolds_without_end_is_not_used() -> None:
    """Forty lines that double at each level would take hours to check; one that refers to itself is fine."""
    doubling = {f"d{i}": {"allOf": [{"$ref": f"#/definitions/d{i + 1}"}] * 2} for i in range(40)}
    bomb = schema({"$ref": "#/definitions/d0", "definitions": {**doubling, "d40": {"type": "object"}}})
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}

    assert "unfold" in (ArgumentCheck().problem(bomb) or "")
    assert ArgumentCheck().problem(schema(tree)) is None


def test_arguments_nested_too_deeply_do_not_fit() -> None:
    """They are refused like others, not with an exception of the library."""
    arguments: dict[str, Any] = {}
    for _ in range(2000):
        arguments = {"x": arguments}

    with pytest.raises(InvalidParams, match="nested too deeply"):
        ArgumentCheck().require(schema({"type": "object", "properties": {"x": {"type": "string"}}}), arguments)


def test_a_long_value_is_not_repeated_whole() -> None:
    """A violation stays readable."""
    with pytest.raises(InvalidParams) as error:
        ArgumentCheck().require(MAIL, {"to": ["x"], "priority": "y" * 1_000_000})

    assert len(error.value.message) < 1000


def test_a_tuple_is_read_as_draft_07_has_it_unless_the_schema_says_otherwise() -> None:
    """`items` as a list describes positions in draft-07, the draft of the seeds."""
    pair = schema({"type": "object", "properties": {"pair": {"items": [{"type": "string"}, {"type": "integer"}]}}})

    with pytest.raises(InvalidParams):
        ArgumentCheck().require(pair, {"pair": ["a", "b"]})


def test_only_the_last_schemas_are_remembered() -> None:
    """Strangers cannot fill the memory with schemas, and a forgotten one is compiled again."""
    checker = ArgumentCheck(most=2)
    schemas: list[Json] = [
        schema({"type": "object", "properties": {"x": {"const": number}}, "required": ["x"]}) for number in range(4)
    ]

    for number, document in enumerate([*schemas, schemas[0]]):
        checker.require(document, {"x": number % 4})
        with pytest.raises(InvalidParams):
            checker.require(document, {"x": "other"})
        assert len(checker) <= 2

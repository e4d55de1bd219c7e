"""Every form an aai.json was ever published in, one fixture each: what it becomes, and what is warned about."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tests.support import requirement

from switchboard.descriptors import aai

VARIANTS = sorted((Path(__file__).parent / "variants").glob("*.json"))
SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[2] / "contract" / "aai.schema.json").read_text())


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def plain(value: object) -> Any:
    return json.loads(msgspec.json.encode(value))


@requirement("descriptor:shape:example")
@pytest.mark.parametrize("path", VARIANTS, ids=lambda path: path.stem)
def test_a_published_form_is_read_into_its_canonical_form_with_a_warning_per_oddity(path: Path) -> None:
    """The fixture's canonical document and warning paths are exactly what the reader gives."""
    variant = load(path)

    reading = aai.read(json.dumps(variant["document"]).encode(), system=variant["system"], folder=variant["folder"])

    assert [str(problem) for problem in reading.problems if problem.severity == "error"] == []
    assert reading.app is not None
    assert plain(aai.canonical(reading.app)) == variant["canonical"]
    assert sorted({problem.path for problem in reading.problems}) == variant["warnings"]


@pytest.mark.parametrize("path", VARIANTS, ids=lambda path: path.stem)
def test_the_canonical_form_reads_back_to_itself(path: Path) -> None:
    """Writing what was read, and reading that, changes nothing."""
    variant = load(path)
    canonical = variant["canonical"]

    reading = aai.read(json.dumps(canonical).encode(), system=variant["system"])

    assert reading.app is not None
    assert plain(aai.canonical(reading.app)) == canonical
    assert all(problem.path == "$.app.id" for problem in reading.problems)


@pytest.mark.parametrize("path", VARIANTS, ids=lambda path: path.stem)
def test_the_canonical_form_is_valid_under_the_contract(path: Path) -> None:
    """Every fixture's canonical document passes `contract/aai.schema.json`, but for ids that are folder names."""
    validator = jsonschema_rs.validator_for(SCHEMA)

    errors = [error for error in validator.iter_errors(load(path)["canonical"]) if error.instance_path != ["app", "id"]]

    assert [error.message for error in errors] == []

"""No way to say no is without a row in a table here, and none is without one in the reference."""

import re

from tests.catalog.test_errors import all_classes
from tests.docs.documents import ROOT, blocks, broken_links
from tests.errors import test_command_errors, test_mcp_errors, test_rest_errors

from switchboard.catalog.errors import CODES, SwitchboardError
from switchboard.rest.answers import STATUS

DOCUMENT = ROOT / "docs/reference/errors.md"
CLASSES = [found for found in all_classes(SwitchboardError) if found is not SwitchboardError]


def rows(heading: str) -> dict[str, list[str]]:
    """Return a table of the document: the other cells of each row by its first one."""
    text = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in re.findall(r"^\| .*$", text, re.MULTILINE)
    ]
    return {first.strip("`"): rest for first, *rest in cells[1:]}


def test_every_class_is_provoked_somewhere() -> None:
    """A new class needs a row that shows how a person gets to see it, and what they read."""
    told = {row.kind for table in (test_mcp_errors.ROWS, test_rest_errors.ROWS) for row in table}
    told |= {*test_mcp_errors.SIGN_INS, *test_rest_errors.INSIDE, *test_command_errors.PROVOKED}

    assert [found.__name__ for found in CLASSES if found not in told] == []


def test_every_code_is_provoked_through_the_gateway() -> None:
    """All of the public contract."""
    told = {row.kind.code for row in test_mcp_errors.ROWS} | {kind.code for kind in test_mcp_errors.SIGN_INS}

    assert [code for code in CODES if code not in told] == []


def test_every_status_is_provoked_on_the_control_plane_or_never_said() -> None:
    """What it has a status for and does not say has a reason."""
    told = {kind for row in test_rest_errors.ROWS for kind in row.kind.__mro__} | {*test_rest_errors.INSIDE}

    assert [kind.__name__ for kind in STATUS if kind not in told and kind not in test_rest_errors.NEVER] == []


def test_every_code_stands_in_the_reference_with_its_meaning_its_remedy_and_its_status() -> None:
    """In the order of the contract."""
    table = rows("Codes")

    assert list(table) == list(CODES)
    for code, (meaning, remedy, statuses) in table.items():
        expected = {f"{status} `{word}`" for kind, (status, word) in STATUS.items() if kind.code == code}
        assert (bool(meaning), bool(remedy), set(statuses.split(", "))) == (True, True, expected), code


def test_every_kind_of_a_code_stands_in_the_reference() -> None:
    """With the code it has."""
    kinds = {found.__name__: found.code for found in CLASSES if found.__base__ is not SwitchboardError}

    assert {kind: code.strip("`") for kind, (code, _) in rows("Kinds").items()} == kinds


def test_the_reference_has_no_broken_links_and_no_examples_that_nobody_runs() -> None:
    """It is a table, and stays one."""
    assert list(broken_links(DOCUMENT)) == []
    assert blocks(DOCUMENT) == []

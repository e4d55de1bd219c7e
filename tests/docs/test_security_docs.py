"""The threat table cannot rot: every row names tests, every named test exists, and no known attack is without a row."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.documents import ROOT, anchors, blocks, broken_links, headings

SECURITY = ROOT / "docs/security.md"
POLICY = ROOT / "SECURITY.md"
TESTS = ROOT / "tests"
ATTACKS = (
    "a tool does harm",
    "no way to ask",
    "changes after the user allowed it",
    "another site claims an app id",
    "first contact",
    "a redirect carries credentials to a foreign host",
    "DNS rebinding",
    "decimal",
    "IPv6-mapped",
    "`.local`",
    "AppleScript, shell",
    "HTML",
    "Markdown",
    "bidirectional",
    "a callback is forged at the loopback port",
    "wrong state",
    "a consent token is used again",
    "another local user reads files",
    "secrets leak into logs",
    "an answer without end",
    "an agent's address",
    "it is open to everybody",
)
LIMITS = (
    "name is a claim",
    "answer for you",
    "trusts the client",
    "Secret Service",
    "older copy of the encrypted file",
    "macOS and Windows",
    "`iss` and metadata",
    "not for its arguments",
    "Descriptions may lie",
)


class Row(NamedTuple):
    """One threat, what is done about it, and the tests that prove it."""

    threat: str
    answer: str
    tests: tuple[str, ...]


def rows() -> list[Row]:
    """Return every row of the threat tables."""
    text = SECURITY.read_text(encoding="utf-8").partition("\n## Threats\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    return [
        Row(threat, answer, tuple(re.findall(r"`(.+?)`", tests)))
        for threat, answer, tests in cells
        if threat != "threat"
    ]


def collected() -> set[str]:
    """Return every test there is, as `file::function`, wherever its file lies."""
    files = [file for file in TESTS.rglob("test_*.py") if "node_modules" not in file.parts]
    return {f"{file.name}::{name}" for file in files for name in _functions(file)}


def _functions(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")]


def test_every_test_of_the_threat_table_exists() -> None:
    """A test that is renamed or removed takes its row along, or this fails."""
    known = collected()

    assert [test for row in rows() for test in row.tests if test not in known] == []


def test_every_threat_has_an_answer_and_a_test() -> None:
    """A row without a test is a promise, and promises stand elsewhere."""
    found = rows()
    table = SECURITY.read_text(encoding="utf-8").partition("\n## Threats\n")[2].partition("\n## ")[0]

    assert len(found) == len(re.findall(r"^\| (?!threat )", table, re.MULTILINE))
    assert [row.threat for row in found if not row.tests or not row.answer.strip()] == []
    assert len({row.threat for row in found}) == len(found)


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_known_attack_is_without_a_row(attack: str) -> None:
    """Those that this was built against."""
    assert [row for row in rows() if attack in row.threat]


@pytest.mark.parametrize("limit", LIMITS)
def test_what_it_does_not_do_is_said(limit: str) -> None:
    """A reader who relies on the table has to know where it ends."""
    assert limit in SECURITY.read_text(encoding="utf-8").partition("\n## What it does not do\n")[2]


def test_the_policy_says_how_to_report_what_is_supported_and_what_is_in_scope() -> None:
    """Privately, with the host of the repository; there is no address that nobody reads."""
    text = POLICY.read_text(encoding="utf-8")
    wanted = {"Reporting a vulnerability", "Supported versions", "What is in scope", "What is not"}

    assert wanted - set(headings(POLICY)) == set()
    assert "Report a\nvulnerability" in text or "Report a vulnerability" in text
    assert not re.search(r"\S@\S|mailto:", text)
    assert list(broken_links(POLICY)) == []
    assert "what-it-does-not-do" in anchors(SECURITY)


def test_there_are_no_examples_that_nobody_runs() -> None:
    """Neither document shows commands; the reference of the gateway does, and they are run."""
    assert blocks(SECURITY) == blocks(POLICY) == []

"""The manifest of the seeds holds in both directions: a promise has a test or a plan, a test a known promise."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.requirements import DEFERRED, REQUIREMENTS

TESTS = Path(__file__).parent


def named_ids(source: str) -> Iterator[str]:
    """Yield every id that a test function of this source says it proves."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                if (
                    isinstance(decorator, ast.Call)
                    and isinstance(decorator.func, ast.Name)
                    and decorator.func.id == "requirement"
                ):
                    yield from (str(ast.literal_eval(argument)) for argument in decorator.args)


def proven() -> set[str]:
    files = (file for file in TESTS.rglob("test_*.py") if file != Path(__file__))
    return {name for file in files for name in named_ids(file.read_text(encoding="utf-8"))}


def known() -> set[str]:
    return {requirement.id for requirement in REQUIREMENTS}


def test_every_promise_of_the_seeds_has_a_test_or_is_deferred() -> None:
    """Nothing the seeds promise is forgotten."""
    assert sorted(known() - proven() - DEFERRED.keys()) == []


def test_what_a_test_proves_is_no_longer_deferred() -> None:
    """When it is built, it leaves the list."""
    assert sorted(proven() & DEFERRED.keys()) == []


def test_tests_and_deferrals_name_known_promises_only() -> None:
    """A misspelt id proves nothing."""
    assert sorted((proven() | DEFERRED.keys()) - known()) == []


def test_ids_are_unique_and_every_promise_says_where_it_stands() -> None:
    """One entry, one promise."""
    assert len(known()) == len(REQUIREMENTS)
    assert [entry.id for entry in REQUIREMENTS if not (entry.sentence and entry.section and entry.seeds)] == []


def test_the_cases_and_scenarios_of_seed_004_are_all_there() -> None:
    """Section 5: sixteen unit cases, four integration scenarios."""
    assert {f"discovery:case:{number:02}" for number in range(1, 17)} <= known()
    assert {f"discovery:scenario:{number}" for number in range(1, 5)} <= known()


def test_only_collected_tests_count_as_proof() -> None:
    """A decorated helper, or a decorator of another name, proves nothing."""
    source = (
        '@requirement("a", "b")\ndef test_x(): ...\n'
        '@requirement("c")\ndef helper(): ...\n'
        '@other("d")\nasync def test_y(): ...\n'
    )

    assert list(named_ids(source)) == ["a", "b"]

"""Semantic versions: the examples of semver.org, and what holds for all of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.catalog.versions import Step, Version, parse

ASCENDING = [
    "0.0.1",
    "0.1.0-0",
    "0.1.0",
    "0.9.9",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0-0",
    "2.0.0-1",
    "2.0.0-10",
    "2.0.0-A",
    "2.0.0-a",
    "2.0.0-a-b",
    "2.0.0",
    "2.1.0",
    "2.1.1",
]


def version(text: str) -> Version:
    found = parse(text)
    assert found is not None, text
    return found


def test_versions_have_the_order_of_section_11() -> None:
    """Numbers as numbers, texts as ASCII, a pre-release before its release."""
    versions = [version(text) for text in ASCENDING]

    assert all(one < other and one != other for one, other in pairwise(versions))
    assert [str(one) for one in versions] == ASCENDING


def test_build_metadata_does_not_make_another_version() -> None:
    """Section 10: it is ignored where precedence is determined."""
    assert version("1.0.0+a.01") == version("1.0.0+b") == version("1.0.0")
    assert len({version("1.0.0-a+x"), version("1.0.0-a")}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "1.2",
        "1.2.3.4",
        "01.2.3",
        "1.02.3",
        "1.2.03",
        "1.2.3-01",
        "1.2.3-a..b",
        "1.2.3-",
        "1.2.3+",
        "1.2.3-a.+b",
        "v1.2.3",
        "-1.2.3",
        "1.2.3-ä",
        "1.2.x",
    ],
)
def test_what_is_no_version_is_none(text: str) -> None:
    """Leading zeros, empty labels, and everything that only looks like one."""
    assert parse(text) is None
    assert parse("") is None
    assert parse(f"1.0.0-{'a' * 100}") is None


@pytest.mark.parametrize(
    ("before", "after", "step", "allowed"),
    [
        ("1.2.3", "2.0.0", "major", True),
        ("1.2.3", "2.0.0-rc.1", "major", True),
        ("1.2.3", "1.3.0", "major", False),
        ("1.2.3", "1.3.0", "minor", True),
        ("1.2.3", "1.2.4", "minor", False),
        ("1.2.3", "1.2.4", "patch", True),
        ("0.2.3", "0.3.0", "major", True),
        ("0.2.3", "0.2.4", "major", False),
        ("0.2.3", "0.2.4", "minor", True),
        ("0.2.3", "1.0.0", "major", True),
    ],
)
def test_a_step_is_large_enough_or_not(before: str, after: str, step: Step, allowed: bool) -> None:
    """Sections 4, 6, 7 and 8."""
    assert version(after).allows(step, version(before)) is allowed


@pytest.mark.parametrize(
    ("before", "step", "after"),
    [
        ("1.2.3", "major", "2.0.0"),
        ("1.2.3", "minor", "1.3.0"),
        ("1.2.3", "patch", "1.2.4"),
        ("0.2.3", "major", "0.3.0"),
        ("0.2.3", "minor", "0.2.4"),
        ("1.2.3-rc.1", "patch", "1.2.3"),
    ],
)
def test_the_next_version_is_named(before: str, step: Step, after: str) -> None:
    """So that who is refused knows what to write."""
    assert str(version(before).after(step)) == after


numbers = st.integers(0, 30)
labels = st.lists(st.from_regex(r"0|[1-9][0-9]?|[0-9]?[a-zA-Z-]{1,2}", fullmatch=True), max_size=3).map(tuple)
versions = st.builds(Version, numbers, numbers, numbers, labels)


@given(versions, versions, st.sampled_from(["patch", "minor", "major"]))
def test_what_is_read_is_what_was_written_and_the_next_one_always_fits(
    one: Version, other: Version, step: Step
) -> None:
    """One order, and a name for what may follow."""
    assert parse(str(one)) == one
    assert (one < other) + (one == other) + (one > other) == 1
    assert one.after(step) > one
    assert one.after(step).allows(step, one) or not one.is_stable

"""Wildcards: what each shape matches, and that no pattern is slow or surprising."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import requirement

from switchboard.catalog import patterns

MATCHES = [
    pytest.param("*abc*", "xxabcxx", True, id="contains"),
    pytest.param("*abc*", "abc", True, id="contains-whole"),
    pytest.param("*abc*", "abxc", False, id="contains-not"),
    pytest.param("abc*", "abcdef", True, id="prefix"),
    pytest.param("abc*", "xabc", False, id="prefix-not"),
    pytest.param("*abc", "xabc", True, id="suffix"),
    pytest.param("*abc", "abcx", False, id="suffix-not"),
    pytest.param("abc", "abc", True, id="exact"),
    pytest.param("abc", "abcd", False, id="exact-not"),
    pytest.param("*", "", True, id="star-empty"),
    pytest.param("*", "anything", True, id="star"),
    pytest.param("**", "anything", True, id="two-stars"),
    pytest.param("a*c", "abc", True, id="inside"),
    pytest.param("a*c", "ac", True, id="inside-nothing"),
    pytest.param("a*c", "abcd", False, id="inside-not"),
    pytest.param("a*a", "a", False, id="ends-do-not-overlap"),
    pytest.param("a*b*c", "a1b2c", True, id="several"),
    pytest.param("*a*b*", "ba", False, id="several-in-order"),
    pytest.param("*research*", "deep_research", True, id="seed-research-1"),
    pytest.param("*research*", "web_researcher", True, id="seed-research-2"),
    pytest.param("*research*", "research_agent", True, id="seed-research-3"),
    pytest.param("ml*", "ml", True, id="seed-ml-1"),
    pytest.param("ml*", "mlops", True, id="seed-ml-2"),
    pytest.param("ml*", "ml_vision", True, id="seed-ml-3"),
    pytest.param("ml*", "html", False, id="seed-ml-not"),
    pytest.param("web_*", "web_search", True, id="seed-web-1"),
    pytest.param("web_*", "web_scraper", True, id="seed-web-2"),
    pytest.param("web_*", "web_parser", True, id="seed-web-3"),
    pytest.param("abc*", "ABCdef", False, id="case"),
    pytest.param("a.c*", "abcd", False, id="dot-is-a-dot"),
    pytest.param("[ab]*", "abc", False, id="brackets-are-brackets"),
    pytest.param("a?c", "abc", False, id="question-mark-is-itself"),
]


@requirement(
    "pattern:form:contains",
    "pattern:form:prefix",
    "pattern:form:suffix",
    "pattern:form:exact",
    "pattern:form:star-alone",
    "pattern:form:star-inside",
    "pattern:example:research",
    "pattern:example:ml",
    "pattern:example:web",
    "pattern:case:sensitive",
    "pattern:regex:literal",
)
@pytest.mark.parametrize(("pattern", "text", "expected"), MATCHES)
def test_a_pattern_matches_what_the_seed_says(pattern: str, text: str, expected: bool) -> None:
    """The table of seed 004, 3.3, and the corners around it."""
    assert patterns.matcher(pattern)(text) is expected


@given(st.text(alphabet="ab*.", max_size=8), st.text(alphabet="ab.", max_size=8))
def test_a_pattern_means_the_same_as_the_regular_expression_it_stands_for(pattern: str, text: str) -> None:
    """Any run of characters for `*`, everything else literal."""
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))

    assert patterns.matcher(pattern)(text) == bool(re.fullmatch(expression, text, re.DOTALL))

"""Text of others, before it reaches a screen."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from switchboard.catalog.text import clean, nearest


def test_control_direction_and_invisible_characters_are_removed() -> None:
    """A descriptor cannot steer a terminal or turn a sentence around."""
    assert clean("\x1b[31mred\x1b[0m\a") == "[31mred[0m"
    assert clean("pay \u202eevil\u202c\u200b now\u2066") == "pay evil now"
    assert clean("two\r\n\tlines\u2028here") == "two lines here"
    assert clean("\u3164\u2800\uffa0") == ""
    assert clean("No\u034ftes\u115f\ufe0f\U000e0101") == "Notes"
    assert clean("plain 提醒事项 é") == "plain 提醒事项 é"


def test_long_text_is_cut_with_an_ellipsis() -> None:
    """The limit counts the ellipsis."""
    assert clean("x" * 10, limit=5) == "xxxx…"
    assert clean("x" * 5, limit=5) == "xxxxx"


@given(st.text())
def test_whatever_comes_in_one_visible_line_goes_out(text: str) -> None:
    """No control, format, surrogate or private character, no line break, no double space."""
    cleaned = clean(text)

    assert all(unicodedata.category(char)[0] != "C" for char in cleaned)
    assert cleaned == " ".join(cleaned.split())
    assert len(cleaned) <= 500


def test_the_nearest_of_very_many_is_found_among_those_that_begin_alike() -> None:
    """Comparing all of 100,000 would take seconds."""
    many = [f"agent-{i}" for i in range(5000)] + ["com.example.mail"]

    assert nearest("com.example.mial", many) == ["com.example.mail"]
    assert nearest("zzz", many) == []

"""State that travels through a client: it comes back as it went, or not at all."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.mcp.sealing import Seal

KEY = b"k" * 32
places = st.integers(0, 10_000)
"""Where a state is changed, modulo its length: that depends on the time."""
contents = st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans()), max_size=4)


@given(contents)
def test_what_was_closed_opens_as_it_was(content: dict[str, Any]) -> None:
    """Also by another seal with the same key, as after a start with a key that is kept."""
    assert Seal(KEY).open(Seal(KEY).close(content)) == content


@given(contents, places)
def test_a_state_with_one_bit_changed_does_not_open(content: dict[str, Any], place: int) -> None:
    """Wherever the bit is: in the signature, in the time, in the content."""
    seal = Seal(KEY)
    raw = bytearray(urlsafe_b64decode(seal.close(content)))
    raw[place // 8 % len(raw)] ^= 1 << place % 8

    assert seal.open(urlsafe_b64encode(raw).decode()) is None


@given(contents, places, st.text(st.sampled_from("A-_=+/!\n é"), min_size=1, max_size=8))
def test_a_state_has_one_spelling(content: dict[str, Any], place: int, extra: str) -> None:
    """Base64 is read with indulgence for what stands behind the padding or is not of the alphabet; a state is not."""
    seal = Seal(KEY)
    text = seal.close(content)
    at = place % (len(text) + 1)

    assert seal.open(text[:at] + extra + text[at:]) is None


@given(st.text())
def test_a_text_of_others_does_not_open(text: str) -> None:
    """Whatever it is, nothing is raised."""
    assert Seal(KEY).open(text) is None


@pytest.mark.parametrize("text", ["\ud800", "é", "A", "====", "A" * 100])
def test_a_text_that_is_no_base64_or_too_short_for_a_signature_does_not_open(text: str) -> None:
    """Halves of characters included."""
    assert Seal(KEY).open(text) is None


def test_a_state_of_another_key_does_not_open() -> None:
    """Each process has a key of its own unless it is given one."""
    state = Seal().close({"a": 1})

    assert Seal().open(state) is None
    assert Seal(KEY).open(state) is None


def test_a_state_that_is_too_old_does_not_open() -> None:
    """How long it is good stands in it, under the signature."""
    state = Seal(KEY, valid_s=-1).close({"a": 1})

    assert Seal(KEY, valid_s=3600).open(state) is None


def test_a_digest_is_the_same_for_the_same_value_however_it_is_written() -> None:
    """The order of keys does not count, everything else does."""
    seal = Seal(KEY)

    assert seal.digest(["m", {"a": 1, "b": [1, 2]}]) == seal.digest(["m", {"b": [1, 2], "a": 1}])
    others: list[object] = [["m", {"a": 1, "b": [2, 1]}], ["m", {"a": "1", "b": [1, 2]}], ["m"], [], {}, 10**30, None]
    assert len({seal.digest(value) for value in others}) == len(others)

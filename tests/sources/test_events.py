"""Server-sent events, however a network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.catalog.errors import AnswerTooLarge
from switchboard.sources.events import Event, Events

LARGEST = 1000
line_ends = st.sampled_from([b"\n", b"\r", b"\r\n"])
texts = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)


def read(*chunks: bytes, largest: int = LARGEST) -> list[Event]:
    events = Events(largest)
    return [event for chunk in chunks for event in events.feed(chunk)]


def pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@given(
    st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), max_size=4), line_ends, st.lists(st.integers(0))
)
def test_where_a_network_cuts_makes_no_difference(
    told: list[tuple[str, list[str]]], end: bytes, cuts: list[int]
) -> None:
    """The same events come out whatever the pieces, whichever way lines end."""
    lines: list[bytes] = []
    for number, (kind, data) in enumerate(told):
        lines += [f"id: {number}".encode(), b": a comment", *([f"event: {kind}".encode()] if kind else [])]
        lines += [*(f"data: {part}".encode() for part in data), b""]
    text = b"".join(line + end for line in lines)

    found = read(*pieces(text, cuts), largest=100_000)

    assert found == [
        Event(kind=kind or "message", data="\n".join(data).encode(), id=str(number))
        for number, (kind, data) in enumerate(told)
    ]


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_any_bytes_are_read_without_a_fault(chunks: list[bytes]) -> None:
    """What is no event is none."""
    read(*chunks)


def test_a_byte_order_mark_comments_and_unknown_fields_are_passed_over() -> None:
    """Also a mark that comes in pieces, a field without a colon, and an id with a zero in it."""
    found = read(b"\xef", b"\xbb\xbfid: 7\n\n", b": keep-alive\n\nretry: 1000\nnothing\ndata\ndata:x\nid: a\0b\n\n")

    assert found == [Event(kind="message", data=b"\nx", id="7")]


def test_an_event_without_data_is_none_and_what_is_not_ended_is_waited_for() -> None:
    """The kind of the one is not taken for the next."""
    assert read(b"event: lost\n\ndata: 1\n\ndata: 2\n") == [Event(kind="message", data=b"1", id="")]


def test_a_long_event_in_small_pieces_is_read_in_one_go() -> None:
    """Whoever drips bytes must not have all that came before looked at for each of them: this ends, or it does not."""
    pieces = [b"x"] * 400_000

    [found] = read(b"data: ", *pieces, b"\r", b"\n", b"\r\n", largest=1_000_000)

    assert len(found.data) == len(pieces)


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 600 + b"\n", b"x" * 600])
def test_an_event_that_does_not_end_is_too_large(chunk: bytes) -> None:
    """Whether it has many lines or one without an end."""
    with pytest.raises(AnswerTooLarge):
        read(chunk, chunk)

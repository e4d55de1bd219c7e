"""Servers that the user names, and whose key is whose."""

import pytest

from switchboard.named import Named, named_planes, named_registries

A, B = "https://a.example", "http://localhost:8080"


@pytest.mark.parametrize(
    ("given", "keys"),
    [("", [None, None]), (" k ", ["k", "k"]), ("-", [None, None]), ("- k", [None, "k"]), ("k l", ["k", "l"])],
)
def test_keys_go_to_servers_in_their_order(given: str, keys: list[str | None]) -> None:
    """One for all, or one each; control planes and registries are alike in that."""
    expected = [Named(A, keys[0]), Named(B, keys[1])]

    assert named_planes([A, f"{B}/"], {"AGENTFIELD_API_KEY": given}) == expected
    assert named_registries((), {"AAI_REGISTRY_URL": f"{A} {B}", "AAI_REGISTRY_KEY": given}) == expected


@pytest.mark.parametrize("given", ["k l m", "schl\u00fcssel"])
def test_a_key_that_may_be_anybodys_is_refused(given: str) -> None:
    """And not repeated."""
    with pytest.raises(ValueError, match="AGENTFIELD_API_KEY") as caught:
        named_planes([A, B], {"AGENTFIELD_API_KEY": given})

    assert given not in str(caught.value)
    assert named_planes((), {"AGENTFIELD_API_KEY": given}) == []


@pytest.mark.parametrize(
    "address",
    [
        "http://a.example",
        "http://192.168.1.1",
        "https://[::1",
        "https://a#x",
        "https://ann:pw@a.example",
        "https://a/?b",
        "ftp://a",
        "https://a:b",
        "a",
        "",
    ],
)
def test_only_servers_that_can_be_asked_safely_are_named(address: str) -> None:
    """Plain http would show the key to everybody on the way; a password in an address is not repeated."""
    with pytest.raises(ValueError, match="is written https://host") as caught:
        named_registries([address], {})

    assert "pw" not in str(caught.value)


def test_who_is_named_twice_is_asked_once_and_no_key_is_shown() -> None:
    """With the key it was first named with."""
    named = named_planes([A, B, A], {"AGENTFIELD_API_KEY": "one two three"})

    assert named == [Named(A, "one"), Named(B, "two")]
    assert "one" not in repr(named)

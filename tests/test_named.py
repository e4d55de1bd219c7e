"""Addresses that a user may name, and which control plane gets which key."""

import pytest

from switchboard.named import NamedPlane, is_nameable, named_planes


@pytest.mark.parametrize(
    ("address", "may"),
    [
        ("https://plane.example", True),
        ("https://192.168.1.1:8443/prefix", True),
        ("http://localhost:8080", True),
        ("http://127.0.0.1", True),
        ("http://[::1]:8080", True),
        ("http://plane.example", False),
        ("http://192.168.1.1", False),
        ("https://me:pass@plane.example", False),
        ("https://plane.example?key=x", False),
        ("https://plane.example#x", False),
        ("ftp://plane.example", False),
        ("plane.example", False),
        ("https://plane.example:port", False),
        ("https://[::1", False),
        ("", False),
    ],
)
def test_what_may_be_named(address: str, may: bool) -> None:
    """Https anywhere, plain http on this machine, and nothing secret in it."""
    assert is_nameable(address) is may


A, B = "https://a.example", "https://b.example"


@pytest.mark.parametrize(
    ("addresses", "servers", "keys", "expected"),
    [
        ([], "", "", []),
        ([], "", "unused", []),
        ([A], "", "", [NamedPlane(A)]),
        ([A + "/"], B, "k", [NamedPlane(A, "k")]),
        ([], f"{A} {B}", "k", [NamedPlane(A, "k"), NamedPlane(B, "k")]),
        ([A, B], "", "k l", [NamedPlane(A, "k"), NamedPlane(B, "l")]),
        ([A, B], "", "- l", [NamedPlane(A), NamedPlane(B, "l")]),
        ([A, B, A], "", "k l m", [NamedPlane(A, "k"), NamedPlane(B, "l")]),
    ],
)
def test_each_control_plane_gets_its_key(
    addresses: list[str], servers: str, keys: str, expected: list[NamedPlane]
) -> None:
    """One for all, or one for each in order; `-` is none; what is named twice is named once."""
    environment = {"AGENTFIELD_SERVER": servers, "AGENTFIELD_API_KEY": keys}

    assert named_planes(addresses, environment) == expected


@pytest.mark.parametrize(
    ("addresses", "keys"), [([A], "k l"), ([A, B], "k l m"), ([A], "kéy"), (["http://a.example"], "k")]
)
def test_what_is_not_clear_is_refused_and_nothing_repeated(addresses: list[str], keys: str) -> None:
    """Neither a key nor an address stands in the message."""
    with pytest.raises(ValueError, match=r"AGENTFIELD_API_KEY|control plane") as error:
        named_planes(addresses, {"AGENTFIELD_API_KEY": keys})

    assert not any(part in str(error.value) for part in (*keys.split(), "a.example") if len(part) > 1)


def test_a_key_is_not_shown() -> None:
    """Whoever prints a control plane prints its address."""
    assert repr(NamedPlane(A, "hidden")) == f"NamedPlane({A!r})"

"""Addresses nobody may make us call, in every notation."""

import pytest

from switchboard.catalog.addresses import refusal


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "0xa9.254.43518",
        "0251.0376.0251.0376",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fe80::1%25eth0]",
        "169.254.1.1",
        "100.100.100.200",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "0.0.0.0",  # noqa: S104 - nobody binds it here
        "[::]",
        "224.0.0.1",
        "169\u3002254\u3002169\u3002254",
        "\u2460\u2465\u2468.\u2461\u2464\u2463.\u2460\u2465\u2468.\u2461\u2464\u2463",
        "169.254.169%2e254",
        "[::169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[::ffff:0:a9fe:a9fe]",
        "[fd20:ce::254]",
        "168.63.129.16",
        "metadata",
    ],
)
def test_metadata_and_link_local_addresses_are_refused(host: str) -> None:
    """With and without a port."""
    assert refusal(f"http://{host}/latest")
    assert refusal(f"http://{host}:80")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8001",
        "http://10.1.2.3",
        "https://agent.internal/x",
        "http://[::1]:9",
        "http://agent-7:80",
        "http://1.2",
    ],
)
def test_private_and_public_addresses_are_fine(url: str) -> None:
    """Agents live inside."""
    assert refusal(url) is None


@pytest.mark.parametrize("url", ["", "http://", "ftp://a", "http://user@host", "nonsense", "http://a:99999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    """Not called either."""
    assert refusal(url)

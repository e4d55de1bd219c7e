"""Which URL may be called: tables, and what no address can do."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.catalog.errors import RefusedAddress
from switchboard.net.guard import Guard, is_public


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104 - nobody binds it here
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:8.8.8.8",
        "64:ff9b::10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:0:808:808::f5ff:fffe",
        "2001:2::1",
        "2001:10::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2002:a9fe:a9fe::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_an_address_that_is_not_one_host_of_the_internet_is_not_public(address: str) -> None:
    """Private, loopback, link-local, metadata, shared, documentation, and IPv6 around any of them."""
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "198.17.255.255",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2001:200::1",
        "2002:808:808::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::200e",
    ],
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    """The neighbours of what is refused, and networks where IPv4 is reached through IPv6."""
    assert is_public(ip_address(address))


@given(st.ip_addresses(v=4))
def test_nothing_is_public_that_python_calls_private(address: IPv4Address) -> None:
    """Our table is at least as strict as the standard library's."""
    assert address.is_global or not is_public(address)


@given(st.ip_addresses(v=4), st.sampled_from([("::ffff:0:0", 0), ("64:ff9b::", 0), ("2002::", 80)]))
def test_wrapping_makes_no_address_public(inner: IPv4Address, form: tuple[str, int]) -> None:
    """IPv4 inside IPv6 is judged as what it is."""
    prefix, shift = form
    assert is_public(IPv6Address(int(IPv6Address(prefix)) | int(inner) << shift)) == is_public(inner)


@given(st.ip_addresses(v=6))
def test_only_global_unicast_and_wrapped_addresses_are_public(address: IPv6Address) -> None:
    """Everything that IANA has not given out yet is refused."""
    wrapped = address in IPv6Network("64:ff9b::/96") or address.ipv4_mapped is not None
    assert address in IPv6Network("2000::/3") or wrapped or not is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "\uff11\uff12\uff17.\uff10.\uff10.\uff11",
        "127\u30020\uff0e0\uff611",
        "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460",
        "127\u00ad.0.0.1",
        "10.0.0.1",
        "0xa9.254.43518",
        "0",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
    ],
)
@pytest.mark.parametrize("port", ["", ":8443"])
def test_an_address_is_seen_through_every_notation(host: str, port: str) -> None:
    """Without any look-up: decimal, hexadecimal, octal, short, full-width, circled, with a dot at the end."""
    with pytest.raises(RefusedAddress):
        Guard().target(f"https://{host}{port}/")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/", "it is not https"),
        ("ftp://example.com/", "it is not https"),
        ("file:///etc/passwd", "it is not https"),
        ("javascript:alert(1)", "it is not https"),
        ("//example.com/", "it is not https"),
        ("example.com", "it is not https"),
        ("", "it is not https"),
        ("https://user@example.com/", "a user name or password stands in it"),
        ("https://user:password@example.com/", "a user name or password stands in it"),
        ("https://@example.com/", "a user name or password stands in it"),
        ("https://example.com:0/", "it cannot be read"),
        ("https://example.com:65536/", "it cannot be read"),
        ("https://example.com:http/", "it cannot be read"),
        ("https://[::1/", "it cannot be read"),
        ("https://exam\tple.com/", "characters stand in it that no address has"),
        ("https://example.com/\r\nX: y", "characters stand in it that no address has"),
        ("https://example.com\\@10.0.0.1/", "characters stand in it that no address has"),
        ("https://", "it has no host that can be looked up"),
        ("https:example.com", "it has no host that can be looked up"),
        ("https://exam ple.com/", "it has no host that can be looked up"),
        ("https://example%2ecom/", "it has no host that can be looked up"),
        ("https://a..b/", "it has no host that can be looked up"),
        ("https://1.2.3.4.5/", "it has no host that can be looked up"),
        ("https://4294967296/", "it has no host that can be looked up"),
        ("https://256.256.256.256/", "it has no host that can be looked up"),
        (f"https://{'a' * 64}.com/", "it has no host that can be looked up"),
        ("https://[fe80::1%25eth0]/", "it has no host that can be looked up"),
        ("https://\u2603.net/", "it has no host that can be looked up"),
    ],
)
def test_a_url_that_is_not_plainly_https_is_refused_and_says_why(url: str, why: str) -> None:
    """What two readers could read differently is not called at all."""
    with pytest.raises(RefusedAddress) as refused:
        Guard().target(url)

    assert refused.value.details["why"] == why


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("https://example.com", "https://example.com/"),
        ("HTTPS://EXAMPLE.com:443/A?b=C#d", "https://example.com/A?b=C"),
        ("https://example.com.:8443/", "https://example.com:8443/"),
        ("https://b\u00fccher.example/\u00fc b?\u00df", "https://xn--bcher-kva.example/%C3%BC%20b?%C3%9F"),
        ("https://stra\u00dfe.example/", "https://xn--strae-oqa.example/"),
        ("https://example.com/a%20b/@c", "https://example.com/a%20b/@c"),
        ("https://0x08080808/", "https://8.8.8.8/"),
        ("https://[2606:4700:4700:0::1111]:444/", "https://[2606:4700:4700::1111]:444/"),
    ],
)
def test_a_url_of_the_internet_has_one_spelling(url: str, spelled: str) -> None:
    """Ports are allowed as given, international names are looked up in their ASCII form."""
    assert Guard().target(url).url == spelled


@pytest.mark.parametrize("url", ["http://127.0.0.1:3000/", "http://[::1]/", "https://127.0.0.1/", "http://localhost/"])
def test_the_users_flag_opens_this_machine(url: str) -> None:
    """What a name leads to is judged when it is connected to."""
    Guard(loopback=True).target(url)

    with pytest.raises(RefusedAddress):
        Guard().target(url.replace("localhost", "127.0.0.1"))


@pytest.mark.parametrize(
    "url", ["http://8.8.8.8/", "https://10.0.0.1/", "http://10.0.0.1/", "https://169.254.169.254/"]
)
def test_the_users_flag_opens_nothing_else(url: str) -> None:
    """Neither plain http to the internet nor the local network."""
    with pytest.raises(RefusedAddress):
        Guard(loopback=True).target(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/path?s3cret",
        "https://s3cret@example.com/",
        "https://me:p@s3cret/word@example.com/",
        "https://me:s3cret\\@example.com/",
        "https://10.0.0.1/path?key=s3cret#s3cret",
        "https://example.com:s3cret/",
        "ftp://me:s3cret@example.com/?s3cret",
        "https://[s3cret]/",
    ],
)
def test_a_refusal_shows_no_secret(url: str) -> None:
    """Secrets travel in queries and userinfo."""
    with pytest.raises(RefusedAddress) as refused:
        Guard().target(url)

    assert "s3cret" not in f"{refused.value} {refused.value.details} {refused.value.__cause__}"

"""Addresses nobody may make us call: cloud metadata services and link-local hosts, in every notation of an address.

Private addresses are fine for agents, which live inside. This looks at the text of an address only; what a name
resolves to is looked at by whoever connects.
"""

import ipaddress
import re
import unicodedata

_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254")
)
_MOST_PARTS = 4
_LARGEST_PART = 255
_HIGHEST_PORT = 65535
_HOST = re.compile(r"https?://(?:\[([^\]/]+)\]|([^\s/?#@:\[\]]+))(?::(\d{1,5}))?(?:[/?#]|$)", re.IGNORECASE)
_DOTS = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def refusal(url: str) -> str | None:
    """Return why this address must not be called, or None."""
    match = _HOST.match(url)
    if match is None or int(match[3] or 0) > _HIGHEST_PORT:
        return "is not an http address with a host"
    # What looks like a digit or a dot becomes one when a name is looked up, so it does here.
    name = unicodedata.normalize("NFKC", (match[1] or match[2]).translate(_DOTS)).rstrip(".").lower()
    if "%" in name and match[1] is None:
        return "has a host that is written in code"
    address = literal(name)
    if name in _METADATA_NAMES or address in _METADATA_ADDRESSES:
        return "is a cloud metadata service"
    if address is None:
        return None
    if address.is_link_local:
        return "is a link-local address"
    return "is not the address of one host" if address.is_multicast or address.is_unspecified else None


def origin(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an address in one spelling, to tell whether two lead to the same place."""
    match = _HOST.match(url)
    if match is None:
        return None
    scheme = url.partition(":")[0].lower()
    name = unicodedata.normalize("NFKC", (match[1] or match[2]).translate(_DOTS)).rstrip(".").lower()
    return scheme, str(literal(name) or name), int(match[3] or (443 if scheme == "https" else 80))


def literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read an address in any notation: dotted, IPv6, mapped, decimal, hexadecimal, octal; None for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return _old_notation(host)
    return address if isinstance(address, ipaddress.IPv4Address) else _inside(address) or address


def _inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 one stands for, in any of the ways there are."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    number, last = int(address), int(address) & 0xFFFFFFFF
    translated = number >> 32 in (0xFFFF0000, 0) and last > 1  # ::ffff:0:a.b.c.d and ::a.b.c.d, but not :: and ::1
    return ipaddress.IPv4Address(last) if translated or address in _NAT64 else None


def _old_notation(host: str) -> ipaddress.IPv4Address | None:
    parts = host.split(".")
    if len(parts) > _MOST_PARTS:
        return None
    numbers: list[int] = []
    for part in parts:
        base = 16 if part[:2] in ("0x", "0X") else 8 if part[:1] == "0" and len(part) > 1 else 10
        try:
            numbers.append(int(part, base))
        except ValueError:
            return None
    *first, last = numbers
    if min(numbers) < 0 or max(first, default=0) > _LARGEST_PART or last >= 1 << (32 - 8 * len(first)):
        return None
    value = last
    for i, number in enumerate(first):
        value += number << (24 - 8 * i)
    return ipaddress.IPv4Address(value)

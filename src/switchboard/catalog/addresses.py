"""Addresses nobody may make us call: cloud metadata services and link-local hosts, in every notation of an address.

Private addresses are fine for agents, which live inside. This looks at the text of an address only; what a name
resolves to is looked at by whoever connects.
"""

import ipaddress
import re

_METADATA_NAMES = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_METADATA_ADDRESSES = frozenset(
    ipaddress.ip_address(text) for text in ("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")
)
_MOST_PARTS = 4
_HOST = re.compile(r"https?://(?:\[([^\]/]+)\]|([^\s/?#@:\[\]]+))(?::\d+)?(?:[/?#]|$)", re.IGNORECASE)


def refusal(url: str) -> str | None:
    """Return why this address must not be called, or None."""
    match = _HOST.match(url)
    if match is None:
        return "is not an http address with a host"
    name = (match[1] or match[2]).rstrip(".").lower()
    address = literal(name)
    if name in _METADATA_NAMES or address in _METADATA_ADDRESSES:
        return "is a cloud metadata service"
    if address is None:
        return None
    if address.is_link_local:
        return "is a link-local address"
    return "is not the address of one host" if address.is_multicast or address.is_unspecified else None


def literal(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Read an address in any notation: dotted, IPv6, mapped, decimal, hexadecimal, octal; None for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return _old_notation(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


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
    value = numbers[-1]
    for i, number in enumerate(numbers[:-1]):
        value += number << (24 - 8 * i)
    return ipaddress.IPv4Address(value) if 0 <= value < 2**32 and min(numbers) >= 0 else None

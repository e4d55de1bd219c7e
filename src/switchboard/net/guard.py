"""Which URL may be called, and which address is public: decisions only, no I/O.

What is decided about a name here is never the last word: whoever connects asks `objection` about the address that the
name led to, and connects to that address. Nothing in a message comes from a query, a fragment or userinfo.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal, final
from urllib.parse import SplitResult, quote, urlsplit

import idna
from msgspec import Struct

from switchboard.catalog.addresses import literal
from switchboard.catalog.caches import Cache
from switchboard.catalog.errors import RefusedAddress

Address = IPv4Address | IPv6Address
Scheme = Literal["http", "https"]

MOST_KNOWN = 256
_LONGEST_KNOWN = 500
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNREADABLE = "(address not shown)"

# Python's `is_global` changes its mind between patch releases, so the registries of IANA stand here:
# https://www.iana.org/assignments/iana-ipv4-special-registry and .../iana-ipv6-special-registry.
_NOT_PUBLIC_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by customers of a provider; Alibaba's metadata lives here too
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's metadata, the one that is inside a public range
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocols of the IETF: Teredo, benchmarking, ORCHID
        "2001:db8::/32",
        "3fff::/20",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA = frozenset(
    map(ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
_LOOPBACK_4 = IPv4Network("127.0.0.0/8")
_LOOPBACK_6 = IPv6Address("::1")

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")
_NAME = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
# The rule of browsers: what ends like a number is an address, or nothing.
_NUMBER_AT_END = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)$")
_PATH_SAFE = "/%:@!$&'()*+,;=~[]|^"


class Target(Struct, frozen=True, kw_only=True):
    """A URL taken apart once, so that what was checked is what is called."""

    scheme: Scheme
    host: str
    port: int
    path: str
    query: str
    address: Address | None
    """What the host is when it is no name."""

    @property
    def origin(self) -> tuple[Scheme, str, int]:
        """Return what has to stay the same for headers to be sent on."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Return host and port as the Host header has them."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """Return what a message may show: secrets travel in queries."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def resource(self) -> str:
        """Return path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def url(self) -> str:
        """Return the whole URL, in one spelling."""
        return f"{self.scheme}://{self.authority}{self.resource}"


def is_public(address: Address) -> bool:
    """Say whether an address belongs to one host of the public internet, in whatever form it is wrapped."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    inner = _inside(address)
    if inner is not None:
        return is_public(inner)
    return address in _UNICAST_6 and not any(address in network for network in _NOT_PUBLIC_6)


def is_reachable(address: Address) -> bool:
    """Say whether an address may be called because the user named it: also inside their network, never metadata."""
    if isinstance(address, IPv6Address):
        inner = _inside(address)
        if inner is not None:
            return is_reachable(inner)
    refused = address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA
    return not refused


def is_loopback(address: Address) -> bool:
    """Say whether an address is this machine."""
    return address in _LOOPBACK_4 if isinstance(address, IPv4Address) else address == _LOOPBACK_6


@final
class Guard:
    """What may be called: public addresses over https, this machine if the user said so, http where it is usual."""

    def __init__(
        self,
        *,
        loopback: bool = False,
        plain: bool = False,
        permitted: Callable[[Address], bool] = is_public,
        most_known: int = MOST_KNOWN,
    ) -> None:
        self._loopback = loopback
        self._plain = plain
        self._permitted = permitted
        # Tools are called at the same few addresses again and again; what an address is does not change.
        self._known: Cache[str, Target] = Cache(most_known)

    def target(self, url: str) -> Target:
        """Take a URL apart.

        Raises:
            RefusedAddress: it must not be called, or cannot be read.
        """
        known = self._known.get(url)
        if known is None:
            known = self._read(url)
            if len(url) <= _LONGEST_KNOWN:
                self._known.keep(url, known)
        return known

    def _read(self, url: str) -> Target:
        target = _target(url)
        why = self._objection_to(target)
        if why:
            raise RefusedAddress(target.shown, why)
        return target

    def objection(self, scheme: Scheme, address: Address) -> str | None:
        """Return why nobody may connect to this address, or None."""
        if is_loopback(address) and self._loopback:
            return None
        if scheme == "http" and not self._plain:
            return f"{address} is not this machine, and anything else needs https"
        if self._permitted(address):
            return None
        return f"{address} is this machine; --dev allows that" if is_loopback(address) else f"{address} is not public"

    def _objection_to(self, target: Target) -> str | None:
        if target.scheme == "http" and not self._loopback and not self._plain:
            return "it is not https"
        return None if target.address is None else self.objection(target.scheme, target.address)


def read(url: str) -> Target | None:
    """Take a URL apart to show it or to compare it, whether or not it may be called; None where it cannot be read.

    A name is in the letters that are looked up: those of another script that look like it are not its letters.
    """
    try:
        return _target(url)
    except RefusedAddress:
        return None


def _target(url: str) -> Target:
    parts = _split(url)
    if parts.scheme not in ("http", "https"):
        raise RefusedAddress(_shown(parts), "it is not https")
    scheme: Scheme = "https" if parts.scheme == "https" else "http"
    host, address = _host(parts)
    return Target(
        scheme=scheme,
        host=host,
        port=_port(parts) or _DEFAULT_PORTS[scheme],
        path=quote(parts.path, safe=_PATH_SAFE) or "/",
        query=quote(parts.query, safe=_PATH_SAFE + "?"),
        address=address,
    )


def _inside(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that a packet to this IPv6 one would reach."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _split(url: str) -> SplitResult:
    # `urlsplit` would silently drop tabs and newlines, and browsers read a backslash as a slash.
    if _CONTROLS.search(url):
        raise RefusedAddress(_UNREADABLE, "characters stand in it that no address has")
    try:
        parts = urlsplit(url)
        _port(parts)
    except ValueError:
        # The text of the error repeats what may be a password.
        raise RefusedAddress(_UNREADABLE, "it cannot be read") from None
    if "@" in parts.netloc:
        # Nothing of it is shown: a password with a slash would look like a host and a path.
        raise RefusedAddress(_UNREADABLE, "a user name or password stands in it")
    return parts


def _port(parts: SplitResult) -> int | None:
    if parts.port == 0:
        raise ValueError
    return parts.port


def _host(parts: SplitResult) -> tuple[str, Address | None]:
    """Return the host in its one spelling, and the address if it is one."""
    text = parts.hostname or ""
    try:
        if "[" in parts.netloc:
            return _ip6(text)
        name = (text if text.isascii() else idna.encode(text, uts46=True).decode()).removesuffix(".")
    except ValueError:
        raise RefusedAddress(_UNREADABLE, "it has no host that can be looked up") from None
    address = literal(name) if _NUMBER_AT_END.search(name) else None
    if address is not None:
        return str(address), address
    if not _NAME.fullmatch(name) or _NUMBER_AT_END.search(name):
        raise RefusedAddress(_UNREADABLE, "it has no host that can be looked up")
    return name, None


def _ip6(text: str) -> tuple[str, IPv6Address]:
    address = IPv6Address(text)
    if address.scope_id is not None:
        raise ValueError
    return str(address), address


def _shown(parts: SplitResult) -> str:
    """Return what a message may show of an address that is not even http."""
    if not parts.scheme:
        return _UNREADABLE
    return f"{parts.scheme}://{parts.hostname}" if _NAME.fullmatch(parts.hostname or "") else f"{parts.scheme}:"

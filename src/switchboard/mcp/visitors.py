"""From where a program or a page may come to an MCP endpoint: its `Host` and its `Origin`. Pure.

A page of any site can make a browser send requests to this machine, under a name that it has led here a moment ago (DNS
rebinding). The name is then in `Host`, and the site in `Origin`. Programs send no `Origin`.
"""

import ipaddress
from urllib.parse import urlsplit

from msgspec import Struct

_PORTS = {"http": 80, "https": 443}


class Visitors(Struct, frozen=True, kw_only=True):
    """What a server knows of its own addresses, and the pages it trusts."""

    is_local: bool
    """Whether only this machine can reach the server."""
    public_url: str = ""
    """What others call it, where it is behind something else."""
    origins: frozenset[str] = frozenset()
    """Pages of other sites that may come, as `scheme://host[:port]`."""

    def refusal(self, hosts: list[str], origins: list[str]) -> str | None:
        """Return why a request with these headers is not taken; None if it is."""
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            known = "localhost or 127.0.0.1" + (f", or as in public_url ({self.public_url})" if self.public_url else "")
            return f"This server is not called that. Call it {known}."
        if any(not self._may_come(origin, hosts[0]) for origin in origins) or len(origins) > 1:
            return "Pages of this origin may not come here. The setting mcp_origins names those that may."
        return None

    def is_named(self, origin: str) -> bool:
        """Tell whether the settings name an origin: only its pages may read answers in a browser."""
        return origin.lower() in self.origins

    def _is_ours(self, host: str) -> bool:
        """Tell whether a name is this server's; an address that is written as such cannot have been led here."""
        name = None if set(host) & set("/?#\\") else _hostname(f"//{host}")
        if name is None:
            return False
        if is_loopback(name) or (self.public_url and name == _hostname(self.public_url)):
            return True
        return not self.is_local and (not self.public_url or _is_address(name))

    def _may_come(self, origin: str, host: str) -> bool:
        if self.is_named(origin):
            return True
        parts = _origin(origin)
        if parts is None:
            return False
        scheme, name, port = parts
        if self.public_url and parts == _origin("{0.scheme}://{0.netloc}".format(urlsplit(self.public_url))):
            return True
        own = _origin(f"{scheme}://{host}")
        return own == (scheme, name, port) or (self.is_local and is_loopback(name))


def is_loopback(name: str) -> bool:
    """Tell whether a name always means the machine that uses it."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _hostname(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        _ = parts.port  # says whether it is one
    except ValueError:
        return None
    return None if "@" in parts.netloc else parts.hostname


def _origin(text: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port; None for what no page comes from."""
    try:
        parts = urlsplit(text.lower())
        port = parts.port
    except ValueError:
        return None
    is_bare = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc or "?" in text or "#" in text)
    if parts.scheme not in _PORTS or not parts.hostname or not is_bare:
        return None
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme]

"""Addresses that the user names to look at: registries, control planes with their keys. Light, for it runs first."""

import ipaddress
import os
from typing import NamedTuple
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEYS = "AGENTFIELD_API_KEY"
SERVERS = "AGENTFIELD_SERVER"


class NamedPlane(NamedTuple):
    """A control plane that the user named, and the key it is to get; None for none."""

    url: str
    key: str | None = None

    def __repr__(self) -> str:
        return f"NamedPlane({self.url!r})"


def is_nameable(address: str) -> bool:
    """Tell whether a user may name an address to look at: https anywhere, plain http on this machine."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return bool(host) and plain and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def named_planes(addresses: "Sequence[str]", environment: "Mapping[str, str]" = os.environ) -> list[NamedPlane]:
    """Return the control planes with these addresses, or of the environment where there are none, each with its key.

    Raises:
        ValueError: one cannot be named, or it is not clear which key is whose; neither is repeated in the message.
    """
    urls = [url.rstrip("/") for url in addresses or environment.get(SERVERS, "").split()]
    if not all(map(is_nameable, urls)):
        raise ValueError(
            "a control plane is written https://host, or http://localhost:PORT, without a user name or a query."
        )
    keys = environment.get(KEYS, "").split() if urls else []
    if not all(key.isascii() and key.isprintable() for key in keys):
        raise ValueError("a key in AGENTFIELD_API_KEY is not plain ASCII.")
    if len(keys) <= 1:
        keys = [*(keys or ["-"])] * len(urls)
    if len(keys) != len(urls):
        raise ValueError(
            f"AGENTFIELD_API_KEY has {len(keys)} keys for {len(urls)} control planes: give one for all of them, or one "
            "for each in their order, separated by spaces, with - for none."
        )
    first = dict(reversed(list(zip(urls, keys, strict=True))))
    return [NamedPlane(url, None if first[url] == "-" else first[url]) for url in dict.fromkeys(urls)]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a server on this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Addresses that the user names to look at, registries and control planes, with their keys. Light: it runs first."""

import ipaddress
import os
from typing import NamedTuple
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEYS, SERVERS = "AGENTFIELD_API_KEY", "AGENTFIELD_SERVER"
REGISTRY_KEYS, REGISTRIES = "AAI_REGISTRY_KEY", "AAI_REGISTRY_URL"


class Named(NamedTuple):
    """A server that the user named, and the key it is to get; None for none."""

    url: str
    key: str | None = None

    def __repr__(self) -> str:
        return f"Named({self.url!r})"


def named_planes(addresses: "Sequence[str]", environment: "Mapping[str, str]" = os.environ) -> list[Named]:
    """Return the control planes with these addresses, or of the environment where there are none, each with its key.

    Raises:
        ValueError: one cannot be named, or it is not clear which key is whose; neither is repeated in the message.
    """
    return _named("control plane", addresses or environment.get(SERVERS, "").split(), KEYS, environment)


def named_registries(addresses: "Sequence[str]", environment: "Mapping[str, str]" = os.environ) -> list[Named]:
    """Return the registries with these addresses, or of the environment, as `named_planes` does.

    Raises:
        ValueError: as there.
    """
    return _named("registry", addresses or environment.get(REGISTRIES, "").split(), REGISTRY_KEYS, environment)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a server on this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _named(what: str, addresses: "Sequence[str]", variable: str, environment: "Mapping[str, str]") -> list[Named]:
    urls = [address.rstrip("/") for address in addresses]
    if not all(map(_is_nameable, urls)):
        # Not repeated here: who writes a password into an address does not want to read it in a log.
        raise ValueError(f"a {what} is written https://host, or http://localhost:PORT, without a user name or a query.")
    keys = environment.get(variable, "").split() if urls else []
    if not all(key.isascii() and key.isprintable() for key in keys):
        raise ValueError(f"a key in {variable} is not plain ASCII.")
    if len(keys) <= 1:
        keys = [*(keys or ["-"])] * len(urls)
    if len(keys) != len(urls):
        raise ValueError(
            f"{variable} has {len(keys)} keys for {len(urls)} addresses of a {what}: give one key for all of them, or "
            "one for each in their order, separated by spaces, with - for none."
        )
    first = dict(reversed(list(zip(urls, keys, strict=True))))
    return [Named(url, None if first[url] == "-" else first[url]) for url in dict.fromkeys(urls)]


def _is_nameable(address: str) -> bool:
    """Tell whether a user may name an address to look at: https anywhere, plain http on this machine."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return bool(host) and plain and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))

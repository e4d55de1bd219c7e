"""Who is at the other end of a connection within this machine: the same user, or another one.

A loopback address is open to every user of the machine. Linux tells whose each connection is; macOS and Windows do not
tell an ordinary program, and there the token in the address has to do.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCALHOST = ("0100007F", "7F000001")
"""127.0.0.1 as the kernel writes it, on machines of either byte order; at the end of an IPv6 address, too."""
_ESTABLISHED = "01"
_ROOT = 0


def is_foreign(client_port: int, server_port: int) -> bool:
    """Return whether another user, who is not root, has connected from one port of 127.0.0.1 to our other.

    Root may be a relay that the person has set up, and can read everything anyway.
    """
    if not hasattr(os, "getuid") or _is_wsl():
        return False
    rows = dict(_connections({(client_port, server_port), (server_port, 0)}))
    if (server_port, 0) not in rows:
        return False  # the tables do not even have our listening socket: they say nothing here
    owner, state = rows.get((client_port, server_port), (None, ""))
    if owner == _ROOT:
        # A connection whose program has gone counts as root's: who shouts and runs away must not pass for root.
        return state != _ESTABLISHED
    return owner != os.getuid()


def _is_wsl() -> bool:
    """Whether the browser is outside, on Windows, where no table of ours can have it."""
    return "microsoft" in os.uname().release.lower()


def _connections(wanted: set[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, str]]]:
    for table in _TABLES:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, state, _, _, _, owner, *_ = line.split()
            ends = (_port(local), _port(remote))
            if ends in wanted:
                yield ends, (int(owner), state)


def _port(address: str) -> int:
    host, _, port = address.partition(":")
    return int(port, 16) if host.endswith(_LOCALHOST) else 0

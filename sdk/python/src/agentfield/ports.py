"""Where an agent listens, and where its control plane reaches it."""

import os
import socket
from urllib.parse import urlsplit

DEFAULT_PORT = 8001
_BACKLOG = 2048


def open_port(host: str, port: int | None) -> socket.socket:
    """Open a port: the one asked for, the one in `PORT`, or 8001, or any that is free if nobody asked."""
    wanted = port if port is not None else int(os.environ.get("PORT", "0") or 0)
    if wanted or port is not None:
        return _bound(host, wanted)
    try:
        return _bound(host, DEFAULT_PORT)
    except OSError:
        return _bound(host, 0)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows it would let two agents have one port
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
        opened.listen(_BACKLOG)  # from here on nobody is refused, though nobody is answered yet
    except OSError:
        opened.close()
        raise
    return opened


def address_of(opened: socket.socket, server_url: str, wanted: str | None) -> str:
    """Return where the control plane reaches us: as told, or by the address that leads to it."""
    given = wanted or os.environ.get("AGENT_CALLBACK_URL", "")
    if given:
        return given.rstrip("/")
    host, port = opened.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not opened
        host = _outward(server_url)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _outward(server_url: str) -> str:
    """Return our own address on the way to the server; nothing is sent."""
    parts = urlsplit(server_url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((parts.hostname or "127.0.0.1", parts.port or 80))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])

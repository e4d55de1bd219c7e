"""Where an agent listens, and what it registers as its address."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from agentfield.ports import address_of, open_port

SERVER = "http://127.0.0.1:8080"


@contextmanager
def environment(**more: str) -> Generator[None]:
    """Have variables for a while."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_port_is_the_one_asked_for_or_of_the_environment_or_any_that_is_free() -> None:
    """A port that was asked for and is taken is a mistake; one that nobody asked for is replaced."""
    with open_port("127.0.0.1", 0) as free:
        taken = int(free.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            open_port("127.0.0.1", taken)
        with environment(PORT=str(taken)), pytest.raises(OSError, match="in use"):
            open_port("127.0.0.1", None)
    with environment(PORT=str(taken)), open_port("127.0.0.1", None) as named:
        assert named.getsockname()[1] == taken
    with environment(PORT=""), open_port("127.0.0.1", None) as first, open_port("127.0.0.1", None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]


def test_an_agent_says_where_it_listens_unless_it_is_told_otherwise() -> None:
    """By argument, by environment, by the address that leads to the control plane."""
    with open_port("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        assert address_of(opened, SERVER, None) == f"http://127.0.0.1:{port}"
        assert address_of(opened, SERVER, "https://agent.example/x/") == "https://agent.example/x"
        with environment(AGENT_CALLBACK_URL="http://agent:9000/"):
            assert address_of(opened, SERVER, None) == "http://agent:9000"
    with open_port("0.0.0.0", 0) as everywhere:  # noqa: S104 - that is the case
        port = everywhere.getsockname()[1]
        assert address_of(everywhere, SERVER, None) == f"http://127.0.0.1:{port}"
        assert address_of(everywhere, "http://nowhere.invalid", None) == f"http://127.0.0.1:{port}"


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_address_of_version_6_stands_in_brackets() -> None:
    """As URLs have it."""
    try:
        opened = open_port("::1", 0)
    except OSError:
        pytest.skip("this machine has no loopback of version 6")
    with opened:
        assert address_of(opened, SERVER, None) == f"http://[::1]:{opened.getsockname()[1]}"

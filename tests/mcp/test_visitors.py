"""From where somebody may come to an MCP endpoint, as a table: names that are led here, and pages of other sites."""

import pytest

from switchboard.mcp.visitors import Visitors

LOCAL = Visitors(is_local=True)
PROXIED = Visitors(is_local=True, public_url="https://agents.example/switchboard")
OPEN = Visitors(is_local=False)
NAMED = Visitors(is_local=False, public_url="https://agents.example", origins=frozenset({"https://chat.example"}))


@pytest.mark.parametrize(
    ("visitors", "host", "origin", "is_let_in"),
    [
        (LOCAL, "localhost:8080", None, True),
        (LOCAL, "LOCALHOST", None, True),
        (LOCAL, "127.0.0.1:8080", None, True),
        (LOCAL, "127.8.8.8", None, True),
        (LOCAL, "[::1]:8080", None, True),
        (LOCAL, "agents.example", None, False),
        (LOCAL, "10.0.0.5", None, False),
        (LOCAL, "0177.0.0.1", None, False),
        (LOCAL, "localhost:x", None, False),
        (LOCAL, "[::1", None, False),
        (LOCAL, "", None, False),
        (LOCAL, "evil.example/@localhost", None, False),
        (LOCAL, "evil.example#localhost", None, False),
        (LOCAL, "localhost:8080", "http://localhost:3000", True),
        (LOCAL, "localhost:8080", "http://[::1]:3000", True),
        (LOCAL, "localhost:8080", "http://evil.example", False),
        (LOCAL, "localhost:8080", "chrome-extension://abc", False),
        (LOCAL, "localhost:8080", "http://localhost:3000/path", False),
        (LOCAL, "localhost:8080", "http://localhost:99999", False),
        (PROXIED, "agents.example", None, True),
        (PROXIED, "AGENTS.example:443", "https://agents.example", True),
        (PROXIED, "localhost:8080", "https://agents.example", True),
        (PROXIED, "other.example", "https://other.example", False),
        (OPEN, "whatever.example", None, True),
        (OPEN, "whatever.example:8080", "http://whatever.example:8080", True),
        (OPEN, "whatever.example:8080", "http://whatever.example", False),
        (OPEN, "whatever.example", "https://other.example", False),
        (OPEN, "10.0.0.5", "http://localhost:3000", False),
        (NAMED, "agents.example", "https://chat.example", True),
        (NAMED, "agents.example", "https://CHAT.example", True),
        (NAMED, "agents.example", "http://chat.example", False),
        (NAMED, "agents.example", "https://chat.example.evil.example", False),
        (NAMED, "10.0.0.5:8080", None, True),
        (NAMED, "rebound.example", None, False),
        (NAMED, "rebound.example", "http://rebound.example", False),
    ],
)
def test_a_request_is_taken_from_where_it_may_come(
    visitors: Visitors, host: str, origin: str | None, is_let_in: bool
) -> None:
    """Programs send no origin; a name counts where it may have been led here, an address cannot have been."""
    refusal = visitors.refusal([host], [] if origin is None else [origin])

    assert (refusal is None) == is_let_in


def test_a_header_that_is_there_twice_or_not_at_all_is_no_proof() -> None:
    """Whoever is on the way may have looked at the other one."""
    assert LOCAL.refusal([], []) is not None
    assert LOCAL.refusal(["localhost", "localhost"], []) is not None
    assert LOCAL.refusal(["localhost"], ["http://localhost", "http://localhost"]) is not None

"""What the benchmark of executions is held to, and that it compares like with like."""

import http.client
import sys
from pathlib import Path

from bench.http_servers import running

from bench import execute


def test_the_benchmark_holds_executions_to_their_targets() -> None:
    """Under 3 ms on the control plane, 500 accepted a second, under 1 ms through the gateway, of it for consent."""
    assert execute.TARGETS == {"control plane": 3.0, "accepted": 500.0, "gateway": 1.0, "consent": 1.0}


def test_both_sides_take_turns() -> None:
    """So that whatever slows the machine down slows down both."""
    calls: list[str] = []

    over, direct = execute.against("a", lambda: calls.append("direct"), lambda: calls.append("through"), 3.0)

    assert set(zip(calls[::2], calls[1::2], strict=True)) == {("direct", "through")}
    assert (over.name, over.unit, over.target) == ("a: over a direct call", "ms", 3.0)
    assert (direct.name, direct.target) == ("a: the direct call", None)


def test_what_is_called_answers_every_request_of_a_kept_connection(tmp_path: Path) -> None:
    """Also one whose body comes in pieces."""
    with running([sys.executable, "-m", "bench.execute"], int, tmp_path / "log") as callee:
        connection = http.client.HTTPConnection("127.0.0.1", callee.port, timeout=30)
        answers: list[bytes] = []
        for body in (b"{}", (piece for piece in (b'{"a"', b": 1}"))):
            connection.request("POST", "/", body, {"Content-Length": "2" if body == b"{}" else "8"})
            answers.append(connection.getresponse().read())
        connection.close()

    assert answers[0] == answers[1]
    assert answers[0].startswith(b'{"summary":"y')

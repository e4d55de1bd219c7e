"""The floor of the discovery benchmark: the product's own HTTP server, sending answers it holds in memory.

`python -m bench.floor FILE [at-once]` reads the answers from a file, prints its port, and serves until it is told to
stop. A query that is in the file gets its own answer, every other one the last answer of the file. With `at-once` the
answer is given where discovery gives its own: before an application is called.
"""

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from switchboard.rest.questions import Wishes
from switchboard.rest.replies import Reply
from switchboard.rest.server import Server, bind


class Answer(Struct, frozen=True):
    """What a query gets: the same bytes that the product sent."""

    query: bytes
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Floor:
    """The smallest application there is: no question is read."""

    def __init__(self, answers: list[Answer]) -> None:
        self._messages = {answer.query: _messages(answer) for answer in answers}
        self._last = _messages(answers[-1])
        self._replies = {answer.query: _reply(answer) for answer in answers}
        self._last_reply = _reply(answers[-1])
        self._again: dict[bytes, tuple[bytes, bytes]] = {}
        self.again = self._again.get
        """Return the answer to a request that came before."""

    async def __call__(self, scope: dict[str, Any], _: object, send: Any) -> None:
        """Send an answer."""
        start, body = self._messages.get(scope["query_string"], self._last)
        await send(start)
        await send(body)

    def admitted(self, *_: object) -> Wishes:
        """Let everybody in."""
        return Wishes("", b"", b"")

    def at_once(self, _method: bytes, url: bytes, _wishes: object, request: bytes = b"", opening: bytes = b"") -> Reply:
        """Return an answer, which is the same for the same request."""
        reply = self._replies.get(url.partition(b"?")[2], self._last_reply)
        if request and isinstance(reply.body, bytes):
            self._again[request] = b"%b%b\r\n" % (opening, reply.head), reply.body
        return reply


def _messages(answer: Answer) -> tuple[dict[str, Any], dict[str, Any]]:
    start = {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
    return start, {"type": "http.response.body", "body": answer.body}


def _reply(answer: Answer) -> Reply:
    return Reply(answer.status, b"".join(b"%b: %b\r\n" % header for header in answer.headers), answer.body)


def main(file: str, way: str = "") -> None:
    """Serve the answers of a file."""
    floor = Floor(msgspec.msgpack.decode(Path(file).read_bytes(), type=list[Answer]))
    gc.collect()
    gc.freeze()
    with (
        bind("127.0.0.1", 0) as listener,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        port = listener.getsockname()[1]
        at_once = floor if way else None
        server = Server(
            floor,
            begun=lambda: print(port, flush=True),
            leaving=lambda: None,
            ending=lambda: None,
            closing=lambda: None,
            at_once=at_once,
        )
        runner.run(server.serve(sockets=[listener]))


if __name__ == "__main__":
    main(*sys.argv[1:])

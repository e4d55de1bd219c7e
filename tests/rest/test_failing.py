"""When something inside fails: the caller gets a clean 500, the log has the context."""

import asyncio
import io
import json
from collections.abc import MutableMapping
from typing import Any

from tests.actions.fakes import HandClock, MemoryStore
from tests.caching import CACHES
from tests.catalog.test_errors import all_classes
from tests.support import requirement

from switchboard.actions.browse import Browse
from switchboard.actions.directory import Directory, View
from switchboard.catalog.errors import SwitchboardError
from switchboard.control_plane import read_stored
from switchboard.rest.answers import STATUS, status_of
from switchboard.rest.discovery import PATH, Discovery
from switchboard.telemetry.logs import Log
from switchboard.telemetry.metrics import Metrics


class BrokenDirectory(Directory):
    """Fails in a way nobody thought of."""

    async def view(self) -> View:
        """Break."""
        raise ZeroDivisionError("a bug")


@requirement("errors:discovery:internal", "logs:discovery:errors")
def test_a_bug_is_a_500_with_a_request_id_and_an_error_in_the_log() -> None:
    """The caller learns nothing of the inside; the log has what is needed to find it."""
    stream, sent = io.BytesIO(), list[MutableMapping[str, Any]]()
    clock = HandClock()
    browse = Browse(BrokenDirectory(MemoryStore(), clock, read_stored))
    discovery = Discovery(browse, clock, Metrics(), Log(stream), "test", caches=CACHES)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def story() -> None:
        scope = {"path": PATH, "method": "GET", "query_string": b"reasoner=x", "headers": [(b"x-request-id", b"req_1")]}
        await discovery(scope, send)

    asyncio.run(story())
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"]) == {
        "error": "internal_error",
        "message": "Failed to retrieve agent capabilities",
        "request_id": "req_1",
    }
    event = json.loads(stream.getvalue())
    assert (event["level"], event["request_id"], event["filters"]["reasoner"]) == ("error", "req_1", "x")
    assert event["error"].startswith("ZeroDivisionError in test_failing.py:")
    assert "a bug" not in json.dumps(event)


def test_an_answer_from_memory_says_so_in_a_header() -> None:
    """`Warning: 110`, since when, and the answer is as good as it was."""
    sent: list[MutableMapping[str, Any]] = []
    store, clock = MemoryStore(), HandClock()
    directory = Directory(store, clock, read_stored)
    discovery = Discovery(Browse(directory), clock, Metrics(), Log(io.BytesIO()), "test", caches=CACHES)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def story() -> None:
        await directory.catch_up()
        clock.time += 31
        store.down = True
        await discovery({"path": PATH, "method": "GET", "query_string": b"", "headers": []}, send)

    asyncio.run(story())
    assert sent[0]["status"] == 200
    assert dict(sent[0]["headers"])[b"warning"].startswith(b'110 switchboard "Response is Stale: no store since 1970')


def test_every_error_of_ours_has_its_status() -> None:
    """One table, no gaps: whatever class is added to the tree finds an answer that is meant."""
    classes = [found for found in all_classes(SwitchboardError) if found is not SwitchboardError]

    missing = [found.__name__ for found in classes if not any(kind in STATUS for kind in found.__mro__)]
    assert missing == []
    assert status_of(SwitchboardError("unknown")) == (500, "internal_error")

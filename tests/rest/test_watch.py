"""GET /api/v1/discovery/watch, asked of a real server: what is told, to whom, and how one goes on after a break."""

import asyncio
import io
import json
import socket
from collections.abc import Iterator, MutableMapping
from contextlib import closing
from pathlib import Path
from typing import Any, final

import pytest
from tests.actions.fakes import HandClock, MemoryStore
from tests.journeys.waiting import wait_until
from tests.rest.test_failing import BrokenDirectory
from tests.servers import ControlPlane, registration
from tests.watchers import DISCOVERY, PATH, Event, Stream

from switchboard.actions.directory import Directory
from switchboard.actions.store_ports import Identified
from switchboard.actions.watch import Limits, Watch
from switchboard.control_plane import read_stored
from switchboard.rest.events import Events
from switchboard.rest.watch import WatchRoute
from switchboard.telemetry.logs import Log
from switchboard.telemetry.metrics import Metrics


@pytest.fixture
def watch(plane: ControlPlane) -> Iterator[Any]:
    """Watch, and hang up at the end."""
    opened: list[Stream] = []

    def begin(last: str = "", **parameters: str) -> Stream:
        opened.append(Stream(plane.url, last, **parameters))
        return opened[-1]

    yield begin
    for stream in opened:
        stream.close()


def store_id(plane: ControlPlane) -> str:
    return plane.client.get("/health").json()["store"]["id"]


def test_a_new_watcher_is_told_to_ask_discovery_first(plane: ControlPlane, watch: Any) -> None:
    """With the version to go on from, the instance, the store, and how many match."""
    plane.register(registration("a", {"r": ["t"]}), registration("b", {"r": []}))

    stream: Stream = watch(tags="t")
    first = stream.next()

    assert stream.lines[0] == "retry: 1000"
    instance = first.id.rpartition("-")[0]
    assert first == Event(
        "snapshot",
        f"{instance}-{first.data['version']}",
        {
            "version": first.data["version"],
            "instance": instance,
            "store": store_id(plane),
            "total_agents": 1,
            "resumed": False,
            "reason": "new",
        },
    )
    assert instance in plane.raw().headers["etag"]
    assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.response.headers["cache-control"] == "no-store"
    assert stream.response.headers["x-request-id"].startswith("req_")


def test_every_kind_of_change_is_told_in_order(plane: ControlPlane, watch: Any) -> None:
    """Registered, changed, health and removed, each with its version; what changes nothing is nothing."""
    stream: Stream = watch()
    begin = stream.next().data["version"]

    plane.register(registration("a", {"r": ["t"]}))
    plane.register(registration("a", {"r": ["t"]}))
    plane.client.post("/api/v1/nodes/a/heartbeat")
    plane.register(registration("a", {"r": ["t"], "more": []}))
    plane.client.post("/api/v1/nodes/a/heartbeat", json={"status": "degraded"})
    plane.client.delete("/api/v1/nodes/a")

    events = [stream.next() for _ in range(4)]
    assert [event.kind for event in events] == ["registered", "changed", "health", "removed"]
    assert [event.data["version"] for event in events] == [begin + 1, begin + 2, begin + 3, begin + 4]
    assert all(event.id.endswith(f"-{event.data['version']}") for event in events)
    assert events[0].data.keys() == {"version", "agent_id", "agent"}
    assert [len(event.data["agent"]["reasoners"]) for event in events[:3]] == [1, 2, 2]
    worse = events[2].data
    assert worse.keys() == {"version", "agent_id", "health_status", "previous", "since", "reason", "agent"}
    assert (worse["health_status"], worse["previous"], worse["reason"]) == ("degraded", "active", "says it is degraded")
    assert (worse["agent"]["health_status"], worse["since"][-1]) == ("degraded", "Z")
    assert events[3].data == {"version": begin + 4, "agent_id": "a", "reason": "deregistered"}


FLAGS: list[dict[str, str]] = [
    {},
    {"include_input_schema": "true", "include_output_schema": "true", "include_examples": "true"},
    {"include_descriptions": "false"},
    {"skill": "s*"},
    {"tags": "t"},
]


@pytest.mark.parametrize("parameters", FLAGS, ids=str)
def test_the_agent_of_an_event_is_what_discovery_says(
    plane: ControlPlane, watch: Any, parameters: dict[str, str]
) -> None:
    """Byte for byte the same fields, with the same flags and filters."""
    stream: Stream = watch(**parameters)
    stream.next()
    described = {"description": "does", "input_schema": {"type": "object"}, "output_schema": {}, "examples": [{"a": 1}]}
    skills: list[dict[str, Any]] = [{"id": "s1", "tags": ["t"], **described}, {"id": "other", "tags": []}]
    plane.register(registration("a", {"r": ["t"]}) | {"skills": skills})

    event = stream.next()
    assert event.kind == "registered"
    (agent,) = plane.discover(**parameters)["capabilities"]
    assert list(event.data["agent"]) == list(agent)
    assert event.data["agent"] == agent


def test_beginning_and_ceasing_to_match_is_coming_and_going(plane: ControlPlane, watch: Any) -> None:
    """For a filter by health, by tag and by name; what a question does not see is no change to it."""
    well: Stream = watch(health_status="active")
    tagged: Stream = watch(tags="t")
    named: Stream = watch(agent="a*", reasoner="think")
    for stream in (well, tagged, named):
        stream.next()

    plane.register(registration("a", {"think": ["t"]}))
    plane.client.post("/api/v1/nodes/a/shutdown")
    plane.register(registration("a", {"think": []}))
    plane.register(registration("a", {"think": [], "act": []}))
    plane.register(registration("b", {"think": ["t"]}))
    plane.client.delete("/api/v1/nodes/a")

    assert [(event.kind, event.data.get("reason")) for event in (well.next() for _ in range(2))] == [
        ("registered", None),
        ("removed", "no_longer_matches"),
    ]
    assert well.kinds(4) == [("registered", "a"), ("changed", "a"), ("registered", "b"), ("removed", "a")]
    assert tagged.kinds(4) == [("registered", "a"), ("health", "a"), ("removed", "a"), ("registered", "b")]
    assert named.kinds(4) == [("registered", "a"), ("health", "a"), ("changed", "a"), ("removed", "a")]
    plane.register(registration("a", {"think": ["t"]}))
    for stream in (well, tagged, named):  # nothing came in between
        assert stream.kinds(1) == [("registered", "a")]


def test_one_who_comes_back_gets_exactly_what_was_missed(plane: ControlPlane, watch: Any) -> None:
    """`Last-Event-ID` leads to `resumed` with the number of events, and then to each of them; nothing twice."""
    stream: Stream = watch(agent="a*")
    stream.next()
    plane.register(registration("a1", {"r": []}))
    last = stream.next().id
    stream.close()
    plane.register(registration("a2", {"r": []}), registration("b", {"r": []}))
    plane.client.delete("/api/v1/nodes/a1")

    again: Stream = watch(last, agent="a*")
    resumed = again.next()

    instance, _, version = last.rpartition("-")
    wanted = {"version": int(version), "instance": instance, "store": store_id(plane), "missed": 2}
    assert resumed == Event("resumed", last, wanted)
    assert again.kinds(2) == [("registered", "a2"), ("removed", "a1")]
    plane.register(registration("a3", {"r": []}))
    assert again.kinds(1) == [("registered", "a3")]


def test_one_who_missed_nothing_is_told_so(watch: Any) -> None:
    """From the first marker on: its id is a place like any other."""
    first = watch().next()

    resumed = watch(first.id).next()
    assert (resumed.kind, resumed.data["missed"], resumed.id) == ("resumed", 0, first.id)


@pytest.mark.parametrize("last", ["other-5", "nonsense", "x" * 300, "-", "0-9e9", "1-²"])
def test_a_place_on_an_unknown_instance_leads_to_a_fresh_start(watch: Any, last: str) -> None:
    """Whatever is sent: the answer says that it cannot go on, and why."""
    first = watch(last).next()

    assert (first.kind, first.data["reason"]) == ("snapshot", "unknown_instance")


def test_a_place_in_the_future_leads_to_a_fresh_start(watch: Any) -> None:
    """Nobody can have been there."""
    instance = watch().next().id.rpartition("-")[0]

    assert watch(f"{instance}-{10**12}").next().data["reason"] == "too_old"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=5", "limit"),
        ("offset=0", "offset"),
        ("format=xml", "format"),
        ("format=compact", "format"),
        ("agnet=a", "agnet"),
        ("limits=5", "limits"),
        ("health_status=well", "health_status"),
        ("include_examples=maybe", "include_examples"),
    ],
)
def test_a_parameter_that_cannot_be_meant_is_refused_by_name(plane: ControlPlane, query: str, parameter: str) -> None:
    """A watch has no pages and one form."""
    answer = plane.client.get(f"{PATH}?{query}")

    body = answer.json()
    assert (answer.status_code, body["error"], body["details"]["parameter"]) == (400, "invalid_parameter", parameter)
    assert parameter in body["message"]
    assert not {"limit", "offset"} & set(body["details"]["allowed"])


def test_format_json_is_the_same_question(watch: Any) -> None:
    """Said or not."""
    assert watch(format="json").next().kind == "snapshot"


def test_other_methods_are_refused_and_head_is_answered_without_events(plane: ControlPlane) -> None:
    """As everywhere: 405 with what is possible; a path nearby is pointed at."""
    posted, head = plane.client.post(PATH), plane.client.head(PATH)

    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")
    assert (head.status_code, head.headers["content-type"], head.content) == (
        200,
        "text/event-stream; charset=utf-8",
        b"",
    )
    missing = plane.client.get("/api/v1/discovery/wacth")
    assert (missing.status_code, missing.json()["details"]["nearest"][0]) == (404, PATH)


def test_watching_needs_the_key(tmp_path: Path) -> None:
    """Where there is one: without it nothing is told, not even how many there are."""
    plane = ControlPlane(tmp_path, SWITCHBOARD_API_KEY="k-123")

    assert plane.client.get(PATH).status_code == 401
    assert plane.client.get(PATH, headers={"X-API-Key": "k-124"}).status_code == 401
    for header in ({"X-API-Key": "k-123"}, {"Authorization": "Bearer k-123"}):
        stream = Stream(plane.url, "", header)
        assert stream.next().kind == "snapshot"
        stream.close()
    plane.stop()


def test_one_who_hangs_up_is_forgotten(own_plane: ControlPlane) -> None:
    """The gauge goes up and down, events are counted, and the log has both ends of every watch."""
    streams = [Stream(own_plane.url, "", {"X-Request-ID": f"w{number}"}, agent="a") for number in range(3)]
    for stream in streams:
        stream.next()
    assert own_plane.metric("switchboard_watchers") == 3
    own_plane.register(registration("a", {"r": []}))
    for stream in streams:
        stream.next()
        stream.close()
    wait_until(lambda: own_plane.metric("switchboard_watchers") == 0)
    assert own_plane.metric("switchboard_watch_events_total") == 6
    own_plane.stop()

    said = [event for event in own_plane.events() if event.get("request_id") == "w0"]
    assert [event["message"] for event in said] == ["watch begun", "watch ended"]
    assert (said[0]["filters"], said[0]["resumes"]) == ({"agent_ids": ["a"], "format": "json"}, False)
    assert (said[1]["events"], said[1]["ended_by"], said[1]["seconds"] >= 0) == (2, "the watcher", True)


def test_one_who_hangs_up_before_reading_anything_is_forgotten(own_plane: ControlPlane) -> None:
    """Also where nothing else happens."""
    host, port = own_plane.url.removeprefix("http://").split(":")
    for _ in range(20):
        with closing(socket.create_connection((host, int(port)))) as asking:
            asking.sendall(f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

    wait_until(lambda: own_plane.metric("switchboard_watchers") == 0)
    assert own_plane.raw().status_code == 200


@pytest.mark.parametrize("drain", ["0", "3"])
def test_an_instance_that_stops_sends_its_watchers_away(tmp_path: Path, drain: str) -> None:
    """The stream ends as it should, long before requests are refused; whoever comes then is told to come later."""
    plane = ControlPlane(tmp_path, "--drain", drain)
    stream = Stream(plane.url)
    stream.next()

    plane.process.terminate()
    stream.wait_for_the_end()
    if drain != "0":
        refused = plane.client.get(PATH)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"] == "service_unavailable"
        assert plane.client.get(DISCOVERY).status_code == 200
    assert plane.stop() == 0
    stream.close()
    (ended,) = [event for event in plane.events() if event["message"] == "watch ended"]
    assert ended["ended_by"] == "this instance"


def test_after_a_restart_everything_is_asked_for_again(tmp_path: Path) -> None:
    """Versions are counted by a process; the store is the same one, and says so."""
    plane = ControlPlane(tmp_path)
    plane.register(registration("a", {"r": []}))
    stream = Stream(plane.url)
    first = stream.next()
    plane.kill()
    stream.close()

    plane = ControlPlane(tmp_path)
    stream = Stream(plane.url, first.id)
    again = stream.next()
    stream.close()
    assert (again.kind, again.data["reason"], again.data["total_agents"]) == ("snapshot", "unknown_instance", 1)
    assert again.data["store"] == first.data["store"] == store_id(plane)
    assert again.data["instance"] != first.data["instance"]
    plane.stop()


def test_a_reader_that_stops_reading_holds_up_nobody(own_plane: ControlPlane) -> None:
    """Others are told meanwhile; when it reads again it gets everything, in order, each once."""
    host, port = own_plane.url.removeprefix("http://").split(":")
    large = {f"skill-{number}": [f"tag-{number}-{'x' * 400}"] for number in range(200)}
    changes = 60
    with closing(socket.create_connection((host, int(port)))) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(f"GET {PATH} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        quick = Stream(own_plane.url)
        quick.next()
        for number in range(changes):
            own_plane.register(registration("a", skills=large, version=str(number)))
        assert [quick.next().data["agent"]["version"] for _ in range(changes)] == [str(n) for n in range(changes)]
        own_plane.client.delete("/api/v1/nodes/a")
        slow.settimeout(30)
        text = b""
        while b"deregistered" not in text:
            text += slow.recv(1 << 20)
        quick.close()

    kinds = [line.partition(b": ")[2] for line in text.split(b"\n") if line.startswith(b"event: ")]
    assert kinds == [b"snapshot", b"registered", *[b"changed"] * (changes - 1), b"removed"]


def test_health_and_the_events_name_one_store(plane: ControlPlane, watch: Any) -> None:
    """So that whoever knows two addresses can tell whether they are one service."""
    assert watch().next().data["store"] == store_id(plane)
    assert len(store_id(plane)) == 32


def test_a_watcher_of_nothing_hears_nothing(plane: ControlPlane, watch: Any) -> None:
    """An agent without capabilities is in no answer, and so in no event."""
    stream: Stream = watch()
    stream.next()
    plane.register(registration("empty"))
    plane.client.delete("/api/v1/nodes/empty")
    plane.register(registration("a", {"r": []}))

    assert stream.kinds(1) == [("registered", "a")]


def test_silence_is_filled_with_comments() -> None:
    """So that proxies keep the line, and both ends notice when it is dead; a comment is no event."""
    sent: list[MutableMapping[str, Any]] = []
    clock = HandClock()
    directory = Directory(MemoryStore(), clock, read_stored)
    metrics = Metrics()
    watch = Watch(directory, Events("here", Anything(), lambda _: None), "here", Limits(silence_s=0.02))
    route = WatchRoute(watch, clock, metrics, Log(io.BytesIO()))

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        while len(sent) < 5:
            await watch.reassure()
        return {"type": "http.disconnect"}

    async def story() -> None:
        scope: dict[str, Any] = {"path": PATH, "method": "GET", "query_string": b"", "headers": []}
        await asyncio.wait_for(route(scope, receive, send), 30)

    asyncio.run(story())
    bodies = [message["body"] for message in sent[1:]]
    assert bodies[0] == b"retry: 1000\n\n"
    assert bodies[1].startswith(b"event: snapshot\nid: here-0\ndata: {")
    assert set(bodies[2:-1]) == {b": keep-alive\n\n"}
    assert (bodies[-1], sent[-1].get("more_body", False)) == (b"", False)
    assert watch.watchers == 0


def test_a_bug_is_a_500_with_a_line_in_the_log() -> None:
    """The caller learns nothing of the inside."""
    stream, sent = io.BytesIO(), list[MutableMapping[str, Any]]()
    clock = HandClock()
    directory = BrokenDirectory(MemoryStore(), clock, read_stored)
    watch = Watch(directory, Events("here", Anything(), lambda _: None), "here")
    route = WatchRoute(watch, clock, Metrics(), Log(stream))

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    scope = {"path": PATH, "method": "GET", "query_string": b"", "headers": [(b"x-request-id", b"req_1")]}
    asyncio.run(route(scope, receive, send))
    assert (sent[0]["status"], json.loads(sent[1]["body"])["error"]) == (500, "internal_error")
    event = json.loads(stream.getvalue())
    assert (event["message"], event["request_id"]) == ("watch failed", "req_1")
    assert "a bug" not in json.dumps(event)


@final
class Anything(Identified):
    """A store of which only the id is asked."""

    @property
    def id(self) -> str:
        """Return it."""
        return "store"

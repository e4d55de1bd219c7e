"""Watchers as tests have them: one who reads a stream of events, one who keeps a catalogue by it, and a line to cut."""

import asyncio
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import httpx2

PATH = "/api/v1/discovery/watch"
DISCOVERY = "/api/v1/discovery/capabilities"
LIMIT_S = 30.0


@dataclass(frozen=True)
class Event:
    """One event, as it came."""

    kind: str
    id: str
    data: dict[str, Any]


class Stream:
    """Reads events in a thread of its own, until it is closed or the server ends it."""

    def __init__(self, url: str, last: str = "", headers: dict[str, str] | None = None, /, **parameters: str) -> None:
        self.lines: list[str] = []
        self.events: Queue[Event | None] = Queue()
        self.last = last
        self._client = httpx2.Client(timeout=httpx2.Timeout(LIMIT_S, read=None), trust_env=False)
        given = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        given += [(b"Last-Event-ID", last.encode())] if last else []
        request = self._client.build_request("GET", url + PATH, params=parameters, headers=given)
        try:
            self.response = self._client.send(request, stream=True)
            assert self.response.status_code == 200, self.response.read()
        except BaseException:
            self._client.close()
            raise
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def next(self) -> Event:
        """Wait for the next event."""
        event = self.events.get(timeout=LIMIT_S)
        assert event is not None, "the stream has ended"
        return event

    def kinds(self, count: int) -> list[tuple[str, str]]:
        """Wait for so many events, and return what they are and whom they are about."""
        found = [self.next() for _ in range(count)]
        return [(event.kind, event.data.get("agent_id", "")) for event in found]

    def is_quiet(self) -> bool:
        """Tell whether nothing more has come."""
        return self.events.empty()

    def wait_for_the_end(self) -> None:
        """Wait until the server has ended it, reading on."""
        while self.events.get(timeout=LIMIT_S) is not None:
            pass

    def close(self) -> None:
        """Hang up."""
        with suppress(httpx2.HTTPError, RuntimeError, OSError):
            stream = self.response.extensions.get("network_stream")
            if stream is not None:
                stream.get_extra_info("socket").shutdown(2)  # the reader sleeps in a read
        self._thread.join(LIMIT_S)
        self.response.close()
        self._client.close()

    def _read(self) -> None:
        kind, data, identity = "", "", ""
        try:
            for line in self.response.iter_lines():
                self.lines.append(line)
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    data = value
                elif name == "id":
                    identity = value
                elif not line and data:
                    self.last = identity
                    self.events.put(Event(kind, identity, json.loads(data)))
                    kind, data = "", ""
        except (httpx2.HTTPError, OSError):
            pass
        finally:
            self.events.put(None)


class Follower:
    """Keeps a catalogue by watching: asks discovery when told to, applies what follows, comes back when cut off."""

    def __init__(self, url: str, **parameters: str) -> None:
        self._url = url
        self.parameters = parameters
        self._over = threading.Event()
        self._stream: Stream | None = None
        self.agents: dict[str, dict[str, Any]] = {}
        self.versions: list[tuple[str, int]] = []
        self.snapshots: list[str] = []
        self.resumes = 0
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def knows(self, agents: dict[str, dict[str, Any]]) -> bool:
        """Tell whether these are exactly the agents it knows."""
        return self.agents == agents

    def close(self) -> None:
        """Watch no longer."""
        self._over.set()
        if self._stream is not None:
            self._stream.close()
        self._thread.join(LIMIT_S)

    def _follow(self) -> None:
        last = ""
        while not self._over.is_set():
            try:
                self._stream = Stream(self._url, last, **self.parameters)
            except (httpx2.HTTPError, AssertionError):
                self._over.wait(0.02)
                continue
            stream = self._stream
            while (event := self._event(stream)) is not None:
                try:
                    self._apply(event)
                except httpx2.HTTPError:
                    last = ""  # it was told to ask, and could not
                    break
                last = event.id
            stream.close()

    def _event(self, stream: Stream) -> Event | None:
        while not self._over.is_set():
            try:
                return stream.events.get(timeout=0.1)
            except Empty:
                continue
        return None

    def _apply(self, event: Event) -> None:
        match event.kind:
            case "snapshot":
                self.agents = everything(self._url, **self.parameters)
                self.snapshots.append(event.data["reason"])
            case "resumed":
                self.resumes += 1
            case "removed":
                self.agents.pop(event.data["agent_id"], None)
            case _:
                self.agents[event.data["agent_id"]] = lasting(event.data["agent"])
        if event.kind not in ("snapshot", "resumed"):
            instance, _, version = event.id.rpartition("-")
            self.versions.append((instance, int(version)))


def everything(url: str, **parameters: str) -> dict[str, dict[str, Any]]:
    """Return every agent that discovery has, without what heartbeats change."""
    with httpx2.Client(timeout=LIMIT_S, trust_env=False) as client:
        answer = client.get(url + DISCOVERY, params={**parameters, "limit": "500"})
    assert answer.status_code == 200, answer.text
    assert not answer.json()["pagination"]["has_more"]
    return {agent["agent_id"]: lasting(agent) for agent in answer.json()["capabilities"]}


def lasting(agent: dict[str, Any]) -> dict[str, Any]:
    """Return an agent without the time of its last sign of life."""
    return {name: value for name, value in agent.items() if name != "last_heartbeat"}


class Cable:
    """A line to a server that can be cut, and mended; a small TCP proxy."""

    def __init__(self, url: str) -> None:
        self._target = url.removeprefix("http://").split(":")
        self._writers: set[asyncio.StreamWriter] = set()
        self._whole = True
        self.cuts = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connected, "127.0.0.1", 0), self._loop
        ).result(LIMIT_S)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Break every connection, and let nobody through until it is mended."""
        self._run(self._cut)

    def mend(self) -> None:
        """Let connections through again."""
        self._whole = True

    def close(self) -> None:
        """Take it away."""
        self._run(self._cut)
        self._run(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def _run(self, work: Callable[[], None]) -> None:
        async def done() -> None:
            work()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(LIMIT_S)

    def _cut(self) -> None:
        self._whole = False
        self.cuts += 1
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(self._target[0], int(self._target[1]))
        pair = {writer, back}
        self._writers |= pair
        try:
            await asyncio.gather(_pumped(reader, back), _pumped(there, writer))
        finally:
            self._writers -= pair
            for one in pair:
                one.transport.abort()


async def _pumped(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
        sink.close()


@contextmanager
def cable(url: str) -> Generator[Cable]:
    """Have a line for a while."""
    line = Cable(url)
    try:
        yield line
    finally:
        line.close()

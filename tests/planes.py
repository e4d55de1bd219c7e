"""A small control plane on this machine: it says what a test gives it, as AgentField does or with a watch."""

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

DISCOVERY = "/api/v1/discovery/capabilities"
WATCH = "/api/v1/discovery/watch"
_END = b""


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Said(NamedTuple):
    """An answer: a document, or bytes as they are; None as status ends the connection without one."""

    status: int | None = 200
    document: Any = None
    kind: str = "application/json"
    tag: str = ""

    @property
    def content(self) -> bytes:
        """What is sent."""
        if self.status == 304:
            return b""
        return self.document if isinstance(self.document, bytes) else json.dumps(self.document).encode()


Answer = Callable[[Asked], Said]


def item(agent_id: str, *skills: str, health: str = "active", **changes: Any) -> dict[str, Any]:
    """Return an agent as discovery shows it."""
    return {
        "agent_id": agent_id,
        "group_id": agent_id,
        "base_url": "http://127.0.0.1:1",
        "version": "1.0.0",
        "health_status": health,
        "deployment_type": "long_running",
        "last_heartbeat": "2026-11-15T10:00:00Z",
        "reasoners": [],
        "skills": [
            {"id": name, "tags": [], "invocation_target": f"{agent_id}:skill:{name}"} for name in skills or ("act",)
        ],
        **changes,
    }


class SmallPlane:
    """One server; `store` and `watch` are what AgentField's own has not, and a watch that is `mute` never begins."""

    def __init__(
        self,
        *agents: Mapping[str, Any],
        store: str = "",
        watch: bool = False,
        mute: bool = False,
        key: str | None = None,
        port: int = 0,
    ) -> None:
        self.agents: list[Any] = list(agents)
        self.store = store
        self.watch = watch
        self._mute = mute
        self.key = key
        self.asked: list[Asked] = []
        self.answers: dict[str, Answer] = {}
        """What to answer at a path, before anything else."""
        self.version = 1
        self._lock = Lock()
        self._watchers: list[Queue[bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def requests(self, path: str) -> list[Asked]:
        """Return what was asked at a path."""
        return [asked for asked in self.asked if asked.path == path]

    def tell(self, kind: str, **data: Any) -> None:
        """Tell every watcher of something."""
        with self._lock:
            self.version += 1
            self._put(_event(kind, f"instance-{self.version}", {"version": self.version, **data}))

    def send(self, data: bytes) -> None:
        """Send watchers bytes as they are."""
        with self._lock:
            self._put(data)

    def cut(self) -> None:
        """End every watch."""
        self.send(_END)

    @property
    def watchers(self) -> int:
        """How many are told of what happens now; a request is noted a moment before."""
        with self._lock:
            return len(self._watchers)

    def close(self) -> None:
        """Stop listening, and end every watch."""
        self._server.shutdown()
        self._server.server_close()
        self.cut()
        self._thread.join(10)

    def is_watched(self, asked: Asked) -> bool:
        """Tell whether a request begins a watch."""
        is_known = self.key is None or asked.headers.get("x-api-key") == self.key
        return asked.path == WATCH and self.watch and is_known and WATCH not in self.answers

    def _put(self, data: bytes) -> None:
        for watcher in self._watchers:
            watcher.put(data)

    def _answer(self, asked: Asked) -> Said:
        if asked.path in self.answers:
            return self.answers[asked.path](asked)
        if self.key is not None and asked.headers.get("x-api-key") != self.key:
            return Said(401, {"error": "unauthorized", "message": "Send your key."})
        if asked.path == "/health":
            return Said(200, {"status": "healthy", **({"store": {"id": self.store}} if self.store else {})})
        if asked.path == DISCOVERY:
            return self._page(asked)
        return Said(404, {"error": "not_found", "message": "There is nothing here."})

    def _page(self, asked: Asked) -> Said:
        start, size = int(asked.query["offset"]), int(asked.query["limit"])
        tag = f'W/"instance-{self.version}-{start}-{size}"'
        if asked.headers.get("if-none-match") == tag:
            return Said(304, tag=tag)
        found = self.agents[start : start + size]
        pagination = {"limit": size, "offset": start, "has_more": start + size < len(self.agents)}
        document = {"total_agents": len(self.agents), "pagination": pagination, "capabilities": found}
        return Said(200, document, tag=tag)

    def _follow(self, asked: Asked, write: Callable[[bytes], Any]) -> None:
        waiting: Queue[bytes] = Queue()
        with self._lock:
            self._watchers.append(waiting)
            opening = b"" if self._mute else self._opening(asked)
        write(b"retry: 1000\n\n" + opening)
        while (data := waiting.get()) != _END:
            write(data)
        with self._lock:
            self._watchers.remove(waiting)

    def _opening(self, asked: Asked) -> bytes:
        about = {"version": self.version, "instance": "instance", "store": self.store}
        if asked.headers.get("last-event-id") == f"instance-{self.version}":
            return _event("resumed", f"instance-{self.version}", {**about, "missed": 0})
        facts = {**about, "total_agents": len(self.agents), "resumed": False, "reason": "new"}
        return _event("snapshot", f"instance-{self.version}", facts)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        plane = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, parts.path, query, headers, body)
                plane.asked.append(asked)
                if plane.is_watched(asked):
                    self._stream(asked)
                else:
                    self._said(plane._answer(asked))

            def _stream(self, asked: Asked) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.end_headers()

                def write(data: bytes) -> None:
                    self.wfile.write(data)
                    self.wfile.flush()

                try:
                    plane._follow(asked, write)
                except OSError:
                    return  # the watcher has gone

            def _said(self, said: Said) -> None:
                if said.status is None:
                    return
                self.send_response(said.status)
                if said.tag:
                    self.send_header("ETag", said.tag)
                self.send_header("Content-Type", said.kind)
                self.send_header("Content-Length", str(len(said.content)))
                self.end_headers()
                self.wfile.write(said.content)

            do_GET = do_POST = answer  # noqa: N815 - names of the library

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - name of the library
                pass

        return Handler


def _event(kind: str, identity: str, data: Mapping[str, Any]) -> bytes:
    return f"event: {kind}\nid: {identity}\ndata: {json.dumps(data)}\n\n".encode()

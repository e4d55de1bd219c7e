"""The gateway as a client starts it: a process of its own, lines in and lines out."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from types import TracebackType
from typing import Any, NamedTuple, Self, cast

from tests import certificates
from tests.caching import SETTING
from tests.leaks import WATCH, notes_of
from tests.processes import running

ROOT = Path(__file__).resolve().parent.parent
GATEWAY = (str(Path(sys.executable).with_name("aai-gateway")),)
ALLOWED = (sys.executable, str(ROOT / "tests/allowed.py"))
"""The same with a user who says yes to everything, and with `--dev`, so that it may call servers on this machine."""
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What every request of the stateless protocol carries in `_meta`."""
Message = dict[str, Any]


class Gateway:
    """One running gateway with a home of its own; every wait has a limit."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        command: Sequence[str] = GATEWAY,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        self.environment = environment_of(home) | dict(environment or {})
        WATCH.homes.add(home)
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            cwd=home,
        )
        self._next = 0
        self._lines: Queue[bytes | None] = Queue()
        self._kept: list[Message] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._errors: list[bytes] = []
        self._error_reader = Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        self._error_reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def stderr(self) -> str:
        """What it has written to its standard error so far."""
        return b"".join(self._errors).decode()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: object) -> None:
        """Send one message."""
        self.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    def begin(self, method: str, params: Message | None = None) -> int:
        """Send a request without waiting for its answer; return its id."""
        self._next += 1
        self.send(
            {"jsonrpc": "2.0", "id": self._next, "method": method, **({} if params is None else {"params": params})}
        )
        return self._next

    def answer(self, request_id: int, within_s: float = 20) -> Message:
        """Return the whole message that answers a request; others that come before it are kept."""
        return self.receive(lambda message: message.get("id") == request_id and "method" not in message, within_s)

    def ask(self, method: str, params: Message | None = None, within_s: float = 20) -> Message:
        """Send a request, and return the result.

        Raises:
            AssertionError: the answer is an error.
        """
        message = self.answer(self.begin(method, params), within_s)
        assert "result" in message, message
        return cast("Message", message["result"])

    def fails(self, method: str, params: Message | None = None) -> Message:
        """Send a request, and return the JSON-RPC error."""
        message = self.answer(self.begin(method, params))
        assert "error" in message, message
        return cast("Message", message["error"])

    def call(self, name: str, arguments: Message | None = None) -> Message:
        """Call a tool and return its result."""
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}})

    def initialize(self, name: str = "a test", version: str = "2025-11-25", **capabilities: Any) -> Message:
        """Shake hands."""
        client = {"name": name, "version": "1"}
        result = self.ask(
            "initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
        )
        self.notify("notifications/initialized")
        return result

    def modern(self, method: str, **params: Any) -> Message:
        """Ask on the stateless protocol."""
        return self.ask(method, {**params, "_meta": MODERN})

    def notification(self, method: str, within_s: float = 20) -> Message:
        """Wait for a notification."""
        return self.receive(lambda message: message.get("method") == method, within_s)

    def receive(self, wanted: Callable[[Message], bool] | None = None, within_s: float = 20) -> Message:
        """Return the first message that is wanted; the others stay for later."""
        wanted = wanted or (lambda _: True)
        for index, message in enumerate(self._kept):
            if wanted(message):
                return self._kept.pop(index)
        while True:
            try:
                line = self._lines.get(timeout=within_s)
            except Empty:
                raise AssertionError(f"nothing came; kept: {self._kept}; log: {self.stderr}") from None
            assert line is not None, f"the gateway ended; log: {self.stderr}"
            message = cast("Message", json.loads(line))
            if wanted(message):
                return message
            self._kept.append(message)

    def line(self, within_s: float = 20) -> bytes:
        """Return the next line as it came."""
        line = self._lines.get(timeout=within_s)
        assert line is not None, f"the gateway ended; log: {self.stderr}"
        return line

    def rest(self) -> list[bytes]:
        """Return every line that is left of its output, until it ends."""
        return list(iter(lambda: self._lines.get(timeout=20), None))

    def end_input(self) -> None:
        """Close its standard input, as a client does that goes."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, within_s: float = 20) -> int:
        """Wait until it has ended, and return its exit code."""
        return self.process.wait(within_s)

    def close(self) -> None:
        """End it, by force if it does not go by itself."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            with suppress(OSError):  # it may have gone already
                self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        self._error_reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            WATCH.said.append(("message", line))
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            WATCH.said.append(("standard error", line))
            self._errors.append(line)


def environment_of(home: Path) -> dict[str, str]:
    """Return an environment in which everything of the user lies below `home`, and nothing of the machine is found."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AAI_HOME": str(home / ".aai"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_DATA_DIRS": str(home / "share"),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests/site'}",
        "SWITCHBOARD_TESTS_SPAWNED": str(notes_of(home)),
        **SETTING,
    }


def install(home: Path, app_id: str, **changes: Any) -> Path:
    """Put an app into a home; `changes` replace top-level keys of its descriptor. Return the file."""
    document: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "linux",
        "app": {"id": app_id, "name": {"en": "Mail"}, "defaultLang": "en", "description": "Email client"},
        "execution": {"type": "stdio", "command": "mail-aai"},
        "tools": [
            {
                "name": "send_email",
                "description": "Send an email",
                "parameters": {
                    "type": "object",
                    "properties": {"to": {"type": "string"}, "body": {"type": "string"}},
                    "required": ["to"],
                },
            }
        ],
        **changes,
    }
    file = home / ".aai" / app_id / "aai.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return file


class Asked(NamedTuple):
    """One request that a site got."""

    method: str
    path: str
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Page(NamedTuple):
    """What a site answers at one path; a silent page answers never."""

    status: int = 200
    body: bytes = b""
    kind: str = "text/plain; charset=utf-8"
    silent: bool = False


class Site:
    """A web server on this machine that answers what it was told to, and remembers what it was asked."""

    def __init__(self, pages: Mapping[str, Page] | None = None, certificate: Path | None = None) -> None:
        self.pages = dict(pages or {})
        self.asked: list[Asked] = []
        self._closing = Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answering())
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"{self._scheme}://{self.host}"

    def publish(self, document: object, path: str = "/.well-known/aai.json") -> None:
        """Answer with a document."""
        self.pages[path] = Page(body=json.dumps(document, ensure_ascii=False).encode(), kind="application/json")

    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.path for asked in self.asked]

    def close(self) -> None:
        """Stop; whoever still waits for a silent page is let go."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Answering(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                site.asked.append(Asked(self.command, self.path, body))
                page = site.pages.get(self.path.partition("?")[0], Page(404, b"there is no such page"))
                if page.silent:
                    site._closing.wait(60)
                    return
                self.send_response(page.status)
                self.send_header("Content-Type", page.kind)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                self.wfile.write(page.body)

            do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - names of the library

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - name of the library
                pass

        return Answering


def web_app(app_id: str, base_url: str, name: str = "Notion", **changes: Any) -> Message:
    """Return the descriptor of an app on the web; `changes` replace top-level keys."""
    return {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "web",
        "app": {"id": app_id, "name": {"en": name}, "defaultLang": "en", "description": f"{name} on the web"},
        "execution": {"type": "http", "baseUrl": base_url},
        "tools": [
            {
                "name": "search",
                "description": "Search pages",
                "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
                "execution": {"path": "/search", "method": "GET"},
            }
        ],
        **changes,
    }


def certificate(folder: Path) -> Path:
    """Make a key and a certificate for this machine, which nobody trusts."""
    key, signed = certificates.make(folder, "DNS:localhost,IP:127.0.0.1")
    both = folder / "both.pem"
    both.write_bytes(key.read_bytes() + signed.read_bytes())
    return both


def left_behind(home: Path) -> list[str]:
    """Return the processes of a home that are still there, where the system says."""
    wanted = f"HOME={home}\0".encode()
    found: list[str] = []
    for process in running():
        with suppress(OSError):  # not ours to see, or just gone
            if wanted in (process / "environ").read_bytes() + b"\0":
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found

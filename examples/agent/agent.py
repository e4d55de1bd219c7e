"""A whole agent in one file, with nothing but Python: it registers, stays alive, answers, and says goodbye.

    AGENTFIELD_SERVER=http://localhost:8080 python examples/agent/agent.py

The skill `count_words` answers at once. The reasoner `outline` says that it is at work (202) and reports later, as
work does that takes longer than a caller should wait on one connection.
"""

import json
import os
import re
import signal
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SERVER = os.environ.get("AGENTFIELD_SERVER", "http://localhost:8080").rstrip("/")
KEY = os.environ.get("AGENTFIELD_API_KEY", "")
AGENT = "sample-agent"
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The text to read"}},
    "required": ["text"],
}


def count_words(text: str) -> dict[str, int]:
    """Return how many words a text has, and how many different ones."""
    words = re.findall(r"\w+", text.lower())
    return {"words": len(words), "different": len(set(words))}


def outline(text: str) -> list[str]:
    """Return the beginning of every sentence."""
    return [" ".join(sentence.split()[:4]) for sentence in re.split(r"[.!?]+", text) if sentence.strip()]


def post(path: str, document: object) -> None:
    """Tell the control plane something."""
    headers = {"Content-Type": "application/json", **({"X-API-Key": KEY} if KEY else {})}
    request = urllib.request.Request(f"{SERVER}/api/v1{path}", json.dumps(document).encode(), headers)  # noqa: S310
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - the address is the user's own


class Answers(BaseHTTPRequestHandler):
    """What the control plane can call."""

    def do_POST(self) -> None:
        """Run a skill now, or a reasoner in a thread of its own."""
        given = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        execution = self.headers.get("X-Execution-ID", "")
        if self.path == "/skills/count_words":
            self._say(200, count_words(given["text"]))
        elif self.path == "/reasoners/outline":
            threading.Thread(target=work, args=(execution, given["text"])).start()
            self._say(202, {"status": "processing", "execution_id": execution})
        else:
            self._say(404, {"detail": f"nothing at {self.path}"})

    def _say(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Say nothing: the control plane logs."""


def work(execution: str, text: str) -> None:
    """Do what takes its time, and report."""
    post(f"/executions/{execution}/status", {"status": "succeeded", "result": outline(text)})


def main() -> None:
    """Serve until somebody ends it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    registration = {
        "id": AGENT,
        "base_url": f"http://127.0.0.1:{server.server_port}",
        "version": "1.0.0",
        "reasoners": [{"id": "outline", "description": "Outline a text", "tags": ["text"], "input_schema": TEXT}],
        "skills": [{"id": "count_words", "description": "Count words", "tags": ["text"], "input_schema": TEXT}],
    }
    post("/nodes/register", registration)
    print(f"{AGENT} is registered at {SERVER}", flush=True)  # noqa: T201 - for the person who started it
    ended = threading.Event()

    def end(*_: object) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    try:
        while not ended.wait(2):
            post(f"/nodes/{AGENT}/heartbeat", {"status": "ready"})
    except KeyboardInterrupt:
        pass
    post(f"/nodes/{AGENT}/shutdown", {"reason": "signal"})


if __name__ == "__main__":
    sys.exit(main())

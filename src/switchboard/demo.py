"""Sample agents that really run: two small agents with reasoners and skills, registered with a control plane.

They speak the same wire as agents written with an SDK: register, heartbeat, answer, say goodbye. Run by
`switchboard serve --demo`, or by hand: `AGENTFIELD_SERVER=http://localhost:8080 python -m switchboard.demo`.
"""

import json
import os
import re
import signal
import statistics
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any, NamedTuple

from switchboard.catalog.errors import ServiceUnavailable
from switchboard.net.client import request

_HEARTBEAT_S = 2.0
_LARGEST = 1024 * 1024

Work = Callable[[dict[str, Any]], Any]


class Ability(NamedTuple):
    """One reasoner or skill, and what it does."""

    id: str
    kind: str
    description: str
    tags: list[str]
    parameters: dict[str, Any]
    required: list[str]
    work: Work


def summarise(given: dict[str, Any]) -> dict[str, Any]:
    """Pick the sentences with the most frequent words."""
    sentences = re.split(r"(?<=[.!?])\s+", str(given["text"]).strip())
    words = re.findall(r"\w{4,}", str(given["text"]).lower())
    most = int(given.get("sentences", 2))
    ranked = sorted(sentences, key=lambda text: -sum(words.count(word) for word in re.findall(r"\w{4,}", text.lower())))
    chosen = set(ranked[:most])
    return {"summary": " ".join(sentence for sentence in sentences if sentence in chosen)}


def keywords(given: dict[str, Any]) -> list[str]:
    """Name the words that occur most often."""
    words = re.findall(r"\w{4,}", str(given["text"]).lower())
    return sorted(set(words), key=lambda word: (-words.count(word), word))[: int(given.get("most", 5))]


def describe(given: dict[str, Any]) -> dict[str, float]:
    """Describe a list of numbers."""
    numbers = [float(number) for number in given["numbers"]]
    return {"mean": statistics.fmean(numbers), "median": statistics.median(numbers), "largest": max(numbers)}


_TEXT = {"text": {"type": "string", "description": "The text to read"}}
AGENTS: dict[str, list[Ability]] = {
    "demo-writer": [
        Ability(
            "summarise",
            "reasoner",
            "Shorten a text to its most telling sentences",
            ["text", "nlp"],
            {**_TEXT, "sentences": {"type": "integer", "default": 2, "minimum": 1, "description": "How many to keep"}},
            ["text"],
            summarise,
        ),
        Ability(
            "keywords",
            "skill",
            "Find the most frequent words of a text",
            ["text", "search"],
            {**_TEXT, "most": {"type": "integer", "default": 5, "minimum": 1}},
            ["text"],
            keywords,
        ),
    ],
    "demo-statistician": [
        Ability(
            "describe_numbers",
            "skill",
            "Mean, median and largest of a list of numbers",
            ["math", "data"],
            {"numbers": {"type": "array", "items": {"type": "number"}, "description": "At least one number"}},
            ["numbers"],
            describe,
        ),
    ],
}


class _Handler(BaseHTTPRequestHandler):
    """Answers the calls of one agent."""

    abilities: list[Ability] = []  # noqa: RUF012 - set on a subclass per agent

    def do_POST(self) -> None:
        """Run one ability: /reasoners/{id} or /skills/{id}."""
        length = min(int(self.headers.get("Content-Length") or 0), _LARGEST)
        body = self.rfile.read(length)
        ability = next((item for item in self.abilities if self.path == f"/{item.kind}s/{item.id}"), None)
        if ability is None:
            self._answer(404, {"detail": f"nothing at {self.path}"})
            return
        try:
            self._answer(200, ability.work(json.loads(body or b"{}")))
        except (KeyError, ValueError, TypeError) as error:
            self._answer(422, {"detail": f"cannot work with this input: {error!r}"})

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class has it so
        """Stay quiet: the control plane has the log."""


def main() -> None:
    """Serve, register and keep calling until told to stop."""
    server, key = os.environ["AGENTFIELD_SERVER"].rstrip("/"), os.environ.get("AGENTFIELD_API_KEY")
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    running = {name: _serve(abilities) for name, abilities in AGENTS.items()}
    registered: set[str] = set()
    # An orphan ends itself: whoever started it was killed and could not say so.
    parent = os.getppid()
    while os.getppid() == parent and not stopped.wait(0.2 if len(registered) < len(running) else _HEARTBEAT_S):
        for name, agent in running.items():
            try:
                _keep_in_touch(f"{server}/api/v1/nodes", key, name, agent.server_port, registered)
            except ServiceUnavailable:
                continue
    for name, agent in running.items():
        try:
            request("POST", f"{server}/api/v1/nodes/{name}/shutdown", api_key=key, body=b'{"reason":"demo ends"}')
        except ServiceUnavailable:
            continue  # the control plane went first, and knows
        finally:
            agent.shutdown()


def _keep_in_touch(nodes: str, key: str | None, name: str, port: int, registered: set[str]) -> None:
    if name in registered:
        status, _ = request("POST", f"{nodes}/{name}/heartbeat", api_key=key, body=b'{"status":"ready"}')
        if status == HTTPStatus.NOT_FOUND:
            registered.discard(name)
        return
    status, _ = request("POST", f"{nodes}/register", api_key=key, body=_registration(name, port))
    if status == HTTPStatus.CREATED:
        registered.add(name)


def _serve(abilities: list[Ability]) -> ThreadingHTTPServer:
    handler = type("Handler", (_Handler,), {"abilities": abilities})
    agent = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=agent.serve_forever, daemon=True).start()
    return agent


def _registration(name: str, port: int) -> bytes:
    def described(kind: str) -> list[dict[str, Any]]:
        return [
            {
                "id": item.id,
                "description": item.description,
                "tags": item.tags,
                "input_schema": {"type": "object", "properties": item.parameters, "required": item.required},
            }
            for item in AGENTS[name]
            if item.kind == kind
        ]

    document = {
        "id": name,
        "base_url": f"http://127.0.0.1:{port}",
        "version": "1.0.0",
        "lifecycle_status": "ready",
        "communication_config": {"heartbeat_interval": f"{_HEARTBEAT_S:g}s"},
        "reasoners": described("reasoner"),
        "skills": described("skill"),
    }
    return json.dumps(document).encode()


if __name__ == "__main__":
    main()

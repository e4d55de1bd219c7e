"""Sample apps that really run: notes, a program on standard streams, and weather, a web app on this machine.

Run by `switchboard demo`, which writes their descriptors into a folder of its own. As a program, `python -m
switchboard.demo_apps` is the notes app: one JSON request a line, one JSON answer a line.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.parse import unquote

NOTES, WEATHER = "com.example.demo-notes", "com.example.demo-weather"
_PREFIX = "/forecast/"
_SKIES = ("sun", "clouds", "rain", "wind")


def descriptor_of_notes(system: str) -> dict[str, Any]:
    """Return the aai.json of the notes app, which this very interpreter runs."""
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": system,
        "app": {
            "id": NOTES,
            "name": {"en": "Demo notes", "zh-CN": "示例笔记"},
            "defaultLang": "en",
            "description": "Notes that last as long as this demonstration",
        },
        "execution": {
            "type": "stdio",
            "command": sys.executable,
            "args": ["-m", "switchboard.demo_apps"],
            "keepAlive": True,
        },
        "tools": [
            {"name": "add_note", "description": "Write one note", "parameters": text},
            {
                "name": "list_notes",
                "description": "List every note",
                "parameters": {"type": "object", "properties": {}},
                "annotations": {"readOnlyHint": True},
            },
        ],
    }


def descriptor_of_weather(base_url: str) -> dict[str, Any]:
    """Return the aai.json that the weather site publishes."""
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "web",
        "app": {
            "id": WEATHER,
            "name": {"en": "Demo weather", "zh-CN": "示例天气"},
            "defaultLang": "en",
            "description": "A forecast made up from the name of a city",
        },
        "execution": {"type": "http", "baseUrl": base_url},
        "tools": [
            {
                "name": "forecast",
                "description": "Forecast for one city",
                "parameters": city,
                "execution": {"path": f"{_PREFIX}{{city}}", "method": "GET"},
                "annotations": {"readOnlyHint": True},
            }
        ],
    }


def install_notes(home: Path, system: str) -> None:
    """Put the notes app where the gateway looks for apps."""
    file = home / NOTES / "aai.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(descriptor_of_notes(system), ensure_ascii=False), encoding="utf-8")


class Weather:
    """The weather site, on a free port of this machine, from `with` to its end."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Forecasts)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Forecasts(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the descriptor, or with a forecast."""
        if self.path == "/.well-known/aai.json":
            self._answer(200, descriptor_of_weather(f"http://{self.headers['Host']}"))
        elif self.path.startswith(_PREFIX):
            city = unquote(self.path.removeprefix(_PREFIX))
            self._answer(200, {"city": city, "sky": _SKIES[len(city) % 4], "degrees": 10 + len(city)})
        else:
            self._answer(404, {"detail": "there is nothing here"})

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class has it so
        """Stay quiet: the demonstration tells what happens."""


def main() -> None:
    """Be the notes app, until the input ends."""
    notes: list[dict[str, Any]] = []
    numbers = count(1)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        answer: dict[str, Any] = {"version": "1.0", "request_id": asked["request_id"], "status": "success"}
        if asked["tool"] == "add_note":
            notes.append({"id": next(numbers), "text": asked["params"]["text"]})
            answer["result"] = notes[-1]
        else:
            answer["result"] = {"notes": notes}
        sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

"""A small notes app that an agent can call: one JSON request per line in, one JSON answer per line out.

Needs nothing but Python. It is kept running between calls (`keepAlive` in aai.json), and ends when its input does.
"""

import json
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

notes: list[dict[str, Any]] = []
numbers = count(1)


class Refused(Exception):
    """Something the app cannot do, with a code of its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def add_note(text: str, tag: str = "home") -> dict[str, Any]:
    """Write one note."""
    note = {"id": next(numbers), "text": text, "tag": tag}
    notes.append(note)
    return note


def list_notes(most: int = 10) -> dict[str, Any]:
    """Return the newest notes, newest first."""
    return {"notes": notes[::-1][:most]}


def delete_note(id: int) -> str:  # noqa: A002 - the name of the argument in aai.json
    """Remove one note."""
    for note in notes:
        if note["id"] == id:
            notes.remove(note)
            return f"Note {id} is gone."
    raise Refused("NOTE_NOT_FOUND", f"There is no note {id}.")


def unknown(**_: object) -> None:
    """Refuse what no tool is there for."""
    raise Refused("UNKNOWN_TOOL", "There is no such tool.")


TOOLS: dict[str, Callable[..., Any]] = {"add_note": add_note, "list_notes": list_notes, "delete_note": delete_note}


def answer(line: str) -> dict[str, Any]:
    """Do what one request asks for."""
    request_id = ""
    try:
        request = json.loads(line)
        request_id = request["request_id"]
        result = TOOLS.get(request["tool"], unknown)(**request["params"])
    except Refused as error:
        said = {"code": error.code, "message": str(error)}
    except (ValueError, KeyError, TypeError) as error:
        said = {"code": "INVALID_REQUEST", "message": f"That is not a request: {error}"}
    else:
        return {"version": "1.0", "request_id": request_id, "status": "success", "result": result}
    return {"version": "1.0", "request_id": request_id, "status": "error", "error": said}


if __name__ == "__main__":
    # The answers are UTF-8, whatever the system thinks a pipe speaks.
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps(answer(line.decode()), ensure_ascii=False).encode() + b"\n")
        sys.stdout.buffer.flush()

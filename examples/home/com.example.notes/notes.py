"""Short notes, a file each: one JSON request per line in, one JSON answer per line out.

Needs nothing but Python, and runs in the folder of its descriptor. It ends when its input does.
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any


def add_note(folder: Path, text: str, tag: str = "home") -> dict[str, Any]:
    """Write one note."""
    folder.mkdir(exist_ok=True)
    note = {"id": len(list(folder.glob("*.json"))) + 1, "text": text, "tag": tag}
    (folder / f"{note['id']:06}.json").write_text(json.dumps(note), encoding="utf-8")
    return note


def list_notes(folder: Path, most: int = 10) -> dict[str, Any]:
    """Return the newest notes, newest first."""
    newest = sorted(folder.glob("*.json"), reverse=True)[:most]
    return {"notes": [json.loads(file.read_text(encoding="utf-8")) for file in newest]}


TOOLS = {"add_note": add_note, "list_notes": list_notes}


def answer(folder: Path, line: str) -> dict[str, Any]:
    """Do what one request asks for."""
    request = json.loads(line)
    result = TOOLS[request["tool"]](folder, **request["params"])
    return {"version": "1.0", "request_id": request["request_id"], "status": "success", "result": result}


def main() -> None:
    """Answer until there are no more requests."""
    arguments = ArgumentParser()
    arguments.add_argument("--folder", type=Path, required=True)
    folder = arguments.parse_args().folder
    # Requests and answers are UTF-8, whatever the system thinks a pipe speaks.
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps(answer(folder, line.decode())).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

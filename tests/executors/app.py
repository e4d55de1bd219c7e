"""An app with a few habits, good and bad, that every executor is held to; the ways to it are below.

A program of its own, started without our packages: it notes each request it takes and each process it is, in a folder.
"""

import json
import os
import sys
import threading
from typing import Any

FLOOD = 5 * 1024 * 1024


def take(folder: str, tool: str, request_id: str) -> None:
    """Note a request, and who took it."""
    note(folder, "pids", str(os.getpid()))
    note(folder, "taken", f"{tool} {request_id}")


def note(folder: str, name: str, line: str) -> None:
    """Append one line; short ones are never mixed up."""
    handle = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def behave(folder: str, text: str) -> str:
    """Answer one request in the manner of its tool."""
    request: dict[str, Any] = json.loads(text)
    tool, request_id = request["tool"], request["request_id"]
    take(folder, tool, request_id)
    answer: dict[str, Any] = {"version": "1.0", "request_id": request_id, "status": "success"}
    match tool:
        case "echo":
            answer["result"] = request["params"]
        case "fail":
            error = {"code": "QUOTA_FULL", "message": "The disk\u202e is\nfull.", "limit": 3}
            answer |= {"status": "error", "error": error}
        case "flood":
            answer["result"] = "x" * FLOOD
        case "crash":
            os.write(2, b"boom:\x1b[31m out of cheese\n")
            os._exit(3)
        case "stranger":
            answer |= {"request_id": "somebody-else", "result": 1}
        case "shape":
            answer["status"] = "perhaps"
        case _:
            threading.Event().wait()
    return json.dumps(answer, ensure_ascii=False)


def stdio(folder: str) -> None:
    """Speak one line per request."""
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(b"Listening.\n[1, 2]\n" + behave(folder, line.decode()).encode() + b"\n")
        sys.stdout.buffer.flush()


def osascript(folder: str) -> None:
    """Stand in for the program of macOS: note what came, and answer as the script would."""
    text = sys.stdin.buffer.read().decode()
    _record(folder, text)
    _say({"reply": behave(folder, text)})


def powershell(folder: str) -> None:
    """Stand in for the program of Windows."""
    given = sys.stdin.buffer.read().decode()
    _record(folder, given)
    _say({"reply": behave(folder, given.partition("\n")[2])})


def failing(folder: str) -> None:
    """Stand in for either when the system says no: what it prints and its exit code stand in the folder."""
    _record(folder, sys.stdin.buffer.read().decode())
    with open(f"{folder}/says", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
        output, errors, code = json.load(file)
    os.write(1, output.encode())
    os.write(2, errors.encode())
    os._exit(code)


def _record(folder: str, given: str) -> None:
    environment = dict(os.environ)
    note(folder, "calls", json.dumps({"argv": sys.argv[1:], "stdin": given, "environment": environment}))


def _say(document: dict[str, str]) -> None:
    sys.stdout.buffer.write(json.dumps(document).encode())


if __name__ == "__main__":
    stdio(sys.argv[1])

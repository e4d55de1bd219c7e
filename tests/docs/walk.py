"""Somebody who follows a document from top to bottom: types its commands, saves its files, runs its programs.

They have a fresh checkout and one terminal, whose variables and functions last. What a document shows below a command
has to be what the command prints; a line `...` stands for any lines. A second word after the language says what an
example is for: `server` is a command for another terminal, which goes on running; a name with a dot or a slash is the
file that the example is saved as. `8080` and `8000` stand for ports that are free.
"""

import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import pytest
from tests.clients.clients import HERE as CLIENTS
from tests.clients.clients import MODULES, NODE
from tests.docs.documents import ROOT, Block, blocks, commands, steady, steady_json
from tests.gateways import environment_of
from tests.journeys.waiting import wait_until

INSPECTOR = "@modelcontextprotocol/inspector"
_LIMIT_S = 90.0
_AFTER = "\x1e"
"""Printed after each command: the ASCII character for this purpose."""
_NPX = """#!/bin/sh
# What `npx` would fetch is here already; anything else is not what the document promises.
[ "$1 $2" = "-y {package}@{version}" ] || {{ echo "npx $1 $2: not the inspector that is tested" >&2; exit 64; }}
shift 2
exec '{node}' '{modules}/{package}/clients/launcher/build/index.js' "$@"
"""


class Walk:
    """One reader with a checkout, a terminal, and whatever they have started in other terminals."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.checkout.mkdir()
        for entry in ROOT.iterdir():
            if entry.name in {"sdk", "examples"}:  # a way out of a link does not lead back to the checkout
                shutil.copytree(entry, self.checkout / entry.name)
            elif not entry.name.startswith("."):
                (self.checkout / entry.name).symlink_to(entry)
        (self.checkout / ".venv").symlink_to(sys.prefix)
        self._ports = dict(zip(("8080", "8000"), _free_ports(2), strict=True))
        self.plane = f"http://127.0.0.1:{self._ports['8080']}"
        self._log = (folder / "stderr").open("w+b")
        self.environment = self._environment(folder)
        self._terminal = self._open("bash", stdin=subprocess.PIPE)
        self._others: list[subprocess.Popen[bytes]] = []
        self._typed = folder / "typed"
        self.answer = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        for process in (*reversed(self._others), self._terminal):
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGTERM)
        for process in (*self._others, self._terminal):
            process.communicate(timeout=30)
        self._log.close()

    def follow(self, document: Path) -> None:
        """Do everything that a document shows, in its order."""
        for block in blocks(document):
            if not block.why:
                self._do(block)

    def serve(self, command: str = "switchboard serve --demo") -> None:
        """Do what a document asks for before it begins: run a control plane in another terminal."""
        self._start(command)

    def discovered(self) -> list[dict[str, Any]]:
        """Return the agents that the control plane of the document has found."""
        answer = httpx2.get(f"{self.plane}/api/v1/discovery/capabilities", timeout=30, trust_env=False)
        return answer.json()["capabilities"]

    def type(self, text: str) -> str:
        """Type one command, and return what it prints."""
        output, code = self._run(self._real(text))
        self._log.seek(0)
        assert code == 0, f"exit code {code}: {text}\n{output}\n{self._log.read().decode()[-3000:]}"
        return output

    def _do(self, block: Block) -> None:
        match block.language, block.marker:
            case "console", "":
                self._type(block)
            case "console", "server":
                for command in commands(block)[:-1]:
                    self.type(command.text)
                self._start(commands(block)[-1].text)
            case _, name if is_file(name):
                file = self.checkout / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(self._real(block.text), encoding="utf-8")
            case "python", "":
                self.answer = self._program(block)
            case "json", "" if "mcpServers" in block.text:
                self._configure(block)
            case "json", "":
                assert steady_json(self.answer) == steady_json(block.text), str(block)
            case "text", "":
                assert _agree(self.answer, block.text), f"{block}:\n{self.answer}"
            case language, marker:
                pytest.fail(f"{block}: nobody knows what to do with {language} {marker}")

    def _type(self, block: Block) -> None:
        for command in commands(block):
            self.answer = self.type(command.text)
            if command.output:
                assert _agree(self.answer, command.output), f"{block}: {command.text}\n{self.answer}"

    def _program(self, block: Block) -> str:
        file = self._typed.with_suffix(".py")
        file.write_text(self._real(block.text), encoding="utf-8")
        return self.type(f".venv/bin/python {file}")

    def _configure(self, block: Block) -> None:
        """Paste the configuration of a client, with the real path, and see that the client starts what it names."""
        (name,) = json.loads(block.text)["mcpServers"]
        file = self.checkout / "client.json"
        file.write_text(self._real(block.text).replace("/path/to/", f"{self.checkout}/"), encoding="utf-8")
        ask = f"npx -y {INSPECTOR}@{version()} --cli --config {file} --server {name} --method tools/list"
        assert "exec" in self.type(ask), str(block)

    def _start(self, text: str) -> None:
        """Start something in another terminal, and wait until it is of use."""
        known = self._agents()
        if "make run" in text:
            self._require_nothing_to_install()
        process = self._open("bash", "-c", self._real(text), stdin=subprocess.DEVNULL)
        self._others.append(process)
        if "http.server" in text:
            wait_until(lambda: _listens(self._ports["8000"]))
        elif re.search(r"\bmake run\b|--demo\b", text):
            wait_until(lambda: (self._agents() or 0) >= 2)
        elif "switchboard serve" in text:
            wait_until(lambda: self._agents() is not None)
        else:
            wait_until(lambda: (self._agents() or 0) > (known or 0))
        assert process.poll() is None, text

    def _require_nothing_to_install(self) -> None:
        """See that `make run` only runs: this checkout is gone soon, and would be what our environment is made of."""
        asked = subprocess.run(["make", "-q", ".venv/run.stamp"], cwd=self.checkout, check=False)  # noqa: S607 - from the PATH
        assert asked.returncode == 0, "the environment is older than what it is made from; run: make setup"

    def _agents(self) -> int | None:
        """Return how many agents the control plane of the document knows; None without one."""
        try:
            return httpx2.get(f"{self.plane}/health", timeout=5, trust_env=False).json()["agents"]
        except httpx2.TransportError:
            return None

    def _open(self, *command: str, stdin: int) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - our own documents
            command,
            cwd=self.checkout,
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE if command == ("bash",) else self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def _run(self, text: str) -> tuple[str, int]:
        assert self._terminal.stdin is not None
        assert self._terminal.stdout is not None
        self._typed.write_text(text, encoding="utf-8")
        # Read from a file, so that a command that reads its input does not read what is typed next.
        self._terminal.stdin.write(f". {self._typed} </dev/null; printf '{_AFTER}%s{_AFTER}' $?\n".encode())
        self._terminal.stdin.flush()
        printed, end = b"", time.monotonic() + _LIMIT_S
        while printed.count(_AFTER.encode()) < 2:
            ready, _, _ = select.select([self._terminal.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"not finished within {_LIMIT_S:g} s: {text}"
            printed += os.read(self._terminal.stdout.fileno(), 65536)
        output, code, _ = printed.decode().split(_AFTER)
        return self._shown(output), int(code)

    def _real(self, text: str) -> str:
        for shown, port in self._ports.items():
            text = re.sub(rf"\b{shown}\b", str(port), text)
        return text

    def _shown(self, text: str) -> str:
        for shown, port in self._ports.items():
            text = re.sub(rf"\b{port}\b", shown, text)
        return text.replace(f"{self.checkout}/", "/path/to/").replace(str(self.checkout), "/path/to")

    def _environment(self, folder: Path) -> dict[str, str]:
        """Return the environment of somebody who has set nothing, with what they need in their PATH."""
        tools = folder / "bin"
        tools.mkdir()
        made = {"npx": _NPX.format(package=INSPECTOR, version=version(), node=NODE, modules=MODULES)}
        made["go"] = f"#!/bin/sh\nPATH='{os.environ['PATH']}' exec '{ROOT}/tools/go' \"$@\"\n"
        for name, script in made.items():
            (tools / name).write_text(script, encoding="utf-8")
            (tools / name).chmod(0o755)
        clean = environment_of(folder)
        del clean["AAI_HOME"], clean["PYTHONPATH"]
        path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
        built = os.environ.get("GOCACHE", str(Path.home() / ".cache/go-build"))
        more = {"AGENTFIELD_SERVER": self.plane, "SWITCHBOARD_PORT": str(self._ports["8080"]), "GOCACHE": built}
        return {**clean, **more, "PATH": path, "no_proxy": "127.0.0.1,localhost", "TERM": "dumb"}


def is_file(marker: str) -> bool:
    """Say whether the second word after the language is the name of a file that the example is saved as."""
    return "." in marker or "/" in marker


def version() -> str:
    """Return the version of the inspector that is tested, which is the one that documents name."""
    return json.loads((CLIENTS / "package.json").read_text(encoding="utf-8"))["dependencies"][INSPECTOR]


def need_tools() -> None:
    """Skip where there is no bash, curl, or client; in continuous integration that is a failure."""
    missing = [name for name in ("bash", "curl", "make") if shutil.which(name) is None]
    missing += [] if MODULES.exists() else ["official MCP clients (`make setup` installs them)"]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"CI has no {' and no '.join(missing)}: the documents were not followed")
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on this machine: the documents were not followed")


def _agree(printed: str, shown: str) -> bool:
    """Say whether a text is what a document shows, where `...` on a line of its own stands for any lines."""
    parts = [re.escape(steady(part)) for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)]
    return re.fullmatch(r"[\s\S]*?".join(parts), steady(printed)) is not None


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody has, from below those that the system gives to whoever asks for any."""
    first = 20_000 + os.getpid() % 1_000 * 10
    return list(islice((port for port in range(first, 32_000) if not _listens(port)), count))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

"""`switchboard demo`: an agent client, the gateway and two sample apps, one step after the other, all of it real.

The gateway is started as a client starts it, and spoken to in MCP; consent is given with `switchboard consent grant`.
Everything lives in a folder that is deleted afterwards: the apps, keychain and decisions of the person are not touched.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, Protocol

from switchboard import demo_apps
from switchboard.clients.place import gateway_command
from switchboard.clients.refusals import Refusal
from switchboard.settings import system

CALLER = "Demo agent"
_LIMIT_S = 60.0


class Show(Protocol):
    """How steps are told."""

    def step(self, title: str) -> None:
        """Begin a step."""
        ...

    def typed(self, text: str) -> None:
        """Show what is sent or typed."""
        ...

    def said(self, text: str) -> None:
        """Show what comes back."""
        ...


class Stopped(Exception):
    """The demonstration cannot go on; the message says why."""


def run(show: Show, *, yes: bool) -> bool:
    """Show everything; return whether the person allowed what is asked for on the way.

    Raises:
        Stopped: something does not work on this machine.
    """
    with tempfile.TemporaryDirectory(prefix="switchboard-demo-") as folder, demo_apps.Weather() as weather:
        around = _surroundings(Path(folder))
        demo_apps.install_notes(Path(around["AAI_HOME"]), system())
        with _client(around) as client:
            return _Tour(show, client, around, yes=yes).walk(weather.url)


class _Tour:
    """The steps, in their order."""

    def __init__(self, show: Show, client: "_Client", around: Mapping[str, str], *, yes: bool) -> None:
        self._show = show
        self._client = client
        self._around = around
        self._yes = yes

    def walk(self, site: str) -> bool:
        self._show.step("An agent client starts aai-gateway, and asks what there is.")
        self._list()
        self._show.step("The model picks an app, and reads its guide.")
        self._call(f"app:{demo_apps.NOTES}")
        note = {"app": demo_apps.NOTES, "tool": "add_note", "args": {"text": "Buy tea"}}
        self._show.step("It calls a tool. You have not allowed that, so nothing runs.")
        self._call("aai:exec", note)
        self._show.step("You decide. A client would have shown you a dialog, or a page; here it is this terminal.")
        if not self._grant(demo_apps.NOTES, "add_note"):
            return False
        self._show.step("It calls again. Now the program runs, and answers.")
        self._call("aai:exec", note)
        self._show.step("A web app that nobody has installed: the gateway asks the site what it can do.")
        self._call("web:discover", {"url": site})
        self._show.step("The same for its tool: first your word, then the call.")
        if not self._grant(site, "forecast"):
            return False
        self._call("aai:exec", {"app": site, "tool": "forecast", "args": {"city": "Lisbon"}})
        self._show.step("Every call has left a line, the refused one too; what was sent is not in it.")
        self._command("audit")
        return True

    def _list(self) -> None:
        self._show.typed("tools/list")
        for tool in self._client.ask("tools/list", {})["tools"]:
            self._show.said(f"{tool['name']}  {tool['description']}")

    def _call(self, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        self._show.typed(f"tools/call {name} {json.dumps(arguments, ensure_ascii=False) if arguments else ''}".rstrip())
        result = self._client.ask("tools/call", {"name": name, "arguments": arguments or {}})
        for part in result["content"]:
            self._show.said(part.get("text", f"[{part['type']}]"))

    def _grant(self, app: str, tool: str) -> bool:
        words = [
            "consent",
            "grant",
            app,
            "--tool",
            tool,
            "--caller",
            CALLER,
            "--dev",
            *(["--yes"] if self._yes else []),
        ]
        return self._command(*words) == 0

    def _command(self, *words: str) -> int:
        """Run a command of ours as a person types it, with their terminal."""
        self._show.typed(" ".join(["switchboard", *(f'"{word}"' if " " in word else word for word in words)]))
        sys.stdout.flush()
        program = [sys.executable, "-c", "from switchboard.cli import main; main()", *words]
        return subprocess.run(program, env=dict(self._around), check=False).returncode  # noqa: S603 - our own command


class _Client:
    """As much of an MCP client as this needs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._next = 0

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its result; what comes in between is not for us.

        Raises:
            Stopped: there is none.
        """
        self._next += 1
        self._send({"id": self._next, "method": method, "params": params})
        watch = Timer(_LIMIT_S, self._process.kill)
        watch.start()
        try:
            return self._answer()
        finally:
            watch.cancel()

    def greet(self) -> None:
        """Shake hands."""
        client = {"name": CALLER, "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})

    def _answer(self) -> dict[str, Any]:
        for line in self._process.stdout or ():
            message = json.loads(line)
            if message.get("id") == self._next and "method" not in message:
                if "result" in message:
                    return message["result"]
                raise Stopped(f"The gateway refuses: {message['error']['message']}")
        raise Stopped("The gateway ended. `switchboard doctor` says what keeps it from working.")

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._process.stdin is None:
            raise TypeError("started without a pipe")
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@contextmanager
def _client(around: Mapping[str, str]) -> Generator[_Client]:
    try:
        command = gateway_command()
    except Refusal as refusal:
        raise Stopped(str(refusal)) from None
    # --consent deny: nobody is asked in a window, so that everything of this stays in one terminal.
    process = subprocess.Popen(  # noqa: S603 - our own command
        [str(command), "--dev", "--consent", "deny", "--tool-names", "aai"],
        env=dict(around),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    with process:
        try:
            client = _Client(process)
            client.greet()
            yield client
        finally:
            process.terminate()


def _surroundings(folder: Path) -> dict[str, str]:
    """Return an environment whose apps, decisions and records lie in this folder."""
    key = folder / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    places = {name: str(folder / name.lower()) for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    return {
        **os.environ,
        **places,
        "XDG_DATA_DIRS": str(folder / "nothing"),
        "HOME": str(folder),
        "AAI_HOME": str(folder / "apps"),
        "SWITCHBOARD_VAULT": "file",
        "SWITCHBOARD_KEY_FILE": str(key),
    }

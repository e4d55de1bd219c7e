"""What `switchboard serve --demo` adds: sample agents beside the server, what they can do, and what to paste next."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import final

from switchboard import terminal
from switchboard.asking import AskError, ask
from switchboard.demo import AGENTS
from switchboard.progress import waiting

_PATH = "/api/v1/discovery/capabilities"
_LOCAL = "http://127.0.0.1:8080"
_LOOK_S = 0.1
_LOOKS = 300


@final
class Showcase:
    """Sample agents in a process of their own, for as long as the server runs."""

    def __init__(self, url: str, api_key: str | None, is_there: Callable[[str], bool]) -> None:
        self._url = url
        self._is_there = is_there
        self._api_key = api_key
        self._agents: asyncio.subprocess.Process | None = None

    async def open(self) -> None:
        """Start the agents; once they are there, print what they can do, and what to do with that."""
        environment = {**os.environ, "AGENTFIELD_SERVER": self._url}
        if self._api_key:
            environment["AGENTFIELD_API_KEY"] = self._api_key
        command = (sys.executable, "-m", "switchboard.demo")
        self._agents = await asyncio.create_subprocess_exec(*command, env=environment)
        try:
            with waiting("Waiting for the sample agents to register"):
                found = await self._registered()
        except AskError as error:
            print(f"What the sample agents can do is not shown: {error}", flush=True)  # noqa: T201 - for the person
            return
        if found is None:
            print("The sample agents have not registered. `switchboard agents` shows who has.", flush=True)  # noqa: T201
            return
        told = hints(self._url, keyed=self._api_key is not None)
        print(f"\n{terminal.discovery_table(found)}\n\n{told}", flush=True)  # noqa: T201 - for the person

    async def close(self) -> None:
        """End the agents."""
        if self._agents is not None and self._agents.returncode is None:
            self._agents.send_signal(signal.SIGTERM)
            await self._agents.wait()

    async def _registered(self) -> bytes | None:
        """Return the answer of discovery once every sample agent is there; None if that takes too long."""
        for _ in range(_LOOKS):
            if all(map(self._is_there, AGENTS)):
                return await asyncio.to_thread(ask, self._url, _PATH, (), self._api_key)
            await asyncio.sleep(_LOOK_S)
        return None


def hints(url: str, *, keyed: bool = False) -> str:
    """Return what can be pasted into another terminal, with the names that work from here."""
    bin_folder = _shown(Path(sys.argv[0]).parent)
    ours = f"{bin_folder}/switchboard"
    server = "" if url in (_LOCAL, "http://localhost:8080") else f" --server {url}"
    about = "" if not server else f"agentfield_server={url!r}"
    code = f"from agentfield import Agent; print(Agent({about}).discover(tags=['text']).total_agents)"
    rows = (
        ("what agents can do with text", f"{ours} discover --tags text{server}"),
        ("run one of them", f"""{ours} execute demo-writer:summarise --input '{{"text": "One. Two."}}'{server}"""),
        ("the same as a model reads it", f"curl -s '{url}{_PATH}?format=compact'"),
        # The SDK is a distribution of its own.
        *((("from Python", f'{bin_folder}/python -c "{code}"'),) if find_spec("agentfield") else ()),
        ("an agent client, the gateway and two sample apps", f"{ours} demo"),
        ("the gateway in a client of yours", f"{ours} install cursor --dry-run --force"),
    )
    lines = [f"  {_dim('# ' + title)}\n  {command}" for title, command in rows]
    where = "in another terminal, with AGENTFIELD_API_KEY set:" if keyed else "in another terminal:"
    return "\n".join([f"What to paste next, {where}", *lines])


def _shown(folder: Path) -> str:
    here = Path.cwd()
    whole = folder if folder.is_absolute() else here / folder
    return shlex.quote(str(whole.relative_to(here) if whole.is_relative_to(here) else whole))


def _dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m" if terminal.is_colourful() else text

"""An agent whose reasoners fail, or work until they are told to stop; it says in files how far it is."""

import asyncio
import os
from pathlib import Path

from agentfield import Agent

app = Agent(node_id="worker", version="1.0.0", enable_did=False)


@app.reasoner()
async def fail(text: str) -> dict[str, str]:
    """Fail with a text."""
    raise ValueError(text)


@app.reasoner()
async def work(file: str) -> str:
    """Work until there is a second file, or until cancelled."""
    say(file, "begun")
    try:
        while not is_enough(file):  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        say(file, "cancelled")
        raise
    return "done"


def say(file: str, what: str) -> None:
    """Tell the test."""
    Path(file).write_text(what)


def is_enough(file: str) -> bool:
    """Ask the test."""
    return Path(f"{file}.end").exists()


if __name__ == "__main__":
    app.serve(port=int(os.environ["PORT"]), auto_port=False)

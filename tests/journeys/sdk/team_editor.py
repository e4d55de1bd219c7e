"""The other of two agents that call each other; its results are of every JSON type."""

import os

from agentfield import Agent

app = Agent(node_id="editor", version="1.0.0", enable_did=False)


@app.reasoner(tags=["team"])
async def edit(text: str) -> dict[str, object]:
    """Ask the writer's skill, from within an execution that the writer waits for."""
    return {"headline": await app.call("writer.headline", text=text), "length": len(text)}


@app.reasoner(tags=["team"])
async def title(text: str) -> str:
    """Return a plain text."""
    return text.title()


@app.reasoner(tags=["team"])
async def words(text: str) -> list[str]:
    """Return a list."""
    return text.split()


@app.reasoner(tags=["team"])
async def count(text: str, times: int = 1) -> int:
    """Return a number."""
    return len(text) * times


@app.reasoner()
async def trace() -> dict[str, object]:
    """Tell where in a run this is."""
    return {"run": app.ctx.run_id, "parent": app.ctx.parent_execution_id}


@app.skill(tags=["team"])
def look_up(word: str) -> list[str]:
    """Return a list."""
    return [word, word[::-1]]


if __name__ == "__main__":
    app.serve(port=int(os.environ["PORT"]), auto_port=False)

"""One of two agents that call each other, as users of the published SDK write them."""

import os

from agentfield import Agent

app = Agent(node_id="writer", version="1.0.0", enable_did=False)


@app.reasoner(tags=["team"])
async def article(topic: str) -> dict[str, object]:
    """Write an article: the editor's reasoner asks this agent's own skill for the headline."""
    edited = await app.call("editor.edit", text=topic)
    found = await app.call("editor.look_up", word=topic)
    return {"edited": edited, "found": found}


@app.reasoner()
async def complaint(text: str) -> str:
    """Call something that fails, and tell how the SDK says so."""
    try:
        await app.call("worker.fail", text=text)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"{type(error).__name__}: {error}"
    return "it worked"


@app.reasoner()
async def trace() -> dict[str, object]:
    """Tell where in a run this is, and where what it calls is."""
    return {"run": app.ctx.run_id, "id": app.ctx.execution_id, "called": await app.call("editor.trace")}


@app.skill(tags=["team"])
def headline(text: str) -> str:
    """Return a headline: a plain text."""
    return text.upper()


if __name__ == "__main__":
    app.serve(port=int(os.environ["PORT"]), auto_port=False)

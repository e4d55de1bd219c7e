"""An agent as users of the published AgentField SDK write it. Run by the SDK's own interpreter, unmodified."""

import os

from agentfield import Agent

app = Agent(node_id="published-agent", version="2.3.1", enable_did=False)


@app.reasoner(tags=["research", "ml"])
async def deep_research(query: str, depth: int = 2) -> dict[str, object]:
    """Research a topic."""
    return {"query": query, "depth": depth}


@app.skill(tags=["web"])
def web_search(q: str) -> dict[str, str]:
    """Search the web."""
    return {"q": q}


if __name__ == "__main__":
    app.serve(port=int(os.environ["PORT"]), auto_port=False)

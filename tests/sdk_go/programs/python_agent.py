"""An agent of the Python SDK that calls others. Its id is the first argument."""

import sys
from typing import Any

from agentfield import Agent

app = Agent(sys.argv[1])


@app.reasoner
async def relay(target: str, input: dict[str, Any] | None = None) -> dict[str, Any]:  # noqa: A002 - the word of the wire
    """Have somebody else do it, and tell what both knew of their calls."""
    result = await app.aexecute(target=target, input=input or {})
    return {"here": trace(), "there": result}


@app.skill
def trace() -> dict[str, str]:
    """Tell what is known of this call."""
    context = app.context
    assert context is not None
    return {"id": context.execution_id, "run": context.run_id, "parent": context.parent_execution_id}


if __name__ == "__main__":
    app.run()

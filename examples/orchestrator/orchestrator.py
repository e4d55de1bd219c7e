"""An orchestrator: a model chooses among everything that agents can do now, and what it chooses is executed.

    AGENTFIELD_SERVER=http://localhost:8080 python examples/orchestrator/orchestrator.py

The model here is a stand-in that needs no account: it counts common words, and takes the text after the colon as the
first argument. Its answer has the shape of a real one, so a real one can take its place.
"""

import json
from typing import Any

from agentfield import Agent, ExecutionFailed, InvalidInput, from_tool_call, to_openai_tools

TASKS = (
    "find the most frequent words of a text: Storms moved north. Storms were strong.",
    "shorten a text to one telling sentence: Agents register. Agents call agents. Rain falls.",
)


def ask_model(task: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Choose a tool; in a program of yours, `client.chat.completions.create(..., tools=tools)`."""
    wish, _, text = task.partition(":")
    words = set(wish.lower().split())
    functions = [tool["function"] for tool in tools]
    chosen = max(functions, key=lambda item: len(words & set(item["description"].lower().split())))
    first = chosen["parameters"]["required"][0]
    return {"id": "call_1", "function": {"name": chosen["name"], "arguments": json.dumps({first: text.strip()})}}


def orchestrate(app: Agent, task: str) -> str:
    """Let the model choose, execute what it chose, and tell what came of it."""
    found = app.discover(health_status="active", include_input_schema=True)
    call = from_tool_call(ask_model(task, to_openai_tools(found)), found)
    try:
        result = app.execute(target=call.target, input=call.input, timeout=60)
    except InvalidInput as error:
        return f"{call.target} cannot take that: {error.violations}"  # send this back, and let the model try again
    except ExecutionFailed as error:
        return f"{call.target} failed: {error.execution.error}"
    return f"{call.target}: {json.dumps(result)}"


def main() -> None:
    """Do every task."""
    with Agent() as app:
        for task in TASKS:
            print(orchestrate(app, task))


if __name__ == "__main__":
    main()

"""What a caller of the published SDK gets: every way to execute that it has, printed as one JSON object."""

import asyncio
import json
import time
from typing import Any

from agentfield import Agent

app = Agent(node_id="caller", auto_register=False, enable_did=False)
SAMPLES = {"string": "tea", "integer": 2}


async def refusal(target: str, given: dict[str, Any]) -> dict[str, Any]:
    """Execute something that does not work, and tell how the SDK says so."""
    try:
        result = await app.client.execute(target, given)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return {"text": str(error), "status": getattr(error, "status_code", None)}
    return {"result": result}


async def waited_for(target: str, given: dict[str, Any]) -> object:
    """Submit without waiting, then wait."""
    execution_id = await app.client.execute_async(target, given)
    return await app.client.wait_for_execution_result(execution_id, timeout=30)


async def discovered() -> dict[str, Any]:
    """Execute everything that discovery prints, as it prints it."""
    found = app.discover(tags=["team"], include_input_schema=True)
    inputs = {
        item.invocation_target: {
            name: SAMPLES[schema["type"]]
            for name, schema in item.input_schema["properties"].items()
            if name in item.input_schema["required"]
        }
        for agent in found.json.capabilities
        for item in (*agent.reasoners, *agent.skills)
    }
    results = await asyncio.gather(*(app.client.execute(target, given) for target, given in inputs.items()))
    return {target: answer["result"] for target, answer in zip(inputs, results, strict=True)}


async def many() -> list[Any]:
    """Thirty at once."""
    answers = await asyncio.gather(*(app.client.execute("editor.count", {"text": "x" * n}) for n in range(30)))
    return [answer["result"] for answer in answers]


async def stories() -> dict[str, Any]:
    """Take everything one after the other, and say how long it took, for people."""
    begin = time.monotonic()
    nested, *results = await asyncio.gather(
        app.client.execute("writer.article", {"topic": "tea"}),
        app.client.execute("editor.title", {"text": "green tea"}),
        app.client.execute("editor.words", {"text": "green tea"}),
        app.client.execute("editor.look_up", {"word": "tea"}),
        app.client.execute("writer:skill:headline", {"text": "tea"}),
    )
    told = {
        "nested": nested,
        "results": [answer["result"] for answer in results],
        "waited": await asyncio.gather(
            waited_for("editor.title", {"text": "black tea"}), waited_for("editor.look_up", {"word": "abc"})
        ),
        "failed": await app.client.execute("worker.fail", {"text": "the kettle is empty"}),
        "raised": await waited_for("writer.complaint", {"text": "the pot is broken"}),
        "traced": await app.client.execute("writer.trace", {}),
        "misfit": await refusal("editor.title", {"txet": "tea"}),
        "unknown": await refusal("editor.titel", {"text": "tea"}),
        "nobody": await refusal("nobody.here", {}),
        "discovered": await discovered(),
        "many": await many(),
    }
    return {**told, "seconds": time.monotonic() - begin}


print(json.dumps(asyncio.run(stories()), default=str))

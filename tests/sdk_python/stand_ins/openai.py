"""A stand-in for a model provider's library: it checks what it is sent as the provider does, and chooses by words."""

import json
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class _Completions:
    """As `openai.chat.completions`."""

    def create(self, *, model: str, messages: Sequence[Any], tools: Sequence[dict[str, Any]]) -> SimpleNamespace:
        """Choose the tool whose description has most words of the request, and call it with the request."""
        functions = [_checked(tool) for tool in tools]
        # The document writes `messages=[...]` where it leaves them to the reader.
        request = "" if messages[-1] is ... else str(messages[-1]["content"])
        wanted = set(request.lower().split())
        chosen = max(functions, key=lambda item: len(wanted & set(item["description"].lower().split())))
        arguments = json.dumps(dict.fromkeys(chosen["parameters"].get("required", []), request))
        call = SimpleNamespace(id="call_1", name=chosen["name"], arguments=arguments)
        return SimpleNamespace(model=model, tool_calls=[call])


def _checked(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    if tool["type"] != "function" or not NAME.fullmatch(function["name"]):
        raise ValueError(f"400: invalid tool {tool}")
    if function["parameters"].get("type") != "object":
        raise ValueError(f"400: parameters of {function['name']} are no object")
    return function


chat = SimpleNamespace(completions=_Completions())

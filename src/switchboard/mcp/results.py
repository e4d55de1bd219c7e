"""Outcomes and refusals as MCP results: text for the model, and the same as data.

Everything a model can act on is a result, never a JSON-RPC error: those often do not reach it.
"""

from base64 import b64encode
from typing import Any

import msgspec

from switchboard.actions.ports import Blob, Outcome, Text
from switchboard.catalog.errors import InvalidParams, SwitchboardError


def from_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return what a call brought."""
    result: dict[str, Any] = {"content": [_part(part) for part in outcome.parts]}
    if outcome.data is not None:
        document = msgspec.json.decode(outcome.data)
        # The older protocols want an object here.
        result["structuredContent"] = document if isinstance(document, dict) else {"result": document}
    if outcome.failed:
        result["isError"] = True
    return result


def from_error(error: SwitchboardError) -> dict[str, Any]:
    """Return why something was refused, with everything that helps to do it right."""
    said = {"code": error.code, "message": error.message, **details_of(error)}
    text = f"{error.code}: {error.message}"
    if isinstance(error, InvalidParams):
        text += f"\nThe arguments have to fit this schema: {msgspec.json.encode(error.details['schema']).decode()}"
    return {"content": [{"type": "text", "text": text}], "structuredContent": said, "isError": True}


def details_of(error: SwitchboardError) -> dict[str, Any]:
    """Return the facts of a refusal in the spelling of the wire."""
    return {_camel(name): value for name, value in error.details.items()}


def from_text(text: str, **data: object) -> dict[str, Any]:
    """Return a text of ours, and beside it as data for clients that show a model nothing else."""
    return {"content": [{"type": "text", "text": text}], "structuredContent": data}


def _part(part: Text | Blob) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    kind = part.mime_type.partition("/")[0]
    data = b64encode(part.data).decode()
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": part.mime_type}
    resource = {"uri": "urn:switchboard:result", "mimeType": part.mime_type, "blob": data}
    return {"type": "resource", "resource": resource}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)

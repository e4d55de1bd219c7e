"""Outcomes and refusals as MCP results: text for the model, and the same as data.

Everything a model can act on is a result, never a JSON-RPC error: those often do not reach it. A refusal repeats what
strangers wrote, descriptors and callers alike: whatever that is, it comes out as visible characters, and short.
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from switchboard.actions.ports import Blob, Outcome, Text
from switchboard.catalog.errors import InvalidParams, SwitchboardError
from switchboard.catalog.text import clean

_MESSAGE = 1000
_TEXT = 500
_MOST_ITEMS = 50
_LIST = 4_000
"""Bytes of a list; what does not fit is left out."""
_OBJECT = 12_000
"""Bytes of an object, which is a schema or a part of one: half of it would be wrong, so it is whole or not there."""
_DEEPEST = 64
_TOO_LONG = "too long to repeat here; the guide of the app shows the parameters"


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
    said = {"code": error.code, "message": message_of(error), **details_of(error)}
    text = f"{error.code}: {said['message']}"
    if isinstance(error, InvalidParams):
        schema = said["schema"]
        shown = schema if schema == _TOO_LONG else msgspec.json.encode(schema).decode()
        text += f"\nThe arguments have to fit this schema: {shown}"
    return {"content": [{"type": "text", "text": text}], "structuredContent": said, "isError": True}


def message_of(error: SwitchboardError) -> str:
    """Return what a refusal says, as one line that is not too long."""
    return shortened(error.message, _MESSAGE)


def details_of(error: SwitchboardError) -> dict[str, Any]:
    """Return the facts of a refusal in the spelling of the wire: about 16 kB at most, all together."""
    return {_camel(name): _fact(value) for name, value in error.details.items()}


def shortened(text: str, limit: int = _TEXT) -> str:
    """Return a text as it is if it is short and can be seen, else so that it is."""
    if len(text) <= limit and text.isprintable():
        return text  # with every space: it may be a value to be sent back
    return clean(text[: 8 * limit], limit)


def from_text(text: str, **data: object) -> dict[str, Any]:
    """Return a text of ours, and beside it as data for clients that show a model nothing else."""
    return {"content": [{"type": "text", "text": text}], "structuredContent": data}


def _fact(value: object) -> object:
    match value:
        case str():
            return shortened(value)
        case list() | tuple():
            return _fitting(cast("Iterable[object]", value))
        case dict():
            return _whole(cast("dict[object, object]", value))
        case _:
            return value


def _fitting(values: Iterable[object]) -> list[object]:
    fitting: list[object] = []
    left = _LIST
    for value in values:
        fact = _fact(value)
        left -= len(msgspec.json.encode(fact)) + 1
        if left < 0 or len(fitting) == _MOST_ITEMS:
            break
        fitting.append(fact)
    return fitting


def _whole(document: dict[object, object]) -> object:
    try:
        if len(msgspec.json.encode(document)) > _OBJECT:
            return _TOO_LONG
        return _visible(document, _DEEPEST)
    except RecursionError:
        return _TOO_LONG


def _visible(value: object, depth: int) -> object:
    """Return a value with every text in it visible and short.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if not depth:
        raise RecursionError
    match value:
        case str():
            return shortened(value)
        case list():
            return [_visible(item, depth - 1) for item in cast("list[object]", value)]
        case dict():
            items = cast("dict[object, object]", value).items()
            return {shortened(str(name)): _visible(item, depth - 1) for name, item in items}
        case _:
            return value


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

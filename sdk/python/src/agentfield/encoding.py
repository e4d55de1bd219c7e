"""Values to JSON: everything msgspec writes, and pydantic models where the user has pydantic."""

from typing import Any

import msgspec


def encode(value: object) -> bytes:
    """Return a value as JSON.

    Raises:
        TypeError: There is no JSON for it; the message names the type.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise TypeError(f"It cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    # Looked for by its method: importing pydantic to ask would make everybody need it.
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"there is no JSON for a {type(value).__name__}")

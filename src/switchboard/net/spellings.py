"""How a secret is written where somebody repeats it: what is hidden is hidden in each of these forms. Pure."""

import json
from urllib.parse import quote, quote_plus

import msgspec


def spellings(value: str) -> tuple[str, ...]:
    """Return how a text is written: as it is, in an address, in a form, in JSON of several tastes."""
    in_json, in_ascii = msgspec.json.encode(value).decode()[1:-1], json.dumps(value)[1:-1]
    in_addresses = (quote(value, safe=""), quote(value), quote_plus(value))
    return (value, *in_addresses, in_json, in_json.replace("/", "\\/"), in_ascii, in_ascii.replace("/", "\\/"))

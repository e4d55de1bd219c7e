"""State that travels through a client and must come back as it went: signed, bound to its purpose, soon too old.

The key lives as long as the process: a state that outlived it is refused, and the client asks anew.
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from time import time
from typing import Any

import msgspec
from msgspec import Struct

_VALID_S = 600.0
_SIGNATURE = 32


class _Sealed(Struct):
    until: float
    content: dict[str, Any]


class Seal:
    """Closes and opens states with one key."""

    def __init__(self, key: bytes | None = None, valid_s: float = _VALID_S) -> None:
        self._key = key or secrets.token_bytes(32)
        self._valid_s = valid_s

    def close(self, content: dict[str, Any]) -> str:
        """Return the content as text that nobody else can make."""
        body = msgspec.json.encode(_Sealed(time() + self._valid_s, content))
        return urlsafe_b64encode(self._sign(body) + body).decode()

    def open(self, text: str) -> dict[str, Any] | None:
        """Return what was closed; None where it was changed, made by others, or is too old."""
        try:
            raw = urlsafe_b64decode(text.encode())
        except ValueError:
            return None
        # Decoding overlooks what stands behind the padding and what is not of the alphabet: one state, one spelling.
        if urlsafe_b64encode(raw).decode() != text:
            return None
        signature, body = raw[:_SIGNATURE], raw[_SIGNATURE:]
        if not hmac.compare_digest(signature, self._sign(body)):
            return None
        sealed = msgspec.json.decode(body, type=_Sealed)
        return sealed.content if sealed.until > time() else None

    def digest(self, value: object) -> str:
        """Return a short text that stands for a value."""
        return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")

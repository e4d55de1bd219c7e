"""Answers as bytes: what a request gets, and the bodies that are remembered for the rest of their second.

A body belongs to one version of the catalogue and one second, because it says both; all of them together stay under a
limit in bytes. Only a body that is remembered is worth compressing more than once, so its encodings stay with it.
"""

import gzip
from collections.abc import Callable
from typing import NamedTuple

import zstandard

from switchboard.catalog.caches import Cache
from switchboard.catalog.query import Query

Headers = list[tuple[bytes, bytes]]

LARGEST_ANSWERS = 3 * 1024 * 1024
MOST_ANSWERS = 10_000
_SMALLEST_COMPRESSED = 1024
_REFUSALS = (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")


class Reply(NamedTuple):
    """One whole answer; its headers include the length of its body."""

    status: int
    headers: Headers
    body: bytes


class Body:
    """One body, how much is in it, and its encodings as far as somebody asked for them."""

    __slots__ = ("_encoded", "counts", "headers", "plain")

    def __init__(self, plain: bytes, headers: Headers, counts: dict[str, int]) -> None:
        self.plain = plain
        self.counts = counts
        self.headers = headers
        self._encoded: dict[bytes, bytes] = {}

    def encoded(self, encoding: bytes) -> bytes:
        """Return the body in an encoding, made once."""
        body = self._encoded.get(encoding)
        if body is None:
            body = _ENCODERS[encoding](self.plain)
            self._encoded[encoding] = body
        return body

    @property
    def size(self) -> int:
        """How many bytes this takes, about."""
        return len(self.plain) + sum(map(len, self._encoded.values()))


class Bodies:
    """The bodies of this second and this version of the catalogue."""

    def __init__(self, most: int = MOST_ANSWERS, largest: int = LARGEST_ANSWERS) -> None:
        self._known: Cache[Query, Body] = Cache(most)
        self._largest = largest
        self._epoch: tuple[int, int] = (-1, -1)
        self.size = 0
        """How many bytes they take, about."""

    def begin(self, epoch: tuple[int, int]) -> bool:
        """Forget everything of another version or second; tell whether there is a new one."""
        if epoch == self._epoch:
            return False
        self._epoch = epoch
        self._forget()
        return True

    def get(self, query: Query) -> Body | None:
        """Return the body that answers a query, if it is known."""
        return self._known.get(query)

    def keep(self, query: Query, body: Body) -> None:
        """Remember a body, if there is room for it."""
        if self._known.most == 0 or self.size + body.size > self._largest:
            return
        if len(self._known) >= self._known.most:
            self._forget()
        self._known.keep(query, body)
        self.size += body.size

    def encoded(self, query: Query, body: Body, accepted: bytes) -> tuple[bytes, bytes]:
        """Return what to send of a body to somebody who accepts these encodings, and which one it is, if any."""
        encoding = _chosen(accepted) if len(body.plain) >= _SMALLEST_COMPRESSED else b""
        if not encoding:
            return body.plain, b""
        before = body.size
        content = body.encoded(encoding)
        if self._known.get(query) is body:
            self.size += body.size - before
        return content, encoding

    def _forget(self) -> None:
        self._known.clear()
        self.size = 0


def _zstd(plain: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(plain)


def _gzip(plain: bytes) -> bytes:
    return gzip.compress(plain, compresslevel=1, mtime=0)


_ENCODERS: dict[bytes, Callable[[bytes], bytes]] = {b"zstd": _zstd, b"gzip": _gzip}


def _chosen(accepted: bytes) -> bytes:
    """Return the encoding to use: the better one of those accepted; `q=0` is a refusal."""
    if not accepted:
        return b""
    offers = [offer.strip() for offer in accepted.lower().split(b",")]
    for encoding in _ENCODERS:
        for offer in offers:
            name, _, quality = offer.partition(b";")
            if name.strip() == encoding and quality.replace(b" ", b"") not in _REFUSALS:
                return encoding
    return b""

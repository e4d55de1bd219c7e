"""Answers as bytes: what a request gets, and the bodies that are remembered for the rest of their second.

A body belongs to one version of the catalogue and one second, because it says both; all of them together stay under a
limit in bytes. Only a body that is remembered is worth compressing more than once, so its encodings stay with it.
"""

import gzip
from collections.abc import Callable

import zstandard
from msgspec import Struct

from switchboard.catalog.caches import Cache

Headers = list[tuple[bytes, bytes]]

LARGEST_ANSWERS = 5 * 1024 * 1024 // 2
MOST_ANSWERS = 10_000
_SMALLEST_COMPRESSED = 1024
_REFUSALS = (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")


class Reply(Struct, frozen=True, gc=False):
    """One whole answer, as it goes out."""

    status: int
    head: bytes
    """Its headers, each with the end of its line; among them the length of its body."""
    body: bytes | list[bytes]
    """In one piece, or in those that it is made of."""

    @property
    def headers(self) -> Headers:
        """The headers, one by one."""
        pairs = (line.partition(b": ") for line in self.head.split(b"\r\n")[:-1])
        return [(name, value) for name, _, value in pairs]


class Body:
    """One body with the headers that go with it, what a log says of it, and its encodings as far as somebody asked."""

    __slots__ = ("_encoded", "_head", "plain", "said")

    def __init__(self, plain: bytes, head: bytes, said: bytes) -> None:
        """Take a body, its headers but for those that are about its encoding, and what a log says of it."""
        self.plain = plain, b"%bcontent-length: %d\r\n" % (head, len(plain))
        self.said = said
        self._head = head
        self._encoded: dict[bytes, tuple[bytes, bytes]] = {}

    def encoded(self, encoding: bytes) -> tuple[bytes, bytes]:
        """Return the body in an encoding, and its headers; made once."""
        encoded = self._encoded.get(encoding)
        if encoded is None:
            content = _ENCODERS[encoding](self.plain[0])
            head = b"%bcontent-length: %d\r\ncontent-encoding: %b\r\n" % (self._head, len(content), encoding)
            encoded = self._encoded[encoding] = content, head
        return encoded

    @property
    def size(self) -> int:
        """How many bytes this takes, about."""
        return sum(len(body) + len(head) for body, head in (self.plain, *self._encoded.values()))


class Bodies:
    """The bodies of this second and this version of the catalogue."""

    def __init__(self, most: int = MOST_ANSWERS, largest: int = LARGEST_ANSWERS) -> None:
        self._known: Cache[bytes, Body] = Cache(most)
        self.get = self._known.get
        """Return the body that answers a question, if it is known."""
        self._largest = largest
        self.version: int = -1
        self.second: int = -1
        self.size = 0
        """How many bytes they take, about."""

    def begin(self, version: int, second: int) -> bool:
        """Forget everything of another version or second; tell whether there is a new one."""
        if second == self.second and version == self.version:
            return False
        self.version, self.second = version, second
        self._forget()
        return True

    def keep(self, key: bytes, body: Body) -> None:
        """Remember a body, if there is room for it."""
        size = len(key) + body.size
        if self._known.most == 0 or self.size + size > self._largest:
            return
        if len(self._known) >= self._known.most:
            self._forget()
        self._known.keep(key, body)
        self.size += size

    def encoded(self, key: bytes, body: Body, accepted: bytes) -> tuple[bytes, bytes]:
        """Return what to send of a body to somebody who accepts these encodings, and its headers."""
        encoding = _chosen(accepted) if accepted and len(body.plain[0]) >= _SMALLEST_COMPRESSED else b""
        if not encoding:
            return body.plain
        before = body.size
        encoded = body.encoded(encoding)
        if self._known.get(key) is body:
            self.size += body.size - before
        return encoded

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
    offers = [offer.strip() for offer in accepted.lower().split(b",")]
    for encoding in _ENCODERS:
        for offer in offers:
            name, _, quality = offer.partition(b";")
            if name.strip() == encoding and quality.replace(b" ", b"") not in _REFUSALS:
                return encoding
    return b""

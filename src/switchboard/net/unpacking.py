"""Bodies of answers: collected and unpacked as they come, never more than asked for."""

import zlib
from collections.abc import AsyncIterator
from typing import final


class TooLarge(Exception):
    """It is longer than the limit, packed or unpacked."""


class Garbled(Exception):
    """It is packed in a way that we did not ask for, or does not unpack."""


async def unpacked(chunks: AsyncIterator[bytes], coding: str | None, size: int) -> bytes:
    """Collect a body and unpack it as it comes.

    Raises:
        TooLarge: it is longer than the limit, packed or unpacked.
        Garbled: it is packed in a way that we did not ask for, or does not unpack.
    """
    packed = (coding or "identity").strip().lower()
    if packed not in ("identity", "gzip", "x-gzip"):
        raise Garbled
    unpack = _Gunzip() if packed != "identity" else None
    body = bytearray()
    arrived = 0
    async for chunk in chunks:
        # Packing makes a body a little longer at worst; more than that is a stream that unpacks to nothing, for ever.
        arrived += len(chunk)
        if arrived > size + size // 64 + 1024:
            raise TooLarge
        body += unpack.feed(chunk, size + 1 - len(body)) if unpack else chunk
        if len(body) > size:
            raise TooLarge
    if unpack and not unpack.complete:
        raise Garbled
    return bytes(body)


@final
class _Gunzip:
    """Unpack gzip, never more than asked for: httpx2's own decoder has no limit within a chunk."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._begun = False

    @property
    def complete(self) -> bool:
        """Say whether it may end here; the answer to a HEAD is packed and empty."""
        return self._member.eof or not self._begun

    def feed(self, data: bytes, most: int) -> bytes:
        """Return what this unpacks to, at most so many bytes; the rest is lost, as is then the whole body."""
        out = bytearray()
        while data and len(out) < most:
            if self._member.eof:
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            self._begun = True
            try:
                out += self._member.decompress(data, most - len(out))
            except zlib.error as error:
                raise Garbled from error
            data = self._member.unused_data
        return bytes(out)

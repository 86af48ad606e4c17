"""The body of an HTTP response, decompressed here and bounded while it is read.

The bytes after decompression are counted, so that a small body that expands to gigabytes is stopped
at the limit (aiohttp would decompress a whole chunk first). `Content-Length` is not used.
"""

import zlib
from collections.abc import AsyncIterator

import aiohttp

_PART = 64 * 1024
_GZIP = 31
"""zlib: a window of 32 kB, with the header of gzip."""


class UnknownCompression(Exception):
    """The response has a content encoding that was not asked for."""


class BrokenCompression(Exception):
    """The body is not what its content encoding states."""


async def read_body(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """Return the first `most` bytes of the body, and whether there are more.

    The response must come from a request with `auto_decompress=False`.
    """
    pieces: list[bytes] = []
    left = most
    async for piece in _expanded(response):
        pieces.append(piece[:left])
        if len(piece) > left:
            return b"".join(pieces), True
        left -= len(piece)
    return b"".join(pieces), False


async def _expanded(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body in parts of at most `_PART` bytes more than what the network delivered."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        async for piece in response.content.iter_any():
            yield piece
        return
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise UnknownCompression(encoding)
    inflate = _inflater(encoding)
    async for piece in response.content.iter_any():
        pending = piece
        while pending:
            yield inflate(pending, _PART)
            pending = inflate.rest


class _Inflate:
    """Decompresses; a body may have several members of gzip one after the other."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._inner = zlib.decompressobj(window)
        self._first = True
        self.rest = b""
        """The input that was not read yet, because the output was limited."""

    def __call__(self, data: bytes, most: int) -> bytes:
        try:
            found = self._read(data, most)
        except zlib.error as error:
            raise BrokenCompression(str(error)) from None
        self.rest = self._inner.unconsumed_tail or self._inner.unused_data
        if self._inner.eof and self.rest:
            self._inner = zlib.decompressobj(self._window)
        self._first = False
        return found

    def _read(self, data: bytes, most: int) -> bytes:
        try:
            return self._inner.decompress(data, most)
        except zlib.error:
            # RFC 9110, 8.4.1.2: some servers send "deflate" without the header of zlib.
            if not self._first or self._window == _GZIP:
                raise
            self._window = -zlib.MAX_WBITS
            self._inner = zlib.decompressobj(self._window)
            return self._inner.decompress(data, most)


def _inflater(encoding: str) -> _Inflate:
    return _Inflate(zlib.MAX_WBITS if encoding == "deflate" else _GZIP)

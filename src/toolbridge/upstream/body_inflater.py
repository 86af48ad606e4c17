"""Compressed bodies of responses."""

import zlib

from multidict import CIMultiDictProxy

from toolbridge.upstream.wire_faults import ConnectionClosed, InvalidResponse

INFLATED = 256 * 1024
"""The most bytes that one read returns of a compressed body."""
_GZIP = frozenset({"gzip", "x-gzip"})
_PLAIN = frozenset({"", "identity"})


class BodyInflater:
    """Decompresses a body, a bounded number of bytes at a time."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._stream: zlib._Decompress | None = None
        self._packed = b""

    def put(self, packed: bytes) -> None:
        self._packed += packed

    def take(self) -> bytes:
        """Return the next bytes; empty if more compressed ones are needed."""
        while self._packed:
            stream = self._stream or self._open()
            try:
                piece = stream.decompress(self._packed, INFLATED)
            except zlib.error as error:
                raise InvalidResponse(f"its compressed body is broken: {error}") from None
            self._packed = stream.unconsumed_tail or stream.unused_data
            if stream.eof:  # RFC 1952, 2.2: another member may follow
                self._stream = None
                self._packed = self._packed if self._gzip else b""
            if piece:
                return piece
        return b""

    def _open(self) -> "zlib._Decompress":
        # RFC 9110, 8.4.1.2: "deflate" has a zlib header; some servers leave it out.
        raw = not self._gzip and self._packed[0] & 0x0F != 8
        self._stream = zlib.decompressobj(-15 if raw else 47)
        return self._stream

    def end(self) -> None:
        """Raise if the compressed data is not complete."""
        if self._stream is not None:
            raise ConnectionClosed("its compressed body is not complete")


def inflater_of(headers: CIMultiDictProxy[str]) -> BodyInflater | None:
    """Return what decompresses a body with these headers; None for a plain one."""
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in _PLAIN:
        return None
    if encoding in _GZIP or encoding == "deflate":
        return BodyInflater(gzip=encoding != "deflate")
    raise InvalidResponse(f"its body is encoded as {encoding[:40]!r}, which was not asked for")

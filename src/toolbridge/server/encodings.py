"""Compressed request bodies: one layer of gzip or deflate (RFC 9110, section 8.4).

More than one layer is rejected: no client sends that, and each layer multiplies the size that a
small body can unpack to.
"""

import zlib

from toolbridge.core.errors import MalformedRequest, TooLarge, UnknownEncoding

KNOWN = "gzip, deflate"
"""The value of the `Accept-Encoding` field in a 415 response."""
_WHERE = "content-encoding"
_HEADED, _BARE = 47, -15
"""zlib's `wbits` for data with a gzip or zlib header, and for deflate without a header."""
_GZIP = b"\x1f\x8b"
_MOST_MEMBERS = 64
"""Members of gzip data; each one is copied with all that follow."""
_WINDOWS = {"gzip": (_HEADED,), "x-gzip": (_HEADED,), "deflate": (_HEADED, _BARE)}


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """Return the decompressed body; raise `TooLarge` above `limit` bytes."""
    names = [name.strip().lower() for name in encoding.split(",", 16)]
    layers = [name for name in names if name not in {"", "identity"}]
    if not layers:
        return body
    if len(layers) > 1:
        raise UnknownEncoding(
            "the body has more than one layer of compression; send gzip or deflate", where=_WHERE
        )
    return _unpack(body, layers[0], limit)


def _unpack(body: bytes, name: str, limit: int) -> bytes:
    if name not in _WINDOWS:
        raise UnknownEncoding(
            f"the encoding {name[:40]!r} is not supported; send gzip, deflate or none", where=_WHERE
        )
    for window in _WINDOWS[name]:
        try:
            found, rest = _unpack_one(body, name, window, (limit, limit))
        except zlib.error:
            continue
        # RFC 1952, section 2.2: gzip data is a series of members.
        members = 1
        while rest.startswith(_GZIP) and name != "deflate" and members < _MOST_MEMBERS:
            try:
                member, rest = _unpack_one(rest, name, window, (limit - len(found), limit))
            except zlib.error:
                break
            found += member
            members += 1
        if rest:
            raise MalformedRequest(f"there are bytes after the {name} data", where=_WHERE)
        return found
    raise MalformedRequest(
        f"the body is not {name} data; compress it, or leave the field out", where=_WHERE
    )


def _unpack_one(
    body: bytes, name: str, window: int, limits: tuple[int, int]
) -> tuple[bytes, bytes]:
    """Return the decompressed data up to its end, and the bytes after it.

    `limits` are what is left for it, and the whole.
    """
    left, limit = limits
    reader = zlib.decompressobj(window)
    found = reader.decompress(body, left + 1)
    if len(found) > left:
        raise TooLarge(
            f"the request body unpacks to more than the limit of {limit} bytes (`max_body`)"
        )
    if not reader.eof:
        raise MalformedRequest(f"the {name} data is truncated; send all of it", where=_WHERE)
    return found, reader.unused_data

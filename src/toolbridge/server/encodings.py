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
        reader = zlib.decompressobj(window)
        try:
            found = reader.decompress(body, limit + 1)
        except zlib.error:
            continue
        if len(found) > limit:
            raise TooLarge(
                f"the request body unpacks to more than the limit of {limit} bytes (`max_body`)"
            )
        if not reader.eof:
            raise MalformedRequest(f"the {name} data is truncated; send all of it", where=_WHERE)
        if reader.unused_data:
            raise MalformedRequest(f"there are bytes after the {name} data", where=_WHERE)
        return found
    raise MalformedRequest(
        f"the body is not {name} data; compress it, or leave the field out", where=_WHERE
    )

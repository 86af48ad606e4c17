"""Request bodies that come compressed: one layer of gzip or deflate.

Layers on layers are refused: no client sends them, and each one multiplies what a small body may
unpack to.
"""

import zlib

from toolbridge.core.errors import MalformedRequest, TooLarge, UnknownEncoding

KNOWN = "gzip, deflate"
"""What a client may send, as the `Accept-Encoding` field of a 415 says it."""
_WHERE = "content-encoding"
_HEADED, _BARE = 47, -15
"""zlib's words for "gzip or zlib, see its head" and for deflate without a head."""
_WINDOWS = {"gzip": (_HEADED,), "x-gzip": (_HEADED,), "deflate": (_HEADED, _BARE)}


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """Return `body` as it was before its sender compressed it; never more than `limit` bytes."""
    names = [name.strip().lower() for name in encoding.split(",", 16)]
    layers = [name for name in names if name not in {"", "identity"}]
    if not layers:
        return body
    if len(layers) > 1:
        raise UnknownEncoding(
            "the body has more than one layer; send gzip or deflate", where=_WHERE
        )
    return _unpack(body, layers[0], limit)


def _unpack(body: bytes, name: str, limit: int) -> bytes:
    if name not in _WINDOWS:
        raise UnknownEncoding(
            f"{name[:40]!r} is not known here; send gzip, deflate or none", where=_WHERE
        )
    for window in _WINDOWS[name]:
        reader = zlib.decompressobj(window)
        try:
            found = reader.decompress(body, limit + 1)
        except zlib.error:
            continue
        if len(found) > limit:
            raise TooLarge(f"the request body unpacks to more than the limit of {limit} bytes")
        if not reader.eof:
            raise MalformedRequest(f"the {name} data breaks off", where=_WHERE)
        if reader.unused_data:
            raise MalformedRequest(f"something follows the {name} data", where=_WHERE)
        return found
    raise MalformedRequest(f"the body is not {name} data", where=_WHERE)

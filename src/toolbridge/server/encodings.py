"""Request bodies that come compressed."""

import zlib

from toolbridge.core.errors import MalformedRequest, TooLarge, Unsupported

_WHERE = "content-encoding"
_HEADED, _BARE = 47, -15
"""zlib's words for "gzip or zlib, see its head" and for deflate without a head."""
_WINDOWS = {"gzip": (_HEADED,), "x-gzip": (_HEADED,), "deflate": (_HEADED, _BARE)}


def unpacked(body: bytes, encoding: str, limit: int) -> bytes:
    """Return `body` as it was before its sender compressed it; never more than `limit` bytes."""
    names = [name.strip().lower() for name in encoding.split(",")]
    for name in reversed([name for name in names if name not in {"", "identity"}]):
        body = _unpack(body, name, limit)
    return body


def _unpack(body: bytes, name: str, limit: int) -> bytes:
    if name not in _WINDOWS:
        raise Unsupported(f"{name!r} is not known here; send gzip, deflate or none", where=_WHERE)
    for window in _WINDOWS[name]:
        reader = zlib.decompressobj(window)
        try:
            found = reader.decompress(body, limit + 1)
        except zlib.error:
            continue
        if len(found) > limit:
            raise TooLarge(f"the request body unpacks to more than the limit of {limit} bytes")
        if reader.eof:
            return found
        raise MalformedRequest(f"the {name} data breaks off", where=_WHERE)
    raise MalformedRequest(f"the body is not {name} data", where=_WHERE)

"""Seals texts of results that clients keep unread and send back.

Anthropic, web search tool: the text of a result is encrypted, and the client returns it with the
history. The gateway writes its own text there, compressed, with a code that only its key makes, so
that a text from another vendor or a changed one is recognized. Nothing needs to be stored.
"""

import hmac
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error

_PREFIX = "tb1."
_LONGEST = 8000
"""Characters of one sealed text."""
_CODE = 16


def seal(text: str, key: bytes) -> str:
    """Return `text` for a field that clients send back unread; empty for an empty text."""
    if not text:
        return ""
    packed = zlib.compress(text[:_LONGEST].encode("utf-8", "replace"), 9)
    return _PREFIX + urlsafe_b64encode(_code(packed, key) + packed).decode()


def maybe_unseal(sealed: str, key: bytes) -> str | None:
    """Return the text that `seal` made with the same key; None for any other value."""
    if not sealed.startswith(_PREFIX):
        return None
    try:
        data = urlsafe_b64decode(sealed.removeprefix(_PREFIX))
    except (Error, ValueError):
        return None
    code, packed = data[:_CODE], data[_CODE:]
    if not hmac.compare_digest(code, _code(packed, key)):
        return None
    return zlib.decompress(packed).decode("utf-8", "replace")


def _code(packed: bytes, key: bytes) -> bytes:
    return hmac.digest(key, packed, "sha256")[:_CODE]

"""Percent-encode model names for the path of a URL.

Gemini's API has the model's name in the path (`/v1beta/models/NAME:generateContent`). The name
comes from a client, so every character that could end the path or leave it is encoded.
"""

_PLAIN = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:@!$&'()*+,;="
)
"""The characters of a path segment (RFC 3986, `pchar`) and the slash."""


def quote_path(name: str) -> str:
    """Return `name` with every character percent-encoded that is not allowed in a path."""
    encoded = name.encode("utf-8", "replace")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in encoded)


def quote_segment(name: str) -> str:
    """Return `name` as one segment of a path: the slash is percent-encoded as well."""
    return quote_path(name).replace("/", "%2F")

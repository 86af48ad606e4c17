"""Names as parts of a URL's path.

Gemini's API has the model's name in the path. A name comes from a client, so every character that
could end the path or climb out of it is percent-encoded.
"""

_PLAIN = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:@!$&'()*+,;="
)
"""What RFC 3986 allows in a path segment, and the slash."""


def quote_path(name: str) -> str:
    """Return `name` for a path: its slashes stay, whatever else has a meaning is encoded."""
    encoded = name.encode("utf-8", "replace")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in encoded)

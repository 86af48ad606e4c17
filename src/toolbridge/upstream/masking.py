"""Replace a provider's keys in what the provider sends back.

Some providers repeat the key in an error or a header. The gateway's key must not reach a client
or a log, so `upstream/http.py` passes every response through a `KeyMask` first.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

MASK = "[key]"
SHORTEST = 8
"""Shorter keys ("none", "ollama") are placeholders, and masking them would damage ordinary text."""
_QUOTES = {'"': '\\"', "\\": "\\\\"}
_ESCAPED = frozenset("\"\\/&<>+'`")
_ENCODERS = tuple(
    str.maketrans(_QUOTES | escapes)
    for escapes in (
        {},
        {"/": "\\/"},  # PHP
        {char: f"\\u{ord(char):04x}" for char in "&<>"},  # Go
        {char: f"\\u{ord(char):04X}" for char in "&<>+'\"`"},  # .NET
    )
)
_SECRET_NAME = re.compile("authorization|key|token|secret|cookie", re.IGNORECASE)


def secrets_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys that the headers of a request carry, the longest first."""
    found: set[str] = set()
    for name, value in headers.items():
        if _SECRET_NAME.search(name):
            scheme, _, rest = value.partition(" ")
            found.add(rest if rest and scheme.isalpha() else value)
    if not found:
        return ()
    long = [value for value in found if len(value) >= SHORTEST and value.isascii()]
    return tuple(sorted(long, key=len, reverse=True))


def _forms(secret: str) -> Iterator[str]:
    """Yield `secret` itself, its base64, and its escaped forms in the JSON of several encoders."""
    yield secret
    yield b64encode(secret.encode()).decode().rstrip("=")
    if any(char in _ESCAPED for char in secret):
        yield from (secret.translate(table) for table in _ENCODERS)


@lru_cache(256)
def _encoded_forms(secrets: tuple[str, ...]) -> tuple[tuple[bytes, ...], frozenset[int]]:
    """Return all forms of the keys as bytes, and the bytes that occur in them."""
    forms = dict.fromkeys(form for text in secrets for form in _forms(text))
    encoded = tuple(form.encode() for form in forms)
    return encoded, frozenset(b"".join(encoded))


class KeyMask:
    """Replaces every key in a stream of bytes, also one that is cut by the network."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._texts = tuple(secrets)
        self._secrets, self._alphabet = _encoded_forms(self._texts)
        self._held = b""

    def text(self, text: str) -> str:
        for secret in self._texts:
            text = text.replace(secret, MASK)
        return text

    def feed(self, piece: bytes, /) -> bytes:
        """Return the masked bytes; hold back an end that may be the beginning of a key."""
        data = self._held + piece if self._held else piece
        for secret in self._secrets:
            if secret in data:
                data = data.replace(secret, MASK.encode())
        kept = self._possible_start(data)
        self._held = data[len(data) - kept :] if kept else b""
        return data[: len(data) - kept] if kept else data

    def close(self) -> bytes:
        rest, self._held = self._held, b""
        return rest

    def _possible_start(self, data: bytes) -> int:
        """Return the length of the longest end of `data` with which a key begins."""
        # Nearly every piece ends in a line end or a brace, which no key contains.
        if not data or data[-1] not in self._alphabet:
            return 0
        longest = 0
        for secret in self._secrets:
            for length in range(min(len(data), len(secret) - 1), longest, -1):
                if secret.startswith(data[len(data) - length :]):
                    longest = length
                    break
        return longest

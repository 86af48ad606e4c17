"""Masks known secrets: keys that somebody configured, wherever and however they are written.

A key also appears in other spellings: escaped in JSON, percent-encoded in a URL, in base64 inside a
`Basic` header. All of them are masked. A key of fewer than eight characters is not searched for: it
would mask ordinary words. `core.redaction` finds secrets that nobody configured.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator

MASK = "[redacted]"
SHORTEST = 8
"""Characters of the shortest secret that is searched for in texts."""
QUOTE = 20
"""Characters that an error must share with a request to quote it."""
_WORD = re.compile(r"\w+")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URL_SAFE = str.maketrans("+/", "-_")


def without_quotes(text: str, source: str) -> str:
    """Return `text` with everything that it quotes from `source` replaced by `…`.

    An upstream's error may repeat the prompt that it rejects. Quotes begin with a word.
    """
    parts: list[str] = []
    at = 0
    for word in _WORD.finditer(text):
        start, end = word.start(), word.start() + QUOTE
        if start < at or end > len(text) or text[start:end] not in source:
            continue
        while end < len(text) and text[start : end + 1] in source:
            end += 1
        parts += (text[at:start], "…")
        at = end
    return "".join((*parts, text[at:]))


def secrets_pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """Return what matches every spelling of each of `secrets`; None when none is long enough.

    Compile it once where many texts are masked.
    """
    known: set[str] = set()
    for secret in secrets:
        # Text is redacted line by line, so a secret of several lines is searched for line by line.
        for line in secret.splitlines():
            if len(line.strip()) >= SHORTEST:
                known |= set(_spellings(line.strip()))
    longest_first = sorted(known, key=lambda spelling: (-len(spelling), spelling))
    return re.compile("|".join(map(re.escape, longest_first))) if known else None


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    in_json = _in_json(secret)
    yield from in_json
    for escaped in in_json:  # a string of JSON in a string of JSON
        yield from _in_json(escaped)
    for quoted in (_percent(secret, keep=_UNRESERVED), _percent(secret, keep=_UNRESERVED | {"/"})):
        yield quoted
        yield re.sub("%..", lambda found: found[0].lower(), quoted)
    for encoded in _in_base64(secret.encode("utf-8", "replace")):
        yield encoded
        yield encoded.translate(_URL_SAFE)


def _in_json(text: str) -> set[str]:
    written = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return written | {form.replace("/", "\\/") for form in written}


def _percent(text: str, keep: frozenset[str]) -> str:
    """Return `text` percent-encoded (RFC 3986), without importing `urllib`."""
    return "".join(
        char
        if char in keep
        else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))
        for char in text
    )


def _in_base64(secret: bytes) -> Iterator[str]:
    """Yield what base64 shows of `secret` at each of the three places in a group of three bytes."""
    for before in range(3):
        encoded = b64encode(b"\0" * before + secret).decode()
        # Characters that also depend on the bytes before and after are left out.
        yield encoded[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]

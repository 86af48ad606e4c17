"""Masks configured secrets in any spelling.

A key may also appear escaped in JSON, percent-encoded in a URL, or in base64 inside a `Basic`
header; all spellings are masked. A key of fewer than eight characters is not searched for, because
it would mask ordinary words. `core.redaction` finds other secrets.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator

MASK = "[redacted]"
SHORTEST = 8
"""The shortest secret that is searched for, in characters."""
QUOTE = 20
"""How many characters an error must share with a request to count as a quote; fewer in quotation
marks, if they are a whole text of the request."""
_TEXTS = re.compile(
    r'"(?:content|text|prompt|input|system|instructions|query)"\s*:\s*'
    rf'"((?:[^"\\]|\\.){{3,{QUOTE}}})"'
)
"""The short texts of a request."""
_WORD = re.compile(r"\w+")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URL_SAFE = str.maketrans("+/", "-_")


def without_quotes(text: str, source: str) -> str:
    """Return `text` with every quote from `source` replaced by `…`.

    An upstream's error may repeat the prompt that it rejects. A quote begins with a word.
    """
    for short in dict.fromkeys(found[1] for found in _TEXTS.finditer(source)):
        text = re.sub(rf"""(?<=["'`]){re.escape(short)}(?=["'`\\])""", "…", text)
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
    """Return a pattern for every spelling of `secrets`; None when none is long enough.

    Compile it once and use it for many texts.
    """
    known: set[str] = set()
    for secret in secrets:
        # Text is redacted line by line, so each line of a secret is searched for by itself.
        for line in secret.splitlines():
            if len(line.strip()) >= SHORTEST:
                known |= set(_spellings(line.strip()))
    longest_first = sorted(known, key=lambda spelling: (-len(spelling), spelling))
    return re.compile("|".join(map(re.escape, longest_first))) if known else None


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    in_json = _in_json(secret)
    yield from in_json
    for escaped in in_json:  # a JSON string inside a JSON string
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
    """Yield the base64 of `secret` at each of the three offsets in a group of three bytes."""
    for before in range(3):
        encoded = b64encode(b"\0" * before + secret).decode()
        # Leaves out the characters that depend on the bytes before and after.
        yield encoded[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6]

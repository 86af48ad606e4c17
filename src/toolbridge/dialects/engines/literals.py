"""Parses literals in Python notation: both kinds of quotes, `None`, tuples, `+7`, and JSON.

Nothing is evaluated. A word other than a literal is a string, because the templates of several models
write strings without quotes into the history.
"""

import math
import re

from toolbridge.core.json import Json
from toolbridge.core.lazy_pattern import lazy_pattern

_WORDS: dict[str, Json] = {
    "true": True, "false": False, "null": None, "none": None,
}  # fmt: skip
_NUMBER = lazy_pattern(r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_STRING = lazy_pattern(r"[bBrRuUfF]{0,2}(\"\"\"|'''|\"|')")
_BARE = lazy_pattern(r"[^,()\[\]{}]+")
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0",
    "\\": "\\", "'": "'", '"': '"', "/": "/", "\n": "",
}  # fmt: skip
_HEX = {"x": 2, "u": 4, "U": 8}
_DEPTH = 64


class Unreadable(ValueError):
    """Raised when the text is not a literal."""


def literal(text: str, *, words: bool = True) -> Json:
    """Return the value of `text`, or raise `Unreadable`; with `words`, a bare word is a string."""
    reader = _Reader(text, words=words)
    value = reader.value(0)
    if reader.rest():
        raise Unreadable(text)
    return value


def unescape(body: str, *, raw: bool = False) -> str:
    """Return the content of a string without its escapes; an unknown escape is kept."""
    if raw or "\\" not in body:
        return body
    parts: list[str] = []
    at = 0
    while (slash := body.find("\\", at)) >= 0:
        parts.append(body[at:slash])
        mark = body[slash + 1 : slash + 2]
        size = _HEX.get(mark, 0)
        digits = body[slash + 2 : slash + 2 + size]
        if size and len(digits) == size and all(c in "0123456789abcdefABCDEF" for c in digits):
            parts.append(chr(min(int(digits, 16), 0x10FFFF)))
            at = slash + 2 + size
        else:
            parts.append(_ESCAPES.get(mark, "\\" + mark))
            at = slash + 2
    parts.append(body[at:])
    joined = "".join(parts)
    if any("\ud800" <= c <= "\udfff" for c in joined):
        return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined


class _Reader:
    def __init__(self, text: str, *, words: bool) -> None:
        self._text = text
        self._words = words
        self._at = 0

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def value(self, depth: int) -> Json:
        if depth > _DEPTH:
            raise Unreadable("nested too deeply")
        here = self._peek()
        if here == "{":
            return self._braces(depth)
        if here in {"[", "("}:
            return self._items("]" if here == "[" else ")", depth)
        if string := _STRING.match(self._text, self._at):
            return self._string(string)
        return self._word()

    def _peek(self) -> str:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _items(self, close: str, depth: int) -> list[Json]:
        self._at += 1
        items: list[Json] = []
        while self._peek() != close:
            items.append(self.value(depth + 1))
            self._separate(close)
        self._at += 1
        return items

    def _braces(self, depth: int) -> Json:
        """Return an object, or a list for a set."""
        self._at += 1
        members: dict[str, Json] = {}
        items: list[Json] = []
        while self._peek() != "}":
            key = self._key(depth)
            if self._peek() == ":":
                self._at += 1
                members[key if isinstance(key, str) else _written(key)] = self.value(depth + 1)
            else:
                items.append(key)
            self._separate("}")
        self._at += 1
        return items if items and not members else members

    def _key(self, depth: int) -> Json:
        if (
            bare := lazy_pattern(r"[A-Za-z_$][\w$-]*(?=\s*:)").match(self._text, self._at)
        ) is not None:
            self._at = bare.end()
            return bare.group()
        return self.value(depth + 1)

    def _separate(self, close: str) -> None:
        here = self._peek()
        if here == ",":
            self._at += 1
        elif here != close:
            raise Unreadable(self._text[self._at :])

    def _string(self, opened: "re.Match[str]") -> str:
        quote = opened.group(1)
        start = at = opened.end()
        while True:
            end = self._text.find(quote, at)
            if end < 0:
                raise Unreadable("a string is not closed")
            slashes = len(self._text[start:end]) - len(self._text[start:end].rstrip("\\"))
            if slashes % 2 == 0:
                break
            at = end + 1
        self._at = end + len(quote)
        return unescape(self._text[start:end], raw="r" in opened.group()[: -len(quote)].lower())

    def _word(self) -> Json:
        match = _BARE.match(self._text, self._at)
        if match is None:
            raise Unreadable(self._text[self._at :])
        word = match.group()
        if ":" in word and _NUMBER.match(word):
            word = word.split(":", 1)[0]
        self._at += len(word)
        value = _valued(word.strip())
        if isinstance(value, str) and not self._words:
            raise Unreadable(word)
        return value


def _valued(word: str) -> Json:
    if word.lower() in _WORDS and word in {word.lower(), word.capitalize()}:
        return _WORDS[word.lower()]
    if _NUMBER.fullmatch(word):
        return _number(word)
    if not word:
        raise Unreadable("a value is missing")
    return word


def _number(word: str) -> Json:
    plain = word.replace("_", "")
    if "x" in plain.lower():
        return int(plain, 16)
    if re.fullmatch(r"[+-]?\d+", plain):
        return int(plain)
    number = float(plain)
    return number if math.isfinite(number) else word


def _written(key: Json) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)

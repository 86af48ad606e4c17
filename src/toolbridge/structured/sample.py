"""Derives a short text that matches a regular expression, without searching."""

import re

_QUANTIFIER = re.compile(r"\{(\d{1,4})(?:,\d{0,4})?\}")
_CLASSES = {"d": "0", "w": "a", "s": " ", "D": "a", "W": " ", "S": "a", "n": "\n", "t": "\t"}
_OTHERS = "~ a0A_-\u00e9"
_MAX_LENGTH = 4096
_MAX_DEPTH = 32


def sample(pattern: str) -> str | None:
    """Return a text that `pattern` should match; None for an unsupported pattern."""
    try:
        reader = _Reader(pattern)
        text = reader.alternatives()
    except (ValueError, IndexError, StopIteration):
        return None
    return text if reader.at == len(pattern) and len(text) <= _MAX_LENGTH else None


class _Reader:
    """Reads a pattern and builds the shortest text for each part of it."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._depth = 0
        self.at = 0

    def alternatives(self) -> str:
        """Read up to the end of a group; return the shortest alternative."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        found = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            found.append(self._sequence())
        self._depth -= 1
        return min(found, key=len)

    def _next(self) -> str:
        return self._pattern[self.at : self.at + 1]

    def _take(self) -> str:
        self.at += 1
        return self._pattern[self.at - 1]

    def _sequence(self) -> str:
        written: list[str] = []
        size = 0
        while self._next() not in ("", "|", ")"):
            part = self._atom() * self._times()
            size += len(part)
            if size > _MAX_LENGTH:
                raise ValueError("too long")
            written.append(part)
        return "".join(written)

    def _atom(self) -> str:
        first = self._take()
        if first in "^$":
            return ""
        if first == ".":
            return "a"
        if first == "(":
            return self._group()
        if first == "[":
            return self._class()
        return self._escape() if first == "\\" else first

    def _group(self) -> str:
        if self._next() == "?":
            if self._pattern[self.at : self.at + 2] != "?:":
                raise ValueError("looks ahead or behind, or has a name")
            self.at += 2
        text = self.alternatives()
        if self._take() != ")":
            raise ValueError("a group does not end")
        return text

    def _escape(self) -> str:
        letter = self._take()
        if letter in "bBAZz":
            return ""
        if letter.isalnum() and letter not in _CLASSES:
            raise ValueError("an escape that is not known")
        return _CLASSES.get(letter, letter)

    def _class(self) -> str:
        """Read a character class; return its first character, or one outside a negated class."""
        negated = self._next() == "^"
        self.at += negated
        ranges = [self._range()]
        while self._next() != "]":
            ranges.append(self._range())
        self.at += 1
        if not negated:
            return ranges[0][0]
        return next(c for c in _OTHERS if not any(low <= c <= high for low, high in ranges))

    def _range(self) -> tuple[str, str]:
        low = self._member()
        if self._next() != "-" or self._pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return low, low
        self.at += 1
        return low, self._member()

    def _member(self) -> str:
        here = self._take()
        return self._escape() if here == "\\" else here

    def _times(self) -> int:
        """Read a quantifier; return the least number of repetitions."""
        least = 1
        if self._next() in ("*", "?"):
            self.at += 1
            least = 0
        elif self._next() == "+":
            self.at += 1
        elif found := _QUANTIFIER.match(self._pattern, self.at):
            self.at = found.end()
            least = int(found[1])
        if self._next() in ("?", "+"):  # lazy or possessive: no difference here
            self.at += 1
        if _QUANTIFIER.match(self._pattern, self.at):
            raise ValueError("repeats what is repeated")
        return least

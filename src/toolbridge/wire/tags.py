"""Find literal marks such as `<tool_call>` in text while it arrives. Dialects are built on it.

A `Cursor` holds the text that has arrived and was not taken yet. A reader is a generator: it takes
text from the cursor and yields when it needs more, so that its decisions do not depend on where the
network cut the text. No more is held back than the longest possible beginning of a mark.
"""

import re
from collections.abc import Callable, Generator, Iterable
from enum import Enum
from functools import cache, lru_cache
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Wait: TypeAlias = Generator[None, None, T]
"""A generator that yields while it needs more text, and then returns a value."""
Sink: TypeAlias = Callable[[str], object]
SPACE = " \t\r\n\f\v"


@cache
def _run_of(characters: str) -> "re.Pattern[str]":
    return re.compile(f"[{re.escape(characters)}]*")


@lru_cache(maxsize=1024)
def _extent_of(marks: tuple[str, ...]) -> tuple[int, frozenset[str]]:
    """Return the length of the longest mark, and the first characters of all."""
    return max(map(len, marks), default=0), frozenset(mark[0] for mark in marks if mark)


_DEPTH = 4
"""Characters of a mark that are compared first: fewer, such as ` to`, occur in every sentence."""


@lru_cache(maxsize=256)
def _beginning_of(marks: tuple[str, ...]) -> "re.Pattern[str]":
    """Return a pattern for the first `_DEPTH` characters of a mark, or fewer at the end of the text."""
    return re.compile("|".join(_branches(marks, _DEPTH)) or r"(?!)")


def _branches(marks: Iterable[str], depth: int) -> list[str]:
    """Return a pattern for each first character of `marks`, followed by those that may come next."""
    rests: dict[str, list[str]] = {}
    for mark in filter(None, marks):
        rests.setdefault(mark[0], []).append(mark[1:])
    return [
        re.escape(first)
        if depth == 1 or "" in more
        else rf"{re.escape(first)}(?:{'|'.join(_branches(more, depth - 1))}|\Z)"
        for first, more in rests.items()
    ]


class Marks:
    """A set of literal marks; of two that begin at the same offset the longer one is found."""

    def __init__(self, marks: Iterable[str]) -> None:
        self.all = tuple(sorted(set(marks), key=lambda mark: (-len(mark), mark)))
        self._pattern = re.compile("|".join(map(re.escape, self.all)) or r"(?!)")
        self.beginning = _beginning_of(self.all)
        """Finds the first characters of a mark: text in which it finds nothing holds no mark."""
        self._beginnings = frozenset(mark[:n] for mark in self.all for n in range(1, len(mark)))
        self._longest = max(map(len, self.all), default=0)

    def held(self, text: str, start: int = 0) -> int:
        """Return how many characters at the end of `text` may be the beginning of a mark."""
        at = max(start, len(text) - self._longest + 1)
        while (beginning := self.beginning.search(text, at)) is not None:
            at = beginning.start()
            if text[at:] in self._beginnings:
                return len(text) - at
            at += 1
        return 0

    def find(self, text: str, start: int, *, ended: bool) -> tuple[int, int]:
        """Return the offsets of the next mark; both are the same where no mark is certain yet."""
        beginning = self.beginning.search(text, start)
        if beginning is None:  # most pieces of text
            return len(text), len(text)
        start = beginning.start()
        edge = len(text) if ended else len(text) - self.held(text, start)
        match = self._pattern.search(text, start)
        if match is None or match.start() >= edge:
            return edge, edge
        return match.start(), match.end()


class Cursor:
    """Text that is still arriving, and the offset up to which it was taken."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.ended = False
        self._trail: list[str] | None = None

    def feed(self, piece: str) -> None:
        self.text = self.text[self.at :] + piece
        self.at = 0

    def end(self) -> None:
        self.ended = True

    def take(self, size: int) -> str:
        taken = self.text[self.at : self.at + size]
        self.at += len(taken)
        if self._trail is not None and taken:
            self._trail.append(taken)
        return taken

    def push_back(self, text: str) -> None:
        """Put `text` in front of the text that was not taken."""
        before = self.at - len(text)
        if before >= 0 and self.text.startswith(text, before):
            self.at = before  # avoids copying the rest of the buffer
            return
        self.text = text + self.text[self.at :]
        self.at = 0

    def remember(self) -> int:
        """Record the text that is taken from now on; return a mark for `rewind`."""
        if self._trail is None:
            self._trail = []
        return len(self._trail)

    def rewind(self, mark: int) -> None:
        """Put back the text that was taken since `remember` returned `mark`."""
        trail = self._trail or []
        self.push_back("".join(trail[mark:]))
        del trail[mark:]

    def forget(self) -> None:
        """Stop recording; marks of `remember` become invalid."""
        self._trail = None

    def need(self, size: int) -> Wait[bool]:
        """Wait for `size` characters; return False if the text ends before."""
        while len(self.text) - self.at < size and not self.ended:
            yield
        return len(self.text) - self.at >= size

    def peek(self) -> Wait[str]:
        """Return the next character without taking it; an empty string at the end."""
        while self.at >= len(self.text) and not self.ended:
            yield
        return self.text[self.at : self.at + 1]

    def skip(self, characters: str = SPACE) -> Wait[str]:
        """Take and return the following characters that are in `characters`."""
        taken: list[str] = []
        run = _run_of(characters)
        while True:
            match = run.match(self.text, self.at)
            if match and match.group():
                taken.append(self.take(len(match.group())))
            if self.at < len(self.text) or self.ended:
                return "".join(taken)
            yield

    def stands(self, *marks: str, offset: int = 0) -> Wait[str]:
        """Return the longest of `marks` at `offset` from here; an empty string for no match."""
        longest, first = _extent_of(marks)
        while True:
            start = self.at + offset
            rest = self.text[start : start + longest]
            if rest and rest[0] not in first:  # nearly always
                return ""
            if not rest and first and not self.ended:  # at the end of a piece: any mark may follow
                yield
                continue
            best, longer = "", False
            for mark in marks:
                if rest.startswith(mark):
                    best = max(best, mark, key=len)
                elif mark.startswith(rest):
                    longer = True
            if not longer or self.ended:
                return best
            yield

    def accept(self, *marks: str) -> Wait[str]:
        """Take and return the longest of `marks` that is next; an empty string if none is."""
        found = yield from self.stands(*marks)
        self.take(len(found))
        return found

    def follows(self, *marks: str, offset: int = 0, at_end: bool = True) -> Wait[bool]:
        """Return whether one of `marks` follows, after white space; `at_end` if the text ends."""
        while True:
            yield from self.need(offset + 1)
            here = self.text[self.at + offset : self.at + offset + 1]
            if not here:
                return at_end
            if here not in SPACE:
                return bool((yield from self.stands(*marks, offset=offset)))
            offset += 1

    def match(self, pattern: "re.Pattern[str]", limit: int = 256) -> Wait[str]:
        """Return the text that `pattern` matches here, without taking it; empty for no match.

        A match is returned once text follows it, or the text has ended. `pattern` must match every
        prefix of a match. A match of more than `limit` characters counts as no match.
        """
        yield from self.need(1)
        while True:
            found = pattern.match(self.text, self.at, self.at + limit + 1)
            if found is None:
                return ""
            if found.end() < len(self.text) or self.ended:
                return found.group() if len(found.group()) <= limit else ""
            if len(found.group()) > limit:
                return ""
            yield

    def until(self, marks: Marks, sink: Sink, *, keep: bool = False) -> Wait[str]:
        """Pass the text before the next mark to `sink`; return the mark, which is taken unless `keep`."""
        while True:
            begin, end = marks.find(self.text, self.at, ended=self.ended)
            if begin > self.at:
                sink(self.take(begin - self.at))
            if end > begin:
                return self.text[begin:end] if keep else self.take(end - begin)
            if self.ended:
                return ""
            yield


class Ending(Enum):
    """How the text of a JSON value ended."""

    WHOLE = "whole"
    CUT = "cut"
    """The text ended before the value did."""
    BROKEN = "broken"
    """A closing mark came first, or the text was not JSON."""


_LOOSE = re.compile(r"[\s0-9A-Za-z+\-.,:_$]+")
_SCALAR = re.compile(r"[0-9A-Za-z+\-._]+")
_IN_STRING = {
    '"': re.compile(r'(?:[^"\\]++|\\.)++', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]++|\\.)++", re.DOTALL),
}
_CLOSES = {"{": "}", "[": "]"}


class JsonWalk:
    """Finds the end of one JSON value as it arrives, without parsing it.

    Marks inside strings are text. Strings may have single quotes, because models write them. When
    a string is followed by a character that JSON does not allow there, it contained unescaped
    quotes; from there on only a mark of `ends` ends the value.
    """

    def __init__(self, cursor: Cursor, sink: Sink, ends: Marks, *, patient: bool = True) -> None:
        self._cursor = cursor
        self._sink = sink
        self._ends = ends
        self._patient = patient
        """Whether the rest of a broken value, up to the mark that ends it, goes to the sink."""
        self._depth: list[str] = []

    def string(self) -> Wait[Ending]:
        """Take a string with its quotes."""
        quote = yield from self._cursor.peek()
        if quote not in _IN_STRING:
            return Ending.BROKEN
        return Ending.WHOLE if (yield from self._string(quote)) else Ending.CUT

    def value(self) -> Wait[Ending]:
        """Take the value and pass its text to the sink."""
        while True:
            here = yield from self._cursor.peek()
            if not here:
                return Ending.CUT
            if not self._depth and _SCALAR.match(here):
                return (yield from self._scalar())
            if here in _IN_STRING:
                ending = yield from self._text(here)
            elif here in _CLOSES or here in _CLOSES.values():
                ending = yield from self._bracket(here)
            elif self._depth:
                ending = yield from self._between()
            else:
                return Ending.BROKEN
            if ending is not None:
                return ending
            if not self._depth:
                return Ending.WHOLE

    def _text(self, quote: str) -> Wait[Ending | None]:
        """Take a string; return how the value ended, or None if it goes on."""
        if not (yield from self._string(quote)):
            return Ending.CUT
        if not (yield from self._may_follow_string()):
            return (yield from self._broken())
        return None

    def _bracket(self, here: str) -> Wait[Ending | None]:
        if here in _CLOSES:
            self._depth.append(_CLOSES[here])
        elif not self._depth or self._depth.pop() != here:
            return (yield from self._broken())
        self._sink(self._cursor.take(1))
        return None

    def _between(self) -> Wait[Ending | None]:
        """Take the text between strings and brackets."""
        cursor = self._cursor
        if match := _LOOSE.match(cursor.text, cursor.at):
            self._sink(cursor.take(len(match.group())))
            return None
        if (yield from cursor.stands(*self._ends.all)):
            return Ending.BROKEN
        return (yield from self._broken())

    def _string(self, quote: str) -> Wait[bool]:
        """Take a string; return whether it was closed."""
        cursor = self._cursor
        self._sink(cursor.take(1))
        run = _IN_STRING[quote]
        while True:
            if match := run.match(cursor.text, cursor.at):
                self._sink(cursor.take(match.end() - cursor.at))
            elif cursor.at == len(cursor.text):
                if cursor.ended:
                    return False
                yield
            elif cursor.text[cursor.at] == quote:
                self._sink(cursor.take(1))
                return True
            else:  # a backslash at the end: the escaped character has not arrived
                yield from cursor.need(2)
                self._sink(cursor.take(2))

    def _scalar(self) -> Wait[Ending]:
        cursor = self._cursor
        while match := _SCALAR.match(cursor.text, cursor.at):
            self._sink(cursor.take(len(match.group())))
            yield from cursor.need(1)
        return Ending.WHOLE

    def _may_follow_string(self) -> Wait[bool]:
        if not self._depth:
            return True
        return (yield from self._cursor.follows(",", ":", "}", "]", *self._ends.all))

    def _broken(self) -> Wait[Ending]:
        """Pass everything up to a mark that ends the value to the sink."""
        if not self._patient:
            return Ending.BROKEN
        cursor = self._cursor
        mark = yield from cursor.until(self._ends, self._sink, keep=True)
        return Ending.BROKEN if mark else Ending.CUT

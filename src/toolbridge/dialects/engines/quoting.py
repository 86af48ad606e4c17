"""Finds calls that a text only quotes: documentation of a format, an example, a citation.

`Quoting` follows the Markdown of the text before a mark. A call is quoted that is in a code span, on a line
of a blockquote, in an HTML comment, or directly after a quotation mark inside a sentence; so is
everything up to the end of the quotation. Indented calls are not: some models indent the calls they make.

The text is searched only when a mark is found, so that text without marks costs nothing.
"""

# ruff: noqa: RUF001 -- typographic quotes

import re
from typing import Literal

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.wire.tags import Cursor, Marks, Wait

_CLOSERS = {
    '"': '"', "'": "'", "“": "”", "‘": "’", "„": "“”", "«": "»", "‹": "›", "「": "」", "『": "』",
}  # fmt: skip
_OPENER = lazy_pattern(r"(?:(?<=[\s(\[:=,])[\"']|[“‘„«‹「『])[ \u00a0\u202f]?\Z")
"""A quotation mark at the end; a straight one opens only where no word is before it."""
_BLOCKQUOTE = lazy_pattern(r" {0,3}(?:[-*+] +)?>")
"""A line of a blockquote, also in a list."""
_CLOSED = r"[>})\]](?:[\"'”’“」』]|[ \u00a0\u202f]?[»›])"
_SIGN = lazy_pattern(rf"`+|<!--|-->|\n|{_CLOSED}")
_QUOTE_END = lazy_pattern(rf"{_CLOSED}|\n[ \t]{0, 8}\n")
_COMMENT_END = Marks(["-->"])
_SPAN_END = lazy_pattern(r"`+|\n")
_HEAD = 8
_LONGEST = 32
"""More characters than a match of these patterns has."""
_TAIL = 3


class Quoting:
    """The quotations that are open at the end of a text."""

    __slots__ = (
        "_blank", "_comment", "_head", "_kind", "_no_comment_end", "_open", "_pending", "_span",
        "_tail", "_unclosed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._pending: list[str] = []
        """Text that was not searched yet."""
        self._no_comment_end = False
        """Whether the rest of the answer was searched for the end of a comment, and has none."""
        self.reset()

    def reset(self) -> None:
        """Begin a new text, as after a call."""
        self._pending.clear()
        self._head = ""
        """The beginning of the current line."""
        self._tail = ""
        """The last characters of the current line."""
        self._blank = True
        """Whether the current line has only white space."""
        self._span = 0
        """The backticks that opened the current code span; 0 outside of one."""
        self._comment = False
        self._kind: Literal["", "span", "line", "comment", "quotes"] = ""
        """The quotation that the last call is in."""
        self._open = ""
        """The quotation mark of `quotes`."""
        self._unclosed = ""
        """The quotation marks that the rest of this paragraph does not close."""

    def add(self, text: str) -> None:
        self._pending.append(text)

    @property
    def in_span(self) -> bool:
        """Whether a code span is open."""
        self._search()
        return self._span > 0

    @property
    def in_call(self) -> bool:
        """Whether a quotation is open that has a call in it."""
        if self._kind:
            self._search()
        return bool(self._kind)

    @property
    def ends_sentence(self) -> bool:
        """Whether the line is empty or ends in a full stop."""
        self._search()
        return self._blank or self._tail.rstrip()[-1:] in {".", "!", "?", "…"}

    def begins(self, cursor: Cursor, *, is_tag: bool) -> Wait[bool]:
        """Return whether a call at the cursor is quoted; `in_call` is True then.

        `is_tag` if it begins with a tag: quotation marks before brackets are in many sentences.
        """
        self._search()
        if (yield from self._is_in_span(cursor, is_tag=is_tag)):
            self._kind = "span"
        elif (yield from self._is_in_comment(cursor)):
            self._kind = "comment"
        elif _BLOCKQUOTE.match(self._head):
            self._kind = "line"
        elif is_tag and (yield from self._is_in_quotes(cursor)):
            self._kind = "quotes"
        return bool(self._kind)

    def _is_in_span(self, cursor: Cursor, *, is_tag: bool) -> Wait[bool]:
        """Whether the text is in a code span; a backtick that nothing closes on its line opens none."""
        if not self._span or self._tail.rstrip(" ").endswith("`"):
            return self._span > 0
        if not is_tag:
            return False
        if not (yield from _closes_span(cursor, self._span)):
            self._span = 0
        return self._span > 0

    def _is_in_comment(self, cursor: Cursor) -> Wait[bool]:
        if self._comment and not self._no_comment_end:
            position = cursor.remember()
            self._comment = bool((yield from cursor.until(_COMMENT_END, lambda _: None)))
            self._no_comment_end = not self._comment
            cursor.rewind(position)
            cursor.forget()
        return self._comment and not self._no_comment_end

    def _is_in_quotes(self, cursor: Cursor) -> Wait[bool]:
        opener = _OPENER.search(self._tail)
        if opener is None or self._head.strip() in {"", opener.group()[0]}:
            return False
        self._open = opener.group()[0]
        if self._open in self._unclosed:
            return False
        closed = yield from _closes_quotes(cursor, self._open)
        self._unclosed += "" if closed else self._open
        return closed

    def _search(self) -> None:
        """Search the text that was added since the last call of this method."""
        if not self._pending:
            return
        text = "".join(self._pending)
        self._pending.clear()
        start = 0
        for sign in _SIGN.finditer(text):
            self._line(text[start : sign.start()])
            start = sign.end()
            self._read(sign.group())
        self._line(text[start:])

    def _line(self, text: str) -> None:
        if text:
            self._head = (self._head + text[:_HEAD])[:_HEAD]
            self._tail = (self._tail + text[-_TAIL:])[-_TAIL:]
            self._blank = self._blank and not text.strip()

    def _read(self, sign: str) -> None:
        """Follow one sign; backticks in a comment mean nothing."""
        if sign == "\n":
            self._end_line()
            return
        if sign == "<!--":
            self._comment = not self._span
        elif sign == "-->":
            self._comment = False
            if self._kind == "comment":
                self._kind = ""
        elif sign[0] == "`" and not self._comment:
            self._ticks(len(sign))
        elif self._kind == "quotes" and sign[-1] in _CLOSERS[self._open]:
            self._kind = ""
        self._line(sign)

    def _ticks(self, run: int) -> None:
        """CommonMark 6.1: a code span ends with as many backticks as it began with."""
        if not self._span:
            self._span = run
        elif self._span == run:
            self._span = 0
            if self._kind == "span":
                self._kind = ""

    def _end_line(self) -> None:
        """A code span or a quotation with a call may have several lines, up to an empty one."""
        if self._kind == "line" or (self._kind != "comment" and self._blank):
            self._kind = ""
        if self._kind != "span":
            self._span = 0
        if self._blank:
            self._unclosed = ""
        self._head = self._tail = ""
        self._blank = True


def _closes_span(cursor: Cursor, ticks: int) -> Wait[bool]:
    """Whether a code span that `ticks` backticks opened ends on this line."""
    offset = 0
    while sign := (yield from _ahead(cursor, _SPAN_END, offset)):
        if sign.group() == "\n" or len(sign.group()) == ticks:
            return sign.group() != "\n"
        offset = sign.end() - cursor.at
    return False


def _closes_quotes(cursor: Cursor, opener: str) -> Wait[bool]:
    """Whether the quotation mark that ends a quoted call is in this paragraph."""
    offset = 0
    while sign := (yield from _ahead(cursor, _QUOTE_END, offset)):
        if sign.group()[0] == "\n" or sign.group()[-1] in _CLOSERS[opener]:
            return sign.group()[0] != "\n"
        offset = sign.end() - cursor.at
    return False


def _ahead(cursor: Cursor, pattern: "re.Pattern[str]", offset: int) -> "Wait[re.Match[str] | None]":
    """Return the next match of `pattern`, from `offset` on, without taking it.

    A match is certain once text follows it, or the text has ended.
    """
    while True:
        found = pattern.search(cursor.text, cursor.at + offset)
        if cursor.ended or (found is not None and found.end() < len(cursor.text)):
            return found
        # The longest part of a match that may be at the end of the text.
        offset = max(offset, len(cursor.text) - cursor.at - _LONGEST)
        if found is not None:
            offset = min(offset, found.start() - cursor.at)
        yield

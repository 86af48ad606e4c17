"""Whether the text of a model quotes a sentinel instead of writing a frame.

A model that reports what a page or a tool says may repeat a sentinel in its prose. Such a sentinel is
text: in a code span or a fenced block, in a Markdown block quote, or between quotation marks on the
same line. A quotation mark counts only within its line, so that a stray one cannot hide the rest of
an answer.

`Prose` follows the text between frames, in one pass and however it is cut. The grammar asks it about
each sentinel. After a sentinel that is text, the rest of its line opens no tool call.
"""

import re

from toolbridge.framed.sentinels import Kind, Sentinel

_TOKEN = re.compile("`+|~+|[\r\n]|[\"'>\u2018-\u201f\u2039\u203a\u00ab\u00bb\u300c-\u300f]")
_LINE_ENDS = "\r\n"
_LEAST_FENCE = 3
_MOST_INDENT = 3
"""CommonMark: a fence may be indented by up to three spaces."""

_BEFORE_OPENING = frozenset(" \t\r\n([{<:,;=|/*_-\u2013\u2014\u2026>")
"""Characters after which a straight quotation mark opens a quotation."""
_PAIRS = {"\u300c": "\u300d", "\u300e": "\u300f", "\u2018": "\u2019"}
_TOGGLES = frozenset("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a")
"""Marks that open in one language and close in another: \u201e\u2026\u201c and \u201c\u2026\u201d, \u00ab\u2026\u00bb and \u00bb\u2026\u00ab."""


class Prose:
    """The text between frames, as far as quotations in it matter."""

    def __init__(self) -> None:
        self._last = "\n"
        self._fence = ""
        """The marks that opened the fenced block."""
        self._inside: tuple[Kind, str] | None = None
        """The frame that is being quoted: nothing before its end is looked at."""
        self._new_line()

    def _new_line(self) -> None:
        self._blank = True
        """Whether the line has only white space so far."""
        self._indent = 0
        self._run = ""
        """Marks of code that may go on."""
        self._run_begins_line = False
        self._may_close = False
        """Whether the line closes the fenced block if nothing else stands in it."""
        self._code = 0
        """How many marks opened the code span."""
        self._open: set[str] = set()
        """Quotation marks that are open."""
        self._spoilt = False

    # The grammar's side.

    def feed(self, text: str) -> None:
        """Take text between frames."""
        at = 0
        while found := _TOKEN.search(text, at):
            self._pass(text[at : found.start()])
            self._meet(found.group())
            at = found.end()
        self._pass(text[at:])

    def spoil(self) -> None:
        """Let the rest of the line open no tool call."""
        self._spoilt = True

    def pass_frame(self) -> None:
        """Take note of a frame: it ended in this line."""
        self._pass(" ")
        self._blank = False

    def is_text(self, found: Sentinel) -> bool:
        """Whether a sentinel that comes next is a part of the text."""
        self._settle_run()
        self._may_close = False
        if self._inside is not None:
            if not found.begins and (found.kind, found.id) == self._inside:
                self._inside = None
            return True
        if not (self._is_quoted or (self._spoilt and found.begins and found.kind == "tool")):
            return False
        self._spoilt = True
        self._inside = (found.kind, found.id) if found.begins else None
        return True

    @property
    def _is_quoted(self) -> bool:
        return bool(self._fence or self._code or self._open)

    # Reading.

    def _pass(self, text: str) -> None:
        """Take characters that are no marks."""
        if not text:
            return
        self._settle_run()
        if self._last == "'" and text[0].isdecimal():  # the '90s
            self._open.discard("'")
        self._last = text[-1]
        if self._blank and text.isspace():
            self._indent += len(text)
        elif not text.isspace():
            self._blank = self._may_close = False

    def _meet(self, mark: str) -> None:
        if mark in _LINE_ENDS:
            self._end_line()
        elif mark[0] in "`~":
            self._add_run(mark)
            self._last = mark[-1]
        else:
            self._settle_run()
            if self._inside is None and not self._fence:
                self._quote(mark)
            self._last, self._blank, self._may_close = mark, False, False

    def _end_line(self) -> None:
        self._settle_run()
        if self._may_close:
            self._fence = ""
        self._inside = None
        self._new_line()
        self._last = "\n"

    def _add_run(self, marks: str) -> None:
        if self._run and self._run[0] != marks[0]:
            self._settle_run()
        if not self._run:
            self._run_begins_line = self._blank and self._indent <= _MOST_INDENT
        self._run += marks

    def _settle_run(self) -> None:
        """Take the marks of code that have ended."""
        run, self._run = self._run, ""
        if not run:
            return
        begins_line, self._blank = self._run_begins_line, False
        if begins_line and len(run) >= _LEAST_FENCE:
            if not self._fence:
                self._fence = run
            else:
                self._may_close = run[0] == self._fence[0] and len(run) >= len(self._fence)
        elif run[0] == "`" and not self._fence and self._inside is None:
            if not self._code:
                self._code = len(run)
            elif self._code == len(run):
                self._code = 0

    def _quote(self, mark: str) -> None:
        if mark == ">":
            if self._blank:  # a block quote: the line is somebody else's
                self._open.add(mark)
        elif mark in _TOGGLES:
            self._open ^= {"\u201c"}
        elif mark in _PAIRS:
            self._open.add(_PAIRS[mark])
        elif mark in "\"'":
            self._straight(mark)
        else:
            self._open.discard(mark)

    def _straight(self, mark: str) -> None:
        """Open or close at a mark that looks the same on both sides; in words it is an apostrophe."""
        if self._last == "\\":
            return
        opens = self._last in _BEFORE_OPENING or self._last in "\"'`"
        if mark in self._open:
            if not opens or self._last in "\"'`,;:)]}>*_/-\u2026":
                self._open.discard(mark)
        elif opens:
            self._open.add(mark)

"""Detects sentinels that a model quotes in its prose instead of writing a frame.

A model that reports the content of a page or a tool result may repeat a sentinel. Such a sentinel is
text if it is in a code span or a fenced block, in a Markdown block quote, or between quotation marks
on the same line. Quotation marks have no effect beyond their line, so that a stray one cannot hide
the rest of an answer.

`QuoteTracker` reads the text between frames in one pass, with any chunking; the grammar queries it
for each sentinel. After a sentinel that is text, the rest of its line opens no tool call.
"""

import re

from toolbridge.structured.sentinels import Kind, Sentinel

_MARKS = (
    "\"'>\u2018-\u201f\u2032\u2033\u2039\u203a\u00ab\u00bb\u275b-\u275e\u2e42\u3008-\u300f\u301d-\u301f"
    "\uff02\uff07\uff62\uff63"
)
_TOKEN = re.compile(f"`+|~+|[\r\n]|[{_MARKS}]")
_LINE_ENDS = "\r\n"
_LEAST_FENCE = 3
_LEAD = re.compile(r"\s*+(?:(?:[-*+]|[0-9]{1,9}[.)])\s++|)*+")  # `|)`: python/cpython#106052
"""Allowed before a fence or a block quote: white space and list markers."""
_MAYBE_LEAD = re.compile(_LEAD.pattern + r"(?:[-*+]|[0-9]{1,9}[.)]?)?")
_LONGEST_LEAD = 80
_UNSPACED = "\u2e80"
"""The first character of the scripts and wide punctuation without a space before a quotation."""

_BEFORE_OPENING = frozenset(" \t\r\n([{<:,;=|/*_-\u2013\u2014\u2026>")
"""Characters after which a straight quotation mark opens a quotation."""
_PAIRS = {
    "\u300c": "\u300d", "\u300e": "\u300f", "\u2018": "\u2019", "\u201a": "\u2018", "\u201b": "\u2019",
    "\u3008": "\u3009", "\u300a": "\u300b", "\u301d": "\u301e", "\u275b": "\u275c", "\uff62": "\uff63",
}  # fmt: skip
_TOGGLES = frozenset(
    "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a\u275d\u275e\u2e42\uff02\uff07"
)
"""Marks that open in one language and close in another: \u201e\u2026\u201c and \u201c\u2026\u201d, \u00ab\u2026\u00bb and \u00bb\u2026\u00ab."""


class QuoteTracker:
    """Tracks quotations in the text between frames."""

    def __init__(self) -> None:
        self._last = "\n"
        self._fence = ""
        """The backticks or tildes that opened the fenced block."""
        self._inside: tuple[Kind, str] | None = None
        """The quoted frame: sentinels before its end are ignored."""
        self._broken: tuple[Kind, str] | None = None
        """A frame in which a tool call began: no tool call opens before its end."""
        self._new_line()

    def _new_line(self) -> None:
        self._blank = True
        """Whether the line has only white space and list markers so far."""
        self._lead = ""
        """The line so far, while it may be the indent of a fence."""
        self._run = ""
        """A run of backticks or tildes that may continue."""
        self._run_begins_line = False
        self._may_close = False
        """Whether the line closes the fenced block if nothing else follows in it."""
        self._code = 0
        """How many backticks opened the code span."""
        self._open: set[str] = set()
        """The open quotation marks."""
        self._stray = False
        """Whether the last character is a quotation mark that did not close a quotation."""
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

    def spoil_until_end(self, kind: Kind, id: str) -> None:
        """Let no tool call open before the end of a frame that holds something else than JSON."""
        self._spoilt = True
        self._broken = (kind, id)

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
        if not found.begins and (found.kind, found.id) == self._broken:
            # The marks before it stood in the frame: they open nothing behind it.
            self._broken, self._fence = None, ""
            self._new_line()
            self._blank, self._spoilt = False, True
            return False
        calls = found.begins and found.kind == "tool"
        spoilt = self._spoilt or self._broken is not None
        if not (self._is_quoted or (spoilt and calls)):
            self._broken = None if found.begins else self._broken
            return False
        self._spoilt = True
        self._inside = (found.kind, found.id) if found.begins else None
        return True

    @property
    def _is_quoted(self) -> bool:
        return bool(self._fence or self._code or self._open or self._stray)

    # Reading.

    def _pass(self, text: str) -> None:
        """Take characters that are no marks."""
        if not text:
            return
        self._settle_run()
        self._stray = False
        if self._last == "'" and text[0].isdecimal():  # the '90s
            self._open.discard("'")
        self._last = text[-1]
        if self._blank:
            self._lead += text[:_LONGEST_LEAD]
            self._blank = (
                len(self._lead) < _LONGEST_LEAD and _MAYBE_LEAD.fullmatch(self._lead) is not None
            )
        if not text.isspace():
            self._may_close = False

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

    @property
    def _begins_line(self) -> bool:
        """Whether a fence or a block quote may begin at the next character."""
        if self._fence:  # only white space may precede the closing fence
            return self._blank and not self._lead.strip()
        return self._blank and _LEAD.fullmatch(self._lead) is not None

    def _add_run(self, marks: str) -> None:
        if self._run and self._run[0] != marks[0]:
            self._settle_run()
        self._stray = False
        if not self._run:
            self._run_begins_line = self._begins_line
        self._run += marks

    def _settle_run(self) -> None:
        """Process a complete run of backticks or tildes."""
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
        stray = False
        if mark == ">":
            if self._begins_line:  # a block quote: the whole line is quoted
                self._open.add(mark)
        elif mark in _TOGGLES:
            self._open ^= {"\u201c"}
        elif mark in "\"'":
            stray = self._straight(mark)
        elif mark in self._open:
            self._open.discard(mark)
        elif mark in _PAIRS:
            self._open.add(_PAIRS[mark])
        else:
            stray = True
        self._stray = stray

    def _straight(self, mark: str) -> bool:
        """Open or close a quotation at a straight mark; inside a word it is an apostrophe.

        Return True if only the next character can decide whether the mark opens a quotation.
        """
        if self._last == "\\":
            return True
        opens = self._last in _BEFORE_OPENING or self._last in "\"'`"
        if mark not in self._open:
            if opens or self._last >= _UNSPACED:
                self._open.add(mark)
                return False
            return True
        if not opens or self._last in "\"'`,;:)]}>*_/-\u2026":
            self._open.discard(mark)
        return self._last == mark  # an empty quotation, as in ''so''

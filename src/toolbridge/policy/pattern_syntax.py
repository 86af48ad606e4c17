r"""Reads a regular expression of Python's `re` into a tree, for `linear_search`.

The parts that need backtracking are refused: references to groups, look-around, conditions, atomic
groups and possessive repetitions. A single character, a class such as `[a-z]` and an escape such as
`\w` stay in Python's own syntax and are matched by `re`, so their meaning is the same.
"""

import re
import warnings
from dataclasses import dataclass
from typing import TypeAlias

LONGEST = 200
"""Anthropic, tool search tool: the most characters of a pattern."""
MOST_REPEATS = 1000


class PatternRefused(Exception):
    """The pattern is not valid, or needs backtracking."""


@dataclass(frozen=True)
class One:
    """One character that `re` matches by `pattern`."""

    pattern: str
    flags: int


@dataclass(frozen=True)
class Boundary:
    r"""A position: `^`, `$`, `\A`, `\Z`, `\b` or `\B`."""

    kind: str
    flags: int


@dataclass(frozen=True)
class Sequence:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    item: "Node"
    least: int
    most: int | None
    """None for no limit."""


Node: TypeAlias = One | Boundary | Sequence | Choice | Repeat

_QUANTIFIER = re.compile(r"[*+?]|\{(\d*),(\d*)\}|\{(\d+)\}")
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_GROUP = re.compile(r"\((?:\?P<\w+>|\?([aiLmsux]*)(?:-([imsx]+))?:|(?!\?))")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|0[0-7]{0,2}|[^1-9xuUN0])", re.DOTALL)
_BY_LETTER = {
    "a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE,
}  # fmt: skip


def parse_pattern(pattern: str) -> Node:
    """Return the tree of a pattern; raise `PatternRefused`."""
    if len(pattern) > LONGEST:
        raise PatternRefused(f"the pattern has more than {LONGEST} characters; use a shorter one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `[[` is reserved for later versions of Python
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternRefused(f"the pattern is not valid: {error}") from None
    parser = _Parser(pattern)
    return parser.choice(parser.global_flags())


class _Parser:
    """Reads a pattern that `re` has accepted."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def global_flags(self) -> int:
        flags = 0
        while match := _FLAGS.match(self._pattern, self._at):
            flags = _with_flags(flags, match[1], "")
            self._at = match.end()
        return flags

    def choice(self, flags: int) -> Node:
        items = [self._sequence(flags)]
        while self._next() == "|":
            self._at += 1
            items.append(self._sequence(flags))
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _sequence(self, flags: int) -> Node:
        items: list[Node] = []
        while self._next() not in {"", "|", ")"}:
            if self._pattern.startswith("(?#", self._at):
                self._at = self._pattern.index(")", self._at) + 1
            else:
                items.append(self._repeated(self._atom(flags)))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _atom(self, flags: int) -> Node:
        letter = self._next()
        if letter == "(":
            return self._group(flags)
        if letter in "^$":
            self._at += 1
            return Boundary(letter, flags)
        if letter == "[":
            return One(self._taken(_CLASS), flags)
        if letter == "\\":
            written = self._taken(_ESCAPE)
            is_boundary = written[1] in "AZbB"
            return Boundary(written, flags) if is_boundary else One(written, flags)
        self._at += 1
        return One("." if letter == "." else re.escape(letter), flags)

    def _group(self, flags: int) -> Node:
        match = _GROUP.match(self._pattern, self._at)
        if match is None:
            raise PatternRefused(_REFUSED)
        self._at = match.end()
        inner = self.choice(_with_flags(flags, match[1] or "", match[2] or ""))
        self._at += 1  # the closing parenthesis
        return inner

    def _repeated(self, item: Node) -> Node:
        match = _QUANTIFIER.match(self._pattern, self._at)
        if match is None or match[0] == "{,}":
            return item
        self._at = match.end()
        following = self._next()
        if following == "+":
            raise PatternRefused(_REFUSED)
        self._at += following == "?"
        least, most = _bounds(match)
        if max(least, most or 0) > MOST_REPEATS:
            raise PatternRefused(f"the pattern repeats a part more than {MOST_REPEATS} times")
        return Repeat(item, least, most)

    def _taken(self, what: re.Pattern[str]) -> str:
        match = what.match(self._pattern, self._at)
        if match is None:  # a reference to a group
            raise PatternRefused(_REFUSED)
        self._at = match.end()
        return match[0]

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]


_REFUSED = (
    "the pattern uses a back reference, look-around or an atomic group; use words, classes, `.*`, "
    "`|` and groups"
)


_SHORT: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def _bounds(match: re.Match[str]) -> tuple[int, int | None]:
    if match[0] in _SHORT:
        return _SHORT[match[0]]
    if match[3]:
        return int(match[3]), int(match[3])
    return int(match[1] or 0), int(match[2]) if match[2] else None


def _with_flags(flags: int, added: str, removed: str) -> int:
    if "x" in added or "L" in added:
        raise PatternRefused("the flags `x` and `L` are not supported")
    for letter in added:
        flags |= _BY_LETTER.get(letter, 0)
    for letter in removed:
        flags &= ~_BY_LETTER[letter]
    return flags

"""Searches a text for a regular expression in linear time, whatever the pattern.

A model writes the pattern. Python's `re` tries alternatives one after the other, which takes
exponential time for some patterns, cannot be interrupted, and stops every request of the gateway
meanwhile. Here all alternatives are followed at the same time (Thompson, 1968), and the sets of
alternatives that were reached are remembered for the next characters.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from toolbridge.policy.pattern_syntax import (
    Boundary,
    Choice,
    Node,
    One,
    PatternRefused,
    Repeat,
    Sequence,
    parse_pattern,
)

_MOST_STATES = 4000
_MOST_KNOWN = 20_000
"""The most steps that are remembered."""
_END = ""
"""Stands for the character after the last one, and before the first one."""

States: TypeAlias = frozenset[int]


@dataclass
class _State:
    """A place in the pattern; `test` must hold, or consumes a character, on the way to `to`."""

    test: One | Boundary | None = None
    to: list[int] = field(default_factory=list)


class LinearPattern:
    """A pattern that is ready for searches; raise `PatternRefused` for one that is not possible."""

    def __init__(self, pattern: str) -> None:
        self._states: list[_State] = []
        self._final = self._add(None)
        self._start = self._build(parse_pattern(pattern), self._final)
        self._known: dict[tuple[States, str, str, bool], States | None] = {}

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches somewhere in `text`, as with `re.search`."""
        reached: States = frozenset()
        before = _END
        last = len(text) - 1
        for at, letter in enumerate(text):
            step = self._step(reached, before, letter, letter == "\n" and at == last)
            if step is None:
                return True
            reached, before = step, letter
        return self._step(reached, before, _END, True) is None

    def _step(self, reached: States, before: str, letter: str, final: bool) -> States | None:  # noqa: FBT001
        """Return the states after `letter`; None if the pattern has matched before it."""
        key = (reached, before, letter, final)
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._computed(reached, before, letter, final)
        return self._known[key]

    def _computed(self, reached: States, before: str, letter: str, final: bool) -> States | None:  # noqa: FBT001
        # A match may begin at every character, so the start is always among the states.
        pending, seen, after = [*reached, self._start], set[int](), set[int]()
        while pending:
            at = pending.pop()
            if at in seen:
                continue
            seen.add(at)
            if at == self._final:
                return None
            state = self._states[at]
            if isinstance(state.test, One):
                if letter and _is_one(state.test, letter):
                    after.update(state.to)
            elif state.test is None or _holds(state.test, before, letter, final):
                pending += state.to
        return frozenset(after)

    # ── building ─────────────────────────────────────────────────────────────

    def _add(self, test: One | Boundary | None, *to: int) -> int:
        if len(self._states) >= _MOST_STATES:
            raise PatternRefused("the pattern has too many repetitions; use smaller numbers")
        self._states.append(_State(test, list(to)))
        return len(self._states) - 1

    def _build(self, node: Node, to: int) -> int:
        """Add the states of `node`, which lead to the state `to`; return the first of them."""
        match node:
            case One() | Boundary():
                return self._add(node, to)
            case Sequence(items):
                for item in reversed(items):
                    to = self._build(item, to)
                return to
            case Choice(items):
                return self._add(None, *(self._build(item, to) for item in items))
            case Repeat():
                return self._build_repeat(node, to)

    def _build_repeat(self, node: Repeat, to: int) -> int:
        if node.most is None:
            loop = self._add(None, to)
            self._states[loop].to.append(self._build(node.item, loop))
            to = loop
        else:
            end = to
            for _ in range(node.most - node.least):
                to = self._add(None, end, self._build(node.item, to))
        for _ in range(node.least):
            to = self._build(node.item, to)
        return to


@lru_cache(4096)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def _is_one(test: One, letter: str) -> bool:
    return _compiled(test.pattern, test.flags).fullmatch(letter) is not None


def _holds(test: Boundary, before: str, letter: str, final: bool) -> bool:  # noqa: FBT001
    """Whether the position between `before` and `letter` is the boundary.

    `final` is whether `letter` is the last line end of the text, or its end.
    """
    many = bool(test.flags & re.MULTILINE)
    match test.kind:
        case "^":
            return before == _END or (many and before == "\n")
        case "$":
            return final or (many and letter == "\n")
        case "\\A":
            return before == _END
        case "\\Z":
            return letter == _END
        case _:
            pass
    is_edge = _is_word(before, test.flags) != _is_word(letter, test.flags)
    return is_edge == (test.kind == "\\b")


def _is_word(letter: str, flags: int) -> bool:
    return letter != _END and _is_one(One(r"\w", flags & re.ASCII), letter)

"""Parse JSON (RFC 8259) while it arrives.

`JsonReader` has the value so far, the path of the open value and the finished members at any time.
Each character is read once. The value grows in place, so that reading it costs nothing; a caller
that keeps a snapshot must copy it. The reader is strict: it stops at the first character that JSON
does not allow, and unfinished text is never reported as complete. Healing, growing tool calls
of the SDK and free-form tool input use it.
"""

# ruff: noqa: SLF001 -- the parser states are methods, assigned to constants below the class

import re
from collections.abc import Callable
from typing import Any  # a slot is a str in a dict and an int in a list

import msgspec

from toolbridge.core.json import Json, JsonObject, loads
from toolbridge.core.lazy_pattern import lazy_pattern

MAX_DEPTH = 512
MAX_SIZE = 64 * 1024 * 1024

_SPACE = lazy_pattern(r"[ \t\n\r]*+")
# String content with whole escapes of one character each. The quantifiers are possessive: a run that
# ends in an invalid character must not be matched again in smaller pieces.
_UNIT = r"[^\"\\\x00-\x1f\ud800-\udfff]++|\\[\"\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
# The empty alternative: up to Python 3.11.4, a possessive group whose last try fails in the middle
# ends there, inside an escape (python/cpython#106052).
_RUN = lazy_pattern(rf"(?:{_UNIT})(?:{_UNIT}|)*+")
_HEX = "[0-9a-fA-F]"
_ESCAPE = lazy_pattern(
    rf"\\(?:[\"\\/bfnrt]|u(?![dD][89a-fA-F]){_HEX}{{4}}"
    rf"|u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})"
)
_HALF_ESCAPE = lazy_pattern(
    rf"\\(?:u(?:{_HEX}{{0,3}}"
    rf"|[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?)?)?"
)
_NUMBER = lazy_pattern(r"[-+.eE0-9]++")
# Tokens that a piece has whole and without escapes: most keys, numbers and literals.
_WS = r"[ \t\n\r]*+"
_TEXT = r'"([^"\\\x00-\x1f\ud800-\udfff]*+)"'
_KEY = lazy_pattern(rf"{_WS}{_TEXT}{_WS}:{_WS}")
_NEXT_KEY = lazy_pattern(rf",{_WS}{_TEXT}{_WS}:{_WS}")
_SCALAR = lazy_pattern(rf"{_TEXT}|(-?(?:0|[1-9][0-9]{{0,17}}+)(?=[,}}\] \t\n\r]))|true|false|null")
_LITERALS: dict[str, tuple[str, Json]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}
_WORDS: dict[str, Json] = dict(_LITERALS.values())


class Member(msgspec.Struct, frozen=True):
    """A finished member of the outermost object, with the offsets of its value in the text."""

    key: str
    value: Json
    start: int
    end: int


class JsonReader:
    """An incremental JSON parser: text is fed in pieces, and the value can be read at any time.

    `fault` is the reason why the next character is not allowed; it is empty while the text is valid.
    """

    def __init__(self, *, max_depth: int = MAX_DEPTH, max_size: int = MAX_SIZE) -> None:
        self._max_depth = max_depth
        self._max_size = max_size
        self._root: list[Json] = []
        self._stack: list[JsonObject | list[Json]] = []
        self._keys: list[Any] = []
        self._pieces: list[str] = []
        self._escape = ""
        self._word: tuple[str, Json] = ("", None)
        self._may_close = False
        self._base = 0
        self._state = _AT_VALUE
        self.fault = ""
        self.taken = 0
        """How many characters were read."""
        self.value_start = 0
        """The offset at which the value of the last member of the outermost object begins."""
        self.members: list[Member] = []
        """The finished members of the outermost object, in the order of the text."""

    @property
    def value(self) -> Json:
        """The value so far, which keeps growing; None before it begins."""
        return self._root[0] if self._root else None

    @property
    def path(self) -> tuple[str | int, ...]:
        """The keys and indexes that lead to the value that is being read."""
        return tuple(self._keys)

    @property
    def complete(self) -> bool:
        """Whether a whole value was read. A bare number may go on until `close`."""
        return self._state is _AT_END and not self.fault

    @property
    def in_string(self) -> bool:
        """Whether a string that is a value, not a key, is open."""
        return self._state is _IN_STRING

    @property
    def in_member(self) -> bool:
        """Whether the value of a member of the outermost object is being read."""
        if len(self._stack) != 1:
            return bool(self._stack)
        return self._state in _IN_VALUE

    @property
    def in_escape(self) -> int:
        """The number of characters of an unfinished escape at the end of the text."""
        return len(self._escape)

    def feed(self, piece: str, /) -> int:
        """Read `piece`; return how many characters were read: all of them, unless there is a fault."""
        if self.taken + len(piece) > self._max_size:
            self.fault = f"JSON is longer than {self._max_size} characters"
        at, end = 0, len(piece)
        self._base = self.taken
        while at < end and not self.fault:
            at = self._state(self, piece, at)
        self.taken += at
        return at

    def forgive(self) -> None:
        """Clear the fault; the caller feeds another character in place of the one at fault."""
        self.fault = ""

    def close(self) -> Json:
        """Return the value; raise `ValueError` when the text is not exactly one JSON value."""
        if not self.fault and self._state is _IN_NUMBER and not self._stack:
            self._end_number(0)
        if self.fault:
            raise ValueError(f"{self.fault} (character {self.taken})")
        if not self.complete:
            raise ValueError(f"JSON ends unfinished (character {self.taken})")
        return self.value

    # Parser states, one method each: it reads characters and sets the next state.

    def _read_value(self, text: str, at: int) -> int:
        if text[at] <= " " and (at := _skip_space(text, at)) == len(text):
            return at
        first = text[at]
        whole = None if first in "{[" else _SCALAR.match(text, at)
        if whole is not None:
            return self._take_scalar(whole)
        if first == '"':
            self._put("", at)
            self._state = _IN_STRING
        elif first == "{":
            return self._open({}, at)
        elif first == "[":
            return self._open([], at)
        elif first == "]" and self._may_close:
            self._close(at + 1)
        else:
            return self._read_scalar(first, at)
        return at + 1

    def _take_scalar(self, whole: "re.Match[str]") -> int:
        kind = whole.lastindex
        if kind == 1:
            value: Json = whole[1]
        else:
            value = int(whole[2]) if kind else _WORDS[whole[0]]
        at, end = whole.span()
        if len(self._stack) > 1:
            self._add(value)
            self._state = _AFTER_VALUE
        else:
            self._put(value, at)
            self._done(end)
        return end

    def _read_scalar(self, first: str, at: int) -> int:
        if first in "-0123456789":
            self._state = _IN_NUMBER
        elif first in _LITERALS:
            self._word = _LITERALS[first]
            self._state = _IN_LITERAL
        else:
            return self._fail("a value is missing", at)
        self._put(None, at)
        return at

    def _read_key(self, text: str, at: int) -> int:
        whole = _KEY.match(text, at)
        if whole is not None:
            return self._take_key(whole)
        if text[at] <= " " and (at := _skip_space(text, at)) == len(text):
            return at
        if text[at] == '"':
            self._pieces.clear()
            self._state = _IN_KEY
        elif text[at] == "}" and self._may_close:
            self._close(at + 1)
        else:
            return self._fail("a key is missing", at)
        return at + 1

    def _take_key(self, whole: "re.Match[str]") -> int:
        self._keys[-1] = whole[1]
        self._may_close = False
        self._state = _AT_VALUE
        return whole.end()

    def _read_colon(self, text: str, at: int) -> int:
        if text[at] <= " " and (at := _skip_space(text, at)) == len(text):
            return at
        if text[at] != ":":
            return self._fail("a colon is missing", at)
        self._keys[-1] = "".join(self._pieces)
        self._may_close = False
        self._state = _AT_VALUE
        return at + 1

    def _read_after(self, text: str, at: int) -> int:
        if text[at] <= " " and (at := _skip_space(text, at)) == len(text):
            return at
        in_object = isinstance(self._stack[-1], dict)
        if text[at] == ",":
            whole = _NEXT_KEY.match(text, at) if in_object else None
            if whole is not None:
                return self._take_key(whole)
            self._may_close = False
            self._state = _AT_KEY if in_object else _AT_VALUE
        elif text[at] == ("}" if in_object else "]"):
            self._close(at + 1)
        else:
            return self._fail("a comma is missing", at)
        return at + 1

    def _read_end(self, text: str, at: int) -> int:
        at = _skip_space(text, at)
        return at if at == len(text) else self._fail("something follows the value", at)

    def _read_string(self, text: str, at: int) -> int:
        run = None if self._escape else _RUN.match(text, at)
        if run is not None:
            self._grow(_unescape(run.group()))
            return run.end()
        if text[at] == '"' and not self._escape:
            self._done(at + 1)
            return at + 1
        return self._read_escape(text, at, self._grow)

    def _read_key_string(self, text: str, at: int) -> int:
        run = None if self._escape else _RUN.match(text, at)
        if run is not None:
            self._pieces.append(_unescape(run.group()))
            return run.end()
        if text[at] == '"' and not self._escape:
            self._state = _AT_COLON
            return at + 1
        return self._read_escape(text, at, self._pieces.append)

    def _read_escape(self, text: str, at: int, write: Callable[[str], None]) -> int:
        """Read one character of an escape that is cut by the end of a piece, or is half of a pair."""
        if text[at] != "\\" and not self._escape:
            kind = "a control character" if text[at] < " " else "half a surrogate pair"
            return self._fail(f"{kind} stands in a string", at)
        escape = self._escape + text[at]
        if _ESCAPE.fullmatch(escape):
            self._escape = ""
            write(_unescape(escape))
        elif _HALF_ESCAPE.fullmatch(escape):
            self._escape = escape
        else:
            return self._fail("an escape is not one of JSON's", at)
        return at + 1

    def _read_number(self, text: str, at: int) -> int:
        run = _NUMBER.match(text, at)
        if run is not None:
            self._pieces.append(run.group())
            return run.end()
        self._end_number(at)
        return at

    def _end_number(self, at: int) -> None:
        number = "".join(self._pieces)
        try:
            self._replace(loads(number))
        except ValueError:
            self.fault = f"{number[:40]!r} is not a number"
            return
        self._done(at)

    def _read_literal(self, text: str, at: int) -> int:
        word, value = self._word
        if not self._pieces and text.startswith(word, at):
            self._replace(value)
            self._done(at + len(word))
            return at + len(word)
        expected = word[len(self._pieces)]
        if text[at] != expected:
            return self._fail(f"{word!r} is misspelt", at)
        self._pieces.append(expected)
        if len(self._pieces) == len(word):
            self._replace(value)
            self._done(at + 1)
        return at + 1

    # The value under construction.

    def _put(self, value: Json, at: int) -> None:
        """Add a new value, which begins at offset `at`, to the open object or array."""
        self._pieces.clear()
        stack = self._stack
        if not stack:
            self._root.append(value)
            return
        if len(stack) == 1:
            self.value_start = self._base + at
        self._add(value)

    def _add(self, value: Json) -> None:
        holder = self._stack[-1]
        if isinstance(holder, dict):
            holder[self._keys[-1]] = value
        else:
            self._keys[-1] = len(holder)
            holder.append(value)

    def _slot(self) -> tuple[Any, Any]:
        return (self._stack[-1], self._keys[-1]) if self._stack else (self._root, 0)

    def _replace(self, value: Json) -> None:
        holder, key = self._slot()
        holder[key] = value

    def _grow(self, content: str) -> None:
        # The slot is emptied first: CPython extends a string in place only while it has a single
        # reference, which keeps the time for a long string linear.
        holder, key = self._slot()
        grown: str = holder[key]
        holder[key] = None
        grown += content
        holder[key] = grown

    def _open(self, holder: JsonObject | list[Json], at: int) -> int:
        if len(self._stack) >= self._max_depth:
            return self._fail(f"JSON is nested more than {self._max_depth} deep", at)
        self._put(holder, at)
        self._stack.append(holder)
        self._keys.append("" if isinstance(holder, dict) else 0)
        self._may_close = True
        self._state = _AT_KEY if isinstance(holder, dict) else _AT_VALUE
        return at + 1

    def _close(self, at: int) -> None:
        self._stack.pop()
        self._keys.pop()
        self._done(at)

    def _done(self, at: int) -> None:
        """Set the state after a value that ends at offset `at`."""
        self._pieces.clear()
        stack = self._stack
        if not stack:
            self._state = _AT_END
            return
        self._state = _AFTER_VALUE
        if len(stack) == 1 and isinstance(holder := stack[0], dict):
            key = self._keys[0]
            self.members.append(Member(key, holder[key], self.value_start, self._base + at))

    def _fail(self, fault: str, at: int) -> int:
        self.fault = fault
        return at


# The states are functions: a bound method in an attribute would be a reference cycle.
_AT_VALUE = JsonReader._read_value
_AT_KEY = JsonReader._read_key
_IN_KEY = JsonReader._read_key_string
_AT_COLON = JsonReader._read_colon
_IN_STRING = JsonReader._read_string
_IN_NUMBER = JsonReader._read_number
_IN_LITERAL = JsonReader._read_literal
_AFTER_VALUE = JsonReader._read_after
_AT_END = JsonReader._read_end
_IN_VALUE = (_AT_VALUE, _IN_STRING, _IN_NUMBER, _IN_LITERAL)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _unescape(run: str) -> str:
    if "\\" not in run:
        return run
    content = loads(f'"{run}"')
    return content if isinstance(content, str) else ""

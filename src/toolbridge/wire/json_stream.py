"""JSON that arrives in pieces: its value, its path and its finished members at any time.

Every character is looked at once. The value grows in place: asking for it costs nothing, and who
wants to keep a snapshot copies it. The reader is strict: it stops at the first character that
cannot follow, and nothing before the end makes an unfinished text count as a whole one.
"""

# ruff: noqa: SLF001 -- the places in the grammar are methods, named below their class

import re
from collections.abc import Callable
from typing import Any  # a slot is a str in a dict and an int in a list; no type says both

import msgspec

from toolbridge.core.json import Json, JsonObject, loads

MAX_DEPTH = 512
MAX_SIZE = 64 * 1024 * 1024

_SPACE = re.compile(r"[ \t\n\r]*+")
# String content whose escapes are whole and stand for one character each. Possessive, so that a
# run that ends badly is not tried again in smaller pieces.
_RUN = re.compile(
    r"(?:[^\"\\\x00-\x1f\ud800-\udfff]++|\\[\"\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})++"
)
_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"\\(?:[\"\\/bfnrt]|u(?![dD][89a-fA-F]){_HEX}{{4}}"
    rf"|u[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})"
)
_HALF_ESCAPE = re.compile(
    rf"\\(?:u(?:{_HEX}{{0,3}}"
    rf"|[dD][89abAB]{_HEX}{{2}}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?)?)?"
)
_NUMBER = re.compile(r"[-+.eE0-9]++")
# What a piece holds whole, without escapes: nearly every key, number and literal is read at once.
_WS = r"[ \t\n\r]*+"
_TEXT = r'"([^"\\\x00-\x1f\ud800-\udfff]*+)"'
_KEY = re.compile(rf"{_WS}{_TEXT}{_WS}:{_WS}")
_NEXT_KEY = re.compile(rf",{_WS}{_TEXT}{_WS}:{_WS}")
_SCALAR = re.compile(rf"{_TEXT}|(-?(?:0|[1-9][0-9]{{0,17}}+)(?=[,}}\] \t\n\r]))|true|false|null")
_LITERALS: dict[str, tuple[str, Json]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}
_WORDS: dict[str, Json] = dict(_LITERALS.values())


class Member(msgspec.Struct, frozen=True):
    """A finished member of the outermost object, and where in the text its value stands."""

    key: str
    value: Json
    start: int
    end: int


class JsonReader:
    """Text in, value out.

    `fault` says why the next character cannot follow; it is empty while all is well.
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
        self._step = _VALUE_PLACE
        self.fault = ""
        self.taken = 0
        """How many characters were read."""
        self.value_start = 0
        """Where the value of the last member of the outermost object begins."""
        self.members: list[Member] = []
        """The finished members of the outermost object, in the order in which they came."""

    @property
    def value(self) -> Json:
        """The value so far; it keeps growing. None also before anything came."""
        return self._root[0] if self._root else None

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the writing is: the keys and positions down to the open value."""
        return tuple(self._keys)

    @property
    def complete(self) -> bool:
        """Whether a whole value was read. A bare number is whole only when `close` says so."""
        return self._step is _END_PLACE and not self.fault

    @property
    def in_string(self) -> bool:
        """Whether a string that is a value, not a key, is open."""
        return self._step is _STRING_PLACE

    @property
    def in_member(self) -> bool:
        """Whether a member of the outermost object has its colon and is not finished."""
        if len(self._stack) != 1:
            return bool(self._stack)
        return self._step in _VALUE_PLACES

    @property
    def in_escape(self) -> int:
        """How many characters of an unfinished escape were read last."""
        return len(self._escape)

    def feed(self, piece: str, /) -> int:
        """Read on; return how many characters were taken: all of them, unless there is a fault."""
        if self.taken + len(piece) > self._max_size:
            self.fault = f"JSON is longer than {self._max_size} characters"
        at, end = 0, len(piece)
        self._base = self.taken
        while at < end and not self.fault:
            at = self._step(self, piece, at)
        self.taken += at
        return at

    def forgive(self) -> None:
        """Go on as if the character at fault had not come: the caller puts another in its place."""
        self.fault = ""

    def close(self) -> Json:
        """Return the whole value; raise `ValueError` when the text is not exactly one."""
        if not self.fault and self._step is _NUMBER_PLACE and not self._stack:
            self._end_number(0)
        if self.fault:
            raise ValueError(f"{self.fault} (character {self.taken})")
        if not self.complete:
            raise ValueError(f"JSON ends unfinished (character {self.taken})")
        return self.value

    # One method for each place in the grammar: it takes what belongs there and names the next one.

    def _read_value(self, text: str, at: int) -> int:
        if text[at] <= " " and (at := _skip_space(text, at)) == len(text):
            return at
        first = text[at]
        whole = None if first in "{[" else _SCALAR.match(text, at)
        if whole is not None:
            return self._take_scalar(whole)
        if first == '"':
            self._put("", at)
            self._step = _STRING_PLACE
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
            self._step = _AFTER_PLACE
        else:
            self._put(value, at)
            self._done(end)
        return end

    def _read_scalar(self, first: str, at: int) -> int:
        if first in "-0123456789":
            self._step = _NUMBER_PLACE
        elif first in _LITERALS:
            self._word = _LITERALS[first]
            self._step = _LITERAL_PLACE
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
            self._step = _KEY_STRING_PLACE
        elif text[at] == "}" and self._may_close:
            self._close(at + 1)
        else:
            return self._fail("a key is missing", at)
        return at + 1

    def _take_key(self, whole: "re.Match[str]") -> int:
        self._keys[-1] = whole[1]
        self._may_close = False
        self._step = _VALUE_PLACE
        return whole.end()

    def _read_colon(self, text: str, at: int) -> int:
        if text[at] <= " " and (at := _skip_space(text, at)) == len(text):
            return at
        if text[at] != ":":
            return self._fail("a colon is missing", at)
        self._keys[-1] = "".join(self._pieces)
        self._may_close = False
        self._step = _VALUE_PLACE
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
            self._step = _KEY_PLACE if in_object else _VALUE_PLACE
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
            self._step = _COLON_PLACE
            return at + 1
        return self._read_escape(text, at, self._pieces.append)

    def _read_escape(self, text: str, at: int, write: Callable[[str], None]) -> int:
        """Read one character of an escape that a piece's end cuts, or that is half of a pair."""
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
        wanted = word[len(self._pieces)]
        if text[at] != wanted:
            return self._fail(f"{word!r} is misspelt", at)
        self._pieces.append(wanted)
        if len(self._pieces) == len(word):
            self._replace(value)
            self._done(at + 1)
        return at + 1

    # The value under construction.

    def _put(self, value: Json, at: int) -> None:
        """Place a new value, which begins at `at`, where the writing is."""
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
        # The slot is emptied first: CPython extends a string in place only while nothing else holds
        # it, and that keeps a long string linear. Who keeps the string makes the next step a copy.
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
        self._step = _KEY_PLACE if isinstance(holder, dict) else _VALUE_PLACE
        return at + 1

    def _close(self, at: int) -> None:
        self._stack.pop()
        self._keys.pop()
        self._done(at)

    def _done(self, at: int) -> None:
        """Go on after a value that is whole and ends at `at`."""
        self._pieces.clear()
        stack = self._stack
        if not stack:
            self._step = _END_PLACE
            return
        self._step = _AFTER_PLACE
        if len(stack) == 1 and isinstance(holder := stack[0], dict):
            key = self._keys[0]
            self.members.append(Member(key, holder[key], self.value_start, self._base + at))

    def _fail(self, fault: str, at: int) -> int:
        self.fault = fault
        return at


# The places in the grammar, as functions: a reader that holds a bound method of its own is a cycle.
_VALUE_PLACE = JsonReader._read_value
_KEY_PLACE = JsonReader._read_key
_KEY_STRING_PLACE = JsonReader._read_key_string
_COLON_PLACE = JsonReader._read_colon
_STRING_PLACE = JsonReader._read_string
_NUMBER_PLACE = JsonReader._read_number
_LITERAL_PLACE = JsonReader._read_literal
_AFTER_PLACE = JsonReader._read_after
_END_PLACE = JsonReader._read_end
_VALUE_PLACES = (_VALUE_PLACE, _STRING_PLACE, _NUMBER_PLACE, _LITERAL_PLACE)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _unescape(run: str) -> str:
    if "\\" not in run:
        return run
    content = loads(f'"{run}"')
    return content if isinstance(content, str) else ""

"""Gemma's grammar: `call:NAME{key:VALUE,…}`, with a token as string delimiter.

The object is converted to JSON while it is read. A string ends at the delimiter only if a comma or a
bracket follows: the same token is also a quote inside a value (vllm#44715).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from toolbridge.core.json import dumps
from toolbridge.dialects.engines.arguments import Arguments
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall, escaped
from toolbridge.dialects.engines.literals import unescape
from toolbridge.dialects.engines.partial_marks import value_until
from toolbridge.dialects.engines.values import typed
from toolbridge.wire.tags import Marks, Sink, Wait

_NAME = re.compile(r"[^\s<>{}\[\]()\"'`,;:=|]+")
_KEY = re.compile(r"[\"']?[^\s<>{}\[\]()\"'`,;:=|]*[\"']?")
_RUN_ON = re.compile(
    r"(?P<value>true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)\s+(?P<key>[A-Za-z_][\w.-]*)\s*[:=]"
)
"""A number or a word, and the next key without a comma."""
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {"true", "false", "null"}
_CLOSES = {"{": "}", "(": ")"}


@dataclass(frozen=True)
class GemmaCalls:
    """Parses Gemma's calls; `quote` is the string delimiter."""

    quote: str
    close: tuple[str, ...]
    inner: str = ""
    """The text that the delimiter means inside a string; empty for itself."""
    opener: tuple[str, ...] = ()
    """Marks that begin the next call or end the answer."""
    lead: str = "call:"
    forward: bool = False
    """Accept undeclared tool names: only a call can follow the mark."""
    quotes: Marks = field(init=False)
    loose: Marks = field(init=False)
    """The marks that end a value without delimiters."""
    in_parentheses: Marks = field(init=False)
    """The same in arguments that parentheses surround."""

    def __post_init__(self) -> None:
        ends = ["}" + close for close in self.close]
        object.__setattr__(self, "quotes", Marks([self.quote, *ends]))
        object.__setattr__(self, "loose", Marks([self.quote, ",", "}", "]", *self.close]))
        object.__setattr__(self, "in_parentheses", Marks([*self.loose.all, ")"]))

    @property
    def closing(self) -> tuple[str, ...]:
        return self.close

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        marked = mark != self.lead
        cursor.take(len(mark) if marked else 0)
        yield from cursor.skip()
        if marked and (yield from cursor.accept(*self.close)):
            return  # an empty call
        yield from self._call(writer, forward=self.forward and marked, marked=marked)
        while (yield from cursor.follows(self.lead, *self.close, at_end=False)):
            yield from cursor.skip()
            if (yield from cursor.accept(*self.close)):
                continue
            position = cursor.remember()
            try:
                yield from self._call(writer, forward=self.forward and marked, marked=marked)
            except NotACall:
                writer.back(position)
                return

    def _call(self, writer: EventWriter, *, forward: bool, marked: bool) -> Wait[None]:
        cursor = writer.cursor
        if not (yield from cursor.accept(self.lead)) and marked:
            yield from cursor.accept(":")  # models leave the word `call` out
        yield from cursor.skip(" \t")
        written = yield from cursor.match(_NAME)
        cursor.take(len(written))
        yield from cursor.skip(" \t")
        opened = yield from cursor.stands("{", "(")
        if written and marked and (yield from cursor.stands(*self.close)):
            writer.whole_call(writer.resolve(written, forward=forward), "{}")
            return
        if not written or not opened:
            raise NotACall("no call")
        name = writer.resolve(written, forward=forward)
        writer.call(name)
        cursor.take(1)
        reading = _Reading(writer, self, Arguments(writer, name))
        if (yield from reading.read(_CLOSES[opened])):
            writer.end_call()
        else:
            writer.cut_call()


class _Reading:
    """The arguments of one call."""

    def __init__(self, writer: EventWriter, grammar: GemmaCalls, arguments: Arguments) -> None:
        self._cursor = writer.cursor
        self._grammar = grammar
        self._arguments = arguments
        self._write: Sink = writer.arguments
        self._after: tuple[str, ...] = (",", "}", "]")
        """Characters that may follow a string."""
        self._loose = grammar.loose
        self._top = True
        """Whether the value that is read belongs to the call, not to an object in it."""

    def read(self, close: str) -> Wait[bool]:
        """Read all arguments; return whether they were closed."""
        self._after = (",", close, "]", "}")
        self._loose = self._grammar.loose if close == "}" else self._grammar.in_parentheses
        return (yield from self.members(close))

    def members(self, close: str, *, top: bool = True) -> Wait[bool]:
        """Read the members of an object; return whether it was closed."""
        cursor = self._cursor
        first = True
        self._write("{")
        while True:
            yield from cursor.skip(", \t\r\n")
            if (yield from cursor.accept(close)):
                self._write("}")
                return True
            key = yield from self._key()
            yield from cursor.skip()
            if not key or not (yield from cursor.accept(":", "=")):
                return False
            yield from cursor.skip()
            key = key.strip("\"'")
            self._write(("" if first else ", ") + dumps(key) + ": ")
            first = False
            self._top = top
            if not (yield from self._typed(key) if top else self._value(in_list=False)):
                return False

    def _key(self) -> Wait[str]:
        """Read a key; it may be between string delimiters."""
        cursor, quote = self._cursor, self._grammar.quote
        quoted = yield from cursor.accept(quote)
        key = yield from cursor.match(_KEY)
        cursor.take(len(key))
        if quoted and not (yield from cursor.accept(quote)):
            return ""
        return key

    def _typed(self, key: str) -> Wait[bool]:
        """Read a top-level value; a quoted value is converted if its schema is not a string."""
        types = self._arguments.types(key)
        quoted = yield from self._cursor.stands(self._grammar.quote)
        if not quoted or not types or "string" in types:
            return (yield from self._value(in_list=False))
        self._cursor.take(len(quoted))
        held: list[str] = []
        ended = yield from self._string(held.append)
        self._write(dumps(typed("".join(held), types)) if ended else "")
        return ended

    def _value(self, *, in_list: bool) -> Wait[bool]:
        """Read one value; return whether it ended."""
        cursor = self._cursor
        if (yield from cursor.accept(self._grammar.quote)):
            return (yield from self._text(self._string))
        here = yield from cursor.peek()
        if here == "{":
            cursor.take(1)
            return (yield from self.members("}", top=False))
        if here == "[":
            cursor.take(1)
            return (yield from self._items())
        if here in {'"', "'"}:
            cursor.take(1)
            held: list[str] = []
            ended = yield from self._plain_string(held, here)
            self._write('"' + escaped("".join(held)) + ('"' if ended else ""))
            yield from cursor.accept(self._grammar.quote)  # a delimiter too many (ollama#17882)
            return ended
        return (yield from self._bare(in_list=in_list))

    def _items(self) -> Wait[bool]:
        cursor = self._cursor
        first = True
        self._write("[")
        while True:
            yield from cursor.skip(", \t\r\n")
            if (yield from cursor.accept("]")):
                self._write("]")
                return True
            if not (yield from cursor.peek()) or (
                yield from cursor.stands("}", ")", *self._grammar.close)
            ):
                return False
            self._write("" if first else ", ")
            first = False
            if not (yield from self._value(in_list=True)):
                return False

    def _text(self, read: Callable[[Sink], Wait[bool]]) -> Wait[bool]:
        self._write('"')
        ended = yield from read(lambda piece: self._write(escaped(piece)))
        self._write('"' if ended else "")
        return ended

    def _string(self, sink: Sink) -> Wait[bool]:
        """Read a string up to a delimiter that is followed by `,`, `}` or `]`."""
        cursor = self._cursor
        size = len(self._grammar.quote)
        while mark := (yield from value_until(cursor, self._grammar.quotes, sink)):
            if mark != self._grammar.quote:
                if (yield from cursor.follows(*self._grammar.opener, offset=len(mark))):
                    return (
                        True  # the string has no end delimiter (sglang#39240); the call ends here
                    )
                sink(cursor.take(len(mark)))
            elif (yield from cursor.follows(*self._after, offset=size)) or (
                yield from self._key_follows(size)
            ):
                cursor.take(size)
                return True
            else:
                sink(self._grammar.inner or self._grammar.quote)
                cursor.take(size)
        return False

    def _plain_string(self, held: list[str], quote: str) -> Wait[bool]:
        cursor = self._cursor
        marks = Marks([quote, "\\"])
        while mark := (yield from cursor.until(marks, held.append)):
            if mark == quote:
                return True
            yield from cursor.need(1)
            held.append(unescape("\\" + cursor.take(1)))
        return False

    def _bare(self, *, in_list: bool) -> Wait[bool]:
        """Read a value without delimiters: a number, a literal or a text."""
        cursor, grammar = self._cursor, self._grammar
        held: list[str] = []
        mark = yield from cursor.until(self._loose, held.append, keep=True)
        first = "".join(held)
        if mark and (run_on := self._runs_on(first)):
            cursor.push_back(first[run_on.end("value") :])
            self._write(run_on.group("value"))
            return True
        while mark:
            if mark == grammar.quote:
                cursor.take(len(mark))
                self._write(dumps("".join(held)))
                return True
            if mark == "," and not in_list and not (yield from self._separates()):
                held.append(cursor.take(1))
                mark = yield from cursor.until(self._loose, held.append, keep=True)
                continue
            break
        word = "".join(held).strip()
        if not mark:
            self._write('"' + escaped(word) if word[:1].isalpha() else "")
            return False
        plain = word in _WORDS or _NUMBER.fullmatch(word)
        self._write(word if plain else dumps(_worded(word)))
        return True

    def _runs_on(self, word: str) -> "re.Match[str] | None":
        """Return the number or word at the beginning if a key follows it without a comma."""
        found = _RUN_ON.match(word)
        return found if found and self._may_be_key(found.group("key")) else None

    def _may_be_key(self, key: str) -> bool:
        """Whether `key` may be the next key where the comma is missing: a declared one, if known."""
        known = self._arguments.parameters
        return not self._top or not known or key in known

    def _separates(self) -> Wait[bool]:
        """Whether the comma here is followed by a key, another comma or the end."""
        follows = yield from self._cursor.follows(",", "}", ")", offset=1, at_end=False)
        return follows or (yield from self._key_follows(1, is_certain=True))

    def _key_follows(self, size: int, *, is_certain: bool = False) -> Wait[bool]:
        """Whether a key follows the `size` characters here."""
        cursor = self._cursor
        position = cursor.remember()
        cursor.take(size)
        yield from cursor.skip()
        key = yield from cursor.match(_KEY)
        cursor.take(len(key))
        found = bool(key) and (yield from cursor.follows(":", "=", at_end=False))
        cursor.rewind(position)
        return found and (is_certain or self._may_be_key(key.strip("\"'")))


def _worded(word: str) -> object:
    return {"True": True, "False": False, "None": None}.get(word, word)

"""Calls in Python notation: `[name(key="value", other=2)]`, in a list or one per line.

Strings are streamed; other values are held until their end. Nothing is evaluated.
"""

import re
from dataclasses import dataclass

from toolbridge.core.json import Json
from toolbridge.dialects.engines.arguments import Arguments
from toolbridge.dialects.engines.calls_json import CallShape, read_calls, stream_object
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall, escaped
from toolbridge.dialects.engines.literals import Unreadable, literal, unescape
from toolbridge.dialects.engines.values import typed
from toolbridge.wire.tags import Marks, Sink, Wait

_NAME = re.compile(r"[^\W\d][\w.\-]*")
_KEY = re.compile(r"[^\W\d]\w*")
_PLAIN = re.compile(r"[^,()\[\]{}\"']+")
_RUN = {quote: re.compile(rf"[^{quote}\\]+") for quote in ("'", '"')}
_ESCAPE = {"x": 2, "u": 4, "U": 8}
_OPEN = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class PythonCalls:
    """Parses Python calls after a mark."""

    close: tuple[str, ...] = ()
    listed: bool = True
    """Whether the calls must be in a list."""
    json: bool = True
    """JSON calls may follow the mark as well."""
    empty: bool = False
    """An empty list between the marks is dropped, not text."""

    @property
    def closing(self) -> tuple[str, ...]:
        return self.close

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        bracket = mark if mark.startswith("[") else ""
        cursor.take(len(mark))
        yield from cursor.skip()
        if self.close and (yield from self._is_empty(writer)):
            return
        if not bracket:
            if self.json and (yield from self._json(writer)):
                return
            bracket = yield from cursor.accept("[")
            yield from cursor.skip()
        if self.listed and not bracket:
            raise NotACall("no list")
        yield from self._call(writer)
        while (yield from self._goes_on(writer, bracketed=bool(bracket))):
            position = cursor.remember()
            try:
                yield from self._call(writer)
            except NotACall:
                writer.back(position)
                break
        if bracket and (yield from cursor.follows("]", at_end=False)):
            yield from cursor.skip()
            yield from cursor.accept("]")
        if self.close and (yield from cursor.follows(*self.close, at_end=False)):
            yield from cursor.skip()
            yield from cursor.accept(*self.close)

    def _is_empty(self, writer: EventWriter) -> Wait[bool]:
        """Read an empty section; return False if it is not empty."""
        cursor = writer.cursor
        position = cursor.remember()
        if self.empty and (yield from cursor.accept("[")):
            yield from cursor.skip()
            yield from cursor.accept("]")
            yield from cursor.skip()
        if (yield from cursor.accept(*self.close)):
            return True
        cursor.rewind(position)
        return False

    def _json(self, writer: EventWriter) -> Wait[bool]:
        cursor = writer.cursor
        here = yield from cursor.peek()
        if here == "[" and not (yield from cursor.follows("{", offset=1, at_end=False)):
            return False
        if here not in {"[", "{"}:
            return False
        yield from read_calls(writer, CallShape(ends=self.close, between=",;"))
        if self.close and (yield from cursor.follows(*self.close, at_end=False)):
            yield from cursor.skip()
            yield from cursor.accept(*self.close)
        return True

    def _goes_on(self, writer: EventWriter, *, bracketed: bool) -> Wait[bool]:
        """Skip the separator between two calls; return whether another call may follow."""
        cursor = writer.cursor
        if (yield from cursor.follows(",", ";", at_end=False)):
            yield from cursor.skip()
            cursor.take(1)
            yield from cursor.skip()
            return True
        if bracketed or not self.close:
            return False
        if (yield from cursor.follows(*self.close)):
            return False
        yield from cursor.skip()
        return True

    def _call(self, writer: EventWriter) -> Wait[None]:
        cursor = writer.cursor
        written = yield from cursor.match(_NAME)
        cursor.take(len(written))
        yield from cursor.skip(" \t")
        if not written or not (yield from cursor.accept("(")):
            raise NotACall("no call")
        name = writer.resolve(written.removesuffix(".call"))
        yield from cursor.skip()
        here = yield from cursor.peek()
        if here == "{":
            yield from self._object(writer, name)
            return
        if here == ")" or (yield from self._key_stands(writer)) or not here:
            writer.call(name)
            yield from _Keywords(writer, Arguments(writer, name)).read()
            return
        raise NotACall("arguments without names")

    def _key_stands(self, writer: EventWriter) -> Wait[bool]:
        cursor = writer.cursor
        key = yield from cursor.match(_KEY)
        if not key:
            return False
        offset = len(key)
        if not (yield from cursor.follows("=", offset=offset, at_end=False)):
            return False
        return not (yield from cursor.follows("==", offset=offset, at_end=False))

    def _object(self, writer: EventWriter, name: str) -> Wait[None]:
        writer.call(name)
        yield from stream_object(writer, Marks(self.close))
        if (yield from writer.cursor.follows(")", at_end=False)):
            yield from writer.cursor.skip()
            yield from writer.cursor.accept(")")


class _Keywords:
    """The arguments of one call."""

    def __init__(self, writer: EventWriter, arguments: Arguments) -> None:
        self._cursor = writer.cursor
        self._arguments = arguments

    def read(self) -> Wait[None]:
        cursor, arguments = self._cursor, self._arguments
        while True:
            yield from cursor.skip(", \t\r\n")
            here = yield from cursor.peek()
            if here == ")":
                cursor.take(1)
                arguments.end()
                return
            key = yield from cursor.match(_KEY)
            cursor.take(len(key))
            yield from cursor.skip()
            if not key or not (yield from cursor.accept("=")):
                arguments.cut()
                return
            yield from cursor.skip()
            if not (yield from self._value(key)):
                arguments.cut()
                return

    def _value(self, key: str) -> Wait[bool]:
        """Read one value; return whether it ended."""
        types = self._arguments.types(key)
        yield from self._cursor.need(3)
        prefix = yield from self._cursor.stands('f"', "f'", 'r"', "r'", 'b"', "b'", 'u"', "u'")
        here = yield from self._cursor.peek()
        if (prefix or here in _RUN) and (not types or "string" in types):
            self._cursor.take(len(prefix[:1]))
            self._arguments.key(key)
            self._arguments.write('"')
            ended = yield from self._string(self._write, raw=prefix[:1] == "r")
            self._arguments.write('"' if ended else "")
            return ended
        held: list[str] = []
        if not (yield from self._held(held)):
            self._arguments.key(key)
            return False
        self._arguments.add(key, _meaning("".join(held), types))
        return True

    def _write(self, piece: str) -> None:
        self._arguments.write(escaped(piece))

    def _string(self, sink: Sink, *, raw: bool) -> Wait[bool]:
        """Read a string and pass its content to `sink`; return whether it was closed."""
        cursor = self._cursor
        quote = yield from cursor.accept('"""', "'''", '"', "'")
        if quote in {'"', "'"} and (yield from cursor.stands(quote)):
            cursor.take(1)
            return True
        while True:
            here = yield from cursor.peek()
            if not here:
                return False
            if here == "\\":
                sink(unescape((yield from self._escape()), raw=raw))
            elif (yield from cursor.accept(quote)):
                return True
            elif match := _RUN[quote[0]].match(cursor.text, cursor.at):
                sink(cursor.take(len(match.group())))
            else:
                sink(cursor.take(1))

    def _escape(self) -> Wait[str]:
        """Read an escape; a surrogate pair is read as one."""
        cursor = self._cursor
        yield from cursor.need(2)
        size = 2 + _ESCAPE.get(cursor.text[cursor.at + 1 : cursor.at + 2], 0)
        yield from cursor.need(size)
        written = cursor.take(size)
        is_half = written[:3].lower() == "\\ud" and written[3:4].lower() in {"8", "9", "a", "b"}
        if is_half and (yield from cursor.stands("\\u")):
            yield from cursor.need(6)
            written += cursor.take(6)
        return written

    def _held(self, held: list[str]) -> Wait[bool]:
        """Read a value up to the comma or bracket that ends it."""
        cursor = self._cursor
        depth: list[str] = []
        while True:
            here = yield from cursor.peek()
            if not here:
                return False
            if here in _RUN:
                held.append(here)
                if not (yield from self._quoted(held)):
                    return False
            elif here in _OPEN:
                depth.append(_OPEN[here])
                held.append(cursor.take(1))
            elif here in ")]}" and depth:
                depth.pop()
                held.append(cursor.take(1))
            elif here in ",)]}" and not depth:
                return True
            elif match := _PLAIN.match(cursor.text, cursor.at):
                held.append(cursor.take(len(match.group())))
            else:
                held.append(cursor.take(1))

    def _quoted(self, held: list[str]) -> Wait[bool]:
        """Read a string with its quotes; the first one is in `held` already."""
        cursor = self._cursor
        quote = cursor.take(1)
        while True:
            here = yield from cursor.peek()
            if not here:
                return False
            if here == "\\":
                yield from cursor.need(2)
                held.append(cursor.take(2))
            elif here == quote:
                held.append(cursor.take(1))
                return True
            elif match := _RUN[quote].match(cursor.text, cursor.at):
                held.append(cursor.take(len(match.group())))


def _meaning(written: str, types: frozenset[str]) -> Json:
    if types == {"string"}:
        return written.strip()
    try:
        value = literal(written)
    except Unreadable:
        return typed(written.strip(), types)
    return typed(value, types) if isinstance(value, str) and types else value

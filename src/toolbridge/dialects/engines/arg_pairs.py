"""Calls as key/value pairs: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`.

The grammar of GLM, Ling 3, Laguna, Hy3 and LongCat. A value is raw text; it ends at `</arg_value>` only
where `<arg_key>` or `</tool_call>` follows, because a value may contain the tag (smg#1942).
"""

from dataclasses import dataclass

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.dialects.engines.arguments import Arguments, RawValue
from toolbridge.dialects.engines.calls_json import stream_object
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.partial_marks import STOPS, is_half, value_until
from toolbridge.dialects.engines.values import typed
from toolbridge.wire.tags import SPACE, Marks, Wait

_NAME = lazy_pattern(r"(?:\\(?!n)|[^\s<>{}\[\]()\"'`,;\\])+")
_SUFFIX = lazy_pattern(r":[^<>\s]{0,32}")
_ASSIGNED = lazy_pattern(r"\s*([A-Za-z_]\w*)=(\"[^\"]*\"|'[^']*'|[^\s<]+)")


@dataclass(frozen=True)
class PairCalls:
    """Parses pairs. Marks have no `>` here: Tencent's tokenizer adds a suffix to each mark."""

    call: tuple[str, ...] = ("<tool_call",)
    call_close: tuple[str, ...] = ("</tool_call",)
    wrapper: tuple[str, ...] = ()
    wrapper_close: tuple[str, ...] = ()
    separator: str = "<tool_sep"
    key: str = "<arg_key"
    key_close: str = "</arg_key"
    value: str = "<arg_value"
    value_close: str = "</arg_value"

    @property
    def closing(self) -> tuple[str, ...]:
        return tuple(mark + ">" for mark in (*self.call_close, *self.wrapper_close))

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        if mark.rstrip(">") in self.wrapper:
            yield from self._accept(writer, *self.wrapper)
            yield from self._space(writer)
            if (yield from self._accept(writer, *self.wrapper_close)):
                return
            if not (yield from cursor.stands(*self.call)):
                raise NotACall("no call")
        yield from self._call(writer)
        while (yield from cursor.follows(*self.call, at_end=False)):
            position = cursor.remember()
            yield from self._space(writer)
            try:
                yield from self._call(writer)
            except NotACall:
                writer.back(position)
                return
        if self.wrapper_close and (yield from cursor.follows(*self.wrapper_close, at_end=False)):
            yield from self._space(writer)
            yield from self._accept(writer, *self.wrapper_close)
            self._drops_half(writer)

    def _accept(self, writer: EventWriter, *marks: str) -> Wait[str]:
        """Read a mark with its suffix and `>`."""
        cursor = writer.cursor
        mark = yield from cursor.stands(*marks)
        if not mark:
            return ""
        position = cursor.remember()
        cursor.take(len(mark))
        if (yield from self._end_of_mark(writer)):
            return mark
        cursor.rewind(position)
        return ""

    def _space(self, writer: EventWriter) -> Wait[None]:
        """Skip white space, and line ends that the model wrote as two characters."""
        cursor = writer.cursor
        yield from cursor.skip()
        while (yield from cursor.accept("\\n", "\\r", "\\t")):
            yield from cursor.skip()

    def _call(self, writer: EventWriter) -> Wait[None]:
        cursor = writer.cursor
        if not (yield from self._accept(writer, *self.call)):
            raise NotACall("no mark")
        yield from cursor.skip()
        written = yield from cursor.match(_NAME)
        cursor.take(len(written))
        if written and (yield from cursor.stands(*self.call)) and not writer.tools.known:
            yield from self._call(writer)  # the model started again; the first start is dropped
            return
        name = writer.resolve(written)
        spaced = yield from cursor.skip(" \t")
        yield from self._space(writer)
        yield from self._accept(writer, self.separator)
        yield from self._space(writer)
        if spaced and (yield from self._assigned(writer, name)):
            return
        if (yield from cursor.peek()) == "{":
            writer.call(name)
            yield from stream_object(writer, Marks([*self.call_close, *self.call]))
            yield from self._close(writer)
            return
        marks = (self.key, *self.call_close, self.value_close)
        if not (yield from cursor.stands(*marks)) and not is_half(cursor, marks):
            raise NotACall("text after the name")
        writer.call(name)
        yield from self._pairs(writer, Arguments(writer, name))

    def _assigned(self, writer: EventWriter, name: str) -> Wait[bool]:
        """Read `a=1 b=2` after the name, a variant that mlx-lm accepts for GLM."""
        cursor = writer.cursor
        written = yield from cursor.match(lazy_pattern(r"[^<]*"), 2000)
        pairs = _ASSIGNED.findall(written)
        if not pairs or _ASSIGNED.sub("", written).strip():
            return False
        cursor.take(len(written))
        writer.call(name)
        arguments = Arguments(writer, name)
        for key, value in pairs:
            arguments.add(key, typed(value.strip("\"'"), arguments.types(key)))
        arguments.end()
        yield from self._close(writer)
        return True

    def _close(self, writer: EventWriter) -> Wait[None]:
        cursor = writer.cursor
        while (yield from cursor.follows(self.value, self.value_close, at_end=False)):
            yield from self._space(writer)
            if not (yield from self._accept(writer, self.value, self.value_close)):
                break
        if (yield from cursor.follows(*self.call_close, at_end=False)):
            yield from self._space(writer)
            yield from self._accept(writer, *self.call_close)

    def _pairs(self, writer: EventWriter, arguments: Arguments) -> Wait[None]:
        cursor = writer.cursor
        while True:
            yield from self._space(writer)
            if (yield from self._accept(writer, *self.call_close)):
                arguments.end()
                return
            if (yield from self._accept(writer, self.value_close)):
                continue  # the end of a value that never began
            if not (yield from self._accept(writer, self.key)):
                self._end_without_mark(writer, arguments)
                return
            key: list[str] = []
            if not (yield from cursor.until(Marks([self.key_close]), key.append)):
                arguments.cut()
                return
            yield from self._end_of_mark(writer)
            yield from self._space(writer)
            if not (yield from self._pair(writer, arguments, "".join(key).strip())):
                return

    def _end_without_mark(self, writer: EventWriter, arguments: Arguments) -> None:
        """End a call whose end mark is missing; at the end of the stream it may be cut off."""
        cursor = writer.cursor
        rest = cursor.text[cursor.at :]
        if cursor.ended and rest and _is_cut(rest, self.key):
            cursor.take(len(rest))
            arguments.cut()
        elif not rest or self._drops_half(writer):
            arguments.end_or_cut()
        else:
            arguments.end()

    def _drops_half(self, writer: EventWriter) -> bool:
        """Consume the rest of a stream that ends inside an end mark; return whether it does."""
        cursor = writer.cursor
        rest = cursor.text[cursor.at :].strip(SPACE)
        marks = (*self.call_close, *self.wrapper_close)
        if not cursor.ended or not rest or not any(_is_cut(rest, mark) for mark in marks):
            return False
        cursor.take(len(cursor.text))
        return True

    def _end_of_mark(self, writer: EventWriter) -> Wait[bool]:
        """Read the rest of a mark: `>`, or a suffix and `>`."""
        cursor = writer.cursor
        if (yield from cursor.accept(">")):
            return True
        if (yield from cursor.peek()) != ":":
            return False
        suffix = yield from cursor.match(_SUFFIX, 40)
        cursor.take(len(suffix))
        return bool((yield from cursor.accept(">")))

    def _pair(self, writer: EventWriter, arguments: Arguments, key: str) -> Wait[bool]:
        """Read the value of `key`; return whether the call continues."""
        cursor = writer.cursor
        if not (yield from self._accept(writer, self.value)):
            if (yield from cursor.stands(self.key, *self.call_close)):
                return True  # a key without a value
            rest = cursor.text[cursor.at :]
            if cursor.ended and _is_cut(rest.strip(SPACE), self.value):
                cursor.take(len(rest))
                arguments.cut()
                return False
        value = RawValue(arguments, key, arguments.types(key), quotes=True)
        marks = Marks([self.value_close])
        after = (self.key, *self.call_close, *self.call, "\\n", *STOPS)
        while True:
            if not (yield from value_until(cursor, marks, value.feed)):
                value.cut()
                arguments.cut()
                return False
            position = cursor.remember()
            cursor.take(len(self.value_close))
            if not (yield from self._end_of_mark(writer)) and not (yield from cursor.peek()):
                value.cut()
                arguments.cut()
                return False
            if (yield from cursor.follows(*after)) or is_half(cursor, after):
                cursor.forget()
                value.end()
                return True
            cursor.rewind(position)
            value.feed(cursor.take(len(self.value_close)))


def _is_cut(rest: str, mark: str) -> bool:
    """Whether `rest` is the beginning of `mark`, or all of it with a suffix but without its `>`."""
    if mark.startswith(rest):
        return True
    return rest.startswith(mark) and not rest.removeprefix(mark).strip(
        ":abcdefghijklmnopqrstuvwxyz"
    )

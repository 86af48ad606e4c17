"""Calls whose parameters are tags around raw text.

A raw value ends at its close tag only if the next parameter, the end of the call or the end of the
stream follows; any other close tag is part of the value (vllm#38803, Rapid-MLX#1515).
"""

import re
from dataclasses import dataclass, field

from toolbridge.dialects.engines.arguments import TEXT, Arguments, NamelessValue, RawValue
from toolbridge.dialects.engines.calls_json import CallShape, read_calls, stream_object
from toolbridge.dialects.engines.entities import Entities
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.partial_marks import STOPS, drop_half, is_half, value_until
from toolbridge.wire.tags import SPACE, Marks, Wait

EQUALS = re.compile(r"\s*=?\s*[\"']?([^<>\n\"'{}]+?)[\"']?\s*>")
"""The rest of `<function=NAME>` after its mark."""
_LEAD = re.compile(r"[^<>{}\[\]]{1,400}")


@dataclass(frozen=True)
class Header:
    """The name and flags in the opening tag of a call or parameter."""

    name: str
    is_text: bool | None = None
    """Whether the tag declares the value a string; None if it declares nothing."""
    closed: bool = False


@dataclass(frozen=True)
class ParameterCalls:
    """Parses `<call NAME> <parameter KEY>VALUE</parameter> … </call>`, in a wrapper or without."""

    call: tuple[str, ...]
    call_close: tuple[str, ...]
    parameter: tuple[str, ...]
    parameter_close: tuple[str, ...]
    wrapper: tuple[str, ...] = ()
    wrapper_close: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    """Marks around a call inside the wrapper, without meaning."""
    newlines: bool = False
    """One line end before and after a value is markup."""
    bare: bool = True
    """A call may occur without its wrapper; if not, its name must be declared."""
    lone: bool = False
    """If the tools are unknown, a call with a parameter may also occur without its wrapper."""
    head: "re.Pattern[str]" = EQUALS
    json_body: bool = True
    """The wrapper or the call may contain JSON instead of tags."""
    cdata: bool = False
    """A value may be in CDATA; outside of it, XML's entities are decoded."""
    quotes: bool = False
    """Quotes around a value of no declared type are markup."""
    drops_empty: bool = False
    """An empty value of no declared type is left out."""
    closers: Marks = field(init=False)

    def __post_init__(self) -> None:
        marks = (*self.parameter_close, *self.call_close, *self.parameter, *self.wrapper_close)
        object.__setattr__(self, "closers", Marks(marks))

    @property
    def closing(self) -> tuple[str, ...]:
        return (*self.call_close, *self.wrapper_close, *self.inner, *self.call)

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        if mark in self.wrapper:
            writer.cursor.take(len(mark))
            yield from self._wrapped(writer)
            return
        is_bare = not self.bare and not writer.tools.known
        if is_bare and not self.lone:
            raise NotACall("call without its wrapper")
        yield from self._call(writer, is_bare=is_bare)
        yield from self._more(writer)
        yield from self._take_after_space(writer, self.wrapper_close)

    def _wrapped(self, writer: EventWriter) -> Wait[None]:
        cursor = writer.cursor
        yield from self._pass_over(writer)
        if (yield from cursor.accept(*self.wrapper_close)):
            return  # an empty wrapper
        here = yield from cursor.peek()
        if self.json_body and here in {"{", "["}:
            yield from read_calls(writer, CallShape(ends=self.wrapper_close))
            yield from self._take_after_space(writer, self.wrapper_close)
            return
        lead = ""
        if here != "<":
            lead = yield from cursor.match(_LEAD, limit=400)
            cursor.take(len(lead))
        if not (yield from cursor.stands(*self.call)):
            raise NotACall("no call")
        before = writer.calls
        position = cursor.remember()
        try:
            yield from self._call(writer, lead.strip(SPACE))
        except NotACall:
            if writer.ran_out:
                raise
            cursor.rewind(position)
            if not (yield from self._leave_out(writer)):
                raise
        yield from self._more(writer)
        if writer.calls == before:
            raise NotACall("no declared tool")
        yield from self._take_after_space(writer, self.wrapper_close)

    def _more(self, writer: EventWriter) -> Wait[None]:
        """Read the calls after the first one."""
        cursor = writer.cursor
        while True:
            position = cursor.remember()
            between = yield from self._pass_over(writer)
            if not (yield from cursor.stands(*self.call)):
                if between:
                    writer.back(position)
                else:
                    cursor.rewind(position)
                return
            try:
                yield from self._call(writer)
            except NotACall:
                writer.back(position)
                if not (yield from self._leave_out(writer)):
                    return

    def _leave_out(self, writer: EventWriter) -> Wait[bool]:
        """Skip an invalid call if it has an end: the calls after it are still read (vllm#51075)."""
        cursor = writer.cursor
        position = cursor.remember()
        ends = Marks([*self.call_close, *self.wrapper_close, *self.wrapper])
        found = yield from cursor.until(ends, lambda _: None)
        if found in self.call_close:
            return True
        cursor.rewind(position)
        return False

    def _pass_over(self, writer: EventWriter) -> Wait[bool]:
        """Skip the marks between two calls; return whether there were any."""
        cursor = writer.cursor
        yield from cursor.skip()
        found = False
        while self.inner and (yield from cursor.accept(*self.inner)):
            yield from cursor.skip()
            found = True
        return found

    def _take_after_space(self, writer: EventWriter, marks: tuple[str, ...]) -> Wait[None]:
        cursor = writer.cursor
        marks = (*self.inner, *marks)
        while marks and (yield from cursor.follows(*marks, at_end=False)):
            yield from cursor.skip()
            yield from cursor.accept(*marks)

    def _call(self, writer: EventWriter, lead: str = "", *, is_bare: bool = False) -> Wait[None]:
        cursor = writer.cursor
        yield from cursor.accept(*self.call)
        header = yield from self.call_header(writer)
        name = writer.resolve(header.name)
        if is_bare and not (yield from cursor.follows(*self.parameter, at_end=False)):
            raise NotACall("call without its wrapper")
        if header.closed:
            writer.whole_call(name, "{}")
            return
        goes_on = (*self.parameter, *self.call_close, *self.parameter_close, *self.wrapper_close)
        follows = yield from cursor.follows(*goes_on, *("{" if self.json_body else ""))
        if not follows and not is_half(cursor, goes_on):
            raise NotACall("text after the name")
        writer.text(lead)
        writer.call(name)
        yield from self._body(writer, Arguments(writer, name))

    def _body(self, writer: EventWriter, arguments: Arguments) -> Wait[None]:
        cursor = writer.cursor
        while True:
            yield from cursor.skip()
            here = yield from cursor.peek()
            if not here:
                arguments.cut()
                return
            if self.json_body and here == "{" and not arguments.count:
                yield from stream_object(writer, self.closers)
                yield from self._take_after_space(writer, self.call_close)
                return
            if (yield from cursor.accept(*self.parameter)):
                if not (yield from self._parameter(writer, arguments)):
                    return
            elif (yield from cursor.accept(*self.call_close)):
                arguments.end()
                return
            elif not (yield from cursor.accept(*self.parameter_close)):
                self._end_without_mark(writer, arguments)
                return

    def _end_without_mark(self, writer: EventWriter, arguments: Arguments) -> None:
        """End a call whose end tag is missing; at the end of the stream it may be cut off."""
        if is_half(writer.cursor, self.parameter):
            drop_half(writer.cursor, self.parameter)
            arguments.cut()
        elif is_half(writer.cursor, self.closing):
            arguments.end_or_cut()
        else:
            arguments.end()

    def _parameter(self, writer: EventWriter, arguments: Arguments) -> Wait[bool]:
        """Read one parameter; return whether the call continues."""
        try:
            header = yield from self.parameter_header(writer)
        except NotACall:
            arguments.cut()
            return False
        value = self._value_of(header, arguments)
        if header.closed:
            value.end()
            return True
        if not (yield from self._value(writer, value, arguments.name)):
            value.cut()
            arguments.cut()
            return False
        value.end()
        return True

    def _value_of(self, header: Header, arguments: Arguments) -> RawValue | NamelessValue:
        """Return the value that follows `header`; the declared types win over the tag's own."""
        if not header.name:
            return NamelessValue()
        types = arguments.types(header.name)
        if header.is_text and (not types or "string" in types):
            types = TEXT
        return RawValue(
            arguments,
            header.name,
            types,
            newlines=self.newlines,
            quotes=not types and (self.quotes or header.is_text is False),
            drops_empty=self.drops_empty,
        )

    def _value(self, writer: EventWriter, value: RawValue | NamelessValue, name: str) -> Wait[bool]:
        """Read a value and its close tag; return whether it ended."""
        cursor = writer.cursor
        entities = Entities(value.feed) if self.cdata else None
        feed = value.feed if entities is None else entities.feed
        if self.cdata:
            yield from self._cdata(writer, value)
        while True:
            mark = yield from value_until(cursor, self.closers, feed)
            ended = bool(mark) and (yield from self._ends(writer, value, mark, name))
            if entities is not None and (ended or not mark):
                entities.end()
            if ended and mark in self.parameter_close:
                cursor.take(len(mark))
            if ended or not mark:
                return ended
            feed(cursor.take(len(mark)))

    def _cdata(self, writer: EventWriter, value: RawValue | NamelessValue) -> Wait[None]:
        cursor = writer.cursor
        if not (yield from cursor.follows("<![CDATA[", at_end=False)):
            return
        yield from cursor.skip()
        yield from cursor.accept("<![CDATA[")
        while mark := (yield from cursor.until(_CDATA_END, value.feed)):
            if (yield from cursor.follows(*self.parameter_close, *self.call_close)):
                break
            value.feed(mark)
        yield from cursor.skip()

    def _ends(
        self, writer: EventWriter, value: RawValue | NamelessValue, mark: str, name: str
    ) -> Wait[bool]:
        """Whether the grammar can continue after `mark`; otherwise the mark is part of the value."""
        cursor = writer.cursor
        size = len(mark)
        if mark in self.parameter_close:
            after = (*self.parameter, *self.closing, *self.wrapper, *STOPS)
        elif mark in self.call_close:
            after = (*self.wrapper_close, *self.wrapper, *self.call, *self.inner)
        elif mark in self.wrapper_close:
            after = self.wrapper
        else:
            return value.tail == "\n" and (yield from self._declared(writer, mark, name))
        if (yield from cursor.follows(*after, offset=size)):
            return True
        return is_half(cursor, after, size)

    def _declared(self, writer: EventWriter, mark: str, name: str) -> Wait[bool]:
        """Whether the opening tag here names a declared parameter of the tool."""
        cursor = writer.cursor
        position = cursor.remember()
        cursor.take(len(mark))
        try:
            header = yield from self.parameter_header(writer)
        except NotACall:
            return False
        finally:
            cursor.rewind(position)
        return not writer.tools.known or writer.tools.declares(name, header.name)

    def call_header(self, writer: EventWriter) -> Wait[Header]:
        return (yield from self._matched(writer, self.head))

    def parameter_header(self, writer: EventWriter) -> Wait[Header]:
        return (yield from self._matched(writer, self.head))

    def _matched(self, writer: EventWriter, pattern: "re.Pattern[str]") -> Wait[Header]:
        written = yield from tag_end(writer, forgive=True)
        closed = written.endswith("/>")
        match = pattern.fullmatch(written.removesuffix("/>") + ">" if closed else written)
        if match is None:
            raise NotACall("tag without a name")
        return Header(match.group(1).strip(), closed=closed)


_CDATA_END = Marks(["]]>"])


def tag_end(writer: EventWriter, limit: int = 512, *, forgive: bool = False) -> Wait[str]:
    """Read the rest of a tag with its `>`; with `forgive`, `<` or a line end may replace the `>`."""
    cursor = writer.cursor
    taken: list[str] = []
    quote = ""
    while len(taken) < limit:
        if not (yield from cursor.need(1)):
            raise NotACall("unfinished tag")
        here = yield from cursor.peek()
        if forgive and taken and not quote and here in "<\n":
            return "".join(taken) + ">"
        taken.append(cursor.take(1))
        if here == ">" and not quote:
            return "".join(taken)
        if here in "\"'" and (not quote or quote == here):
            quote = "" if quote else here
        if here in "<\n":
            raise NotACall("unfinished tag")
    raise NotACall("tag too long")

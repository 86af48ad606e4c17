"""Calls as JSON between marks.

The name is in the JSON (`JsonBody`) or before it (`NamedJson`). A body ends where its JSON value ends,
not at the first end mark, because a string may contain that mark (omlx#2507, Rapid-MLX#1515).
"""

import re
from dataclasses import dataclass, field

from toolbridge.dialects.engines.calls_json import CallShape, read_calls, stream_object
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.partial_marks import drop_half
from toolbridge.wire.tags import Marks, Wait

_NAME = re.compile(r"[^\s<>{}\[\]()\"'`,;|]+")

_FENCES = ("```", "```json", "```tool_call", "```tool_calls", "```function_call")
"""Code fences of calls; models also name the fence after the mark that they forget."""


@dataclass(frozen=True)
class JsonBody:
    """Parses `<mark>{"name": …, "arguments": {…}}</mark>`: one call, several, or an array."""

    close: tuple[str, ...] = ()
    shape: CallShape = field(default_factory=CallShape)
    fence: bool = False
    """The JSON may be in a code fence."""
    lead: tuple[str, ...] = ()
    """Marks that may follow the opening mark."""
    only: str = "{["
    """The characters that the JSON may begin with."""

    @property
    def closing(self) -> tuple[str, ...]:
        return ("```", *self.close) if self.fence else self.close

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        if mark not in {"{", "[", "```"}:
            cursor.take(len(mark))
        yield from cursor.skip()
        while self.lead and (yield from cursor.accept(*self.lead)):
            yield from cursor.skip()
        if self.close and (yield from self._is_empty(writer)):
            return
        fenced = self.fence and bool((yield from cursor.accept(*_FENCES)))
        yield from cursor.skip()
        if (yield from cursor.peek()) not in {*self.only}:
            raise NotACall("no JSON")
        yield from read_calls(writer, self.shape)
        yield from self._after(writer, fenced=fenced)

    def _is_empty(self, writer: EventWriter) -> Wait[bool]:
        """Read an empty section, with `{}` in it or nothing; return False if it is not empty."""
        cursor = writer.cursor
        position = cursor.remember()
        yield from cursor.accept("{}")
        yield from cursor.skip()
        if (yield from cursor.accept(*self.close)):
            return True
        cursor.rewind(position)
        return False

    def _after(self, writer: EventWriter, *, fenced: bool) -> Wait[None]:
        """Skip the end mark, and extra brackets before it."""
        cursor = writer.cursor
        closers = ("```",) if fenced else self.close
        while (yield from cursor.follows("}", "]", *closers, at_end=False)):
            yield from cursor.skip()
            if (yield from cursor.accept("}", "]", *closers)) in closers:
                return


@dataclass(frozen=True)
class _Header:
    """The name and id before the JSON of a call."""

    name: str
    id: str
    separated: bool
    """Whether a separator follows the name."""
    lined: bool
    """Whether the line ends after the name."""


@dataclass(frozen=True)
class NamedJson:
    """Parses `<mark>NAME<separator>{…}`, optionally with an id, a section or a code fence."""

    before: tuple[str, ...] = ()
    """Text without meaning before the name."""
    needs_before: bool = False
    separators: tuple[str, ...] = ()
    """Marks between the name and the JSON; the JSON itself ends a name too."""
    needs_separator: bool = True
    id_marks: tuple[str, ...] = ()
    """Marks between the name and an id after it."""
    id_first: str = ""
    """The mark between an id and the name after it."""
    close: tuple[str, ...] = ()
    call: tuple[str, ...] = ()
    """Marks that open a call inside a section."""
    section: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    name: "re.Pattern[str]" = _NAME
    fence: bool = False
    empty: bool = False
    """A name without JSON is a call without arguments."""
    ends: Marks = field(init=False)

    def __post_init__(self) -> None:
        marks = (*self.close, *self.section_close, *self.call)
        object.__setattr__(self, "ends", Marks(marks))

    @property
    def closing(self) -> tuple[str, ...]:
        fence = ("```",) if self.fence else ()
        return (*fence, *self.close, *self.section_close, *self.call)

    def __call__(self, writer: EventWriter, mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        cursor.take(len(mark))
        if mark not in self.section:
            yield from self._one(writer)
        elif not (yield from self._opens(writer)):
            yield from cursor.skip()
            if (yield from cursor.accept(*self.section_close)):
                return
            raise NotACall("empty section")
        else:
            yield from self._one(writer)
        while (yield from self._opens(writer)):
            position = cursor.remember()
            try:
                yield from self._one(writer)
            except NotACall:
                writer.back(position)
                break
        if self.section_close and (yield from cursor.follows(*self.section_close, at_end=False)):
            yield from cursor.skip()
            yield from cursor.accept(*self.section_close)

    def _opens(self, writer: EventWriter) -> Wait[bool]:
        """Read the mark of the next call; return False if none follows."""
        cursor = writer.cursor
        if not self.call or not (yield from cursor.follows(*self.call, at_end=False)):
            return False
        yield from cursor.skip()
        yield from cursor.accept(*self.call)
        return True

    def _one(self, writer: EventWriter) -> Wait[None]:
        cursor = writer.cursor
        yield from cursor.skip()
        header = yield from self._header(writer)
        yield from cursor.skip()
        if self.fence and (yield from cursor.accept("```json", "```")):
            yield from cursor.skip()
            yield from cursor.accept("```")  # nothing is in the fence
            yield from cursor.skip()
        if (yield from cursor.peek()) != "{":
            yield from self._without_json(writer, header)
            return
        writer.call(header.name, header.id)
        yield from stream_object(writer, self.ends)
        yield from self._after(writer)

    def _without_json(self, writer: EventWriter, header: _Header) -> Wait[None]:
        """End a call that has a name and no arguments."""
        cursor = writer.cursor
        rest = yield from cursor.peek()
        if self.close and (yield from cursor.stands(*self.close)):
            writer.whole_call(header.name, "{}", header.id)
            yield from self._after(writer)
            return
        certain = writer.tools.known or header.lined or rest in "[<"
        if rest and not (self.empty and certain):
            raise NotACall("no JSON")
        writer.call(header.name, header.id)
        half = cursor.text[cursor.at :] if cursor.ended else ""
        if half and any(mark.startswith(half) for mark in (*self.separators, *self.id_marks)):
            cursor.take(len(half))
            writer.cut_call()
        elif rest:
            writer.end_call()
        elif self.empty and not header.id and not header.separated:
            writer.end_or_cut()
        else:
            writer.cut_call()

    def _header(self, writer: EventWriter) -> Wait[_Header]:
        cursor = writer.cursor
        if self.before and not (yield from cursor.accept(*self.before)) and self.needs_before:
            raise NotACall("another format")
        yield from cursor.skip(" \t")
        id = ""
        if self.id_first:
            id = yield from self._word(writer)
            yield from cursor.skip(" \t")
            if not (yield from cursor.accept(self.id_first)):
                raise NotACall("no name after the id")
            yield from cursor.skip(" \t")
        written = yield from self._word(writer)
        yield from cursor.skip(" \t")
        if self.id_marks and (yield from cursor.accept(*self.id_marks)):
            yield from cursor.skip(" \t")
            id = yield from self._word(writer)
        name, own_id = self.identify(writer, written)
        gap = yield from cursor.skip()
        separated = yield from cursor.accept(*self.separators)
        empty = self.close and (yield from cursor.stands(*self.close))
        if self.needs_separator and not separated and self.separators and not empty:
            drop_half(cursor, self.separators)
            raise NotACall("no separator")
        return _Header(name, id or own_id, separated=bool(separated), lined="\n" in gap)

    def identify(self, writer: EventWriter, written: str) -> tuple[str, str]:
        """Return the tool name and the id in the header."""
        return writer.resolve(written), ""

    def _word(self, writer: EventWriter) -> Wait[str]:
        cursor = writer.cursor
        word = yield from cursor.match(self.name)
        if not word:
            raise NotACall("no name")
        return cursor.take(len(word))

    def _after(self, writer: EventWriter) -> Wait[None]:
        cursor = writer.cursor
        marks = ("```", *self.close) if self.fence else self.close
        while marks and (yield from cursor.follows(*marks, at_end=False)):
            yield from cursor.skip()
            found = yield from cursor.accept(*marks)
            if found != "```":
                return

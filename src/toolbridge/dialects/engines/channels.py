"""Kimi K3's channels: `<|open|>NAME key="value"<|sep|> … <|close|>NAME<|sep|>`.

The whole answer is in channels: `think`, `response`, and `tools` with its calls.
"""

import re
from dataclasses import dataclass, field

from toolbridge.dialects.engines.arguments import TEXT, Arguments, RawValue
from toolbridge.dialects.engines.calls_json import stream_object
from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.dialects.engines.partial_marks import is_half, value_until
from toolbridge.dialects.engines.speech import Ends, mentioned, speech, thought
from toolbridge.wire.tags import Marks, Wait

_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*\"([^\"]*)\"")
_HALF = re.compile(r"[a-z]*(?:[ \t]+[^<\n]*)?")
_TYPES = {"number": frozenset({"number", "integer"})}


@dataclass(frozen=True)
class _Tag:
    """One tag with its attributes."""

    name: str
    closes: bool
    attributes: dict[str, str]


@dataclass(frozen=True)
class Channels:
    """Reads an answer in channels."""

    open: str = "<|open|>"
    close: str = "<|close|>"
    separator: str = "<|sep|>"
    drop: tuple[str, ...] = ("<|end_of_msg|>",)
    marks: Ends = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", Ends([self.open, self.close, *self.drop]))

    def begun(self, prompt: str) -> str:
        """Return the channel that the prompt opened last, unless it is closed."""
        tag = prompt[max(prompt.rfind(self.open), 0) :]
        return tag if tag.startswith(self.open) and tag.endswith(self.separator) else ""

    def __call__(self, writer: EventWriter, *, thinking: bool = False) -> Wait[None]:
        cursor = writer.cursor
        channel = "think" if thinking else ""
        while True:
            thinks = channel == "think" and writer.thoughts
            write = writer.think if thinks else writer.text
            mark = yield from (thought if thinks else speech)(writer, self.marks, keep=True)
            if not mark:
                return
            if mark in self.drop:
                cursor.take(len(mark))
                writer.tail = ""
                continue
            if (yield from self._cut_mark(writer)):
                return
            tag = yield from self._spoken_tag(writer)
            if tag is None:
                write(cursor.take(len(mark)))
                continue
            if channel == "think":
                writer.end_thought()
            writer.tail = ""
            channel = "" if tag.closes else tag.name
            if channel == "tools" and not (yield from self._tools(writer)):
                return
            channel = "" if channel == "tools" else channel

    def _spoken_tag(self, writer: EventWriter) -> Wait[_Tag | None]:
        """Read a tag in running text; return None if the text only mentions it."""
        cursor = writer.cursor
        position = cursor.remember()
        tag = yield from self.tag(writer)
        if tag is not None and (yield from mentioned(writer)):
            cursor.rewind(position)
            tag = None
        cursor.forget()
        return tag

    def _cut_mark(self, writer: EventWriter) -> Wait[bool]:
        """Whether the stream ends inside the tag that begins here."""
        cursor = writer.cursor
        position = cursor.remember()
        yield from cursor.accept(self.open, self.close)
        name = yield from cursor.match(_HALF, 256)
        cursor.take(len(name))
        yield from cursor.stands(self.separator)
        ended = not (yield from cursor.peek()) or is_half(cursor, [self.separator])
        cursor.rewind(position)
        return ended

    def tag(self, writer: EventWriter) -> Wait[_Tag | None]:
        """Read a complete tag; return None if no tag begins here."""
        cursor = writer.cursor
        position = cursor.remember()
        mark = yield from cursor.accept(self.open, self.close)
        held: list[str] = []
        ends = Marks([self.separator, self.open, self.close, "\n"])
        if not mark or (yield from cursor.until(ends, held.append)) != self.separator:
            cursor.rewind(position)
            return None
        written = "".join(held).strip()
        name = written.split(" ", 1)[0]
        attributes = {key: _unescaped(value) for key, value in _ATTRIBUTE.findall(written)}
        if not name.isidentifier():
            cursor.rewind(position)
            return None
        return _Tag(name, mark == self.close, attributes)

    def _tools(self, writer: EventWriter) -> Wait[bool]:
        """Read the calls of the tools channel; return whether the answer continues."""
        cursor = writer.cursor
        if not writer.tools.offered:
            writer.text(f"{self.open}tools{self.separator}")
            yield from cursor.until(Marks(()), writer.text)
            return False
        while True:
            yield from cursor.skip()
            tag = yield from self.tag(writer)
            if tag is None or tag.closes:
                return tag is not None or bool((yield from cursor.peek()))
            if tag.name == "call" and tag.attributes.get("tool"):
                yield from self._call(writer, tag.attributes.get("tool", ""))

    def _call(self, writer: EventWriter, written: str) -> Wait[None]:
        name = writer.resolve(written, forward=True)
        writer.call(name)
        arguments = Arguments(writer, name)
        while True:
            yield from writer.cursor.skip()
            tag = yield from self.tag(writer)
            if tag is None:
                arguments.cut()
                return
            if tag.closes:
                arguments.end()
                return
            if tag.name == "json" and not arguments.count:
                yield from self._json(writer)
                return
            if not (yield from self._argument(writer, arguments, tag.attributes)):
                arguments.cut()
                return

    def _json(self, writer: EventWriter) -> Wait[None]:
        """Read all arguments as one JSON object, and the tags that end it and its call."""
        ends = Marks([f"{self.close}json{self.separator}", f"{self.close}call{self.separator}"])
        yield from writer.cursor.skip()
        yield from stream_object(writer, ends)
        for end in (f"{self.close}json{self.separator}", f"{self.close}call{self.separator}"):
            yield from writer.cursor.skip()
            yield from writer.cursor.accept(end)

    def _argument(
        self, writer: EventWriter, arguments: Arguments, attributes: dict[str, str]
    ) -> Wait[bool]:
        kind = attributes.get("type", "string")
        types = TEXT if kind == "string" else _TYPES.get(kind, frozenset({kind}))
        value = RawValue(arguments, attributes.get("key", "").strip(), types)
        close = f"{self.close}argument{self.separator}"
        marks = Marks([close])
        after = (self.open, self.close, *self.drop)
        cursor = writer.cursor
        while (yield from value_until(cursor, marks, value.feed)):
            cursor.take(len(close))
            if (yield from cursor.follows(*after)) or is_half(cursor, after):
                value.end()
                return True
            value.feed(close)
        value.cut()
        return False


def escaped_attribute(value: str) -> str:
    """Return `value` as the template's macro `escape_attr` writes it."""
    return value.replace("&", "&amp;").replace('"', "&quot;")


def _unescaped(value: str) -> str:
    """Undo `escaped_attribute`; the template writes no other entity."""
    return value.replace("&quot;", '"').replace("&amp;", "&")

"""MiniMax M3's grammar: parameters as a tree of tags, each after a special token.

`NS<invoke name="N">NS<city>ParisNS</city>NS</invoke>`, where NS is the token. Only a tag after the token
is markup, so a value may contain any other tag.
"""

import re
from dataclasses import dataclass, field

from toolbridge.core.json import Json
from toolbridge.dialects.engines.arguments import TEXT, Arguments, RawValue
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.partial_marks import value_until
from toolbridge.dialects.engines.values import typed, types_of
from toolbridge.wire.tags import Marks, Wait

_NAME = re.compile(r"\s*name\s*=\s*[\"']?([^\"'<>]+)")
_TAG = re.compile(r"<?(/?)\s*([^<>\s/]+)([^<>]*)")


@dataclass(frozen=True)
class _Tag:
    """One tag after the token."""

    name: str
    closes: bool
    rest: str = ""


@dataclass(frozen=True)
class TreeCalls:
    """Parses calls whose parameters are nested tags."""

    token: str
    wrapper: str = "tool_call"
    call: str = "invoke"
    marks: Marks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", Marks([self.token]))

    @property
    def closing(self) -> tuple[str, ...]:
        return (f"{self.token}</{self.wrapper}>",)

    def __call__(self, writer: EventWriter, _mark: str, /) -> Wait[None]:
        cursor = writer.cursor
        tag = yield from self._tag(writer)
        before = writer.calls
        if tag is None or tag.closes or tag.name not in {self.wrapper, self.call}:
            raise NotACall("no call")
        if tag.name == self.call:
            yield from self._call(writer, tag)
        while (yield from cursor.follows(self.token, at_end=False)):
            position = cursor.remember()
            yield from cursor.skip()
            tag = yield from self._tag(writer)
            if tag is not None and tag.closes and tag.name == self.wrapper:
                return
            if tag is None or tag.closes or tag.name != self.call:
                cursor.rewind(position)
                break
            try:
                yield from self._call(writer, tag)
            except NotACall:
                writer.back(position)
                break
        if writer.calls == before:
            raise NotACall("no call")

    def _tag(self, writer: EventWriter) -> Wait[_Tag | None]:
        """Read the token and its tag; return None if anything else follows."""
        cursor = writer.cursor
        if not (yield from cursor.accept(self.token)):
            return None
        yield from cursor.skip()
        written: list[str] = []
        while (here := (yield from cursor.peek())) != ">":
            if not here or here in "]\n" or (here == "<" and written) or len(written) > 256:
                return None
            written.append(cursor.take(1))
        cursor.take(1)
        match = _TAG.fullmatch("".join(written))
        return _Tag(match.group(2), bool(match.group(1)), match.group(3)) if match else None

    def _call(self, writer: EventWriter, tag: _Tag) -> Wait[None]:
        named = _NAME.match(tag.rest)
        if named is None:
            raise NotACall("no name")
        name = writer.resolve(named.group(1))
        writer.call(name)
        yield from _Tree(writer, self, Arguments(writer, name)).read()

    def read_tag(self, writer: EventWriter) -> Wait[_Tag | None]:
        """Read the next tag; return None and consume nothing if no tag begins here."""
        cursor = writer.cursor
        position = cursor.remember()
        tag = yield from self._tag(writer)
        if tag is None:
            cursor.rewind(position)
        return tag


class _Tree:
    """The arguments of one call."""

    def __init__(self, writer: EventWriter, grammar: TreeCalls, arguments: Arguments) -> None:
        self._writer = writer
        self._grammar = grammar
        self._arguments = arguments
        self._schema = writer.tools.schema(arguments.name)

    def read(self) -> Wait[None]:
        cursor, arguments = self._writer.cursor, self._arguments
        while True:
            yield from cursor.skip()
            tag = yield from self._grammar.read_tag(self._writer)
            if tag is not None and tag.closes:
                arguments.end()  # of the call, or of something around it
                return
            if tag is not None:
                ended = yield from self._parameter(tag.name)
            else:
                ended = yield from self._nameless()
            if not ended:
                arguments.cut()
                return

    def _nameless(self) -> Wait[bool]:
        """Read a parameter without its opening tag (vllm#51073); the closing tag has its name.

        A value before the end of the call has no name at all: the call is cut there.
        """
        cursor = self._writer.cursor
        if not (yield from cursor.accept(self._grammar.token)):
            return False
        held: list[str] = []
        if not (yield from cursor.until(self._grammar.marks, held.append, keep=True)):
            return False
        position = cursor.remember()
        tag = yield from self._grammar.read_tag(self._writer)
        if tag is None or not tag.closes:
            return False
        if tag.name == self._grammar.call:
            cursor.rewind(position)
            return not "".join(held).strip()
        self._arguments.add(tag.name, typed("".join(held), self._arguments.types(tag.name)))
        return True

    def _parameter(self, key: str) -> Wait[bool]:
        types = self._arguments.types(key)
        if types == TEXT:
            value = RawValue(self._arguments, key, types)
            if not (yield from self._text(value)):
                return False
            value.end()
            return True
        schema = self._writer.tools.parameter(self._arguments.name, key)
        held: list[str] = []
        found = yield from self._element(schema, held)
        if found is None:
            self._arguments.key(key)
            return False
        self._arguments.add(key, found[0])
        return True

    def _text(self, value: RawValue) -> Wait[bool]:
        """Read a string up to a closing tag."""
        cursor = self._writer.cursor
        while (yield from value_until(cursor, self._grammar.marks, value.feed)):
            position = cursor.remember()
            tag = yield from self._grammar.read_tag(self._writer)
            goes_on = yield from cursor.follows(self._grammar.token)
            if tag is not None and tag.closes and goes_on:
                return True
            cursor.rewind(position)
            value.feed(cursor.take(len(self._grammar.token)))
        return False

    def _element(self, schema: Json, held: list[str]) -> Wait[tuple[Json] | None]:
        """Read the content of an element: text or elements; None if it is cut off."""
        cursor = self._writer.cursor
        children: list[tuple[str, Json]] = []
        while (yield from cursor.until(self._grammar.marks, held.append, keep=True)):
            tag = yield from self._grammar.read_tag(self._writer)
            if tag is None:
                held.append(cursor.take(len(self._grammar.token)))
            elif tag.closes:
                return (self._built("".join(held), children, schema),)
            else:
                inner = yield from self._element(self._member(schema, tag.name), [])
                if inner is None:
                    return None
                children.append((tag.name, inner[0]))
        return None

    def _built(self, text: str, children: list[tuple[str, Json]], schema: Json) -> Json:
        types = types_of(schema, self._schema)
        if not children:
            if not text.strip() and "array" in types and "string" not in types:
                return []
            if not text.strip() and "object" in types and "string" not in types:
                return {}
            return typed(text, types)
        if "array" in types or all(name == "item" for name, _ in children):
            return [value for _, value in children]
        return dict(children)

    def _member(self, schema: Json, name: str) -> Json:
        """Return the schema of a child."""
        for option in _options(schema):
            properties = option.get("properties")
            if isinstance(properties, dict) and name in properties:
                return properties[name]
            if name == "item" and "items" in option:
                return option["items"]
        return None


def _options(schema: Json) -> list[dict[str, Json]]:
    if not isinstance(schema, dict):
        return []
    options = [schema]
    for key in ("anyOf", "oneOf", "allOf"):
        members = schema.get(key)
        options += [m for m in members if isinstance(m, dict)] if isinstance(members, list) else []
    return options

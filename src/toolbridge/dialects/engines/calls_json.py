"""Calls written as JSON objects: `{"name": …, "arguments": {…}}` and its variants.

Models vary the keys (`parameters`, `tool_name`, `function`), nest the call, and write one object, an
array or several objects. Arguments are streamed as soon as the name is known.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from toolbridge.core.json import loads
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.literals import unescape
from toolbridge.wire.tags import Ending, JsonWalk, Marks, Wait

_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input", "tool_input", "kwargs"})
_NAMES = frozenset({"name", "tool_name", "tool", "function_name"})
_IDS = frozenset({"id", "tool_call_id", "call_id"})
_INSIDE = frozenset({"function", "tool_call", "tool_calls", "function_call", "action"})
_FIRST = frozenset("{[\"'n")


@dataclass(frozen=True)
class CallShape:
    """The variants of JSON calls that a dialect uses."""

    ends: tuple[str, ...] = ()
    """Marks that end a body that is not JSON."""
    keyed: bool = False
    """Calls are `{NAME: ARGUMENTS}` (Apertus)."""
    id_last: bool = False
    """The id may follow the arguments (Mistral), which are then held until it is known."""
    strict: bool = False
    """An object without arguments is not a call: the text may contain any JSON."""
    between: str = ","
    """Characters that may separate two calls."""
    marks: Marks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", Marks(self.ends))


def read_string(writer: EventWriter) -> Wait[str | None]:
    """Read a JSON string; return None if it is cut off or absent."""
    parts: list[str] = []
    walk = JsonWalk(writer.cursor, parts.append, Marks(()))
    if (yield from walk.string()) is not Ending.WHOLE:
        return None
    written = "".join(parts)
    try:
        return str(loads(written))
    except ValueError:
        return unescape(written[1:-1])


def read_calls(writer: EventWriter, shape: CallShape) -> Wait[int]:
    """Read one call, an array of calls, or calls in a row; return how many."""
    cursor = writer.cursor
    before = writer.calls
    yield from cursor.skip()
    if (yield from cursor.accept("[")):
        yield from _read_list(writer, shape)
        return writer.calls - before
    yield from _read_call(writer, shape)
    while shape.between and (yield from cursor.follows("{", *shape.between, at_end=False)):
        position = cursor.remember()
        yield from cursor.skip(shape.between + " \t\r\n")
        try:
            yield from _read_call(writer, shape)
        except NotACall:
            writer.back(position)
            break
    return writer.calls - before


def _read_list(writer: EventWriter, shape: CallShape) -> Wait[None]:
    cursor = writer.cursor
    before = writer.calls
    while True:
        yield from cursor.skip(", \t\r\n")
        here = yield from cursor.peek()
        if here == "]":
            if shape.strict and writer.calls == before:
                raise NotACall("an empty list")
            cursor.take(1)
            return
        if here != "{":
            if writer.calls == before:
                raise NotACall("not a list of calls")
            return
        position = cursor.remember()
        try:
            yield from _read_call(writer, shape)
        except NotACall:
            if writer.calls == before:
                raise
            writer.back(position)
            return


def _read_call(writer: EventWriter, shape: CallShape) -> Wait[None]:
    yield from CallObject(writer, shape).read()


class CallObject:
    """Reads one object that may be a call, key by key."""

    def __init__(self, writer: EventWriter, shape: CallShape, name: str = "") -> None:
        self._writer = writer
        self._cursor = writer.cursor
        self._shape = shape
        self._name = name
        self._id = ""
        self._held: list[str] | None = None
        self._held_ending = Ending.WHOLE
        self._open = False
        self._done = False

    def read(self) -> Wait[None]:
        ending = yield from self._object()
        if self._done:
            return
        if not self._name or (self._shape.strict and self._held is None):
            raise NotACall("no name")
        self._writer.call(self._name, self._id)
        self._done = True
        if self._held is not None:
            ending = self._write_held("".join(self._held), ending)
        if ending is Ending.CUT:
            self._writer.cut_call()
        else:
            self._writer.end_call()

    def _object(self) -> Wait[Ending]:
        cursor = self._cursor
        if not (yield from cursor.accept("{")):
            raise NotACall("no object")
        while True:
            yield from cursor.skip(", \t\r\n")
            here = yield from cursor.peek()
            if not here:
                return Ending.CUT
            if here == "}":
                cursor.take(1)
                return Ending.WHOLE
            key = yield from read_string(self._writer)
            yield from cursor.skip()
            if key is None or not (yield from cursor.accept(":")):
                return self._stop()
            yield from cursor.skip()
            if (ending := (yield from self._member(key))) is not Ending.WHOLE:
                return ending

    def _stop(self) -> Ending:
        """Stop at invalid JSON: raise NotACall before the call was written, else end it."""
        if not self._done and (self._held is None or not self._name):
            raise NotACall("no JSON")
        return Ending.CUT if self._cursor.ended and not self._rest() else Ending.BROKEN

    def _rest(self) -> str:
        return self._cursor.text[self._cursor.at :]

    def _member(self, key: str) -> Wait[Ending]:
        here = yield from self._cursor.peek()
        if self._shape.keyed and here == "{":
            self._name = self._writer.resolve(key)
            return (yield from self._arguments())
        if key in _INSIDE and here in {"{", "["}:
            return (yield from self._inside(here))
        if self._shape.strict and not self._name and key in _NAMES and here not in {'"', ""}:
            raise NotACall("the name is not a string")
        if key in _NAMES | {"function"} and here == '"' and not self._name:
            name = yield from read_string(self._writer)
            if name is None:
                return self._stop()
            self._name = self._writer.resolve(name)
            return Ending.WHOLE
        if key in _ARGUMENTS and not self._done:
            return (yield from self._arguments())
        if self._shape.strict and not self._name and here in {"{", "["}:
            raise NotACall("JSON data, not a call")  # not held back: it may be long
        value: list[str] = []
        walk = JsonWalk(self._cursor, value.append, self._shape.marks, patient=self._done)
        ending = yield from walk.value()
        if key in _IDS:
            self._id = "".join(value).strip("\"'")
        return ending if ending is Ending.WHOLE else self._stop()

    def _inside(self, here: str) -> Wait[Ending]:
        if here == "{":
            return (yield from self._object())
        self._cursor.take(1)
        yield from _read_list(self._writer, self._shape)
        self._done = True
        return Ending.WHOLE

    def _arguments(self) -> Wait[Ending]:
        here = yield from self._cursor.peek()
        if here and here not in _FIRST:
            raise NotACall("arguments are not JSON")
        if self._name and not self._shape.id_last and here == "{":
            self._writer.call(self._name, self._id)
            self._done = True
            return (yield from stream_object(self._writer, self._shape.marks))
        self._held = []
        patient = bool(self._name)
        walk = JsonWalk(self._cursor, self._held.append, self._shape.marks, patient=patient)
        self._held_ending = yield from walk.value()
        if self._held_ending is Ending.BROKEN and not patient:
            raise NotACall("arguments are not JSON")
        return self._held_ending

    def _write_held(self, written: str, ending: Ending) -> Ending:
        """Write arguments that were held; a string that contains JSON is decoded (vllm#25729)."""
        if self._held_ending is not Ending.WHOLE:
            self._writer.arguments(written)
            return self._held_ending
        if written.startswith('"'):
            with suppress(ValueError):  # left to healing
                written = str(loads(written))
        self._writer.arguments("{}" if written.strip() in {"", "null", "[]"} else written)
        return ending


def stream_object(writer: EventWriter, ends: Marks) -> Wait[Ending]:
    """Stream an object as the arguments of the open call, and end the call."""
    ending = yield from JsonWalk(writer.cursor, writer.arguments, ends).value()
    if ending is Ending.CUT:
        writer.cut_call()
    else:
        writer.end_call()
    return ending

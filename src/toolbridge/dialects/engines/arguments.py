"""Builds the JSON arguments of a call from parameters that arrive one at a time.

For formats that write each parameter in tags of its own. A string parameter is streamed; any other
type is held until it is complete, because only then its type is known (vllm#40195).
"""

from toolbridge.core.json import Json, dumps
from toolbridge.dialects.engines.event_writer import EventWriter, escaped
from toolbridge.dialects.engines.values import typed

_WRAPPERS = frozenset({"arguments", "input", "parameters", "properties"})
TEXT = frozenset({"string"})
_QUOTED = 256
"""The longest value that is held to find out whether it is in quotes."""


class Arguments:
    """Writes `{"key": value, …}` into the open call."""

    def __init__(self, writer: EventWriter, name: str) -> None:
        self._writer = writer
        self.name = name
        self.count = 0

    def key(self, key: str) -> None:
        self._writer.arguments(("{" if not self.count else ", ") + dumps(key) + ": ")
        self.count += 1

    def add(self, key: str, value: Json) -> None:
        """Write one argument; an undeclared `arguments` object is replaced by its members."""
        if isinstance(value, dict) and self._wraps(key):
            for inner, member in value.items():
                self.key(inner)
                self._writer.arguments(dumps(member))
            return
        self.key(key)
        self._writer.arguments(dumps(value))

    def _wraps(self, key: str) -> bool:
        tools = self._writer.tools
        return key in _WRAPPERS and tools.known and not tools.declares(self.name, key)

    @property
    def parameters(self) -> frozenset[str]:
        """The declared parameters of the tool; empty if they are unknown."""
        return self._writer.tools.parameters(self.name)

    def types(self, key: str) -> frozenset[str]:
        return self._writer.tools.types(self.name, key)

    def end(self) -> None:
        self._writer.arguments("}" if self.count else "{}")
        self._writer.end_call()

    def cut(self) -> None:
        self._writer.cut_call()

    def end_or_cut(self) -> None:
        """End a call whose end mark is missing; cut it if the stream was cut off."""
        if self._writer.cut_short:
            self.cut()
        else:
            self.end()

    def write(self, piece: str) -> None:
        self._writer.arguments(piece)


class RawValue:
    """One raw value while it arrives: strings are written as they come, other types at the end.

    With `quotes`, quotes around a value on one line are markup. With `drops_empty`, an empty value
    whose type is not declared is left out.
    """

    def __init__(
        self,
        arguments: Arguments,
        key: str,
        types: frozenset[str],
        *,
        newlines: bool = False,
        quotes: bool = False,
        drops_empty: bool = False,
    ) -> None:
        self._arguments = arguments
        self._key = key
        self._types = types
        self._quotes = quotes
        self._drops_empty = drops_empty
        self._streams = types == TEXT
        self._begun = False
        self._held: list[str] = []
        self._fresh = newlines
        self._trims = False
        self._newline = ""
        self.tail = "\n"
        """The last character, to know whether a mark is at the start of a line."""

    def feed(self, piece: str) -> None:
        if not piece:
            return
        if piece.strip(" \t"):
            self.tail = piece.rstrip(" \t")[-1]
        if self._fresh:
            self._fresh = False
            self._trims = piece.startswith("\n")
            piece = piece[1:] if self._trims else piece
        if self._trims:
            piece = self._newline + piece
            self._newline = "\n" if piece.endswith("\n") else ""
            piece = piece[: len(piece) - len(self._newline)]
        if not self._streams:
            self._held.append(piece)
        elif piece:
            self._stream(piece)

    def _stream(self, piece: str) -> None:
        """Write a piece of a string; text after a quote is held, because it may be in quotes."""
        if not self._begun and self._quotes and (self._held or piece[0] in "\"'"):
            self._held.append(piece)
            if "\n" not in piece and sum(map(len, self._held)) <= _QUOTED:
                return
            piece = "".join(self._held)
            self._held.clear()
        self._begin()
        self._arguments.write(escaped(piece))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._arguments.key(self._key)
            self._arguments.write('"')

    def end(self) -> None:
        if self._begun or (self._streams and not self._held):
            self._begin()
            self._arguments.write('"')
            return
        written = "".join(self._held)
        if written.strip() or "string" in self._types:
            value = typed(written, self._types, quotes=self._quotes)
        elif "null" in self._types:
            value = None
        elif self._types or self._drops_empty:
            return  # nothing is no value of these types
        else:
            value = written
        self._arguments.add(self._key, value)

    def cut(self) -> None:
        """Leave the value incomplete, so that the call is invalid JSON and is not run."""
        if self._streams:
            self._begin()
            self._arguments.write(escaped("".join(self._held)))
            return
        self._arguments.key(self._key)
        if not self._types or "string" in self._types:
            self._arguments.write('"' + escaped("".join(self._held)))


class NamelessValue:
    """The value of a parameter without a name: nothing is written."""

    tail = ""

    def feed(self, piece: str) -> None: ...

    def end(self) -> None: ...

    def cut(self) -> None: ...

"""Builds the JSON arguments of a call from parameters that arrive one at a time.

For formats that write each parameter in tags of its own. A string parameter is streamed; any other
type is held until it is complete, because only then its type is known (vllm#40195).
"""

from toolbridge.core.json import Json, dumps
from toolbridge.dialects.engines.event_writer import EventWriter, escaped
from toolbridge.dialects.engines.values import typed

_WRAPPERS = frozenset({"arguments", "input", "parameters", "properties"})
TEXT = frozenset({"string"})


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
    """One raw value while it arrives: strings are written as they come, other types at the end."""

    def __init__(
        self, arguments: Arguments, key: str, types: frozenset[str], *, newlines: bool = False
    ) -> None:
        self._arguments = arguments
        self._key = key
        self._types = types
        self._streams = types == TEXT
        self._held: list[str] = []
        self._fresh = newlines
        self._trims = False
        self._newline = ""
        self.tail = "\n"
        """The last character, to know whether a mark is at the start of a line."""
        if self._streams:
            arguments.key(key)
            arguments.write('"')

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
            self._arguments.write(escaped(piece))

    def end(self) -> None:
        if self._streams:
            self._arguments.write('"')
        else:
            self._arguments.add(self._key, typed("".join(self._held), self._types))

    def cut(self) -> None:
        """Leave the value incomplete, so that the call is invalid JSON and is not run."""
        if self._streams:
            return
        self._arguments.key(self._key)
        if not self._types or "string" in self._types:
            self._arguments.write('"' + escaped("".join(self._held)))

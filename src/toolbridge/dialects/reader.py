"""Reads the text of a model in a dialect: text in, events with text, reasoning and calls out.

`TextReader` is the stage that the library offers and `DialectStage` uses; `read_text` reads a whole text.
"""

import codecs
from collections.abc import Generator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from toolbridge.core.draft import Draft
from toolbridge.core.events import Event
from toolbridge.core.fold import collect
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json
from toolbridge.core.messages import Call, StopReason, Tool
from toolbridge.core.shared_tools import once_per_list
from toolbridge.core.tools import as_tools
from toolbridge.dialects import for_model, load
from toolbridge.dialects.auto import auto_reader
from toolbridge.dialects.dialect import Continues, ReadStream
from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.dialects.engines.toolbox import Toolbox

Offered: TypeAlias = Sequence[Tool | Mapping[str, Json]] | None
"""Tools as `Tool` or as JSON of any API; None if they are unknown."""


class Reading(msgspec.Struct, frozen=True):
    """The text, the reasoning and the calls of an answer."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


def _toolbox(tools: tuple[Tool, ...] | None) -> Toolbox:
    return Toolbox(None) if tools is None else _declared(tools)


@once_per_list
def _declared(tools: tuple[Tool, ...]) -> Toolbox:
    return Toolbox(tools)


class TextReader:
    """The stage from text to events.

    `tools` are those of the request: with an empty list calls stay text, and an undeclared name is
    not a call. `None` means that the tools are unknown, so every name is accepted.

    `reasoning_open` is True if the prompt opened reasoning, or the end of the prompt itself. With
    `thoughts=False` reasoning stays in the text with its marks; with `None` it is omitted.
    """

    def __init__(
        self,
        tools: Offered,
        *,
        dialect: str | ReadStream = "auto",
        model: str = "",
        reasoning_open: bool | str = False,
        thoughts: bool | None = True,
        ids: Ids | None = None,
    ) -> None:
        self._draft = Draft(ids or Ids())
        known = None if tools is None else as_tools(tools)
        self._writer = EventWriter(self._draft, _toolbox(known), thoughts=thoughts)
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        reader = reader_of(dialect, model) if isinstance(dialect, str) else dialect
        if isinstance(reasoning_open, str) and isinstance(reader, Continues):
            self._writer.cursor.feed(reader.begun(reasoning_open))
        self._run: Generator[None] = reader(self._writer, thinking=reasoning_open is True)
        self._running = True
        self._model = model

    def feed(self, piece: str | bytes, /) -> list[Event]:
        """Read the next piece; bytes are UTF-8 and may end inside a character."""
        events = [] if self._draft.started else self._start()
        text = self._bytes.decode(piece) if isinstance(piece, bytes) else piece
        writer = self._writer
        marks, cursor = writer.running_text, writer.cursor
        if (  # nearly every piece of nearly every answer goes on with running text
            marks is not None
            and cursor.at == len(cursor.text)
            and marks.beginning.search(text) is None
        ):
            writer.text(text)
        else:
            writer.cursor.feed(text)
            self._go_on()
        if events:
            events += writer.events
        else:
            events = writer.events
        writer.events = []
        return events

    def close(self, reason: StopReason = "end") -> list[Event]:
        """Return the remaining events; `reason` is the stop reason of the upstream."""
        self._writer.cut_short = reason in _CUT
        return self._start() + self.flush() + self._draft.finish(reason)

    @property
    def in_call(self) -> bool:
        """Whether a call is being written."""
        return self._writer.in_call

    def flush(self) -> list[Event]:
        """Return the remaining events of the text without ending the answer."""
        self._writer.cursor.feed(self._bytes.decode(b"", final=True))
        self._writer.cursor.end()
        self._go_on()
        self._writer.finish()
        return self._writer.drain()

    def _start(self) -> list[Event]:
        return self._draft.start(model=self._model)

    def _go_on(self) -> None:
        if self._running:
            self._running = next(self._run, _DONE) is not _DONE


_DONE = object()
_CUT = frozenset({"length", "context_overflow", "refusal", "error", "aborted"})


def reader_of(dialect: str, model: str = "", ignored: frozenset[str] = frozenset()) -> ReadStream:
    """Return the reader of a dialect; `auto` uses the model's dialect and recognises all others.

    `auto` does not recognise `ignored` dialects.
    """
    if dialect == "auto":
        return auto_reader(for_model(model) or "", ignored)
    return load(dialect).reader


def read_text(
    text: str | bytes,
    tools: Offered,
    *,
    dialect: str = "auto",
    model: str = "",
    reasoning_open: bool | str = False,
    thoughts: bool | None = True,
) -> Reading:
    """Return the text, reasoning and calls in `text`."""
    reader = TextReader(
        tools, dialect=dialect, model=model, reasoning_open=reasoning_open, thoughts=thoughts
    )
    message = collect(reader.feed(text) + reader.close())
    return Reading(message.text, message.thinking, message.calls)

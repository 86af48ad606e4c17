"""Text in, events out: what a model wrote becomes words, thoughts and calls."""

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
from toolbridge.core.tools import as_tools
from toolbridge.dialects import for_model, load
from toolbridge.dialects.auto import auto_reader
from toolbridge.dialects.dialect import ReadStream
from toolbridge.dialects.engines.event_writer import EventWriter
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.toolbox import Toolbox

Offered: TypeAlias = Sequence[Tool | Mapping[str, Json]] | None
"""Tools in our words or in any API's shape; None where nobody knows them."""


class Reading(msgspec.Struct, frozen=True):
    """What a text says."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


class TextReader:
    """The stage from text to events.

    `tools` are those of the request: without any, calls stay text, and a name that nobody offered
    is none. `None` says that the tools are unknown: every name is then taken as it stands.

    `reasoning_open` tells whether the prompt has opened a thought, or how the prompt ended. With
    `thoughts=False` thoughts stay text, marks and all; with `None` they are left out.
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
        self._draft = Draft(ids)
        known = None if tools is None else as_tools(tools)
        self._scribe = EventWriter(self._draft, Toolbox(known), thoughts=thoughts)
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        reader = reader_of(dialect, model) if isinstance(dialect, str) else dialect
        if isinstance(reasoning_open, str) and isinstance(reader, MarkReader):
            self._scribe.cursor.feed(reader.begun(reasoning_open))
        self._run: Generator[None] = reader(self._scribe, thinking=reasoning_open is True)
        self._running = True
        self._model = model

    def feed(self, piece: str | bytes, /) -> list[Event]:
        """Read on. Bytes are UTF-8, and may be cut inside of a character."""
        events = [] if self._draft.started else self._start()
        text = self._bytes.decode(piece) if isinstance(piece, bytes) else piece
        if self._scribe.passes(text):  # nearly every piece of nearly every answer
            self._scribe.text(text)
        else:
            self._scribe.cursor.feed(text)
            self._go_on()
        return events + self._scribe.drain()

    def close(self, reason: StopReason = "end") -> list[Event]:
        """Return what the end makes certain; `reason` is what the upstream says of it."""
        self._scribe.cut_short = reason in _CUT
        return self._start() + self.flush() + self._draft.finish(reason)

    @property
    def in_call(self) -> bool:
        """Whether a call is being written."""
        return self._scribe.in_call

    def flush(self) -> list[Event]:
        """End the text without ending the answer."""
        self._scribe.cursor.feed(self._bytes.decode(b"", final=True))
        self._scribe.cursor.end()
        self._go_on()
        self._scribe.finish()
        return self._scribe.drain()

    def _start(self) -> list[Event]:
        return self._draft.start(model=self._model)

    def _go_on(self) -> None:
        if self._running:
            self._running = next(self._run, _DONE) is not _DONE


_DONE = object()
_CUT = frozenset({"length", "context_overflow", "refusal", "error", "aborted"})


def reader_of(dialect: str, model: str = "", ignored: frozenset[str] = frozenset()) -> ReadStream:
    """Return what reads a dialect; `auto` goes by the model, then by what is seen.

    `auto` does not look for `ignored` dialects.
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
    """Return what a whole text says."""
    reader = TextReader(
        tools, dialect=dialect, model=model, reasoning_open=reasoning_open, thoughts=thoughts
    )
    message = collect(reader.feed(text) + reader.close())
    return Reading(message.text, message.thinking, message.calls)

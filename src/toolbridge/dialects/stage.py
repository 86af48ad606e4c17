"""Events in, events out: behind the decoder of a model that writes its calls as text.

Text goes through a reader. Thoughts pass as they are, byte for byte, because they may be signed; only
when the answer ends in one that holds the mark of a call is the rest of it read as text, for then the
server took the call for a part of the thought. Calls that came as calls pass untouched.
"""

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.fold import settled_end
from toolbridge.core.ids import Ids
from toolbridge.core.messages import StopReason, Text, Thinking, Tool
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.reader import TextReader, reader_of
from toolbridge.wire.tags import Marks

_Thoughts: TypeAlias = ev.ThinkingStart | ev.ThinkingDelta | ev.ThinkingEnd
_Numbered: TypeAlias = (
    ev.TextStart | ev.TextDelta | ev.TextEnd | _Thoughts
    | ev.CallStart | ev.CallDelta | ev.CallEnd | ev.PartAdded | ev.Healed
)  # fmt: skip
_OUTER = (
    ev.Started, ev.UsageReported, ev.LogprobsReported, ev.Lost, ev.Alternative,
    ev.Finished, ev.Failed,
)  # fmt: skip
"""What a reader says of an answer, and not of a block: here the answer is another's."""
_CALL_EDGES = (ev.CallStart, ev.CallEnd)
_NO_MARKS = Marks(())


class DialectStage:
    """Finds calls and thoughts in the text of an answer."""

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        dialect: str = "auto",
        model: str = "",
        reasoning_open: bool = False,
        ids: Ids | None = None,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self._tools = tools
        self._read_stream = reader_of(dialect, model, ignored)
        self._model = model
        self._reasoning_open = reasoning_open
        self._ids = ids or Ids("dialects")
        self._numbers = _Numbers()
        self._reader: TextReader | None = None
        self._readers = 0
        self._text = Text("")
        """The text that has ended, with what is attached to it."""
        reader = self._read_stream
        marks = reader.draft_marks if tools and isinstance(reader, MarkReader) else _NO_MARKS
        self._thought = _Thought(marks)
        self._called: dict[str, str] = {}
        """The ids of calls, as they were written and as they were said."""

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        if isinstance(event, ev.TextDelta):  # nearly every event of nearly every answer
            reader = self._reader or self._open_reader()
            return self._said(reader.feed(event.text))
        if isinstance(event, ev.Finished):
            said = self._finished(event.reason)
            return [*said, settled_end(event, calls=bool(self._called))]
        if isinstance(event, ev.Failed):
            return [*self._failed(), event]
        return self._read(event)

    def close(self) -> list[ev.Event]:
        return []

    def _read(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.TextStart():
                return self._release() + self._end_reader()
            case ev.TextEnd(_, text):
                self._text = text  # whether its last call is whole depends on what follows
                return []
            case ev.ThinkingStart():
                before = self._end_reader() + self._release()
                return before + self._numbers.give("", self._thought.feed(event))
            case ev.ThinkingDelta() | ev.ThinkingEnd():
                return self._numbers.give("", self._thought.feed(event))
            case ev.CallStart() | ev.CallDelta() | ev.CallEnd() | ev.PartAdded() | ev.Healed():
                return self._pass(event)
            case _:
                return [event]

    def _pass(self, event: _Numbered) -> list[ev.Event]:
        if isinstance(event, ev.CallStart):
            self._called[event.id] = event.id
        return self._release() + self._end_reader() + self._numbers.give("", [event])

    def _open_reader(self) -> TextReader:
        if self._reader is None:
            self._readers += 1
            self._reader = TextReader(
                self._tools,
                dialect=self._read_stream,
                model=self._model,
                reasoning_open=self._reasoning_open and self._readers == 1,
                ids=self._ids,
            )
        return self._reader

    def _end_reader(self, reason: StopReason = "end") -> list[ev.Event]:
        if self._reader is None:
            return []
        said = _attached(self._said(self._reader.close(reason)), self._text)
        self._reader, self._text = None, Text("")
        return said

    def _said(self, events: list[ev.Event]) -> list[ev.Event]:
        if len(events) == 1 and isinstance(events[0], ev.DELTAS):
            index = events[0].index
            if self._numbers.given.get((self._readers, index)) == index:
                return events
            return self._numbers.give(self._readers, [events[0]])
        kept = [
            self._with_own_id(event) if isinstance(event, _CALL_EDGES) else event
            for event in events
            if not isinstance(event, _OUTER)
        ]
        return self._numbers.give(self._readers, kept)

    def _with_own_id(self, event: ev.CallStart | ev.CallEnd) -> ev.CallStart | ev.CallEnd:
        """Replace the id of a call that this answer has used before."""
        if isinstance(event, ev.CallStart):
            id = self._ids.call() if event.id in self._called else event.id
            self._called[event.id] = id
            return msgspec.structs.replace(event, id=id)
        call = msgspec.structs.replace(event.call, id=self._called[event.call.id])
        return msgspec.structs.replace(event, call=call)

    def _release(self) -> list[ev.Event]:
        """Say what was held of a thought: something follows it, so that it was one."""
        return self._numbers.give("", self._thought.release())

    def _finished(self, reason: StopReason) -> list[ev.Event]:
        said = self._end_reader(reason)
        ended, rest = self._thought.give_up()
        said += self._numbers.give("", ended)
        if rest:
            said += self._said(self._open_reader().feed(rest)) + self._end_reader(reason)
        return said

    def _failed(self) -> list[ev.Event]:
        """Leave half a call open; say any other text that was held."""
        said = self._release()
        if self._reader is not None and not self._reader.in_call:
            said += self._end_reader()
        return said


class _Numbers:
    """Gives the blocks of several sources one row of indices."""

    def __init__(self) -> None:
        self.given: dict[tuple[Hashable, int], int] = {}

    def give(self, source: Hashable, events: Sequence[_Numbered]) -> list[ev.Event]:
        given = self.given
        said: list[ev.Event] = []
        for event in events:
            index = given.setdefault((source, event.index), len(given))
            same = index == event.index
            said.append(event if same else msgspec.structs.replace(event, index=index))
        return said


class _Thought:
    """A thought that passes through, held from the first mark of a call on."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._start: ev.ThinkingStart | None = None
        """The start, as long as nothing was said."""
        self._index = 0
        self._field = ""
        self._text = ""
        self._said: list[str] = []
        self._held: list[str] | None = None
        self._end: ev.ThinkingEnd | None = None

    def feed(self, event: _Thoughts) -> list[_Numbered]:
        match event:
            case ev.ThinkingStart(index, field):
                self._start, self._index, self._said = event, index, []
                self._field = field
                return []
            case ev.ThinkingDelta(_, piece):
                return self._write(piece)
            case ev.ThinkingEnd(_, thinking):
                self._end = event
                if self._held is not None and not thinking.opaque:
                    return []
                return self.release()

    def _write(self, piece: str) -> list[_Numbered]:
        if self._held is not None:
            self._held.append(piece)
            return []
        self._text += piece
        begin, end = self._marks.find(self._text, 0, ended=False)
        said, rest = self._text[:begin], self._text[begin:]
        self._held = [rest] if end > begin else None
        self._text = "" if end > begin else rest
        return self._say(said)

    def _say(self, text: str) -> list[_Numbered]:
        if not text:
            return []
        self._said.append(text)
        return [*self._opened(), ev.ThinkingDelta(self._index, text)]

    def _opened(self) -> list[_Numbered]:
        start, self._start = self._start, None
        return [] if start is None else [start]

    def release(self) -> list[_Numbered]:
        """Return what is left of a thought that has ended."""
        end, self._end = self._end, None
        if end is None:
            return []
        said = self._say(self._text + "".join(self._held or ()))
        self._text, self._held = "", None
        if end.thinking.opaque:
            said += self._opened()
        return said if self._start is not None else [*said, end]

    def give_up(self) -> tuple[list[_Numbered], str]:
        """Return the end of the thought before a mark, and the text from the mark on."""
        if self._held is None:
            return self.release(), ""
        rest, self._held, self._end = "".join(self._held), None, None
        if self._start is not None:
            return [], rest
        return [ev.ThinkingEnd(self._index, Thinking("".join(self._said), field=self._field))], rest


def _attached(said: list[ev.Event], text: Text) -> list[ev.Event]:
    """Give what is attached to a text to its last words."""
    if not text.citations and not text.opaque:
        return said
    for at in reversed(range(len(said))):
        event = said[at]
        if isinstance(event, ev.TextEnd):
            whole = Text(event.text.text, citations=text.citations, opaque=text.opaque)
            return [*said[:at], ev.TextEnd(event.index, whole), *said[at + 1 :]]
    return said

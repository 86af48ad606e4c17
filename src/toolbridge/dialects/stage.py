"""The stage that finds calls and reasoning in the text of an answer; it follows the decoder.

Text is read in a dialect. Reasoning passes unchanged, because it may be signed; only if the answer ends
with reasoning that contains the mark of a call, the rest is read as text: the server's parser took the
call for reasoning (vllm#42400). Calls that the server parsed itself pass unchanged.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.fold import settled_end, whole_text
from toolbridge.core.ids import Ids
from toolbridge.core.json import dumps
from toolbridge.core.messages import (
    Call,
    HealingReport,
    Problem,
    Step,
    StopReason,
    Text,
    Thinking,
    Tool,
)
from toolbridge.dialects.dialect import ReadStream
from toolbridge.dialects.engines.mark_reader import MarkReader
from toolbridge.dialects.engines.markless_text import MarklessText
from toolbridge.dialects.reader import Reading, TextReader, reader_of
from toolbridge.wire.tags import SPACE, Marks

_Thoughts: TypeAlias = ev.ThinkingStart | ev.ThinkingDelta | ev.ThinkingEnd
_Numbered: TypeAlias = (
    ev.TextStart | ev.TextDelta | ev.TextEnd | _Thoughts
    | ev.CallStart | ev.CallDelta | ev.CallEnd | ev.PartAdded | ev.Healed
)  # fmt: skip
_OUTER = (
    ev.Started, ev.UsageReported, ev.LogprobsReported, ev.Lost, ev.Alternative,
    ev.Finished, ev.Failed,
)  # fmt: skip
"""Events about the whole answer: they come from the decoder, so those of a reader are dropped."""
_PASSED = frozenset(
    {ev.Started, ev.UsageReported, ev.LogprobsReported, ev.Lost, ev.Alternative}
)  # fmt: skip
"""Those of them that change nothing here."""
_CALL_EDGES = (ev.CallStart, ev.CallEnd)
Rescue: TypeAlias = Callable[[Problem], tuple[Reading, Step] | None]
"""Reads the model's answer from the error of an engine that could not parse it; `policy/rescue.py`."""
_NO_MARKS = Marks(())


class DialectStage:
    """Finds calls and reasoning in the text of an answer."""

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        dialect: str | ReadStream = "auto",
        model: str = "",
        reasoning_open: bool = False,
        ids: Ids | None = None,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self._tools = tools
        if isinstance(dialect, str):
            dialect = reader_of(dialect, model, ignored)
        self._read_stream = dialect
        self._model = model
        self._reasoning_open = reasoning_open
        self._ids = ids or Ids("dialects")
        self._numbers = _Numbers()
        self._reader: TextReader | None = None
        self._plain: MarklessText | None = None
        """The open text, until it has a mark that a reader must read."""
        self._readers = 0
        self._text = Text("")
        """The text block that ended last, with its citations and opaque tokens."""
        reader = self._read_stream
        marks = reader.draft_marks if tools and isinstance(reader, MarkReader) else _NO_MARKS
        self._thought = _Thought(marks)
        self._marked = reader if isinstance(reader, MarkReader) and not reasoning_open else None
        self._called: dict[str, str] = {}
        """The ids of calls: as read from the text, and as emitted."""
        self.rescue: Rescue | None = None
        """Set where an answer may be read from an engine's error."""
        self._in_call = False
        """Whether a call that the server parsed is open."""

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        if isinstance(event, ev.TextDelta):  # nearly every event of nearly every answer
            if self._reader is None and (written := self._feed_plain(event.text)) is not None:
                return written
            reader = self._reader or self._open_reader()
            events = reader.feed(event.text)
            if len(events) == 1 and isinstance(delta := events[0], ev.TextDelta):
                index = delta.index
                if self._numbers.given.get((self._readers, index)) == index:
                    return events
            return self._from_reader(events)
        if isinstance(event, ev.Finished):
            out = self._finished(event.reason)
            return [*out, settled_end(event, calls=bool(self._called))]
        if isinstance(event, ev.Failed):
            return self._failed(event)
        return [event] if isinstance(event, _OUTER) else self._read(event)

    def feed_all(self, events: list[ev.Event]) -> list[ev.Event]:
        """Feed the events of one delivery."""
        if not self._numbers.given and self._is_markless(whole_text(events)):
            return events
        out: list[ev.Event] = []
        at = 0
        while at < len(events):
            event, plain = events[at], self._plain
            if plain is not None and type(event) is ev.TextDelta:
                if count := plain.take_run(events, at):
                    if count == len(events):
                        return events
                    out += events[at : at + count]
                    at += count
                    continue
                written = plain.feed(event.text)
                out += self.feed(event) if written is None else written
            elif type(event) in _PASSED:
                out.append(event)
            elif type(event) is ev.TextEnd:
                self._text = event.text  # as in `_read`
            else:
                out += self.feed(event)
            at += 1
        return out

    def close(self) -> list[ev.Event]:
        return []

    def _is_markless(self, text: str) -> bool:
        """Whether a whole answer of this text is written as it came (`MarklessText`)."""
        reader = self._marked
        if reader is None or not text or text[-1] in SPACE:
            return False
        return bool(reader.begins_as_text(text)) and reader.marks.beginning.search(text) is None

    def _feed_plain(self, text: str) -> list[ev.Event] | None:
        """Return the events of text without a mark; None if a reader must read it."""
        if self._plain is None:
            if self._marked is None:
                return None
            self._readers += 1
            given = self._numbers.given
            index = given.setdefault((self._readers, 0), len(given))
            self._plain = MarklessText(self._marked, index)
        return self._plain.feed(text)

    def _read(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.TextStart():
                if self._reader is None and self._plain is None and self._thought.idle:
                    return []
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
        self._in_call = isinstance(event, ev.CallStart | ev.CallDelta)
        return self._release() + self._end_reader() + self._numbers.give("", [event])

    def _leave_plain(self) -> MarklessText | None:
        """Forget the open text without marks, and its index if it has written nothing."""
        plain, self._plain = self._plain, None
        if plain is not None and plain.is_empty:
            del self._numbers.given[(self._readers, 0)]
        return plain

    def _open_reader(self) -> TextReader:
        if self._reader is None:
            plain = self._leave_plain()
            self._readers += plain is None
            self._reader = TextReader(
                self._tools,
                dialect=self._read_stream,
                model=self._model,
                reasoning_open=self._reasoning_open and self._readers == 1,
                ids=self._ids,
            )
            if plain is not None:
                self._reader.feed(plain.text)  # its events are written already
        return self._reader

    def _end_reader(self, reason: StopReason = "end") -> list[ev.Event]:
        if self._plain is not None:
            ended = self._plain.close(self._text)
            if ended is not None:
                self._ids.skip()  # the id that a reader draws for its events
                self._leave_plain()
                self._text = Text("")
                return ended
            self._open_reader()
        if self._reader is None:
            return []
        out = _attached(self._from_reader(self._reader.close(reason)), self._text)
        self._reader, self._text = None, Text("")
        return out

    def _from_reader(self, events: list[ev.Event]) -> list[ev.Event]:
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
        """Replace an id that was used before in this answer."""
        if isinstance(event, ev.CallStart):
            id = self._ids.call() if event.id in self._called else event.id
            self._called[event.id] = id
            return msgspec.structs.replace(event, id=id)
        call = msgspec.structs.replace(event.call, id=self._called[event.call.id])
        return msgspec.structs.replace(event, call=call)

    def _release(self) -> list[ev.Event]:
        """Emit held reasoning: something follows it, so it contained no call."""
        return self._numbers.give("", self._thought.release())

    def _finished(self, reason: StopReason) -> list[ev.Event]:
        out = self._end_reader(reason)
        if self._thought.idle:
            return out
        ended, rest = self._thought.give_up()
        out += self._numbers.give("", ended)
        if rest:
            out += self._from_reader(self._open_reader().feed(rest)) + self._end_reader(reason)
        return out

    def _failed(self, event: ev.Failed) -> list[ev.Event]:
        """Emit held text, and the answer that the error contains; a call that was cut stays open."""
        out = self._release()
        in_call = self._in_call
        if self._plain is not None:
            in_call = False
            out += self._end_reader()
        elif self._reader is not None:
            in_call = self._reader.in_call
            out += [] if in_call else self._end_reader()
        found = self.rescue(event.problem) if self.rescue and not in_call else None
        if found is None:
            return [*out, event]
        out += self._write_rescued(*found)
        return [*out, settled_end(ev.Finished("end"), calls=bool(self._called))]

    def _write_rescued(self, found: Reading, step: Step) -> list[ev.Event]:
        self._readers += 1
        draft = Draft(self._ids)
        events = draft.think(found.reasoning) + draft.text(found.content) + draft.end()
        for key, call in enumerate(found.calls):
            events += draft.call(key, name=call.name)
            events += draft.arguments(key, call.raw or dumps(call.arguments)) + draft.end(key)
        reports: list[ev.Event] = []
        for event in events:
            if isinstance(event, ev.CallEnd | ev.TextEnd):
                call = event.call if isinstance(event, ev.CallEnd) else Call("", "")
                report = HealingReport(call.id, call.name, step.level, (step,))
                reports.append(ev.Healed(event.index, report))
        return self._from_reader(events + reports)


class _Numbers:
    """Numbers the blocks of several sources in one sequence."""

    def __init__(self) -> None:
        self.given: dict[tuple[Hashable, int], int] = {}

    def give(self, source: Hashable, events: Sequence[_Numbered]) -> list[ev.Event]:
        given = self.given
        out: list[ev.Event] = []
        for event in events:
            index = given.setdefault((source, event.index), len(given))
            same = index == event.index
            out.append(event if same else msgspec.structs.replace(event, index=index))
        return out


class _Thought:
    """Passes reasoning on, and holds it from the first mark of a call."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._start: ev.ThinkingStart | None = None
        """The start event, until the first text is emitted."""
        self._index = 0
        self._field = ""
        self._text = ""
        self._emitted: list[str] = []
        self._held: list[str] | None = None
        self._end: ev.ThinkingEnd | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is held."""
        return self._end is None and self._held is None

    def feed(self, event: _Thoughts) -> list[_Numbered]:
        match event:
            case ev.ThinkingStart(index, field):
                self._start, self._index, self._emitted = event, index, []
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
        out, rest = self._text[:begin], self._text[begin:]
        self._held = [rest] if end > begin else None
        self._text = "" if end > begin else rest
        return self._emit(out)

    def _emit(self, text: str) -> list[_Numbered]:
        if not text:
            return []
        self._emitted.append(text)
        return [*self._opened(), ev.ThinkingDelta(self._index, text)]

    def _opened(self) -> list[_Numbered]:
        start, self._start = self._start, None
        return [] if start is None else [start]

    def release(self) -> list[_Numbered]:
        """Return the held events of reasoning that has ended."""
        end, self._end = self._end, None
        if end is None:
            return []
        out = self._emit(self._text + "".join(self._held or ()))
        self._text, self._held = "", None
        if end.thinking.opaque:
            out += self._opened()
        return out if self._start is not None else [*out, end]

    def give_up(self) -> tuple[list[_Numbered], str]:
        """Return the end of the reasoning before the mark, and the text from the mark on."""
        if self._held is None:
            return self.release(), ""
        rest, self._held, self._end = "".join(self._held), None, None
        if self._start is not None:
            return [], rest
        return [
            ev.ThinkingEnd(self._index, Thinking("".join(self._emitted), field=self._field))
        ], rest


def _attached(out: list[ev.Event], text: Text) -> list[ev.Event]:
    """Move citations and opaque tokens to the last text block."""
    if not text.citations and not text.opaque:
        return out
    for at in reversed(range(len(out))):
        event = out[at]
        if isinstance(event, ev.TextEnd):
            whole = Text(event.text.text, citations=text.citations, opaque=text.opaque)
            return [*out[:at], ev.TextEnd(event.index, whole), *out[at + 1 :]]
    return out

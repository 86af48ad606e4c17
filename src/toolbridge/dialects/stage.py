"""
Events in, events out: behind the decoder of a model that writes its calls as text.

Text goes through a reader. Thoughts pass as they are, byte for byte, because they may be signed; only
when the answer ends in one that holds the mark of a call is the rest of it read as text, for then the
server took the call for a part of the thought. Calls that came as calls pass untouched.
"""

from collections.abc import Hashable, Sequence

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.fold import Fold
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Text, Thinking, Tool
from toolbridge.dialects import for_model, load, names
from toolbridge.dialects.reader import TextReader
from toolbridge.wire.tags import Marks


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
    ) -> None:
        self._tools = tools
        self._dialect = dialect
        self._model = model
        self._reasoning_open = reasoning_open
        self._ids = ids or Ids("dialects")
        self._fold = Fold()
        self._numbers = _Numbers()
        self._reader: TextReader | None = None
        self._readers = 0
        self._thought = _Thought(_marks(dialect, model) if tools else Marks(()))
        self._used: set[str] = set()

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        said = self._read(event)
        for one in said:
            self._fold.feed(one)
        return said

    def close(self) -> list[ev.Event]:
        return []

    def _read(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.TextDelta(_, piece):
                return self._released() + self._from_reader(self._open_reader().feed(piece))
            case ev.TextStart():
                return self._released()
            case ev.TextEnd(_, text):
                return self._end_text(text)
            case ev.ThinkingStart() | ev.ThinkingDelta() | ev.ThinkingEnd():
                return self._think(event)
            case ev.Finished():
                return self._finish(event)
            case ev.Failed():
                return self._fail(event)
            case _:
                return self._pass(event)

    def _pass(self, event: ev.Event) -> list[ev.Event]:
        if isinstance(event, ev.Started | ev.UsageReported):
            return [event]
        if isinstance(event, ev.CallStart):
            self._used.add(event.id)
        return self._released() + self._end_reader() + self._numbers.give("native", [event])

    def _open_reader(self) -> TextReader:
        if self._reader is None:
            self._readers += 1
            self._reader = TextReader(
                self._tools,
                dialect=self._dialect,
                model=self._model,
                reasoning_open=self._reasoning_open and self._readers == 1,
                ids=self._ids,
            )
        return self._reader

    def _from_reader(self, events: list[ev.Event]) -> list[ev.Event]:
        kept = [event for event in events if not isinstance(event, ev.Started | ev.Finished)]
        return self._numbers.give(self._readers, [self._fresh(event) for event in kept])

    def _fresh(self, event: ev.Event) -> ev.Event:
        """A call id that the answer has used before is replaced."""
        if isinstance(event, ev.CallStart):
            id = self._ids.call() if event.id in self._used else event.id
            self._used.add(id)
            self._renamed = (event.id, id)
            return msgspec.structs.replace(event, id=id)
        if isinstance(event, ev.CallEnd) and self._renamed[0] == event.call.id:
            call = msgspec.structs.replace(event.call, id=self._renamed[1])
            return msgspec.structs.replace(event, call=call)
        return event

    def _end_reader(self) -> list[ev.Event]:
        if self._reader is None:
            return []
        said = self._from_reader(self._reader.close())
        self._reader = None
        return said

    def _end_text(self, text: Text) -> list[ev.Event]:
        """End a text; what is attached to it goes to its last words."""
        said = self._end_reader()
        if not text.citations and not text.opaque:
            return said
        for at in range(len(said) - 1, -1, -1):
            event = said[at]
            if isinstance(event, ev.TextEnd):
                whole = Text(event.text.text, citations=text.citations, opaque=text.opaque)
                said[at] = ev.TextEnd(event.index, whole)
                break
        return said

    def _think(
        self, event: ev.ThinkingStart | ev.ThinkingDelta | ev.ThinkingEnd
    ) -> list[ev.Event]:
        said = self._end_reader() if isinstance(event, ev.ThinkingStart) else []
        if isinstance(event, ev.ThinkingStart):
            said += self._released()
        return said + self._numbers.give("native", self._thought.feed(event))

    def _released(self) -> list[ev.Event]:
        """Say what was held of a thought: something follows it, so that it was one."""
        return self._numbers.give("native", self._thought.release())

    def _finish(self, event: ev.Finished) -> list[ev.Event]:
        said = self._end_reader()
        ended, rest = self._thought.give_up()
        said += self._numbers.give("native", ended)
        if rest:
            said += self._from_reader(self._open_reader().feed(rest)) + self._end_reader()
        for one in said:
            self._fold.feed(one)
        return [*_once(said), self._fold.refinish(event)]

    def _fail(self, event: ev.Failed) -> list[ev.Event]:
        """Half a call stays open; any other text that was held is said."""
        said = self._released()
        if self._reader is not None and not self._reader.in_call:
            said += self._end_reader()
        for one in said:
            self._fold.feed(one)
        return [*_once(said), self._fold.refinish(event)]

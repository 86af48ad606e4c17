"""Finds `<think>` at the beginning of answers to requests without tools.

A server without a reasoning parser returns the model's reasoning in the text. Scanning the whole text
would slow down every answer; reasoning is at the beginning, so only the first characters are checked.
"""

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.ids import Ids
from toolbridge.dialects.stage import DialectStage, Rescue

_OPENERS = ("<think>", "<thinking>")
_BEFORE = frozenset(
    {ev.Started, ev.TextStart, ev.UsageReported, ev.LogprobsReported, ev.Lost, ev.Alternative}
)
"""Events that may come before the first text."""


class ThoughtGate(msgspec.Struct, eq=False):
    """A stage that passes events through, or sends them to the `think_tags` dialect."""

    _ids: Ids | None = None
    _held: list[ev.Event] = []
    _begun: str = ""
    _decided: bool = False
    open: bool = False
    """Whether the answer has no reasoning at its beginning: all events pass unchanged."""
    _stage: DialectStage | None = None
    rescue: Rescue | None = None
    """As in `DialectStage`."""

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        if self._decided:
            return [event] if self._stage is None else self._stage.feed(event)
        self._held.append(event)
        match event:
            case ev.TextDelta(_, text):
                self._begun = (self._begun + text).lstrip()
                if self._begun and self._begun[0] != "<":  # nearly every answer
                    return self._decide(thought=False)
                may_be = any(o.startswith(self._begun[: len(o)]) for o in _OPENERS)
                is_one = self._begun.startswith(_OPENERS)
                return self._decide(thought=is_one) if is_one or not may_be else []
            case _ if type(event) in _BEFORE:
                return []
            case ev.Failed(problem) if problem.generated:
                return self._decide(thought=True)
            case _:
                return self._decide(thought=False)

    def feed_all(self, events: list[ev.Event]) -> list[ev.Event]:
        """Feed the events of one delivery; once the gate is open, they pass as they are."""
        if not self._begun and not self._decided and self._is_prose(events):
            held, self._held = self._held, []
            self._decided = self.open = True
            return held + events
        out: list[ev.Event] = []
        for at, event in enumerate(events):
            if self.open:
                return out + events[at:]
            out += self.feed(event)
        return out

    def close(self) -> list[ev.Event]:
        return []

    @staticmethod
    def _is_prose(events: list[ev.Event]) -> bool:
        """Whether the first text is no tag, as of nearly every answer."""
        for event in events:
            if isinstance(event, ev.TextDelta):
                text = event.text.lstrip()
                return bool(text) and text[0] != "<"
            if type(event) not in _BEFORE:
                return False
        return False

    def _decide(self, *, thought: bool) -> list[ev.Event]:
        self._decided = True
        held, self._held = self._held, []
        if not thought:
            self.open = True
            return held
        self._stage = DialectStage((), dialect="think_tags", ids=self._ids)
        self._stage.rescue = self.rescue
        return [out for event in held for out in self._stage.feed(event)]

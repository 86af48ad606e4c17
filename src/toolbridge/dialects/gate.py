"""Thoughts in tags, for answers without tools: looked for where the answer begins, and only there.

A server without a parser hands on what the model wrote, `<think>` and all. Reading every word for
that would cost every answer; a thought stands at the beginning, so the first characters decide.
"""

from toolbridge.core import events as ev
from toolbridge.core.ids import Ids
from toolbridge.dialects.stage import DialectStage

_OPENERS = ("<think>", "<thinking>")


class ThoughtGate:
    def __init__(self, ids: Ids | None = None) -> None:
        self._ids = ids
        self._held: list[ev.Event] = []
        self._begun = ""
        self._decided = False
        self.open = False
        """Whether no thought was found, so that all the rest passes as it is."""
        self._stage: DialectStage | None = None

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
            case (
                ev.Started()
                | ev.TextStart()
                | ev.UsageReported()
                | ev.LogprobsReported()
                | ev.Lost()
                | ev.Alternative()
            ):
                return []
            case _:
                return self._decide(thought=False)

    def close(self) -> list[ev.Event]:
        return []

    def _decide(self, *, thought: bool) -> list[ev.Event]:
        self._decided = True
        held, self._held = self._held, []
        if not thought:
            self.open = True
            return held
        self._stage = DialectStage((), dialect="think_tags", ids=self._ids)
        return [said for event in held for said in self._stage.feed(event)]

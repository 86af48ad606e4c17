"""The stages of an answer between decoder and encoder, joined as one.

`translate.answer_stages` chooses them for a request; the router feeds them with the events of its
provider.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.ids import SeenIds
from toolbridge.core.stage import Stage, StageChain
from toolbridge.dialects.gate import ThoughtGate
from toolbridge.healing import Healer
from toolbridge.policy.stops import StopScanner


class AnswerStages(msgspec.Struct, eq=False):
    """The stages of one answer between decoder and encoder."""

    stages: Sequence[Stage[ev.Event, ev.Event]]
    stops: Sequence[str]
    id: str = ""
    """The id of the answer. Claude Code merges turns with the same id, and servers repeat ids."""
    seen: SeenIds | None = None
    """Set where client and provider have the same API: an id that is new is kept."""
    gate: ThoughtGate | None = None
    """The only stage, where that is a `ThoughtGate`: once open, it passes everything."""
    done: bool = False
    """Whether the answer has ended at a stop sequence, so that the upstream need not be read."""
    on_finish: Callable[[ev.Finished, bool], None] | None = None
    """Called with the end of a complete answer, and whether a call in it stayed invalid."""
    _scanner: StopScanner | None = None
    _healer: Healer | None = None
    _chain: StageChain[ev.Event] | None = None
    """The stages, where they are more than a gate."""

    def __post_init__(self) -> None:
        stages = self.stages
        last = stages[-1] if stages else None
        if isinstance(last, Healer):
            self._healer = last
        if self.stops:
            self._scanner = StopScanner(self.stops)
            stages = [*stages, self._scanner]
        elif isinstance(last, ThoughtGate) and len(stages) == 1:
            self.gate = last
            return
        self._chain = StageChain(stages)

    @property
    def is_transparent(self) -> bool:
        """Whether `close` returns nothing: a gate holds nothing at the end."""
        return self._chain is None

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        return self.feed_all([event])

    def feed_all(self, events: list[ev.Event]) -> list[ev.Event]:
        """Feed the events of one delivery; return the events that they complete."""
        given = events
        if self._chain is not None:
            for feed_all in self._chain.feeds:
                events = feed_all(events)
        elif self.gate is not None and not self.gate.open:
            events = self.gate.feed_all(events)
        if self._scanner is not None:
            self.done = self._scanner.done
            if self.done:
                events = _with_usage(events, given)
        if events and self.on_finish and isinstance(end := events[-1], ev.Finished):
            self.on_finish(end, self._healer is not None and self._healer.broken)
        if events and isinstance(events[0], ev.Started):
            return self._identified(events[0], events)
        return events

    def close(self) -> list[ev.Event]:
        return [] if self._chain is None else self._chain.close()

    def _identified(self, first: ev.Started, events: list[ev.Event]) -> list[ev.Event]:
        """Return the first events of the answer with its own id."""
        if not self.id:
            return events
        if self.seen is not None and first.id and self.seen.is_new(first.id):
            self.id = first.id
        identified = events.copy()
        identified[0] = msgspec.structs.replace(first, id=self.id)
        return identified


def _with_usage(events: list[ev.Event], given: list[ev.Event]) -> list[ev.Event]:
    """Return the end of an answer with the usage that came in the same delivery after the cut.

    A whole body has it, with the tokens that the provider charges for.
    """
    usage = next((one for one in reversed(given) if isinstance(one, ev.UsageReported)), None)
    if usage is None or not events or not isinstance(events[-1], ev.Finished) or usage in events:
        return events
    return [*events[:-1], usage, events[-1]]


class EveryChoice:
    """Passes each of several answers to one request through its own stages."""

    def __init__(self, stages_of: Callable[[int], Stage[ev.Event, ev.Event]]) -> None:
        self._stages_of = stages_of
        self._main = stages_of(0)
        self._others: dict[int, Stage[ev.Event, ev.Event]] = {}

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        if isinstance(event, ev.Alternative):
            return self._feed_other(event)
        return self._main.feed(event)

    def close(self) -> list[ev.Event]:
        return self._main.close()

    def _feed_other(self, event: ev.Alternative) -> list[ev.Event]:
        choice = event.choice
        if choice not in self._others:
            self._others[choice] = self._stages_of(choice)
        return [ev.Alternative(choice, one) for one in self._others[choice].feed(event.event)]


class Renamer:
    """A stage that restores the client's names of tools in calls."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        match event:
            case ev.CallStart(index, id, name):
                return [ev.CallStart(index, id, self._names.get(name, name))]
            case ev.CallEnd(index, call):
                name = self._names.get(call.name, call.name)
                return [ev.CallEnd(index, msgspec.structs.replace(call, name=name))]
            case _:
                return [event]

    def close(self) -> list[ev.Event]:
        return []

"""The stage that heals the calls of an answer.

A call is held until a part of it may be sent (streaming.py). A call whose JSON is cut off waits for the
stop reason: at the token limit it is dropped, or ended as invalid if a part was sent already. It is
never completed, because half a command must not run.
"""

from collections.abc import Sequence

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.fold import OWN_ENDS, cut_report, settled_end, whole_text
from toolbridge.core.json import JsonObject, dumps
from toolbridge.core.messages import Call, HealingReport, Step, Tool
from toolbridge.core.shared_tools import once_per_list
from toolbridge.healing.ladder import Ladder
from toolbridge.healing.names import heal_name
from toolbridge.healing.schema import Schema
from toolbridge.healing.steps import CUT_BY_LIMIT, CUT_OFF, TOOL_NAME
from toolbridge.healing.streaming import HealedArguments, StreamHealing

_FREEFORM: JsonObject = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


_UNCHANGED = frozenset(
    {
        ev.Started, ev.TextDelta, ev.TextEnd, ev.ThinkingDelta, ev.ThinkingEnd, ev.UsageReported,
        ev.LogprobsReported, ev.Lost, ev.Alternative,
    }
)  # fmt: skip
"""The events that pass as they are while every block keeps its index."""


class _Block:
    """One block of the answer; its events are held until all blocks before it are decided."""

    __slots__ = (
        "call", "decided", "dropped", "flow", "held", "out_index", "outcome", "start", "steps",
    )  # fmt: skip

    def __init__(self, flow: StreamHealing | None = None) -> None:
        self.flow = flow
        self.start: ev.CallStart | None = None
        self.call: Call | None = None
        self.outcome: HealedArguments | None = None
        self.steps: tuple[Step, ...] = ()
        self.decided = flow is None
        self.dropped = False
        self.out_index = -1
        """Its index in the output, or -1 while it is held."""
        self.held: list[ev.Event] = []


class Healer:
    """Heals every call of an answer. Without tools it changes nothing."""

    def __init__(self, tools: Sequence[Tool], *, level: int = 2) -> None:
        listed = tools if isinstance(tools, tuple) else tuple(tools)
        self._schemas = _schemas_of(listed)
        self._rules: dict[str, Schema] = {}
        """The schemas of the tools that were called."""
        self._freeform = _freeform(listed)
        self._level = level
        self._blocks: dict[int, _Block] = {}
        self._order: list[_Block] = []
        self._decided = 0
        self._next_index = 0
        self._out: list[ev.Event] = []
        self._straight = True
        """Whether there was no call yet, and every block has kept its index."""
        self.broken = False
        """Whether the arguments of a call could not be healed."""

    def feed(self, event: ev.Event, /) -> list[ev.Event]:
        return self.feed_all([event])

    def feed_all(self, events: list[ev.Event]) -> list[ev.Event]:
        """Feed the events of one delivery."""
        if not self._schemas or (self._straight and _UNCHANGED.issuperset(map(type, events))):
            return events
        if self._straight and not self._next_index and whole_text(events):
            return events
        for event in events:
            if self._straight and type(event) in _UNCHANGED:
                self._out.append(event)
            elif not (self._straight and self._pass(event)):
                self._take(event)
        out, self._out = self._out, []
        return out

    def _pass(self, event: ev.Event) -> bool:
        """Write an event before the first call as it is; return whether that was possible."""
        match event:
            case ev.TextStart(index) | ev.ThinkingStart(index) | ev.PartAdded(index):
                self._straight = index == self._next_index
                self._next_index += self._straight
            case ev.Finished():
                event = settled_end(event, calls=False)
            case _:
                self._straight = type(event) in _UNCHANGED or isinstance(event, ev.Failed)
        if self._straight:
            self._out.append(event)
            return True
        for number in range(self._next_index):  # all blocks so far are decided
            block = self._add(number, _Block())
            block.out_index = number
        self._decided = self._next_index
        return False

    def close(self) -> list[ev.Event]:
        return []

    def _take(self, event: ev.Event) -> None:
        match event:
            case ev.Started() | ev.UsageReported():  # of every answer, as the text after it
                self._out.append(event)
            case ev.TextStart(index) | ev.ThinkingStart(index) | ev.PartAdded(index):
                block = self._add(index, _Block())
                self._decide(block)
                self._write(block, event)
            case ev.TextDelta() | ev.TextEnd() | ev.ThinkingDelta() | ev.ThinkingEnd():
                self._write(self._blocks[event.index], event)
            case ev.CallStart():
                self._start_call(event)
            case ev.CallDelta(index, json):
                self._write_call(self._blocks[index], json)
            case ev.CallEnd(index, call):
                self._end_call(self._blocks[index], call)
            case ev.Finished() | ev.Failed():
                self._finish(event)
            case ev.LogprobsReported() | ev.Lost() | ev.Alternative():
                self._out.append(event)
            case ev.Healed():
                self._write(self._blocks[event.index], event)

    # Calls.

    def _start_call(self, event: ev.CallStart) -> None:
        name = event.name
        if self._level >= 2:
            name = heal_name(name, self._schemas.keys()) or name
        rules = self._rules.setdefault(name, Schema(self._schemas.get(name, {})))
        # Only a freeform tool, whose input is one text, accepts plain text as its arguments.
        flow = StreamHealing(rules, level=self._level, words=name in self._freeform)
        block = self._add(event.index, _Block(flow))
        if name != event.name:
            block.steps = (Step(TOOL_NAME, 2, event.name, name),)
        block.start = ev.CallStart(event.index, event.id, name)

    def _write_call(self, block: _Block, json: str) -> None:
        if block.flow is None:
            return
        text = block.flow.feed(json)
        if text:
            self._begin(block)
            self._write(block, ev.CallDelta(0, text))

    def _begin(self, block: _Block) -> None:
        """Emit the start of a call."""
        if block.start is not None and not block.decided:
            self._write(block, block.start)
            self._decide(block)

    def _end_call(self, block: _Block, call: Call) -> None:
        if block.flow is None or block.start is None:
            return
        block.call = msgspec.structs.replace(call, name=block.start.name)
        if not block.flow.text and (call.raw or call.arguments):
            self._write_call(block, call.raw or dumps(call.arguments))
        block.outcome = block.flow.finish()
        if not block.outcome.cut and not block.outcome.open:
            self._settle(block, block.outcome)

    def _settle(self, block: _Block, outcome: HealedArguments) -> None:
        """Emit the rest of a call and its end."""
        if block.call is None or block.flow is None:
            return
        self._begin(block)
        steps = block.steps + outcome.steps
        if steps:
            level = max(step.level for step in steps)
            report = HealingReport(block.call.id, block.call.name, level, steps)
            self._write(block, ev.Healed(0, report))
        self.broken = self.broken or outcome.hopeless
        if outcome.hopeless and block.flow.sent:
            # The beginning stays, so the rest follows as the model wrote it: the client's parser
            # refuses the text, and nothing of it is missing.
            if unsent := block.flow.unsent:
                self._write(block, ev.CallDelta(0, unsent))
            broken = msgspec.structs.replace(block.call, arguments={}, raw=block.flow.text)
            self._write(block, ev.CallEnd(0, broken))
        else:
            if outcome.rest:
                self._write(block, ev.CallDelta(0, outcome.rest))
            whole = msgspec.structs.replace(block.call, arguments=outcome.arguments, raw="")
            self._write(block, ev.CallEnd(0, whole))
        block.outcome = None
        block.call = None

    # The end.

    def _finish(self, event: ev.Finished | ev.Failed) -> None:
        for block in self._order:
            if block.flow is None:
                continue
            if block.outcome is not None:
                self._settle_last(block, block.outcome, event)
            elif not block.decided:
                self._drop(block)
        if isinstance(event, ev.Finished):
            calls = any(block.flow is not None and not block.dropped for block in self._order)
            event = settled_end(event, calls=calls)
        self._out.append(event)

    def _settle_last(
        self, block: _Block, outcome: HealedArguments, event: ev.Finished | ev.Failed
    ) -> None:
        """Complete, end as invalid, or drop a call whose JSON has no end."""
        if isinstance(event, ev.Failed):
            if not block.decided:
                self._drop(block)
        elif event.reason in OWN_ENDS and not outcome.cut:
            self._settle(block, outcome)
        elif event.reason in OWN_ENDS or block.decided:
            broken = self._broken(block, outcome, limit=event.reason == "length")
            self._settle(block, broken)
        else:
            self._report_cut(block)
            self._drop(block)

    def _report_cut(self, block: _Block) -> None:
        """Report a call that is left out of the answer: it has no block any more."""
        if block.call is not None and block.flow is not None:
            cut = msgspec.structs.replace(block.call, raw=block.flow.text)
            self._out.append(ev.Healed(ev.NO_BLOCK, cut_report(cut)))

    def _broken(self, block: _Block, outcome: HealedArguments, *, limit: bool) -> HealedArguments:
        text = block.flow.text if block.flow else ""
        raw: JsonObject = {"raw": text}
        step = Step(CUT_BY_LIMIT if limit else CUT_OFF, 0, text[-60:], "")
        return HealedArguments(raw, dumps(raw), (*outcome.steps, step), hopeless=True)

    # Order: indices have no gaps, so a block is emitted once all blocks before it are decided.

    def _add(self, index: int, block: _Block) -> _Block:
        self._blocks[index] = block
        self._order.append(block)
        return block

    def _decide(self, block: _Block, *, dropped: bool = False) -> None:
        block.decided = True
        block.dropped = dropped
        while self._decided < len(self._order) and self._order[self._decided].decided:
            first = self._order[self._decided]
            self._decided += 1
            if first.dropped:
                continue
            first.out_index = self._next_index
            self._next_index += 1
            held, first.held = first.held, []
            for event in held:
                self._write(first, event)

    def _drop(self, block: _Block) -> None:
        block.held.clear()
        self._decide(block, dropped=True)

    def _write(self, block: _Block, event: ev.Event) -> None:
        if block.dropped:
            return
        if block.out_index < 0:
            block.held.append(event)
        else:
            self._out.append(msgspec.structs.replace(event, index=block.out_index))


@once_per_list
def _schemas_of(tools: tuple[Tool, ...]) -> dict[str, JsonObject]:
    return {tool.name: schema_of(tool) for tool in tools}


@once_per_list
def _freeform(tools: tuple[Tool, ...]) -> frozenset[str]:
    return frozenset(tool.name for tool in tools if tool.freeform)


def schema_of(tool: Tool) -> JsonObject:
    """Return the schema for calls of `tool`; empty for a tool that its API runs."""
    if tool.freeform:
        return tool.schema or _FREEFORM
    return {} if tool.hosted is not None else tool.schema


def heal_past_call(call: Call, tool: Tool) -> Call | None:
    """Return a past call with healed arguments, or None if nothing changes."""
    rules = Schema(schema_of(tool))
    if call.raw:
        healing = Ladder(call.raw, rules, 2, words=tool.freeform).heal_text()
    else:
        healing = Ladder("", rules, 2, words=tool.freeform).heal_object(call.arguments)
    if not healing.steps or healing.hopeless or healing.cut or not healing.value:
        return None
    return msgspec.structs.replace(call, arguments=healing.value, raw="")

"""The open frames of a stream: from their first character to their accepted value."""

from toolbridge.core.json import Json, dumps
from toolbridge.core.messages import Step
from toolbridge.healing import heal_name
from toolbridge.healing.steps import FOUND_IN_TEXT, RESERVED_KEY
from toolbridge.structured.builtin import DIAGNOSTICS, shown_schema
from toolbridge.structured.contract import Contract, OfferedTool
from toolbridge.structured.decisions import BREAKS_OFF, counts, explain, reasons, stand_in
from toolbridge.structured.events import Change, Event, RunError
from toolbridge.structured.finding import maybe_found
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.frame import Frame, FrameEvents, SettledValue
from toolbridge.structured.pieces import FrameClosed, FrameOpened
from toolbridge.structured.read_value import arguments_schema, read_value
from toolbridge.structured.schemas import compile_schema
from toolbridge.structured.sentinels import Kind

FAILED = "schema_repair_failed"
_MAX_TEXT = 32_768
"""Characters of text that are kept to fill a result that the model never writes."""
_ANYTHING = compile_schema({"type": "object"})


class OpenFrames:
    """Opens, writes, settles and degrades frames; returns the events for the client."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self.offers: dict[str, OfferedTool] = {offer.name: offer for offer in contract.tools}
        self._arguments = {
            name: compile_schema(arguments_schema(offer.parameters))
            for name, offer in self.offers.items()
        }
        self._frames: dict[str, Frame] = {}
        """Frames being written, without those of unknown schemas."""
        self._native: dict[int, Frame] = {}
        """Objects among them that are native calls, by block index."""
        self._text: list[str] = []
        self._room = _MAX_TEXT
        self.degraded = 0

    def add_text(self, text: str) -> None:
        """Keep text for a result that the model never writes."""
        if self._room:
            self._text.append(text[: self._room])
            self._room -= len(self._text[-1])

    # A frame begins.

    def open(self, opened: FrameOpened) -> list[Event]:
        if opened.kind == "tool":
            self._frames[opened.id] = self.tool_frame(opened.id, opened.name)
            return []
        if opened.id in self._frames:  # a native call
            return self._begin(self._frames[opened.id])
        name, wrong = self._schema_of(opened)
        unknown: list[Event] = [RunError("unknown_schema", wrong, opened.id)] if wrong else []
        if not name:
            return unknown
        frame = self._frames[opened.id] = self.new_frame(opened.kind, opened.id, name)
        return unknown + self._begin(frame)

    def open_native(self, index: int, id: str, schema: str, call_id: str) -> None:
        """Register an object that is written as a native call."""
        frame = self.new_frame("object", id, schema)
        frame.call_id = call_id
        self._frames[id] = self._native[index] = frame

    def new_frame(self, kind: Kind, id: str, name: str) -> Frame:
        emitter = FrameEvents(kind, id, name, hold=self._contract.hold_results)
        full = self._contract.schemas.validator(name)
        shown = shown_schema(full.schema)
        if shown is full.schema:
            return Frame(kind, id, name, full, emitter=emitter)
        return Frame(kind, id, name, compile_schema(shown), full=full, emitter=emitter)

    def tool_frame(self, id: str, name: str, call_id: str = "") -> Frame:
        name = heal_name(name, self.offers) or name
        return Frame("tool", id, name, self._arguments.get(name, _ANYTHING), call_id=call_id)

    def missing_result(self, id: str) -> Frame:
        """Return a frame for a result that the model never started."""
        frame = self.new_frame("result", id, self._contract.result)
        frame.missing = True
        frame.flaws = (Flaw(".", "is missing"),)
        return frame

    def _schema_of(self, opened: FrameOpened) -> tuple[str, str]:
        """Return the schema of a frame, and an error message if the frame names an unknown one."""
        wrong = f"there is no schema {opened.name} in this stream"
        if opened.kind == "result":  # a stream has only one result schema
            result = self._contract.result
            return result, "" if heal_name(opened.name, [result]) else wrong
        name = heal_name(opened.name, self._contract.objects)
        return name or "", "" if name else wrong

    def _begin(self, frame: Frame) -> list[Event]:
        return frame.emitter.begin() if frame.emitter else []

    # It is written.

    def write(self, id: str, chunk: str) -> list[Event]:
        frame = self._frames.get(id)
        if frame is None or frame.emitter is None:
            return []
        frame.chunks.append(chunk)
        return frame.emitter.chunk(chunk)

    def note_healing(self, index: int, steps: tuple[Step, ...]) -> None:
        """Record the healing steps of a native call."""
        if index in self._native:
            self._native[index].steps = tuple(Change(step.what, step.level) for step in steps)

    def end_native(self, index: int) -> Frame | None:
        return self._native.pop(index, None)

    def close(self, closed: FrameClosed) -> Frame | None:
        """Return the frame that ended; None for an unknown schema."""
        return self._frames.pop(closed.id, None)

    def reopen(self, frame: Frame) -> None:
        """Reopen a frame whose repair was interrupted, so that `abandon` ends it."""
        self._frames[frame.id] = frame

    # It ends.

    def settle(self, frame: Frame, closed: FrameClosed) -> SettledValue | None:
        """Return the frame's value; None if it is rejected, with the reasons in the frame."""
        read = read_value(closed.body, frame.compiled, arguments=frame.kind == "tool")
        if not counts(closed, read):
            frame.reject(closed.body, reasons(read))
            return None
        value, removed = own_members(frame, read.value)
        changes = read.changes + removed
        written = dumps(value) if changes else closed.body
        steps = changes or frame.steps
        return SettledValue(value, "healed" if steps else "valid", written, steps)

    def find(self, frame: Frame, text: str) -> SettledValue | None:
        """Return the value of a missing result that was found in the text of an answer."""
        value = maybe_found(text, frame.compiled, self._contract.limits)
        if value is None:
            return None
        own, _ = own_members(frame, value)
        return SettledValue(own, "healed", dumps(own), (Change(FOUND_IN_TEXT, 1),))

    def end(self, frame: Frame, settled: SettledValue) -> list[Event]:
        """Return the end events of an object or a result."""
        if frame.emitter is None:
            return []
        events: list[Event] = []
        if frame.missing:
            events += frame.emitter.begin() + frame.emitter.chunk(settled.written)
        return events + frame.emitter.end(settled)

    def degrade(self, frame: Frame, code: str, flaws: tuple[Flaw, ...]) -> list[Event]:
        """Return the end events of a degraded frame."""
        self.degraded += 1
        text = "".join(self._text) if frame.missing else ""
        found = stand_in(frame, self._contract.limits, code, flaws, text)
        events: list[Event] = []
        if code == FAILED or found is None:
            why = "" if found else "; no small value fits the schema"
            events.append(RunError(FAILED, f"{explain(flaws)}{why}", frame.id))
        value, invented = (found.value, found.invented) if found else (None, (".",))
        settled = SettledValue(value, "degraded", dumps(value), invented=invented)
        return events + self.end(frame, settled)

    def abandon(self, code: str) -> list[Event]:
        """Return the end events of all frames that are still open."""
        frames, self._frames = self._frames, {}
        self._native.clear()
        events: list[Event] = []
        for frame in frames.values():
            if frame.emitter is not None:
                frame.drafts.append("".join(frame.chunks))
                events += self.degrade(frame, code, (BREAKS_OFF,))
        return events


def own_members(frame: Frame, value: Json) -> tuple[Json, tuple[Change, ...]]:
    """Return `value` without the members that only toolbridge writes, and the changes."""
    if frame.full is None or not isinstance(value, dict) or DIAGNOSTICS not in value:
        return value, ()
    own: Json = {name: member for name, member in value.items() if name != DIAGNOSTICS}
    return own, (Change(RESERVED_KEY, 1, f".{DIAGNOSTICS}"),)

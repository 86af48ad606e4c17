"""The frames of a stream while they are not settled, and what the client is told of each."""

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
_MAX_SAID = 32_768
"""Characters of text that are kept for a result that never comes."""
_ANYTHING = compile_schema({"type": "object"})


class OpenFrames:
    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self.offers: dict[str, OfferedTool] = {offer.name: offer for offer in contract.tools}
        self._arguments = {
            name: compile_schema(arguments_schema(offer.parameters))
            for name, offer in self.offers.items()
        }
        self._frames: dict[str, Frame] = {}
        """Frames that are being written; those of unknown schemas are not among them."""
        self._native: dict[int, Frame] = {}
        """Objects among them that are native calls, by the index of their block."""
        self._said: list[str] = []
        self._room = _MAX_SAID
        self.degraded = 0

    def hear(self, text: str) -> None:
        """Keep what was said, for a result that never comes."""
        if self._room:
            self._said.append(text[: self._room])
            self._room -= len(self._said[-1])

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
        """Take note of an object that is written as a native call."""
        frame = self.new_frame("object", id, schema)
        frame.call_id = call_id
        self._frames[id] = self._native[index] = frame

    def new_frame(self, kind: Kind, id: str, name: str) -> Frame:
        telling = FrameEvents(kind, id, name, hold=self._contract.hold_results)
        full = self._contract.schemas.validator(name)
        shown = shown_schema(full.schema)
        if shown is full.schema:
            return Frame(kind, id, name, full, telling=telling)
        return Frame(kind, id, name, compile_schema(shown), full=full, telling=telling)

    def tool_frame(self, id: str, name: str, call_id: str = "") -> Frame:
        name = heal_name(name, self.offers) or name
        return Frame("tool", id, name, self._arguments.get(name, _ANYTHING), call_id=call_id)

    def missing_result(self, id: str) -> Frame:
        """Return the frame of a result that the model never began."""
        frame = self.new_frame("result", id, self._contract.result)
        frame.missing = True
        frame.flaws = (Flaw(".", "is missing"),)
        return frame

    def _schema_of(self, opened: FrameOpened) -> tuple[str, str]:
        """Return the schema that a frame means, and what is wrong with the name it gives."""
        wrong = f"there is no schema {opened.name} in this stream"
        if opened.kind == "result":  # only one can be meant
            result = self._contract.result
            return result, "" if heal_name(opened.name, [result]) else wrong
        name = heal_name(opened.name, self._contract.objects)
        return name or "", "" if name else wrong

    def _begin(self, frame: Frame) -> list[Event]:
        return frame.telling.begin() if frame.telling else []

    # It is written.

    def write(self, id: str, chunk: str) -> list[Event]:
        frame = self._frames.get(id)
        if frame is None or frame.telling is None:
            return []
        frame.chunks.append(chunk)
        return frame.telling.chunk(chunk)

    def note_healing(self, index: int, steps: tuple[Step, ...]) -> None:
        """Note that what a native call says was healed on its way here."""
        if index in self._native:
            self._native[index].steps = tuple(Change(step.what, step.level) for step in steps)

    def end_native(self, index: int) -> Frame | None:
        return self._native.pop(index, None)

    def close(self, closed: FrameClosed) -> Frame | None:
        """Return the frame that ended; None for one that nobody waits for."""
        return self._frames.pop(closed.id, None)

    def reopen(self, frame: Frame) -> None:
        """Take back a frame that was to be repaired, so that `abandon` ends it."""
        self._frames[frame.id] = frame

    # It ends.

    def settle(self, frame: Frame, closed: FrameClosed) -> SettledValue | None:
        """Return the frame's value; None when it does not count, and the frame says why."""
        mended = read_value(closed.body, frame.compiled, arguments=frame.kind == "tool")
        if not counts(closed, mended):
            frame.reject(closed.body, reasons(mended))
            return None
        value, removed = own_members(frame, mended.value)
        changes = mended.changes + removed
        written = dumps(value) if changes else closed.body
        steps = changes or frame.steps
        return SettledValue(value, "healed" if steps else "valid", written, steps)

    def find(self, frame: Frame, said: str) -> SettledValue | None:
        """Return the value of a missing result that stands in the text of an answer."""
        value = maybe_found(said, frame.compiled, self._contract.limits)
        if value is None:
            return None
        own, _ = own_members(frame, value)
        return SettledValue(own, "healed", dumps(own), (Change(FOUND_IN_TEXT, 1),))

    def end(self, frame: Frame, settled: SettledValue) -> list[Event]:
        """Tell the end of an object or a result."""
        if frame.telling is None:
            return []
        told: list[Event] = []
        if frame.missing:
            told += frame.telling.begin() + frame.telling.chunk(settled.written)
        return told + frame.telling.end(settled)

    def degrade(self, frame: Frame, code: str, flaws: tuple[Flaw, ...]) -> list[Event]:
        """Tell the end of a frame whose value is not the model's."""
        self.degraded += 1
        said = "".join(self._said) if frame.missing else ""
        found = stand_in(frame, self._contract.limits, code, flaws, said)
        told: list[Event] = []
        if code == FAILED or found is None:
            why = "" if found else "; no small value fits the schema"
            told.append(RunError(FAILED, f"{explain(flaws)}{why}", frame.id))
        value, invented = (found.value, found.invented) if found else (None, (".",))
        settled = SettledValue(value, "degraded", dumps(value), invented=invented)
        return told + self.end(frame, settled)

    def abandon(self, code: str) -> list[Event]:
        """Tell the ends of all frames that are still being written."""
        frames, self._frames = self._frames, {}
        self._native.clear()
        told: list[Event] = []
        for frame in frames.values():
            if frame.telling is not None:
                frame.drafts.append("".join(frame.chunks))
                told += self.degrade(frame, code, (BREAKS_OFF,))
        return told


def own_members(frame: Frame, value: Json) -> tuple[Json, tuple[Change, ...]]:
    """Return `value` without what only toolbridge writes, and what was removed."""
    if frame.full is None or not isinstance(value, dict) or DIAGNOSTICS not in value:
        return value, ()
    own: Json = {name: member for name, member in value.items() if name != DIAGNOSTICS}
    return own, (Change(RESERVED_KEY, 1, f".{DIAGNOSTICS}"),)

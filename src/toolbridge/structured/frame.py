"""The state of one frame, and the events that the client gets for it."""

import msgspec

from toolbridge.core.json import Json, dumps
from toolbridge.structured import events as ev
from toolbridge.structured.events import Change, Event, Status
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.schemas import Compiled
from toolbridge.structured.sentinels import Kind


class SettledValue(msgspec.Struct, frozen=True):
    """The accepted value of a frame."""

    value: Json
    status: Status = "valid"
    written: str = ""
    """The value as text: the model's own text if that is valid."""
    steps: tuple[Change, ...] = ()
    invented: tuple[str, ...] = ()


class FrameEvents:
    """Emits the events of one object or result. With `hold`, chunks wait until the value is valid."""

    def __init__(self, kind: Kind, id: str, schema: str, *, hold: bool) -> None:
        self._is_result = kind == "result"
        self._id = id
        self._schema = schema
        self._hold = hold
        self._size = 0

    def begin(self) -> list[Event]:
        if self._is_result:
            return [ev.ResultBegin(self._id, self._schema)]
        return [ev.JsonBegin(self._id, self._schema)]

    def chunk(self, text: str) -> list[Event]:
        return [] if self._hold else self._chunk(text)

    def end(self, settled: SettledValue) -> list[Event]:
        """Return the end event, with the value if it differs from the chunks."""
        chunks = self._chunk(dumps(settled.value)) if self._hold else []
        kind = ev.ResultEnd if self._is_result else ev.JsonEnd
        if settled.status == "valid":
            return [*chunks, kind(self._id, self._size)]
        how = (settled.status, settled.value, settled.steps, settled.invented)
        return [*chunks, kind(self._id, self._size, *how)]

    def _chunk(self, text: str) -> list[Event]:
        self._size += len(text if text.isascii() else text.encode("utf-8", "surrogatepass"))
        kind = ev.ResultDelta if self._is_result else ev.JsonDelta
        return [kind(self._id, text)]


class Frame(msgspec.Struct):
    """A frame without an accepted value yet: it is being written or repaired."""

    kind: Kind
    id: str
    name: str
    """The name of the schema or of the tool."""
    compiled: Compiled
    """The schema that the model was given."""
    full: Compiled | None = None
    """The schema with the members that only toolbridge writes, if it has any."""
    emitter: FrameEvents | None = None
    """None for a tool: the client gets no event before its arguments are complete."""
    call_id: str = ""
    """The model's id of a native call."""
    missing: bool = False
    """Whether it stands for a result that the model never started."""
    steps: tuple[Change, ...] = ()
    chunks: list[str] = msgspec.field(default_factory=list)
    """The chunks of an object or a result so far."""
    written: str = ""
    drafts: list[str] = msgspec.field(default_factory=list)
    """Texts that the model wrote for it and that were rejected."""
    flaws: tuple[Flaw, ...] = ()
    tries: int = 0

    def reject(self, written: str, flaws: tuple[Flaw, ...]) -> None:
        """Record a text of the model that was rejected, and why."""
        self.written, self.flaws = written, flaws
        self.drafts.append(written)

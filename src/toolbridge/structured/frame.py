"""A frame as the client is told it: its beginning, its chunks and its end."""

import msgspec

from toolbridge.core.json import Json, dumps
from toolbridge.structured import events as ev
from toolbridge.structured.events import Change, Event, Status
from toolbridge.structured.flaws import Flaw
from toolbridge.structured.schemas import Compiled
from toolbridge.structured.sentinels import Kind


class SettledValue(msgspec.Struct, frozen=True):
    """The value of a frame that counts."""

    value: Json
    status: Status = "valid"
    written: str = ""
    """The value as text: what the model wrote where that is valid."""
    steps: tuple[Change, ...] = ()
    invented: tuple[str, ...] = ()


class FrameEvents:
    """One object or result. With `hold`, nothing of it is told until its value is settled."""

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
        """Tell how it ended, and the value where that is not what the chunks say."""
        chunks = self._chunk(dumps(settled.value)) if self._hold else []
        kind = ev.ResultEnd if self._is_result else ev.JsonEnd
        if settled.status == "valid":
            return [*chunks, kind(self._id, self._size)]
        how = (settled.status, settled.value, settled.steps, settled.invented)
        return [*chunks, kind(self._id, self._size, *how)]

    def _chunk(self, text: str) -> list[Event]:
        self._size += len(text.encode("utf-8", "surrogatepass"))
        kind = ev.ResultDelta if self._is_result else ev.JsonDelta
        return [kind(self._id, text)]


class Frame(msgspec.Struct):
    """A frame that is not settled: it is being written, or mended."""

    kind: Kind
    id: str
    name: str
    """Of the schema, or of the tool."""
    compiled: Compiled
    """The schema as the model sees it."""
    full: Compiled | None = None
    """The schema with the members that toolbridge writes, where it has such."""
    telling: FrameEvents | None = None
    """None for a tool, of which nothing is told before its arguments are whole."""
    call_id: str = ""
    """The model's own id for it, where it is a native call."""
    missing: bool = False
    """Whether it is a result that the model never began."""
    steps: tuple[Change, ...] = ()
    chunks: list[str] = msgspec.field(default_factory=list)
    """What was told of an object or a result so far."""
    written: str = ""
    drafts: list[str] = msgspec.field(default_factory=list)
    """What the model wrote for it that did not count."""
    flaws: tuple[Flaw, ...] = ()
    tries: int = 0

    def reject(self, written: str, flaws: tuple[Flaw, ...]) -> None:
        """Note what the model wrote, and why that does not count."""
        self.written, self.flaws = written, flaws
        self.drafts.append(written)

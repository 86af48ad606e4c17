"""What a client of a structured stream is told, and how it stands on the wire.

Every `…Begin` has its `…End` with the same id, `RunDone` comes once and last, and an `End` without a
status says that the chunks before it are JSON of the named schema.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, dump_bytes

Status: TypeAlias = Literal["valid", "healed", "repaired", "degraded"]


class Change(msgspec.Struct, frozen=True):
    """One thing that healing changed: what, how bold it was, and where."""

    what: str
    level: int
    path: str = ""


class RunTextDelta(msgspec.Struct, frozen=True):
    text: str


class JsonBegin(msgspec.Struct, frozen=True):
    id: str
    schema: str


class JsonDelta(msgspec.Struct, frozen=True):
    id: str
    chunk: str


class JsonEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of an object; `value` is set when the chunks are not what counts."""

    id: str
    length: int
    """Bytes of UTF-8 in the chunks."""
    status: Status = "valid"
    value: Json | msgspec.UnsetType = msgspec.UNSET
    steps: tuple[Change, ...] = ()
    invented: tuple[str, ...] = ()
    """In a degraded value: the paths of members that are not the model's; `.` for all of it."""


class RunToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool is about to run; the arguments are whole and valid."""

    id: str
    name: str
    args: JsonObject
    client: bool = False
    """Whether the caller has to run it."""


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the tool gave back; a failure is `{"error": {"code", "message"}}`."""

    id: str
    name: str
    result: Json
    cached: bool = False


class ResultBegin(msgspec.Struct, frozen=True):
    id: str
    schema: str


class ResultDelta(msgspec.Struct, frozen=True):
    id: str
    chunk: str


class ResultEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """As `JsonEnd`, for the final result."""

    id: str
    length: int
    status: Status = "valid"
    value: Json | msgspec.UnsetType = msgspec.UNSET
    steps: tuple[Change, ...] = ()
    invented: tuple[str, ...] = ()


class RunError(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something went wrong. The stream goes on unless `RunDone` follows."""

    code: str
    message: str
    id: str = ""


class RunDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end: nothing follows."""

    usage: JsonObject | None = None
    """The tokens of all model calls, added up; absent where no provider counted any."""


class Ping(msgspec.Struct, frozen=True):
    """A sign of life."""


Event: TypeAlias = (
    RunTextDelta
    | JsonBegin
    | JsonDelta
    | JsonEnd
    | RunToolCall
    | ToolResult
    | ResultBegin
    | ResultDelta
    | ResultEnd
    | RunError
    | RunDone
    | Ping
)

NAMES: dict[str, type[Event]] = {
    "text.delta": RunTextDelta,
    "json.begin": JsonBegin,
    "json.delta": JsonDelta,
    "json.end": JsonEnd,
    "tool.call": RunToolCall,
    "tool.result": ToolResult,
    "result.begin": ResultBegin,
    "result.delta": ResultDelta,
    "result.end": ResultEnd,
    "error": RunError,
    "done": RunDone,
    "ping": Ping,
}
"""The events by the names that they have on the wire."""

# The public names in `toolbridge.stream_events`, which is a namespace of its own: as on the wire.
TextDelta, ToolCall, Error, Done = RunTextDelta, RunToolCall, RunError, RunDone

_NAME_OF: dict[type[Event], str] = {kind: name for name, kind in NAMES.items()}


def name_of(event: Event) -> str:
    """Return the name of `event` on the wire: `json.begin`."""
    return _NAME_OF[type(event)]


def data_of(event: Event) -> JsonObject:
    """Return what `event` says, without what it need not say."""
    data: JsonObject = msgspec.to_builtins(event)
    if isinstance(event, JsonEnd | ResultEnd):  # JSON has no tuples
        for name, items in (("steps", event.steps), ("invented", event.invented)):
            if items:
                data[name] = [msgspec.to_builtins(item) for item in items]
    return data


def encode_sse(event: Event, id: str = "") -> bytes:
    """Return `event` as a server-sent event, with an id unless it is empty."""
    head = f"id: {id}\n" if id else ""
    return f"{head}event: {name_of(event)}\ndata: ".encode() + dump_bytes(event) + b"\n\n"


def event_from(name: str, data: object) -> Event:
    """Return the event that stood on the wire; raise `MalformedRequest` when it is none of ours."""
    kind = NAMES.get(name)
    if kind is None:
        raise MalformedRequest(f"there is no event {name!r}", where="event")
    try:
        event: Event = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise MalformedRequest(str(error), where=name) from None
    return event

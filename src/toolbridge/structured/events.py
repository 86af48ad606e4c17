"""The events of a structured stream, and their form on the wire.

Every `…Begin` has an `…End` with the same id, and `RunDone` comes once, as the last event. An `…End`
without a status means that the chunks before it are JSON that is valid for the named schema.
"""

from typing import Literal, TypeAlias

import msgspec

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject

Status: TypeAlias = Literal["valid", "healed", "repaired", "degraded"]


class Change(msgspec.Struct, frozen=True):
    """One change that healing made: what, at which level, and at which path."""

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
    """The end of an object; `value` is set if the valid value differs from the chunks."""

    id: str
    length: int
    """Bytes of UTF-8 in the chunks."""
    status: Status = "valid"
    value: Json | msgspec.UnsetType = msgspec.UNSET
    steps: tuple[Change, ...] = ()
    invented: tuple[str, ...] = ()
    """In a degraded value: paths of members that the model did not write; `.` for the whole."""


class RunToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool is about to run; the arguments are whole and valid."""

    id: str
    name: str
    args: JsonObject
    client: bool = False
    """Whether the caller has to run it."""


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool's result; a failure is `{"error": {"code", "message"}}`."""

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
    """An error. The stream continues unless `RunDone` follows."""

    code: str
    message: str
    id: str = ""


class RunDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last event of a stream."""

    usage: JsonObject | None = None
    """The sum of the tokens of all model calls; None if no provider reported any."""


class Ping(msgspec.Struct, frozen=True):
    """A keep-alive."""


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
"""The event classes by their names on the wire."""

# Public names of `toolbridge.stream_events`: named as on the wire.
TextDelta, ToolCall, Error, Done = RunTextDelta, RunToolCall, RunError, RunDone

_NAME_OF: dict[type[Event], str] = {kind: name for name, kind in NAMES.items()}
_ENDS = (JsonEnd, ResultEnd)


def name_of(event: Event) -> str:
    """Return the name of `event` on the wire: `json.begin`."""
    return _NAME_OF[type(event)]


def data_of(event: Event) -> JsonObject:
    """Return the data of `event`, without members that have their default."""
    data: JsonObject = msgspec.to_builtins(event)
    if isinstance(event, _ENDS):  # JSON has no tuples
        for name, items in (("steps", event.steps), ("invented", event.invented)):
            if items:
                data[name] = [msgspec.to_builtins(item) for item in items]
    return data


def event_from(name: str, data: object) -> Event:
    """Return the event with this name and data; raise `MalformedRequest` if it is unknown."""
    kind = NAMES.get(name)
    if kind is None:
        raise MalformedRequest(f"there is no event {name!r}", where="event")
    try:
        event: Event = msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise MalformedRequest(str(error), where=name) from None
    return event

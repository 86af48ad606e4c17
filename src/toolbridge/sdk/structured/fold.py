"""Folds the events of a structured stream, and checks their order."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from toolbridge.core.errors import MalformedRequest
from toolbridge.core.json import Json, JsonObject, loads
from toolbridge.sdk.structured.errors import StreamDegraded, StreamFailed, broken, failure_in
from toolbridge.structured import events as fe

Read: TypeAlias = Callable[[Json], object]


class ReceivedEvent(msgspec.Struct, frozen=True):
    """One event as received from a connection."""

    name: str
    data: bytes
    id: str = ""


class StreamPiece(msgspec.Struct, frozen=True):
    """A part of an object or of the result, for `on_json` and `on_result`."""

    id: str
    schema: str = ""
    delta: str = ""
    end: bool = False
    value: object = None
    """At the end: the valid value, converted to the type given for its schema."""
    status: fe.Status = "valid"
    invented: tuple[str, ...] = ()
    """At the end: the members of a degraded value that the model did not write."""


class ReceivedObject(msgspec.Struct, frozen=True):
    """A complete object."""

    id: str
    schema: str
    value: object
    status: fe.Status = "valid"
    invented: tuple[str, ...] = ()
    """The members of a degraded value that the model did not write; `.` for the whole."""


class UsedTool(msgspec.Struct, frozen=True):
    """A tool call and its result."""

    id: str
    name: str
    args: JsonObject
    result: Json = None
    client: bool = False
    cached: bool = False


class EventOrder:
    """Checks that the events of one run arrive in order, without gaps and duplicates."""

    def __init__(self) -> None:
        self.run = ""
        self.last = 0
        self.usage: Json = None

    @property
    def last_event_id(self) -> str:
        return f"{self.run}:{self.last}" if self.last else ""

    def learn(self, run: str) -> None:
        if self.run and run != self.run:
            raise broken(f"received events of {run[:64]} in the stream of {self.run}")
        self.run = run

    def take(self, arrival: ReceivedEvent) -> fe.Event | None:
        """Return the event; None for a duplicate, a ping or an unknown event."""
        if arrival.name == "ping":
            return None
        run, _, number = arrival.id.rpartition(":")
        if not run or not (number.isascii() and number.isdecimal()):
            if arrival.name in fe.NAMES:
                raise broken(f"an event {arrival.name} has no number")
            return None
        self.learn(run)
        n = int(number)
        if n <= self.last:
            return None
        if n > self.last + 1:
            raise broken(f"event {n} came after event {self.last}")
        event = self._event(arrival)
        self.last = n
        return event

    def _event(self, arrival: ReceivedEvent) -> fe.Event | None:
        if arrival.name not in fe.NAMES:
            return None
        try:
            data = loads(arrival.data)
            event = fe.event_from(arrival.name, data)
        except (ValueError, MalformedRequest) as error:
            raise broken(f"an event {arrival.name} cannot be read: {error}") from None
        if isinstance(event, fe.RunDone):
            self.usage = event.usage
        return event


class _Open(msgspec.Struct):
    schema: str
    chunks: list[str]


class StreamFold:
    """The state of a stream, folded from its events."""

    def __init__(self, readers: Mapping[str, Read]) -> None:
        self._readers = readers
        self._open: dict[str, _Open] = {}
        self._texts: list[str] = []
        self._used: dict[str, UsedTool] = {}
        self._last: fe.RunError | None = None
        self._noted: list[fe.RunError] = []
        self.objects: list[ReceivedObject] = []
        self.result: ReceivedObject | None = None
        self.failure: StreamFailed | None = None
        self.done = False

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def tools(self) -> tuple[UsedTool, ...]:
        return tuple(self._used.values())

    @property
    def errors(self) -> tuple[fe.RunError, ...]:
        """The errors that did not end the stream."""
        ended = self.failure is not None and self.done
        return tuple(self._noted[:-1] if ended else self._noted)

    @property
    def degraded(self) -> StreamDegraded | None:
        """The exception for a degraded result; None for any other."""
        result = self.result
        if result is None or result.status != "degraded":
            return None
        about = [error for error in self._noted if error.id == result.id]
        return StreamDegraded(result.value, result.invented, about[-1].message if about else "")

    def feed(self, event: fe.Event) -> StreamPiece | None:
        """Process an event; return its part of an object or of the result."""
        before, self._last = self._last, None
        match event:
            case fe.RunTextDelta(text):
                self._texts.append(text)
            case fe.JsonBegin(id, schema) | fe.ResultBegin(id, schema):
                self._open[id] = _Open(schema, [])
                return StreamPiece(id, schema)
            case fe.JsonDelta(id, chunk) | fe.ResultDelta(id, chunk):
                return self._grow(id, chunk)
            case fe.JsonEnd() | fe.ResultEnd():
                return self._end(event)
            case fe.RunError():
                self._last = event
                self._noted.append(event)
            case fe.RunDone():
                self.done = True
                # An error without a frame id, right before `done`, is the reason for the end.
                self.failure = failure_in(before) if before and not before.id else None
            case _:
                self._note_tool(event)
        return None

    def _grow(self, id: str, chunk: str) -> StreamPiece:
        found = self._open.get(id)
        if found is None:
            raise broken(f"a delta of {id} came before its begin event")
        found.chunks.append(chunk)
        return StreamPiece(id, found.schema, chunk)

    def _end(self, event: fe.JsonEnd | fe.ResultEnd) -> StreamPiece:
        found = self._open.pop(event.id, None)
        if found is None:
            raise broken(f"the end of {event.id} came before its begin event")
        value = event.value
        if isinstance(value, msgspec.UnsetType):
            try:
                value = loads("".join(found.chunks))
            except ValueError as error:
                raise broken(f"{event.id} has no status, but is not JSON: {error}") from None
        missing = value is None and event.status == "degraded"  # nothing fits the schema
        read = None if missing else self._readers.get(found.schema)
        shaped = read(value) if read else value
        whole = ReceivedObject(event.id, found.schema, shaped, event.status, event.invented)
        if isinstance(event, fe.ResultEnd):
            self.result = whole
        else:
            self.objects.append(whole)
        return StreamPiece(
            event.id, found.schema, end=True, value=shaped,
            status=event.status, invented=event.invented,
        )  # fmt: skip

    def _note_tool(self, event: fe.Event) -> None:
        match event:
            case fe.RunToolCall(id, name, args, client):
                self._used[id] = UsedTool(id, name, args, client=client)
            case fe.ToolResult(id, name, result, cached):
                known = self._used.get(id) or UsedTool(id, name, {})
                self._used[id] = msgspec.structs.replace(known, result=result, cached=cached)
            case _:
                pass

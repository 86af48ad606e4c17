"""Calls while they are written: the text of each, and its value as far as it can be read."""

import msgspec

from toolbridge.core.json import Json, maybe_object
from toolbridge.core.messages import Call
from toolbridge.wire.json_stream import JsonReader


class JsonAccumulator:
    """The arguments of one call while they are written. It never raises."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._reader = JsonReader()

    def append(self, delta: str) -> None:
        self._pieces.append(delta)
        if not self._reader.fault:
            self._reader.feed(delta)

    def get_buffer(self) -> str:
        """Return all that was written."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def parse_current(self) -> Json:
        """Return the value as far as it can be read, or None before there is one; it keeps growing."""
        return self._reader.value

    @property
    def complete(self) -> bool:
        return self._reader.complete


class OpenCall(msgspec.Struct):
    """A call that is being written."""

    id: str
    name: str
    api_index: int
    content_index: int
    arguments: JsonAccumulator


class CallTracker:
    """The calls of one answer, by the index that the API gives them."""

    def __init__(self, first_content_index: int = 0) -> None:
        self._next = first_content_index
        self._open: dict[int, OpenCall] = {}

    def start_call(self, api_index: int, id: str, name: str) -> int:
        """Open a call; return its place in the answer."""
        index = self._next
        self._next += 1
        self._open[api_index] = OpenCall(id, name, api_index, index, JsonAccumulator())
        return index

    def by_api_index(self, api_index: int) -> OpenCall | None:
        return self._open.get(api_index)

    def append_delta(self, api_index: int, delta: str) -> int | None:
        """Write on; return the call's place in the answer, or None when there is no such call."""
        call = self._open.get(api_index)
        if call is None:
            return None
        call.arguments.append(delta)
        return call.content_index

    def complete_call(self, api_index: int) -> Call | None:
        """End a call; what is not a whole JSON object is kept as it was written, never completed."""
        call = self._open.pop(api_index, None)
        if call is None:
            return None
        written = call.arguments.get_buffer()
        arguments = maybe_object(written) if written.strip() else {}
        if arguments is None:
            return Call(call.id, call.name, raw=written)
        return Call(call.id, call.name, arguments)

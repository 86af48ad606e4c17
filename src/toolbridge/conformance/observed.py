"""What a client has seen, in no API's words, and the frames in which it came."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from toolbridge.core.json import Json, JsonObject, loads, maybe_object


class ObservedCall(msgspec.Struct):
    name: str
    id: str = ""
    written: str = ""
    closed: bool = False
    """Whether the stream said that the call is whole."""

    @property
    def arguments(self) -> JsonObject | None:
        return {} if not self.written.strip() else maybe_object(self.written)


class Observed(msgspec.Struct):
    text: str = ""
    thinking: str = ""
    calls: list[ObservedCall] = []
    order: list[str] | None = None
    """None where the API keeps no order between text and calls."""
    stop: str = ""
    """In the API's own word."""
    input: int = 0
    output: int = 0
    early_input: int | None = None
    """What the first event says of the input; None where the API has no place for it."""
    terminal: Literal["finished", "error", "none"] = "none"
    error: str = ""
    keep_alives: int = 0
    faults: list[str] = []

    def fault(self, text: str) -> None:
        if len(self.faults) < 8:  # one broken rule breaks others; the first ones tell
            self.faults.append(text)

    def add(self, kind: str) -> None:
        """Note that a block of `kind` comes next."""
        if self.order is not None:
            self.order.append(kind)

    def check_calls(self, *, cut: bool = False) -> None:
        """Note faults that no API forgives: calls without a name, an id or whole arguments.

        `cut`: the limit struck, so the last call may be half, and says so by its broken JSON.
        """
        ids = [call.id for call in self.calls]
        for id, count in Counter(ids).items():
            if not id or count > 1:
                self.fault(f"{count} calls have the id {id!r}")
        for call in self.calls:
            if not call.name:
                self.fault("a call has no name")
            if call.closed and call.arguments is None and not (cut and call is self.calls[-1]):
                self.fault(f"the arguments of {call.name} are no JSON object: {call.written[:80]}")


class ObservedEvent(NamedTuple):
    event: str
    data: str


class ObservedEvents(NamedTuple):
    frames: list[ObservedEvent]
    comments: int
    rest: bytes
    """What came after the last whole frame."""


def split_sse(body: bytes) -> ObservedEvents:
    """Return the events of a stream as a plain reader sees them."""
    pieces = body.replace(b"\r\n", b"\n").split(b"\n\n")
    rest = pieces.pop()
    found: list[ObservedEvent] = []
    comments = 0
    for piece in pieces:
        event, data = "", []
        for line in piece.decode("utf-8", "replace").split("\n"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            comments += name == ""
            event = value if name == "event" else event
            data += [value] if name == "data" else []
        if data or event:
            found.append(ObservedEvent(event, "\n".join(data)))
    return ObservedEvents(found, comments, rest)


def parse(data: str | bytes, seen: Observed) -> JsonObject | None:
    """Return the object that a frame holds; note the fault when it holds none."""
    try:
        value: Json = loads(data)
    except ValueError as error:
        seen.fault(f"a frame is no JSON ({error}): {data[:80]!r}")
        return None
    if isinstance(value, dict):
        return value
    seen.fault(f"a frame is no object: {data[:80]!r}")
    return None


def require(seen: Observed, where: str, frame: JsonObject, names: Sequence[str]) -> None:
    """Note every member that `frame` lacks."""
    if lacking := [name for name in names if name not in frame]:
        seen.fault(f"{where} lacks {', '.join(lacking)}")

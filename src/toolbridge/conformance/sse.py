"""A plain SSE reader for the client side of conformance cases.

It shares no code with `toolbridge.wire.sse`, so a fault there cannot hide itself here.
"""

from typing import NamedTuple


class ObservedEvent(NamedTuple):
    """One SSE event: its `event` field and its joined `data` fields."""

    name: str
    data: str


class ObservedEvents(NamedTuple):
    """An SSE body, split into events."""

    events: list[ObservedEvent]
    comments: int
    rest: bytes
    """The bytes after the last complete event."""


def split_sse(body: bytes) -> ObservedEvents:
    """Return the events of an SSE body, the number of comments, and the incomplete rest."""
    pieces = body.replace(b"\r\n", b"\n").split(b"\n\n")
    rest = pieces.pop()
    found: list[ObservedEvent] = []
    comments = 0
    for piece in pieces:
        name, data = "", []
        for line in piece.decode("utf-8", "replace").split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            comments += field == ""
            name = value if field == "event" else name
            data += [value] if field == "data" else []
        if data or name:
            found.append(ObservedEvent(name, "\n".join(data)))
    return ObservedEvents(found, comments, rest)

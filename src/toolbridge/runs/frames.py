"""Encodes the lines of `frames.ndjson`: every event of a run with its time, without secrets."""

from typing import NamedTuple

from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.core.redaction import Redacted, Redactor
from toolbridge.runs.redact_events import EventRedactor


class EventFrame(NamedTuple):
    ms: float
    """Milliseconds since the run began."""
    n: int
    event: str
    data: JsonObject


class EventFrames:
    """A stage from events to redacted NDJSON lines."""

    def __init__(self, redactor: Redactor) -> None:
        self._events: EventRedactor[EventFrame] = EventRedactor(redactor)

    def feed(self, frame: EventFrame) -> list[Redacted]:
        return [_line(*event) for event in self._events.feed(frame, frame.event, frame.data)]

    def close(self) -> list[Redacted]:
        """Return the lines that were held back for redaction."""
        return [_line(*event) for event in self._events.close()]


def _line(frame: EventFrame, data: JsonObject) -> Redacted:
    line: JsonObject = {"ms": frame.ms, "n": frame.n, "event": frame.event, "data": data}
    if data.get("status") == "degraded":
        line["degraded"] = True
    return Redacted(dump_bytes(line) + b"\n")

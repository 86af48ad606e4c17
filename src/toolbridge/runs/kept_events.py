"""The events of one run in the store: exact in memory, redacted outside of the process.

Text is redacted as a whole, so what is stored lags a little behind memory until a line or the run
ends. At most `most` bytes of one run are kept; the replay of a longer run ends with the error
`replay_truncated`.
"""

import msgspec

from toolbridge.core.json import JsonObject, dump_bytes, loads
from toolbridge.core.redaction import Redactor
from toolbridge.runs.redact_events import EventRedactor
from toolbridge.store.interface import Numbered
from toolbridge.structured.events import Event, RunDone, RunError, name_of

KEPT = 24 * 3600.0
MOST = 32 * 1024 * 1024
"""The most bytes of one run's events."""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One numbered event, encoded once for every transport."""

    n: int
    name: str
    data: bytes
    """JSON."""

    @property
    def is_last(self) -> bool:
        return self.name == "done"


_record = msgspec.msgpack.Decoder(Record)


class RunEventForm:
    """How the events of one run are stored."""

    def __init__(self, redactor: Redactor, most: int = MOST) -> None:
        self._most = most
        # Used in the store's thread only.
        self._redactor: EventRedactor[Record] = EventRedactor(redactor)

    def encode(self, _: int, record: Record) -> bytes:
        return msgspec.msgpack.encode(record)

    def decode(self, _: int, data: bytes) -> Record:
        return _record.decode(data)

    def redact(self, items: list[tuple[int, Record]]) -> list[Numbered]:
        certain = [
            event
            for _, record in items
            for event in self._redactor.feed(record, record.name, _object(record.data))
        ]
        return [
            (r.n, msgspec.msgpack.encode(Record(r.n, r.name, dump_bytes(data))))
            for r, data in certain
        ]

    def cut(self, n: int) -> list[Record]:
        text = (
            f"the events from number {n} on were not kept: the run has more than {self._most} bytes"
        )
        ends: tuple[Event, ...] = (RunError("replay_truncated", text), RunDone())
        return [record_of(n + at, event) for at, event in enumerate(ends)]


def record_of(n: int, event: Event) -> Record:
    return Record(n, name_of(event), dump_bytes(event))


def _object(data: bytes) -> JsonObject:
    found = loads(data)
    return found if isinstance(found, dict) else {}

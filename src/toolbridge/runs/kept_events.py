"""The events of one run in the store: exact in memory, redacted in the file.

They are stored in chunks of 64, so that any event can be found by its number. Text is redacted as a
whole, so the file lags a little behind memory until a line or the run ends. At most `most` bytes of
one run are kept; the replay of a longer run ends with the error `replay_truncated`.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import groupby

import msgspec

from toolbridge.core.json import JsonObject, dump_bytes
from toolbridge.runs.redact_events import EventRedactor
from toolbridge.store.interface import Store
from toolbridge.structured.events import Event, RunDone, RunError, data_of, name_of

CHUNK = 64
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


_chunk = msgspec.msgpack.Decoder(list[Record])


class KeptEvents:
    def __init__(self, scope: str, store: Store, *, most: int = MOST) -> None:
        self._scope = scope
        self._store = store
        self._most = most
        self._size = 0
        self._exact: list[Record] = []
        self._new: list[tuple[Record, JsonObject]] = []
        # The members below are used in the store's thread only.
        self._redactor: EventRedactor[Record] = EventRedactor(store.redactor)
        self._safe: list[Record] = []
        self.last: int | None = None
        """The number of the last kept event, once the run has exceeded `most` bytes."""

    def add(self, record: Record, data: JsonObject) -> None:
        """Queue an event; `flush` writes it."""
        if self.last is not None:
            return
        self._size += len(record.data)
        if self._size > self._most:
            self.last = record.n - 1
            self._end(record.n)
            return
        self._append(record, data)

    def _append(self, record: Record, data: JsonObject) -> None:
        self._exact.append(record)
        self._new.append((record, data))

    def _end(self, n: int) -> None:
        text = (
            f"the events from number {n} on were not kept: the run has more than {self._most} bytes"
        )
        ends: tuple[Event, ...] = (RunError("replay_truncated", text), RunDone())
        for at, event in enumerate(ends):
            data = data_of(event)
            self._append(Record(n + at, name_of(event), dump_bytes(data)), data)

    @property
    def due(self) -> bool:
        return len(self._exact) >= CHUNK

    async def flush(self) -> None:
        """Store the queued events, so that they can be read after a crash."""
        if not self._new:
            return
        exact = [(_key(c[0].n), msgspec.msgpack.encode(c)) for c in _chunks(self._exact)]
        self._exact = _unfinished(self._exact)
        new, self._new = self._new, []
        # A run that is being cancelled must not lose the events that it has sent.
        await asyncio.shield(
            self._store.put_pair(self._scope, exact, lambda: self._redact(new), seconds=KEPT)
        )

    def _redact(self, new: list[tuple[Record, JsonObject]]) -> list[tuple[str, bytes]]:
        """Return the changed chunks for the file; runs in the store's thread."""
        certain = [
            event
            for record, data in new
            for event in self._redactor.feed(record, record.name, data)
        ]
        self._safe += [Record(r.n, r.name, dump_bytes(data)) for r, data in certain]
        found = [(_key(c[0].n), msgspec.msgpack.encode(c)) for c in _chunks(self._safe)]
        self._safe = _unfinished(self._safe)
        return found if certain else []


def _chunks(records: list[Record]) -> Iterator[list[Record]]:
    for _, chunk in groupby(records, lambda record: _key(record.n)):
        yield list(chunk)


def _unfinished(records: list[Record]) -> list[Record]:
    """Return the records of the last chunk if that chunk is not full."""
    if not records or records[-1].n % CHUNK == 0:
        return []
    return [record for record in records[-CHUNK:] if _key(record.n) == _key(records[-1].n)]


def _key(n: int) -> str:
    return str((n - 1) // CHUNK)


async def stored_chunk(store: Store, scope: str, n: int) -> list[Record]:
    """Return the stored chunk that contains event number `n`; an empty list if it is not stored."""
    value = await store.get(scope, _key(n))
    if value is None:
        return []
    try:
        return _chunk.decode(value)
    except msgspec.MsgspecError:  # written by another version
        return []


async def stored_after(store: Store, scope: str, cursor: int) -> AsyncGenerator[list[Record], None]:
    """Yield the stored events of a run after number `cursor`."""
    while batch := [r for r in await stored_chunk(store, scope, cursor + 1) if r.n > cursor]:
        yield batch
        cursor = batch[-1].n

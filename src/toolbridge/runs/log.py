"""The numbered events of one run: one writer, any number of readers, from any event number.

The writer waits when it is too far ahead of the fastest reader, and with it the model: this is the
back-pressure of a run. Slow and late readers get older events from the store, so memory holds only
the latest.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Self

from toolbridge.core.errors import Truncated
from toolbridge.core.json import dump_bytes
from toolbridge.runs.kept_events import (
    CHUNK,
    KEPT,
    MOST,
    KeptEvents,
    Record,
    stored_after,
    stored_chunk,
)
from toolbridge.store.interface import Store
from toolbridge.structured.events import Event, RunDone, data_of, name_of

__all__ = ["AHEAD", "BATCH", "CHUNK", "KEPT", "EventLog", "Record", "Subscriber", "stored_after"]

AHEAD = 128
"""How many events may be unread before the writer waits."""
BATCH = 32


class EventLog:
    """The events of a run: the run writes them, subscribers read them."""

    def __init__(self, scope: str, store: Store, *, ahead: int = AHEAD, most: int = MOST) -> None:
        self._scope = scope
        self._store = store
        self._ahead = ahead
        self._recent: deque[Record] = deque(maxlen=ahead + CHUNK)
        self._kept = KeptEvents(scope, store, most=most)
        self._grown = _Signal()
        self._drained = _Signal()
        self._front = 0
        self.last = 0
        self.ended = False
        self.readers = 0

    async def put(self, event: Event) -> Record:
        """Append an event; wait while `ahead` events are unread, and for the store."""
        await self.room()
        record = self.add(event)
        await self.settle()
        return record

    @property
    def is_full(self) -> bool:
        """Whether `ahead` events are unread."""
        return self.last - self._front >= self._ahead

    async def room(self) -> None:
        """Wait while `ahead` events are unread."""
        while self.is_full:
            await self._drained.wait()

    def add(self, event: Event) -> Record:
        """Number an event and wake the readers."""
        self.last += 1
        data = data_of(event)
        record = Record(self.last, name_of(event), dump_bytes(data))
        self._recent.append(record)
        self._kept.add(record, data)
        self.ended = isinstance(event, RunDone)
        self._grown.fire()
        return record

    async def settle(self) -> None:
        """Store the queued events if a chunk is full or the run has ended."""
        if self.ended or self._kept.due:
            await self.flush()

    async def flush(self) -> None:
        """Store all events, so that they can be read after a crash."""
        await self._kept.flush()

    def unbind(self) -> None:
        """Stop waiting for readers: the run is being ended, and few events remain."""
        self._ahead = 1 << 62
        self._drained.fire()

    def follow(self, after: int = 0) -> "Subscriber":
        return Subscriber(self, min(after, self.last))

    def advance(self, cursor: int) -> None:
        """Record that a reader has read everything up to `cursor`."""
        if cursor > self._front:
            self._front = cursor
            self._drained.fire()

    async def after(self, cursor: int) -> list[Record]:
        """Return events after `cursor`, waiting for the first; an empty list after the last event."""
        while cursor >= self.last:
            if self.ended:
                return []
            await self._grown.wait()
        oldest = self._recent[0].n
        if cursor + 1 >= oldest:
            skipped = cursor + 1 - oldest
            return [
                self._recent[at] for at in range(skipped, min(skipped + BATCH, len(self._recent)))
            ]
        kept = await stored_chunk(self._store, self._scope, cursor + 1)
        until = self.last if self._kept.last is None else self._kept.last
        missed = [record for record in kept if cursor < record.n <= until]
        if not missed:
            raise Truncated(f"the events after number {cursor} are no longer kept")
        return missed


class Subscriber:
    """A subscriber of a run.

    Use it as a context manager: a run without subscribers is ended after a while.
    """

    def __init__(self, log: EventLog, after: int) -> None:
        self._log = log
        self.cursor = after

    def __enter__(self) -> Self:
        self._log.readers += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._log.readers -= 1

    async def batches(self) -> AsyncGenerator[list[Record], None]:
        """Yield new events; asking for the next batch marks the last one as read."""
        while batch := await self._log.after(self.cursor):
            yield batch
            self.cursor = batch[-1].n
            self._log.advance(self.cursor)


class _Signal:
    """Wakes every task that waits at the moment."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def fire(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

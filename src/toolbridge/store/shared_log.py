"""A numbered log with one writer and any number of readers, in this process and in others.

Structured streams and kept answers are such logs. The writer waits when it is too far ahead of the
fastest reader, and with it the model: this is the back-pressure. Memory holds the latest items;
slow and late readers get older ones from the store, and other processes get all of them from there.
What is stored lags a little behind: items are written in batches, and redacted as a whole.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

import msgspec

from toolbridge.core.errors import Truncated
from toolbridge.store.interface import MOST_ENTRIES, Numbered, Store

T = TypeVar("T")

AHEAD = 128
"""How many items may be unread before the writer waits."""
BATCH = 32
"""The most items that a reader gets at once."""
BATCH_BYTES = 256 * 1024
"""Bytes of a batch from which on nothing more is added to it."""
_RECENT = 64
"""Read items that memory holds beside the unread ones."""
_PATIENCE = 0.5
"""Seconds for which a reader of another process's log waits before it checks that process."""


class LogForm(Protocol[T]):
    """How the items of one log are stored."""

    def encode(self, n: int, item: T) -> bytes: ...
    def decode(self, n: int, data: bytes) -> T: ...
    def redact(self, items: list[tuple[int, T]]) -> list[Numbered]:
        """Return what may leave the process, encoded; hold back what later items may change.

        It is called with all items in their order, and runs in another thread.
        """
        ...

    def cut(self, n: int) -> list[T]:
        """Return the last items of a log from number `n` on, if it is too long to be kept."""
        ...


@dataclass(frozen=True)
class LogPlace:
    """Where a log is stored, and for how long."""

    store: Store
    scope: str
    key: str
    seconds: float
    most: int
    """The most bytes."""
    delay: float
    """Seconds after which an item is stored at the latest; a crash loses no more."""


class SharedLog(Generic[T]):
    """The writer's side of a log, and its readers in this process."""

    def __init__(self, place: LogPlace, form: LogForm[T], *, ahead: int = AHEAD) -> None:
        self._place = place
        self._form = form
        self._ahead = ahead
        self._waits = True
        """Whether the writer waits for readers."""
        self._recent: deque[tuple[int, T]] = deque()
        self._stored = 0
        """The number of the last item that can be read from the store."""
        self._queue: list[tuple[int, bytes, T]] = []
        self._queued = 0
        """The bytes of the queue."""
        self._size = 0
        self._flushing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._grown = _Signal()
        self._drained = _Signal()
        self._front = 0
        self._kept_until: int | None = None
        """The number of the last item that is kept, once the log is too long."""
        self.holds_back = False
        """Whether readers get nothing until the first items are stored."""
        self.last = 0
        self.ended = False
        self.readers = 0

    @property
    def is_full(self) -> bool:
        """Whether `ahead` items are unread, and the writer waits for readers."""
        return self._waits and self.last - self._front >= self._ahead

    @property
    def is_cut(self) -> bool:
        """Whether the log is too long to be kept to its end."""
        return self._kept_until is not None

    async def room(self) -> None:
        """Wait while `ahead` items are unread."""
        while self.is_full:
            await self.drained()

    async def drained(self) -> None:
        """Wait until a reader has read, or has left."""
        await self._drained.wait()

    def leave(self) -> None:
        """Record that a reader has left."""
        self.readers -= 1
        self._drained.fire()

    def append(self, item: T, *, last: bool = False) -> int:
        """Number an item and wake the readers; return its number."""
        self._keep(self.last + 1, item)
        return self._show(item, last=last)

    async def seal(self, item: T) -> None:
        """Store the last item and all before it, then show it: what was read to its end is stored."""
        self._keep(self.last + 1, item)
        await self.flush()
        self.holds_back = False
        self._show(item, last=True)

    def _show(self, item: T, *, last: bool) -> int:
        self.last += 1
        self._recent.append((self.last, item))
        self._forget()
        self.ended = last
        self._grown.fire()
        return self.last

    def _forget(self) -> None:
        """Drop the oldest items from memory; one delivery of a provider may have hundreds of new ones."""
        recent = self._recent
        while len(recent) > self._ahead + _RECENT and self._may_forget(recent[0][0]):
            recent.popleft()

    def _may_forget(self, n: int) -> bool:
        """Return whether readers find item `n` in the store, or have had their time for it."""
        if self._kept_until is not None and n > self._kept_until:
            return n <= self._front or not self._waits
        return n <= self._stored

    def _keep(self, n: int, item: T) -> None:
        if self._kept_until is not None:
            return
        data = self._form.encode(n, item)
        self._size += len(data)
        if self._size <= self._place.most:
            self._queue.append((n, data, item))
            self._queued += len(data)
            return
        self._kept_until = n - 1
        for number, end in enumerate(self._form.cut(n), n):
            data = self._form.encode(number, end)
            self._queue.append((number, data, end))
            self._queued += len(data)

    @property
    def is_due(self) -> bool:
        """Whether `settle` stores the queued items now: the log has ended, or a batch is full."""
        return self.ended or len(self._queue) >= MOST_ENTRIES or self._queued >= BATCH_BYTES

    async def settle(self) -> None:
        """Store the queued items: at the end or with a full batch now, otherwise soon."""
        if self.is_due:
            await self.flush()
        elif self._timer is None and self._queue:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._place.delay, self._begin_flush)

    async def flush(self) -> None:
        """Store all items, so that they can be read after a crash."""
        while self._queue or self._flushing is not None:
            # A writer that is being cancelled must not lose the items that it has sent.
            await asyncio.shield(self._begin_flush())

    def _begin_flush(self) -> "asyncio.Task[None]":
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._write())
        return self._flushing

    async def _write(self) -> None:
        try:
            place = self._place
            while self._queue:
                batch = self._next_batch()
                items = [(n, item) for n, _, item in batch]
                await place.store.append(
                    place.scope,
                    place.key,
                    batch[0][0],
                    [data for _, data, _ in batch],
                    seconds=place.seconds,
                    redacted=partial(self._form.redact, items),
                )
                self._stored = batch[-1][0]
                self._forget()
                if self.holds_back:
                    self.holds_back = False
                    self._grown.fire()
        finally:
            self._flushing = None

    def _next_batch(self) -> list[tuple[int, bytes, T]]:
        """Take the items that are stored together from the queue."""
        batch: list[tuple[int, bytes, T]] = []
        size = 0
        while len(batch) < min(MOST_ENTRIES, len(self._queue)) and size < BATCH_BYTES:
            batch.append(self._queue[len(batch)])
            size += len(batch[-1][1])
        del self._queue[: len(batch)]
        self._queued -= size
        return batch

    def unbind(self) -> None:
        """Stop waiting for readers: few items remain, or they do not read."""
        self._waits = False
        self._drained.fire()

    def follow(self, after: int = 0) -> "LogReader[T]":
        return LogReader(self, min(after, self.last))

    def advance(self, cursor: int) -> None:
        """Record that a reader has read everything up to `cursor`."""
        if cursor > self._front:
            self._front = cursor
            self._drained.fire()

    async def after(self, cursor: int) -> list[tuple[int, T]]:
        """Return items after `cursor`, waiting for the first; an empty list after the last one."""
        while cursor >= self.last or self.holds_back:
            if self.ended:
                return []
            await self._grown.wait()
        oldest = self._recent[0][0]
        if cursor + 1 >= oldest:
            skipped = cursor + 1 - oldest
            end = min(skipped + BATCH, len(self._recent))
            return [self._recent[at] for at in range(skipped, end)]
        until = self.last if self._kept_until is None else self._kept_until
        place = self._place
        kept = await place.store.read(place.scope, place.key, cursor)
        missed = [(n, self._form.decode(n, data)) for n, data in kept if n <= until]
        if not missed or missed[0][0] != cursor + 1:
            raise Truncated(f"the events after number {cursor} are no longer kept")
        return missed


class LogReader(Generic[T]):
    """A reader of a log in this process.

    Use it as a context manager: a log without readers is ended after a while.
    """

    def __init__(self, log: SharedLog[T], after: int) -> None:
        self._log = log
        self.cursor = after

    def __enter__(self) -> Self:
        self._log.readers += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._log.leave()

    async def batches(self) -> AsyncGenerator[list[tuple[int, T]], None]:
        """Yield new items; asking for the next batch marks the last one as read."""
        while batch := await self._log.after(self.cursor):
            yield batch
            self.cursor = batch[-1][0]
            self._log.advance(self.cursor)


async def stored_items(
    place: LogPlace,
    form: LogForm[T],
    after: int,
    is_alive: Callable[[], Awaitable[bool]] | None = None,
) -> AsyncGenerator[list[tuple[int, T]], None]:
    """Yield the stored items of a log after number `after`.

    With `is_alive`, wait for further items while the process that writes the log is alive. The
    caller stops at the last item.
    """
    cursor = after
    while True:
        alive = is_alive is not None and await is_alive()
        wait = _PATIENCE if alive else 0.0
        while found := await place.store.read(place.scope, place.key, cursor, wait=wait):
            if found[0][0] != cursor + 1:
                return  # the items between were not kept
            try:
                items = [(n, form.decode(n, data)) for n, data in found]
            except msgspec.MsgspecError:  # written by another version
                return
            yield items
            cursor = found[-1][0]
        if not alive:
            return


class _Signal:
    """Wakes every task that waits at the moment."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def fire(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

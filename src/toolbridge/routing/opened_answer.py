"""Answers that are opened for one route: how they are read, and those without attempts."""

from collections.abc import AsyncGenerator
from typing import Protocol

from toolbridge.core.fold import collect
from toolbridge.core.messages import Message
from toolbridge.routing.nodes import Batch


class OpenedAnswer(Protocol):
    """The answer to a request that is prepared for one route; nothing is sent before it is read."""

    has_next: bool
    """Whether another provider can answer instead."""
    opens_at: float
    """When the client gets status and headers in any case, by the event loop; 0 for no time."""

    ended: bool
    """Whether nothing follows the batch that was read last. Of most answers that is known later."""

    @property
    def needs_other_api(self) -> bool: ...
    @property
    def maker(self) -> str: ...
    @property
    def aborts(self) -> bool: ...
    def events(self) -> AsyncGenerator[Batch, None]: ...
    async def begin(self) -> Batch | None:
        """Return the first batch of `events`, None without one; `read` returns the following ones."""
        ...

    async def read(self) -> Batch | None: ...
    async def close(self) -> None: ...
    async def message(self) -> Message: ...


class _Readable(Protocol):
    async def begin(self) -> Batch | None: ...
    async def read(self) -> Batch | None: ...
    async def close(self) -> None: ...


async def batches_of(answer: _Readable) -> AsyncGenerator[Batch, None]:
    """Yield what `begin` and `read` return, and close the answer."""
    try:
        batch = await answer.begin()
        while batch is not None:
            yield batch
            batch = await answer.read()
    finally:
        await answer.close()


class GeneratedAnswer:
    """An answer whose `events` are a generator, with the other methods of `AnswerAttempts`."""

    ended = False
    _batches: AsyncGenerator[Batch, None] | None = None

    def events(self) -> AsyncGenerator[Batch, None]:
        raise NotImplementedError

    async def begin(self) -> Batch | None:
        self._batches = self.events()
        return await anext(self._batches, None)

    async def read(self) -> Batch | None:
        return None if self._batches is None else await anext(self._batches, None)

    async def close(self) -> None:
        if self._batches is not None:
            await self._batches.aclose()


class KnownAnswer(GeneratedAnswer):
    """An answer that needs no request to a model."""

    aborts = False
    maker = ""
    needs_other_api = False
    has_next = False
    opens_at = 0.0

    def __init__(self, events: Batch) -> None:
        self._events = events

    async def events(self) -> AsyncGenerator[Batch, None]:
        yield self._events

    async def message(self) -> Message:
        return collect(self._events)

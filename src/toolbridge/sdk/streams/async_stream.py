"""An answer as a stream of events, for async callers.

The stream is pulled: the request is sent when the stream is first read, and an unread stream stops
the provider. An error is the last event, never an exception.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.errors import Aborted, ToolbridgeError, Truncated
from toolbridge.core.fold import Fold
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Loss, Message, Problem, Turn
from toolbridge.sdk.streams.answers import AnswerNotes
from toolbridge.sdk.streams.options import PreparedAsk
from toolbridge.sdk.streams.signal import ASKED

Batch = list[ev.Event]


class AsyncStream:
    """One answer: iterate it for events; `message` is the answer so far."""

    def __init__(
        self, source: AsyncGenerator[Batch, None], order: PreparedAsk, notes: AnswerNotes
    ) -> None:
        self._source = source
        self._order = order
        self._notes = notes
        self._fold = Fold()
        self._waiting: deque[ev.Event] = deque()
        self._reading = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pulling: asyncio.Task[Batch] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._aborted = ""
        self._over = False
        self._ended_by_event = False
        if order.signal is not None:
            order.signal.attach(self)

    # ── the answer so far ──

    @property
    def message(self) -> Message:
        """The message, folded from the events read so far."""
        return self._fold.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation with the answer so far, to continue from."""
        content = self.message.content
        asked = self._order.request.turns
        return (*asked, Turn("assistant", content)) if content else asked

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses: those of the request from the first event on, those of the answer as they occur."""
        return (*self._notes.losses, *self._fold.losses)

    @property
    def model(self) -> str:
        """The model that answers, as `provider/model`; known from the first event on."""
        return self._notes.address

    # ── reading ──

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ev.Event:
        await self.fill()
        if self.ended:
            raise StopAsyncIteration
        return self.pop()

    async def result(self) -> Message:
        """Read the rest; return the whole message, with its `problem` after a failure."""
        async for _ in self:
            pass
        return self.message

    @property
    def ready(self) -> bool:
        """Whether an event is available without waiting."""
        return bool(self._waiting) and (not self._aborted or self._over)

    @property
    def ended(self) -> bool:
        return self._over and not self._waiting

    def pop(self) -> ev.Event:
        """Return the next event, which must be available."""
        event = self._waiting.popleft()
        self._fold.feed(event)
        if not isinstance(event, ev.Finished | ev.Failed):
            return event
        self._ended_by_event = True
        return msgspec.structs.replace(event, message=self._fold.message)

    async def fill(self) -> None:
        """Wait until an event is available, or until the stream has ended."""
        self._loop = asyncio.get_running_loop()
        async with self._reading:
            while not self.ready and not self.ended:
                self._waiting = deque(await self._next())

    async def _next(self) -> Batch:
        try:
            batch = [] if self._aborted else await self._pull()
            if self._aborted:
                await self._close()
        except ToolbridgeError as error:
            return self.fail(error.problem)
        except Exception as error:  # noqa: BLE001  an internal error is reported as an event too
            return self.fail(Problem("internal", f"{type(error).__name__}: {error}"))
        if self._aborted:
            return self.fail(Aborted(self._aborted).problem)
        if batch:
            return batch
        return self.fail(Truncated("the answer ended without a final event").problem)

    async def _pull(self) -> Batch:
        # A separate task, so that `abort` can cancel the wait without cancelling the caller.
        self._pulling = asyncio.create_task(self._pulled())
        try:
            return await self._pulling
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._aborted and task is not None and not task.cancelling():
                return []
            self._aborted = self._aborted or "its reader was cancelled"
            raise
        finally:
            self._pulling = None

    async def _pulled(self) -> Batch:
        return await anext(self._source, [])

    def fail(self, problem: Problem) -> Batch:
        """Return the final events of an answer that broke off; empty if it had ended."""
        self._over = True
        if self._ended_by_event:
            return []
        if not self._fold.id:
            draft = Draft(Ids(os.urandom(16)))
            return draft.start(model=self._order.request.model) + draft.fail(problem)
        return [ev.Failed(problem)]

    # ── ending early ──

    def abort(self, why: str = ASKED) -> None:
        """End the stream: the next event is `Failed`, with the partial message.

        May be called from any thread.
        """
        if self._aborted or self._over:
            return
        self._aborted = why
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and its sockets too
                self._loop.call_soon_threadsafe(self._cut)

    def settle(self, why: str) -> None:
        """End the stream without waiting, after its event loop has closed."""
        if not self._over:
            self._waiting = deque(self.fail(Aborted(why).problem))

    async def aclose(self, why: str = ASKED) -> None:
        """End the stream, and wait until its connection is closed."""
        self.abort(why)
        if self._loop is not None and not self._over:
            if self._pulling is not None:
                self._pulling.cancel()
                await asyncio.wait([self._pulling])
            await self._close()

    def _cut(self) -> None:
        if self._pulling is not None:
            self._pulling.cancel()
        elif self._closing is None:
            self._closing = asyncio.ensure_future(self._source.aclose())

    async def _close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._source.aclose())
        await self._closing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

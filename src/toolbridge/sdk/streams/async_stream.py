"""An answer as it comes, for callers that await.

It is pulled: nothing is asked before somebody reads, and while nobody reads, the provider waits.
Whatever goes wrong is the last event, never an exception.
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
    """Iterate it for events; `message` is what they have told so far."""

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
        self._told_end = False
        if order.signal is not None:
            order.signal.attach(self)

    # ── what is known ──

    @property
    def message(self) -> Message:
        """The answer as far as its events were handed out."""
        return self._fold.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation with the answer so far: what the next prompt goes on from."""
        content = self.message.content
        asked = self._order.request.turns
        return (*asked, Turn("assistant", content)) if content else asked

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was lost: of the request known with the first event, of the answer as it comes."""
        return (*self._notes.losses, *self._fold.losses)

    @property
    def model(self) -> str:
        """Who answers, as `provider/model`; known with the first event."""
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
        """Read what is left; return the whole message, with its `problem` if there is one."""
        async for _ in self:
            pass
        return self.message

    @property
    def ready(self) -> bool:
        """Whether an event can be had without waiting."""
        return bool(self._waiting) and (not self._aborted or self._over)

    @property
    def ended(self) -> bool:
        return self._over and not self._waiting

    def pop(self) -> ev.Event:
        """Hand out the next event, which must be there."""
        event = self._waiting.popleft()
        self._fold.feed(event)
        if not isinstance(event, ev.Finished | ev.Failed):
            return event
        self._told_end = True
        return msgspec.structs.replace(event, message=self._fold.message)

    async def fill(self) -> None:
        """Wait until there is an event to hand out, or until there will be none."""
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
        except Exception as error:  # noqa: BLE001  a fault of ours is a value like any other
            return self.fail(Problem("internal", f"{type(error).__name__}: {error}"))
        if self._aborted:
            return self.fail(Aborted(self._aborted).problem)
        if batch:
            return batch
        return self.fail(Truncated("the answer ended without an end").problem)

    async def _pull(self) -> Batch:
        # A task of its own, so that `abort` can end the wait without ending the one who waits.
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
        """Return the end of an answer that broke off, as events; nothing if it had its end."""
        self._over = True
        if self._told_end:
            return []
        if not self._fold.id:
            draft = Draft(Ids(os.urandom(16)))
            return draft.start(model=self._order.request.model) + draft.fail(problem)
        return [ev.Failed(problem)]

    # ── ending early ──

    def abort(self, why: str = ASKED) -> None:
        """End it: the next event is `Failed`, with all that was handed out before.

        May be called from any thread.
        """
        if self._aborted or self._over:
            return
        self._aborted = why
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and every socket with it
                self._loop.call_soon_threadsafe(self._cut)

    def settle(self, why: str) -> None:
        """End it without waiting, when the loop that it was read in is gone."""
        if not self._over:
            self._waiting = deque(self.fail(Aborted(why).problem))

    async def aclose(self, why: str = ASKED) -> None:
        """End it, and wait until its connection is closed."""
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

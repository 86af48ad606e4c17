"""An answer as a stream of events, for blocking callers.

A stream that is dropped half-read ends by itself: the loop closes a generator without references.
"""

from types import TracebackType
from typing import Self

from toolbridge.core import events as ev
from toolbridge.core.messages import Loss, Message, Turn
from toolbridge.sdk.streams.async_stream import AsyncStream
from toolbridge.sdk.streams.loop_thread import LoopClosed, LoopThread
from toolbridge.sdk.streams.signal import ASKED


class Stream:
    """One answer: iterate it for events; `message` is the answer so far."""

    def __init__(self, inner: AsyncStream, loop_thread: LoopThread, owner: object) -> None:
        self._inner = inner
        self._loop_thread = loop_thread
        # A client closes when it is garbage-collected; here `Client().stream(…)` keeps it alive.
        self._owner = owner

    @property
    def message(self) -> Message:
        """The message, folded from the events read so far."""
        return self._inner.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation with the answer so far, to continue from."""
        return self._inner.turns

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses: those of the request from the first event on, those of the answer as they occur."""
        return self._inner.losses

    @property
    def model(self) -> str:
        """The model that answers, as `provider/model`; known from the first event on."""
        return self._inner.model

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ev.Event:
        inner = self._inner
        if not inner.ready and not inner.ended:
            try:
                self._loop_thread.run(inner.fill())
            except LoopClosed:
                inner.settle("the client was closed")
        if inner.ended:
            raise StopIteration
        return inner.pop()

    def result(self) -> Message:
        """Read the rest; return the whole message, with its `problem` after a failure."""
        for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End the stream, from any thread: the next event is `Failed`, with the partial message."""
        self._inner.abort(why)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

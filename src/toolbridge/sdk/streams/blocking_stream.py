"""An answer as it comes, for callers that block.

One that is dropped half-way ends by itself: the loop closes a generator that nobody holds.
"""

from types import TracebackType
from typing import Self

from toolbridge.core import events as ev
from toolbridge.core.messages import Loss, Message, Turn
from toolbridge.sdk.streams.async_stream import AsyncStream
from toolbridge.sdk.streams.loop_thread import LoopClosed, LoopThread
from toolbridge.sdk.streams.signal import ASKED


class Stream:
    """Iterate it for events; `message` is what they have told so far."""

    def __init__(self, inner: AsyncStream, loop_thread: LoopThread, owner: object) -> None:
        self._inner = inner
        self._loop_thread = loop_thread
        # The client closes when nobody holds it any more. `Client().stream(…)` is held only here.
        self._owner = owner

    @property
    def message(self) -> Message:
        """The answer as far as its events were handed out."""
        return self._inner.message

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation with the answer so far: what the next prompt goes on from."""
        return self._inner.turns

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was lost: of the request known with the first event, of the answer as it comes."""
        return self._inner.losses

    @property
    def model(self) -> str:
        """Who answers, as `provider/model`; known with the first event."""
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
        """Read what is left; return the whole message, with its `problem` if there is one."""
        for _ in self:
            pass
        return self.message

    def abort(self, why: str = ASKED) -> None:
        """End it, from any thread: the next event is `Failed`, with all that came before."""
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

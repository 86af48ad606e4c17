"""Keep-alives for streams.

Clients time out after 60 to 300 seconds without data, and some of them ignore SSE comments. So an
empty event of the client's own API is sent whenever nothing was sent for an interval. There is one
timer per stream; sending data only changes a number.
"""

import asyncio
from collections.abc import Awaitable, Callable


async def _send_nothing() -> None:
    """Take the place of the `beat` of a stream that has ended."""


class KeepAlive:
    """Calls `beat` after `first` seconds without data, and then at every `interval`."""

    def __init__(
        self, beat: Callable[[], Awaitable[None]], *, first: float, interval: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._beat = beat
        self.interval = interval
        self.due = self._loop.time() + first
        """When the next keep-alive is sent; later each time that data is sent."""
        self._timer = self._loop.call_at(self.due, self._tick)
        self._beating: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Restart the interval, because data was sent."""
        self.due = self._loop.time() + self.interval

    def stop(self) -> None:
        """Send no more keep-alives. The stream that owned this one is freed with its last use."""
        self._timer.cancel()
        self._beat = _send_nothing
        if self._beating is not None:
            self._beating.cancel()

    def _tick(self) -> None:
        if self._loop.time() + 0.001 >= self.due:
            self.touch()
            if self._beating is None or self._beating.done():
                self._beating = self._loop.create_task(self._send())
        self._timer = self._loop.call_at(self.due, self._tick)

    async def _send(self) -> None:
        await self._beat()

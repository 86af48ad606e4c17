"""A sign of life for clients that count silence.

Clients give up after sixty to three hundred seconds without a byte, and not all of them count a
comment as one. A pulse sends an empty event of the client's own API whenever nothing was sent for a
while. One timer per stream; a busy stream only moves a number.
"""

import asyncio
from collections.abc import Awaitable, Callable


class KeepAlive:
    def __init__(
        self, beat: Callable[[], Awaitable[None]], *, first: float, interval: float
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._beat = beat
        self._interval = interval
        self._due = self._loop.time() + first
        self._timer = self._loop.call_at(self._due, self._tick)
        self._beating: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Something was sent: silence begins anew."""
        self._due = self._loop.time() + self._interval

    def stop(self) -> None:
        self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()

    def _tick(self) -> None:
        if self._loop.time() + 0.001 >= self._due:
            self.touch()
            if self._beating is None or self._beating.done():
                self._beating = self._loop.create_task(self._send())
        self._timer = self._loop.call_at(self._due, self._tick)

    async def _send(self) -> None:
        await self._beat()

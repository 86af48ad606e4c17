"""Keep-alives for streams.

Clients time out after 60 to 300 seconds without data, and some of them ignore SSE comments. So an
empty event of the client's own API is sent whenever nothing was sent for an interval. Sending data
only changes a number, and all streams of a gateway share one timer: most of them end long before it.
"""

import asyncio
from collections.abc import Awaitable, Callable

_LEAST = 0.02
"""Seconds between two ticks of a timer."""


class KeepAliveTimer:
    """The timer of any number of streams: that of the keep-alive that is due first."""

    _timer: asyncio.TimerHandle | None = None
    _at = 0.0
    now: Callable[[], float]
    """The time of the event loop."""

    def __init__(self) -> None:
        self._pulses: set[Pulse] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, pulse: "Pulse", seconds: float) -> None:
        """Let `pulse` beat in `seconds`, if it sends no data before."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self.now = self._loop.time
        pulse.due = due = self.now() + seconds
        self._pulses.add(pulse)
        if self._timer is None or due < self._at:
            self._set(self._loop, due)

    def discard(self, pulse: "Pulse") -> None:
        self._pulses.discard(pulse)

    def _set(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = loop.call_at(at, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time() + 0.001
        for pulse in self._pulses:
            if now >= pulse.due:
                pulse.start_beat(loop)
        if self._pulses:
            # A tick goes through all streams, so thousands of silent ones share a tick.
            self._set(loop, max(min(pulse.due for pulse in self._pulses), now + _LEAST))


class Pulse:
    """A stream with keep-alives: `beat` is called when none and no data was sent for `interval`."""

    due = 0.0
    """When the next keep-alive is sent; later each time that data is sent."""
    interval = 0.0
    timer: KeepAliveTimer
    _beating: asyncio.Task[None] | None = None

    def touch(self) -> None:
        """Restart the interval, because data was sent."""
        self.due = self.timer.now() + self.interval

    def start_beat(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send a keep-alive, unless the last one is still being sent."""
        self.touch()
        if self._beating is None or self._beating.done():
            self._beating = loop.create_task(self.beat())

    def stop(self) -> None:
        """Send no more keep-alives."""
        self.timer.discard(self)
        if self._beating is not None:
            self._beating.cancel()

    async def beat(self) -> None:
        """Send a keep-alive."""
        raise NotImplementedError


class KeepAlive(Pulse):
    """Calls `beat` after `first` seconds without data, and then at every `interval`."""

    def __init__(
        self, beat: Callable[[], Awaitable[None]], *, first: float, interval: float
    ) -> None:
        self._beat = beat
        self.interval = interval
        self.timer = KeepAliveTimer()
        self.timer.add(self, first)

    async def beat(self) -> None:
        await self._beat()

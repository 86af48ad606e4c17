"""A timer for deadlines that move often and rarely expire, such as that of an idle connection."""

import asyncio
from collections.abc import Callable


def _nothing() -> None:
    """Take the place of `expire` after the end."""


class Deadline:
    """Calls `expire` at the deadline; moving the deadline later does not touch the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[], None]) -> None:
        self._loop = loop
        self._expire = expire
        self.due: float | None = None
        """When it expires, by the event loop; None while there is no deadline."""
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def set(self, seconds: float) -> None:
        self.due = self._loop.time() + seconds
        if self._timer is None or self._at > self.due:
            self._arm(self.due)

    def clear(self) -> None:
        self.due = None

    def stop(self) -> None:
        self.due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Stop for good, without a reference to the owner."""
        self.stop()
        self._expire = _nothing

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.due is None:
            return
        if self._loop.time() >= self.due:
            self.due = None
            self._expire()
        else:
            self._arm(self.due)

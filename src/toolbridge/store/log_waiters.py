"""Wakes the readers of a log when this process appends to it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

LogName: TypeAlias = tuple[str, str]
"""The scope and the key of a log."""


class LogSignal:
    """Set when entries were appended; one reader waits for it."""

    def __init__(self) -> None:
        self._set = asyncio.Event()
        self.set = self._set.set

    async def wait(self, seconds: float) -> bool:
        """Return whether it was set within this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._set.wait()
        except TimeoutError:
            return False
        return True


class LogWaiters:
    """The waiting readers of a process."""

    def __init__(self) -> None:
        self._signals: dict[LogName, set[LogSignal]] = {}

    @contextmanager
    def waiting(self, log: LogName) -> Iterator[LogSignal]:
        """Register a reader, before it reads: what is appended after that sets the signal."""
        signal = LogSignal()
        self._signals.setdefault(log, set()).add(signal)
        try:
            yield signal
        finally:
            self._signals[log].discard(signal)
            if not self._signals[log]:
                del self._signals[log]

    def wake(self, log: LogName) -> None:
        for signal in self._signals.get(log, ()):
            signal.set()

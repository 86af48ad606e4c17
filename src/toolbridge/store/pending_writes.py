"""Writes that a server could not take while it was away, in their order, to be done when it is back.

Their number and size are bounded. When there is no room, the write is left out and counted: the value
is in the memory of this process, and other processes do not find it.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from toolbridge.store.notices import notice
from toolbridge.store.redis_scripts import LuaScript
from toolbridge.store.redis_server import RunScript, Value

MOST = 20_000
MOST_BYTES = 32 * 1024 * 1024


class PendingWrite(NamedTuple):
    """A script with its arguments after the time, and when the value ends."""

    script: LuaScript
    keys: Sequence[str]
    args: Sequence[Value]
    ends: float
    """Seconds since the epoch."""

    @property
    def size(self) -> int:
        return sum(len(arg) for arg in self.args if isinstance(arg, bytes))

    @property
    def milliseconds(self) -> int:
        return round((self.ends - time.time()) * 1000)


class PendingWrites:
    """A bounded queue."""

    def __init__(self) -> None:
        self._queue: deque[PendingWrite] = deque()
        self._bytes = 0
        self._left_out = 0

    def add(self, write: PendingWrite) -> bool:
        """Queue a write; return false if there is no room."""
        if len(self._queue) >= MOST or self._bytes + write.size > MOST_BYTES:
            self._left_out += 1
            return False
        self._queue.append(write)
        self._bytes += write.size
        return True

    async def replay(self, run: RunScript) -> None:
        """Do the writes whose values have not ended; raise `StoreUnavailable`, and keep the rest."""
        while self._queue:
            write = self._queue[0]
            if (left := write.milliseconds) > 0:
                await run(write.script, write.keys, [left, *write.args])
            self._queue.popleft()
            self._bytes -= write.size
        if self._left_out:
            notice(f"{self._left_out} values were not written to the store while it was away")
            self._left_out = 0

"""Turns of the event loop for requests that take long to decode and prepare.

One step of the event loop delays every other stream of the process. A large request is therefore
decoded and prepared in steps (`core/steps.py`), and other tasks run whenever the steps have taken a
millisecond. Threads would not do: each time the event loop waits for the network it gives the
interpreter away, and then it waits for the thread.
"""

import asyncio
from time import perf_counter
from typing import TypeVar

from toolbridge.core.steps import Steps

T = TypeVar("T")

LARGE = 32 * 1024
"""Bytes of a request that is decoded and prepared in several turns."""
_LONGEST = 0.001
"""Seconds of one turn; the step that exceeds them is the last one of it."""


class _LastTurn:
    """The turn in which the steps of a large request were taken last."""

    began = -_LONGEST


async def next_turn() -> None:
    """Let the tasks run whose data has arrived."""
    # In the first turn the event loop reads from its connections, which wakes tasks; they run in
    # the second one before this task does.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    _LastTurn.began = perf_counter()


async def in_turns(steps: Steps[T]) -> T:
    """Take `steps`, beginning in a new turn unless this one has just begun; return their result."""
    while True:
        until = _LastTurn.began + _LONGEST
        while perf_counter() < until:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
        await next_turn()

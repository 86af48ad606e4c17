"""Runs plain functions in daemon threads beside the event loop.

A thread cannot be stopped from outside, so one that never ends occupies one of `most` slots for
ever. But neither the loop nor the exit of the process waits for it, because the threads are daemons;
those of `asyncio.to_thread` are not.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

MOST = 64


class Threads:
    def __init__(self, most: int = MOST) -> None:
        self._free = asyncio.Semaphore(most)

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`; wait for a slot if all are busy."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        inside = contextvars.copy_context()

        def settle(value: T | None, error: BaseException | None) -> None:
            self._free.release()
            if answer.done():  # the caller was cancelled
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(value)  # type: ignore[arg-type]  # without an error there is a value

        def body() -> None:
            value, error = None, None
            try:
                value = inside.run(work)
            except BaseException as caught:  # noqa: BLE001  raised again in the caller
                error = _raisable(caught)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, value, error)

        try:
            threading.Thread(target=body, name="toolbridge-tool", daemon=True).start()
        except RuntimeError:  # the system has no more threads
            self._free.release()
            raise
        return await answer


def _raisable(error: BaseException) -> BaseException:
    """Return `error` in a form that a future accepts and that does not end the process."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")

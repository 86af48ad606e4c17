"""Plain functions beside the event loop.

A thread cannot be stopped from outside. One that never ends therefore costs a place among `most`
for ever, but neither the loop nor the end of the process waits for it: the threads are daemons,
which those of `asyncio.to_thread` are not.
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
        """Return what `work` returns; wait for a place if all are taken."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        inside = contextvars.copy_context()

        def tell(value: T | None, error: BaseException | None) -> None:
            self._free.release()
            if answer.done():  # nobody waits any more
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(value)  # type: ignore[arg-type]  # there is one where no error is

        def body() -> None:
            value, error = None, None
            try:
                value = inside.run(work)
            except BaseException as caught:  # noqa: BLE001  whatever it is, the caller raises it
                error = _raisable(caught)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, value, error)

        try:
            threading.Thread(target=body, name="toolbridge-tool", daemon=True).start()
        except RuntimeError:  # the system has no more threads to give
            self._free.release()
            raise
        return await answer


def _raisable(error: BaseException) -> BaseException:
    """Return `error` as a future takes it, and so that no tool can end the process."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")

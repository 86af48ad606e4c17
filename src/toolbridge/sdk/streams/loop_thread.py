"""An event loop in a background thread, for the blocking API.

`asyncio.Runner` cannot be used inside a running loop, so it fails in notebooks, and it would close
kept-alive connections between calls.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


class LoopClosed(RuntimeError):
    """The client was closed, or its loop did not start."""


class LoopThread:
    """A loop and its thread: started with the first `run`, ended by `close`."""

    def __init__(self, last: Callable[[], Awaitable[None]]) -> None:
        self._last = last
        """Awaited before the loop ends."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave: asyncio.Event | None = None
        self._closed = False
        self._pid = 0
        """The process that has the thread."""

    @property
    def _is_forked(self) -> bool:
        return self._thread is not None and self._pid != os.getpid()

    def wait(self, value: Awaitable[T]) -> T:
        """Await any awaitable in the loop; return its result."""
        return self.run(_awaited(value))

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run `work` in the loop and wait for it; raise `LoopClosed` after `close`."""
        try:
            loop = self._started()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:  # also Ctrl-C: the result is not needed any more
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise LoopClosed("the client is closed")
            if self._thread is threading.current_thread():
                raise RuntimeError("a blocking client cannot be used inside its own tools")
            if self._is_forked:
                raise RuntimeError(
                    "the client was used before this process was forked, and threads are not copied; "
                    "make a new client in the child process"
                )
            if self._thread is None:
                self._pid = os.getpid()
                ready = threading.Event()
                self._thread = threading.Thread(
                    target=self._serve, args=(ready,), name="toolbridge", daemon=True
                )
                self._thread.start()
                ready.wait()
            if self._loop is None:
                raise LoopClosed("the client's loop did not start")
            return self._loop

    def _serve(self, ready: threading.Event) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._live(ready))
        finally:
            ready.set()

    async def _live(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._leave = asyncio.Event()
        ready.set()
        await self._leave.wait()
        await self._last()

    def close(self) -> None:
        """End the loop and wait for its thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._thread is None or self._loop is None or self._leave is None or self._is_forked:
            return
        self._loop.call_soon_threadsafe(self._leave.set)
        if self._thread is not threading.current_thread():
            self._thread.join()


async def _awaited(value: Awaitable[T]) -> T:
    return await value

"""Writes to sockets that wait for the end of a turn of the event loop.

A turn of a busy gateway serves dozens of requests. The kernel's code for a write, and the process
that it wakes, take the place of the gateway's own code in the caches of the processor. One write
after the other at the end of the turn costs a fifth less than a write within each request:
docs/decisions/0048-writes-at-the-end-of-a-turn.md. What must be on the disk before the bytes leave is
written then as well, for all requests of the turn: `before_writes`.
"""

import asyncio
from collections.abc import Callable

LARGE = 32 * 1024
"""Bytes of a connection that do not wait: flow control must know of them, and their copy costs more
than the write."""


_works: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
"""Event loop → the work before its next write; empty for most turns."""


def before_writes(work: Callable[[], None]) -> None:
    """Call `work` once, before any connection of this event loop is written to.

    It is called at the end of the turn at the latest. Bytes that are sent without `TurnWrites` do not
    wait for it.
    """
    loop = asyncio.get_running_loop()
    if (works := _works.get(loop)) is not None:
        works.append(work)
        return
    _works[loop] = [work]
    loop.call_soon(_prepare, loop)


def _prepare(loop: asyncio.AbstractEventLoop) -> None:
    while works := _works.pop(loop, None):
        for work in works:
            try:
                work()
            except Exception as error:  # noqa: BLE001  the connections get their bytes
                what = "work before the writes of a turn failed"
                loop.call_exception_handler({"message": what, "exception": error})


class TurnWrites:
    """What waits for the end of the turn; a connection gets all of it in one write."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self) -> None:
        self._waiting: dict[asyncio.WriteTransport, list[bytes]] = {}
        self._sizes: dict[asyncio.WriteTransport, int] = {}
        """The bytes that wait for a connection, if they are several pieces."""

    def add(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write `data` after what the event loop does now; at once if much would wait then."""
        waiting = self._waiting
        if transport in waiting:
            pieces = waiting[transport]
            size = self._sizes.get(transport, len(pieces[0])) + len(data)
            pieces.append(data)
            if size < LARGE:
                self._sizes[transport] = size
                return
            del waiting[transport]
            self._sizes.pop(transport, None)
            self._write_now(transport, pieces)
        elif len(data) >= LARGE:
            self._write_now(transport, [data])
        else:
            if not waiting:
                loop = self._loop
                if loop is None:
                    loop = self._loop = asyncio.get_running_loop()
                loop.call_soon(self.flush)
            waiting[transport] = [data]

    def push(self, transport: asyncio.WriteTransport, data: bytes) -> None:
        """Write `data` after what waits, as `add` does; at once if nothing waits.

        For what a delivery of the network causes: uvloop writes that after the deliveries of the
        turn.
        """
        if self._waiting or _works:
            self.add(transport, data)
        elif not transport.is_closing():
            try:
                transport.write(data)
            except Exception as error:  # noqa: BLE001  the provider's connection gets no error
                _end(transport, error)

    def flush(self) -> None:
        """Write now what waits; call it before a transport is closed or used in another way."""
        if not self._waiting:
            return
        if _works and self._loop is not None:
            _prepare(self._loop)
        waiting, self._waiting = self._waiting, {}
        if self._sizes:
            self._sizes = {}
        _write(waiting)

    def _write_now(self, transport: asyncio.WriteTransport, pieces: list[bytes]) -> None:
        if _works:
            _prepare(asyncio.get_running_loop())
        _write({transport: pieces})


def _write(waiting: dict[asyncio.WriteTransport, list[bytes]]) -> None:
    for transport, pieces in waiting.items():
        # uvloop raises for a write to a transport that was closed meanwhile.
        if transport.is_closing():
            continue
        try:
            if len(pieces) == 1:
                transport.write(pieces[0])
            else:
                transport.writelines(pieces)
        except Exception as error:  # noqa: BLE001  the other connections get their bytes
            _end(transport, error)


def _end(transport: asyncio.WriteTransport, error: Exception) -> None:
    transport.abort()
    what = "a write at the end of a turn failed; its connection was closed"
    asyncio.get_running_loop().call_exception_handler(
        {"message": what, "exception": error, "transport": transport}
    )

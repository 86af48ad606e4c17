"""Accepts the connections of a socket that several workers share, each its part of them.

A worker that has more connections than another one leaves a new one to the others for a millisecond.
If it is still there after that, they are busy, and the worker accepts it.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable

_PATIENCE = 0.001
"""Seconds for which a connection is left to workers that have fewer."""
_PAUSE = 1.0
"""Seconds until the next try after a fault of the system, such as too many open files."""


class FairAcceptor:
    """Accepts connections of one listening socket for one worker."""

    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[], asyncio.Protocol],
        may_accept: Callable[[int], bool],
        *,
        context: ssl.SSLContext | None = None,
        handshake: float | None = None,
    ) -> None:
        """`may_accept` gets the number of connections that are not open yet."""
        self._listener = listener
        self._connect = connect
        self._may_accept = may_accept
        self._context = context
        self._handshake = handshake
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        """TLS handshakes, and connections of this turn of the event loop."""
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False
        self._watch()

    @property
    def is_opening(self) -> bool:
        """Whether connections were accepted and are not open yet."""
        return bool(self._opening)

    def close(self) -> None:
        """Accept nothing more."""
        if self._closed:
            return
        self._closed = True
        if self._pause is None:
            self._loop.remove_reader(self._listener.fileno())
        else:
            self._pause.cancel()

    async def wait_opened(self) -> None:
        """Wait until what was accepted is open; TLS handshakes take longer, and are not waited for."""
        if self._opening and self._context is None:
            await asyncio.wait(self._opening)

    def _watch(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._notice)

    def _notice(self) -> None:
        if self._may_accept(len(self._opening)):
            self._accept()
        else:
            self._wait(_PATIENCE, self._accept_left)

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._pause = self._loop.call_later(seconds, then)

    def _accept_left(self) -> None:
        self._watch()
        self._accept()

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker has it, or the client has left
        except OSError as error:
            what = f"a connection could not be accepted; the next try is in {_PAUSE:g} s"
            self._loop.call_exception_handler({"message": what, "exception": error})
            self._wait(_PAUSE, self._watch)
            return
        accepted.setblocking(False)
        task = self._loop.create_task(self._open(accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._connect, accepted, ssl=self._context, ssl_handshake_timeout=self._handshake
            )
        except OSError:  # the client has left, or its handshake failed or took too long
            accepted.close()

"""Streamed responses: headers with the first bytes, keep-alives in between, one end."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from toolbridge.core.codec import Encoder
from toolbridge.routing.sources import Batch
from toolbridge.server.http import HttpExchange
from toolbridge.server.keep_alive import KeepAlive


class Writer(Protocol):
    """Makes the bytes of a streamed response."""

    def write(self, batch: Batch) -> bytes: ...
    def close(self) -> bytes: ...
    def keep_alive(self) -> bytes:
        """Return an empty event of the client's API."""
        ...


class TranslatedWriter:
    """Encodes events in the client's API."""

    def __init__(self, encoder: Encoder) -> None:
        self._feed = encoder.feed
        self._close = encoder.close
        self.keep_alive = encoder.keep_alive

    def write(self, batch: Batch) -> bytes:
        feed = self._feed
        if len(batch) == 1:
            return b"".join(feed(batch[0]))
        written: list[bytes] = []
        for event in batch:
            written += feed(event)
        return b"".join(written)

    def close(self) -> bytes:
        return b"".join(self._close())


class StreamReply:
    """Writes a stream to the client.

    Status and headers are sent after the provider's own status, so that a failure before the first
    byte can still be an error response; or with the first keep-alive, if that comes earlier.
    """

    def __init__(
        self, exchange: HttpExchange, content_type: str, writer: Writer, waits: tuple[float, float]
    ) -> None:
        self._exchange = exchange
        self._content_type = content_type
        self._writer = writer
        self.opened = False
        self.may_change_model: Callable[[], bool] = lambda: False
        """Returns whether another model may still answer instead of the one in the headers."""
        if exchange.tap is not None:
            exchange.tap.beat = self._beat
        self._now = asyncio.get_running_loop().time
        first, interval = waits
        self._pulse = KeepAlive(self._beat, first=first, interval=interval)
        self.opens_at = self._pulse.due
        """When status and headers are sent at the latest, by the event loop."""

    async def write(self, piece: bytes) -> None:
        """Send bytes; wait while the write buffer is full."""
        if not self.opened:
            await self._open()
        if piece:
            self._pulse.touch()
            await self._exchange.write(piece)
        else:
            await self._exchange.drained()

    def push(self, piece: bytes) -> bool:
        """Send bytes after the first ones at once; return whether the client reads fast enough."""
        if not piece:
            return True
        pulse = self._pulse
        pulse.due = self._now() + pulse.interval  # `touch`, without a call per chunk
        return self._exchange.push(piece)

    async def finish(self) -> None:
        self._pulse.stop()
        if not self.opened:
            await self._open()
        await self._exchange.finish()

    def stop(self) -> None:
        """Stop keep-alives and leave the response unfinished; the connection will be closed."""
        self._pulse.stop()

    async def _open(self) -> None:
        self.opened = True
        closes = self._exchange.header("connection").lower() == "close"
        await self._exchange.start(
            200,
            {
                "content-type": self._content_type,
                "cache-control": "no-cache",
                **({} if closes else {"connection": "keep-alive"}),
                "x-accel-buffering": "no",
            },
        )

    async def _beat(self) -> None:
        if self._exchange.tap is not None:
            self._exchange.tap.note_beat()
        if not self.opened and self.may_change_model():
            self._exchange.extra_headers.pop("x-toolbridge-model", None)
        await self.write(self._writer.keep_alive())

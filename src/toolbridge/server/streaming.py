"""A streamed reply: opened when there is something to say, kept alive in silence, ended once."""

from typing import Protocol

from toolbridge.core.codec import Encoder
from toolbridge.routing.sources import Batch
from toolbridge.server.http import HttpExchange
from toolbridge.server.keep_alive import KeepAlive


class Writer(Protocol):
    """Makes the bytes of a streamed reply."""

    def write(self, batch: Batch) -> bytes: ...
    def close(self) -> bytes: ...
    def keep_alive(self) -> bytes:
        """Return an empty event: something for a client to read in silence."""
        ...


class TranslatedWriter:
    """Encodes events in the client's API."""

    def __init__(self, encoder: Encoder) -> None:
        self._feed = encoder.feed
        self._close = encoder.close
        self.keep_alive = encoder.keep_alive

    def write(self, batch: Batch) -> bytes:
        feed = self._feed
        written: list[bytes] = []
        for event in batch:
            written += feed(event)
        return b"".join(written)

    def close(self) -> bytes:
        return b"".join(self._close())


class StreamReply:
    """Writes a stream to the client.

    Status and headers wait for the upstream's own status, so that a failure before the first byte
    can still be one in the client's envelope; but not for ever.
    """

    def __init__(
        self, exchange: HttpExchange, content_type: str, writer: Writer, waits: tuple[float, float]
    ) -> None:
        self._exchange = exchange
        self._content_type = content_type
        self._writer = writer
        self.opened = False
        first, interval = waits
        self._pulse = KeepAlive(self._beat, first=first, interval=interval)

    async def write(self, piece: bytes) -> None:
        """Send a piece, and wait while the client is slow."""
        if not self.opened:
            await self._open()
        if piece:
            self._pulse.touch()
            await self._exchange.write(piece)

    async def finish(self) -> None:
        self._pulse.stop()
        if not self.opened:
            await self._open()
        await self._exchange.finish()

    def stop(self) -> None:
        """Leave the reply as it is: the connection closes without a clean end."""
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
        await self.write(self._writer.keep_alive())

"""A streamed reply: opened when there is something to say, kept alive in silence, ended once."""

from toolbridge.core.codec import Codec, Encoder
from toolbridge.server.http import Exchange
from toolbridge.server.pulse import Pulse


class StreamReply:
    """Writes a stream to the client.

    Status and headers wait for the upstream's own status, so that a failure before the first byte
    can still be one in the client's envelope; but not for ever.
    """

    def __init__(
        self, exchange: Exchange, codec: Codec, encoder: Encoder, waits: tuple[float, float]
    ) -> None:
        self._exchange = exchange
        self._codec = codec
        self._encoder = encoder
        self.headers: dict[str, str] = {}
        self.opened = False
        first, interval = waits
        self._pulse = Pulse(self._beat, first=first, interval=interval)

    async def write(self, piece: bytes) -> None:
        """Send a piece, and wait while the client is slow."""
        if not self.opened:
            await self._open()
        self._pulse.touch()
        if piece:
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
                "content-type": self._codec.content_type,
                "cache-control": "no-cache",
                **({} if closes else {"connection": "keep-alive"}),
                "x-accel-buffering": "no",
                **self.headers,
            },
        )

    async def _beat(self) -> None:
        await self.write(self._encoder.keep_alive())

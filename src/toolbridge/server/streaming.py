"""Streamed responses: headers with the first bytes, keep-alives in between, one end."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from toolbridge.core import events as ev
from toolbridge.core.codec import Encoder
from toolbridge.routing.attempts import BatchSink
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
        # Not a method of its own: a cycle would keep the request in memory after its answer.
        feed_all = getattr(encoder, "feed_all", None) or partial(_each, encoder.feed)
        self._feed_all: Callable[[Batch], list[bytes]] = feed_all
        self._close = encoder.close
        self.keep_alive = encoder.keep_alive

    def write(self, batch: Batch) -> bytes:
        return b"".join(self._feed_all(batch))

    def close(self) -> bytes:
        return b"".join(self._close())


def _each(feed: Callable[[ev.Event], list[bytes]], batch: Batch) -> list[bytes]:
    """Encode events one by one, for an encoder without `feed_all`."""
    return [data for event in batch for data in feed(event)]


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

    def sink(self, note: Callable[[Batch], None], write: Callable[[Batch], bytes]) -> BatchSink:
        """Return what passes events after the first ones to `note`, and sends what `write` makes.

        It returns False if the client reads too slowly.
        """
        pulse, interval, now, send = (
            self._pulse,
            self._pulse.interval,
            self._now,
            self._exchange.push,
        )

        def push(batch: Batch) -> bool:
            note(batch)
            piece = write(batch)
            if not piece:
                return True
            pulse.due = now() + interval  # `touch`, without a call per chunk
            return send(piece)

        return push

    async def finish(self, rest: bytes = b"") -> None:
        """Write the rest of the answer, and end the response."""
        if rest:
            await self.write(rest)
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

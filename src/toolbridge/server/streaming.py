"""Streamed responses: headers with the first bytes, keep-alives in between, one end."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from typing_extensions import override

from toolbridge.core import events as ev
from toolbridge.core.codec import Encoder
from toolbridge.routing.attempts import BatchSink
from toolbridge.routing.failover import AnswerChain
from toolbridge.routing.sources import Batch
from toolbridge.server.http import HttpExchange
from toolbridge.server.keep_alive import KeepAliveTimer, Pulse


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
        self.encode: Callable[[Batch], list[bytes]] = getattr(encoder, "feed_all", None) or partial(
            _each, encoder.feed
        )
        self._encoder = encoder

    def write(self, batch: Batch) -> bytes:
        return b"".join(self.encode(batch))

    def close(self) -> bytes:
        return b"".join(self._encoder.close())

    def keep_alive(self) -> bytes:
        return self._encoder.keep_alive()


def _each(feed: Callable[[ev.Event], list[bytes]], batch: Batch) -> list[bytes]:
    """Encode events one by one, for an encoder without `feed_all`."""
    return [data for event in batch for data in feed(event)]


class StreamReply(Pulse):
    """Writes a stream to the client, with keep-alives until `stop`.

    Status and headers are sent after the provider's own status, so that a failure before the first
    byte can still be an error response; or with the first keep-alive, if that comes earlier.
    """

    opened = False
    chain: AnswerChain | None = None
    """The answer, whose model may still change while nothing was sent."""

    def __init__(
        self,
        exchange: HttpExchange,
        content_type: str,
        writer: Writer,
        waits: tuple[float, float],
        timer: KeepAliveTimer,
    ) -> None:
        self._exchange = exchange
        self._content_type = content_type
        self._writer = writer
        if exchange.tap is not None:
            exchange.tap.beat = self.beat
        first, self.interval = waits
        self.timer = timer
        timer.add(self, first)  # `due` is now when status and headers are sent at the latest

    @property
    def may_send_whole(self) -> bool:
        """Whether `finish` can send status, headers and the whole answer together."""
        exchange = self._exchange
        return not self.opened and exchange.may_push and exchange.tap is None

    async def write(self, piece: bytes) -> None:
        """Send bytes; wait while the write buffer is full."""
        if not self.opened:
            await self._open()
        if piece:
            self.touch()
            await self._exchange.write(piece)
        else:
            await self._exchange.drained()

    def sink(
        self, note: Callable[[Batch], None], encode: Callable[[Batch], list[bytes]]
    ) -> BatchSink:
        """Return what passes events after the first ones to `note`, and sends what `encode` makes.

        It returns False if the client reads too slowly.
        """
        interval, now, send = self.interval, self.timer.now, self._exchange.pusher()

        def push(batch: Batch) -> bool:
            note(batch)
            piece = b"".join(encode(batch))
            if not piece:
                return True
            self.due = now() + interval  # `touch`, without a call per chunk
            return send(piece)

        return push

    async def finish(self, rest: bytes = b"") -> None:
        """Write the rest of the answer, and end the response."""
        if self.may_send_whole:
            self.opened = True
            await self._exchange.send_whole(200, self._headers(), rest)
            return
        if rest:
            await self.write(rest)
        elif not self.opened:
            await self._open()
        await self._exchange.finish()

    async def _open(self) -> None:
        self.opened = True
        await self._exchange.start(200, self._headers())

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": self._content_type, "cache-control": "no-cache"}
        if self._exchange.head.headers.get(b"connection", b"").lower() != b"close":
            headers["connection"] = "keep-alive"
        headers["x-accel-buffering"] = "no"
        return headers

    @override
    async def beat(self) -> None:
        exchange, chain = self._exchange, self.chain
        if exchange.tap is not None:
            exchange.tap.note_beat()
        if not self.opened and chain is not None and chain.attempts.has_next:
            exchange.extra_headers.pop("x-toolbridge-model", None)
        await self.write(self._writer.keep_alive())

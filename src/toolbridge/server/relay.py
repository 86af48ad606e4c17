"""Same API on both sides: the bytes pass untouched, and a copy is read for the account.

Only the model's name and the key are changed. Everything else (fields and headers that we have
never heard of, signatures that are bound to the exact history) must arrive as it was sent.
"""

import os

import msgspec

from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.codec import Asked, Encoder
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Message, Request
from toolbridge.server.http import Exchange
from toolbridge.server.streaming import StreamReply
from toolbridge.switchboard.refusals import is_page, rejected
from toolbridge.switchboard.roster import Route
from toolbridge.switchboard.sources import send
from toolbridge.upstream.http import Incoming, Upstream

_OPEN_LIST = (b"anthropic-", b"x-goog-", b"openai-")
_BACK = ("retry-after", "x-should-retry", "content-type")
_PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/chat/completions",
    "openai_responses": "/responses",
}
_NUMBERED = frozenset({"openai_responses"})
"""APIs whose events are numbered: one that we add makes the upstream's own numbers wrong."""
_COMMENT = b": still here\n\n"
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Relay:
    def __init__(self, upstream: Upstream, config: Config, route: Route) -> None:
        self._upstream = upstream
        self._config = config
        self._route = route
        self._carried = False
        """Whether the client has got any of the upstream's own bytes."""

    async def carry(self, exchange: Exchange, body: bytes, asked: Asked) -> Message:
        """Carry a request there and its answer back; return what the answer said."""
        codec = self._route.codec
        encoder = codec.stream_encoder(asked)
        if codec.name in _NUMBERED:
            encoder = _Unnumbered(encoder)
        waits = (self._config.first_byte, self._config.keep_alive)
        reply = StreamReply(exchange, codec, encoder, waits) if asked.request.stream else None
        try:
            incoming = await send(
                self._upstream,
                self._route,
                _path(exchange, asked.request, self._route),
                rename_model(body, self._route.target.model),
                _forwarded(exchange),
            )
            try:
                return await self._answer(exchange, incoming, reply)
            finally:
                await incoming.release()
        except ToolbridgeError as error:
            if reply is None or not reply.opened:
                raise
            failed = ev.Failed(error.problem, Message(problem=error.problem))
            if self._carried and codec.name in _NUMBERED:
                return failed.message  # hanging up is all that can be said without a number
            await reply.write(b"".join(encoder.feed(failed)))
            return failed.message
        finally:
            if reply is not None:
                reply.stop()

    async def _answer(
        self, exchange: Exchange, incoming: Incoming, reply: StreamReply | None
    ) -> Message:
        headers = {name: incoming.headers[name] for name in _BACK if name in incoming.headers}
        headers |= {k: v for k, v in incoming.headers.items() if k.lower().startswith("anthropic-")}
        if incoming.status >= 400 or reply is None:
            whole = await incoming.read_whole()
            if is_page(whole):
                raise rejected(incoming, whole, self._route)
            await exchange.reply(incoming.status, whole, headers)
            return self._read([whole])
        decoder = self._route.codec.stream_decoder(Ids(os.urandom(16)))
        reply.headers = headers
        last: list[ev.Event] = []
        while piece := await incoming.read():
            self._carried = True
            await reply.write(piece)
            last = decoder.feed(piece) or last
        last = decoder.close() or last
        await reply.finish()
        return _message(last)

    def _read(self, pieces: list[bytes]) -> Message:
        decoder = self._route.codec.stream_decoder(Ids(os.urandom(16)))
        events = [event for piece in pieces for event in decoder.feed(piece)]
        return _message(events + decoder.close())


class _Unnumbered:
    """An encoder whose signs of life are comments, which have no number."""

    def __init__(self, encoder: Encoder) -> None:
        self.feed = encoder.feed
        self.close = encoder.close

    def keep_alive(self) -> bytes:
        return _COMMENT


def _path(exchange: Exchange, request: Request, route: Route) -> str:
    if route.place.api == "gemini":
        method = "streamGenerateContent" if request.stream else "generateContent"
        sse = "" if "alt" in request.extra or not request.stream else "?alt=sse"
        return f"/v1beta/models/{route.target.model}:{method}{sse}"
    return _PATHS.get(route.place.api, exchange.path)


def rename_model(body: bytes, model: str) -> bytes:
    """Return `body` with another model in it and every other member as it was, byte for byte."""
    members = _members.decode(body)
    if "model" in members:
        members["model"] = msgspec.Raw(dump_bytes(model))
    return msgspec.json.encode(members)


def _forwarded(exchange: Exchange) -> dict[str, str]:
    found = exchange.headers_like(_OPEN_LIST)
    found.pop("x-goog-api-key", None)
    return found


def _message(events: list[ev.Event]) -> Message:
    last = events[-1] if events else None
    return last.message if isinstance(last, ev.Finished | ev.Failed) else Message()

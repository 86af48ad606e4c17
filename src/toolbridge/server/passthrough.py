"""The client side of passthrough: the path, body and headers of the request, and the response.

`routing/passthrough.py` is the provider side: it reads the answer and decides which bytes may be
forwarded.
"""

from collections.abc import Mapping

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.codec import Encoder, NumberedEncoder
from toolbridge.core.messages import Request
from toolbridge.environment import CALLER
from toolbridge.routing.passthrough import (
    Framing,
    PassedBytes,
    PassthroughRequest,
    ProviderReply,
    passthrough_body,
)
from toolbridge.routing.providers import passes_through
from toolbridge.routing.request_corrections import RequestCorrections
from toolbridge.routing.route import Route
from toolbridge.routing.sources import Batch, HttpRequest, ProviderConnections
from toolbridge.routing.translated import ClientSide
from toolbridge.server.client_turn import ClientTurn
from toolbridge.server.http import HttpExchange
from toolbridge.server.streaming import TranslatedWriter
from toolbridge.wire.url_path import quote_path

_PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/chat/completions",
    "openai_responses": "/responses",
}
_UNTRANSLATED = {"ollama": "/api/generate"}
"""Endpoints whose requests have no equivalent in the chat endpoint: raw prompts, suffixes, contexts."""
_REJECTION_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")
_COMMENT = b": still here\n\n"


def is_passed_through(exchange: HttpExchange, api: str, route: Route) -> bool:
    """Return whether a client of `api` gets the provider's own bytes at this path."""
    if route.provider_config.api != api:
        return False
    if exchange.path == _UNTRANSLATED.get(api):
        return True
    return passes_through(route.provider_config)


def passthrough_request(
    sources: ProviderConnections,
    route: Route,
    exchange: HttpExchange,
    body: bytes,
    request: Request,
    client: ClientSide,
) -> PassthroughRequest:
    """Return the client's request for sending to the provider."""
    path = _path(exchange, request, route)
    sent = HttpRequest(path, passthrough_body(body, route), dict(client.headers))
    # A login of the caller may be bound to the exact request of the caller's program.
    own_login = route.provider_config.key == CALLER
    corrections = None if own_login else RequestCorrections(sources.corrections, route)
    framing = _framing(request)
    return PassthroughRequest(sources.upstream, route, sent, framing, client, corrections)


def _framing(request: Request) -> Framing:
    if not request.stream:
        return "whole"
    return "array" if request.extra.get("alt") == "json" else "stream"


def _path(exchange: HttpExchange, request: Request, route: Route) -> str:
    if route.provider_config.api == "gemini":
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return f"/v1beta/models/{quote_path(route.target.model)}:{method}"
    return _PATHS.get(route.provider_config.api, exchange.path)


async def reply_as_provider(exchange: HttpExchange, reply: ProviderReply) -> None:
    """Send the provider's rejection unchanged."""
    found: Mapping[str, str] = {name.lower(): value for name, value in reply.headers.items()}
    headers = {name: found[name] for name in _REJECTION_HEADERS if name in found}
    await exchange.reply(reply.status, reply.body, headers)


class PassthroughWriter:
    """Writes the provider's own events; only keep-alives and a failure are encoded here."""

    def __init__(self, encoder: Encoder, passed: PassedBytes) -> None:
        self._encoder = encoder
        self.passed = passed

    def write(self, batch: Batch) -> bytes:
        if not self.passed.exact:
            return b"".join([piece for event in batch for piece in self._encoder.feed(event)])
        written = self.passed.take()
        for event in batch:
            if isinstance(event, ev.Started):
                self._encoder.feed(event)  # events that are added get the id of the answer
            elif isinstance(event, ev.Failed) and not self.passed.failure_passed:
                written += self._failure(event)
        return written

    def close(self) -> bytes:
        if self.passed.exact:
            return self.passed.take() + self._line_end()
        return b"".join(self._encoder.close())

    def keep_alive(self) -> bytes:
        # A numbered event of ours would make the provider's own numbers wrong.
        if self.passed.exact and isinstance(self._encoder, NumberedEncoder):
            return self._line_end() + _COMMENT
        return self._line_end() + self._encoder.keep_alive()

    def _failure(self, event: ev.Failed) -> bytes:
        if isinstance(self._encoder, NumberedEncoder):
            self._encoder.continue_from(self.passed.next_number)
        return self._line_end() + b"".join(self._encoder.feed(event))

    def _line_end(self) -> bytes:
        """Return the half of a line end that has not arrived; no event of ours may follow a lone CR."""
        return b"\n" if self.passed.line_open else b""


class TurnWriter(msgspec.Struct, eq=False):
    """Writes the answer of the provider that serves the turn now: its own bytes, or ours.

    The provider may change until the first content; the encoder stays the same, so that the client
    gets one answer.
    """

    _turn: ClientTurn
    encoder: Encoder
    _translated: TranslatedWriter | None = None
    _passing: PassthroughWriter | None = None

    def write(self, batch: Batch) -> bytes:
        return self.current.write(batch)

    def close(self) -> bytes:
        return self.current.close()

    def keep_alive(self) -> bytes:
        return self.current.keep_alive()

    @property
    def current(self) -> TranslatedWriter | PassthroughWriter:
        """The writer of the provider that serves the turn now; after the first content it stays."""
        passing = self._turn.passing
        if passing is None:
            if self._translated is None:
                self._translated = TranslatedWriter(self.encoder)
            return self._translated
        if self._passing is None or self._passing.passed is not passing.passed:
            self._passing = PassthroughWriter(self.encoder, passing.passed)
        return self._passing

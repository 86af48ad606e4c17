"""Sources of answers: a server over HTTP, an encrypted node, or the demo model.

A source returns the events of one answer, a batch per chunk from the network. `attempts.py` reads
sources; `passthrough.py` has the one that also keeps the provider's own bytes.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from toolbridge import demo
from toolbridge.core import events as ev
from toolbridge.core.errors import ToolbridgeError, Unauthenticated
from toolbridge.core.ids import Ids, SeenIds
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Request
from toolbridge.core.stage import Stage
from toolbridge.core.usage import Usage
from toolbridge.environment import CALLER
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.learned_corrections import LearnedCorrections
from toolbridge.routing.nodes import Batch, Nodes
from toolbridge.routing.provider_urls import endpoint_url
from toolbridge.routing.rejections import (
    KNOWN_STATUSES,
    empty_body,
    is_html,
    is_page,
    page_error,
    rejection,
    unknown_status,
    web_page,
)
from toolbridge.routing.route import Route
from toolbridge.translate import PreparedRequest
from toolbridge.upstream.cloud_endpoint import CloudEndpoint
from toolbridge.upstream.http import Incoming, Upstream
from toolbridge.upstream.http_connection import PushSink
from toolbridge.upstream.http_request import HttpRequest, SignedRequest

if TYPE_CHECKING:
    from toolbridge.node.session.session import NodeAnswer

BETA = "anthropic-beta"
END_WAIT = 0.5
"""Seconds for the end of the bytes after the end of an answer."""
_LONGEST_BEGINNING = 4096
"""Bytes that are checked for the beginning of a web page."""
_PAGE_BEGINS = ord("<")
"""A web page begins with this or with white space, and an answer mostly with a later character."""
_DEMO_BATCH = 8
"""Events of the demo model per read."""

__all__ = [
    "Batch",
    "HttpRequest",
    "ObservedSource",
    "OnHead",
    "ProviderConnections",
    "RequestSender",
    "Source",
    "ignore_head",
]


class Source(Protocol):
    """One answer while it arrives. The reader closes it when it stops reading."""

    passing: bool
    """Whether content was read that no event describes; true only in passthrough."""

    async def read(self) -> Batch | None:
        """Return the events of the next chunk, None at the end."""
        ...

    async def close(self) -> None: ...


class ObservedSource:
    """A source whose events are also passed to a callback."""

    def __init__(self, source: Source, on_batch: Callable[[Batch], None]) -> None:
        self._source = source
        self._on_batch = on_batch
        self.passing = source.passing

    async def read(self) -> Batch | None:
        batch = await self._source.read()
        self.passing = self._source.passing
        if batch:
            self._on_batch(batch)
        return batch

    async def close(self) -> None:
        await self._source.close()


OnHead: TypeAlias = Callable[[Mapping[str, str]], None]
"""Called with the headers of each response of the provider, rejections included."""


def ignore_head(_: Mapping[str, str]) -> None:
    """Do nothing with the provider's headers."""


class ProviderConnections:
    """The open connections of one gateway or client to its providers and nodes."""

    def __init__(self, upstream: Upstream, env: Mapping[str, str] = os.environ) -> None:
        self.upstream = upstream
        self.nodes = Nodes(env)
        self.seen_ids = SeenIds()
        """Message ids that were sent to clients unchanged, to detect a repeated one."""
        self.corrections = LearnedCorrections()

    def source(
        self,
        route: Route,
        ready: PreparedRequest,
        ids: Ids,
        on_head: OnHead = ignore_head,
        trace: ExchangeTrace | None = None,
    ) -> Source:
        """Return the source of the answer; the request is sent at its first read."""
        if route.is_demo:
            return DemoSource(ready.request, ids)
        if route.is_node:
            return NodeSource(self.nodes, route, ready, ids)
        outgoing = ready.outgoing
        request = HttpRequest(outgoing.path, dump_bytes(outgoing.body), outgoing.headers)
        sender = RequestSender(self.upstream, route, request, on_head, trace)
        decoder = route.codec.stream_decoder(ids)
        return HttpSource(sender, decoder, decoder.feed)

    async def close(self) -> None:
        await self.corrections.close()
        await self.nodes.close()


class DemoSource:
    """The demo model's answer, a few events per read, as a network would deliver it."""

    passing = False

    def __init__(self, request: Request, ids: Ids) -> None:
        self._request = request
        self._ids = ids
        self._events: Batch | None = None
        self._position = 0

    async def read(self) -> Batch | None:
        if self._events is None:
            self._events = demo.answer(self._request, self._ids)
        else:
            await asyncio.sleep(0)  # other tasks run, and a closed connection is noticed
        batch = self._events[self._position : self._position + _DEMO_BATCH]
        self._position += _DEMO_BATCH
        return batch or None

    async def close(self) -> None:
        self._events = []


class NodeSource:
    """An encrypted node's answer. The first read opens the node, pays for a job and sends."""

    passing = False

    def __init__(self, nodes: Nodes, route: Route, ready: PreparedRequest, ids: Ids) -> None:
        self._nodes = nodes
        self._route = route
        self._ready = ready
        self._ids = ids
        self._asked = False
        self._answer: NodeAnswer | None = None
        self._tokens = 0

    async def read(self) -> Batch | None:
        if not self._asked:
            self._asked = True
            self._answer = await self._ask()
        batch = await self._answer.read() if self._answer is not None else None
        if batch is None or not self._ready.stops:
            return batch
        # The node sends no count for an answer that we cut, and a delta is one token of it.
        self._tokens += sum(isinstance(event, ev.TextDelta) for event in batch)
        return _with_count(batch, self._tokens)

    async def _ask(self) -> "NodeAnswer":
        from toolbridge.node.session.exchange import Prompt

        node = await self._nodes.open(self._route.provider, self._route.provider_config)
        return node.answer(Prompt(self._ready.outgoing.body, ids=self._ids))

    async def close(self) -> None:
        """Stop the node if it is still writing. A source that was never read sends nothing."""
        self._asked = True
        if self._answer is not None:
            await self._answer.close()


def _with_count(batch: Batch, tokens: int) -> Batch:
    """Return `batch` with the tokens so far; nothing may come before `Started`."""
    index = 1 if isinstance(batch[0], ev.Started) else 0
    return [*batch[:index], ev.UsageReported(Usage(output=tokens)), *batch[index:]]


class RequestSender(msgspec.Struct, frozen=True):
    """Sends one HTTP request to a provider; used for translated requests and passthrough."""

    _upstream: Upstream
    route: Route
    _request: HttpRequest
    _on_head: OnHead = ignore_head
    _trace: ExchangeTrace | None = None

    def open(self) -> Awaitable[Incoming]:
        """Send the request and return its response; raise for a rejection."""
        return self.send(refuses=True)

    async def _refused(self, incoming: Incoming) -> ToolbridgeError:
        """Read a rejection or a web page; return the error about it."""
        try:
            if incoming.status >= 400:
                return await rejection(incoming, self.route)
            return await web_page(incoming, self.route.provider)
        finally:
            await incoming.release()

    async def send(self, *, refuses: bool = False) -> Incoming:
        """Return the response or the rejection; raise for a redirect and other statuses.

        With `refuses`, raise for a rejection and for a web page as well.
        """
        if self.route.provider_config.key == CALLER and _LOGIN.isdisjoint(self._request.headers):
            raise Unauthenticated(_no_login(self.route.provider), provider=self.route.provider)
        trace, request = self._trace, self._request
        if trace is None:
            incoming = await self._ask()
        else:
            trace.sent(request.path, request.body, request.headers)
            try:
                incoming = await self._ask()
            except ToolbridgeError as error:
                trace.broke(error.problem)
                raise
        endpoint = self.route.endpoint
        if endpoint is not None:
            if incoming.status in {401, 403} and endpoint.renew():
                await incoming.release()
                incoming = await self._ask()
            kind = incoming.headers.get("content-type", "")
            if stage := endpoint.unwrapping(self.route.provider_config.api, kind):
                incoming.unwrap(stage)
        headers = incoming.headers
        self._on_head(headers)
        if trace is not None:
            trace.answered(incoming.status, headers)
            incoming.observer = trace if trace.records else None
        if incoming.status not in KNOWN_STATUSES:
            try:
                raise await unknown_status(incoming, self.route.provider)
            finally:
                await incoming.release()
        if refuses and (incoming.status >= 400 or is_html(headers)):
            raise await self._refused(incoming)
        return incoming

    def _ask(self) -> Awaitable[Incoming]:
        route, request = self.route, self._request
        if route.endpoint is not None:
            return self._ask_cloud(route.endpoint)
        known = None if request.headers else route.sent_heads.get(request.path)
        url, headers = known or self._head()
        return self._post(url, headers, request.body)

    async def _ask_cloud(self, endpoint: CloudEndpoint) -> Incoming:
        signed = await self._sign(endpoint)
        return await self._post(signed.url, signed.headers, signed.body)

    def _post(self, url: str, headers: dict[str, str], body: bytes) -> Awaitable[Incoming]:
        config = self.route.provider_config
        waits = (config.connect_timeout, config.idle_timeout)
        provider = self.route.provider
        return self._upstream.ask(
            "POST", url, provider=provider, body=body, headers=headers, waits=waits
        )

    def _head(self) -> tuple[str, dict[str, str]]:
        """Return the URL and the headers; keep them if all requests to the path have the same."""
        route, request = self.route, self._request
        authorization = route.codec.authorize(route.key) if route.key else {}
        config = route.provider_config
        url = endpoint_url(route.provider, config, request.path)
        head = url, merged_headers(_JSON, request.headers, config.headers, authorization)
        if not request.headers:
            route.sent_heads[request.path] = head
        return head

    async def _sign(self, endpoint: CloudEndpoint) -> SignedRequest:
        """Return the request with its URL and its credentials, which a retry may renew."""
        route, request = self.route, self._request
        headers = merged_headers(_JSON, request.headers, route.provider_config.headers)
        headed = HttpRequest(request.path, request.body, headers)
        return await endpoint.sign(route.provider_config.api, route.target.model, headed)


_JSON = {"content-type": "application/json"}
_LOGIN = frozenset({"authorization", "x-api-key", "x-goog-api-key"})


def _no_login(provider: str) -> str:
    return (
        f'{provider} is used with the login of each caller (key = "caller"), and this request has '
        "none. Send it as Authorization: Bearer or x-api-key to one of the model APIs; if the gateway "
        "has a key of its own, send that as x-toolbridge-key"
    )


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of all layers; a later one replaces an earlier one.

    Anthropic, `anthropic-beta`: the values of all layers are joined by commas.
    """
    merged: dict[str, str] = {}
    betas: dict[str, None] = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name.lower()] = value
            if name.lower() == BETA:
                betas |= dict.fromkeys(beta.strip() for beta in value.split(","))
    return merged | {BETA: ",".join(filter(None, betas))} if betas else merged


class HttpSource(msgspec.Struct, eq=False):
    """The answer of a server over HTTP. A class with `read`, which costs less than a generator."""

    _opening: RequestSender
    _decoder: Stage[bytes, ev.Event]
    decode: Callable[[bytes], Batch]
    """The decoder's `feed`."""
    passing: bool = False
    _incoming: Incoming | None = None
    _ended: bool = False
    _begun: bytes | None = b""
    """The first bytes, until the first event: a web page may have a wrong content type."""

    async def read(self) -> Batch | None:
        incoming = self._incoming
        if incoming is None:
            incoming = self._incoming = await self._opening.open()
        while True:
            piece = incoming.read_now()
            if piece is None:
                piece = await incoming.read()
            if not piece:
                break
            if self._begun is not None:
                if not self._begun and piece[0] > _PAGE_BEGINS:
                    self._begun = None
                else:
                    self._check_beginning(incoming, piece)
            if batch := self.decode(piece):
                self._begun = None
                return batch
        if self._ended:
            return None
        self._ended = True
        if self._begun is not None and not self._begun.strip():
            raise empty_body(incoming, self._opening.route.provider)
        return self._decoder.close() or None

    async def push(self, sink: PushSink) -> bool:
        """Pass the bytes to `sink` as they arrive, until it returns False or the answer ends.

        Return whether that is possible here. What `sink` did not get is read as usual; `sink` calls
        `decode` for what it gets.
        """
        if self._incoming is None or self._begun is not None:
            return False
        return await self._incoming.push(sink)

    @property
    def has_arrived(self) -> bool:
        """Whether all bytes of the answer have arrived."""
        return self._incoming is None or self._incoming.has_arrived

    async def finish(self) -> None:
        """Wait briefly for the end of the bytes, so that the connection can be used again."""
        with suppress(TimeoutError, ToolbridgeError):
            async with asyncio.timeout(END_WAIT):
                while self._incoming is not None and await self._incoming.read():
                    pass

    def _check_beginning(self, incoming: Incoming, piece: bytes) -> None:
        self._begun = begun = (self._begun or b"") + piece
        if is_page(begun):
            raise page_error(begun, incoming.status, self._opening.route.provider)
        if len(begun) > _LONGEST_BEGINNING:
            self._begun = None

    async def close(self) -> None:
        if self._incoming is not None:
            self._incoming.end()

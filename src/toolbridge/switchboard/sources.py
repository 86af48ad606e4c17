"""Where an answer comes from: the demo model, a server over HTTP, or an encrypted node.

Each kind of source gives what the model does, a batch per delivery, and raises while nothing was
said.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import Protocol

from toolbridge import demo
from toolbridge.config import ProviderConfig
from toolbridge.core import events as ev
from toolbridge.core.codec import Outgoing
from toolbridge.core.errors import ToolbridgeError
from toolbridge.core.ids import Ids
from toolbridge.core.json import dump_bytes
from toolbridge.core.messages import Request
from toolbridge.core.usage import Usage
from toolbridge.switchboard.nodes import Batch, Nodes
from toolbridge.switchboard.refusals import check_status, rejection
from toolbridge.switchboard.roster import Route
from toolbridge.translate import Plan
from toolbridge.upstream.http import Incoming, Upstream

__all__ = ["Batch", "Source", "Sources", "base_url", "send"]


class Source(Protocol):
    """One answer on its way. Whoever stops reading closes it."""

    async def read(self) -> Batch:
        """Return what was delivered next, nothing at the end."""
        ...

    async def close(self) -> None: ...


class Sources:
    """What one gateway or client has open to the places that answer."""

    def __init__(self, upstream: Upstream, env: Mapping[str, str] = os.environ) -> None:
        self.upstream = upstream
        self.nodes = Nodes(env)

    def source(self, route: Route, ready: Plan, ids: Ids) -> Source:
        """Return what the model behind `route` answers, yet to be asked for."""
        if route.is_demo:
            return Generated(from_demo(ready.request, ids))
        if route.is_node:
            return Generated(from_node(self.nodes, route, ready, ids))
        return FromServer(self.upstream, route, ready.outgoing, ids)

    async def close(self) -> None:
        await self.nodes.close()


class Generated:
    """A source that a generator makes."""

    def __init__(self, batches: AsyncGenerator[Batch, None]) -> None:
        self._batches = batches

    async def read(self) -> Batch:
        async for batch in self._batches:
            if batch:
                return batch
        return []

    async def close(self) -> None:
        await self._batches.aclose()


async def from_demo(request: Request, ids: Ids) -> AsyncGenerator[Batch, None]:
    """Yield the demo model's answer as a network would deliver it: a few words at a time."""
    events = demo.answer(request, ids)
    for start in range(0, len(events), 8):
        yield events[start : start + 8]
        await asyncio.sleep(0)  # let others in, and let a client that left be noticed


async def from_node(
    nodes: Nodes, route: Route, ready: Plan, ids: Ids
) -> AsyncGenerator[Batch, None]:
    """Yield a node's answer. Whoever stops reading stops the node."""
    from toolbridge.node.exchange import Prompt

    prompt = Prompt(ready.outgoing.body, ids=ids)
    tokens = 0
    async with aclosing(nodes.answer(route.provider, route.place, prompt)) as answer:
        async for batch in answer:
            # An answer that we cut never gets the node's own count; a piece of it is a token.
            tokens += sum(isinstance(event, ev.TextDelta) for event in batch)
            yield _counted(batch, tokens) if ready.stops else batch


def _counted(batch: Batch, tokens: int) -> Batch:
    at = 1 if isinstance(batch[0], ev.Started) else 0
    return [*batch[:at], ev.UsageReported(Usage(output=tokens)), *batch[at:]]


class FromServer:
    """A server's answer over HTTP. No generator: every word of every stream comes this way."""

    def __init__(self, upstream: Upstream, route: Route, outgoing: Outgoing, ids: Ids) -> None:
        self._upstream = upstream
        self._route = route
        self._outgoing = outgoing
        self._decoder = route.codec.stream_decoder(ids)
        self._incoming: Incoming | None = None
        self._ended = False

    async def read(self) -> Batch:
        incoming = self._incoming
        if incoming is None:
            incoming = await _open(self._upstream, self._route, self._outgoing)
            self._incoming = incoming
        while piece := await incoming.read():
            if batch := self._decoder.feed(piece):
                return batch
        if self._ended:
            return []
        self._ended = True
        return self._decoder.close()

    async def close(self) -> None:
        if self._incoming is not None:
            await self._incoming.release()


async def _open(upstream: Upstream, route: Route, outgoing: Outgoing) -> Incoming:
    body = dump_bytes(outgoing.body)
    incoming = await send(upstream, route, outgoing.path, body, outgoing.headers)
    if incoming.status < 400:
        return incoming
    try:
        raise await rejection(incoming, route)
    finally:
        await incoming.release()


async def send(
    upstream: Upstream, route: Route, path: str, body: bytes, headers: dict[str, str]
) -> Incoming:
    """Send a request; return an answer or a rejection, and raise for what is neither."""
    place = route.place
    incoming = await upstream.ask(
        "POST",
        base_url(place) + path,
        provider=route.provider,
        body=body,
        headers={
            "content-type": "application/json",
            **place.headers,
            **(route.codec.authorize(route.key) if route.key else {}),
            **headers,
        },
        waits=(place.connect_timeout, place.idle_timeout),
    )
    try:
        check_status(incoming, route.provider)
    except ToolbridgeError:
        await incoming.release()
        raise
    return incoming


def base_url(place: ProviderConfig) -> str:
    """Return where paths of the place's API begin, however its URL was given.

    OpenAI's paths begin behind `/v1`, those of the others in front of their version.
    """
    return _base_url(place.url, place.api)


@lru_cache(256)
def _base_url(given: str, api: str) -> str:
    url = given.rstrip("/")
    if api.startswith("openai"):
        bare = url.count("/") == 2
        return f"{url}/v1" if bare else url
    return re.sub(r"/v1(beta)?$", "", url) if api != "ollama" else url

"""Sends requests to providers for the SDK; connections open with the first request."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial

from msgspec.structs import replace

from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.embeddings import EmbeddingRequest, Embeddings
from toolbridge.core.errors import ToolbridgeError, Unsupported, error_of, name_provider
from toolbridge.core.messages import Loss
from toolbridge.core.stage import Stage
from toolbridge.core.usage import Usage
from toolbridge.policy.failover import TriedAddress, chain_loss
from toolbridge.routing import Router
from toolbridge.routing.attempts import AnswerAttempts, Batch
from toolbridge.routing.embedding import embed
from toolbridge.routing.failover import AnswerChain
from toolbridge.routing.pricing import pricing
from toolbridge.routing.route import Route
from toolbridge.routing.router import TokenCount
from toolbridge.sdk.streams.options import PreparedAsk
from toolbridge.sdk.streams.retention import keep
from toolbridge.upstream.http import Upstream


class AnswerNotes:
    """Facts about an answer beside its events: losses, and the model that answers."""

    def __init__(self) -> None:
        self.address = ""
        """The model that answers, as `provider/model`."""
        self.losses: tuple[Loss, ...] = ()

        self._instead: tuple[Loss, ...] = ()

    def serve_by(self, address: str, tried: Sequence[TriedAddress]) -> None:
        """Note the model that is asked now, after those that did not answer."""
        self.address = address
        self._instead = (chain_loss(tried, address),) if tried else ()
        self.losses = self._instead

    def lose(self, losses: tuple[Loss, ...]) -> None:
        self.losses = (*self._instead, *losses)


_OTHER_LOOP = (
    "this client has connections of another event loop, and each `asyncio.run` has a loop of its own; "
    "make all requests in one `asyncio.run`, make an `AsyncClient` in each loop, or use `Client`, "
    "which has its own loop"
)


class Answers:
    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._upstream = Upstream()
        self._router = Router(config, self._upstream, env)
        self._opening = asyncio.Lock()
        self._entered = False
        self._looked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the connections."""

    async def open(self) -> None:
        """Open the connections and discover the models, once; raise `Unsupported` in another loop."""
        if self._loop not in {None, asyncio.get_running_loop()}:
            raise Unsupported(_OTHER_LOOP)
        async with self._opening:
            if not self._entered:
                self._loop = asyncio.get_running_loop()
                await self._upstream.__aenter__()
                self._entered = True
            if not self._looked:
                await self._router.model_routes.discover()
                self._looked = True

    async def close(self) -> None:
        if self._loop is not None and self._loop.is_closed():
            self._entered = False  # its connections ended with it
        if self._entered:
            self._entered = False
            await self._router.close()
            await self._upstream.__aexit__(None, None, None)
            await asyncio.sleep(
                0
            )  # a transport closes its socket in the next iteration of the loop

    async def answer(self, order: PreparedAsk, notes: AnswerNotes) -> AsyncGenerator[Batch, None]:
        """Yield the events of an answer; raise only before the first event."""
        await self.open()
        router = self._router
        counts: dict[str, TokenCount] = {}

        async def open_attempts(route: Route, tried: Sequence[TriedAddress]) -> AnswerAttempts:
            notes.serve_by(route.address, tried)
            counted = counts[route.address] = router.admit(order.request, route)
            kept = keep(order.request, route.target, route.provider_config.api, order.retention)
            there = replace(route, target=kept.target)
            return router.attempts(kept.request, there, counted.tokens, on_losses=notes.lose)

        find = partial(router.rules.addresses, order.request)
        chain = router.chain(order.request.model, open_attempts, find=find)
        await chain.prepare()
        last: ev.Event | None = None
        usage = Usage()
        try:
            async with aclosing(_priced(chain)) as batches:
                async for batch in batches:
                    last = batch[-1] = _attributed(batch[-1], chain.route.provider)
                    usage = _last_usage(batch, usage)
                    yield batch
        except ToolbridgeError as error:
            if len(chain.tried) > 1:
                raise
            raise error_of(name_provider(error.problem, chain.route.provider)) from error
        if isinstance(last, ev.Finished):
            route = chain.route
            notes.losses += router.learn(usage, counts[route.address], route)

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """Return one vector per text."""
        await self.open()
        route = await self._router.model_routes.route(request.model)
        answer, _ = await embed(self._upstream, route, request)
        return answer


def _last_usage(batch: Batch, known: Usage) -> Usage:
    """Return the count that `batch` reports last; `known` where it reports none."""
    counts = [event.usage for event in batch if isinstance(event, ev.UsageReported)]
    return counts[-1] if counts else known


def _attributed(event: ev.Event, provider: str) -> ev.Event:
    """Return a failure event with the name of its provider."""
    if not isinstance(event, ev.Failed) or event.problem.provider:
        return event
    problem = name_provider(event.problem, provider)
    return ev.Failed(problem)


async def _priced(chain: AnswerChain) -> AsyncGenerator[Batch, None]:
    """Yield the events, with the cost added to every usage if the price is known."""
    costs: Stage[ev.Event, ev.Event] | None = None
    async with aclosing(chain.events()) as batches:
        async for batch in batches:
            if costs is None and any(isinstance(event, ev.UsageReported) for event in batch):
                costs = await pricing(chain.route, time.time())
            if costs is None:
                yield batch
            else:
                yield [priced for event in batch for priced in costs.feed(event)]

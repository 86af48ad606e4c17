"""Sends requests to providers for the SDK; connections open with the first request."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.embeddings import EmbeddingRequest, Embeddings
from toolbridge.core.errors import ToolbridgeError, error_of, name_provider
from toolbridge.core.messages import Loss
from toolbridge.core.stage import Stage
from toolbridge.core.usage import Usage
from toolbridge.routing import Router
from toolbridge.routing.attempts import AnswerAttempts, Batch
from toolbridge.routing.embedding import embed
from toolbridge.routing.models import Route
from toolbridge.routing.pricing import pricing
from toolbridge.sdk.streams.options import PreparedAsk
from toolbridge.sdk.streams.retention import keep
from toolbridge.upstream.http import Upstream


class AnswerNotes:
    """Facts about an answer beside its events: losses, and the model that answers."""

    def __init__(self) -> None:
        self.address = ""
        """The model that answers, as `provider/model`."""
        self.losses: tuple[Loss, ...] = ()

    def lose(self, losses: tuple[Loss, ...]) -> None:
        self.losses = losses


class Answers:
    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._upstream = Upstream()
        self._router = Router(config, self._upstream, env)
        self._opening = asyncio.Lock()
        self._entered = False
        self._looked = False

    async def open(self) -> None:
        """Open the connections and discover the models, once."""
        async with self._opening:
            if not self._entered:
                await self._upstream.__aenter__()
                self._entered = True
            if not self._looked:
                await self._router.model_routes.discover()
                self._looked = True

    async def close(self) -> None:
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
        route = (await router.rules.choose(order.request)).route
        counted = router.admit(order.request, route)
        notes.address = route.address
        kept = keep(order.request, route.target, route.provider_config.api, order.retention)
        there = replace(route, target=kept.target)
        attempts = router.attempts(kept.request, there, counted.tokens, on_losses=notes.lose)
        last: ev.Event | None = None
        usage = Usage()
        try:
            async with aclosing(_priced(attempts, route)) as batches:
                async for batch in batches:
                    last = batch[-1] = _attributed(batch[-1], route.provider)
                    usage = _last_usage(batch, usage)
                    yield batch
        except ToolbridgeError as error:
            raise error_of(name_provider(error.problem, route.provider)) from error
        if isinstance(last, ev.Finished):
            notes.losses += router.learn(usage, counted, route)

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


async def _priced(attempts: AnswerAttempts, route: Route) -> AsyncGenerator[Batch, None]:
    """Yield the events, with the cost added to every usage if the price is known."""
    costs: Stage[ev.Event, ev.Event] | None = None
    async with aclosing(attempts.events()) as batches:
        async for batch in batches:
            if costs is None and any(isinstance(event, ev.UsageReported) for event in batch):
                costs = await pricing(route, time.time())
            if costs is None:
                yield batch
            else:
                yield [priced for event in batch for priced in costs.feed(event)]

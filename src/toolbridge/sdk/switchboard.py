"""Connects a request with whoever serves its model, and passes on what is said."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from toolbridge.accounting.calibrate import Calibration
from toolbridge.accounting.cost import Pricing, Rates
from toolbridge.accounting.count import estimate_request
from toolbridge.accounting.tariff import tariff
from toolbridge.config import Config
from toolbridge.core import events as ev
from toolbridge.core.errors import UnknownModel
from toolbridge.core.json import dumps
from toolbridge.core.messages import Loss, Request, Text
from toolbridge.core.stage import Passage, Stage
from toolbridge.policy.limits import check_window
from toolbridge.sdk.options import Order
from toolbridge.sdk.retention import keep
from toolbridge.server.answering import Answering, Batch
from toolbridge.server.auth import is_loopback
from toolbridge.server.roster import Roster, Route
from toolbridge.translate import Plan, Wishes, plan
from toolbridge.upstream.http import Upstream


class Notes:
    """What became known of an answer beside what was said."""

    def __init__(self) -> None:
        self.address = ""
        """Who answers, as `provider/model`."""
        self.losses: tuple[Loss, ...] = ()


class Switchboard:
    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config = config
        self._upstream = Upstream()
        self._roster = Roster(config, self._upstream, env)
        self._calibration = Calibration()
        self._opening = asyncio.Lock()
        self._entered = False
        self._looked = False

    async def open(self) -> None:
        """Open the connections and find out who serves, once."""
        async with self._opening:
            if not self._entered:
                await self._upstream.__aenter__()
                self._entered = True
            if not self._looked:
                await self._roster.look_around()
                self._looked = True

    async def close(self) -> None:
        if self._entered:
            self._entered = False
            await self._upstream.__aexit__(None, None, None)
            await asyncio.sleep(0)  # a transport closes its socket in the turn after

    async def answer(self, order: Order, notes: Notes) -> AsyncGenerator[Batch, None]:
        """Yield what the model does; raise only while nothing was yielded."""
        await self.open()
        name = order.request.model or self._roster.default
        if not name:
            raise UnknownModel("no model is named, and none is the default", where="model")
        route = await self._roster.route(name)
        raw = estimate_request(order.request)
        tokens, _ = self._calibration.apply(route.address, raw)
        check_window(tokens, route.target.window, 0)
        ready = self._plan(order, route, tokens)
        notes.address, notes.losses = route.address, ready.losses
        heal = self._config.heal if route.settings.heal is None else route.settings.heal
        answering = Answering(self._upstream, route, order.request, ready, heal=heal)
        counted = 0
        async with aclosing(_priced(answering, route)) as batches:
            async for batch in batches:
                counted = _input_of(batch[-1]) or counted
                yield batch
        if counted:
            self._calibration.learn(route.address, raw, counted)

    def _plan(self, order: Order, route: Route, tokens: int) -> Plan:
        kept = keep(order.request, route.target, route.place.api, order.retention)
        wishes = Wishes(
            thinking=self._config.thinking,
            sequential=route.settings.sequential_tools,
            prompt_tokens=tokens,
        )
        codec = None if route.is_demo else route.codec
        ready = plan(kept.request, codec, kept.target, wishes)
        if kept.request.output is None or not _schema_lost(ready.losses):
            return ready
        return plan(_told(kept.request), codec, kept.target, wishes)


async def _priced(answering: Answering, route: Route) -> AsyncGenerator[Batch, None]:
    """Yield what is said with its cost: after every count, where anybody knows the price."""
    pricing: Stage[ev.Event, ev.Event] | None = None
    async with aclosing(answering.events()) as batches:
        async for batch in batches:
            if pricing is None and any(isinstance(event, ev.UsageReported) for event in batch):
                pricing = await _pricing(route)
            if pricing is None:
                yield batch
            else:
                yield [priced for event in batch for priced in pricing.feed(event)]


async def _pricing(route: Route) -> Stage[ev.Event, ev.Event]:
    given = route.settings.rates
    model, provider = route.target.model, route.provider
    if given is not None:
        rates = Rates(**msgspec.structs.asdict(given))
        return Pricing(model, provider, rates, at=time.time())
    if route.is_demo or is_loopback(urlsplit(route.place.url).hostname or ""):
        return Passage()
    # The price list is large; it is read beside the loop, once.
    await asyncio.to_thread(tariff, model, provider)
    return Pricing(model, provider, at=time.time())


def _input_of(event: ev.Event) -> int:
    return event.message.usage.input_total if isinstance(event, ev.Finished) else 0


def _schema_lost(losses: tuple[Loss, ...]) -> bool:
    return any(loss.what in {"output", "output.schema"} for loss in losses)


def _told(request: Request) -> Request:
    """Return `request` with its format in words, for a place that cannot be held to one."""
    schema = request.output.schema if request.output else None
    shape = f", of the shape of this JSON Schema:\n{dumps(schema)}" if schema else "."
    return replace(request, system=(*request.system, Text(f"Answer with JSON only{shape}")))

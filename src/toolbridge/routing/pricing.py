"""The cost of an answer, for the gateway, the SDK and structured streams.

The price list is large. It is loaded in a thread when the first answer of a provider with prices is
counted, and never for models that run on this machine. A model is looked up in that thread once.
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core import events as ev
from toolbridge.core.messages import Message
from toolbridge.core.stage import Identity, Stage
from toolbridge.routing.route import Route

if TYPE_CHECKING:
    from toolbridge.accounting.tariff import Rates

_MOST = 256
_looked_up: set[tuple[str, str]] = set()
"""Models and their sellers in the price list; `accounting.tariff` keeps more of them."""


async def priced(message: Message, route: Route, at: float) -> Message:
    """Return `message` with its cost if the price of the model is known."""
    if not has_price(route):
        return message
    (counted,) = (await pricing(route, at)).feed(ev.UsageReported(message.usage))
    if not isinstance(counted, ev.UsageReported) or counted.usage == message.usage:
        return message
    return msgspec.structs.replace(message, usage=counted.usage)


async def pricing(route: Route, at: float) -> Stage[ev.Event, ev.Event]:
    """Return a stage that adds the cost to every usage event of an answer from `route`."""
    if not has_price(route):
        return Identity()
    model = (route.target.model, _seller(route))
    if model in _looked_up:
        return _pricing(route, at)
    found = await asyncio.to_thread(_pricing, route, at)
    if len(_looked_up) >= _MOST:
        _looked_up.clear()
    _looked_up.add(model)
    return found


def has_price(route: Route) -> bool:
    """Return whether a price list applies; models on this machine cost nothing."""
    if route.settings.rates is not None:
        return True
    return not (route.is_demo or route.is_node or route.is_local)


async def rates_of(route: Route, at: float) -> "Rates | None":
    """Return the prices of a short prompt at the time `at`; None if they are not known."""
    return await asyncio.to_thread(_rates, route, at) if has_price(route) else None


def _rates(route: Route, at: float) -> "Rates | None":
    from toolbridge.accounting.tariff import Rates, tariff

    if (given := route.settings.rates) is not None:
        return Rates(**msgspec.structs.asdict(given))
    found = tariff(route.target.model, _seller(route))
    return found.rates(at, 0) if found else None


_SELLERS = {"mantle": "bedrock", "foundry": "azure"}


def _seller(route: Route) -> str:
    """Return the provider in the price list; a provider in a cloud may have any name."""
    cloud = route.provider_config.cloud
    return _SELLERS.get(cloud, cloud) or route.provider


def _pricing(route: Route, at: float) -> Stage[ev.Event, ev.Event]:
    from toolbridge.accounting.cost import Pricing, Rates
    from toolbridge.accounting.tariff import tariff

    given = route.settings.rates
    model, provider = route.target.model, _seller(route)
    if given is None:
        tariff(model, provider)
        return Pricing(model, provider, at=at)
    return Pricing(model, provider, Rates(**msgspec.structs.asdict(given)), at=at)

"""What an answer cost."""

import asyncio

import msgspec

from toolbridge.core.messages import Message
from toolbridge.server.auth import hostname, is_loopback
from toolbridge.server.roster import Route


async def priced(message: Message, route: Route, at: float) -> Message:
    """Return `message` with its cost, where anybody knows the price.

    The price list is large. It is loaded beside the loop when the first answer from a place with
    prices has ended, and never for models that run on this machine.
    """
    if route.settings.rates is None and _is_local(route):
        return message
    return await asyncio.to_thread(_priced, message, route, at)


def _is_local(route: Route) -> bool:
    return route.is_demo or is_loopback(hostname(route.place.url))


def _priced(message: Message, route: Route, at: float) -> Message:
    from toolbridge.accounting.cost import Rates, price

    given = route.settings.rates
    rates = Rates(**msgspec.structs.asdict(given)) if given else None
    cost = price(message.usage, route.target.model, route.provider, rates, at=at)
    if cost is None:
        return message
    usage = msgspec.structs.replace(message.usage, cost=cost)
    return msgspec.structs.replace(message, usage=usage)

"""`GET /v1/model_cards`: what is known about each model that the caller may use."""

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from toolbridge.core.errors import MalformedRequest, ToolbridgeError
from toolbridge.core.json import Json, JsonObject
from toolbridge.policy.key_scopes import allows_model
from toolbridge.policy.model_facts import JoinedFacts
from toolbridge.routing.models import ListedModel
from toolbridge.routing.pricing import has_price, rates_of
from toolbridge.routing.route import Route
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry
from toolbridge.store.probe_cards import load_card

if TYPE_CHECKING:
    from toolbridge.server.app import App

_PAGE = 60
"""Cards of one answer: a provider may be asked about each model."""
_AT_ONCE = 8
_CAPABILITIES = ("tools", "parallel", "thinking", "vision", "pdf", "audio", "schema")


async def listed(app: "App", exchange: HttpExchange, entry: Entry) -> None:
    """Answer with cards: the default model first, `q` and `after` as in a search with pages."""
    entry.note(surface="page")
    wanted, after = exchange.query("q").lower(), exchange.query("after") or "0"
    if not after.isdecimal():
        raise MalformedRequest("must be a number", where="after")
    groups = await _groups(app, exchange)
    found = [
        g for g in groups if any(wanted in text.lower() for m in g for text in (m.id, m.address))
    ]
    start = int(after)
    page = found[start : start + _PAGE]
    gate = asyncio.Semaphore(_AT_ONCE)
    cards = await asyncio.gather(*(_card(app, group, gate) for group in page))
    more = start + len(page)
    shown: JsonObject = {
        "cards": list(cards),
        "count": len(found),
        "next": more if more < len(found) else None,
    }
    await exchange.reply(200, app.gateway.redactor.json(shown))


async def _groups(app: "App", exchange: HttpExchange) -> list[list[ListedModel]]:
    """Return the listed models by their address: several names may mean one model."""
    groups: dict[str, list[ListedModel]] = {}
    for model in await app.gateway.model_routes.listed():
        key = exchange.access
        if key is None or allows_model(key.scopes, model.address, app.config.map):
            groups.setdefault(model.address, []).append(model)
    default = app.gateway.model_routes.default
    return sorted(groups.values(), key=lambda group: group[0].address != default)


async def _card(app: "App", group: list[ListedModel], gate: asyncio.Semaphore) -> Json:
    model = group[0]
    provider, _, name = model.address.partition("/")
    names: list[Json] = [one.id for one in group if one.id not in {model.address, name}]
    shown: JsonObject = {
        "address": model.address,
        "provider": provider,
        "model": name,
        "names": names,
        "default": model.address == app.gateway.model_routes.default,
        "window": model.window or None,
        **_facts(model.facts),
    }
    async with gate:
        try:
            route = await app.gateway.model_routes.route_at(model.address)
        except ToolbridgeError as error:  # such as a missing key
            return shown | {"problem": error.problem.text}
        state = app.gateway.state
        probe = await asyncio.to_thread(load_card, state, model.address) if state else None
        return shown | await _of_route(app, route) | {"probe": probe}


def _facts(facts: JoinedFacts) -> JsonObject:
    known = facts.known
    efforts: list[Json] = [*(known.efforts or ())]
    return {
        "max_output": known.max_output or None,
        "capabilities": {name: known.has(name) for name in _CAPABILITIES},
        "sources": dict(facts.sources),
        "thinking": {
            "style": known.style,
            "efforts": efforts,
            "always": bool(known.always_thinks),
        },
        "retires": known.retires or None,
    }


async def _of_route(app: "App", route: Route) -> JsonObject:
    """Return what only the route knows: tool mode, prices, engine, and newer facts."""
    mode, why = app.gateway.router.tool_modes.explain(route)
    rates = await rates_of(route, time.time())
    return {
        **_facts(route.facts),
        "window": route.shown_window or None,
        "api": route.provider_config.api,
        "engine": route.engine,
        "tool_mode": {"mode": mode, "why": why},
        "free": not has_price(route),
        "rates": None if rates is None else msgspec.to_builtins(rates),
    }

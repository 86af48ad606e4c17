"""What is served where.

One row per path; the API that a path belongs to also gives the envelope of its errors.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from toolbridge import codecs
from toolbridge.core.json import Json, dump_bytes
from toolbridge.server.http import Exchange
from toolbridge.server.journal import Entry
from toolbridge.server.models import anthropic_list, anthropic_model

if TYPE_CHECKING:
    from toolbridge.server.app import App

Serve = Callable[["App", Exchange, Entry], Awaitable[None]]


async def messages(app: "App", exchange: Exchange, entry: Entry) -> None:
    await app.gateway.converse(exchange, entry, codecs.load("anthropic"))


async def count_tokens(app: "App", exchange: Exchange, entry: Entry) -> None:
    codec = codecs.load("anthropic")
    body = await exchange.body(app.config.max_body)
    request = codec.decode_request(body, counting=True)
    route = await app.gateway.roster.route(request.model)
    entry.note(surface="anthropic", gen_ai__request__model=request.model)
    counted = app.gateway.count(request, route)
    exchange.extra_headers["x-toolbridge-token-count"] = counted.accuracy
    await exchange.reply(200, dump_bytes({"input_tokens": counted.tokens}))


async def models(app: "App", exchange: Exchange, entry: Entry) -> None:
    entry.note(surface="anthropic")
    listed = await app.gateway.roster.listed()
    await exchange.reply(200, dump_bytes(anthropic_list(listed, app.started)))


async def one_model(app: "App", exchange: Exchange, entry: Entry) -> None:
    entry.note(surface="anthropic")
    name = exchange.path.removeprefix("/v1/models/")
    route = await app.gateway.roster.route(name)
    found = anthropic_model(name, route.target.window, app.started)
    await exchange.reply(200, dump_bytes(found))


async def health(app: "App", exchange: Exchange, _: Entry) -> None:
    shown: dict[str, Json] = {
        "status": "ok",
        "model": app.gateway.roster.default,
        "in_flight": len(app.in_flight) - 1,
    }
    await exchange.reply(200, dump_bytes(shown))


async def hello(app: "App", exchange: Exchange, _: Entry) -> None:
    shown = {"name": "toolbridge", "model": app.gateway.roster.default, "health": "/health"}
    await exchange.reply(200, dump_bytes(shown))


async def metrics(app: "App", exchange: Exchange, _: Entry) -> None:
    text = app.metrics.text().encode()
    await exchange.reply(200, text, {"content-type": "text/plain; version=0.0.4"})


_PATHS: dict[str, dict[str, Serve]] = {
    "/": {"GET": hello},
    "/api/hello": {"GET": hello},
    "/health": {"GET": health},
    "/health/liveness": {"GET": health},
    "/health/liveliness": {"GET": health},
    "/health/readiness": {"GET": health},
    "/metrics": {"GET": metrics},
    "/v1/messages": {"POST": messages},
    "/v1/messages/count_tokens": {"POST": count_tokens},
    "/v1/models": {"GET": models},
}
_PREFIXES: dict[str, dict[str, Serve]] = {"/v1/models/": {"GET": one_model}}


def find(path: str) -> dict[str, Serve] | None:
    """Return what serves `path`, by method."""
    found = _PATHS.get(path)
    return found or next((m for p, m in _PREFIXES.items() if path.startswith(p)), None)


_APIS = {"/v1/messages": "anthropic"}


def api_of(path: str) -> str:
    """Return the API whose error envelope a caller of `path` understands."""
    return next((api for start, api in _APIS.items() if path.startswith(start)), "anthropic")

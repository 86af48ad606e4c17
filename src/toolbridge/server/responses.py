"""The other endpoints of the Responses API: stored responses, their input items, compaction."""

import os
from collections.abc import Sequence
from functools import partial

import msgspec

from toolbridge import codecs
from toolbridge.codecs.openai_responses.compaction import (
    compaction_output,
    summary_request,
)
from toolbridge.core.codec import Target
from toolbridge.core.errors import MalformedRequest, Truncated, UnknownAnswer
from toolbridge.core.ids import Ids
from toolbridge.core.json import Json, JsonObject, dump_bytes
from toolbridge.core.messages import Request
from toolbridge.policy.failover import TriedAddress
from toolbridge.routing.attempts import AnswerAttempts
from toolbridge.routing.charge import RequestSize
from toolbridge.routing.route import Route
from toolbridge.routing.translated import ClientSide
from toolbridge.server.api_endpoint import ApiEndpoint
from toolbridge.server.app import App
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_fields import note_caller, note_model
from toolbridge.server.request_log import Entry
from toolbridge.server.stored_responses import WHY_MISSING, StoredResponse, stateless

API = "openai_responses"
MOST_ITEMS = 100


async def input_tokens(app: App, exchange: HttpExchange, entry: Entry) -> None:
    counted = await app.gateway.count_tokens(exchange, entry, ApiEndpoint(codecs.load(API)))
    shown = {"object": "response.input_tokens", "input_tokens": counted}
    await exchange.reply(200, dump_bytes(shown))


async def stored_response(app: App, exchange: HttpExchange, entry: Entry) -> None:
    if exchange.query("stream") == "true":
        from toolbridge.server import resuming

        await resuming.continue_response(app, exchange, entry, exchange.path.split("/")[3])
        return
    _, kept = await _find(app, exchange, entry)
    await exchange.reply(200, kept.body)


async def delete_response(app: App, exchange: HttpExchange, entry: Entry) -> None:
    id, _ = await _find(app, exchange, entry)
    await app.gateway.stored_responses.drop(id, exchange.caller)
    await exchange.reply(200, dump_bytes({"id": id, "object": "response", "deleted": True}))


async def cancel(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """Reject the request: only background responses can be cancelled, and this gateway has none."""
    id, _ = await _find(app, exchange, entry)
    raise MalformedRequest(
        f"the response {id!r} is complete; only a response created with `background: true` can be "
        "cancelled, and toolbridge creates none"
    )


async def input_items(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """List the input items of a stored response, newest first unless `order` is `asc`."""
    id, kept = await _find(app, exchange, entry)
    items = _items(id, kept)
    if exchange.query("order") != "asc":
        items.reverse()
    if after := exchange.query("after"):
        at = next((n for n, item in enumerate(items) if item["id"] == after), None)
        if at is None:
            raise MalformedRequest(f"the response has no item {after!r}", where="after")
        items = items[at + 1 :]
    limit = _limit(exchange.query("limit"))
    page: list[Json] = [*items[:limit]]
    shown: JsonObject = {
        "object": "list",
        "data": page,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[:limit][-1]["id"] if items else None,
        "has_more": len(items) > limit,
    }
    await exchange.reply(200, dump_bytes(shown))


async def compact(app: App, exchange: HttpExchange, entry: Entry) -> None:
    """Replace a conversation by its user messages and a summary from the model."""
    entry.note(surface=API)
    gateway = app.gateway
    codec = codecs.load(API)
    body = await exchange.body(app.config.max_body)
    asked = codec.decode_request(body, stream=False)
    request = stateless(await gateway.stored_responses.resume(asked, exchange.caller))
    note_caller(entry, exchange)
    summary = summary_request(request)
    size = RequestSize(0)

    async def open_attempts(route: Route, _: Sequence[TriedAddress]) -> AnswerAttempts:
        nonlocal size
        note_model(entry, API, request, route)
        counted = gateway.router.admit(summary, route)
        size = RequestSize(counted.tokens, summary.max_tokens)
        client = ClientSide(gateway.client_headers.of(exchange, route.provider_config, API))
        return gateway.router.attempts(summary, route, counted.tokens, client=client)

    find = partial(gateway.addresses, request, exchange, entry)
    chain = gateway.router.chain(request.model, open_attempts, exchange.caller, find)
    charge = gateway.charges.begin(exchange.access, entry)

    async def reserve(route: Route) -> None:
        await charge.fit(route, size)

    chain.reserve = reserve
    async with charge:
        message = charge.message = await chain.message()
        if not message.text:
            raise Truncated(
                f"{chain.route.provider} returned an empty summary; send the request again"
            )
    ids = Ids(os.urandom(16))
    usage = message.usage
    prompt_tokens = usage.input_total or size.prompt
    shown: JsonObject = {
        "id": f"resp_{ids.message().removeprefix('msg_')}",
        "object": "response.compaction",
        "created_at": int(entry.at),
        "output": compaction_output(_encoded(request), message.text, ids),
        "usage": {
            "input_tokens": prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": prompt_tokens + usage.output,
        },
    }
    await exchange.reply(200, dump_bytes(shown))


async def _find(app: App, exchange: HttpExchange, entry: Entry) -> tuple[str, StoredResponse]:
    entry.note(surface=API)
    id = exchange.path.split("/")[3]
    kept = await app.gateway.stored_responses.find(id, exchange.caller)
    if kept is None:
        raise UnknownAnswer(f"there is no response {id!r}: {WHY_MISSING}")
    return id, kept


def _items(id: str, kept: StoredResponse) -> list[JsonObject]:
    """Return the input items of a stored response; an item without an id gets a stable one."""
    found: list[JsonObject] = []
    for number, item in enumerate(_encoded(Request(model="", turns=kept.turns[:-1], origin=API))):
        if isinstance(item, dict):
            found.append({"id": Ids(f"{id}.{number}").message(), **item})
    return found


def _encoded(request: Request) -> list[Json]:
    bare = msgspec.structs.replace(request, system=(), tools=(), extra={})
    items = codecs.load(API).encode_request(bare, Target()).body.get("input")
    return items if isinstance(items, list) else []


def _limit(given: str) -> int:
    if not given:
        return 20
    if not given.isdigit() or not 1 <= int(given) <= MOST_ITEMS:
        raise MalformedRequest(f"must be a number from 1 to {MOST_ITEMS}", where="limit")
    return int(given)

"""The rules of `[[routes]]` in the gateway: the headers that they read, and the report of a match."""

from collections.abc import Sequence

from toolbridge.core.messages import Request
from toolbridge.policy.session_key import ROUTING_HEADERS
from toolbridge.routing import Router
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry


def routing_headers(exchange: HttpExchange) -> dict[str, str]:
    """Return the client's headers that routing reads."""
    return {name: value for name in ROUTING_HEADERS if (value := exchange.header(name))}


def key_name(exchange: HttpExchange) -> str:
    """Return the name of the caller's created key; empty without one."""
    return "" if exchange.access is None else exchange.access.name


async def choose_addresses(
    router: Router, request: Request, exchange: HttpExchange, entry: Entry
) -> Sequence[str]:
    """Return the addresses for `request`; report the rule that selected them."""
    if not router.config.routes:
        return await router.model_routes.addresses(request.model)
    chosen = await router.rules.choose(request, routing_headers(exchange), key_name(exchange))
    if chosen.why:
        shown = chosen.why.encode("ascii", "replace").decode()
        exchange.extra_headers["x-toolbridge-route"] = shown
        entry.fields["toolbridge.route"] = chosen.why
    return chosen.addresses

"""The rules of `[[routes]]` in the gateway: the headers that they read, and the report of a match."""

from toolbridge.core.messages import Request
from toolbridge.policy.session_key import ROUTING_HEADERS
from toolbridge.routing import Router
from toolbridge.routing.models import Route
from toolbridge.server.http import HttpExchange
from toolbridge.server.request_log import Entry


def routing_headers(exchange: HttpExchange) -> dict[str, str]:
    """Return the client's headers that routing reads."""
    return {name: value for name in ROUTING_HEADERS if (value := exchange.header(name))}


async def choose_route(
    router: Router, request: Request, exchange: HttpExchange, entry: Entry
) -> Route:
    """Return the route of `request`; report the rule that selected it in the log and a header."""
    if not router.config.routes:
        return await router.model_routes.route(request.model)
    chosen = await router.rules.choose(request, routing_headers(exchange))
    if chosen.why:
        shown = chosen.why.encode("ascii", "replace").decode()
        exchange.extra_headers["x-toolbridge-route"] = shown
        entry.fields["toolbridge.route"] = chosen.why
    return chosen.route

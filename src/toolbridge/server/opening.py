"""Prepares the request of a client for one route: in passthrough, translated, or answered at once.

`failover.AnswerChain` calls `open_answer` for each address of a chain, and again for the same one
where the provider needs another API. Nothing is sent here.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from toolbridge.codecs.ollama.shapes import LOAD
from toolbridge.core.codec import AnswerContext
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Loss, Request
from toolbridge.core.shared_tools import tool_traits
from toolbridge.environment import CALLER
from toolbridge.policy.failover import TriedAddress
from toolbridge.policy.native_tools import translated_tools
from toolbridge.policy.server_tools import forced_tool, refuse
from toolbridge.routing import Router
from toolbridge.routing.attempts import AnswerAttempts
from toolbridge.routing.charges import Charges
from toolbridge.routing.exchange_trace import ExchangeTrace
from toolbridge.routing.loop_turns import LARGE, in_turns
from toolbridge.routing.opened_answer import KnownAnswer, OpenedAnswer
from toolbridge.routing.route import Route
from toolbridge.routing.translated import ClientSide
from toolbridge.server.caller_login import ClientHeaders
from toolbridge.server.client_turn import ClientTurn
from toolbridge.server.http import IncomingRequest
from toolbridge.server.opaque_tokens import OpaqueTokens
from toolbridge.server.passthrough import is_passed_through, passthrough_request
from toolbridge.server.rule_routes import routing_headers
from toolbridge.server.server_tool_turns import GatewayTools
from toolbridge.server.stored_responses import KeptSearches, StoredResponses, needs_store, stateless

if TYPE_CHECKING:
    from toolbridge.policy.server_tool_plan import ServerToolPlan
    from toolbridge.server.inner_call_meter import InnerCallMeter


class OpeningGateway(Protocol):
    """The services of the gateway that prepare requests."""

    router: Router
    tools: GatewayTools
    charges: Charges
    client_headers: ClientHeaders
    stored_responses: StoredResponses
    searches: KeptSearches
    opaque_tokens: OpaqueTokens

    def permit_model(self, exchange: IncomingRequest, address: str) -> None: ...


async def open_answer(
    gateway: OpeningGateway,
    turn: ClientTurn,
    body: bytes,
    route: Route,
    tried: Sequence[TriedAddress],
) -> OpenedAnswer:
    """Return the answer to the request of `turn` by `route`; `tried` are the addresses before it."""
    exchange, request = turn.exchange, turn.request
    route = route.serving(turn.codec.name, request) if route.others else route
    # After a rejection of passthrough because of the API.
    other_api = turn.passing is not None and turn.passing.needs_other_api
    turn.serve_by(route, tried)
    turn.passing = turn.counted = None
    passes = turn.same_api and not other_api and _passes(gateway, turn, route)
    # In passthrough the provider stores its own responses.
    stored = not passes and needs_store(request)
    if stored:
        request = await gateway.stored_responses.resume(request, exchange.caller)
        request = await gateway.searches.restored(request, exchange.caller)
    if gateway.tools.wants(request, route, exchange.access):
        plan, lost = await gateway.tools.plan(
            request, route, exchange.access, agent=turn.from_agent
        )
        if plan is not None and (direct := _direct(gateway, turn, request, plan)):
            return direct
        if lost:
            turn.edits = tuple(dict.fromkeys((*turn.edits, *lost)))
    else:
        plan = None
    asked, request = request, request if plan is None else plan.request
    if (request.tools or request.extra) and (known := _known(turn, route, request)) is not None:
        return known
    router = gateway.router
    if len(body) > LARGE:
        # The turns of the request keep their counts.
        await in_turns(router.counting(request, route.address))
    counted = router.admit(request, route)
    turn.counted = turn.kept.estimate = counted
    turn.kept.estimates[route.address] = counted
    turn.asked = AnswerContext(asked, turn.entry.at, counted.shown, turn.entry)
    exchange.extra_headers["x-toolbridge-token-count"] = counted.accuracy
    client = _client_side(gateway, turn, route, request)
    if passes:
        sources = gateway.router.sources
        turn.passing = passthrough_request(sources, route, exchange, body, request, client)
        return AnswerAttempts(turn.passing, client.trace or ExchangeTrace(), gateway.router.pause)
    request = stateless(request) if stored else request
    request = await gateway.opaque_tokens.restored(request, exchange.caller, route.maker)
    if plan is not None:
        plan = msgspec.structs.replace(plan, request=request)
        return _answer_with_tools(gateway, turn, route, plan, client)
    agent = turn.from_agent
    if len(body) > LARGE:
        sendable = router.sendable(request, route, counted.tokens, attaches=agent, client=client)
        await in_turns(sendable.preparing())
        return AnswerAttempts(sendable, client.trace or ExchangeTrace(), router.pause)
    return router.attempts(request, route, counted.tokens, attaches=agent, client=client)


def _passes(gateway: OpeningGateway, turn: ClientTurn, route: Route) -> bool:
    """Whether the client's own bytes are sent to the route."""
    exchange, request = turn.exchange, turn.request
    return (
        is_passed_through(exchange, turn.codec.name, route)
        and not gateway.router.sources.corrections.needs_other_api(route)
        and not gateway.router.describes(request, route)
        and not gateway.tools.wants(request, route, exchange.access)
        and not turn.edits  # the provider would not get them
        # After a keep-alive the client has the beginning of an answer, which ours has to continue.
        and not exchange.status
    )


def _known(turn: ClientTurn, route: Route, request: Request) -> OpenedAnswer | None:
    """Return the answer to a request that no model is asked for."""
    api, agent = route.provider_config.api, turn.from_agent
    if request.tools and tool_traits(request.tools).hosted:
        offered = translated_tools(request, route.request_encoder, route.target)
        if tool := forced_tool(offered, api, agent=agent):
            turn.lose((Loss("tools", f"{tool.name} is not available with {route.address}"),))
            turn.asked = AnswerContext(request, turn.entry.at, times=turn.entry)
            return KnownAnswer(refuse(request, tool, turn.codec, Ids(os.urandom(16))))
    if request.extra.get(LOAD) is True and not turn.same_api:
        from toolbridge.policy.load_requests import loaded_answer

        return KnownAnswer(loaded_answer(request, Ids(os.urandom(16))))
    return None


def _client_side(
    gateway: OpeningGateway, turn: ClientTurn, route: Route, request: Request
) -> ClientSide:
    exchange = turn.exchange
    headers: dict[str, str] = {}
    if turn.same_api or route.provider_config.key == CALLER:
        headers = gateway.client_headers.of(exchange, route.provider_config, turn.codec.name)
    routing = routing_headers(exchange) if route.slots > 1 else {}
    described = gateway.router.describes(request, route)
    return ClientSide(
        headers,
        turn.lose,
        turn.on_head,
        routing=routing,
        descriptions=_meter(gateway, turn, "describe_images") if described else None,
        trace=turn.kept.trace,
    )


# ── requests for which the gateway runs tools ────────────────────────────────


def _direct(
    gateway: OpeningGateway, turn: ClientTurn, request: Request, plan: "ServerToolPlan"
) -> OpenedAnswer | None:
    """Return the answer to an agent's search request, which needs no model."""
    meter, trace = _meter(gateway, turn, "web_search"), turn.kept.trace
    direct = gateway.tools.direct(plan, trace, meter, agent=turn.from_agent)
    if direct is not None:
        turn.asked = AnswerContext(request, turn.entry.at, times=turn.entry)
    return direct


def _answer_with_tools(
    gateway: OpeningGateway,
    turn: ClientTurn,
    route: Route,
    plan: "ServerToolPlan",
    client: ClientSide,
) -> OpenedAnswer:
    tokens = 0 if turn.counted is None else turn.counted.tokens
    agent = turn.from_agent

    def attempts(request: Request) -> AnswerAttempts:
        return gateway.router.attempts(request, route, tokens, attaches=agent, client=client)

    passes = turn.charging_passes(lambda one: gateway.router.count(one, route.address).tokens)
    charges = (passes, _meter(gateway, turn, "web_search"))
    return gateway.tools.answer(plan, attempts, charges, turn.kept.trace, agent=agent)


def _meter(gateway: OpeningGateway, turn: ClientTurn, surface: str) -> "InnerCallMeter":
    from toolbridge.server.inner_call_meter import InnerCallMeter

    inner = turn.entry.inner
    return InnerCallMeter(
        turn.exchange,
        surface,
        charges=gateway.charges,
        permit=gateway.permit_model,
        record=lambda entry, status: inner.append((entry, status)),
    )

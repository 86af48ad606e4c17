"""Makes a conversation valid for the API that receives it.

Each API has rules about the messages of a request: Anthropic needs every `tool_use` answered in the
next user message, OpenAI limits ids and tool names, Gemini needs alternating roles. Clients that
compact, interrupt or switch models send conversations that break them. `prepare` applies the passes
of this package in order; each module names the rule it satisfies. A valid conversation is returned
unchanged and equal input gives equal output, because model servers cache prompts by their prefix.
"""

from typing import Literal

import msgspec

from toolbridge.core.codec import Rules
from toolbridge.core.messages import Loss, Request
from toolbridge.core.steps import Steps, stepwise
from toolbridge.history import roles
from toolbridge.history.call_links import link
from toolbridge.history.empty import without_empty_text
from toolbridge.history.ids import legal_ids
from toolbridge.history.names import legal_names
from toolbridge.history.own_fields import with_readable_parts
from toolbridge.history.pairing import settle
from toolbridge.history.past_calls import Heal, PastCalls, heal_past_calls
from toolbridge.history.sequence import one_at_a_time

__all__ = ["Heal", "Prepared", "prepare"]


class Prepared(msgspec.Struct, frozen=True):
    """A request that its target accepts, with the losses."""

    request: Request
    losses: tuple[Loss, ...]
    names: dict[str, str]
    """The client's name of each renamed tool, by the name that is sent."""


@stepwise
def prepare(
    request: Request,
    rules: Rules,
    *,
    sequential: bool = False,
    heal: Heal | None = None,
    same_api: bool = False,
) -> Steps[Prepared]:
    """Return `request` as its target accepts it.

    `sequential` splits parallel calls into one call per turn. `heal` corrects the arguments of past
    calls; without it they stay as the model wrote them. With `same_api`, results keep the client's
    order and messages of the same role stay separate.
    """
    losses: list[Loss] = []
    if not same_api:
        request = with_readable_parts(request)
    links = link(request.turns)
    yield
    past = heal_past_calls(request, links, heal, losses) if heal else PastCalls()
    yield
    order: Literal["calls", "client", "loose"] = "client" if same_api else "calls"
    if not rules.pairs:
        order = "loose"
    turns = settle(request.turns, links, past, losses, "calls" if sequential else order)
    yield
    if sequential:
        turns = one_at_a_time(turns)
    system = request.system
    if not rules.empty_text:
        turns, system = without_empty_text(turns, system)
    yield
    if not rules.system_in_place:
        turns = roles.fold_system(turns, losses)
    if rules.alternate:
        # Anthropic merges consecutive messages of one role itself, so its clients may send them.
        turns = roles.begin_with_user(turns if same_api else roles.merge(turns))
    turns = roles.finish(turns, request.turns, rules, losses)
    yield
    turns = legal_ids(turns, rules)
    yield
    legal = msgspec.structs.replace(request, turns=tuple(turns), system=system)
    legal, names = legal_names(legal, rules)
    return Prepared(legal, tuple(losses), names)
